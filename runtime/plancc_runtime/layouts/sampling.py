"""Rates at which epochs sample halo rows, nonzeros in halo columns, and edges."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sampling:
    """Probabilities of keeping rows and nonzeros of a block in an epoch; None means 1.

    Attributes:
        boundary: Probability of keeping each halo row.
        boundary_edges: Probability of keeping each nonzero in a halo column.
        edges: Probability of keeping each edge.
    """

    seed: int = 1
    boundary: float | None = None
    boundary_edges: float | None = None
    edges: float | None = None

    @property
    def active(self) -> bool:
        """Whether every epoch trains on a random subset of the rows or edges."""
        rates = self.boundary, self.boundary_edges, self.edges
        return any(rate is not None and rate < 1 for rate in rates)
