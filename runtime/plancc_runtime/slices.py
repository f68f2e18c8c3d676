"""A rank's slice of a plan, and checks that the slices of all ranks fit together."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from os import fspath
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from plancc.errors import PlanError
from plancc.files import StrPath
from plancc.graph.types import distinct_columns
from plancc.plan.exchange import Exchange
from plancc.plan.format import LAYOUTS
from plancc.plan.parts import Claims, Part
from plancc.plan.values import Header
from plancc_runtime.gathering import Ids, RowsOfRank
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.messages import name_ranks
from plancc_runtime.transport.row_numbers import send_lists, send_numbers

if TYPE_CHECKING:
    from plancc.plan.reader import PlanFile

Slice = tuple[Header, Part]


@dataclass(frozen=True)
class Opened:
    """A plan that a rank has opened, before the rank reads nonzeros and messages.

    Attributes:
        plan: The path of the plan's file, or this rank's slice.
        header: The plan's header, as `run_header` returns it.
        rows: The rank's part, with its rows and vertex data. If `plan` is a path, the part has no
            nonzeros and no messages yet.
        content: Content hash of the file; "" for a slice.
    """

    plan: StrPath | Slice
    header: Header
    rows: Part
    content: str
    file: PlanFile | None

    @property
    def name(self) -> str:
        """The path of the file; "" for a slice."""
        return "" if isinstance(self.plan, tuple) else fspath(self.plan)

    @property
    def sampler(self) -> str:
        """The sampler that the plan was compiled for; "" if there is none, or for a slice."""
        return "" if self.file is None else sampler_of(self.file)

    def read(self, transport: Transport) -> Part:
        """Return the whole slice; its vertex data are those in `self.rows`. Close the file.

        Collective.
        """
        with transport.agreement():
            part = self._read(transport)
        check_slices(part, transport)
        return part

    def _read(self, transport: Transport) -> Part:
        if isinstance(self.plan, tuple):
            part = replace(self.plan[1], vertex_data=self.rows.vertex_data)
        else:
            from plancc.plan.slices import read_part

            assert self.file is not None
            with self.file as file:
                part = read_part(file, transport.rank, transport.size, self.rows.vertex_data)
        share = part.grid
        if share is not None and self.header.layout == "row":
            assert share.block is not None
            return replace(share.block, vertex_data=part.vertex_data, claims=part.claims)
        return part


def sampler_of(file: PlanFile) -> str:
    """Return the sampler that a plan was compiled for; "" if there is none."""
    return str(file.attributes("provenance").get("sampler", ""))


def open_plan(plan: StrPath | Slice, transport: Transport, on_disk: bool = False) -> Opened:
    """Open a plan without calling a kernel; features are mapped if `on_disk`. Collective."""
    with ExitStack() as files:
        with transport.agreement():
            opened = _opened(plan, transport, files, on_disk)
        check_contents(opened.content, transport, opened.name)
        files.pop_all()
    return opened


def _opened(plan: StrPath | Slice, transport: Transport, files: ExitStack, on_disk: bool) -> Opened:
    if isinstance(plan, tuple):
        header, rows, content, file = *plan, "", None
    else:
        from plancc.plan.reader import PlanFile
        from plancc.plan.slices import read_rows

        file = files.enter_context(PlanFile(plan))
        header, content = file.header, file.content_sha256
        if transport.rank == 0:
            file.check_attributes()  # training does not use them, so one rank checks them
        rows = read_rows(file, transport.rank, transport.size, on_disk)
    if header.layout not in LAYOUTS:
        raise PlanError(
            f"this version runs plans of layout {', '.join(LAYOUTS)}, not {header.layout}"
        )
    header = run_header(header)
    if header.layout == "row":
        rows = replace(rows, grid=None)
    return Opened(plan, header, rows, content, file)


def run_header(header: Header) -> Header:
    """Return the header with the layout that runs: a sparse 1D grid runs as a row plan."""
    grid = header.grid
    as_rows = grid is not None and grid.scheme == "1d" and grid.sparse
    return replace(header, layout="row") if as_rows else header


def read_ids(plan: StrPath | Slice, content: str, transport: Transport) -> Ids | None:
    """Return this rank's share of the source's ids, in plan order; not collective.

    The result is None if the ids are the vertices' numbers. Raise PlanError if the file's content
    hash is not `content`, since another plan has then replaced the file.
    """
    if isinstance(plan, tuple):
        return None
    from plancc.plan.reader import PlanFile

    name = "rows/original_id"
    with PlanFile(plan) as file:
        if file.content_sha256 != content:
            raise PlanError(f"{fspath(plan)}: another plan replaced it during the run; run again")
        if not file.has(name):
            return None
        parts = file.header.num_parts
        share = [parts * rank // transport.size for rank in (transport.rank, transport.rank + 1)]
        return Ids(file.read("rows/global_id", *share), file.read(name, *share))


def rows_of_rank(header: Header, part: Part) -> RowsOfRank:
    """Return the rows that this rank contributes when the rows of all ranks are gathered.

    If several ranks of a grid have a copy of a row, only one of these ranks contributes it.
    """
    share = part.grid
    if share is None or share.grid.copies == 1:
        return RowsOfRank(part.global_id, header.num_vertices)
    first = share.grid.position(share.rank).column == 0
    return RowsOfRank(part.global_id, header.num_vertices, contributes=first)


def check_contents(content: str, transport: Transport, path: str = "") -> None:
    """Raise PlanError on all ranks if the ranks' content hashes differ. Collective."""
    found = transport.ranks_by_value(content)
    if len(found) > 1:
        own, what = content[:16] or "none", "content hashes"
        if len(transport.ranks_by_value(path)) > 1:
            own, what = f"{own} of {path or 'no file'}", "content hashes and files"
        plans = "; ".join(f"{name_ranks(r)}: {c}" for c, r in transport.ranks_by_value(own).items())
        transport.agree(PlanError(f"the ranks opened different plans ({what}: {plans})"))


def check_slices(part: Part, transport: Transport) -> None:
    """Raise PlanError on all ranks if the ranks' slices do not fit together. Collective.

    Without this check, a damaged plan could leave ranks waiting for messages for ever.
    """
    fold, share = part.fold, part.grid
    grid = None if share is None else share.grid
    found = transport.ranks_by_value(f"layout {'row' if fold is None else 'edge'}, grid {grid}")
    if len(found) > 1:
        kinds = "; ".join(f"{name_ranks(ranks)}: {kind}" for kind, ranks in found.items())
        transport.agree(PlanError(f"the ranks have parts of different plans ({kinds})"))
    if share is not None and share.block is not None:
        ranks = np.array(share.grid.ranks_of_column(share.rank))
        _check_counts("rows", share.block.expand, transport, ranks)
    _check_counts("rows", part.expand, transport)
    if fold is not None:
        _check_counts("partial rows", fold, transport)
    if part.link_exchange is not None:
        _check_counts("rows for links", part.link_exchange, transport)
    by_hand = transport.any(part.claims is None)
    if part.claims is not None and not by_hand:
        _check_claims(part.claims, transport)
    if fold is not None:
        _check_once(part, fold, transport)


def _check_claims(claims: Claims, transport: Transport) -> None:
    """Raise PlanError unless the claims of all ranks' slices agree (see `Claims`). Collective."""
    size = transport.size
    steps = ["rows", "partial rows"][: 1 + claims.folds]
    steps += ["rows of a later exchange"] * (len(claims.sent) - len(steps))
    balances = np.array([claims.vertices, claims.nonzeros])
    said = np.concatenate([claims.sent.T, np.broadcast_to(balances, (size, 2))], axis=1)
    heard = transport.alltoall(np.ascontiguousarray(said))
    vertices, nonzeros = heard[:, len(steps) :].sum(axis=0)
    with transport.agreement():
        for rows, expected, sent in zip(steps, claims.expected, heard.T, strict=False):
            for peer in np.flatnonzero(sent != expected)[:1].tolist():
                raise PlanError(
                    f"the plan is damaged: rank {peer} does not send the expected {rows} "
                    "(plancc verify says more)"
                )
        if vertices:
            raise PlanError(
                "the plan is damaged: a vertex is missing, or is on two ranks "
                "(plancc verify says more)"
            )
        if nonzeros:
            raise PlanError(
                f"the plan is damaged: the ranks have {abs(nonzeros)} nonzeros "
                f"{'more' if nonzeros > 0 else 'fewer'} than the header says"
            )


def _check_once(part: Part, fold: Exchange, transport: Transport) -> None:
    """Raise PlanError if a nonzero is on two ranks. Collective."""
    halo = send_numbers(part.expand, part.global_id[part.expand.send.row], transport)
    vertex = np.concatenate([part.global_id, halo])
    if part.relation is not None:  # a relation's nonzeros in one place are on one rank
        first, row_ptr = distinct_columns(part.row_ptr, part.column)
        part = replace(part, row_ptr=row_ptr, column=part.column[first])
    row_ptr = part.row_ptr[part.num_rows :]
    folded = vertex[part.column[row_ptr[0] :]]
    arrived, column = send_lists(fold, row_ptr - row_ptr[0], folded, transport)
    with transport.agreement():
        own_counts = np.diff(part.row_ptr[: part.num_rows + 1])
        own_row = np.repeat(np.arange(part.num_rows), own_counts)
        met = np.zeros(part.num_rows, np.bool_)
        met[fold.receive.row] = True
        met = met[own_row]
        row = np.concatenate([own_row[met], np.repeat(fold.receive.row, np.diff(arrived))])
        column = np.concatenate([vertex[part.column[: len(own_row)][met]], column])
        key = np.sort(row * (1 << 32) + column)
        for each in key[1:][key[1:] == key[:-1]][:1].tolist():
            raise PlanError(
                f"the plan is damaged: nonzero ({part.global_id[each >> 32]}, {each & 0xFFFFFFFF}) "
                "occurs twice (plancc verify says more)"
            )


def _check_counts(
    rows: str,
    exchange: Exchange,
    transport: Transport,
    ranks: npt.NDArray[np.integer] | None = None,
) -> None:
    """Raise PlanError unless every rank sends as many rows as the receivers expect. Collective.

    `rows` names the rows in the error. ``ranks[k]`` is the rank of the exchange's peer k (None: k).
    """
    sends, expects = np.zeros((2, transport.size), np.int64)
    ranks = np.arange(transport.size) if ranks is None else ranks
    for side, counts in ((exchange.send, sends), (exchange.receive, expects)):
        np.add.at(counts, ranks[side.peer], np.diff(side.row_ptr))
    arrives = transport.alltoall(sends)
    with transport.agreement():
        for peer in np.flatnonzero(arrives != expects)[:1].tolist():
            raise PlanError(
                f"the plan is damaged: rank {peer} sends {arrives[peer]} {rows} where "
                f"{expects[peer]} are expected (plancc verify says more)"
            )
