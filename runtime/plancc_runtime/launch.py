"""How this process was started: alone, or as one of several ranks, by environment variables.

Every launcher announces itself to its ranks by variables. Reading these variables prevents that
`mpirun -n 4 plancc-run` on a machine without mpi4py becomes four runs that do not know each other.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable
from typing import NamedTuple

from plancc.errors import BackendUnavailable, InputError
from plancc.registry import check_choice
from plancc_runtime.transport.base import TIMEOUT, Transport, say
from plancc_runtime.transport.watchdog import Watchdog

TRANSPORTS = ("auto", "mpi", "torch", "gloo", "nccl", "single")


class Launcher(NamedTuple):
    """Environment variables in which a launcher describes a rank."""

    size: str
    rank: str
    local_size: str  # ranks on this machine
    local_rank: str


_COMM_WORLD = ("SIZE", "RANK", "LOCAL_SIZE", "LOCAL_RANK")
_TORCHRUN = Launcher("WORLD_SIZE", "RANK", "LOCAL_WORLD_SIZE", "LOCAL_RANK")
# srun, for instance with PMIx; it gives the number of ranks of a node in another form
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
# Sizes of jobs, each with the variable that a rank of the job has; srun's step comes later
_SIZES = {
    "SLURM_NTASKS": "",
    "WORLD_SIZE": "RANK",
    "HOROVOD_SIZE": "HOROVOD_RANK",
    "JSM_NAMESPACE_SIZE": "JSM_NAMESPACE_RANK",
    "FLUX_JOB_SIZE": "FLUX_TASK_RANK",
}
# Variables that differ between two jobs on one machine, and are the same on all ranks of a job.
_JOBS = (("SLURM_JOB_ID", "SLURM_STEP_ID"), ("PMIX_NAMESPACE",), ("PALS_APID",), ("PBS_JOBID",))


def launcher() -> Launcher | None:
    """Return the launcher that started this rank; None if no launcher announces itself.

    torchrun may run inside any other job, and comes first if it gives its own name. Other programs
    also set variables like RANK for their own purposes, so RANK alone comes last.
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
    """Return (rank, size) as the launcher announces them; (0, 1) without a launcher."""
    found = launcher()
    if found is None:
        return 0, 1
    return _number(found.rank) or 0, _number(found.size) or 1


def local_rank() -> int:
    """Return this rank's number among the ranks of its machine, which chooses its device."""
    found = launcher()
    return 0 if found is None else _number(found.local_rank) or 0


def ranks_here() -> int | None:
    """Return the number of ranks on this machine; None if the launcher does not tell it."""
    found = launcher()
    return None if found is None else _number(found.local_size)


def open_transport(
    name: str = "auto", timeout: float | None = TIMEOUT, say: Callable[[str], None] = say
) -> Transport:
    """Return the transport that suits the way this process was started. Collective.

    One rank alone needs neither mpirun nor an MPI library.

    Parameters:
        name: One of `TRANSPORTS`. "auto": "single" for one rank, "torch" if torchrun started the
            ranks, else "mpi". "torch": "nccl" if every rank of a machine has its own CUDA device,
            else "gloo".
        timeout: Most seconds that one wait may last, also the first; None or 0: no limit.
        say: See `Transport.say`.

    Raises:
        InputError: If the name is unknown, or is "single" and there are several ranks. Also the
            errors of `check_no_singleton`.
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
            raise InputError(f"transport single: the launcher started {size} ranks")
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
                else "mpi4py uses the MPI library of another mpirun than the one of this job"
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
    """Raise InputError if there are ranks as threads and also a launcher or a transport."""
    _, size = announced()
    if size > 1:
        raise InputError(f"`ranks` {ranks}: the launcher has started {size} ranks already")
    if transport != "auto":
        name = transport if isinstance(transport, str) else type(transport).__name__
        raise InputError(f"`ranks` {ranks}: threads need no transport {name}")


def check_no_singleton() -> None:
    """Raise InputError if the job has several ranks and this process does not know its own.

    Each process would work alone on the whole graph (Open MPI, issue 13523).
    """
    if launcher() is not None:
        return
    text = os.environ.get("SLURM_NTASKS", "")
    if text and _number("SLURM_NTASKS") is None:
        raise InputError(f"SLURM_NTASKS {text!r}: must be a whole number; unset it outside of jobs")
    for size, rank in _SIZES.items():
        if (_number(size) or 1) > 1 and (not rank or _number(rank) is not None):
            meet = "set LOCAL_RANK, its number on its machine, and MASTER_ADDR to join them, "
            raise InputError(
                f"this job has {_number(size)} tasks ({size}), but this process finds no other: "
                f"{meet * (rank == _TORCHRUN.rank)}start it by srun (with PMIx), mpirun or "
                "torchrun, or give `ranks` 1 for one"
            )


class _Opening:
    """A rank that has no transport yet."""

    def __init__(self, timeout: float, say: Callable[[str], None]) -> None:
        self.rank, _ = announced()
        self.timeout, self.say = timeout, say


def need_torch(what: str) -> None:
    """Raise BackendUnavailable if torch, which `what` needs, cannot be imported."""
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise BackendUnavailable(
            f"{what} needs torch; install it with: pip install 'plancc[run]'"
        ) from error


def rendezvous() -> tuple[str, int]:
    """Return rank 0's address and port: MASTER_ADDR and MASTER_PORT, or defaults on one machine.

    Raises:
        BackendUnavailable: If the ranks may be on several machines, and MASTER_ADDR is not set.
        InputError: If MASTER_PORT is no port.
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
    """Return a text that all ranks of this job share, and that hardly any other job has."""
    for variables in _JOBS:
        values = [os.environ.get(variable, "") for variable in variables]
        if values[0]:
            return " ".join(values)
    return str(os.getppid())  # one launcher, on one machine


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) if text.isdecimal() else None
