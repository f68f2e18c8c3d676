"""Figures of Wan et al. 2025, and their ratios to the figures of `plancc_lab.accelerators.model`.

The ranges of speed-ups in Figure 12 are from the text (section 4.4.1).

The energies of the CPU in Table 3 are divided by 1,000 here: with the printed energies, the
published speed-ups would need a processor of 35 kW. The ratio (energy of the CPU) / (energy of
MixGCN-SPU) varies by a factor of 5.71 between graphs, the speed-up in Figure 12 by 21.6 / 3.77 =
5.73. So the paper seems to multiply time by a constant power, and the speed-ups are proportional to
these ratios (`speedups_over_cpu`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from plancc_lab.accelerators.design import CPU, SHIPPED, accelerator
from plancc_lab.accelerators.model import (
    AcceleratorEstimate,
    Aggregations,
    estimate,
    gcn_aggregations,
)

SPU = "mixgcn-spu"
HIDDEN = 128
"""Width of the hidden layers; the network has three layers (section 4.1)."""


@dataclass(frozen=True)
class PublishedDataset:
    """A data set of Wan et al. 2025: its row of Table 2, and its energies of Table 3.

    Attributes:
        vertices, nonzeros: Nodes and edges as the paper counts and rounds them.
        joules: Energy by accelerator; the printed energy of the CPU is divided by 1,000.
    """

    name: str
    vertices: float
    nonzeros: float
    features: int
    classes: int
    joules: Mapping[str, float]

    @property
    def dims(self) -> tuple[int, ...]:
        return (self.features, HIDDEN, HIDDEN, self.classes)

    def aggregations(self) -> Aggregations:
        """Return the aggregations of an epoch of the paper's GCN; masks keep half the outputs."""
        return gcn_aggregations(self.vertices, self.nonzeros, self.dims)


def _dataset(
    name: str, vertices: float, nonzeros: float, widths: tuple[int, int], joules: list[float]
) -> PublishedDataset:
    by_name = dict(zip((CPU, "hygcn", "awb-gcn", SPU), joules, strict=True))
    return PublishedDataset(name, vertices, nonzeros, *widths, by_name)


DATASETS = {
    each.name: each
    for each in (
        _dataset("reddit", 233e3, 115e6, (602, 41), [146.9, 19.3, 6.9, 7.6]),
        _dataset("orkut", 3.07e6, 117e6, (320, 20), [164.1, 43.9, 33.6, 9.5]),
        _dataset("twitter", 41.7e6, 1.47e9, (52, 16), [3291, 533.9, 2326, 605.5]),
        _dataset("friendster", 65.6e6, 1.81e9, (128, 64), [3843, 1031, 6250, 1135]),
        _dataset("papers100m", 111e6, 1.62e9, (128, 172), [4322, 1547, 6810, 1269]),
    )
}

SPEEDUPS = {CPU: (3.77, 21.6), "hygcn": (1.32, 1.80), "awb-gcn": (1.05, 1.66)}
"""Least and greatest speed-up of MixGCN-SPU over each other machine, on the five data sets."""

SPEEDUP_FACTOR = 1.3
"""Largest factor between a modelled and a published speed-up that the documentation states."""

ENERGY_FACTOR = {SPU: 1.6, "hygcn": 1.7, "awb-gcn": 2.9, CPU: 2.8}
"""Largest factor between a modelled energy and Table 3 that the documentation states."""


def speedups_over_cpu() -> dict[str, float]:
    """Return the speed-up of MixGCN-SPU over the CPU for every data set, computed from Table 3.

    Accelerators are assumed to have constant power, and the largest speed-up is set to the
    published 21.6. The smallest is then 3.78, where the paper has 3.77.
    """
    ratio = {name: each.joules[CPU] / each.joules[SPU] for name, each in DATASETS.items()}
    scale = SPEEDUPS[CPU][1] / max(ratio.values())
    return {name: scale * value for name, value in ratio.items()}


def apart(value: float, low: float, high: float | None = None) -> float:
    """Return the factor by which a value is below `low` or above `high` (or `low`); at least 1."""
    return max(1.0, low / value, value / (low if high is None else high))


@dataclass(frozen=True)
class Comparison:
    """A modelled figure, and the published figure.

    Attributes:
        figure: "speed-up" of MixGCN-SPU over `machine`, or "energy" of `machine` in joules.
        value: The modelled figure.
        low, high: The published range; for a single published figure, both are this figure.
    """

    dataset: str
    machine: str
    figure: str
    value: float
    low: float
    high: float

    @property
    def factor(self) -> float:
        return apart(self.value, self.low, self.high)

    @property
    def claimed(self) -> float:
        """The largest factor between model and paper that the documentation states."""
        return SPEEDUP_FACTOR if self.figure == "speed-up" else ENERGY_FACTOR[self.machine]


def comparisons() -> list[Comparison]:
    """Compare the model with all speed-ups of Figure 12 and all energies of Table 3."""
    machines = {name: accelerator(name) for name in SHIPPED}
    over_cpu = speedups_over_cpu()
    found = []
    for dataset in DATASETS.values():
        work = dataset.aggregations()
        costs: dict[str, AcceleratorEstimate] = {
            name: estimate(m, work) for name, m in machines.items()
        }
        for name, (low, high) in SPEEDUPS.items():
            if name == CPU:
                low = high = over_cpu[dataset.name]
            ratio = costs[name].seconds / costs[SPU].seconds
            found.append(Comparison(dataset.name, name, "speed-up", ratio, low, high))
        for name, joules in dataset.joules.items():
            found.append(
                Comparison(dataset.name, name, "energy", costs[name].joules, joules, joules)
            )
    return found
