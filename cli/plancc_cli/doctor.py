"""`plancc doctor`: what this installation has, what is missing, and whether it works.

Whatever may hang, crash or take memory is tried in a process of its own, with a time limit.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path

import click

from plancc.threads import usable_cores
from plancc_cli import options
from plancc_cli.progress import QUIET, VERBOSITY, verbosity

OK, MISSING, FAILED = "ok", "missing", "failed"
SECONDS = 60.0
"""Time limit of a trial."""
FIRST_SECONDS = 300.0
"""Time limit of the trial of the compiler, which may have to compile its kernels first."""
MOST_WORDS = 200
"""Characters of an error that are shown."""
NOT_SHOWN = ("test", "docs", "all")
"""Extras that are of no use to those who run plancc."""
COMPILER = """
import plancc
import scipy.sparse
graph = scipy.sparse.diags_array([1.0] * 15, offsets=1, shape=(16, 16))
plan = plancc.compile((graph + graph.T).tocsr(), num_parts=4)
print(plan.metrics().volume, "rows moved")
"""
KERNELS = """
from plancc import jit
place = jit.folder()
assert place in jit.candidates(), f"{place}: only until the system removes it"
print(place)
"""
MPI = "from mpi4py import MPI; print(MPI.Get_library_version().split(chr(10))[0].strip(chr(0)))"
RANKS_OF_README = 4
MAPPING = "PRTE_MCA_rmaps_default_mapping_policy"
RANKS = """
from array import array
from mpi4py import MPI
ranks = array("i", [-1] * MPI.COMM_WORLD.Get_size())
MPI.COMM_WORLD.Allgather(array("i", [MPI.COMM_WORLD.Get_rank()]), ranks)
if MPI.COMM_WORLD.Get_rank() == 0:
    print("ranks", *ranks)
"""
TORCHRUN = "torchrun --no-python --nproc-per-node RANKS -- plancc-run plan.h5"
"""How ranks are started under torchrun; without `--` it takes options of plancc-run for its own."""
TORCH = """
import torch, torch.distributed as dist
names = [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())]
print(", ".join(names) if torch.cuda.is_available() else "no CUDA device")
print(".".join(map(str, torch.cuda.nccl.version()))
      if names and dist.is_available() and dist.is_nccl_available() else "")
"""


SCHEDULERS = (
    (
        *("Slurm", ("SLURM_JOB_ID",), ("SLURM_JOB_NUM_NODES", "SLURM_NTASKS")),
        "srun --mpi=pmix plancc-run plan.h5",
    ),
    (
        *("LSF", ("LSB_JOBID",), ("LSB_DJOB_HOSTFILE",)),
        "mpirun --hostfile $LSB_DJOB_HOSTFILE plancc-run plan.h5",
    ),
    (
        *("PBS", ("PBS_JOBID",), ("PBS_NODEFILE",)),
        "mpirun --hostfile $PBS_NODEFILE plancc-run plan.h5",
    ),
    ("Kubernetes", ("JOB_COMPLETION_INDEX", "KUBERNETES_SERVICE_HOST"), (), TORCHRUN),
)
"""Schedulers: name, variables of a job, those of nodes and ranks or of a file of hosts, a start."""


@dataclass(frozen=True)
class Check:
    """Something that was looked at.

    Attributes:
        state: OK, MISSING or FAILED.
        found: What is there, or what is wrong.
        advice: What to do about it.
        needed: Whether the compiler needs it.
    """

    name: str
    state: str
    found: str
    advice: str = ""
    needed: bool = False


@click.command()
@options.as_data
@verbosity
def command() -> None:
    """Check this installation, and say what is missing and how to install it.

    Looks at the versions of libraries, partitioners, MPI and its launcher (with a trial on two
    ranks), cores and threads, memory, GPUs and the cache of kernels, and compiles a tiny graph. The
    exit code is 0 if the compiler works, else 1.
    """
    checks: dict[str, list[Check]] = {}
    stages = {
        "versions": _versions(),
        "partitioners": _partitioners(),
        "MPI": _mpi(),
        "machine": _machine(),
        "job": _job(),
        "GPU": _gpu(),
        "compiler": _compiler(),
    }
    with _shown() as show, ThreadPoolExecutor(len(stages)) as pool:  # most of it waits for trials
        work = {stage: pool.submit(list, found) for stage, found in stages.items()}
        for stage, found in work.items():
            show(f"{stage} ...")
            checks[stage] = found.result()
    works = not any(each.needed and each.state != OK for of in checks.values() for each in of)
    _print(checks, works)
    if not works:
        sys.exit(1)


@contextmanager
def _shown() -> Iterator[Callable[[str], None]]:
    """Shows what is looked at on a terminal."""
    from rich.console import Console

    console = Console(stderr=True)
    if click.get_current_context().meta.get(VERBOSITY) == QUIET:
        yield lambda stage: None
        return
    with console.status("") as status:
        yield status.update


def _print(checks: Mapping[str, Sequence[Check]], works: bool) -> None:
    """All that was looked at, by section."""
    from plancc.report.table import Table
    from plancc_cli.tables import print_data, print_table, say

    form = options.form()
    if form:
        rows = [
            {"section": section} | asdict(each) for section, of in checks.items() for each in of
        ]
        print_data(form, {"works": works, "checks": rows}, rows)
        return
    for section, of in checks.items():
        table = Table(("", "state", "found"), section, left=3)
        for each in of:
            words = "; ".join(filter(None, (each.found, each.advice)))
            table.add_row(each.name, each.state, words)
        if of:
            print_table(table)
    say("\nthe compiler works" if works else "\nthe compiler does not work: see what failed")


def trial(words: Sequence[str], seconds: float = SECONDS) -> tuple[bool, str]:
    """Run a program that may hang: whether it succeeded, and its output or what is wrong with it.

    All that it started is ended with it.
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
    return False, _reason(err or out) or f"exit code {child.returncode}"


def _reason(text: str) -> str:
    """The line of an error's output that says most: a traceback's last, or the first sentence."""
    lines = [line.strip() for line in text.splitlines() if re.search("[A-Za-z]{3}", line)]
    if not lines:
        return ""
    if "Traceback" in text:
        return lines[-1][:MOST_WORDS]
    sentence = re.match(r".+?[.!](?= [A-Z]|$)", " ".join(lines))
    if sentence and len(sentence[0]) <= MOST_WORDS:
        return sentence[0]
    return " ".join(lines[:2])[:MOST_WORDS]


def _python(code: str, seconds: float = SECONDS) -> tuple[bool, str]:
    return trial([sys.executable, "-c", code], seconds)


def _versions() -> Iterator[Check]:
    from plancc.version import __version__

    yield Check("plancc", OK, __version__)
    yield Check("python", OK, f"{platform.python_version()} on {platform.platform()}")
    for name, extra, everywhere in _dependencies():
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            advice = f"pip install '{f'plancc[{extra}]' if extra else name}'"
            needed = not extra and everywhere
            yield Check(name, MISSING, "not installed", advice, needed)
        else:
            state = OK
            if name == "h5py":
                good, text = _python("import h5py; print(h5py.version.hdf5_version)")
                state = OK if good else FAILED
                found += f" with HDF5 {text}" if good else f": {text}"
            yield Check(name, state, found, needed=not extra and everywhere)


def _dependencies() -> Iterable[tuple[str, str, bool]]:
    """What plancc needs: the package, its extra ("" for none), whether on every machine."""
    try:
        lines = metadata.requires("plancc") or []
    except metadata.PackageNotFoundError:  # run from a source tree
        lines = []
    found: dict[str, tuple[str, str, bool]] = {}
    for line in lines:
        name = re.split(r"[^\w.-]", line, maxsplit=1)[0]
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        where = extra[1] if extra else ""
        if name != "plancc" and where not in NOT_SHOWN:
            found.setdefault(name, (name, where, "platform_" not in line))
    return found.values()


def _partitioners() -> Iterator[Check]:
    from plancc.errors import BackendUnavailable
    from plancc.partitioners import PARTITIONERS

    for name in PARTITIONERS:
        try:
            adapter = PARTITIONERS[name]
        except BackendUnavailable as error:
            yield Check(name, FAILED, str(error))
            continue
        if adapter.available():
            yield Check(name, OK, "installed")
        else:
            yield Check(name, MISSING, "not installed", adapter.install)


def _mpi() -> Iterator[Check]:
    launcher = shutil.which("mpirun") or shutil.which("mpiexec")
    if launcher is None:
        yield Check("mpirun", MISSING, "not in PATH", "pip install 'plancc[mpi]'")
    else:
        good, text = trial([launcher, "--version"])
        version = text.splitlines()[0] if good and text else text
        state, asks = OK if good else FAILED, _what_it_asks(version)
        yield Check("mpirun", state, f"{version} ({launcher})", asks)
    if not _installed("mpi4py"):
        yield Check("mpi4py", MISSING, "not installed", "pip install 'plancc[run]'")
        return
    good, text = _python(MPI)
    advice = "" if good else "install an MPI library: pip install 'plancc[mpi]'"
    yield Check("mpi4py", OK if good else FAILED, text, advice)
    if good and launcher is not None:
        good, text = trial([launcher, "-n", "2", sys.executable, "-c", RANKS])
        if good and text != "ranks 0 1":
            good = False
            text = f"the ranks do not see each other ({' '.join(text.split())})"
        advice = "" if good else _advice_on_ranks(launcher)
        yield Check("two ranks", OK if good else FAILED, text, advice)


def _what_it_asks(version: str) -> str:
    """What the launcher of Open MPI wants to be told here; "" of others."""
    from plancc_cli.tables import count_of

    if "Open MPI" not in version:
        return ""
    cores, asks = len(usable_cores()), _of_root()
    if "oversubscribe" not in os.environ.get(MAPPING, ""):
        ranks = max(RANKS_OF_README, cores + 1)
        asks.append(f"{count_of(cores, 'core')}: mpirun -n {ranks} needs --oversubscribe")
    return "; ".join(asks)


def _of_root() -> list[str]:
    """How Open MPI is told that root may run ranks, where root asks; else nothing."""
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        names = ("OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
        if not all(map(os.environ.get, names)):
            return [f"as root: export {'=1 '.join(names)}=1"]
    return []


def _advice_on_ranks(launcher: str) -> str:

    found = _of_root()
    if len(usable_cores()) < 2:
        found.append("more ranks than cores: mpirun --oversubscribe")
    return " and ".join(found) or f"mpi4py must be built for the MPI of {launcher}"


def _machine() -> Iterator[Check]:
    from plancc.memory import available_memory
    from plancc_cli.tables import size

    cores = sorted(usable_cores())
    yield Check("cores", OK, f"{os.cpu_count()}, of which {len(cores)} may be used")
    bound = len(cores) < (os.cpu_count() or 1)
    yield Check("binding", OK, f"to cores {_ranges(cores)}" if bound else "none")
    names = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES")
    given = [f"{name}={os.environ[name]}" for name in names if name in os.environ]
    yield Check("threads", OK, ", ".join(given) or f"{len(cores)}, shared by the ranks")
    left = available_memory()
    if left is not None:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        limited = "with the limits of control groups"
        yield Check("memory", OK, f"{size(total)}, {size(left)} left {limited}")


def _job() -> Iterator[Check]:
    """The job of a scheduler that this process is in, and how ranks are started there."""
    for scheduler, of_job, of_ranks, start in SCHEDULERS:
        found = [f"{name}={os.environ[name]}" for name in of_job if os.environ.get(name)]
        if not found:
            continue
        try:
            found += _nodes_and_ranks(of_ranks)
        except ValueError as error:
            yield Check(scheduler, FAILED, str(error), "ask who runs the cluster")
        else:
            yield Check(scheduler, OK, ", ".join(found), start)


def _nodes_and_ranks(variables: Sequence[str]) -> list[str]:
    """The numbers of nodes and ranks in two variables, or in a file with a host per rank.

    Raises:
        ValueError: If a number is none, or the file is not there.
    """
    numbers = {name: os.environ.get(name, "") for name in variables}
    if len(numbers) == 1:
        [(name, file)] = numbers.items()
        if not file:
            raise ValueError(f"{name} is not set")
        try:
            hosts = Path(file).read_text(errors="replace").split()
        except OSError as error:
            raise ValueError(f"{name}={file}: {error.strerror}") from error
        if not hosts:
            raise ValueError(f"{name}={file}: has no host")
        numbers = {"nodes": str(len(set(hosts))), "ranks": str(len(hosts))}
    for name, value in numbers.items():
        if value and not value.isdecimal():
            raise ValueError(f"{name}={value}: no whole number")
    pairs = zip(("nodes", "ranks"), numbers.values(), strict=False)
    return [f"{what}: {value}" for what, value in pairs if value]


def _ranges(numbers: Sequence[int]) -> str:
    """0, 1, 2, 5 -> "0-2,5"."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][-1] + 1:
            found[-1][1:] = [number]
        else:
            found.append([number])
    return ",".join("-".join(map(str, ends)) for ends in found)


def _gpu() -> Iterator[Check]:
    if not _installed("torch"):
        yield Check("torch", MISSING, "not installed", "pip install 'plancc[run]'")
        return
    good, text = _python(TORCH)
    if not good:
        yield Check("torch", FAILED, text, "pip install --force-reinstall torch")
        return
    if shutil.which("torchrun"):
        yield Check("torchrun", OK, TORCHRUN)
    devices, _, nccl = text.partition("\n")
    there = devices != "no CUDA device"
    yield Check("CUDA", OK if there else MISSING, devices)
    if there:
        yield Check("NCCL", OK if nccl else MISSING, nccl or "not in this torch")


def _compiler() -> Iterator[Check]:
    good, text = _python(KERNELS)
    advice = "" if good else "export NUMBA_CACHE_DIR=FOLDER, one that may be written"
    yield Check("cache of kernels", OK if good else FAILED, text, advice)
    good, text = _python(COMPILER, FIRST_SECONDS)
    advice = "" if good else "pip install --force-reinstall plancc"
    yield Check("trial plan", OK if good else FAILED, text, advice, needed=True)


def _installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True
