"""A rank's slice of a plan, and whether the slices of all ranks fit together."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike, fspath
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import PlanError
from plancc.plan.parts import Claims, Part, PartFold
from plancc.plan.values import Header
from plancc_runtime.gathering import Ids, RowsOfRank
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.messages import Addressed, name_ranks

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
            if transport.rank == 0:
                file.all_attributes()  # compares their digests; no rank needs what they say
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
        n, parts = file.header.num_vertices, file.header.num_parts
        share = [parts * rank // transport.size for rank in (transport.rank, transport.rank + 1)]
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
    check_slices(part, content, transport, name_of(plan))
    return header, part, content


def name_of(plan: str | PathLike[str] | Slice) -> str:
    """The path of a plan's file; empty for a slice."""
    return "" if isinstance(plan, tuple) else fspath(plan)


def check_slices(part: Part, content: str, transport: Transport, path: str = "") -> None:
    """Check that the slices of all ranks fit together: otherwise messages would hang. Collective.

    Parameters
    ----------
    part : Part
    content : str
        Content hash of the file that this rank opened.
    transport : Transport
    path : str
        Of that file, for messages.

    Raises
    ------
    PlanError
        If the ranks opened different plans, or one sends what its peer does not expect.
    """
    fold, share = part.fold, part.grid
    grid = None if share is None else share.grid
    found = transport.ranks_by_value(content)
    if len(found) > 1:
        own, what = content[:16] or "none", "content hashes"
        if len(transport.ranks_by_value(path)) > 1:
            own, what = f"{own} of {path or 'no file'}", "content hashes and files"
        plans = "; ".join(f"{name_ranks(r)}: {c}" for c, r in transport.ranks_by_value(own).items())
        transport.agree(PlanError(f"the ranks opened different plans ({what}: {plans})"))
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
    by_hand = np.array([part.claims is None], np.int8)
    transport.allreduce_max(by_hand)
    if part.claims is not None and not by_hand[0]:
        _check_claims(part.claims, transport)
    if fold is not None:
        _check_once(part, fold, transport)


def _check_claims(claims: Claims, transport: Transport) -> None:
    """Check that the tables of all ranks mirror each other and make one plan. Collective."""
    size = transport.size
    steps = ["rows", "partial rows"][: 1 + claims.folds]
    steps += ["rows in hops"] * (len(claims.sent) - len(steps))
    balances = np.array([claims.vertices, claims.nonzeros])
    said = np.concatenate([claims.sent.T, np.broadcast_to(balances, (size, 2))], axis=1)
    heard = transport.alltoall(np.ascontiguousarray(said))
    vertices, nonzeros = heard[:, len(steps) :].sum(axis=0)
    with transport.agreement():
        for rows, expected, sent in zip(steps, claims.expected, heard.T, strict=False):
            for peer in np.flatnonzero(sent != expected)[:1].tolist():
                raise PlanError(
                    f"the plan is damaged: rank {peer} sends other {rows} than are expected "
                    "(plancc verify says more)"
                )
        if vertices:
            raise PlanError(
                "the plan is damaged: the parts of all ranks do not have every vertex once "
                "(plancc verify says more)"
            )
        if nonzeros:
            raise PlanError(
                f"the plan is damaged: the ranks have {abs(nonzeros)} nonzeros "
                f"{'more' if nonzeros > 0 else 'fewer'} than its header says"
            )


def _check_once(part: Part, fold: PartFold, transport: Transport) -> None:
    """Check that no nonzero is with two ranks: owners see the columns of their rows. Collective.

    Every rank sends as many numbers as its folded rows have nonzeros, and one for each of the rows.
    """
    halo = np.empty(part.num_halo, part.global_id.dtype)
    _send_pieces(
        _pieces(part.send_peer, part.send_ptr, part.global_id[part.send_row]),
        _pieces(part.recv_peer, part.recv_ptr, halo),
        transport,
    )
    vertex = np.concatenate([part.global_id, halo])
    counts = np.diff(part.row_ptr[part.num_rows :]).astype(np.int32)
    folded = vertex[part.column[part.row_ptr[part.num_rows] :]]
    arriving = np.empty(len(fold.recv_row), np.int32)
    _send_pieces(
        _pieces(fold.send_peer, fold.send_ptr, counts),
        _pieces(fold.recv_peer, fold.recv_ptr, arriving),
        transport,
    )
    sent_ptr, arriving_ptr = (
        np.append(0, np.cumsum(each, dtype=np.int64))[ptr]
        for each, ptr in ((counts, fold.send_ptr), (arriving, fold.recv_ptr))
    )
    column = np.empty(arriving_ptr[-1], folded.dtype)
    _send_pieces(
        _pieces(fold.send_peer, sent_ptr, folded),
        _pieces(fold.recv_peer, arriving_ptr, column),
        transport,
    )
    with transport.agreement():
        own_counts = np.diff(part.row_ptr[: part.num_rows + 1])
        own_row = np.repeat(np.arange(part.num_rows), own_counts)
        met = np.zeros(part.num_rows, np.bool_)
        met[fold.recv_row] = True
        met = met[own_row]
        row = np.concatenate([own_row[met], np.repeat(fold.recv_row, arriving)])
        column = np.concatenate([vertex[part.column[: len(own_row)][met]], column])
        key = np.sort(row * (1 << 32) + column)
        for each in key[1:][key[1:] == key[:-1]][:1].tolist():
            raise PlanError(
                f"the plan is damaged: ({part.global_id[each >> 32]}, {each & 0xFFFFFFFF}) "
                "is there twice (plancc verify says more)"
            )


def _pieces(
    peers: npt.NDArray[np.integer], ptr: npt.NDArray[np.integer], values: npt.NDArray[Any]
) -> list[tuple[int, npt.NDArray[Any]]]:
    """The values of every peer, as `Transport.exchange` takes them."""
    return [(peer, values[ptr[k] : ptr[k + 1]]) for k, peer in enumerate(peers.tolist())]


def _send_pieces(sends: Addressed, receives: Addressed, transport: Transport) -> None:
    """One round of messages. Collective."""
    exchange = transport.exchange(sends, receives)
    exchange.start()
    for k in range(len(sends)):
        exchange.send(k)
    exchange.finish()


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
