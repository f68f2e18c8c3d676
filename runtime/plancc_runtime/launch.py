"""Finds out how this process was started: alone, or by a launcher as one of several ranks.

Without mpi4py, the launchers' variables still keep `mpirun -n 4 plancc-run` from becoming four
separate runs.
"""

from __future__ import annotations

import math
import os
import sys
import zlib
from collections.abc import Callable
from typing import NamedTuple

from plancc.errors import BackendUnavailable, InputError
from plancc.registry import check_choice
from plancc_runtime.transport.base import TIMEOUT, Transport, say
from plancc_runtime.transport.watchdog import Watchdog

TRANSPORTS = ("auto", "mpi", "torch", "gloo", "nccl", "single")


class Launcher(NamedTuple):
    """Names of the environment variables in which a launcher describes a rank."""

    size: str
    rank: str
    local_size: str  # ranks on this machine
    local_rank: str


_COMM_WORLD = ("SIZE", "RANK", "LOCAL_SIZE", "LOCAL_RANK")
_TORCHRUN = Launcher("WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK")
# srun, for instance with PMIx; its variable for ranks on this machine has another form
_SLURM = Launcher("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "", "SLURM_LOCALID")
# The most specific launcher first: mpirun may itself run inside a Slurm step.
_LAUNCHERS = (
    Launcher(*(f"OMPI_COMM_WORLD_{what}" for what in _COMM_WORLD)),  # Open MPI
    # MPICH, Intel MPI, srun --mpi=pmi2
    Launcher("PMI_SIZE", "PMI_RANK", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"),
    Launcher(*(f"MV2_COMM_WORLD_{what}" for what in _COMM_WORLD)),  # MVAPICH2
    Launcher("PALS_SIZE", "PALS_RANKID", "PALS_LOCAL_SIZE", "PALS_LOCAL_RANKID"),  # HPE Cray
    _SLURM,
    _TORCHRUN,
)
# Variables with the size of a job, and for each the variable that every rank of the job has. ""
# for Slurm: the rank variable exists only in a step of srun.
_SIZES = {
    "SLURM_NTASKS": "",
    "WORLD_SIZE": "RANK",
    "HOROVOD_SIZE": "HOROVOD_RANK",
    "JSM_NAMESPACE_SIZE": "JSM_NAMESPACE_RANK",
    "FLUX_JOB_SIZE": "FLUX_TASK_RANK",
}
# Variables that are the same on all ranks of a job, and differ between two jobs on one machine.
_JOBS = (("SLURM_JOB_ID", "SLURM_STEP_ID"), ("PMIX_NAMESPACE",), ("PALS_APID",), ("PBS_JOBID",))


def launcher() -> Launcher | None:
    """Return the launcher that started this rank; None if no launcher announces itself.

    If TORCHELASTIC_RUN_ID is set, torchrun is tried first, since it may run inside any job.
    Otherwise it is tried last, since other programs also set variables such as RANK.
    """
    first = [_TORCHRUN] if "TORCHELASTIC_RUN_ID" in os.environ else []
    for candidate in (*first, *_LAUNCHERS):
        needed = [candidate.size, candidate.rank]
        if candidate is _TORCHRUN:
            needed.append(candidate.local_rank)
        if all(_number(variable) is not None for variable in needed):
            return candidate
    return None


def announced() -> tuple[int, int]:
    """Return this rank and the number of ranks, as the launcher says; (0, 1) without a launcher."""
    found = launcher()
    return (0, 1) if found is None else (_number(found.rank) or 0, _number(found.size) or 1)


def local_rank() -> int:
    """Return this rank's index among the ranks on its machine, from 0."""
    found = launcher()
    return 0 if found is None else _number(found.local_rank) or 0


def ranks_here() -> int | None:
    """Return the number of ranks on this machine; None if no launcher says this number."""
    found = launcher()
    return None if found is None else _number(found.local_size)


def open_transport(
    name: str = "auto", timeout: float | None = TIMEOUT, say: Callable[[str], None] = say
) -> Transport:
    """Return the transport that suits the way this process was started. Collective.

    "auto" is "single" for one rank, "torch" under torchrun, else "mpi"; "torch" is "nccl" if every
    rank of a machine has its own CUDA device, else "gloo". Ranks wait for each other up to
    `timeout` seconds, or without limit if it is None or 0.

    Raises:
        InputError: If "single" is given to several ranks, or if `check_no_singleton` raises it.
        BackendUnavailable: If several ranks were started but cannot reach each other.
    """
    check_choice("transport", name, TRANSPORTS)
    rank, size = announced()
    if name != "single":
        check_no_singleton()
    if name == "auto":
        name = "single" if size == 1 else "torch" if launcher() is _TORCHRUN else "mpi"
    if name == "single":
        if size > 1:
            raise InputError(f"transport single: has one rank, but {size} started; choose auto")
        from plancc_runtime.transport.single import SingleTransport

        return SingleTransport()
    watchdog = Watchdog(_Opening(timeout or math.inf, say))
    if name == "mpi":
        from plancc_runtime.transport.mpi import MpiTransport, load_mpi

        load_mpi(watchdog)
        transport = MpiTransport(timeout=timeout)
        transport.say = say
        if transport.size != size:
            why = (
                "Slurm and the MPI library of mpi4py do not find each other; start with PMIx "
                "(SLURM_MPI_TYPE=pmix for srun), or with mpirun inside the job"
                if launcher() is _SLURM
                else "mpi4py does not use the MPI library of this job's mpirun"
            )
            raise BackendUnavailable(
                f"the launcher started {size} ranks but MPI sees {transport.size}: {why}"
            )
        return transport

    need_torch(f"transport {name}")
    from plancc_runtime.transport import torch_dist

    if name == "torch":
        name = torch_dist.best_backend(ranks_here())
    address, port = rendezvous()
    meeting = torch_dist.Meeting(rank, size, address, port)
    with watchdog(lambda: f"the other ranks to meet at {address}:{port}"):
        torch_dist.join(name, meeting, local_rank(), timeout, ranks_here())
    joined = torch_dist.TorchTransport(name, timeout)
    joined.say = say
    return joined


def check_no_launcher(ranks: int, transport: Transport | str) -> None:
    """Raise InputError if a launcher started several ranks, or a transport is given.

    In both cases this process cannot run `ranks` ranks as its threads.
    """
    _, size = announced()
    if size > 1:
        raise InputError(f"`ranks` {ranks}: the launcher started {size} ranks; leave `ranks` out")
    if transport != "auto":
        name = transport if isinstance(transport, str) else type(transport).__name__
        raise InputError(f"`ranks` {ranks} starts threads, which use no transport; drop {name}")


def check_no_singleton() -> None:
    """Raise InputError if the job has several ranks, but this process cannot find out its rank.

    Otherwise each process would work alone on the whole graph (Open MPI, issue 13523).
    """
    if launcher() is not None:
        return
    text = os.environ.get("SLURM_NTASKS", "")
    if text and _number("SLURM_NTASKS") is None:
        raise InputError(f"SLURM_NTASKS {text!r}: must be a whole number; unset it outside of jobs")
    for size, rank in _SIZES.items():
        if (_number(size) or 1) > 1 and (not rank or _number(rank) is not None):
            meet = "set LOCAL_RANK (the task's number on its machine) and MASTER_ADDR, "
            raise InputError(
                f"this job has {_number(size)} tasks ({size}), but this process finds no other: "
                f"{meet * (rank == _TORCHRUN.rank)}start all tasks by srun (with PMIx), mpirun or "
                "torchrun, or give `ranks` 1 to run alone"
            )


class _Opening:
    """What the watchdog needs to know of a rank whose transport does not exist yet."""

    def __init__(self, timeout: float, say: Callable[[str], None]) -> None:
        self.rank, _ = announced()
        self.timeout, self.say = timeout, say


def need_torch(what: str) -> None:
    """Import torch, which `what` needs. Raise BackendUnavailable if torch cannot be imported."""
    # Idle threads of GNU's OpenMP would spin for 5 ms, on cores that other threads and ranks need.
    # It reads these variables when torch is loaded.
    if "OMP_WAIT_POLICY" not in os.environ and "torch" not in sys.modules:
        os.environ.setdefault("GOMP_SPINCOUNT", "5000")
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise BackendUnavailable(
            f"{what} needs torch; install it with: pip install 'plancc[run]'"
        ) from error


def rendezvous() -> tuple[str, int]:
    """Return rank 0's address and port: MASTER_ADDR and MASTER_PORT, or defaults on one machine.

    BackendUnavailable if the ranks may be on several machines, and MASTER_ADDR is not set.
    """
    text = os.environ.get("MASTER_PORT", "")
    if text:
        port = _number("MASTER_PORT")
        if port is None or not 0 < port < 2**16:
            raise InputError(f"MASTER_PORT {text!r}: must be a number from 1 to 65535")
    else:
        # below the ports that systems give to outgoing connections
        port = 10000 + zlib.crc32(_job().encode()) % 20000
    found, (_, size) = launcher(), announced()
    alone = size == 1 or (found is not None and _number(found.local_size) == size)
    one_node = os.environ.get("SLURM_STEP_NUM_NODES", os.environ.get("SLURM_JOB_NUM_NODES")) == "1"
    address = os.environ.get("MASTER_ADDR") or "localhost" * (alone or one_node)
    if not address:
        raise BackendUnavailable(
            "torch.distributed needs the address of rank 0, which this launcher does not give; set "
            "MASTER_ADDR on all ranks"
        )
    return address, port


def _job() -> str:
    """Return a string that is the same on all ranks of this job, and differs in most other jobs."""
    for variables in _JOBS:
        values = [os.environ.get(variable, "") for variable in variables]
        if values[0]:
            return " ".join(values)
    return str(os.getppid())  # on one machine, the ranks have one launcher as parent


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else None
