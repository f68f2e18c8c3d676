"""The library for plans with vertex types, with a product for each relation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from plancc.errors import InputError
from plancc.graph.types import Relation
from plancc_runtime.graph import Graph, check_rows
from plancc_runtime.layouts.halo import halo_vertices
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.relation import TypedBlock
from plancc_runtime.layouts.stack import StackGraph

if TYPE_CHECKING:
    from plancc.graph.vertexdata import VertexData

T = TypeVar("T")


class TypedGraph:
    """This rank's rows of all vertex types; made by `plancc_runtime.open_typed`.

    A dense tensor has one row for each of this rank's own rows of one type, in the order of
    `vertices`. All ranks must call methods marked *collective* in the same order, and all must run
    the backward pass through the results. A relation is given by its name, or by (source, name,
    destination) if several relations have the same name.

        graph = plancc_runtime.open_typed("plan.h5")
        x = features[graph.vertices("author")]
        y = graph.product("writes", x)  # rows of papers

    Attributes:
        types (Types): The graph's vertex types, with the number of vertices of each type; and the
            graph's relations.
        union: One `Graph` with the rows of all types. It has the methods that need no type, such as
            `Graph.mean_loss` and `Graph.sync_gradients`.
    """

    def __init__(self, union: Graph) -> None:
        types = union.types
        if types is None:
            raise InputError("the plan has no types; open it with `plancc_runtime.open`")
        self.union, self.types = union, types
        self._typed = TypedBlock.of(union.block, types, union.transport)
        self._typed.check(union.transport)
        self._relations: dict[Relation, LocalGraph] = {}
        self._edges: dict[Relation, Tensor] = {}
        self._edge_type: Tensor | None = None
        self._halos: dict[Any, tuple[LocalGraph, Tensor | None]] = {}
        self._stack: StackGraph | None = None

    def __repr__(self) -> str:
        union, rows = self.union, {name: self.num_rows(name) for name in self.types.counts}
        return f"TypedGraph(rank {union.rank} of {union.num_ranks}: rows {rows})"

    def num_rows(self, name: str) -> int:
        """Return the number of this rank's rows of a vertex type."""
        return len(self.vertices(name))

    def vertices(self, name: str) -> Tensor:
        """Return, for every row of a vertex type that this rank owns, its vertex: int64[num_rows].

        Vertices are numbered from 0 within their type.

        Raises:
            InputError: For an unknown type.
        """
        of_type = self.types.vertices(name)
        numbers = self.union.vertices.to(torch.int64)
        return numbers[(numbers >= of_type.start) & (numbers < of_type.stop)] - of_type.start

    def features(self, name: str) -> Tensor | None:
        """Return this rank's features of a vertex type: Tensor[num_rows, width of the type].

        Return None if the plan has no features of the type.

        Raises:
            InputError: For an unknown type.
        """
        return self._found(name, self.union.features_of)

    def targets(self, name: str) -> Tensor | None:
        """Return labels or targets of this rank's rows of a vertex type, as in `Graph.labels`.

        Return None if the plan has no labels of the type. Errors: see `features`.
        """
        return self._found(name, self.union.targets_of)

    def masks(self, name: str) -> dict[str, Tensor]:
        """Return this rank's masks of a vertex type: bool[num_rows] at "train", "val", "test".

        Masks that the plan lacks are left out. Errors: see `features`.
        """
        return self._found(name, self.union.masks_of) or {}

    def _found(self, name: str, find: Callable[[VertexData], T]) -> T | None:
        """Return `find(data)` for the vertex data of type `name`; None if the type has no data."""
        self.types.vertices(name)
        data = self.union.data_of_types.get(name)
        return None if data is None else find(data)

    def relation(self, name: str | Relation) -> LocalGraph:
        """Return a relation as a graph for products.

        The graph reads rows of the relation's source type, and computes rows of its destination
        type. Collective at the first call for the relation.
        """
        relation = self.types.relation(name)
        if relation not in self._relations:
            block = self._typed.block_of(relation, self.union.transport)
            self._relations[relation] = LocalGraph(block, self.union.resources)
        return self._relations[relation]

    @property
    def stack(self) -> StackGraph:
        """All relations as one graph, for layers that have separate weights for each relation.

        Only row plans have such a graph. Collective at the first use.
        """
        union = self.union
        if self._stack is None:  # a cached_property would lock out other ranks that are threads
            block = replace(union.block, halo=halo_vertices(union.block, union.transport))
            self._stack = StackGraph(block, self.types, union.resources)
        return self._stack

    def joined(self, x: Mapping[str, Tensor]) -> Tensor:
        """Return the rows of all types, stacked in the order of types: Tensor[num_rows, widest].

        Layers that have separate weights for each relation take such rows. Narrower rows are filled
        up with zeros. For every type, `x` must have a Tensor[num_rows of the type, width].
        """
        widest = max(rows.shape[1] for rows in x.values())
        return torch.cat(
            [pad(x[name], (0, widest - x[name].shape[1])) for name in self.types.counts]
        )

    def by_type(self, x: Tensor) -> dict[str, Tensor]:
        """Split x, rows of all types stacked as in `joined`, into one tensor for each type."""
        sizes = [self.num_rows(name) for name in self.types.counts]
        return dict(zip(self.types.counts, x.split(sizes), strict=True))

    def edges(self, relation: str | Relation) -> Tensor:
        """Return columns and rows of this rank's nonzeros of a relation, as an edge index.

        Collective at the first call for the relation.

        Returns:
            int64[2, nonzeros], sorted by row. ``[0]``: for every nonzero, the index of its column's
            row in ``relation(name).columns(x)``. ``[1]``: the index of its row among the rank's
            rows of the destination type; in an edge plan, in ``relation(name).local_rows(y)``.
        """
        pattern = self.relation(relation).local_pattern("edges")
        return torch.stack([pattern.rows.index.to(torch.int64), pattern.row])

    def edge_features(self, relation: str | Relation) -> Tensor | None:
        """Return features of this rank's nonzeros of a relation: Tensor[nonzeros, width].

        The rows are in the order of `edges`. They are zeros if only other relations have features.
        Return None if no relation has features. Collective at the first call for the relation.
        """
        return self.relation(relation).edge_features

    # The next properties have the names of PyTorch Geometric's HeteroData

    @property
    def x_dict(self) -> dict[str, Tensor]:
        """Features of the own rows by type, without types that have no features."""
        found = {name: self.features(name) for name in self.types.counts}
        return {name: x for name, x in found.items() if x is not None}

    @property
    def edge_index_dict(self) -> dict[Relation, Tensor]:
        """Sources and destinations of this rank's edges of every relation: int64[2, edges].

        A source is given by its position in [own rows | halo rows] of its vertex type; these are
        the halo rows that any relation reads. Edges are in the order of `Graph.edge_index`.

        Collective at the first use.
        """
        if not self._edges:
            of_column = torch.from_numpy(self._typed.column_type)
            order = of_column.argsort(stable=True)
            counts = torch.bincount(of_column, minlength=len(self.types.counts))
            place = torch.empty_like(order)
            place[order] = torch.cat([torch.arange(count) for count in counts.tolist()])
            self._edges = self.by_relation(place.to(self.union.device)[self.union.edge_index])
        return self._edges

    @property
    def edge_weight_dict(self) -> dict[Relation, Tensor]:
        """`Graph.edge_weight` of every relation, in the order of `edge_index_dict`."""
        return self.by_relation(self.union.edge_weight)

    @property
    def edge_attr_dict(self) -> dict[Relation, Tensor] | None:
        """`Graph.edge_attr` of every relation; zeros for a relation without edge features.

        The property is None if the plan has no edge features."""
        found = self.union.edge_attr
        return None if found is None else self.by_relation(found, 0)

    def by_relation(self, x: Tensor, axis: int = -1) -> dict[Relation, Tensor]:
        """Split x, which has one entry for every edge of `union.edge_index`, by relation.

        `axis` is the axis of x along which the edges are. Collective at the first call.
        """
        if self._edge_type is None:
            self._edge_type = self.union.edge_type
        of_edge = self._edge_type
        assert of_edge is not None
        places = (of_edge.eq(k).nonzero()[:, 0] for k in range(len(self.types.relations)))
        found = (x.index_select(axis, each) for each in places)
        return dict(zip(self.types.relations, found, strict=True))

    def column_vertices(self, name: str) -> Tensor:
        """Return the vertices of a type's own and halo rows, by their numbers in the graph `union`.

        The result is int64[num_columns of the type]. Collective at the first call.
        """
        of_type = self._typed.column_type == self.types.names.index(name)
        return self.union.column_vertices()[torch.from_numpy(of_type)].long()

    def halo_of(
        self, name: str, read: frozenset[int], here: frozenset[int] = frozenset()
    ) -> tuple[LocalGraph, Tensor | None]:
        """Return the halo rows of a type that relations `read` need, and relations `here` do not.

        Collective at the first call.

        Parameters:
            read: Indices of relations. Each returned row is a source in at least one of these
                relations.
            here: Indices of relations. No returned row is a source in any of these relations.

        Returns:
            LocalGraph: A graph that fetches these halo rows.
            int64[m] or None: Places of these rows among [own rows | halo rows] of the type; None if
                they are all the halo rows of the type.
        """
        key = name, read, here
        if key not in self._halos:
            typed, union = self._typed, self.union
            received = typed.halo_of(read) & ~typed.halo_of(here)
            block = typed.inputs_of(name, received, union.transport)
            of_type = typed.column_type[union.num_rows :] == self.types.names.index(name)
            places = self.num_rows(name) + np.flatnonzero(received[of_type])
            at = torch.from_numpy(places).to(union.device)
            is_whole = len(places) == np.count_nonzero(of_type)
            self._halos[key] = LocalGraph(block, union.resources), None if is_whole else at
        return self._halos[key]

    def product(
        self,
        relation: str | Relation,
        x: Tensor,
        coefficients: str = "plan",
        *,
        transposed: bool = False,
    ) -> Tensor:
        """Return A x, where A is the matrix of a relation. Collective.

        The backward pass multiplies gradients by A^T.

        Parameters:
            x: Tensor[num_rows of the source type, width].
            coefficients: "plan", "sum" or "mean"; see `Graph.product`.
            transposed: Whether to return A^T x instead. Then x has the rows of the destination
                type, and the result has the rows of the source type.

        Returns:
            Tensor[num_rows of the destination type, width]

        Raises:
            InputError: For an unknown relation, or if x does not fit.
        """
        whole = self.types.relation(relation)
        if coefficients not in ("plan", "sum", "mean"):
            raise InputError(f"coefficients '{coefficients}': choose plan, sum or mean")
        name = whole[2] if transposed else whole[0]
        check_rows(x, self.num_rows(name), self.union, 2, f" of type '{name}'")
        graph = self.relation(whole)
        if transposed:
            return graph.transposed_product(x, coefficients)
        return graph.product(x, coefficients)
