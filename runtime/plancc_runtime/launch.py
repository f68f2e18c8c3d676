"""How this process was started: alone, or as one of several ranks. Reads the environment only.

Every launcher announces itself to its ranks; without that, `mpirun -n 4 plancc-run` on a machine
without mpi4py would be four runs that know nothing of each other.
"""

from __future__ import annotations

import os

from plancc.errors import BackendUnavailable
from plancc_runtime.transport.base import Transport

# (size, rank), the most specific launcher first: mpirun may itself run inside a Slurm step.
_LAUNCHERS = (
    ("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"),  # Open MPI
    ("PMI_SIZE", "PMI_RANK"),  # MPICH, Intel MPI, srun --mpi=pmi2
    ("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"),  # MVAPICH2
    ("PALS_SIZE", "PALS_RANKID"),  # HPE Cray
    ("SLURM_STEP_NUM_TASKS", "SLURM_PROCID"),  # srun, with PMIx for instance
)


def announced() -> tuple[int, int]:
    """(rank, size) as the launcher announces them; (0, 1) without a launcher."""
    for size_name, rank_name in _LAUNCHERS:
        size, rank = os.environ.get(size_name, ""), os.environ.get(rank_name, "")
        if size.isdecimal() and rank.isdecimal():
            return int(rank), int(size)
    return 0, 1


def open_transport() -> Transport:
    """The transport for the way this process was started. Collective.

    One rank needs no MPI at all, neither mpirun nor a library.

    Raises
    ------
    BackendUnavailable
        If several ranks were started but cannot reach each other.
    """
    _, size = announced()
    if size == 1:
        from plancc_runtime.transport.single import SingleTransport

        return SingleTransport()

    from plancc_runtime.transport.mpi import MpiTransport

    transport = MpiTransport()
    if transport.size != size:
        raise BackendUnavailable(
            f"the launcher started {size} ranks but MPI sees {transport.size}: mpi4py uses the MPI "
            "library of another mpirun than the one that started this job"
        )
    return transport
