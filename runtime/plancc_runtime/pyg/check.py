"""Whether a network gives on all ranks what it gives on one: the proof for a model of one's own.

A small part of the graph, with vertices of every rank, is computed in float64 by each rank alone
and by all together, forward and backward.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from plancc.plan.exchange import Exchange, Side
from plancc.plan.parts import Part
from plancc_runtime.graph import Graph
from plancc_runtime.kernels.hashing import mixed
from plancc_runtime.pyg.distributed import Distributed, Kind, tensors_in, with_tensors
from plancc_runtime.pyg.marks import is_rows, plain
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.single import SingleTransport

VERTICES = 512
CLOSE = 1e-9
ROUNDING = 1e-3
"""Share of the largest gradient below which another is compared with that share."""
ROUNDS = 64
"""Steps from the first vertices, at most."""


@dataclass(frozen=True)
class Agreement:
    """Largest differences between all ranks and one, over the largest value on one.

    Attributes:
        vertices, edges (int): Of the part that was computed.
        outputs (float): Of the network's outputs.
        gradients: Of every parameter, and of arguments by their name or place.
        first_layer: The first layer, in the order of the forward pass, whose output differs by more
            than 1e-9; "" if none does.
    """

    vertices: int
    edges: int
    outputs: float
    gradients: Mapping[str, float]
    first_layer: str

    @property
    def exact(self) -> bool:
        """Whether nothing differs by more than 1e-9."""
        return max(self.outputs, *self.gradients.values(), 0.0) <= CLOSE

    def __str__(self) -> str:
        worst = max(self.gradients, key=self.gradients.__getitem__, default="")
        found = (
            f"{self.vertices} vertices, {self.edges} edges: outputs differ by {self.outputs:.1e}, "
            f"gradients by {self.gradients.get(worst, 0.0):.1e} ({worst})"
        )
        return found + (f"; it begins in layer '{self.first_layer}'" if self.first_layer else "")


def check(model: nn.Module, graph: Graph, *args: Any, **kwargs: Any) -> Agreement:
    """How far a network on all ranks is from the same network on one. Collective.

    Parameters:
        model: As of `distributed`; it stays as it is.
        args, kwargs: What the network is called with, as of `Distributed`.

    Returns:
        The same on all ranks.

    Raises:
        InputError: As of `Distributed`.
    """
    net = Distributed(deepcopy(model), graph, 0)
    named: dict[Any, Any] = dict(enumerate(args)) | kwargs
    kinds = net.kinds_of(named)
    small = _Part(graph, _chosen(graph))
    given, whole = _chosen_arguments(named, kinds, small, graph.transport)
    alone = _run(model, small.whole(), whole, len(args))
    together = _run(model, small.of_rank(), given, len(args))
    return _compared(alone, together, small, graph.transport)


def _chosen(graph: Graph) -> Tensor:
    """Whether an own row is in the part: bool[num_rows]; some of every rank, and neighbours."""
    column, row = graph.edge_index
    chosen = torch.zeros(graph.num_rows, dtype=torch.bool)
    first = row[column >= graph.num_rows][:1] if graph.num_halo else row[:1]
    chosen[first if len(first) else slice(0, 1)] = True
    for _ in range(ROUNDS):
        read = graph.columns(chosen[:, None].to(graph.dtype))[:, 0] > 0
        grown = chosen.clone()
        grown[row[read[column]]] = True
        at_columns = torch.zeros(graph.num_rows + graph.num_halo, 1, dtype=graph.dtype)
        at_columns[column[chosen[row]]] = 1
        grown |= graph.returned(at_columns)[:, 0] > 0
        before, now = graph.all_reduce(torch.stack([chosen.sum(), grown.sum()])).tolist()
        if now > VERTICES:
            share = (VERTICES - before) / (now - before)
            drawn = (mixed(graph.vertices.long()) >> 33).double() / 2**30 + 1
            return chosen | (grown & (drawn < 2 * max(share, 0)))
        if now == before:
            break
        chosen = grown
    return chosen


class _Part:
    """The chosen vertices of all ranks, with the edges between them.

    Attributes:
        vertices (int64[n]): Ascending; `owner` (int64[n]) is the rank of each.
        source, target (int64[edges]): Places of their ends among `vertices`, by (target, source).
        own (int64[...]), edges (int64[...]): Chosen rows of this rank; numbers of its edges.
        mine, my_edges: Their places among `vertices`, and among all edges.
    """

    def __init__(self, graph: Graph, chosen: Tensor) -> None:
        self.graph = graph
        column, row = graph.edge_index
        read = graph.columns(chosen[:, None].to(graph.dtype))[:, 0] > 0
        self.edges = torch.nonzero(chosen[row] & read[column]).flatten()
        self.own = torch.nonzero(chosen).flatten()
        ends = graph.column_vertices().long()[torch.stack([column, row])[:, self.edges]]
        found = graph.transport.gather([graph.vertices.long()[self.own].numpy(), ends.numpy()])
        whole = torch.from_numpy(np.concatenate([each[0] for each in found]))
        owner = torch.repeat_interleave(
            torch.arange(len(found)), torch.tensor([len(each[0]) for each in found])
        )
        self.vertices, order = whole.sort()
        self.owner = owner[order]
        of_all = torch.from_numpy(np.concatenate([each[1] for each in found], axis=1))
        places = torch.searchsorted(self.vertices, of_all)
        by_source = places[0].argsort(stable=True)
        by_target = by_source[places[1][by_source].argsort(stable=True)]
        self.source, self.target = places[:, by_target]
        self.mine = torch.searchsorted(self.vertices, graph.vertices.long()[self.own])
        place = torch.full((len(self.vertices),), -1)
        place[self.mine] = torch.arange(len(self.mine))
        at = place[self.target]
        self.my_edges = at.argsort(stable=True)[int((at < 0).sum()) :]

    def whole(self) -> Graph:
        """All of it on one rank."""
        everything = torch.arange(len(self.vertices))
        return self._graph(everything, [everything], 0, SingleTransport())

    def of_rank(self) -> Graph:
        """The rows of this rank."""
        transport = self.graph.transport
        rows = transport.gather(self.mine.numpy())
        return self._graph(
            self.mine, [torch.from_numpy(k) for k in rows], transport.rank, transport
        )

    def _graph(self, mine: Tensor, rows: list[Tensor], rank: int, transport: Transport) -> Graph:
        """Rows `mine`, where rank r has ``rows[r]``."""
        owner = torch.zeros_like(self.owner) if len(rows) == 1 else self.owner
        place = torch.empty(len(self.vertices), dtype=torch.int64)
        for each in rows:
            place[each] = torch.arange(len(each))
        needs = [self._needed(owner, r, place) for r in range(len(rows))]
        halo = needs[rank]
        column = torch.full((len(self.vertices),), -1)
        column[mine] = torch.arange(len(mine))
        column[halo] = len(mine) + torch.arange(len(halo))
        here = owner[self.target] == rank
        order = place[self.target[here]].argsort(stable=True)
        counts = torch.bincount(place[self.target[here]], minlength=len(mine))
        sent = [place[need[owner[need] == rank]] for need in needs]
        received = [halo[owner[halo] == r] for r in range(len(rows))]
        exchange = Exchange(_side(sent, rows=True), _side(received, rows=False))
        data = self.graph.plan_part.vertex_data
        vertices = self.vertices[mine].numpy().astype(np.int32)
        part = replace(
            Part.of_rows(rank, len(rows), 0, vertices, data),
            row_ptr=np.concatenate([[0], np.cumsum(counts.numpy())]),
            column=column[self.source[here][order]].numpy().astype(np.int32),
            value=np.ones(int(here.sum())),
            expand=exchange,
        )
        header = replace(
            self.graph.plan_header,
            num_vertices=len(self.vertices),
            normalization="none",
            num_nonzeros=len(self.source),
            num_parts=len(rows),
            self_loops=False,
        )
        return Graph(header, part, transport, torch.float64, torch.device("cpu"))

    def _needed(self, owner: Tensor, rank: int, place: Tensor) -> Tensor:
        """Vertices of other ranks that a rank reads, by owner and place there."""
        read = self.source[(owner[self.target] == rank) & (owner[self.source] != rank)].unique()
        by_place = read[place[read].argsort()]
        return by_place[owner[by_place].argsort(stable=True)]


def _side(messages: list[Tensor], rows: bool) -> Side:
    """One message for each rank that has any row."""
    peers = [rank for rank, each in enumerate(messages) if len(each)]
    ptr = np.cumsum([0, *(len(messages[rank]) for rank in peers)])
    row = torch.cat([messages[rank] for rank in peers]).numpy() if rows and peers else None
    return Side.of_rank(np.array(peers, np.int32), ptr, row)


def _chosen_arguments(
    named: Mapping[Any, Any], kinds: list[Kind], part: _Part, transport: Transport
) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """The arguments of the part's rows and edges: of this rank, and of all."""
    left = iter(kinds)
    own: dict[Any, Any] = {}
    whole: dict[Any, Any] = {}
    for name, value in named.items():
        of_value: list[tuple[Tensor, Tensor]] = []

        def choose(x: Tensor, found: Any = of_value) -> Tensor:
            pair = _of_part(x.detach(), next(left).what, part, transport)
            found.append(pair)
            return pair[0]

        own[name] = with_tensors(value, choose)
        wholes = iter([pair[1] for pair in of_value])
        whole[name] = with_tensors(value, lambda _, all_of=wholes: next(all_of))
    return own, whole


def _of_part(x: Tensor, kind: str, part: _Part, transport: Transport) -> tuple[Tensor, Tensor]:
    """A tensor's entries of this rank and of all; ends of edges are a mark to be replaced."""
    x = x.double() if x.is_floating_point() else x
    if kind == "ends":
        return torch.empty(2, 0, dtype=torch.int64), torch.empty(2, 0, dtype=torch.int64)
    if not kind:
        return x, x
    axis = x.ndim - 2 if kind == "inner rows" else 0
    here, at = (part.edges, part.my_edges) if kind == "edges" else (part.own, part.mine)
    moved = x.movedim(axis, 0)[here.to(x.device)].cpu()
    found = transport.gather([at.numpy(), moved.contiguous().numpy()])
    size = len(part.source) if kind == "edges" else len(part.vertices)
    whole = moved.new_zeros(size, *moved.shape[1:])
    for places, values in found:
        whole[torch.from_numpy(places)] = torch.from_numpy(values)
    return whole[at].movedim(0, axis), whole.movedim(0, axis)


@dataclass
class _Result:
    outputs: list[Tensor]
    gradients: dict[str, Tensor]
    parameters: dict[str, Tensor]
    layers: list[tuple[str, Tensor]]


def _run(model: nn.Module, graph: Graph, named: Mapping[Any, Any], num_args: int) -> _Result:
    """One forward and backward pass in float64; the loss is a fixed sum of all outputs."""
    net = Distributed(_without_caches(model).double(), graph, 0).train()
    layers: list[tuple[str, Tensor]] = []
    for name, module in net.model.named_modules():
        if name:
            module.register_forward_hook(_noting(name, layers))
    leaves: dict[str, Tensor] = {}

    def leaf(name: str, x: Tensor) -> Tensor:
        if x.dtype == torch.int64 and x.shape == (2, 0):
            return graph.edge_index
        if x.is_floating_point():
            x = leaves.setdefault(f"{name}.{len(leaves)}", x.clone().requires_grad_())
        return x

    made = {k: with_tensors(value, lambda x, k=k: leaf(str(k), x)) for k, value in named.items()}
    args = [made.pop(k) for k in range(num_args)]
    out = net(*args, **made)
    outputs = [x for _, x in tensors_in(out)]
    losses = [_weighted(x, graph) for x in outputs if x.requires_grad]
    if losses:
        torch.stack(losses).sum().backward()
    return _Result(
        [x.detach() for x in outputs],
        {name: _gradient(x) for name, x in leaves.items()},
        {name: _gradient(x) for name, x in net.model.named_parameters()},
        layers,
    )


def _without_caches(model: nn.Module) -> nn.Module:
    """A copy of a network whose layers have cached nothing of another graph."""
    found = deepcopy(model)
    for layer in found.modules():
        for name in [k for k in vars(layer) if k.startswith("_cached")]:
            setattr(layer, name, None)
    return found


def _noting(name: str, layers: list[tuple[str, Tensor]]) -> Any:
    def note(_: Any, inputs: Any, out: Any) -> None:
        if is_rows(out, 0):
            layers.append((name, plain(out).detach()))

    return note


def _weighted(x: Tensor, graph: Graph) -> Tensor:
    """A sum of outputs with weights by vertex, or of a result that all ranks have, its share."""
    if len(x) != graph.num_rows if x.ndim else True:
        return x.sum() / graph.num_ranks
    weights = (mixed(graph.vertices.long()) >> 40).double() / 2**23
    return (x.flatten(1).sum(1) * weights if x.ndim > 1 else x * weights).sum()


def _gradient(x: Tensor) -> Tensor:
    return torch.zeros_like(x) if x.grad is None else x.grad


def _compared(alone: _Result, together: _Result, part: _Part, transport: Transport) -> Agreement:
    def apart(found: Tensor, expected: Tensor) -> float:
        """The largest difference on any rank; `expected` is of all rows or edges, or the same."""
        size = len(expected) if expected.ndim else 0
        if size == len(part.vertices):
            expected = expected[part.mine]
        elif size == len(part.source):
            expected = expected[part.my_edges]
        if found.shape != expected.shape:
            found = torch.full_like(expected, torch.inf)
        return ratio(found, expected)

    def ratio(found: Tensor, expected: Tensor, least: float = 1e-30) -> float:
        off = (found - expected).abs().max() if found.numel() else found.new_zeros(())
        scale = expected.abs().max() if expected.numel() else off
        both = torch.stack([off.double(), scale.double()])
        transport.allreduce_max(both)
        return float(both[0] / both[1].clamp(min=least)) if both[0] else 0.0

    sizes = [float(x.abs().max()) for x in alone.parameters.values() if x.numel()]
    largest = torch.tensor([max(sizes, default=0.0)], dtype=torch.float64)
    transport.allreduce_max(largest)
    least = float(largest) * ROUNDING + 1e-30  # a gradient that is 0 but for rounding
    parameters = {}
    for name, value in together.parameters.items():
        transport.allreduce_sum(value)
        parameters[name] = ratio(value, alone.parameters[name], least)
    pairs = zip(together.outputs, alone.outputs, strict=True)
    layers = zip(together.layers, alone.layers, strict=True)
    begins = [name for (name, x), (_, y) in layers if apart(x, y) > CLOSE]
    return Agreement(
        vertices=len(part.vertices),
        edges=len(part.source),
        outputs=max((apart(x, y) for x, y in pairs), default=0.0),
        gradients=parameters
        | {k: apart(x, alone.gradients[k]) for k, x in together.gradients.items()},
        first_layer=begins[0] if begins else "",
    )
