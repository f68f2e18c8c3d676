"""Whether a network gives on all ranks what it gives on one: the proof for a model of one's own.

A small part of the graph, with vertices of every rank, is computed in float64 by each rank alone,
as torch does without `Distributed`, and by all together, forward and backward. Both leave out
dropout, whose masks torch draws otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from plancc.graph.columns import columns_of
from plancc.plan.exchange import offsets, places
from plancc.plan.parts import Part
from plancc_runtime.graph import Graph
from plancc_runtime.kernels.hashing import mixed
from plancc_runtime.pyg.calls import Call, name_of
from plancc_runtime.pyg.distributed import ArgumentKind, Distributed, tensors_in
from plancc_runtime.pyg.marks import is_rows, plain
from plancc_runtime.pyg.spaces import Key, TypeEdges, TypeRows, spaces_of
from plancc_runtime.pyg.trees import changed
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.single import SingleTransport
from plancc_runtime.typed import TypedGraph

Entry = tuple[str, Key]
"""What entries of a tensor are of: "rows" or "edges", and the type or relation."""
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


def check(model: nn.Module, graph: Graph | TypedGraph, *args: Any, **kwargs: Any) -> Agreement:
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
    union = graph.union if isinstance(graph, TypedGraph) else graph
    transport = union.transport
    rows, edges = _chosen(union)
    small = _of_rank(union, rows)
    of_row, of_edge = _types(union)
    vertices = small.vertices.long()[None]
    ends = small.column_vertices().long()[small.edge_index]
    ends = torch.cat([of_edge[edges][None], ends])
    all_rows = _Entries.of(rows, vertices, transport)
    all_edges = _Entries.of(edges, ends, transport)
    whole = _of_one(small, all_rows.keys[0], all_edges.keys)
    entries: dict[Entry, _Entries] = {("rows", ""): all_rows, ("edges", ""): all_edges}
    keys_of: tuple[Sequence[Key], Sequence[Key]] = (), ()
    if isinstance(graph, TypedGraph):
        keys_of = graph.types.names, graph.types.relations
    entries |= {
        (what, key): _Entries.of(chosen[of == k], keys[:, of[chosen] == k], transport)
        for what, chosen, keys, of, of_what in (
            ("rows", rows, vertices, of_row, keys_of[0]),
            ("edges", edges, ends, of_edge, keys_of[1]),
        )
        for k, key in enumerate(of_what)
    }

    def here(x: Tensor, entry: Entry) -> Tensor:
        return x[entries[entry].chosen.to(x.device)].cpu()

    def of_all(x: Tensor, entry: Entry) -> Tensor:
        found = transport.gather(here(x, entry).contiguous().numpy())
        return torch.from_numpy(np.concatenate(found))[entries[entry].order]

    def run(
        union: Graph, take: Callable[[Tensor, Entry], Tensor], together: _Passes | None = None
    ) -> _Passes:
        on = TypedGraph(union) if isinstance(graph, TypedGraph) else union
        given = _given(named, kinds, spaces_of(on)[1], take)
        return _run(model, on, given, (kinds, len(args)), together)

    together = run(small, here)
    alone = run(whole, of_all, together)
    sizes = len(all_rows.order), len(all_edges.order)
    return _compared(alone, together, entries, sizes, transport)


def _types(union: Graph) -> tuple[Tensor, Tensor]:
    """Number of the type of every own row, and of the relation of every edge; 0 without types."""
    if union.edge_type is None or union.types is None:
        return torch.zeros(union.num_rows).long(), torch.zeros(union.edge_index.shape[1]).long()
    of_row = torch.from_numpy(union.types.type_of(union.vertices.cpu().numpy()))
    return of_row, union.edge_type.cpu()


def _chosen(graph: Graph) -> tuple[Tensor, Tensor]:
    """Whether own rows and edges are in the part: some of every rank, and neighbours.

    Returns:
        bool[num_rows] and bool[edges]
    """
    column, row = graph.edge_index
    chosen = torch.zeros(graph.num_rows, dtype=torch.bool)
    first = row[column >= graph.num_rows][:1]
    chosen[first if len(first) else slice(0, 2)] = True  # a norm needs two
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
        Part.of_rows(
            part.index, part.num_parts, part.first_row, part.global_id[own], part.vertex_data
        ),
        num_interior=int(own[: part.num_interior].sum()),
        row_ptr=offsets(np.bincount(row[kept], minlength=part.num_rows)[own]),
        column=places(columns)[part.column[kept]],
        value=part.value[kept],
        columns=part.columns_at(kept),
        expand=part.expand.keep(own[part.expand.send.row], halo).renumbered(
            places(own), places(halo)
        ),
    )
    return Graph(header, small, graph.transport, torch.float64, torch.device("cpu"))


def _of_one(small: Graph, vertices: Tensor, ends: Tensor) -> Graph:
    """The same graph on this rank alone; `ends` of all edges, below the relation's number."""
    source, target = torch.searchsorted(vertices, ends[1:]).numpy()
    relation = None if small.plan_part.relation is None else ends[0].numpy().astype(np.uint16)
    data = small.plan_part.vertex_data
    part = replace(
        Part.of_rows(0, 1, 0, vertices.numpy().astype(np.int32), data),
        row_ptr=offsets(np.bincount(target, minlength=len(vertices))),
        column=source.astype(np.int32),
        value=np.ones(len(source)),
        columns=columns_of(relation=relation),
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
        keys (int64[1 or 3, n]): Vertices of all ranks, or relations, sources and targets, in
            ascending order of the last.
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
    kinds: Sequence[ArgumentKind],
    edges: Mapping[Key, TypeEdges],
    take: Callable[[Tensor, Entry], Tensor],
) -> dict[Any, Any]:
    """The arguments of the part, of float64; `take` takes its rows or edges of a tensor."""
    left = iter(kinds)

    def of_part(x: Tensor) -> Tensor:
        kind = next(left)
        if kind.what == "ends":
            return edges[kind.key].index
        x, entry = x.detach().double() if x.is_floating_point() else x, _entry(kind)
        axis = x.ndim - 2 if kind.what == "inner rows" else 0
        return x if entry is None else take(x.movedim(axis, 0), entry).movedim(0, axis)

    return {name: changed(value, Tensor, of_part) for name, value in named.items()}


def _entry(kind: ArgumentKind) -> Entry | None:
    """What the entries of a tensor are of."""
    return (kind.what.split()[-1], kind.key) if kind.what else None


class _Passes(NamedTuple):
    """Tensors, and of what their entries are; None: they are the same on all ranks."""

    outputs: list[tuple[Entry | None, Tensor]]
    gradients: dict[str, tuple[Entry | None, Tensor]]
    parameters: dict[str, Tensor]
    layers: list[tuple[str, Entry | None, Tensor]]


class _Undropped(Distributed):
    def _dropped(
        self, key: tuple[int, int], x: Tensor, rate: float, number: Tensor | None, draw: int
    ) -> Tensor:
        found: Tensor = plain(x)
        return found


class _NoDropout(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, _: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        call = Call(name_of(func), func, args, kwargs or {})
        return call.get(0, "input") if call.name in ("dropout", "dropout_") else call.run()


def _run(
    model: nn.Module,
    graph: Graph | TypedGraph,
    named: Mapping[Any, Any],
    places: tuple[Sequence[ArgumentKind], int],
    together: _Passes | None,
) -> _Passes:
    """One forward and backward pass in float64; the loss is a fixed sum of all outputs.

    Parameters:
        places: Kinds of the arguments, and how many have no name.
        together: What all ranks found, for the pass of one: it says what outputs have rows.
    """
    inner, (kinds, num_args) = _without_caches(model).double().train(), places
    layers: list[tuple[str, Entry | None, Tensor]] = []
    of_outputs: list[TypeRows | None] = []

    def note(_: Any, inputs: Any, out: Any) -> None:
        of_outputs.extend(x.of if is_rows(x, 0) else None for _, x in tensors_in(out))

    inner.register_forward_hook(note)
    for name, module in [*inner.named_modules()][1:]:
        module.register_forward_hook(_noting(name, layers))
    leaves: dict[str, tuple[Entry | None, Tensor]] = {}
    left = iter(kinds)

    def leaf(name: Any, x: Tensor) -> Tensor:
        entry = _entry(next(left))
        if not x.is_floating_point():
            return x
        found = entry, x.clone().requires_grad_()
        return leaves.setdefault(f"{name}.{len(leaves)}", found)[1]

    made = {k: changed(value, Tensor, partial(leaf, k)) for k, value in named.items()}
    args = [made.pop(k) for k in range(num_args)]
    if together is None:
        out = _Undropped(inner, graph, 0)(*args, **made)
    else:
        rows = spaces_of(graph)[0]
        with _NoDropout():
            out = inner(*args, **made)
        of_outputs = [of and rows[of[1]] for of, _ in together.outputs]
    outputs = [x for _, x in tensors_in(out)]
    pairs = [*zip(of_outputs, outputs, strict=True)]
    ranks = (graph.union if isinstance(graph, TypedGraph) else graph).num_ranks
    losses = [_weighted(x, of, ranks) for of, x in pairs if x.requires_grad]
    if losses:
        torch.stack(losses).sum().backward()
    return _Passes(
        [(None if of is None else ("rows", of.name), x.detach()) for of, x in pairs],
        {name: (entry, _gradient(x)) for name, (entry, x) in leaves.items()},
        {name: _gradient(x) for name, x in inner.named_parameters()},
        layers,
    )


def _without_caches(model: nn.Module) -> nn.Module:
    """A copy of a network whose layers have cached nothing of another graph."""
    found = deepcopy(model)
    for layer in found.modules():
        for name in [k for k in vars(layer) if k.startswith("_cached")]:
            setattr(layer, name, None)
    return found


def _noting(name: str, layers: list[tuple[str, Entry | None, Tensor]]) -> Any:
    def note(_: Any, inputs: Any, out: Any) -> None:
        if isinstance(out, Tensor):
            of = out.of if is_rows(out, 0) else None
            entry = None if of is None else ("rows", of.name)
            layers.append((name, entry, plain(out).detach()))

    return note


def _weighted(x: Tensor, of: TypeRows | None, ranks: int) -> Tensor:
    """A sum of outputs with weights by vertex, or of a result that all ranks have, its share."""
    if of is None:
        return x.sum() / ranks
    weights = (mixed(of.vertices[: of.num_rows]) >> 40).double() / 2**23
    return (x.flatten(1).sum(1) * weights if x.ndim > 1 else x * weights).sum()


def _gradient(x: Tensor) -> Tensor:
    return torch.zeros_like(x) if x.grad is None else x.grad


def _compared(
    alone: _Passes,
    together: _Passes,
    entries: Mapping[Entry, _Entries],
    sizes: tuple[int, int],
    transport: Transport,
) -> Agreement:
    def apart(
        found: Tensor, expected: Tensor, of: Entry | None = None, least: float = 1e-30
    ) -> float:
        """The largest difference on any rank; `expected` is of all rows or edges, or the same."""
        expected = expected if of is None else expected[entries[of].mine]
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
        parameters[name] = apart(value, alone.parameters[name], None, least * ROUNDING + 1e-30)
    of_arguments = {
        k: apart(x, alone.gradients[k][1], of) for k, (of, x) in together.gradients.items()
    }
    layers = zip(together.layers, alone.layers, strict=True)
    begins = [name for (name, of, x), (*_, y) in layers if of and apart(x, y, of) > CLOSE]
    outputs = zip(together.outputs, alone.outputs, strict=True)
    return Agreement(
        vertices=sizes[0],
        edges=sizes[1],
        outputs=max((apart(x, y, of) for (of, x), (_, y) in outputs), default=0.0),
        gradients=parameters | of_arguments,
        first_layer=begins[0] if begins else "",
    )
