"""A rank's slice of a plan, and whether the slices of all ranks fit together."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike, fspath

import numpy as np
import numpy.typing as npt

from plancc.errors import PlanError
from plancc.plan.parts import Part, PartFold
from plancc.plan.values import Header
from plancc_runtime.gathering import Ids, RowsOfRank
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.messages import name_ranks

Slice = tuple[Header, Part]
LAYOUTS = ("row", "edge", "grid", "feature")


def open_slice(plan: str | PathLike[str] | Slice, transport: Transport) -> tuple[Header, Part, str]:
    """This rank's slice, and the content hash of the file it is from; not collective.

    A grid of one process column in which needed rows travel is a row plan, and is returned as one.

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
            f"this version runs plans of layout {', '.join(LAYOUTS)}, not {header.layout}"
        )
    share = part.grid
    if share is not None and share.grid.scheme == "1d" and share.block is not None:
        header = replace(header, layout="row")
        part = replace(share.block, vertex_data=part.vertex_data, claims=part.claims)
    return header, part, content


def read_ids(plan: str | PathLike[str] | Slice, content: str, transport: Transport) -> Ids | None:
    """This rank's share of the source's own ids, in plan order; not collective.

    None if the plan has none: its vertices are numbered as in the source, from 0. So is a plan that
    is given as a slice. `content` is the content hash of the file when the slice was read.

    Raises
    ------
    PlanError
        If the file has another content now, or cannot be read.
    """
    if isinstance(plan, tuple):
        return None
    from plancc.plan.reader import PlanFile

    name = "rows/original_id"
    with PlanFile(plan) as file:
        if file.content_sha256 != content:
            raise PlanError(f"{fspath(plan)}: another plan has this name since the run began")
        if not file.has(name):
            return None
        n = file.header.num_vertices
        share = [n * rank // transport.size for rank in (transport.rank, transport.rank + 1)]
        return Ids(file.read_within("rows/global_id", n, *share), file.read(name, *share))


def rows_of_rank(header: Header, part: Part) -> RowsOfRank:
    """Which vertices' rows this rank has; of several ranks with copies, the first contributes."""
    share = part.grid
    if share is None or share.grid.copies == 1:
        return RowsOfRank(part.global_id, header.num_vertices, part.index)
    first = share.grid.position(share.rank).column == 0
    number = share.grid.part(share.rank) if first else None
    return RowsOfRank(part.global_id, header.num_vertices, number)


def checked_slice(
    plan: str | PathLike[str] | Slice, transport: Transport
) -> tuple[Header, Part, str]:
    """What `open_slice` returns, if the slices of all ranks fit together. Collective."""
    with transport.agreement():
        header, part, content = open_slice(plan, transport)
    check_slices(part, content, transport)
    return header, part, content


def check_slices(part: Part, content: str, transport: Transport) -> None:
    """Check that the slices of all ranks fit together: otherwise messages would hang. Collective.

    Raises
    ------
    PlanError
        If the ranks opened different plans, or one sends what its peer does not expect.
    """
    fold, share = part.fold, part.grid
    grid = None if share is None else share.grid
    found = transport.ranks_by_value(content)
    if len(found) > 1:
        plans = "; ".join(f"{name_ranks(r)}: {c[:16] or 'none'}" for c, r in found.items())
        transport.agree(PlanError(f"the ranks opened different plans (content hashes: {plans})"))
    found = transport.ranks_by_value(f"layout {'row' if fold is None else 'edge'}, grid {grid}")
    if len(found) > 1:
        kinds = "; ".join(f"{name_ranks(ranks)}: {kind}" for kind, ranks in found.items())
        transport.agree(PlanError(f"the ranks have parts of different plans ({kinds})"))
    if share is not None and share.block is not None:
        ranks = np.array(share.grid.ranks_of_column(share.rank))
        _check_counts("rows", share.block, transport, ranks)
    _check_counts("rows", part, transport)
    if fold is not None:
        _check_counts("partial rows", fold, transport)


def _check_counts(
    rows: str,
    messages: Part | PartFold,
    transport: Transport,
    ranks: npt.NDArray[np.integer] | None = None,
) -> None:
    """Check that every rank sends as many rows as its peers expect. Collective.

    `ranks` maps peers to ranks where they differ.
    """
    sends, expects = np.zeros((2, transport.size), np.int64)
    ranks = np.arange(transport.size) if ranks is None else ranks
    np.add.at(sends, ranks[messages.send_peer], np.diff(messages.send_ptr))
    np.add.at(expects, ranks[messages.recv_peer], np.diff(messages.recv_ptr))
    arrives = transport.alltoall(sends)
    with transport.agreement():
        for peer in np.flatnonzero(arrives != expects)[:1].tolist():
            raise PlanError(
                f"the plan is damaged: rank {peer} sends {arrives[peer]} {rows} where "
                f"{expects[peer]} are expected (plancc verify says more)"
            )
