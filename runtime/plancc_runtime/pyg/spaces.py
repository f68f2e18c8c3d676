"""The rows and edges that tensors of a network refer to, by vertex type and by relation."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from plancc_runtime.layouts.edge_graph import EdgeGraph
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.pyg.marks import EdgeEnds, RowNumbers, marked
from plancc_runtime.typed import TypedGraph

Key = str | tuple[str, ...]
"""Key of rows or edges in arguments that are dicts: a type or a relation."""


@dataclass(frozen=True)
class TypeRows:
    """This rank's rows of all vertices, or of the vertices of one type: own rows, then halo rows.

    Attributes:
        name: The vertex type; "" for a graph without types.
        num_rows, total: Number of own rows, and number of rows on all ranks.
        vertices (int64[num_columns]): Vertex of every own and halo row.
    """

    graph: LocalGraph | TypedGraph
    name: str
    num_rows: int = field(compare=False)
    total: int = field(compare=False)
    vertices: Tensor = field(compare=False)

    def halo(
        self, read: frozenset[int], here: frozenset[int] = frozenset()
    ) -> tuple[LocalGraph, Tensor | None]:
        """Return the halo rows that `read` relations need, as `TypedGraph.halo_of` does.

        Without types, return the whole graph and None.
        """
        if isinstance(self.graph, TypedGraph):
            return self.graph.halo_of(self.name, read, here)
        return self.graph, None


@dataclass(frozen=True, eq=False)
class TypeEdges:
    """This rank's edges of one relation.

    Attributes:
        index (int64[2, edges]): Numbers of the sources and of the targets of the edges.
        sources, targets: Rows to which the numbers of sources refer, and those of targets.
    """

    index: Tensor
    sources: TypeRows
    targets: TypeRows
    relation: int

    def marked(self, index: Tensor) -> EdgeEnds:
        """Return `index`, int64[2, m], marked as sources and targets of edges of this relation."""
        ends = RowNumbers(self.sources, True), RowNumbers(self.targets, False)
        return marked(index, EdgeEnds, ends=ends, relations=frozenset({self.relation}))


def spaces_of(graph: EdgeGraph | TypedGraph) -> tuple[dict[Key, TypeRows], dict[Key, TypeEdges]]:
    """Return this rank's rows by vertex type, and its edges by relation. Collective.

    Without types, both dicts have the key "".
    """
    rows: dict[Key, TypeRows] = {}
    edges: dict[Key, TypeEdges] = {}
    if not isinstance(graph, TypedGraph):
        vertices = graph.column_vertices().long()
        rows[""] = TypeRows(graph, "", graph.num_rows, graph.num_vertices, vertices)
        edges[""] = TypeEdges(graph.edge_index, rows[""], rows[""], 0)
        return rows, edges
    totals = torch.tensor([graph.num_rows(name) for name in graph.types.names])
    graph.union.transport.allreduce_sum(totals)
    for name, total in zip(graph.types.names, totals.tolist(), strict=True):
        rows[name] = TypeRows(graph, name, graph.num_rows(name), total, graph.column_vertices(name))
    for k, (relation, index) in enumerate(graph.edge_index_dict.items()):
        edges[relation] = TypeEdges(index, rows[relation[0]], rows[relation[2]], k)
    return rows, edges
