"""The options of layouts, as `TrainOptions` makes them. Knows no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sampling:
    """What an epoch keeps of a block (`layouts.boundary`); a rate of None or 1: all.

    Attributes
    ----------
    seed : int
    boundary : float or None
        Share of the boundary rows.
    boundary_edges : float or None
        Share of the nonzeros in halo columns.
    edges : float or None
        Share of all edges.
    """

    seed: int = 0
    boundary: float | None = None
    boundary_edges: float | None = None
    edges: float | None = None

    @property
    def active(self) -> bool:
        """Whether epochs work on a random subset."""
        rates = self.boundary, self.boundary_edges, self.edges
        return any(rate is not None and rate < 1 for rate in rates)


@dataclass(frozen=True)
class FeatureOptions:
    """How a feature plan is executed.

    Attributes
    ----------
    pipeline : str
        "off", "auto" (as many stages as its bandwidth asks for) or a number of stages.
    aggregate_on : str
        "device" or "cpu". On "cpu", slices are brought to host memory, and products made there,
        while the device updates rows (MixGCN-CPU; paper 002, Section 4.1).
    """

    pipeline: str = "off"
    aggregate_on: str = "device"


@dataclass(frozen=True)
class RowOrder:
    """The order of a rank's rows.

    Attributes
    ----------
    method : str
        "auto", "none", "rcm" or "degree". "auto": "rcm" with a pipeline, else "none".
    pipeline : str
        As of `FeatureOptions`, by which the ranks of a feature plan share its rows.
    """

    method: str = "auto"
    pipeline: str = "off"
