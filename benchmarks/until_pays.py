"""Searches that end once they no longer pay, beside efforts fast and balanced.

A plan costs the seconds of its search and those of its epochs, as predicted. Objective volume, one
thread. Effort best is left out: it takes minutes where these epochs take seconds. The clock of the
search counts CPU seconds, since other work on the machine would count otherwise. Every line is
printed as soon as it is known.
"""

from __future__ import annotations

import resource
import warnings
from contextlib import nullcontext
from typing import Any, NamedTuple
from unittest.mock import patch

import plancc
from benchmarks.inputs import SHARED, Inputs
from benchmarks.means import geometric_mean
from benchmarks.report import Report
from plancc.clock import Compilation
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
NUM_PARTS, EPOCHS, REPETITIONS = 16, 200, 5
MEAN, MOST = 1.02, 1.10


def cpu_seconds() -> float:
    """CPU seconds of this process and of the partitioners that have ended."""
    every = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in every)


class Paid(NamedTuple):
    """Seconds of a search and of the epochs of its owners."""

    search: float
    epochs: float

    def __str__(self) -> str:
        return f"{self.search:.2f} + {self.epochs:.2f}"


def paid(matrix: Graph, machine: str, **options: Any) -> Paid:
    """What one search takes, and its epochs."""
    search = SearchOptions(machine=machine, **options)
    _, task, balance = prepared(DEFAULT_MODEL, NUM_PARTS, {}, search, None)
    begin = cpu_seconds()
    found = find_owners(matrix, task, balance, lambda _: nullcontext())
    seconds, owners = cpu_seconds() - begin, numbered(matrix, found, task).owners
    return Paid(seconds, EPOCHS * search.predictor.of_owners(matrix, owners, NUM_PARTS).seconds)


def run(inputs: Inputs) -> Report:
    warnings.simplefilter("ignore", plancc.PlanccWarning)
    graphs = {name: SHARED / f"{name}.mtx.gz" for name in GRAPHS}
    small = inputs.quick or not all(path.exists() for path in graphs.values())
    sources: dict[str, Any] = {"rmat": load_dataset("rmat", scale=10, seed=1).graph}
    report, ratios = Report([f"{NUM_PARTS} parts, {EPOCHS} epochs, seconds are CPU time"]), []
    with patch.object(Compilation, "others", lambda _: cpu_seconds()):
        for name, source in (sources if small else graphs).items():
            matrix = normalize(source if small else plancc.read_graph(source))
            paid(matrix, MACHINES[0], effort=EFFORTS[0])  # loads kernels
            for machine in MACHINES:
                turns = [
                    (paid(matrix, machine, until_pays=EPOCHS), paid(matrix, machine, effort="fast"))
                    for _ in range(REPETITIONS)
                ]
                own, fast = map(min, zip(*turns, strict=True))
                balanced = paid(matrix, machine, effort="balanced")
                ratios.append(sum(own) / min(sum(fast), sum(balanced)))
                told = f"{name}, {machine}: until it pays {own}, fast {fast}, balanced {balanced} s"
                print(f"{told}; {ratios[-1]:.3f}", flush=True)
    report.add("search and epochs / the best effort's, mean", geometric_mean(ratios), MEAN)
    report.add("search and epochs / the best effort's, worst", max(ratios), MOST)
    return report
