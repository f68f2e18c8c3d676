"""Rates of the random samples that epochs train on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sampling:
    """Shares of a block that an epoch keeps (`layouts.boundary`). A rate of None or 1 keeps all.

    Attributes:
        seed: Seed of the draws.
        boundary: Share of the boundary rows.
        boundary_edges: Share of the nonzeros in halo columns.
        edges: Share of all edges.
    """

    seed: int = 1
    boundary: float | None = None
    boundary_edges: float | None = None
    edges: float | None = None

    @property
    def active(self) -> bool:
        """Whether epochs work on a random subset."""
        rates = self.boundary, self.boundary_edges, self.edges
        return any(rate is not None and rate < 1 for rate in rates)
