"""Checks that a network gives the same results on all ranks as on one rank.

Both runs are on a small subgraph with vertices of every rank, in float64; the one rank uses plain
torch. Dropout is off, because the two runs would draw different masks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from plancc.plan.exchange import offsets, places
from plancc.plan.parts import Part
from plancc_runtime.graph import Graph
from plancc_runtime.kernels.hashing import mixed
from plancc_runtime.pyg.calls import Call, name_of
from plancc_runtime.pyg.distributed import ArgumentKind, Distributed
from plancc_runtime.pyg.marks import is_rows, plain
from plancc_runtime.pyg.spaces import Key, spaces_of
from plancc_runtime.pyg.trees import all_in, changed
from plancc_runtime.transport.base import Transport
from plancc_runtime.typed import TypedGraph

Entry = tuple[str, Key]
"""Kind of a tensor's entries: "rows" and a vertex type, or "edges" and a relation."""
VERTICES = 512
CLOSE = 1e-9
ROUNDING = 1e-3
"""The difference of a gradient is divided by the gradient's largest value, but at least by this
share of the largest value of all gradients."""
ROUNDS = 64
"""Largest number of times that the chosen vertices are extended by their neighbours."""


@dataclass(frozen=True)
class Agreement:
    """Differences between a network's results on all ranks and on one rank.

    A difference is the largest difference of entries, relative to the largest entry on one rank.

    Attributes:
        vertices, edges: Numbers of vertices and edges in the subgraph of the check.
        outputs: Difference of the network's outputs.
        gradients: Differences of gradients, by name of the parameter or argument (or position).
        first_layer: First layer whose outputs differ by more than 1e-9; "" without such a layer.
    """

    vertices: int
    edges: int
    outputs: float
    gradients: Mapping[str, float]
    first_layer: str

    @property
    def exact(self) -> bool:
        """Whether outputs and gradients differ by at most 1e-9."""
        return max(self.outputs, *self.gradients.values(), 0.0) <= CLOSE

    def __str__(self) -> str:
        worst = max(self.gradients, key=self.gradients.__getitem__, default="")
        found = (
            f"{self.vertices} vertices, {self.edges} edges: outputs differ by {self.outputs:.1e}, "
            f"gradients by {self.gradients.get(worst, 0.0):.1e} ({worst})"
        )
        return found + (f"; first in layer '{self.first_layer}'" if self.first_layer else "")


def check(model: nn.Module, graph: Graph | TypedGraph, *args: Any, **kwargs: Any) -> Agreement:
    """Compare a network on all ranks with the same network on one rank. Collective."""
    named: dict[Any, Any] = dict(enumerate(args)) | kwargs
    kinds = Distributed(deepcopy(model), graph, 0).kinds_of(named)
    union = graph.union if isinstance(graph, TypedGraph) else graph
    rows, edges = _chosen(union)
    small = _small_graph(union, rows)
    entries = _entries_of(graph, small, rows, edges)
    part = TypedGraph(small) if isinstance(graph, TypedGraph) else small
    together = _run(model, named, kinds, _Side(entries, union.transport, part))
    alone = _run(model, named, kinds, _Side(entries, union.transport, None), together.outputs)
    return _compared(alone, together, entries, union.transport)


def _entries_of(
    graph: Graph | TypedGraph, small: Graph, rows: Tensor, edges: Tensor
) -> dict[Entry, _Entries]:
    """Return the rows and edges of the subgraph `small`, by kind. Collective.

    The kinds ("rows", "") and ("edges", "") have all rows and all edges. Every other kind has the
    rows of a vertex type, or the edges of a relation.
    `rows` and `edges` say which own rows and edges of `graph` are in the subgraph.
    """
    union = graph.union if isinstance(graph, TypedGraph) else graph
    of_edge = torch.zeros(len(edges)).long() if union.edge_type is None else union.edge_type.cpu()
    vertices = small.vertices.long()[None]
    ends = small.column_vertices().long()[small.edge_index]
    ends = torch.cat([of_edge[edges][None], ends])
    entries: dict[Entry, _Entries] = {
        ("rows", ""): _Entries.of(rows, vertices, union.transport),
        ("edges", ""): _Entries.of(edges, ends, union.transport),
    }
    if isinstance(graph, TypedGraph):
        of_row = torch.from_numpy(graph.types.type_of(union.vertices.cpu().numpy()))
        for what, chosen, keys, of, of_what in (
            ("rows", rows, vertices, of_row, graph.types.names),
            ("edges", edges, ends, of_edge, graph.types.relations),
        ):
            for k, key in enumerate(of_what):
                here, mine = chosen[of == k], keys[:, of[chosen] == k]
                entries[what, cast(Key, key)] = _Entries.of(here, mine, union.transport)
    return entries


def _chosen(graph: Graph) -> tuple[Tensor, Tensor]:
    """Choose rows of a small region of the graph, which may lie on several ranks. Collective.

    Return whether each of this rank's rows is chosen, and whether each edge joins chosen rows.
    """
    column, row = graph.edge_index
    chosen = torch.zeros(graph.num_rows, dtype=torch.bool)
    first = row[column >= graph.num_rows][:1]
    chosen[first if len(first) else slice(0, 2)] = True  # a norm needs two rows
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
    """Return whether each column's row, own or halo, is chosen: bool[num_columns]. Collective."""
    return graph.columns(chosen[:, None].to(graph.dtype))[:, 0] > 0


def _small_graph(graph: Graph, chosen: Tensor) -> Graph:
    """Return the subgraph of the chosen rows; every row stays on its rank. Collective."""
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


class _Entries(NamedTuple):
    """The rows of the subgraph on all ranks, or its edges; both are called entries.

    Attributes:
        chosen (bool[...]): Which of this rank's rows or edges are in the subgraph.
        keys: Vertices, int64[1, n], or relations, sources and targets, int64[3, n], of the
            subgraph's entries on all ranks. Sorted by vertex, or by target.
        order (int64[n]): Position that each sorted entry had before sorting, when rank 0's entries
            came first.
        mine (int64[...]): Position of each of this rank's entries among the sorted entries.
    """

    chosen: Tensor
    keys: Tensor
    order: Tensor
    mine: Tensor

    @classmethod
    def of(cls, chosen: Tensor, keys: Tensor, transport: Transport) -> _Entries:
        """Gather and sort the keys of the chosen rows (or edges) of all ranks. Collective."""
        of_ranks = transport.gather(keys.numpy())
        whole = np.concatenate(of_ranks, axis=1)
        order = np.lexsort(whole)
        first = sum(each.shape[1] for each in of_ranks[: transport.rank])
        mine = order.argsort()[first : first + keys.shape[1]]
        return cls(chosen, *map(torch.from_numpy, (whole[:, order], order, mine)))


class _Output(NamedTuple):
    """A tensor that a layer returns.

    Attributes:
        layer: Name of the layer; "" for the network itself.
        of: The rows of a vertex type, or the edges of a relation, for which the tensor has entries;
            None if all ranks have the same tensor.
        axis: Index of the axis of these rows or edges.
    """

    layer: str
    of: Entry | None
    axis: int
    x: Tensor


class _Side(NamedTuple):
    """Data of one of the two compared runs: on all ranks together, or on this rank alone.

    Attributes:
        entries: Rows of the subgraph by vertex type, and its edges by relation.
        graph: The subgraph; None for the run on this rank alone.
    """

    entries: Mapping[Entry, _Entries]
    transport: Transport
    graph: Graph | TypedGraph | None

    def taken(self, x: Tensor, entry: Entry) -> Tensor:
        """Return the values that x has for the subgraph's rows or edges. Collective.

        Axis 0 of x has an entry per row or edge of this rank. In the run on all ranks, the result
        has this rank's values; in the run on one rank, the values of all ranks.
        """
        here = x[self.entries[entry].chosen.to(x.device)].cpu()
        if self.graph is not None:
            return here
        found = self.transport.gather(here.contiguous().numpy())
        return torch.from_numpy(np.concatenate(found))[self.entries[entry].order]

    def ends(self, key: Key) -> Tensor:
        """Return a relation's edge index, int64[2, edges], as this run numbers rows. Collective."""
        if self.graph is not None:
            return spaces_of(self.graph)[1][key].index
        types = (key[0], key[2]) if isinstance(key, tuple) else ("", "")
        ends = zip(types, self.entries["edges", key].keys[1:], strict=True)
        rows = [torch.searchsorted(self.entries["rows", of].keys[0], end) for of, end in ends]
        return torch.stack(rows)

    def share_of_sum(self, out: _Output) -> Tensor:
        """Return this rank's share of the sum of an output, weighted by hashes of the vertices."""
        x = out.x
        if out.of is None:
            return x.sum() / (1 if self.graph is None else self.transport.size)
        of = self.entries[out.of]
        vertices = of.keys[0] if self.graph is None else of.keys[0][of.mine]
        weights = (mixed(vertices) >> 40).double() / 2**23
        return (x.flatten(1).sum(1) * weights if x.ndim > 1 else x * weights).sum()


class _Passes(NamedTuple):
    """Results of a forward and a backward pass.

    Attributes:
        outputs: Outputs of all layers.
        gradients: For every argument, the kind of its entries (`Entry`; None if all ranks have the
            same entries), and its gradient.
    """

    outputs: list[_Output]
    gradients: dict[str, tuple[Entry | None, Tensor]]
    parameters: dict[str, Tensor]


class _Undropped(Distributed):
    def _dropped(self, key: tuple[int, int], x: Tensor, *_: Any) -> Tensor:
        return cast(Tensor, plain(x))


class _NoDropout(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, _: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        call = Call(name_of(func), func, args, kwargs or {})
        return call.get(0, "input") if call.name in ("dropout", "dropout_") else call.run()


def _run(
    model: nn.Module,
    named: Mapping[Any, Any],
    kinds: Sequence[ArgumentKind],
    side: _Side,
    known: Sequence[_Output] = (),
) -> _Passes:
    """Run a forward and a backward pass in float64. The loss is a weighted sum of all outputs.

    `named` has the network's arguments for the whole graph. `known` has the outputs of the run on
    all ranks; from them, the run on one rank learns which outputs have a row for each vertex.
    """
    inner = _without_caches(model).double().train()
    outputs: list[_Output] = []
    leaves: dict[str, tuple[Entry | None, Tensor]] = {}
    left = iter(kinds)

    def note(name: str, _: Any, inputs: Any, out: Any) -> None:
        for x in all_in(out, Tensor):
            of, axis = (("rows", x.of.name), x.axis) if is_rows(x) and x.of else (None, 0)
            outputs.append(_Output(name, of, axis, plain(x)))

    def of_part(name: Any, x: Tensor) -> Tensor:
        kind = next(left)
        if kind.what == "ends":
            return side.ends(kind.key)
        entry = (kind.what.split()[-1], kind.key) if kind.what else None
        axis = x.ndim - 2 if kind.what == "inner rows" else 0
        x = x.detach() if entry is None else side.taken(x.detach().movedim(axis, 0), entry)
        if x.is_floating_point():
            x = x.double().clone().requires_grad_()
            leaves[f"{name}.{len(leaves)}"] = entry, x
        return x if entry is None else x.movedim(0, axis)

    for name, module in inner.named_modules():
        module.register_forward_hook(partial(note, name))
    given = {k: changed(value, Tensor, partial(of_part, k)) for k, value in named.items()}
    args = [given.pop(k) for k in range(len(named)) if k in given]
    if side.graph is not None:
        _Undropped(inner, side.graph, 0)(*args, **given)
    else:
        with _NoDropout():
            inner(*args, **given)
        pairs = zip(known, outputs, strict=True)
        outputs = [of_all._replace(x=of_one.x) for of_all, of_one in pairs]
    outputs = [out._replace(x=out.x.movedim(out.axis, 0)) for out in outputs]
    losses = [side.share_of_sum(out) for out in outputs if not out.layer and out.x.requires_grad]
    if losses:
        torch.stack(losses).sum().backward()
    return _Passes(
        [out._replace(x=out.x.detach()) for out in outputs],
        {name: (entry, _gradient(x)) for name, (entry, x) in leaves.items()},
        {name: _gradient(x) for name, x in inner.named_parameters()},
    )


def _without_caches(model: nn.Module) -> nn.Module:
    """Return a copy of a network without the tensors that its layers cached for another graph."""
    found = deepcopy(model)
    for layer in found.modules():
        for name in [k for k in vars(layer) if k.startswith("_cached")]:
            setattr(layer, name, None)
    return found


def _gradient(x: Tensor) -> Tensor:
    return torch.zeros_like(x) if x.grad is None else x.grad


def _compared(
    alone: _Passes, together: _Passes, entries: Mapping[Entry, _Entries], transport: Transport
) -> Agreement:
    def apart(
        found: Tensor, expected: Tensor, of: Entry | None = None, least: float = 1e-30
    ) -> float:
        """Return the largest difference on any rank, divided by the largest expected value.

        Parameters:
            found: Values that all ranks computed together, with the entries of this rank.
            expected: Values that one rank computed alone, with the entries of all ranks.
            of: Kind of the entries; None if all ranks have the same tensor.
        """
        expected = expected if of is None else expected[entries[of].mine]
        if found.shape != expected.shape:
            found = torch.full_like(expected, torch.inf)
        off = (found - expected).double().abs().nan_to_num(nan=torch.inf)
        both = torch.tensor([0.0, least], dtype=torch.float64)
        if expected.numel():
            both = torch.maximum(both, torch.stack([off.max(), expected.double().abs().max()]))
        transport.allreduce_max(both)
        return float(both[0] / both[1])

    # A gradient may be 0 up to rounding: its difference is divided by a share of the largest one.
    least = max((float(x.abs().max()) for x in alone.parameters.values() if x.numel()), default=0.0)
    parameters = {}
    for name, value in together.parameters.items():
        transport.allreduce_sum(value)
        parameters[name] = apart(value, alone.parameters[name], None, least * ROUNDING + 1e-30)
    of_arguments = {
        k: apart(x, alone.gradients[k][1], of) for k, (of, x) in together.gradients.items()
    }
    pairs = zip(together.outputs, alone.outputs, strict=True)
    layers = [(x.layer, apart(x.x, y.x, x.of)) for x, y in pairs if x.of or not x.layer]
    begins = [name for name, off in layers if name and off > CLOSE]
    return Agreement(
        vertices=len(entries["rows", ""].order),
        edges=len(entries["edges", ""].order),
        outputs=max((off for name, off in layers if not name), default=0.0),
        gradients=parameters | of_arguments,
        first_layer=begins[0] if begins else "",
    )
