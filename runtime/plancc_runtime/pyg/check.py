"""Whether a network gives on all ranks what it gives on one: the proof for a model of one's own.

A small part of the graph, with vertices of every rank, is computed in float64 by each rank alone
and by all together, forward and backward.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from plancc.plan.exchange import offsets, places
from plancc.plan.parts import Part, of_nonzeros
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
    named: dict[Any, Any] = dict(enumerate(args)) | kwargs
    kinds = Distributed(deepcopy(model), graph, 0).kinds_of(named)
    rows, edges = _chosen(graph)
    small = _of_rank(graph, rows)
    ends = small.column_vertices().long()[small.edge_index]
    entries = {
        "rows": _Entries.of(rows, small.vertices.long()[None], graph.transport),
        "edges": _Entries.of(edges, ends, graph.transport),
    }
    whole = _of_one(small, entries["rows"].keys[0], entries["edges"].keys)

    def here(x: Tensor, kind: str) -> Tensor:
        return x[entries[kind].chosen.to(x.device)].cpu()

    def of_all(x: Tensor, kind: str) -> Tensor:
        found = graph.transport.gather(here(x, kind).contiguous().numpy())
        return torch.from_numpy(np.concatenate(found))[entries[kind].order]

    def run(on: Graph, take: Callable[[Tensor, str], Tensor]) -> _Run:
        return _run(model, on, _given(named, kinds, on.edge_index, take), len(args))

    alone, together = run(whole, of_all), run(small, here)
    return _compared(alone, together, [*entries.values()], graph.transport)


def _chosen(graph: Graph) -> tuple[Tensor, Tensor]:
    """Whether own rows and edges are in the part: some of every rank, and neighbours.

    Returns:
        bool[num_rows] and bool[edges]
    """
    column, row = graph.edge_index
    chosen = torch.zeros(graph.num_rows, dtype=torch.bool)
    first = row[column >= graph.num_rows][:1]
    chosen[first if len(first) else slice(0, 1)] = True
    drawn = (mixed(graph.vertices.long()) >> 33).double() / 2**31 + 0.5
    for _ in range(ROUNDS):
        at_columns = torch.zeros(graph.num_rows + graph.num_halo, 1, dtype=graph.dtype)
        at_columns[column[chosen[row]]] = 1
        grown = chosen | (graph.returned(at_columns)[:, 0] > 0)
        grown[row[_at_columns(chosen, graph)[column]]] = True
        before, now = graph.all_reduce(torch.stack([chosen.sum(), grown.sum()])).tolist()
        share = (VERTICES - before) / max(now - before, 1)
        chosen |= grown & (drawn < share)
        if now == before or share < 1:
            break
    return chosen, chosen[row] & _at_columns(chosen, graph)[column]


def _at_columns(chosen: Tensor, graph: Graph) -> Tensor:
    """The same of own and of halo rows. Collective."""
    return graph.columns(chosen[:, None].to(graph.dtype))[:, 0] > 0


def _of_rank(graph: Graph, chosen: Tensor) -> Graph:
    """The graph of the chosen rows, on the same ranks. Collective."""
    part, own = graph.plan_part, chosen.numpy()
    columns = _at_columns(chosen, graph).numpy()
    row = np.repeat(np.arange(part.num_rows), np.diff(part.row_ptr))
    kept = own[row] & columns[part.column]
    halo = columns[part.num_rows :]
    count = graph.all_reduce(chosen.sum()), graph.all_reduce(torch.tensor(kept.sum()))
    header = replace(graph.plan_header, num_vertices=int(count[0]), num_nonzeros=int(count[1]))
    small = replace(
        part,
        global_id=part.global_id[own],
        num_interior=int(own[: part.num_interior].sum()),
        row_ptr=offsets(np.bincount(row[kept], minlength=part.num_rows)[own]),
        column=places(columns)[part.column[kept]],
        **of_nonzeros(part, kept),
        expand=part.expand.keep(own[part.expand.send.row], halo).renumbered(
            places(own), places(halo)
        ),
        route=None,
        links=None,
        link_exchange=None,
    )
    return Graph(header, small, graph.transport, torch.float64, torch.device("cpu"))


def _of_one(small: Graph, vertices: Tensor, ends: Tensor) -> Graph:
    """The same graph on this rank alone; `ends` of all edges, by (target, source)."""
    source, target = torch.searchsorted(vertices, ends).numpy()
    data = small.plan_part.vertex_data
    part = replace(
        Part.of_rows(0, 1, 0, vertices.numpy().astype(np.int32), data),
        row_ptr=offsets(np.bincount(target, minlength=len(vertices))),
        column=source.astype(np.int32),
        value=np.ones(len(source)),
    )
    header = replace(
        small.plan_header,
        normalization="none",
        num_nonzeros=len(source),
        num_parts=1,
        self_loops=False,
    )
    return Graph(header, part, SingleTransport(), torch.float64, torch.device("cpu"))


class _Entries(NamedTuple):
    """Rows or edges of the part.

    Attributes:
        chosen: bool[entries of this rank].
        keys (int64[1 or 2, n]): Vertices of all ranks, or sources and targets, in ascending order.
        order (int64[n]): Their places among those of rank after rank.
        mine (int64[...]): Places of this rank's among them.
    """

    chosen: Tensor
    keys: Tensor
    order: Tensor
    mine: Tensor

    @classmethod
    def of(cls, chosen: Tensor, keys: Tensor, transport: Transport) -> _Entries:
        """Those of this rank in the order of its rows. Collective."""
        of_ranks = transport.gather(keys.numpy())
        whole = np.concatenate(of_ranks, axis=1)
        order = np.lexsort(whole)
        first = sum(each.shape[1] for each in of_ranks[: transport.rank])
        mine = order.argsort()[first : first + keys.shape[1]]
        return cls(chosen, *map(torch.from_numpy, (whole[:, order], order, mine)))


def _given(
    named: Mapping[Any, Any],
    kinds: Sequence[Kind],
    edge_index: Tensor,
    take: Callable[[Tensor, str], Tensor],
) -> dict[Any, Any]:
    """The arguments of the part, of float64; `take` takes its rows or edges of a tensor."""
    left = iter(kinds)

    def of_part(x: Tensor) -> Tensor:
        kind = next(left).what
        if kind == "ends":
            return edge_index
        x = x.detach().double() if x.is_floating_point() else x
        axis = x.ndim - 2 if kind == "inner rows" else 0
        return take(x.movedim(axis, 0), kind.split()[-1]).movedim(0, axis) if kind else x

    return {name: with_tensors(value, of_part) for name, value in named.items()}


class _Run(NamedTuple):
    outputs: list[Tensor]
    gradients: dict[str, Tensor]
    parameters: dict[str, Tensor]
    layers: list[tuple[str, Tensor]]


def _run(model: nn.Module, graph: Graph, named: Mapping[Any, Any], num_args: int) -> _Run:
    """One forward and backward pass in float64; the loss is a fixed sum of all outputs."""
    net = Distributed(_without_caches(model).double(), graph, 0).train()
    layers: list[tuple[str, Tensor]] = []
    for name, module in net.model.named_modules():
        if name:
            module.register_forward_hook(_noting(name, layers))
    leaves: dict[str, Tensor] = {}

    def leaf(name: Any, x: Tensor) -> Tensor:
        if not x.is_floating_point():
            return x
        return leaves.setdefault(f"{name}.{len(leaves)}", x.clone().requires_grad_())

    made = {k: with_tensors(value, lambda x, k=k: leaf(k, x)) for k, value in named.items()}
    args = [made.pop(k) for k in range(num_args)]
    outputs = [x for _, x in tensors_in(net(*args, **made))]
    losses = [_weighted(x, graph) for x in outputs if x.requires_grad]
    if losses:
        torch.stack(losses).sum().backward()
    return _Run(
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


def _compared(
    alone: _Run, together: _Run, entries: Sequence[_Entries], transport: Transport
) -> Agreement:
    def apart(
        found: Tensor, expected: Tensor, of: Sequence[_Entries] = entries, least: float = 1e-30
    ) -> float:
        """The largest difference on any rank; `expected` is of all rows or edges, or the same."""
        size = len(expected) if expected.ndim else 0
        mine = next((each.mine for each in of if len(each.order) == size), None)
        expected = expected if mine is None else expected[mine]
        if found.shape != expected.shape:
            found = torch.full_like(expected, torch.inf)
        off = (found - expected).double().abs().nan_to_num(nan=torch.inf)
        both = torch.tensor([0.0, least], dtype=torch.float64)
        if expected.numel():
            both = torch.maximum(both, torch.stack([off.max(), expected.double().abs().max()]))
        transport.allreduce_max(both)
        return float(both[0] / both[1])

    # a gradient may be 0 but for rounding
    least = max((float(x.abs().max()) for x in alone.parameters.values() if x.numel()), default=0.0)
    parameters = {}
    for name, value in together.parameters.items():
        transport.allreduce_sum(value)
        parameters[name] = apart(value, alone.parameters[name], (), least * ROUNDING + 1e-30)
    of_arguments = {k: apart(x, alone.gradients[k]) for k, x in together.gradients.items()}
    layers = zip(together.layers, alone.layers, strict=True)
    begins = [name for (name, x), (_, y) in layers if apart(x, y) > CLOSE]
    outputs = zip(together.outputs, alone.outputs, strict=True)
    rows, edges = (len(each.order) for each in entries)
    return Agreement(
        vertices=rows,
        edges=edges,
        outputs=max((apart(x, y) for x, y in outputs), default=0.0),
        gradients=parameters | of_arguments,
        first_layer=begins[0] if begins else "",
    )
