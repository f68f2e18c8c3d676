"""`plancc doctor`: checks of this installation: libraries, MPI, GPUs and the compiler.

Checks that may hang, crash or need much memory run in separate processes with a time limit.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from typing import Any

import click

from plancc.threads import usable_cores
from plancc_cli import options
from plancc_cli.progress import progress

OK, MISSING, FAILED = "ok", "missing", "failed"
SECONDS = 60.0
"""Seconds that a trial may take."""
FIRST_SECONDS = 300.0
"""Seconds that the trial of the compiler may take; it may have to compile its kernels first."""
MOST_CHARACTERS = 200
"""Largest number of characters that are shown of an error."""
NOT_SHOWN = ("test", "docs", "all")
"""Extras of the package that users do not need."""
COMPILER = """
import h5py, plancc, scipy.sparse
from plancc import jit
assert jit.folder() in jit.candidates(), "no folder for kernels: export NUMBA_CACHE_DIR=FOLDER"
graph = scipy.sparse.diags_array([1.0] * 15, offsets=1, shape=(16, 16))
plan = plancc.compile((graph + graph.T).tocsr(), num_parts=4)
print(plan.metrics().volume, "rows moved; kernels in", jit.folder())
"""
MPI = "from mpi4py import MPI; print(MPI.Get_library_version().split(chr(10))[0].strip(chr(0)))"
RANKS = """
from mpi4py.MPI import COMM_WORLD as world
assert world.allgather(world.rank) == [0, 1], "the ranks do not see each other"
print("see each other" * (world.rank == 0))
"""
AS_ROOT = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
"""Variables that Open MPI needs to start ranks for root."""
NO_DEVICE = "no CUDA device"
TORCH = f"""
import torch, torch.distributed as dist
names = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
nccl = names and dist.is_available() and dist.is_nccl_available()
version = ".".join(map(str, torch.cuda.nccl.version())) if nccl else "not in this torch"
there = torch.cuda.is_available()
print(", ".join(names) + "; NCCL " + version if there else {NO_DEVICE!r})
"""


@dataclass(frozen=True)
class Check:
    """The result of one check.

    Attributes:
        state: OK, MISSING or FAILED.
        found: The version or the device that was found; after a failure, what is wrong.
        advice: What the user can do; "" for nothing.
        needed: Whether the compiler does not work without the checked thing.
    """

    name: str
    state: str
    found: str
    advice: str = ""
    needed: bool = False


@click.command(cls=options.Sections)
@options.as_json
def command() -> None:
    """Check this installation, and say what is missing and how to install it.

    The command checks the versions of libraries, looks for GPUs, starts two MPI ranks as a trial,
    and compiles a tiny graph. The exit code is 0 if the compiler works, else 1.
    """
    from plancc.report.table import Table
    from plancc_cli.tables import print_json, print_table, say

    stages = {"versions": _versions(), "MPI": _mpi(), "GPU": _gpu(), "compiler": _compiler()}
    with (
        progress() as shown,
        shown.stage("checks"),
        ThreadPoolExecutor(len(stages)) as pool,  # most of it waits for trials
    ):
        looked: Iterator[list[Check]] = pool.map(list, stages.values())
        found = dict(zip(stages, looked, strict=True))
    works = not any(each.needed and each.state != OK for of in found.values() for each in of)
    if options.form():
        rows = [{"section": section} | asdict(each) for section, of in found.items() for each in of]
        print_json({"works": works, "checks": rows})
    else:
        for section, of in found.items():
            table = Table(("", "state", "found"), section, left=3)
            for each in of:
                words = "; ".join(filter(None, (each.found, each.advice)))
                table.add_row(each.name, each.state, words)
            print_table(table)
        say("\nthe compiler works" if works else "\nthe compiler does not work: see what failed")
    if not works:
        sys.exit(1)


def trial(words: Sequence[str], seconds: float = SECONDS) -> tuple[bool, str]:
    """Run a program for at most `seconds`; return success, and its output or its error.

    After the time limit, all processes that the program has started end too.
    """
    from plancc.files import scratch_folder

    with scratch_folder() as folder:  # launchers that are killed leave their files
        try:
            child = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
                env=os.environ | {"TMPDIR": str(folder)},
            )
        except OSError as error:
            return False, f"{words[0]}: {error.strerror or error}"
        try:
            out, err = child.communicate(timeout=seconds)
        except BaseException as error:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            if isinstance(error, subprocess.TimeoutExpired):
                return False, f"did not end within {seconds:g} s"
            raise
    if child.returncode == 0:
        return True, out.strip()
    lines = [line.strip() for line in (err or out).splitlines() if re.search("[A-Za-z]{3}", line)]
    said = lines[-1] if "Traceback" in err else " ".join(lines)
    return False, said[:MOST_CHARACTERS] or f"exit code {child.returncode}"


def _tried(name: str, words: Sequence[str], advice: str, **more: Any) -> Check:
    """Run the command `words` with `trial`; return the result as a check.

    `more` has other fields of the check, by name, and perhaps the time limit "seconds".
    """
    good, text = trial(words, more.pop("seconds", SECONDS))
    return Check(name, OK if good else FAILED, text, "" if good else advice, **more)


def _python(name: str, code: str, advice: str, **more: Any) -> Check:
    return _tried(name, [sys.executable, "-c", code], advice, **more)


def _versions() -> Iterator[Check]:
    from plancc.version import __version__

    yield Check("plancc", OK, __version__)
    yield Check("python", OK, f"{platform.python_version()} on {platform.platform()}")
    for name, (extra, everywhere) in _dependencies().items():
        needed = not extra and everywhere
        if _installed(name):
            yield Check(name, OK, metadata.version(name), needed=needed)
        else:
            advice = f"pip install '{f'plancc[{extra}]' if extra else name}'"
            yield Check(name, MISSING, "not installed", advice, needed)


def _dependencies() -> dict[str, tuple[str, bool]]:
    """Return, by package, the extra that installs it (or ""), and whether all machines need it."""
    found: dict[str, tuple[str, bool]] = {}
    lines: list[str] = []
    with suppress(metadata.PackageNotFoundError):  # a source tree that is not installed
        lines = metadata.requires("plancc") or []
    for line in lines:
        name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        where = extra[1] if extra else ""
        if name != "plancc" and where not in NOT_SHOWN:
            found.setdefault(name, (where, "platform_" not in line))
    return found


def _mpi() -> Iterator[Check]:
    launcher = shutil.which("mpirun") or shutil.which("mpiexec")
    if launcher is None:
        yield Check("mpirun", MISSING, "not in PATH", "pip install 'plancc[mpi]'")
    else:
        good, text = trial([launcher, "--version"])
        version = text.partition("\n")[0]
        asks = _asked_by_open_mpi() if "Open MPI" in version else ""
        yield Check("mpirun", OK if good else FAILED, f"{version} ({launcher})", asks)
    if not _installed("mpi4py"):
        yield Check("mpi4py", MISSING, "not installed", "pip install 'plancc[run]'")
        return
    library = _python("mpi4py", MPI, "install an MPI library: pip install 'plancc[mpi]'")
    yield library
    if library.state == OK and launcher is not None:
        words = [launcher, "-n", "2", sys.executable, "-c", RANKS]
        advice = f"{_asked_by_open_mpi()}; or mpi4py must be built for the MPI of {launcher}"
        yield _tried("two ranks", words, advice)


def _asked_by_open_mpi() -> str:
    """Return a phrase about the options and environment variables that Open MPI needs here."""
    cores = len(usable_cores())
    asks = f"more ranks than the {cores} cores need mpirun --oversubscribe"
    if os.geteuid() == 0 and not all(map(os.environ.get, AS_ROOT)):
        asks = f"as root: export {'=1 '.join(AS_ROOT)}=1; {asks}"
    return asks


def _gpu() -> Iterator[Check]:
    if not _installed("torch"):
        yield Check("torch", MISSING, "not installed", "pip install 'plancc[run]'")
        return
    found = _python("CUDA", TORCH, "pip install --force-reinstall torch")
    yield replace(found, state=MISSING) if found.found == NO_DEVICE else found


def _compiler() -> Iterator[Check]:
    advice = "pip install --force-reinstall plancc"
    yield _python("trial plan", COMPILER, advice, seconds=FIRST_SECONDS, needed=True)


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
