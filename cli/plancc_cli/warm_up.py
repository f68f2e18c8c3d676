"""`plancc warm-up`: the commands of a user on a small graph, so that their kernels are compiled."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import click

from plancc.errors import OutputError, PlanccError
from plancc.files import scratch_folder
from plancc.processes import SENTENCE, tell
from plancc.text import message
from plancc_cli.progress import QUIET, verbosity, verbosity_level

RUN = "plancc-run"
FIRST: tuple[tuple[str, ...], ...] = (
    ("dataset sbm -o graph.mtx", "dataset rmat --scale 10 -o hubs.mtx.gz"),
    (
        "compile graph.mtx -p 4 --data graph.npz -o rows.h5",
        "compile hubs.mtx.gz -p 4 -o hubs.h5",
    ),
    (
        "plancc-run rows.h5",
        "inspect rows.h5 --dims 32,16,8",
        "verify rows.h5 --against graph.mtx",
    ),
)
"""Command lines for the kernels of the first commands, on meshes and on graphs with hubs; a stage
begins when the one before has ended."""
STAGES: tuple[tuple[str, ...], ...] = (
    *FIRST,
    (
        "dataset grid -o grid.graph",
        "compile edges.csv -p 2 --model block --columns v,u,w -o csv.h5",
        "compile graph.mtx -p 4 --data graph.npz --model medium-grain -o edges.h5",
        "compile graph.mtx -p 4 --data graph.npz --model stochastic-hp --batch-size 200 -o mini.h5",
    ),
    (
        "inspect edges.h5",
        "plancc-run rows.h5 --model sage --dropout 0.5",
        "plancc-run rows.h5 --model gat",
        "plancc-run rows.h5 --boundary-sampling 0.5",
        "plancc-run mini.h5 --batch-size 200",
    ),
)
EDGES = "u,v,w,t\n0,1,0.5,7\n1,2,2,7\n"
TRAINING = "--ranks 4 --threads 1 --epochs 2"


@click.command()
@click.option(
    "--portable",
    metavar="FOLDER",
    help="Compile for every processor of a level of the architecture, into a folder.",
)
@click.option(
    "--level", help="x86-64-v3, x86-64-v2 or generic (ARM).  [default: the best of this processor]"
)
@click.option("--first", is_flag=True, help="Only for compile, inspect, verify and a run of gcn.")
@verbosity
def command(portable: str | None, level: str | None, first: bool) -> None:
    """Compile kernels ahead; without them a first command waits for half a minute.

    For the recipe of an image, and once per kind of processor on a cluster. Commands that a user
    would type are run on a small graph. Kernels of rarer options compile at their first use.

    Portable kernels, as in wheels, are used where the processor's own are missing: put them into a
    folder of kernels (`plancc doctor` names it).
    """
    from plancc import jit

    environment = {jit.PORTABLE: "0"}
    if portable is not None:
        levels = _for_level(level)
        if not portable or not jit.is_writable(Path(portable)):
            raise click.UsageError(
                f"--portable '{portable}': give a folder that can be written, not by everybody"
            )
        environment |= {"NUMBA_CACHE_DIR": os.path.abspath(portable), **levels}
        folder = Path(portable)
    elif level is not None:
        raise click.UsageError("--level goes with --portable")
    elif not any(map(jit.is_writable, jit.candidates())):
        tried = ", ".join(map(str, jit.candidates()))
        raise OutputError(
            f"no folder for kernels can be written ({tried}); set NUMBA_CACHE_DIR to one"
        )
    else:
        folder = jit.folder()
    before, begin = _kernels(folder), time.monotonic()

    def say_interrupted() -> None:
        compiled = f"{len(_kernels(folder) - before):,} kernels compiled in {folder}"
        tell(SENTENCE, f"interrupted; {compiled}: run it again for the others")

    say_interrupted()
    wanted = FIRST if first else STAGES
    with (
        scratch_folder() as work,
        closing(_all_stages(wanted, str(work), environment, say_interrupted)) as stages,
    ):
        Path(work, "edges.csv").write_text(EDGES)
        for line, seconds in stages:
            if verbosity_level() > QUIET:
                click.echo(f"{seconds:6.1f} s  {line}")
    compiled = len(_kernels(folder) - before)
    if verbosity_level() > QUIET:
        taken = time.monotonic() - begin
        click.echo(f"{folder}: {compiled:,} kernels compiled in {taken:.0f} s")


def _for_level(level: str | None) -> dict[str, str]:
    """What numba is told to compile for a level, which this processor must have to run it."""
    from plancc import jit

    names = jit.levels(jit.processor())
    if not names or (level is not None and level not in names):
        has = " and ".join(names) or f"none of {', '.join(jit.LEVELS)}"
        raise click.UsageError(f"--level '{level or ''}': this processor has {has}")
    return {"NUMBA_CPU_NAME": level or names[0], "NUMBA_CPU_FEATURES": ""}


def _kernels(folder: Path) -> set[Path]:
    return set(folder.glob("[!.]*.kernel"))


def _all_stages(
    stages: tuple[tuple[str, ...], ...],
    work: str,
    environment: dict[str, str],
    on_failure: Callable[[], None],
) -> Generator[tuple[str, float], None, None]:
    """The command lines and their seconds, as they end; as many at once as there are cores.

    `on_failure` is called before the commands that still run are waited for.
    """
    from plancc.graph.chunks import usable_cores

    with ThreadPoolExecutor(usable_cores()) as pool:
        for lines in stages:
            if find_spec("torch") is None:  # only the compiler is installed
                lines = tuple(line for line in lines if not line.startswith(RUN))
            try:
                waiting = {
                    pool.submit(_do, _words(each), work, environment): each for each in lines
                }
                for done in as_completed(waiting):
                    yield waiting[done], done.result()
            except BaseException:
                on_failure()
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _words(line: str) -> list[str]:
    """The command line, with few epochs and the programs' names."""
    words = line.split()
    return [*words, *TRAINING.split()] if words[0] == RUN else ["plancc", *words]


def _do(words: Sequence[str], work: str, environment: dict[str, str]) -> float:
    """Seconds of one command."""
    module = "run" if words[0] == RUN else "main"
    code = f"from plancc import jit; from plancc_cli.{module} import main; main()"  # no plain ones
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code, *words[1:]],
        cwd=work,
        env=os.environ | {"PYTHONWARNINGS": "ignore"} | environment,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
    )
    if done.returncode:
        said = message(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "")
        raise PlanccError(f"{' '.join(words)} failed: {said}")
    return time.monotonic() - begin
