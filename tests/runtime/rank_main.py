"""What every rank of a test does: mpirun python rank_main.py TASKS.pkl ANSWERS.pkl

TASKS holds a dict from a number of ranks to a list of (kind, arguments) with the slices of all
ranks: one launch serves all of them, on its first ranks. Rank 0 writes a dict of the lists of
answers, one per task, each a list over ranks.
"""

from __future__ import annotations

import pickle
import sys
import time

import numpy as np
import torch

from plancc.errors import InputError, PlanccError, PlanError
from plancc_runtime.layouts import halo, row
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.options import TrainOptions
from plancc_runtime.slices import check_slices
from plancc_runtime.train import train
from plancc_runtime.transport.mpi import MpiTransport, load_mpi
from plancc_runtime.transport.single import SingleTransport


def do_train(transport, header, parts, options):
    before = transport.traffic.as_array()
    result = train((header, parts[transport.rank]), TrainOptions(**options), transport)
    return result, transport.traffic.as_array() - before


def do_batches(transport, path, options):
    return train(path, TrainOptions(**options), transport)


def do_product(transport, header, parts, width, dtype, seed, group, max_words=None):
    """A H and A^T G with random H and G (the same on every rank before slicing)."""
    part = parts[transport.rank]
    random = np.random.default_rng(seed)
    vertices = part.global_id
    shape = header.num_vertices, width
    h = torch.from_numpy(random.standard_normal(shape)[vertices]).to(dtype)
    g = torch.from_numpy(random.standard_normal(shape)[vertices]).to(dtype)
    if max_words is not None:
        transport.max_words, usual = max_words, transport.max_words
    halo.GROUP_ROWS, row.GROUP_NONZEROS = group, 2 * group
    graph = LocalGraph(Block.of_part(part, header.self_loops), Resources(transport, dtype))
    for _ in range(2):  # exchanges are played again
        forward = graph.forward_product(h, "plan")
        adjoint = graph.adjoint_product(g, "plan")
    if max_words is not None:
        transport.max_words = usual
    return vertices, h.numpy(), g.numpy(), forward.numpy(), adjoint.numpy()


def do_agree(transport, failing):
    """What every rank sees when the ranks in `failing` bring an error."""
    try:
        with transport.agreement():
            if transport.rank in failing:
                raise {"I": InputError, "P": PlanError}[failing[transport.rank][0]](
                    failing[transport.rank][1:]
                )
    except PlanccError as error:
        return type(error).__name__, str(error), error is transport.agreed_error
    return None


def do_threads(transport):
    return transport.cores_per_rank()


def do_all_equal(transport, values):
    return transport.all_equal(values[transport.rank])


def do_check_slices(transport, parts, contents, paths=None):
    rank = transport.rank
    try:
        check_slices(parts[rank], contents[rank], transport, *(paths[rank:][:1] if paths else ()))
    except PlanError as error:
        return str(error)
    return None


def everywhere(transport, answer):
    """Every rank's answer, of any type."""
    return [pickle.loads(each) for each in transport.gather_bytes(pickle.dumps(answer))]


def main() -> None:
    mpi = load_mpi()
    world = mpi.COMM_WORLD
    with open(sys.argv[1], "rb") as file:
        todo = pickle.load(file)
    answers = {}
    for size, tasks in todo.items():
        mine = world.rank < size
        group = world.Split(0 if mine else mpi.UNDEFINED)
        if mine:
            transport = SingleTransport() if size == 1 else MpiTransport(group)
            done = (globals()[f"do_{kind}"](transport, **arguments) for kind, arguments in tasks)
            answers[size] = [everywhere(transport, answer) for answer in done]
        everyone = world.Ibarrier()
        while not everyone.Test():
            time.sleep(0.01)  # ranks that wait must not take the cores of those that work
    if world.rank == 0:
        with open(sys.argv[2], "wb") as file:
            pickle.dump(answers, file)


main()
