"""What makes tables a plan, the slow way: lists, sets and dictionaries, from the plan format alone.

Shares no code with the checks of the package.
"""

from collections import Counter
from itertools import pairwise
from math import isfinite

HOPS = ("collect", "cross", "spread")


def fault(header, arrays) -> str:
    """The first rule that the datasets of a plan break; "" if they break none."""
    try:
        _check(header, {name: array.tolist() for name, array in arrays.items()})
    except AssertionError as error:
        return str(error)
    return ""


def _need(holds, rule) -> None:
    if not holds:
        raise AssertionError(rule)


def _check_offsets(ptr, total, name) -> None:
    rises = ptr[0] == 0 and ptr[-1] == total and all(a <= b for a, b in pairwise(ptr))
    _need(rises, f"{name} rises")


def _messages(arrays, table, most) -> dict:
    """Rows by (part, peer); ``most[part]`` is the bound of the rows of a part."""
    name = f"{table} tables are well formed"
    ptr, peer, row_ptr, row = (
        arrays[f"{table}_{end}"] for end in ("ptr", "peer", "row_ptr", "row")
    )
    _check_offsets(ptr, len(peer), name)
    _check_offsets(row_ptr, len(row), name)
    found = {}
    for part, (first, last) in enumerate(pairwise(ptr)):
        peers = peer[first:last]
        _need(peers == sorted(set(peers)) and set(peers) <= {*range(len(most))} - {part}, name)
        for k in range(first, last):
            rows = row[row_ptr[k] : row_ptr[k + 1]]
            _need(rows and rows == sorted(set(rows)) and rows[0] >= 0, name)
            found[part, peer[k]] = rows
    return found


def _exchange(arrays, step, most, owner) -> dict:
    """Rows by (sender, receiver); `owner`: the one whose numbers they are, 0 or 1; None: places."""
    sent = _messages(arrays, f"{step}/send", most)
    received = _messages(arrays, f"{step}/recv", most)
    received = {(sender, part): rows for (part, sender), rows in received.items()}
    for found, end in ((sent, "send"), (received, "recv")):
        bounded = all(
            rows[-1] < (sum(most) if owner is None else most[pair[owner]])
            for pair, rows in found.items()
        )
        _need(bounded, f"{step}/{end} tables are well formed")
    _need(sent == received, f"{step} mirror each other")
    return sent


def _check(header, arrays) -> None:
    n, parts = header.num_vertices, range(header.num_parts)
    part_ptr = arrays["rows/part_ptr"]
    _check_offsets(part_ptr, n, "rows/part_ptr")
    size = [b - a for a, b in pairwise(part_ptr)]
    _need(sorted(arrays["rows/global_id"]) == [*range(n)], "rows/global_id is a permutation")
    _need((header.layout == "edge") == ("fold/send_ptr" in arrays), "layout edge has a fold")
    halo, folded = ([[] for _ in parts] for _ in range(2))
    for (sender, part), rows in sorted(_exchange(arrays, "expand", size, 0).items()):
        halo[part] += [part_ptr[sender] + row for row in rows]
    if header.layout == "edge":
        for (part, owner), rows in sorted(_exchange(arrays, "fold", size, 1).items()):
            folded[part] += [part_ptr[owner] + row for row in rows]
    _check_matrix(arrays, part_ptr, halo, folded)
    if header.route is not None:
        _check_hops(header, arrays, "expand", part_ptr, halo)
        if header.layout == "edge":
            _check_hops(header, arrays, "fold", part_ptr, folded)
    _check_data(n, {name.partition("/")[2]: array for name, array in arrays.items()})


def _check_matrix(arrays, part_ptr, halo, folded) -> None:
    row_ptr, column = arrays["matrix/row_ptr"], arrays["matrix/column"]
    _check_offsets(row_ptr, len(column), "matrix/row_ptr")
    local_rows = part_ptr[-1] + sum(map(len, folded))
    _need(len(row_ptr) == local_rows + 1, "matrix/row_ptr has every local row")
    _need(all(map(isfinite, arrays["matrix/value"])), "matrix/value is finite")
    at, everywhere = 0, Counter()
    for part, (first, last) in enumerate(pairwise(part_ptr)):
        own, interior = last - first, arrays["rows/num_interior"][part]
        _need(0 <= interior <= own, "rows/num_interior is within")
        places, used = [*range(first, last), *halo[part]], set()
        for r, row in enumerate([*range(first, last), *folded[part]]):
            columns = column[row_ptr[at] : row_ptr[at + 1]]
            at += 1
            _need(set(columns) <= {*range(len(places))}, "column is held where it is used")
            foreign = [c >= own for c in columns]
            ordered = len(set(columns)) == len(columns) and foreign == sorted(foreign)
            _need(ordered, "columns of a row are distinct")
            if r < own:
                _need(any(foreign) == (r >= interior), "interior rows come first")
            else:
                _need(columns, "every folded row has a nonzero")
                _need(row not in {places[c] for c in columns}, "diagonal are with the owner")
            used |= {*columns}
            everywhere.update((row, places[c]) for c in columns)
        _need({*range(own, len(places))} <= used, "every received row is used")
    _need(max(everywhere.values(), default=1) == 1, "every nonzero is there once")


def _check_hops(header, arrays, step, part_ptr, needed) -> None:
    size = [b - a for a, b in pairwise(part_ptr)]
    own = [{*range(first, last)} for first, last in pairwise(part_ptr)]
    hops = [_exchange(arrays, f"{step}_{hop}", size, None) for hop in HOPS]
    sent, came = (
        [
            [
                [row for pair, rows in hop.items() if pair[end] == p for row in rows]
                for p in range(len(size))
            ]
            for hop in hops
        ]
        for end in (0, 1)
    )
    if header.topology is not None:
        node = header.topology.node_of_rank().tolist()
        for hop, tables in zip(HOPS, hops, strict=True):
            for sender, receiver in tables:
                _need((node[sender] == node[receiver]) == (hop != "cross"), "hops cross nodes")
        nodes = Counter((node[sender], node[receiver]) for sender, receiver in hops[1])
        _need(max(nodes.values(), default=1) == 1, "a node sends to another at most once")
    for p, mine in enumerate(own):
        collect, cross, spread = ({*hop[p]} for hop in sent)
        arrived = [row for hop in came for row in hop[p]]
        held = mine | {*came[0][p]}
        last = held | {*came[1][p]} if header.topology is None else {*came[1][p]}
        _need(collect <= mine and cross <= held and spread <= last, "has row")
        _need(len({*arrived} | mine) == len(arrived) + len(mine), "rows arrive once")
        _need({*needed[p]} <= {*arrived}, "brings the rows that parts need")
        for hop, later in zip(came, (cross, spread, set()), strict=True):
            _need({*hop[p]} <= later | {*needed[p]}, "brings no other rows")


def _check_data(n, data) -> None:
    for row in data.get("features", ()):
        _need(all(map(isfinite, row)), "features are finite")
    _need(min(data.get("labels", [0]), default=0) >= -1, "labels are classes or -1")
    for name in ("train_mask", "val_mask", "test_mask"):
        _need({*data.get(name, ())} <= {0, 1}, "masks hold 0 and 1")
    known = all(0 <= cluster < max(n, 1024) for cluster in data.get("clusters", ()))
    _need(known, "clusters are numbers from 0")
    for row in data.get("targets", ()):
        _need({*row} <= {0, 1}, "targets hold 0 and 1")
    _need("labels" not in data or "targets" not in data, "labels or targets")
