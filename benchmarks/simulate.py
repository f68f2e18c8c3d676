"""Time and peak memory of `plancc simulate` on a plan of 4,096 parts and 100 million nonzeros.

The plan is the worst case, one that random owners make: every part sends to every other. It is
made of its sizes and messages alone: columns, values and the rows of messages, which `simulate`
never reads, are there but hold nothing, so that a small machine can write it in seconds.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np

from benchmarks.inputs import Inputs
from benchmarks.report import Report
from plancc.plan.format import DATASETS, FORMAT, FORMAT_VERSION, header_attributes
from plancc.plan.values import Header

NUM_PARTS, VERTICES, NONZEROS = 4096, 5_000_000, 100_000_000
QUICK = 512, 100_000, 2_000_000
ROWS_PER_MESSAGE = 5
DIMS = "602,128,41"
SECONDS, BYTES = 10.0, 2 * 2**30

_CHILD = """
import sys
from plancc_cli.group import command
command.main(sys.argv[1:], prog_name="plancc", standalone_mode=False)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(status["VmHWM"].split()[0], file=sys.stderr)
"""


def run(inputs: Inputs) -> Report:
    if not Path("/proc/self/status").exists():
        return Report(["skipped: this system has no /proc/self/status"])
    num_parts, vertices, nonzeros = QUICK if inputs.quick else (NUM_PARTS, VERTICES, NONZEROS)
    path = inputs.folder / "large.h5"
    write_plan(path, num_parts, vertices, nonzeros)
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, "simulate", path, "--dims", DIMS, "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    seconds, peak = time.perf_counter() - start, int(done.stderr.split()[-1]) * 1024
    path.unlink()
    report = Report(
        [f"a row plan of {num_parts} parts, {nonzeros:,} nonzeros, {num_parts**2:,} messages"]
    )
    report.add("plancc simulate, the start of Python included", seconds, SECONDS, unit="s")
    report.add("its peak memory", peak / 2**30, BYTES / 2**30, unit="GiB")
    return report


def write_plan(path: Path, num_parts: int, vertices: int, nonzeros: int) -> None:
    """A row plan as far as sizes and messages go."""
    random = np.random.default_rng(1)
    messages = num_parts * (num_parts - 1)
    most = 2 * min(ROWS_PER_MESSAGE, vertices // num_parts) - 1
    lengths = random.integers(1, most, messages, endpoint=True)
    peer = np.tile(np.arange(num_parts - 1, dtype=np.int32), num_parts)
    peer += peer >= np.repeat(np.arange(num_parts, dtype=np.int32), num_parts - 1)
    rows = random.multinomial(vertices, np.full(num_parts, 1 / num_parts))
    degrees = random.multinomial(nonzeros, np.full(vertices, 1 / vertices))
    header = Header("row", vertices, nonzeros, num_parts, False, "sym", True)
    known = {
        "rows/part_ptr": _offsets(rows),
        "rows/num_interior": np.zeros(num_parts, np.int64),
        "matrix/row_ptr": _offsets(degrees),
        "expand/send_ptr": np.arange(num_parts + 1, dtype=np.int64) * (num_parts - 1),
        "expand/send_peer": peer,
        "expand/send_row_ptr": _offsets(lengths),
    }
    sizes = {
        "n": vertices,
        "p+1": num_parts + 1,
        "nnz": nonzeros,
        "expand messages": messages,
        "expand messages+1": messages + 1,
        "expand volume": int(lengths.sum()),
    }
    with h5py.File(path, "w", libver=("v108", "v110")) as file:
        file.attrs["format"], file.attrs["format_version"] = FORMAT, FORMAT_VERSION
        for name, value in header_attributes(header).items():
            file.attrs[name] = value if isinstance(value, str) else np.int64(value)
        file.attrs["content_sha256"] = ""
        for name, node in DATASETS.items():
            if node.optional or node.when not in ("", "expand"):
                continue
            if name in known:
                file.create_dataset(name, data=known[name], chunks=True, fletcher32=True)
            else:
                shape = tuple(sizes[dimension] for dimension in node.shape)
                file.create_dataset(name, shape=shape, dtype=node.dtypes[0])


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
