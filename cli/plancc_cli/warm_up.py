"""`plancc warm-up`: the commands of a user on a small graph, so that their kernels are compiled."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import click

from plancc.errors import OutputError, PlanccError
from plancc.text import message
from plancc_cli.progress import QUIET, verbosity, verbosity_level

RUN = "plancc-run"
STAGES: tuple[tuple[str, ...], ...] = (
    (
        "dataset sbm -o graph.mtx",
        "dataset rmat --scale 13 -o directed.mtx",
        "dataset grid -o grid.graph",
    ),
    (
        "compile edges.csv -p 2 --model block --columns v,u,w -o csv.h5",
        "compile edges.txt -p 2 --model block --symmetrize -o txt.h5",
        "compile grid.graph -p 2 --model block -o metis.h5",
        "compile graph.mtx -p 4 --data graph.npz -o rows.h5",
        "compile graph.mtx -p 4 --data graph.npz --model medium-grain -o edges.h5",
        "compile graph.mtx -p 4 --data graph.npz --model stochastic-hp --batch-size 200 -o mini.h5",
        "compile graph.mtx -p 4 --data graph.npz --model cagnet-2d -o grid.h5",
        "compile directed.mtx -p 4 --model rp -o directed.h5",
    ),
    (
        "inspect rows.h5",
        "inspect edges.h5",
        "verify rows.h5 --against graph.mtx",
        "plancc-run rows.h5",
        "plancc-run rows.h5 --model sage --dropout 0.5",
        "plancc-run rows.h5 --model gat",
        "plancc-run rows.h5 --model gat --heads 4",
        "plancc-run rows.h5 --boundary-sampling 0.5",
        "plancc-run mini.h5 --batch-size 200",
        "plancc-run edges.h5",
        "plancc-run grid.h5",
        "plancc-run directed.h5",
    ),
)
"""Command lines; those of a stage at the same time, after those of the stages before."""
EDGES = {"edges.csv": "u,v,w,t\n0,1,0.5,7\n1,2,2,7\n", "edges.txt": "# u v\n0 1\n1 2\n"}
TRAINING = "--ranks 4 --threads 1 --epochs 2"


@click.command()
@verbosity
def command() -> None:
    """Compile all kernels ahead: what a first command would spend a minute on.

    For the recipe of an image, and once per kind of processor on a cluster. Commands that a user
    would type are run on a small graph. Kernels of rarer options compile at their first use.
    """
    from plancc import jit

    if not any(map(jit.is_writable, jit.candidates())):
        tried = ", ".join(map(str, jit.candidates()))
        raise OutputError(
            f"no folder for kernels can be written ({tried}); set NUMBA_CACHE_DIR to one"
        )
    folder, begin = jit.folder(), time.monotonic()
    before = _kernels(folder)
    with tempfile.TemporaryDirectory(prefix="plancc-warm-up-") as work:
        for name, text in EDGES.items():
            Path(work, name).write_text(text)
        for line, seconds in _all_stages(work):
            if verbosity_level() > QUIET:
                click.echo(f"{seconds:6.1f} s  {line}")
    compiled = len(_kernels(folder) - before)
    if verbosity_level() > QUIET:
        taken = time.monotonic() - begin
        click.echo(f"{folder}: {compiled:,} kernels compiled in {taken:.0f} s")


def _kernels(folder: Path) -> set[Path]:
    return set(folder.rglob("*.nbc"))


def _all_stages(work: str) -> Iterator[tuple[str, float]]:
    """The command lines and their seconds, as they end; as many at once as there are cores."""
    from plancc.graph.chunks import usable_cores

    with ThreadPoolExecutor(usable_cores()) as pool:
        for lines in STAGES:
            if _lacks_runtime():
                lines = tuple(line for line in lines if not line.startswith(RUN))
            waiting = {pool.submit(_do, _words(line), work): line for line in lines}
            try:
                for done in as_completed(waiting):
                    yield waiting[done], done.result()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _lacks_runtime() -> bool:
    """Whether only the compiler is installed."""
    from importlib.util import find_spec

    return find_spec("torch") is None


def _words(line: str) -> list[str]:
    """The command line, with few epochs and the programs' names."""
    words = line.split()
    return [*words, *TRAINING.split()] if words[0] == RUN else ["plancc", *words]


def _do(words: Sequence[str], work: str) -> float:
    """Seconds of one command."""
    module = "plancc_cli.run" if words[0] == RUN else "plancc_cli"
    begin = time.monotonic()
    environment = os.environ | {"PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-m", module, *words[1:]],
        cwd=work,
        env=environment,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        said = message(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "")
        raise PlanccError(f"{' '.join(words)} failed: {said}")
    return time.monotonic() - begin
