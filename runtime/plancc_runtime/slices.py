"""A rank's slice of a plan, and whether the slices of all ranks fit together."""

from __future__ import annotations

from os import PathLike

import numpy as np

from plancc.errors import PlanError
from plancc.plan.plan import Header, Part
from plancc_runtime.transport.base import Transport

Slice = tuple[Header, Part]


def open_slice(plan: str | PathLike[str] | Slice, transport: Transport) -> tuple[Header, Part, str]:
    """This rank's slice, and the content hash of the file it is from; not collective.

    Raises
    ------
    InputError, PlanError
        As `plancc.plan.slices.read_rank_slice`, or for another layout than "row".
    """
    if isinstance(plan, tuple):
        header, part, content = *plan, ""
    else:
        from plancc.plan.reader import PlanFile
        from plancc.plan.slices import read_part

        with PlanFile(plan) as file:
            header, content = file.header, file.content_sha256
            part = read_part(file, transport.rank, transport.size)
    if header.layout != "row":
        raise PlanError(f"this version runs plans of layout row, not {header.layout}")
    return header, part, content


def check_slices(part: Part, content: str, transport: Transport) -> None:
    """Whether the slices of all ranks fit together, since a message that does not would hang them.

    Collective.

    Raises
    ------
    PlanError
        If the ranks opened different plans, or one sends what its peer does not expect.
    """
    if not transport.all_equal(content.encode()):
        transport.agree(PlanError("the ranks opened different plans of the same name"))
    sends, expects = np.zeros((2, transport.size), np.int64)
    np.add.at(sends, part.send_peer, np.diff(part.send_ptr))
    np.add.at(expects, part.recv_peer, np.diff(part.recv_ptr))
    arrives = transport.alltoall(sends)
    with transport.agreement():
        for peer in np.flatnonzero(arrives != expects)[:1].tolist():
            raise PlanError(
                f"the plan is damaged: rank {peer} sends {arrives[peer]} rows where "
                f"{expects[peer]} are expected (plancc verify says more)"
            )
