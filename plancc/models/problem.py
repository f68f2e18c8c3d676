"""What a model hands to a partitioner: the second intermediate representation.

A model turns a graph into one of these values; a partitioner turns a `Hypergraph` or a
`WeightedGraph` into owners. An `Assignment` needs no partitioner.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from plancc.graph.owners import Owners


@dataclass(frozen=True)
class Hypergraph:
    """Vertices to be split into parts, and nets whose connectivity costs communication.

    Attributes:
        net_ptr (int64[num_nets + 1]): Pins of net j are ``pins[net_ptr[j]:net_ptr[j + 1]]``.
        pins (int32[num_pins]): Unique in every net. Nets of a single pin never cost anything; a
            model may leave them out.
        vertex_weights (int64[num_vertices] or int64[num_vertices, num_constraints], at least 0):
            What the parts share evenly; several columns are as many constraints.
        net_costs (int64[num_nets], at least 1, or None): None: every net costs 1.
        net_sources (int32[num_nets], or None): The vertex whose row travels to the parts of the
            net, one of its pins; None: not known, then only the volume can be refined, not the
            traffic of single parts.
        fixed (int32[num_vertices], or None): The part where a vertex stays; -1: any.
        pin_sizes (int32[num_pins], or None): How many pins of a larger hypergraph every pin stands
            for; None: each for itself.
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
    """An undirected graph without self loops, both directions of every edge stored.

    Attributes:
        indptr: int64[num_vertices + 1].
        indices: int32[2 * num_edges].
        vertex_weights (int64[num_vertices] or int64[num_vertices, num_constraints], at least 0):
            What the parts share evenly; several columns are as many constraints.
        edge_weights (int64[2 * num_edges], at least 1, or None): None: every edge costs 1.
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
    """Owners that a model fixes by itself: of rows, and of nonzeros if it is a model of these.

    Attributes:
        notes: Figures of the model for the plan's provenance (for example RCM's bandwidths).
    """

    notes: dict[str, int | float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class EdgeProblem:
    """A hypergraph whose partition says who owns each row and each nonzero.

    Attributes:
        hypergraph: Its connectivity - 1 is the volume of expand and fold.
        row_vertex (int32[num_rows]): The vertex whose part owns row i.
        nonzero_vertex (int32[num_nonzeros]): The vertex whose part owns the nonzero; of one on the
            diagonal it is the row's.
    """

    hypergraph: Hypergraph
    row_vertex: npt.NDArray[np.int32]
    nonzero_vertex: npt.NDArray[np.int32]

    def owners(self, part: npt.NDArray[np.int32]) -> Owners:
        """What a partition of the vertices, int32[num_vertices], stands for."""
        return Owners(part[self.row_vertex], part[self.nonzero_vertex])


Problem = Hypergraph | WeightedGraph | Assignment | EdgeProblem
