"""`plancc warm-up`: runs common commands on a small graph, so that their kernels are compiled."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path

import click

from plancc.errors import OutputError, PlanccError
from plancc.files import scratch_folder
from plancc.processes import fate, note_written
from plancc.text import message
from plancc.threads import usable_cores
from plancc_cli import options
from plancc_cli.progress import QUIET, quiet, verbosity_level
from plancc_cli.run import RANKS
from plancc_cli.tables import count_of

RUN = "plancc-run"
Stages = tuple[tuple[str, ...], ...]
FIRST: Stages = (
    ("dataset sbm --num-features 64 -o graph.mtx", "dataset rmat --scale 10 -o hubs.mtx.gz"),
    ("compile graph.mtx -p 4 --data graph.npz -o rows.h5", "compile hubs.mtx.gz -p 4 -o hubs.h5"),
    ("plancc-run rows.h5", "inspect rows.h5 --dims 64,16,8", "verify rows.h5 --against graph.mtx"),
)
"""Command lines that compile the kernels of the first commands, for meshes and graphs with hubs.
A stage begins after the stage before it has ended."""
STAGES: Stages = (
    *FIRST,
    (
        "dataset grid -o grid.graph",
        "compile edges.csv -p 2 --model block --columns v,u,w -o csv.h5",
        "compile graph.mtx -p 4 --data graph.npz --model medium-grain -o edges.h5",
        "compile graph.mtx -p 4 --data graph.npz --model stochastic-hp --batch-size 200 -o mini.h5",
        "compile graph.mtx -p 4 --model medium-grain --exchange relays -o relays.h5",
        "compile graph.mtx -p 4 --topology 2x2 -o hops.h5",
        "compile hubs.mtx.gz -p 4 --model libra -o libra.h5",
        "refine rows.h5 --objective max-volume -o refined.h5",
    ),
    (
        "inspect edges.h5",
        "inspect mini.h5 --batches 2",
        "inspect rows.h5 --batches 2 --batch-size 100 --sampler walk",
        "inspect rows.h5 --batches 2 --sampler edges --sampler-option keep=0.5",
        "plancc-run rows.h5 --model sage --dropout 0.5",
        "plancc-run rows.h5 --model gat",
        "plancc-run rows.h5 --boundary-sampling 0.5",
        "plancc-run mini.h5 --batch-size 200",
        "plancc-run rows.h5 --batch-size 100 --sampler neighbour --fanouts 3,3",
    ),
)
EDGES = "u,v,w,t\n0,1,0.5,7\n1,2,2,7\n"
TRAINING = "--ranks 4 --threads 1 --epochs 2"


@click.command(cls=options.Sections)
@click.option(
    "--portable", metavar="FOLDER", help="Compile for all processors of --level, into this folder."
)
@click.option(
    "--level", help="x86-64-v3, x86-64-v2, or generic (ARM).  [default: the best of this processor]"
)
@click.option("--first", is_flag=True, help="Only kernels of compile, inspect, verify and a GCN.")
@quiet
def command(portable: str | None, level: str | None, first: bool) -> None:
    """Compile kernels ahead of time; otherwise the first command waits half a minute for them.

    Use this command when you build an image, and once per kind of processor on a cluster. It runs
    common commands on a small graph. Kernels that only rare options need are compiled at their
    first use.

    Portable kernels, such as the kernels in wheels, are used if there are no kernels for this
    processor. Put portable kernels into the folder of kernels that `plancc doctor` shows.
    """
    from plancc import jit

    environment = {jit.PORTABLE: "0"}
    if portable is not None:
        levels = _for_level(level)
        if not portable or not jit.is_writable(Path(portable)):
            raise click.UsageError(
                f"--portable '{portable}': give a folder that you, but not everybody, can write to"
            )
        environment |= {"NUMBA_CACHE_DIR": os.path.abspath(portable), **levels}
        folder = Path(portable)
    elif level is not None:
        raise click.UsageError("--level needs --portable")
    elif not any(map(jit.is_writable, jit.candidates())):
        tried = ", ".join(map(str, jit.candidates()))
        raise OutputError(
            f"no folder for kernels can be written ({tried}); set NUMBA_CACHE_DIR to a folder"
        )
    else:
        folder = jit.folder()
    begin = time.monotonic()
    stages = FIRST if first else STAGES
    with scratch_folder() as work:
        Path(work, "edges.csv").write_text(EDGES)
        compiled = _run(stages, str(work), environment, folder)
    if verbosity_level() > QUIET:
        taken = time.monotonic() - begin
        click.echo(f"{folder}: {compiled:,} kernels compiled in {taken:.0f} s")


def _for_level(level: str | None) -> dict[str, str]:
    """Return environment variables with which numba compiles for a level, such as x86-64-v3.

    None stands for the highest level that this processor supports.
    """
    from plancc import jit

    names = jit.levels(jit.processor())
    if not names or (level is not None and level not in names):
        has = " and ".join(names) or f"none of {', '.join(jit.LEVELS)}"
        raise click.UsageError(f"--level '{level or ''}': this processor has {has}")
    return {"NUMBA_CPU_NAME": level or names[0], "NUMBA_CPU_FEATURES": ""}


def _kernels(folder: Path) -> set[Path]:
    return set(folder.glob("[!.]*.kernel"))


def _run(stages: Stages, work: str, more: dict[str, str], folder: Path) -> int:
    """Run command lines, at most one per core at a time; return the number of compiled kernels.

    `stages` are groups of command lines; a group begins when the previous group has ended.
    """
    if find_spec("torch") is None:  # only the compiler is installed
        stages = tuple(tuple(e for e in lines if not e.startswith(RUN)) for lines in stages)
    alone = {name: value for name, value in os.environ.items() if name not in RANKS}
    environment = alone | {"PYTHONWARNINGS": "ignore"} | more

    def seconds(line: str) -> float:
        program, *words = f"{line} {TRAINING}".split() if line.startswith(RUN) else line.split()
        module = ["plancc_cli.run"] if program == RUN else ["plancc_cli", program]
        command, begin = [sys.executable, "-m", *module, *words], time.monotonic()
        done = subprocess.run(command, cwd=work, env=environment, capture_output=True, text=True)
        if done.returncode:
            said = done.stderr.strip().rpartition("\n")[2] or fate(done.returncode)
            raise PlanccError(f"{line} failed: {message(said)}")
        return time.monotonic() - begin

    before = _kernels(folder)
    with ThreadPoolExecutor(len(usable_cores())) as pool:
        try:
            for lines in stages:
                for line, taken in zip(lines, pool.map(seconds, lines), strict=True):
                    if verbosity_level() > QUIET:
                        click.echo(f"{taken:6.1f} s  {line}")
        finally:  # an interruption says what is there
            if compiled := len(_kernels(folder) - before):
                note_written(f"{folder} with {count_of(compiled, 'kernel')}")
    return compiled
