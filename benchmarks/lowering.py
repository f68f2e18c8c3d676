"""Lowering against the one library routine that moves every nonzero as it does: scipy's tocsc()."""

from __future__ import annotations

import time

from benchmarks.inputs import Inputs
from benchmarks.report import Report
from plancc.graph.canonical import to_scipy
from plancc.graph.normalize import normalize
from plancc.graph.owners import Owners
from plancc.models.random import random_owner
from plancc.plan.lowering import lower

NUM_PARTS = 256


def run(inputs: Inputs) -> Report:
    report = Report([f"{inputs.rmat_name}, normalised to float32, p = {NUM_PARTS}, random owners"])
    matrix = normalize(inputs.rmat)
    owner = random_owner(matrix.num_vertices, NUM_PARTS, seed=1)
    csr = to_scipy(matrix)
    csr.indptr = csr.indptr.astype(csr.indices.dtype)  # so that scipy does not widen the indices
    sides = {
        "lower()": lambda: lower(
            matrix, Owners(owner), NUM_PARTS, normalization="sym", self_loops=True
        ),
        "tocsc()": csr.tocsc,
    }
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for work in sides.values():
        work()
    for _ in range(inputs.repetitions):
        for name, work in sides.items():
            start = time.perf_counter()
            result = work()
            seconds[name].append(time.perf_counter() - start)
            del result
    for name in sides:
        report.add_times(name, seconds[name])
    report.add_ratio("lower() / tocsc()", seconds["lower()"], seconds["tocsc()"], 1.5)
    return report
