"""Plans the slow way: sets, dictionaries and dense arrays. Shares no code with the package.

The letters are those of Demirci et al. 2022, section 4.1: part m owns the rows of ``A_m``;
``cols(A_m)`` are the columns of their nonzeros.
"""

import numpy as np


def dense_of(graph) -> np.ndarray:
    """The matrix as float64[n, n]."""
    n = len(graph.indptr) - 1
    array = np.zeros((n, n))
    for i in range(n):
        for k in range(graph.indptr[i], graph.indptr[i + 1]):
            array[i, graph.indices[k]] += 1.0 if graph.values is None else float(graph.values[k])
    return array


def pattern_of(graph) -> set[tuple[int, int]]:
    return {
        (i, int(graph.indices[k]))
        for i in range(len(graph.indptr) - 1)
        for k in range(graph.indptr[i], graph.indptr[i + 1])
    }


class NaiveEdgePlan:
    """What owners of rows and of nonzeros mean.

    held[m] are the nonzeros (i, j) of part m; expand[q][m] the vertices whose rows of H part q
    sends to part m; fold[m][q] the vertices of which part m sends a partial row to part q, their
    owner. Empty sets are not stored.
    """

    def __init__(self, owner_of_nonzero: dict[tuple[int, int], int], owner, num_parts):
        owner = [int(m) for m in owner]
        parts = range(num_parts)
        self.rows = [{i for i, part in enumerate(owner) if part == m} for m in parts]
        self.held = [{ij for ij, part in owner_of_nonzero.items() if part == m} for m in parts]
        needs = [{j for _, j in held} for held in self.held]
        has = [{i for i, _ in held} for held in self.held]
        self.expand = [
            {m: needs[m] & self.rows[q] for m in parts if m != q and needs[m] & self.rows[q]}
            for q in parts
        ]
        self.fold = [
            {q: has[m] & self.rows[q] for q in parts if m != q and has[m] & self.rows[q]}
            for m in parts
        ]
        self.halo = [needs[m] - self.rows[m] for m in parts]
        self.folded = [has[m] - self.rows[m] for m in parts]
        self.boundary = [
            {i for i, j in self.held[m] if owner[i] == m and owner[j] != m} for m in parts
        ]

    def per_part(self) -> dict[str, list[int]]:
        """Load and communication of every part; those of the fold alone with a prefix."""
        parts = range(len(self.rows))
        found = {
            "rows": [len(rows) for rows in self.rows],
            "nonzeros": [len(held) for held in self.held],
            "copies": [len(self.rows[m] | self.halo[m] | self.folded[m]) for m in parts],
        }
        for name, steps in (("", (self.expand, self.fold)), ("fold_", (self.fold,))):
            found[f"{name}sent"] = [
                sum(len(rows) for step in steps for rows in step[m].values()) for m in parts
            ]
            found[f"{name}received"] = [
                sum(len(step[q].get(m, ())) for step in steps for q in parts) for m in parts
            ]
            found[f"{name}messages_sent"] = [sum(len(step[m]) for step in steps) for m in parts]
            found[f"{name}messages_received"] = [
                sum(m in step[q] for step in steps for q in parts) for m in parts
            ]
        return found

    def figures(self) -> dict[str, float]:
        """Every metric of a plan, by its name in the plan file."""
        of = self.per_part()
        p, n = len(self.rows), sum(of["rows"])
        nnz, volume, messages = sum(of["nonzeros"]), sum(of["sent"]), sum(of["messages_sent"])
        return {
            "volume": volume,
            "average_volume": volume / p,
            "max_sent": max(of["sent"]),
            "max_received": max(of["received"]),
            "max_exchanged": max(a + b for a, b in zip(of["sent"], of["received"], strict=True)),
            "messages": messages,
            "average_messages": messages / p,
            "max_messages_sent": max(of["messages_sent"]),
            "max_messages_received": max(of["messages_received"]),
            "nonzero_imbalance": max(of["nonzeros"]) / (nnz / p) - 1 if nnz else 0.0,
            "row_imbalance": max(of["rows"]) / (n / p) - 1,
            "boundary_ratio": sum(map(len, self.halo)) / n,
            "max_boundary_ratio": max(
                len(halo) / len(rows) if rows else 0.0
                for halo, rows in zip(self.halo, self.rows, strict=True)
            ),
            "fold_volume": sum(of["fold_sent"]),
            "fold_messages": sum(of["fold_messages_sent"]),
            "replication_factor": sum(of["copies"]) / n,
        }

    def printed(self) -> dict[str, float]:
        """The same, and what `inspect` makes of them."""
        of = self.figures()
        return of | {
            "max_volume": max(of["max_sent"], of["max_received"]),
            "expand_volume": of["volume"] - of["fold_volume"],
            "expand_messages": of["messages"] - of["fold_messages"],
        }


class NaivePlan(NaiveEdgePlan):
    """What Eq. 8 and 9 say of a pattern and owners: nonzeros are with the owner of their row."""

    def __init__(self, pattern, owner, num_parts):
        super().__init__({(i, j): int(owner[i]) for i, j in pattern}, owner, num_parts)


def halo_vertices(parts, m) -> list[int]:
    """Vertex of every halo row of part m, from the senders' masks alone."""
    part, found = parts[m], []
    for peer in part.expand.receive.peer.tolist():
        sender = parts[peer]
        found += [int(sender.global_id[r]) for r in sender.send_mask(m)]
    return found


def local_vertices(parts, m) -> list[int]:
    """Vertex of every local row of part m: its own, then the folded ones, by the owners' tables."""
    part, found = parts[m], [int(v) for v in parts[m].global_id]
    for peer in [] if part.fold is None else part.fold.send.peer.tolist():
        owner = parts[peer]
        k = owner.fold.receive.peer.tolist().index(m)
        rows = owner.fold.receive.row[
            owner.fold.receive.row_ptr[k] : owner.fold.receive.row_ptr[k + 1]
        ]
        found += [int(owner.global_id[r]) for r in rows]
    return found


def entries_of_part(parts, m) -> list[tuple[int, int, float]]:
    """(row, column, value) of every nonzero of part m, in vertices, as they stand in the part."""
    part = parts[m]
    row_vertex = local_vertices(parts, m)
    column_vertex = [int(v) for v in part.global_id] + halo_vertices(parts, m)
    assert len(part.row_ptr) == len(row_vertex) + 1
    return [
        (row_vertex[r], column_vertex[part.column[k]], float(part.value[k]))
        for r in range(len(row_vertex))
        for k in range(part.row_ptr[r], part.row_ptr[r + 1])
    ]


def product(parts, h: np.ndarray) -> np.ndarray:
    """A @ h by the plan: expand, multiply, fold; only what messages bring is used."""
    mail, width = {}, h.shape[1]
    for m, part in enumerate(parts):
        for k, peer in enumerate(part.expand.send.peer.tolist()):
            rows = part.expand.send.row[
                part.expand.send.row_ptr[k] : part.expand.send.row_ptr[k + 1]
            ]
            mail[m, peer] = h[part.global_id[rows]]
    sums, partial_mail = [], {}
    for m, part in enumerate(parts):
        held = np.full((part.num_rows + part.num_halo, width), np.nan)
        held[: part.num_rows] = h[part.global_id]
        for k, peer in enumerate(part.expand.receive.peer.tolist()):
            start, stop = (
                part.num_rows + part.expand.receive.row_ptr[k],
                part.num_rows + part.expand.receive.row_ptr[k + 1],
            )
            message = mail.pop((peer, m))
            assert len(message) == stop - start
            held[start:stop] = message
        local = np.zeros((len(part.row_ptr) - 1, width))
        for r in range(len(local)):
            for k in range(part.row_ptr[r], part.row_ptr[r + 1]):
                local[r] += float(part.value[k]) * held[part.column[k]]
        sums.append(local[: part.num_rows])
        for k, peer in enumerate([] if part.fold is None else part.fold.send.peer.tolist()):
            span = slice(*(part.num_rows + part.fold.send.row_ptr[k : k + 2]))
            partial_mail[m, peer] = local[span]
    result = np.full((len(h), width), np.nan)
    for m, part in enumerate(parts):
        for k, peer in enumerate([] if part.fold is None else part.fold.receive.peer.tolist()):
            rows = part.fold.receive.row[
                part.fold.receive.row_ptr[k] : part.fold.receive.row_ptr[k + 1]
            ]
            message = partial_mail.pop((peer, m))
            assert len(message) == len(rows)
            for r, row in zip(rows, message, strict=True):
                sums[m][r] += row
        result[part.global_id] = sums[m]
    assert not mail, "rows that nobody receives"
    assert not partial_mail, "partial rows that nobody receives"
    assert not np.isnan(result).any()
    return result


def adjoint(parts, g: np.ndarray) -> np.ndarray:
    """A.T @ g by the same plan, read in the other direction: what was received is sent back."""
    result = np.zeros(g.shape)
    for m, part in enumerate(parts):
        partial = np.zeros((part.num_rows + part.num_halo, g.shape[1]))
        for r in range(part.num_rows):
            for k in range(part.row_ptr[r], part.row_ptr[r + 1]):
                partial[part.column[k]] += float(part.value[k]) * g[part.global_id[r]]
        for r, vertex in enumerate(part.global_id):
            result[vertex] += partial[r]
        for k, peer in enumerate(part.expand.receive.peer.tolist()):
            back = partial[part.num_rows :][
                part.expand.receive.row_ptr[k] : part.expand.receive.row_ptr[k + 1]
            ]
            for row, value in zip(parts[peer].send_mask(m), back, strict=True):
                result[parts[peer].global_id[row]] += value
    return result


def check_parts(parts, expected: NaiveEdgePlan, graph) -> None:
    """Every part holds what the naive plan says, and their products are the dense ones."""
    n, dense = graph.num_vertices, dense_of(graph)
    for m, part in enumerate(parts):
        ids, fold = part.global_id.tolist(), part.fold
        assert (part.index, part.num_parts) == (m, len(parts))
        assert set(ids) == expected.rows[m]
        assert len(ids) == len(expected.rows[m])
        assert part.first_row == sum(len(rows) for rows in expected.rows[:m])
        assert set(ids[part.num_interior :]) == expected.boundary[m]
        assert part.expand.send.peer.tolist() == sorted(expected.expand[m])
        assert part.expand.receive.peer.tolist() == [
            q for q, to in enumerate(expected.expand) if m in to
        ]
        for peer, rows in expected.expand[m].items():
            assert sorted(ids[r] for r in part.send_mask(peer)) == sorted(rows)
        assert sorted(halo_vertices(parts, m)) == sorted(expected.halo[m])
        found = entries_of_part(parts, m)
        assert len(found) == len(expected.held[m])
        assert {(i, j): v for i, j, v in found} == {ij: dense[ij] for ij in expected.held[m]}
        for r in range(len(part.row_ptr) - 1):
            foreign = part.column[part.row_ptr[r] : part.row_ptr[r + 1]] >= len(ids)
            assert foreign.tolist() == sorted(foreign.tolist())
        assert (part.column.dtype, part.row_ptr.dtype) == (np.int32, np.int64)
        check_types(part.expand)
        if fold is not None:
            check_fold(parts, m, expected)
    h = np.random.default_rng(n).standard_normal((n, 2))
    np.testing.assert_allclose(product(parts, h), dense @ h, rtol=1e-11, atol=1e-11)
    if all(part.fold is None for part in parts):
        np.testing.assert_allclose(adjoint(parts, h), dense.T @ h, rtol=1e-12, atol=1e-12)


def check_fold(parts, m, expected: NaiveEdgePlan) -> None:
    fold, rows = parts[m].fold, parts[m].num_rows
    assert fold.send.peer.tolist() == sorted(expected.fold[m])
    folded = local_vertices(parts, m)[rows:]
    for k, peer in enumerate(fold.send.peer.tolist()):
        of_message = folded[fold.send.row_ptr[k] : fold.send.row_ptr[k + 1]]
        assert sorted(of_message) == sorted(expected.fold[m][peer])
    assert fold.receive.peer.tolist() == [q for q, to in enumerate(expected.fold) if m in to]
    check_types(fold)


def check_types(exchange) -> None:
    for side in (exchange.send, exchange.receive):
        assert side.peer.dtype == side.row.dtype == np.int32
        assert side.ptr.dtype == side.row_ptr.dtype == np.int64
