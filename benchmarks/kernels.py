"""Local sparse products against torch.sparse, scipy and the copy bandwidth; float32.

Every product of a line is timed in turn, again and again, so that other work on the machine meets
all of them. The bound is the time in which a copy moves what a product must move at least: every
nonzero (column and value), every row pointer, the rows of x that it uses and the rows of out, once
each. The share of it can exceed 1 where x and out stay in a cache.
"""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

import plancc
from benchmarks.inputs import SHARED, Inputs
from benchmarks.report import Report
from plancc.graph.canonical import to_scipy
from plancc.graph.graph import Graph
from plancc.graph.normalize import normalize
from plancc_datasets import load_dataset
from plancc_runtime.kernels.order import ORDERS, cache_order
from plancc_runtime.kernels.rows import add_rows, pack
from plancc_runtime.kernels.spmm import KERNELS, prepare

WIDTHS = (32, 64, 128)
THREADS = (1, 2)
FILES = ("soc-Slashdot0902", "dblp-2010")
TARGET = 0.8  # of the time of torch's CSR product with 32-bit indices
COPY_BYTES = 1 << 28  # read and written to measure the bandwidth: beyond every cache

Times = dict[str, list[float]]


def run(inputs: Inputs) -> Report:
    report = Report(["symmetrised (R-MAT: as drawn), sym-normalised; ratios are of times"])
    repetitions = min(inputs.repetitions, 5)  # a product takes up to half a second
    before = torch.get_num_threads()
    try:
        for name, graph in _graphs(inputs, report):
            matrix = to_scipy(normalize(graph)).tocsr()
            report.notes.append(f"{name}: {matrix.shape[0]:,} rows, {matrix.nnz:,} nonzeros")
            for threads in THREADS:
                torch.set_num_threads(threads)
                for width in WIDTHS:
                    _products(report, name, matrix, width, threads, repetitions)
            _orders(report, name, matrix, repetitions)
        for threads in THREADS:
            torch.set_num_threads(threads)
            _rows(report, threads, inputs)
    finally:
        torch.set_num_threads(before)
    return report


def _graphs(inputs: Inputs, report: Report) -> Iterator[tuple[str, Graph]]:
    for name in () if inputs.quick else FILES:
        path = SHARED / f"{name}.mtx.gz"
        if path.is_file():
            yield name, plancc.read_graph(path, symmetrize=True)
        else:
            report.notes.append(f"{name}: skipped, {SHARED} lacks it")
    scale = 12 if inputs.quick else 17
    yield f"rmat-{scale}", load_dataset("rmat", scale=scale, edge_factor=16, seed=1).graph


def _products(
    report: Report, graph: str, matrix: csr_matrix, width: int, threads: int, repetitions: int
) -> None:
    """Every kernel, torch.sparse with both sizes of indices, scipy (one thread) and a copy."""
    m, n = matrix.shape
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, width, generator=generator)
    out = torch.empty(m, width)
    source, target = torch.ones(2, COPY_BYTES // 8)  # float32
    kernels = {name: prepare(matrix, torch.float32, kernel=name) for name in KERNELS.names()}
    int32, int64 = _torch_csr(matrix, np.int32), _torch_csr(matrix, np.int64)

    sides: dict[str, Callable[[], object]] = {
        "torch int32": lambda: torch.addmm(out, int32, x, beta=0, out=out),
        "torch int64": lambda: torch.addmm(out, int64, x, beta=0, out=out),
        "copy": lambda: target.copy_(source),
    }
    sides |= {name: partial(kernel.multiply, x, out) for name, kernel in kernels.items()}
    if threads == 1:
        x_array = x.numpy()
        sides["scipy"] = lambda: matrix @ x_array
    seconds = _in_turn(sides, repetitions)

    label = f"{graph}, d = {width}, {threads} thread{'s' if threads > 1 else ''}"
    baseline = seconds["torch int32"]
    report.add_ratio(f"{label}: numba / torch int32", seconds["numba"], baseline, TARGET)
    for name in ("torch", "torch int64", "scipy"):
        if name in seconds:
            _add_median_ratio(report, f"{label}: {name} / torch int32", seconds[name], baseline)
    used = len(np.unique(matrix.indices))
    least = 8 * matrix.nnz + 8 * (m + 1) + 4 * width * (used + m)
    bound = least / COPY_BYTES * statistics.median(seconds["copy"])
    for name in ("numba", "torch int32"):
        share = bound / statistics.median(seconds[name])
        report.add(f"{label}: {name}, share of bandwidth", share)


def _orders(report: Report, graph: str, matrix: csr_matrix, repetitions: int) -> None:
    """Products of the numba kernel in the row orders of `cache_order`."""
    kernels, took = {}, {}
    for method in ORDERS:
        start = time.perf_counter()
        order = cache_order(matrix, method)
        took[method] = time.perf_counter() - start
        kernels[method] = prepare(matrix[order][:, order].tocsr(), torch.float32, kernel="numba")
    for width in WIDTHS:
        x, out = torch.ones(matrix.shape[1], width), torch.empty(matrix.shape[0], width)
        sides = {name: partial(kernel.multiply, x, out) for name, kernel in kernels.items()}
        seconds = _in_turn(sides, repetitions)
        for method in ORDERS[1:]:
            label = f"{graph}, d = {width}, {THREADS[-1]} threads: order {method} / as given"
            _add_median_ratio(report, label, seconds[method], seconds["none"])
    report.add(f"{graph}: finding order rcm", took["rcm"], unit="s")


def _rows(report: Report, threads: int, inputs: Inputs) -> None:
    """`pack` and `add_rows` of a quarter of the rows against torch's routines and a copy."""
    n = 8_000 if inputs.quick else 80_000
    generator = torch.Generator().manual_seed(0)
    rows = torch.randperm(n, generator=generator)[: n // 4].sort().values
    for width in (WIDTHS[0], WIDTHS[-1]):
        x, received = torch.ones(n, width), torch.ones(len(rows), width)
        out = torch.empty_like(received)
        seconds = _in_turn(_row_sides(x, rows, received, out), inputs.repetitions)
        label = f"{len(rows):,} of {n:,} rows, d = {width}, {threads} thread(s)"
        for name, under in (("pack", "copy"), ("add_rows", "copy"), ("add_rows", "index_add_")):
            _add_median_ratio(report, f"{label}: {name} / {under}", seconds[name], seconds[under])


def _row_sides(
    x: Tensor, rows: Tensor, received: Tensor, out: Tensor
) -> dict[str, Callable[[], object]]:
    return {
        "copy": lambda: out.copy_(received),
        "pack": lambda: pack(x, rows, out),
        "index_add_": lambda: x.index_add_(0, rows, received),
        "add_rows": lambda: add_rows(x, rows, received),
    }


def _torch_csr(matrix: csr_matrix, index: type) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse", UserWarning)
        return torch.sparse_csr_tensor(
            torch.from_numpy(matrix.indptr.astype(index)),
            torch.from_numpy(matrix.indices.astype(index)),
            torch.from_numpy(matrix.data),
            size=matrix.shape,
        )


def _in_turn(sides: Mapping[str, Callable[[], object]], repetitions: int) -> Times:
    """Seconds of every side, one after the other, after a first round that does not count."""
    seconds: Times = {name: [] for name in sides}
    for repetition in range(repetitions + 1):
        for name, work in sides.items():
            start = time.perf_counter()
            work()
            if repetition:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def _add_median_ratio(report: Report, name: str, over: list[float], under: list[float]) -> None:
    report.add(name, statistics.median(over) / statistics.median(under))
