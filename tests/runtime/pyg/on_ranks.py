"""A model on the whole graph in one process, and on the ranks of a plan of the same graph."""

import threading
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
import worlds
from convolutions import case_tensors
from torch import Tensor

import plancc_runtime
from plancc.graph.owners import Owners
from plancc.plan.lowering import lower
from plancc_runtime.transport.local import run_ranks

SEEDING = threading.Lock()
Model = Callable[[], torch.nn.Module]


class World(NamedTuple):
    """Sources and targets of the edges, [2, edges], by (target, source); tensors of `Called`."""

    matrix: np.ndarray
    edge_index: Tensor
    by_vertex: dict[str, Tensor]
    by_edge: dict[str, Tensor]

    def __len__(self) -> int:
        return len(self.matrix)

    def edges_of(self, vertices: Tensor) -> Tensor:
        """Numbers of the edges that end in each vertex, vertex after vertex."""
        order = torch.full((len(self),), -1)
        order[vertices] = torch.arange(len(vertices))
        place = order[self.edge_index[1]]
        return torch.argsort(place, stable=True)[(place < 0).sum() :]


class Run(NamedTuple):
    """Results of one rank or of one process, for its `vertices` and `edges`."""

    vertices: Tensor
    edges: Tensor
    out: Tensor
    gradients: dict[str, Tensor]
    parameters: dict[str, Tensor]
    buffers: dict[str, Tensor]


@cache
def world(name: str = "directed") -> World:
    """That of `worlds`; "four": a graph of 26 vertices, of four edges to each."""
    if name == "four":
        matrix = np.zeros((26, 26))
        of = np.argsort(np.random.default_rng(4).random((26, 26)), axis=1)[:, :4]
        np.put_along_axis(matrix, of, 1.0, axis=1)
    else:
        matrix = worlds.array(name)
    target, source = np.nonzero(matrix)
    tensors = case_tensors(len(matrix), len(target))
    return World(matrix, torch.from_numpy(np.stack([source, target])), *tensors)


@cache
def parts(name: str, ranks: int) -> Any:
    matrix = worlds.graph_of(world(name).matrix)
    owner = Owners(worlds.owners(matrix.num_vertices, ranks), None)
    plan = lower(matrix, owner, ranks, normalization="none", self_loops=False)
    return plan.header, [plan.part(m) for m in range(ranks)]


def opened(name: str, transport: Any) -> Any:
    """The graph of a world, as this rank has it."""
    torch.set_num_threads(1)
    header, of_rank = parts(name, transport.size)
    plan = header, of_rank[transport.rank]
    return plancc_runtime.open(plan, transport, torch.float64, threads=1)


def seeded(model: Model) -> torch.nn.Module:
    with SEEDING:
        torch.manual_seed(1)
        return model()


def on_process(model: Model, on: World) -> Run:
    everything = torch.arange(len(on)), torch.arange(on.edge_index.shape[1])
    return _run(seeded(model), on.edge_index, on, everything, lambda rows: rows, 1)


def on_ranks(model: Model, ranks: int, name: str = "directed", of_rows: bool = True) -> list[Run]:
    """The same by the `distributed` of every rank.

    Unless `of_rows` outputs are of the whole graph, and a rank's loss its share of the loss.
    """
    from plancc_runtime.pyg import distributed

    def work(transport: Any) -> Run:
        graph = opened(name, transport)
        vertices = graph.vertices.long()
        mine = vertices, world(name).edges_of(vertices)
        net = seeded(model)
        graph.sync_parameters(net)  # of which some layers leave unused ones as they were
        net = distributed(net, graph)
        shares = None if of_rows else ranks
        return _run(net, graph.edge_index, world(name), mine, lambda rows: rows, shares)

    return run_ranks(ranks, work, 180)


def _run(
    net: torch.nn.Module,
    edge_index: Tensor,
    on: World,
    mine: tuple[Tensor, Tensor],
    marked: Callable[[Tensor], Tensor],
    shares: int | None,
) -> Run:
    """One forward and backward; `shares` None: the rows of out are of this rank's vertices."""
    leaves = {}
    for tensors, chosen in zip((on.by_vertex, on.by_edge), mine, strict=True):
        for name, tensor in tensors.items():
            leaf = tensor[chosen]
            leaves[name] = leaf.requires_grad_() if leaf.is_floating_point() else leaf
    given = {n: marked(leaf) if n in on.by_vertex else leaf for n, leaf in leaves.items()}
    out = net(edge_index=edge_index, **given).as_subclass(Tensor)
    if out.requires_grad:  # the loss is the sum of outputs times these numbers
        draw = torch.Generator().manual_seed(7)
        shape = (len(out) if shares else len(on), *out.shape[1:])
        weights = torch.randn(shape, generator=draw, dtype=torch.float64)
        out.backward(weights / shares if shares else weights[mine[0]])
    gradients = {n: _gradient(leaf) for n, leaf in leaves.items() if leaf.is_floating_point()}
    parameters = {n.removeprefix("model."): _gradient(p) for n, p in net.named_parameters()}
    buffers = {n.removeprefix("model."): each for n, each in net.named_buffers()}
    return Run(*mine, out.detach(), gradients, parameters, buffers)


def _gradient(x: Tensor) -> Tensor:
    return torch.zeros_like(x) if x.grad is None else x.grad.as_subclass(Tensor)


def close(found: Tensor, expected: Tensor, what: str, bound: float = 1e-12) -> None:
    """AssertionError unless equal to `bound` of the largest value, or of 1."""
    assert found.shape == expected.shape, f"{what}: shape {[*found.shape]}, not {[*expected.shape]}"
    if expected.numel():
        assert torch.isfinite(expected.double()).all(), f"{what}: not finite in one process"
        error = (found - expected).abs().max() / expected.abs().max().clamp(min=1)
        assert error <= bound, f"{what}: differs by {error:.1e}"


def compare(model: Model, ranks: int, name: str = "directed", of_rows: bool = True) -> None:
    """AssertionError unless outputs, gradients, and buffers are those of one process."""
    expected = on_process(model, world(name))
    answers = on_ranks(model, ranks, name, of_rows)
    for run in answers:
        rows = run.vertices if of_rows else slice(None)
        close(run.out, expected.out[rows], "outputs")
        for each, value in run.buffers.items():
            if each in expected.buffers:
                close(value, expected.buffers[each], f"buffer {each}")
        for each, value in run.gradients.items():
            chosen = run.edges if each.startswith("edge") else run.vertices
            close(value, expected.gradients[each][chosen], f"gradient of {each}")
    assert answers[0].parameters.keys() == expected.parameters.keys()
    for each, value in expected.parameters.items():
        close(sum(run.parameters[each] for run in answers), value, f"gradient of {each}")
