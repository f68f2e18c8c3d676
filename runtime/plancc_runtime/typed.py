"""The library for plans with types: products by relation."""

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
    """This rank's rows of all types; made by `plancc_runtime.open_typed`.

    The rows of a dense tensor are this rank's own of one type, in the order of `vertices`. Methods
    marked *collective* must be called by all ranks in the same order, and so must the backward pass
    through what they return. A relation is its name, or (source, name, destination) where several
    have the name.

        graph = plancc_runtime.open_typed("plan.h5")
        x = features[graph.vertices("author")]
        y = graph.product("writes", x)  # rows of papers

    Attributes:
        types (Types): Vertices of every type of the whole graph, and the relations.
        union: The same rows of all types in one space, for the sums over ranks: `Graph.mean_loss`,
            `Graph.sync_gradients` and others.
    """

    def __init__(self, union: Graph) -> None:
        types = union.types
        if types is None:
            raise InputError("the plan has no types: open it with `plancc_runtime.open`")
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
        """Own rows of a type."""
        return len(self.vertices(name))

    def vertices(self, name: str) -> Tensor:
        """Vertex of every own row of a type, counted from 0 in the type: int64[num_rows].

        Raises:
            InputError: For an unknown type.
        """
        of_type = self.types.vertices(name)
        numbers = self.union.vertices.to(torch.int64)
        return numbers[(numbers >= of_type.start) & (numbers < of_type.stop)] - of_type.start

    def features(self, name: str) -> Tensor | None:
        """Features of the own rows of a type: [num_rows, width] of the type's own width.

        None where the plan carries none.

        Raises:
            InputError: For an unknown type.
        """
        return self._of(name, self.union.features_of)

    def targets(self, name: str) -> Tensor | None:
        """What is to be learnt of the own rows of a type, in the forms of `Graph.labels`.

        None and errors as of `features`.
        """
        return self._of(name, self.union.targets_of)

    def masks(self, name: str) -> dict[str, Tensor]:
        """Masks of the own rows of a type, bool[num_rows], by "train", "val" and "test".

        Features of edges in the plan; errors as of `features`.
        """
        return self._of(name, self.union.masks_of) or {}

    def _of(self, name: str, find: Callable[[VertexData], T]) -> T | None:
        """Something of the vertex data of a type; None where it has none."""
        self.types.vertices(name)
        data = self.union.data_of_types.get(name)
        return None if data is None else find(data)

    def relation(self, name: str | Relation) -> LocalGraph:
        """A relation as layers see it: inputs of its source, outputs of its destination.

        Collective when it is first asked for.
        """
        relation = self.types.relation(name)
        if relation not in self._relations:
            block = self._typed.block_of(relation, self.union.transport)
            self._relations[relation] = LocalGraph(block, self.union.resources)
        return self._relations[relation]

    @property
    def stack(self) -> StackGraph:
        """All relations as layers by relation see them; of a row plan.

        Collective when it is first asked for.
        """
        union = self.union
        if self._stack is None:  # a cached_property locks out other ranks that are threads
            block = replace(union.block, halo=halo_vertices(union.block, union.transport))
            self._stack = StackGraph(block, self.types, union.resources)
        return self._stack

    def joined(self, x: Mapping[str, Tensor]) -> Tensor:
        """Rows of all types below each other, filled up with zeros: Tensor[num_rows, widest].

        This is what layers by relation take. x has Tensor[num_rows of the type, width] of every
        type.
        """
        widest = max(rows.shape[1] for rows in x.values())
        return torch.cat(
            [pad(x[name], (0, widest - x[name].shape[1])) for name in self.types.counts]
        )

    def by_type(self, x: Tensor) -> dict[str, Tensor]:
        """Rows of all types, as layers by relation return them, by type."""
        sizes = [self.num_rows(name) for name in self.types.counts]
        return dict(zip(self.types.counts, x.split(sizes), strict=True))

    def edges(self, relation: str | Relation) -> Tensor:
        """Ends of this rank's nonzeros of a relation, as PyTorch Geometric has its edges.

        Collective when the relation is first asked for.

        Returns:
            int64[2, nonzeros]: Columns (of ``relation(name).columns(x)``) and rows (of the
                destination; in an edge plan of ``relation(name).local_rows(y)``), in the order of
                the rows.
        """
        pattern = self.relation(relation).local_pattern("edges")
        return torch.stack([pattern.rows.index.to(torch.int64), pattern.row])

    def edge_features(self, relation: str | Relation) -> Tensor | None:
        """Features of this rank's nonzeros of a relation, in the order of `edges`.

        Tensor[nonzeros, width], zeros of a relation without features; None where the plan carries
        none. Collective when the relation is first asked for.
        """
        return self.relation(relation).edge_features

    # As PyTorch Geometric's HeteroData has them

    @property
    def x_dict(self) -> dict[str, Tensor]:
        """`features` of the types that have any."""
        found = {name: self.features(name) for name in self.types.counts}
        return {name: x for name, x in found.items() if x is not None}

    @property
    def edge_index_dict(self) -> dict[Relation, Tensor]:
        """Ends of this rank's edges of every relation: int64[2, edges].

        Sources are numbered [own rows | halo rows] of their type, of all relations; edges are in
        the order of `Graph.edge_index`. Collective when it is first asked for.
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
        """`Graph.edge_weight` by relation, in the order of `edge_index_dict`."""
        return self.by_relation(self.union.edge_weight)

    @property
    def edge_attr_dict(self) -> dict[Relation, Tensor] | None:
        """`Graph.edge_attr` by relation, zeros of relations without any; None without features."""
        found = self.union.edge_attr
        return None if found is None else self.by_relation(found, 0)

    def by_relation(self, x: Tensor, axis: int = -1) -> dict[Relation, Tensor]:
        """Entries of the edges of `union.edge_index`, in an axis of x, by relation.

        Collective when it is first asked for.
        """
        if self._edge_type is None:
            self._edge_type = self.union.edge_type
        of_edge = self._edge_type
        assert of_edge is not None
        places = (of_edge.eq(k).nonzero()[:, 0] for k in range(len(self.types.relations)))
        found = (x.index_select(axis, each) for each in places)
        return dict(zip(self.types.relations, found, strict=True))

    def column_vertices(self, name: str) -> Tensor:
        """Vertex in `union` of every own and halo row of a type: int64[num_columns].

        Collective when it is first asked for.
        """
        of_type = self._typed.column_type == self.types.names.index(name)
        return self.union.column_vertices()[torch.from_numpy(of_type)].long()

    def halo_of(
        self, name: str, read: frozenset[int], here: frozenset[int] = frozenset()
    ) -> tuple[LocalGraph, Tensor | None]:
        """The halo rows of a type that are sources of edges. Collective when first asked for.

        Parameters:
            read, here: Numbers of relations: rows that edges of the former have and not edges of
                the latter.

        Returns:
            How these halo rows come, and their places among the columns of the type; None if they
            are all of its halo rows.
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
        """A x with the matrix of a relation; its gradient is A^T g. Collective.

        Parameters:
            x: Tensor[num_rows of the source, width].
            coefficients: As of `Graph.product`, but for "closed-mean".
            transposed: A^T x, with gradient A g: x has rows of the destination.

        Returns:
            Tensor[num_rows of the destination, width]: `transposed`: of the source.

        Raises:
            InputError: For an unknown relation, and if x does not fit.
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
