"""Searches that end once they no longer pay, beside every fixed effort.

A plan costs the seconds of its search and those of its epochs, as predicted. Objective volume, one
thread. Effort best is left out: it takes minutes where these epochs take seconds. The clock of the
search counts CPU seconds, since other work on the machine would count otherwise. Every line is
printed as soon as it is known.
"""

from __future__ import annotations

import resource
import warnings
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import plancc
from benchmarks.inputs import SHARED, Inputs
from benchmarks.means import geometric_mean
from benchmarks.report import Report
from plancc.graph.graph import Graph
from plancc.graph.normalize import normalize
from plancc.models import DEFAULT_MODEL
from plancc.options import EFFORTS, SearchOptions
from plancc.owners.find import find_owners
from plancc.owners.numbering import numbered
from plancc.owners.request import prepared
from plancc_datasets import load_dataset

GRAPHS = ("wiki-Vote", "CoauthorCS", "finan512", "email-Enron", "musae-github", "delaunay_n15")
MACHINES = ("cpu-cluster", "h100", "small-cpu")
NUM_PARTS, EPOCHS, REPETITIONS = 16, 200, 3
MEAN, MOST = 1.02, 1.10


def cpu_seconds() -> float:
    """Of this process, and of the partitioners that have ended."""
    every = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in every)


class Paid(NamedTuple):
    """Seconds of a search and of the epochs of its owners."""

    search: float
    epochs: float

    def __str__(self) -> str:
        return f"{self.search:.2f} + {self.epochs:.2f}"


def paid(matrix: Graph, machine: str, **options: Any) -> Paid:
    """The least of `REPETITIONS`."""
    search, spent = SearchOptions(machine=machine, **options), []
    _, task, balance = prepared(DEFAULT_MODEL, NUM_PARTS, {}, search, None)
    for _ in range(1 if options.get("effort") == "balanced" else REPETITIONS):
        begin = cpu_seconds()
        found = find_owners(matrix, task, balance, lambda _: nullcontext())
        spent.append(cpu_seconds() - begin)
    owners = numbered(matrix, found, task).owners
    epoch = search.predictor.of_owners(matrix, owners, NUM_PARTS).seconds
    return Paid(min(spent), EPOCHS * epoch)


def run(inputs: Inputs) -> Report:
    warnings.simplefilter("ignore", plancc.PlanccWarning)
    graphs = {name: SHARED / f"{name}.mtx.gz" for name in GRAPHS}
    small = inputs.quick or not all(path.exists() for path in graphs.values())
    sources: dict[str, Any] = {"rmat": load_dataset("rmat", scale=10, seed=1).graph}
    report, ratios = Report([f"{NUM_PARTS} parts, {EPOCHS} epochs, seconds are CPU time"]), []
    clock = SimpleNamespace(others=cpu_seconds)
    with patch("plancc.clock.compilation", lambda: clock):
        for name, source in (sources if small else graphs).items():
            matrix = normalize(source if small else plancc.read_graph(source))
            paid(matrix, MACHINES[0], effort="fast")  # loads kernels
            for machine in MACHINES:
                own = paid(matrix, machine, until_pays=EPOCHS)
                fixed = {each: paid(matrix, machine, effort=each) for each in EFFORTS[:2]}
                ratios.append(sum(own) / min(map(sum, fixed.values())))
                words = (f"{each} {seconds}" for each, seconds in fixed.items())
                told = f"{name}, {machine}: until it pays {own}, {', '.join(words)} s"
                print(f"{told}; {ratios[-1]:.3f}", flush=True)
    report.add("search and epochs / the best effort's, mean", geometric_mean(ratios), MEAN)
    report.add("search and epochs / the best effort's, worst", max(ratios), MOST)
    return report
