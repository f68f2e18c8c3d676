"""A rank's slice of a plan, and whether the slices of all ranks fit together."""

from __future__ import annotations

from os import PathLike

import numpy as np

from plancc.errors import PlanError
from plancc.plan.plan import Header, Part, PartFold
from plancc_runtime.transport.base import Transport

Slice = tuple[Header, Part]
LAYOUTS = ("row", "edge")


def open_slice(plan: str | PathLike[str] | Slice, transport: Transport) -> tuple[Header, Part, str]:
    """This rank's slice, and the content hash of the file it is from; not collective.

    Raises
    ------
    InputError, PlanError
        As `plancc.plan.slices.read_part`, or for an unknown layout.
    """
    if isinstance(plan, tuple):
        header, part, content = *plan, ""
    else:
        from plancc.plan.reader import PlanFile
        from plancc.plan.slices import read_part

        with PlanFile(plan) as file:
            header, content = file.header, file.content_sha256
            part = read_part(file, transport.rank, transport.size)
    if header.layout not in LAYOUTS:
        raise PlanError(
            f"this version runs plans of layout {' and '.join(LAYOUTS)}, not {header.layout}"
        )
    return header, part, content


def check_slices(part: Part, content: str, transport: Transport) -> None:
    """Whether the slices of all ranks fit together, since a message that does not would hang them.

    Collective.

    Raises
    ------
    PlanError
        If the ranks opened different plans, or one sends what its peer does not expect.
    """
    fold = part.fold
    if not transport.all_equal(f"{content} {fold is None}".encode()):
        transport.agree(PlanError("the ranks opened different plans of the same name"))
    _check_counts("rows", part, transport)
    if fold is not None:
        _check_counts("partial rows", fold, transport)


def _check_counts(rows: str, messages: Part | PartFold, transport: Transport) -> None:
    """Whether every rank sends as many rows as its peers expect. Collective."""
    sends, expects = np.zeros((2, transport.size), np.int64)
    np.add.at(sends, messages.send_peer, np.diff(messages.send_ptr))
    np.add.at(expects, messages.recv_peer, np.diff(messages.recv_ptr))
    arrives = transport.alltoall(sends)
    with transport.agreement():
        for peer in np.flatnonzero(arrives != expects)[:1].tolist():
            raise PlanError(
                f"the plan is damaged: rank {peer} sends {arrives[peer]} {rows} where "
                f"{expects[peer]} are expected (plancc verify says more)"
            )
