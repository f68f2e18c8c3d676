"""What every rank of a test does: python rank_main.py TASKS.pkl ANSWERS.pkl [plain]

TASKS holds a list of (kind, arguments) with the slices of all ranks; rank 0 writes the list of
answers, one per task, each a list over ranks.
"""

from __future__ import annotations

import pickle
import sys

import numpy as np
import torch

from plancc.errors import InputError, PlanccError, PlanError
from plancc_runtime.launch import open_transport
from plancc_runtime.layouts.row import RowLayout
from plancc_runtime.train import TrainOptions, train


def do_train(transport, header, parts, options):
    before = transport.traffic.as_array()
    result = train((header, parts[transport.rank]), TrainOptions(**options), transport)
    return result, transport.traffic.as_array() - before


def do_product(transport, header, parts, width, dtype, seed, max_words=None):
    """A H and A^T G with random H and G (the same on every rank before slicing)."""
    part = parts[transport.rank]
    random = np.random.default_rng(seed)
    rows = part.global_id
    h = torch.from_numpy(random.standard_normal((header.num_vertices, width))[rows]).to(dtype)
    g = torch.from_numpy(random.standard_normal((header.num_vertices, width))[rows]).to(dtype)
    if max_words is not None:
        transport.max_words, usual = max_words, transport.max_words
    layout = RowLayout(part, transport, dtype)
    buffers = layout.buffers(width)
    forward, adjoint = torch.full_like(h, torch.nan), torch.full_like(g, torch.nan)
    for _ in range(2):  # buffers are reusable
        layout.forward(h, forward, buffers)
        layout.adjoint(g, adjoint, buffers)
    if max_words is not None:
        transport.max_words = usual
    return rows, h.numpy(), g.numpy(), forward.numpy(), adjoint.numpy()


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


def main() -> None:
    transport = open_transport()
    with open(sys.argv[1], "rb") as file:
        tasks = pickle.load(file)
    answers = []
    for kind, arguments in tasks:
        answer = globals()[f"do_{kind}"](transport, **arguments)
        answers.append(transport.gather(answer))
    if transport.rank == 0:
        with open(sys.argv[2], "wb") as file:
            pickle.dump(answers, file)


main()
