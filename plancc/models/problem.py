"""The problems that models build: the compiler's second intermediate representation.

A partitioner turns a `Hypergraph` or a `WeightedGraph` into owners. An `Assignment` already has
owners.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from plancc.graph.owners import Owners


@dataclass(frozen=True)
class Hypergraph:
    """Vertices to split into parts, and nets whose connectivity is the cost of communication.

    Attributes:
        net_ptr (int64[num_nets + 1]): Pins of net j are ``pins[net_ptr[j]:net_ptr[j + 1]]``.
        pins (int32[num_pins]): Vertices, unique in every net. A net of one pin never costs
            anything, and a model may leave it out.
        vertex_weights (int64[num_vertices] or int64[num_vertices, num_constraints]): Weights, at
            least 0, that parts share evenly; every column is a constraint.
        net_costs (int64[num_nets], at least 1, or None): Cost of every net; None: 1.
        net_sources (int32[num_nets], or None): For every net, the pin whose part sends the row of
            the net to the other parts. For a net of the fold, the pin whose part receives the
            partial sums of the other parts. None: unknown; passes can then minimise the volume, but
            not the traffic of single parts.
        fixed (int32[num_vertices], or None): The part in which a vertex must be; -1: any part.
        pin_sizes (int32[num_pins], or None): For every pin, the number of pins that were merged
            into it when vertices were merged; None: 1.
    """

    net_ptr: npt.NDArray[np.int64]
    pins: npt.NDArray[np.int32]
    vertex_weights: npt.NDArray[np.int64]
    net_costs: npt.NDArray[np.int64] | None = None
    net_sources: npt.NDArray[np.int32] | None = None
    fixed: npt.NDArray[np.int32] | None = None
    pin_sizes: npt.NDArray[np.int32] | None = None

    @property
    def num_vertices(self) -> int:
        return len(self.vertex_weights)

    @property
    def num_nets(self) -> int:
        return len(self.net_ptr) - 1


@dataclass(frozen=True)
class WeightedGraph:
    """An undirected graph without self loops; both directions of every edge are stored.

    Attributes:
        indptr (int64[num_vertices + 1]): Offsets of the vertices' neighbours.
        indices (int32[2 * num_edges]): Neighbours.
        vertex_weights (int64[num_vertices] or int64[num_vertices, num_constraints]): Weights, at
            least 0, that parts share evenly; every column is a constraint.
        edge_weights (int64[2 * num_edges], at least 1, or None): Cost of every edge; None: 1.
        objective: "cut" (weight of cut edges) or "volume" (METIS' total communication volume).
    """

    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int32]
    vertex_weights: npt.NDArray[np.int64]
    edge_weights: npt.NDArray[np.int64] | None = None
    objective: str = "cut"

    @property
    def num_vertices(self) -> int:
        return len(self.vertex_weights)


@dataclass(frozen=True, eq=False)
class Assignment(Owners):
    """Owners that a model finds without a search: of rows and, for edge plans, also of nonzeros.

    Attributes:
        notes: Figures that the model adds to the plan's provenance (for example RCM's bandwidths).
    """

    notes: dict[str, int | float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class EdgeProblem:
    """A hypergraph whose partition gives an owner to each row and each nonzero.

    Attributes:
        hypergraph: The hypergraph; its connectivity-1 cut is the volume of expand and fold.
        row_vertex (int32[num_rows]): For every row, the vertex whose part owns the row.
        nonzero_vertex (int32[num_nonzeros]): For every nonzero, the vertex whose part owns the
            nonzero. For a nonzero on the diagonal it is the vertex of its row.
    """

    hypergraph: Hypergraph
    row_vertex: npt.NDArray[np.int32]
    nonzero_vertex: npt.NDArray[np.int32]

    def owners(self, part: npt.NDArray[np.int32]) -> Owners:
        """Return the owners of rows and nonzeros that follow from a partition of the vertices.

        `part`, int32[num_vertices], is the part of every vertex.
        """
        return Owners(part[self.row_vertex], part[self.nonzero_vertex])


Problem = Hypergraph | WeightedGraph | Assignment | EdgeProblem
