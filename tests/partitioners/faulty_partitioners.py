"""Partitioners that go wrong for real, in the child process."""

import os
import sys
import time
from dataclasses import replace

import numpy as np

from plancc.errors import InputError
from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.partitioners.adapter import Adapter


def crash(problem, num_parts, **options):
    print("assertion of a native library failed", flush=True)
    os.abort()


def sleep(problem, num_parts, **options):
    if "PLANCC_TEST_PID_FILE" in os.environ:
        with open(os.environ["PLANCC_TEST_PID_FILE"], "w") as file:
            file.write(f"{os.getpid()}\n")
    time.sleep(600)


def garbage(problem, num_parts, **options):
    return np.full(problem.num_vertices, num_parts)


def too_short(problem, num_parts, **options):
    return np.zeros(problem.num_vertices - 1, dtype=np.int32)


def lazy(problem, num_parts, *, seeds, **options):
    return [np.arange(problem.num_vertices) % num_parts]  # the first seed's alone


def words(problem, num_parts, **options):
    return ["a"] * problem.num_vertices


def chatty(problem, num_parts, **options):
    print("x" * 100_000)
    os.write(1, b"y" * 100_000)
    return np.arange(problem.num_vertices) % num_parts


def one_part(problem, num_parts, **options):
    return np.zeros(problem.num_vertices, dtype=np.int64)


def raises(problem, num_parts, **options):
    raise ValueError("the library did not like it")


def refuses(problem, num_parts, **options):
    raise InputError("this preset cannot do that")


def exits(problem, num_parts, **options):
    sys.stderr.write("\x1b[31mgiving up\x1b[0m\n")
    sys.stderr.flush()
    os._exit(7)


def silent(problem, num_parts, **options):
    os._exit(0)


def adapter(name, run, library="numpy", rank=None):
    return Adapter(
        name=name,
        run=run,
        accepts=(Hypergraph, WeightedGraph),
        presets=("default",),
        objectives=("cut", "volume"),
        library=library,
        install=f"pip install {library}",
        auto_rank={} if rank is None else {Hypergraph: rank},
    )


CRASH = adapter("crash", crash, rank=90)
SLEEP = adapter("sleep", sleep)
GARBAGE = adapter("garbage", garbage)
TOO_SHORT = adapter("too_short", too_short)
LAZY = replace(adapter("lazy", lazy), several=True)
WORDS = adapter("words", words)
CHATTY = adapter("chatty", chatty)
ONE_PART = adapter("one_part", one_part)
RAISES = adapter("raises", raises)
REFUSES = adapter("refuses", refuses)
EXITS = adapter("exits", exits)
SILENT = adapter("silent", silent)
MISSING = adapter("missing", crash, library="no_such_library", rank=91)
