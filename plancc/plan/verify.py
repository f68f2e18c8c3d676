"""The verifier: every invariant of the format, checked once and named when it is broken.

Works on a Plan value, so it may run between any two passes. Knows nothing of how plans are made:
it derives what must hold from the matrix that the plan holds, with scipy and numpy, not with the
lowering's kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike, fspath

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plancc.errors import PlanError
from plancc.graph.graph import Graph
from plancc.graph.normalize import normalize
from plancc.plan.exchange import Exchange, Int64Array, Side
from plancc.plan.format import vertex_data_arrays, vertex_data_problem
from plancc.plan.indices import blocks, crossings, index_invariants
from plancc.plan.matrix import matrix_of
from plancc.plan.parts import PartRange
from plancc.plan.plan import Plan
from plancc.plan.reader import PlanFile
from plancc.plan.values import HOPS, STEPS


def verify_file(path: str | PathLike[str], against: Graph | None = None) -> list[str]:
    """Check a plan file, its checksums, content hash and stored metrics included.

    In a file of a higher minor version, only what this version knows is checked.

    Parameters
    ----------
    path : path of the plan
    against : Graph, optional
        The graph it was compiled from: the union of the parts must be its normalised matrix.

    Returns
    -------
    list of str
        The names of the checks.

    Raises
    ------
    PlanError
        Names the first invariant that does not hold, and where.
    """
    path = fspath(path)
    done = ["node types, sizes and checksums"]
    with PlanFile(path) as file:
        plan = file.read_unchecked()
        with _named(path):
            _check(index_invariants(plan))
        done.append("content hash")  # compared by whoever reads
        with _named(path):
            done += verify(plan, against)
        file.check_figures(plan.metrics)
    return [*done, "stored metrics"]


def verify(plan: Plan, against: Graph | None = None) -> list[str]:
    """Check a plan value; see `verify_file`."""
    done = _check(_invariants(plan))
    if against is not None:
        _compare(plan, against)
        done.append("the union of the parts is the normalised matrix of the graph")
    return done


@contextmanager
def _named(path: str) -> Iterator[None]:
    """A block whose errors say which file they are about."""
    try:
        yield
    except PlanError as error:
        raise PlanError(f"{path}: {error}") from None


def _check(invariants: Iterable[tuple[str, str]]) -> list[str]:
    """Return the invariants' names; raise PlanError at the first that fails."""
    done = []
    for name, problem in invariants:
        if problem:
            raise PlanError(f"{name}: {problem}")
        done.append(name)
    return done


def _invariants(plan: Plan) -> Iterator[tuple[str, str]]:
    """(invariant, what breaks it or "") in an order in which each may rely on those before."""
    yield from index_invariants(plan)
    yield "matrix/value is finite", "" if np.isfinite(plan.value).all() else "NaN or infinity"
    yield "sends and receives mirror each other", _mirrors(plan.exchanges.expand)
    if plan.fold is not None:
        yield "sends and receives of the fold mirror each other", _mirrors(plan.fold)
    for step in STEPS:
        if hops := plan.exchanges.hops(step):
            yield from _route_invariants(plan, step, hops, plan.exchanges.needed(step))
    yield "columns of a row are distinct, own ones first", _of_blocks(plan, _distinct)
    if plan.fold is not None:
        yield "every nonzero is there once", _once(plan)
        yield "every folded row has a nonzero", _folded_used(plan)
        diagonal = "nonzeros of the diagonal are with the owner of their row"
        yield diagonal, _of_blocks(plan, _diagonal)
    yield "every received row is used", _of_blocks(plan, _halo_used)
    yield "interior rows come first", _of_blocks(plan, _interior)
    data, problems = plan.vertex_data, dict[str, str]()
    for name, array in vertex_data_arrays(data).items():
        if array is not None:
            rule, problem = vertex_data_problem(name, array, plan.num_vertices)
            problems[rule] = problems.get(rule) or problem
    yield from problems.items()
    if data.targets is not None:
        yield "labels or targets", "" if data.labels is None else "both are there"


def _route_invariants(
    plan: Plan, step: str, hops: Sequence[Exchange], needed: Side
) -> Iterator[tuple[str, str]]:
    """What hops must be, of the rows that parts need by owner; numbers are part n + place."""
    assert plan.header.topology is not None
    node, n = plan.header.topology.node_of_rank(), plan.num_vertices
    for hop, tables in zip(HOPS, hops, strict=True):
        mirrored = _mirrors(tables)
        yield f"sends and receives of the {step}_{hop} mirror each other", mirrored
        near = np.repeat(node, np.diff(tables.send.ptr)) == node[tables.send.peer]
        wrong = np.flatnonzero(near != (hop != "cross"))
        inside = "between nodes" if hop == "cross" else "inside nodes"
        yield (
            f"messages of the {step}_{hop} are {inside}",
            f"message {wrong[0]} is not" if len(wrong) else "",
        )
    yield f"a node sends to another at most once in the {step}_cross", crossings(plan, hops[1])

    parts = np.repeat(np.arange(plan.num_parts), np.diff(plan.part_ptr))
    own = parts * n + np.arange(n)
    sent, came = (
        [table.part_of_row() * n + table.row for table in tables]
        for tables in zip(*((hop.send, hop.receive) for hop in hops), strict=True)
    )
    may_send = (own, np.concatenate([own, came[0]]), came[1])
    for hop, rows, allowed in zip(HOPS, sent, may_send, strict=True):
        wrong = np.flatnonzero(~np.isin(rows, allowed))
        yield (
            f"parts send rows that they have in the {step}_{hop}",
            "part {} has not row {}".format(*divmod(int(rows[wrong[0]]), n)) if len(wrong) else "",
        )
    every, counts = np.unique(np.concatenate([own, *came]), return_counts=True)
    twice = np.flatnonzero(counts > 1)
    yield (
        f"rows arrive once in the route of the {step}",
        "part {} gets row {} twice".format(*divmod(int(every[twice[0]]), n)) if len(twice) else "",
    )
    needs = needed.part_of_row() * n + plan.part_ptr[needed.peer_of_row()] + needed.row
    missing = np.setdiff1d(needs, np.concatenate(came))
    yield (
        f"the route of the {step} brings the rows that parts need",
        "part {} lacks row {}".format(*divmod(int(missing[0]), n)) if len(missing) else "",
    )
    used = (np.concatenate([needs, sent[1]]), np.concatenate([needs, sent[2]]), needs)
    for rows, needing in zip(came, used, strict=True):
        idle = np.setdiff1d(rows, needing)
        yield (
            f"the route of the {step} brings no other rows",
            "part {} gets row {}".format(*divmod(int(idle[0]), n)) if len(idle) else "",
        )


def _of_blocks(plan: Plan, problem: Callable[[Plan, PartRange], str]) -> str:
    """The first problem of any block of parts, "" if there is none: temporaries stay small."""
    return next(filter(None, (problem(plan, parts) for parts in blocks(plan))), "")


def _mirrors(exchange: Exchange) -> str:
    send, receive = exchange.send, exchange.receive
    p = len(send.ptr) - 1
    sender = np.repeat(np.arange(p), np.diff(send.ptr))
    receiver = np.repeat(np.arange(p), np.diff(receive.ptr))
    sent = sp.coo_array((np.diff(send.row_ptr), (sender, send.peer)), shape=(p, p))
    got = sp.coo_array((np.diff(receive.row_ptr), (receive.peer, receiver)), shape=(p, p))
    difference = (sent.tocsr() - got.tocsr()).tocoo()
    wrong = np.flatnonzero(difference.data)
    if len(wrong):
        m, q = difference.row[wrong[0]], difference.col[wrong[0]]
        return f"part {m} sends {sent.tocsr()[m, q]} rows to {q}, which expects {got.tocsr()[m, q]}"
    order = np.lexsort((receiver, receive.peer))
    starts = receive.row_ptr[:-1][order]
    sizes = np.diff(receive.row_ptr)[order]
    shift = np.repeat(starts - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
    mirrored = receive.row[np.arange(len(shift)) + shift]
    wrong = np.flatnonzero(mirrored != send.row)
    if len(wrong):
        message = np.searchsorted(send.row_ptr, wrong[0], side="right") - 1
        m, q = sender[message], send.peer[message]
        return f"part {m} sends {q} row {send.row[wrong[0]]} (its owner's), which expects another"
    return ""


def _folded_used(plan: Plan) -> str:
    empty = np.flatnonzero((np.diff(plan.row_ptr) == 0) & ~plan.all_parts.is_own_row())
    return f"{_local_row(plan.all_parts, empty[0])} has none" if len(empty) else ""


def _diagonal(plan: Plan, parts: PartRange) -> str:
    nonzeros = np.diff(parts.row_ptr)
    place = np.repeat(parts.place_of_rows(), nonzeros)
    folded = np.repeat(~parts.is_own_row(), nonzeros)
    wrong = np.flatnonzero(folded & (place == parts.place_of_columns()))
    if not len(wrong):
        return ""
    vertex, m = plan.global_id[place[wrong[0]]], parts.part_of_nonzero()[wrong[0]]
    return f"part {m} has that of vertex {vertex}, which it does not own"


def _once(plan: Plan) -> str:
    row = np.repeat(plan.all_parts.place_of_rows(), np.diff(plan.row_ptr))
    column = plan.all_parts.place_of_columns()
    for k in _repeated(row, column):
        return f"({plan.global_id[row[k]]}, {plan.global_id[column[k]]}) is there twice"
    return ""


def _distinct(plan: Plan, parts: PartRange) -> str:
    nonzeros = np.diff(parts.row_ptr)
    row = np.repeat(np.arange(len(nonzeros), dtype=np.int32), nonzeros)
    same_row = row[:-1] == row[1:]
    width = int(parts.column.max(initial=0)) + 1
    ones = np.ones(len(row), dtype=np.int8)
    ordered = sp.csr_array((ones, parts.column.copy(), parts.row_ptr), (len(nonzeros), width))
    ordered.sort_indices()
    twice = np.flatnonzero(same_row & (ordered.indices[:-1] == ordered.indices[1:]))
    if len(twice):
        at, column = _local_row(parts, row[twice[0]]), ordered.indices[twice[0]]
        return f"{at} uses column {column} twice"
    foreign = parts.has_received_column()
    wrong = np.flatnonzero(foreign[:-1] & ~foreign[1:] & same_row)
    return f"{_local_row(parts, row[wrong[0]])} has a received column first" if len(wrong) else ""


def _repeated(row: Int64Array, column: npt.NDArray[np.integer]) -> Int64Array:
    """Nonzeros of which there is another in the same place."""
    order = np.lexsort((column, row))
    return order[:-1][(np.diff(row[order]) == 0) & (np.diff(column[order]) == 0)]


def _local_row(parts: PartRange, row: int) -> str:
    m = np.searchsorted(parts.local_ptr, row, side="right") - 1
    return f"local row {row - parts.local_ptr[m]} of part {parts.first + m}"


def _halo_used(plan: Plan, parts: PartRange) -> str:
    part = parts.part_of_nonzero()
    slot = parts.column - np.diff(plan.part_ptr)[part]
    halo_ptr = parts.halo_ptr()
    used = np.zeros(halo_ptr[-1], dtype=bool)
    used[(halo_ptr[part - parts.first] + slot)[slot >= 0]] = True
    unused = np.flatnonzero(~used)
    if not len(unused):
        return ""
    m = np.searchsorted(halo_ptr, unused[0], side="right") - 1
    many = halo_ptr[m + 1] - halo_ptr[m]
    return f"received row {unused[0] - halo_ptr[m]} of {many} of part {parts.first + m} is not"


def _interior(plan: Plan, parts: PartRange) -> str:
    foreign = parts.has_received_column()
    before = np.concatenate([[0], np.cumsum(foreign)])
    is_boundary = (np.diff(before[parts.row_ptr]) > 0)[parts.is_own_row()]
    rows = np.diff(plan.part_ptr)[parts.first : parts.last]
    first_row = np.concatenate([[0], np.cumsum(rows)])
    local = np.arange(first_row[-1]) - np.repeat(first_row[:-1], rows)
    interior = plan.num_interior[parts.first : parts.last]
    wrong = np.flatnonzero(is_boundary != (local >= np.repeat(interior, rows)))
    if not len(wrong):
        return ""
    m = np.searchsorted(first_row, wrong[0], side="right") - 1
    which = parts.first + m
    return f"row {local[wrong[0]]} of part {which} is on the wrong side of {interior[m]}"


def _compare(plan: Plan, graph: Graph) -> None:
    """The plan's matrix against the graph's, normalised as the header says."""
    header = plan.header
    if graph.num_vertices != plan.num_vertices:
        raise PlanError(
            f"{graph.source.name} has {graph.num_vertices} vertices, the plan {plan.num_vertices}"
        )
    name, loops = graph.source.name, header.self_loops
    matrix = normalize(graph, header.normalization, self_loops=loops, dtype=plan.value.dtype)
    assert matrix.values is not None
    found = matrix_of(plan)
    counts, expected = np.diff(found.indptr), matrix.row_nonzeros()
    for i in np.flatnonzero(counts != expected):
        raise PlanError(f"vertex {i} has {counts[i]} nonzeros, in {name} it has {expected[i]}")
    for k in np.flatnonzero((found.indices != matrix.indices) | (found.data != matrix.values)):
        i = np.searchsorted(matrix.indptr, k, side="right") - 1
        raise PlanError(
            f"nonzero ({i}, {found.indices[k]}) is {found.data[k]:g}; in {name} the row has "
            f"({i}, {matrix.indices[k]}) = {matrix.values[k]:g} there"
        )
