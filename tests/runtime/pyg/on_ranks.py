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
Place = tuple[str, Any]
"""An argument, and what its entries are of: "" (rows), "edges", a type, a relation."""


class World(NamedTuple):
    """A graph with tensors, on all ranks or one. Others have its methods (`test_hetero_networks`).

    Attributes:
        edge_index (int64[2, edges]): Sources and targets, by (target, source).
        by_vertex, by_edge: Tensors of `Called`.
    """

    matrix: np.ndarray
    edge_index: Tensor
    by_vertex: dict[str, Tensor]
    by_edge: dict[str, Tensor]

    def __len__(self) -> int:
        return len(self.matrix)

    def edges_of(self, vertices: Tensor) -> Tensor:
        """Numbers of the edges that end in each vertex, vertex after vertex."""
        return edges_into(vertices, self.edge_index[1], len(self))

    @property
    def tensors(self) -> dict[Place, Tensor]:
        return {(n, ""): x for n, x in self.by_vertex.items()} | {
            (n, "edges"): x for n, x in self.by_edge.items()
        }

    def ends(self, graph: Any = None) -> Any:
        """The edges of all ranks, or as a rank's graph has them."""
        return self.edge_index if graph is None else graph.edge_index

    def mine(self, graph: Any = None) -> dict[Any, Tensor]:
        """Entries of tensors, of all ranks or of a rank's graph, by the second name of `Place`."""
        vertices = torch.arange(len(self)) if graph is None else graph.vertices.long()
        return {"": vertices, "edges": self.edges_of(vertices)}

    def called(self, net: Any, ends: Any, tensors: dict[Place, Tensor]) -> dict[Any, Tensor]:
        """Outputs, by what their rows are of."""
        return {"": net(edge_index=ends, **{n: x for (n, _), x in tensors.items()})}


def edges_into(vertices: Tensor, target: Tensor, size: int) -> Tensor:
    """Numbers of the edges to vertices of 0..size - 1, vertex after vertex."""
    order = torch.full((size,), -1)
    order[vertices] = torch.arange(len(vertices))
    place = order[target]
    return torch.argsort(place, stable=True)[(place < 0).sum() :]


class Run(NamedTuple):
    """Results of one rank or of one process, and which entries of tensors it has (`World.mine`)."""

    mine: dict[Any, Tensor]
    out: dict[Any, Tensor]
    gradients: dict[Place, Tensor]
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


def opened(on: Any, transport: Any) -> Any:
    """The graph of a world, by its name if it is one of `world`, as this rank has it."""
    torch.set_num_threads(1)
    header, of_rank = parts(on, transport.size) if isinstance(on, str) else on.parts(transport.size)
    plan = header, of_rank[transport.rank]
    open_plan = plancc_runtime.open if isinstance(on, str) else on.open_plan
    return open_plan(plan, transport=transport, dtype=torch.float64, threads=1)


def seeded(model: Model) -> torch.nn.Module:
    with SEEDING:
        torch.manual_seed(1)
        return model()


def on_process(model: Model, on: Any) -> Run:
    return _run(seeded(model), on, None, 1)


def on_ranks(model: Model, ranks: int, on: Any = "directed", of_rows: bool = True) -> list[Run]:
    """The same by the `distributed` of every rank, on a world or the `world` of a name.

    Unless `of_rows` outputs are of the whole graph, and a rank's loss its share of the loss.
    """
    from plancc_runtime.pyg import distributed

    def work(transport: Any) -> Run:
        graph, net = opened(on, transport), seeded(model)
        getattr(graph, "union", graph).sync_parameters(net)  # some layers leave unused ones as is
        of = world(on) if isinstance(on, str) else on
        return _run(distributed(net, graph), of, graph, None if of_rows else ranks)

    return run_ranks(ranks, work, 180)


def _run(net: torch.nn.Module, on: Any, graph: Any, shares: int | None) -> Run:
    """One forward and backward; `shares` None: the rows of outputs are of this rank's vertices."""
    mine, leaves = on.mine(graph), {}
    for place, tensor in on.tensors.items():
        leaf = tensor[mine[place[1]]]
        leaves[place] = leaf.requires_grad_() if leaf.is_floating_point() else leaf
    out, losses = on.called(net, on.ends(graph), leaves), [torch.zeros(())]
    for name, x in out.items():
        if x.requires_grad:  # the loss is the sum of outputs times these numbers
            draw = torch.Generator().manual_seed(7)
            shape = (len(x) if shares else len(on.mine()[name]), *x.shape[1:])
            weights = torch.randn(shape, generator=draw, dtype=torch.float64)
            losses.append((x * (weights / shares if shares else weights[mine[name]])).sum())
    if len(losses) > 1:
        sum(losses).backward()
    gradients = {n: _gradient(leaf) for n, leaf in leaves.items() if leaf.is_floating_point()}
    parameters = {n.removeprefix("model."): _gradient(p) for n, p in net.named_parameters()}
    buffers = {n.removeprefix("model."): each for n, each in net.named_buffers()}
    return Run(mine, {n: x.detach() for n, x in out.items()}, gradients, parameters, buffers)


def _gradient(x: Tensor) -> Tensor:
    return torch.zeros_like(x) if x.grad is None else x.grad.as_subclass(Tensor)


def close(found: Tensor, expected: Tensor, what: str, bound: float = 1e-12) -> None:
    """AssertionError unless equal to `bound` of the largest value, or of 1."""
    assert found.shape == expected.shape, f"{what}: shape {[*found.shape]}, not {[*expected.shape]}"
    if expected.numel():
        assert torch.isfinite(expected.double()).all(), f"{what}: not finite in one process"
        error = (found - expected).abs().max() / expected.abs().max().clamp(min=1)
        assert error <= bound, f"{what}: differs by {error:.1e}"


def compare(model: Model, ranks: int, on: Any = "directed", of_rows: bool = True) -> None:
    """AssertionError unless outputs, gradients, and buffers are those of one process."""
    expected = on_process(model, world(on) if isinstance(on, str) else on)
    answers = on_ranks(model, ranks, on, of_rows)
    for run in answers:
        assert run.out.keys() == expected.out.keys()
        for each, value in run.out.items():
            rows = run.mine[each] if of_rows else slice(None)
            close(value, expected.out[each][rows], f"outputs {each}")
        for each, value in run.buffers.items():
            if each in expected.buffers:
                close(value, expected.buffers[each], f"buffer {each}")
        for each, value in run.gradients.items():
            close(value, expected.gradients[each][run.mine[each[1]]], f"gradient of {each}")
    assert answers[0].parameters.keys() == expected.parameters.keys()
    for each, value in expected.parameters.items():
        close(sum(run.parameters[each] for run in answers), value, f"gradient of {each}")
