"""`plancc warm-up`: the commands of a user on a small graph, so that their kernels are compiled."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import closing
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

import click

from plancc.errors import OutputError, PlanccError
from plancc.files import scratch_folder
from plancc.processes import die_with_parent, fate
from plancc.text import message
from plancc.threads import usable_cores
from plancc_cli.progress import QUIET, verbosity, verbosity_level
from plancc_cli.run import RANKS
from plancc_cli.signals import code_of, say_if_interrupted

RUN = "plancc-run"
Stages = tuple[tuple[str, ...], ...]
FIRST: Stages = (
    ("dataset sbm --num-features 64 -o graph.mtx", "dataset rmat --scale 10 -o hubs.mtx.gz"),
    (
        "compile graph.mtx -p 4 --data graph.npz -o rows.h5",
        "compile hubs.mtx.gz -p 4 -o hubs.h5",
    ),
    (
        "plancc-run rows.h5",
        "inspect rows.h5 --dims 64,16,8",
        "verify rows.h5 --against graph.mtx",
    ),
)
"""Command lines for the kernels of the first commands, on meshes and on graphs with hubs; a stage
begins when the one before has ended."""
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
        "inspect rows.h5 --batches 2 --sampler edges --keep 0.5",
        "plancc-run rows.h5 --model sage --dropout 0.5",
        "plancc-run rows.h5 --model gat",
        "plancc-run rows.h5 --boundary-sampling 0.5",
        "plancc-run mini.h5 --batch-size 200",
        "plancc-run rows.h5 --batch-size 100 --sampler neighbour --fanouts 3,3",
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
        say_if_interrupted(f"interrupted; {compiled}: run it again for the others")

    say_interrupted()
    stages = FIRST if first else STAGES
    with scratch_folder() as work, closing(_all_stages(stages, str(work), environment)) as done:
        Path(work, "edges.csv").write_text(EDGES)
        try:
            for line, seconds in done:
                if verbosity_level() > QUIET:
                    click.echo(f"{seconds:6.1f} s  {line}")
        except BaseException:
            say_interrupted()
            raise
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
    stages: Stages, work: str, environment: dict[str, str]
) -> Generator[tuple[str, float], None, None]:
    """The command lines and their seconds, as they end; as many at once as there are cores."""
    if find_spec("torch") is None:  # only the compiler is installed
        stages = tuple(tuple(e for e in lines if not e.startswith(RUN)) for lines in stages)
    alone = {name: value for name, value in os.environ.items() if name not in RANKS}
    with subprocess.Popen(
        [sys.executable, "-c", "from plancc_cli.warm_up import serve; serve()", json.dumps(stages)],
        cwd=work,
        env=alone | {"PYTHONWARNINGS": "ignore"} | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        process_group=0,  # Ctrl-C is answered here
    ) as server:
        assert server.stdout is not None
        try:
            for told in server.stdout:
                line, seconds, failure = json.loads(told)
                if failure is not None:
                    raise PlanccError(f"{line} failed: {message(failure)}")
                yield line, seconds
            if server.wait():
                raise PlanccError(f"the process that compiles {fate(server.returncode)}")
        finally:
            server.kill()
            server.stdout.read()  # until all forks are gone too: they write into the folder


# -- the process that imports all, once ------------------------------------------------------------


def serve() -> None:
    """Do the stages on the command line, each line in a fork of this process, and tell of them.

    It calls no kernel itself: a fork lacks the threads that a kernel leaves.
    """
    die_with_parent(os.getppid())
    from plancc.jit import cpu_target  # kernels may then be called in Python no more

    import_module("plancc_runtime.train" if RUN in sys.argv[1] else "plancc.pipeline")
    cpu_target.typing_context.refresh()  # as at the first call of a kernel
    cpu_target.target_context.refresh()
    for lines in json.loads(sys.argv[1]):
        running: dict[int, tuple[str, float, IO[bytes]]] = {}
        while lines or running:
            if lines and len(running) < len(usable_cores()):
                line, *lines = lines
                begin = time.monotonic()
                child, errors = _begin(line)
                running[child] = line, begin, errors
                continue
            child, status = os.wait()
            line, begin, errors = running.pop(child)
            with errors:
                errors.seek(0)
                last = errors.read().decode(errors="replace").strip().rpartition("\n")[2]
            failure = (last or fate(os.waitstatus_to_exitcode(status))) if status else None
            print(json.dumps([line, time.monotonic() - begin, failure]), flush=True)


def _begin(line: str) -> tuple[int, IO[bytes]]:
    """Start a command in a fork: its number, and what it will say on stderr."""
    server, errors = os.getpid(), TemporaryFile(dir=".")  # noqa: SIM115  read when the fork ends
    if (child := os.fork()) == 0:
        die_with_parent(server)
        os.dup(1)  # kept open until the fork ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(errors.fileno(), 2)
        runs = line.startswith(RUN)
        sys.argv = f"{line} {TRAINING}".split() if runs else ["plancc", *line.split()]
        os._exit(code_of(import_module("plancc_cli.run" if runs else "plancc_cli.main").main))
    return child, errors
