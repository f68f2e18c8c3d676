"""Damage a plan file at random and read it every way there is; run by test_hostile.py.

    python fuzz_plan_file.py PLAN FOLDER SEED TRIALS

A process of its own, since HDF5 is a C library: if it crashed or did not end, that would be the
failure of one test, not the end of all of them. Prints every trial that ended in another exception
than plancc's own.
"""

from __future__ import annotations

import faulthandler
import os
import re
import resource
import sys
import traceback

import numpy as np

from plancc.errors import InputError, PlanError
from plancc.plan.reader import PlanFile, load
from plancc.plan.slices import read_rank_slice
from plancc.plan.verify import verify_file
from plancc.report.plans import report


def damaged(content: bytes, rng: np.random.Generator) -> bytes:
    data = np.frombuffer(content, np.uint8).copy()
    kind = rng.integers(5)
    at = rng.integers(len(data), size=rng.integers(1, 9))
    if kind == 0:  # single bits
        data[at] ^= np.uint8(1) << rng.integers(8, size=len(at)).astype(np.uint8)
    elif kind == 1:  # bytes
        data[at] = rng.integers(256, size=len(at))
    elif kind == 2:  # one byte of structure: HDF5's headers and names are what is not zero
        used = np.flatnonzero(data)
        data[rng.choice(used)] = rng.choice([0, 1, 0x7F, 0x80, 0xFF])
    elif kind == 3:  # a block from elsewhere
        size = int(rng.integers(1, 600))
        source, target = rng.integers(len(data) - size, size=2)
        data[target : target + size] = data[source : source + size]
    else:
        return content[: rng.integers(len(content))]
    # HDF5 2.0 never returns from a damaged global heap, where it keeps strings of variable length
    # (the attributes); nothing outside the library can help, so these heaps are spared.
    for heap in re.finditer(b"GCOL", content):
        size = int.from_bytes(content[heap.start() + 8 : heap.start() + 16], "little")
        span = slice(heap.start(), heap.start() + size)
        data[span] = np.frombuffer(content[span], np.uint8)
    return data.tobytes()


def read_every_way(path: str) -> None:
    for read in (
        PlanFile,
        load,
        verify_file,
        report,
        lambda at: report(at, num_ranks=2, dims=[4, 3]),
        lambda at: read_rank_slice(at, 0, 2),
        lambda at: [read_rank_slice(at, rank, 4) for rank in range(4)],
    ):
        try:
            found = read(path)
            if isinstance(found, PlanFile):
                found.__exit__(None, None, None)
        except (PlanError, InputError) as error:
            words = str(error)
            assert path in words, words
            assert "\n" not in words, words
            words.encode()


def main(plan: str, folder: str, seed: int, trials: int) -> int:
    faulthandler.enable()
    limit = 8 << 30  # a size that the file only claims must not be allocated
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with open(plan, "rb") as stream:
        content = stream.read()
    path = os.path.join(folder, "damaged.h5")
    failures = 0
    for trial in range(trials):
        rng = np.random.default_rng([seed, trial])
        with open(path, "wb") as stream:
            stream.write(damaged(content, rng))
        print(f"seed {seed} trial {trial}", file=sys.stderr)
        try:
            read_every_way(path)
        except Exception:
            failures += 1
            print(f"seed {seed} trial {trial}\n{traceback.format_exc()}")
    return min(failures, 100)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
