"""What every rank of test_execution does: mpirun python execution_main.py TASKS.pkl ANSWERS.pkl

TASKS holds a dict from a number of ranks to a list of (kind, arguments), ANSWERS a dict of the
lists of answers, each a list over ranks. One launch serves all, on its first ranks.
"""

from __future__ import annotations

import pickle
import sys
import time
import traceback

import numpy as np
import torch

from plancc_runtime.data import load_data
from plancc_runtime.execution.choice import execution_of
from plancc_runtime.layouts import halo, row
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.live import live_blocks
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.order import in_order
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.options import TrainOptions
from plancc_runtime.run import make_network
from plancc_runtime.transport.mpi import MpiTransport, load_mpi
from plancc_runtime.transport.single import SingleTransport

RATE = 0.5


def do_train(transport, header, parts, options, epochs):
    """Losses, weights, outputs of all rows, and traffic, of a plain loop of its own."""
    options = TrainOptions(dtype="float64", threads=1, **options)
    part = in_order(parts[transport.rank], options.row_order, options.pipeline, transport)
    data = load_data(part, transport, torch.float64, options)
    network = make_network(options, data, transport, torch.float64)
    resources = Resources(
        transport,
        torch.float64,
        overlap="overlap" in options.passes,
        wire=options.wire,
        kernel=options.kernel,
    )
    execution = execution_of(header, part, data, options, resources)
    traffic = [transport.traffic.as_array()]
    data = execution.prepare(network)
    traffic.append(transport.traffic.as_array())
    train = data.splits["train"].numpy()
    losses = []
    for epoch in range(epochs):
        view = execution.view(epoch)
        network.train()
        z = network(view.graphs, view.rows_of(data.features), view.fixed, epoch)
        outputs = np.arange(part.num_rows) if view.outputs is None else view.outputs.numpy()
        place = {r: k for k, r in enumerate(outputs.tolist())}
        loss = torch.nn.functional.cross_entropy(
            z[[place[r] for r in train.tolist()]], data.labels[train], reduction="sum"
        )
        loss = loss / data.split_sizes["train"]
        network.zero_grad()
        loss.backward()
        traffic.append(transport.traffic.as_array())
        sums = [torch.zeros_like(w) if w.grad is None else w.grad for w in network.parameters()]
        flat = torch.cat([loss.detach().reshape(1), *(g.reshape(-1) for g in sums)])
        transport.allreduce_sum(flat)
        losses.append(flat[0].item())
        with torch.no_grad():
            pieces = flat[1:].split([w.numel() for w in network.parameters()])
            for w, piece in zip(network.parameters(), pieces, strict=True):
                w -= RATE * piece.view_as(w)
    before = transport.traffic.as_array()
    network.eval()
    view = execution.whole()
    with torch.no_grad():
        z = network(view.graphs, view.rows_of(data.features), view.fixed)
    evaluation = transport.traffic.as_array() - before
    return {
        "losses": losses,
        "weights": {k: w.detach().numpy() for k, w in network.state_dict().items()},
        "vertices": part.global_id,
        "outputs": z.numpy(),
        "traffic": np.diff(traffic, axis=0),
        "evaluation": evaluation,
        "figures": execution.figures(network),
        "off": execution.off,
        "evaluates": execution.evaluates,
        "features": len(data.features),
        "rows": [graph.num_outputs for graph in execution.view(0).graphs],
    }


def do_live(transport, header, parts, layers):
    part = parts[transport.rank]
    block = Block.of_part(part, header.self_loops)
    wanted = np.flatnonzero(part.vertex_data.train_mask)
    blocks, rows = live_blocks(block, wanted, layers, transport)
    return [live is block for live in blocks], blocks, [part.global_id[r] for r in rows]


def do_product(transport, header, parts, width, dtype, wire="fp32", kernel="auto", group=1):
    """A H and A^T G with and without overlap, the halo rows, and the traffic of one A H."""
    part = parts[transport.rank]
    random = np.random.default_rng(width)
    shape = header.num_vertices, width
    h, g = (torch.from_numpy(random.standard_normal(shape)[part.global_id]).to(dtype) for _ in "hg")
    halo.GROUP_ROWS, row.GROUP_NONZEROS = group, 2 * group
    block = Block.of_part(part, header.self_loops)
    answers = []
    for overlap in (True, False):
        graph = LocalGraph(
            block, Resources(transport, dtype, overlap=overlap, wire=wire, kernel=kernel)
        )
        graph.forward_product(h, "plan")  # exchanges are played again
        before = transport.traffic.as_array()
        forward = graph.forward_product(h, "plan")
        traffic = transport.traffic.as_array() - before
        answers.append((forward.numpy(), graph.adjoint_product(g, "plan").numpy()))
    return part.global_id, answers, graph.halo(h).numpy(), traffic


def everywhere(transport, answer):
    """Every rank's answer, of any type."""
    return [pickle.loads(each) for each in transport.gather_bytes(pickle.dumps(answer))]


def main() -> None:
    torch.set_num_threads(1)
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


try:
    main()
except BaseException:
    traceback.print_exc()
    load_mpi().COMM_WORLD.Abort(1)  # the others would wait for ever
