"""The study of Wan et al. 2025: accelerators compared with a CPU and with the published figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from plancc.registry import check_choice
from plancc_lab.accelerators.design import CPU, Accelerator, accelerator
from plancc_lab.accelerators.model import (
    AcceleratorEstimate,
    Aggregations,
    estimate,
    gcn_aggregations,
)
from plancc_lab.accelerators.published import DATASETS, Comparison, comparisons


@dataclass(frozen=True)
class Subject:
    """A graph whose neighbour aggregation is modelled.

    Attributes:
        dims: Number of features of a vertex, before the first layer and after each layer.
        work: The sums over neighbours in one epoch.
        dataset: Data set of the paper, if the paper's figures are for exactly `work`; else None.
    """

    name: str
    dims: tuple[int, ...]
    work: Aggregations
    dataset: str | None = None

    @classmethod
    def of_dataset(cls, name: str, dims: Sequence[int] | None, mask_density: float) -> Subject:
        """Return a data set of Wan et al. 2025; if `dims` is None, with the paper's widths."""
        check_choice("data set", name, DATASETS)
        dataset = DATASETS[name]
        widths = tuple(dims or dataset.dims)
        work = gcn_aggregations(dataset.vertices, dataset.nonzeros, widths, mask_density)
        return cls(name, widths, work, name if work == dataset.aggregations() else None)


@dataclass(frozen=True)
class AcceleratorRow:
    """Figures of one accelerator for one graph; `published_joules` is None if none are known."""

    machine: str
    estimate: AcceleratorEstimate
    speedup_over_cpu: float
    published_joules: float | None

    def as_dict(self) -> dict[str, Any]:
        """Return the row as a dict that can be written as JSON."""
        values = asdict(self)
        return {"machine": values.pop("machine"), **values.pop("estimate"), **values}


def study(subject: Subject, machines: Mapping[str, Accelerator]) -> list[AcceleratorRow]:
    """Return a row for each accelerator in `machines`, with its figures for the subject's graph."""
    base = estimate(accelerator(CPU), subject.work).seconds
    published = DATASETS[subject.dataset].joules if subject.dataset else {}
    rows = []
    for name, machine in machines.items():
        cost = estimate(machine, subject.work)
        speedup = base / cost.seconds if cost.seconds else 1.0
        rows.append(AcceleratorRow(name, cost, speedup, published.get(name)))
    return rows


def published_beside(subjects: Sequence[Subject], machines: Mapping[str, Any]) -> list[Comparison]:
    """Return comparisons with all published figures for these subjects (graphs) and machines."""
    datasets = {subject.dataset for subject in subjects}
    return [each for each in comparisons() if each.machine in machines and each.dataset in datasets]
