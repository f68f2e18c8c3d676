"""Row plans the slow way: sets, dictionaries and dense arrays. Shares no code with the package.

The letters are those of Demirci et al. 2022, section 4.1: part m owns the rows of ``A_m``;
``cols(A_m)`` are the columns of their nonzeros.
"""

from __future__ import annotations

from dataclasses import dataclass

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


@dataclass
class NaivePlan:
    """What Eq. 8 and 9 say of a pattern and owners.

    send[m][n] is the set X_mn: vertices that part m sends to part n; receive[m][n] the vertices
    that part m receives from part n (n in R_m). Empty sets are not stored.
    """

    rows: list[set[int]]
    nonzeros: list[int]
    interior: list[set[int]]
    send: list[dict[int, set[int]]]
    receive: list[dict[int, set[int]]]

    def __init__(self, pattern, owner, num_parts):
        owner = [int(m) for m in owner]
        parts = range(num_parts)
        self.rows = [{i for i, part in enumerate(owner) if part == m} for m in parts]
        cols = [{j for i, j in pattern if owner[i] == m} for m in parts]
        self.nonzeros = [sum(owner[i] == m for i, _ in pattern) for m in parts]
        boundary = {i for i, j in pattern if owner[i] != owner[j]}
        self.interior = [self.rows[m] - boundary for m in parts]
        self.send = [
            {n: cols[n] & self.rows[m] for n in parts if n != m and cols[n] & self.rows[m]}
            for m in parts
        ]
        self.receive = [
            {n: cols[m] & self.rows[n] for n in parts if n != m and cols[m] & self.rows[n]}
            for m in parts
        ]

    def figures(self) -> dict[str, float]:
        """Every metric of a plan, by its name in the plan file."""
        p, n = len(self.rows), sum(map(len, self.rows))
        sent = [sum(map(len, peers.values())) for peers in self.send]
        received = [sum(map(len, peers.values())) for peers in self.receive]
        nnz = sum(self.nonzeros)
        return {
            "volume": sum(sent),
            "average_volume": sum(sent) / p,
            "max_sent": max(sent),
            "max_received": max(received),
            "max_exchanged": max(s + r for s, r in zip(sent, received, strict=True)),
            "messages": sum(map(len, self.send)),
            "average_messages": sum(map(len, self.send)) / p,
            "max_messages_sent": max(map(len, self.send)),
            "max_messages_received": max(map(len, self.receive)),
            "nonzero_imbalance": max(self.nonzeros) / (nnz / p) - 1 if nnz else 0.0,
            "row_imbalance": max(map(len, self.rows)) / (n / p) - 1,
            "boundary_ratio": sum(received) / n,
            "max_boundary_ratio": max(
                r / len(rows) if rows else 0.0 for r, rows in zip(received, self.rows, strict=True)
            ),
            "fold_volume": 0,
            "fold_messages": 0,
            "replication_factor": (n + sum(received)) / n,
        }


def halo_vertices(parts, m) -> list[int]:
    """Vertex of every halo row of part m, from the senders' masks alone."""
    part, found = parts[m], []
    for peer in part.recv_peer.tolist():
        sender = parts[peer]
        found += [int(sender.global_id[r]) for r in sender.send_mask(m)]
    return found


def entries_of_part(parts, m) -> list[tuple[int, int, float]]:
    """(row, column, value) of every nonzero of part m, in vertices, as they stand in the part."""
    part = parts[m]
    vertex = [int(v) for v in part.global_id] + halo_vertices(parts, m)
    return [
        (vertex[r], vertex[part.column[k]], float(part.value[k]))
        for r in range(len(part.global_id))
        for k in range(part.row_ptr[r], part.row_ptr[r + 1])
    ]


def product(parts, h: np.ndarray) -> np.ndarray:
    """A @ h by the plan: every part sends, receives in the order of its peers, multiplies."""
    mail = {}
    for m, part in enumerate(parts):
        own = h[part.global_id]
        for k, peer in enumerate(part.send_peer.tolist()):
            mail[m, peer] = own[part.send_row[part.send_ptr[k] : part.send_ptr[k + 1]]]
    result = np.full((len(h), h.shape[1]), np.nan)
    for m, part in enumerate(parts):
        held = np.full((part.num_rows + part.num_halo, h.shape[1]), np.nan)
        held[: part.num_rows] = h[part.global_id]
        for k, peer in enumerate(part.recv_peer.tolist()):
            start, stop = part.num_rows + part.recv_ptr[k], part.num_rows + part.recv_ptr[k + 1]
            message = mail.pop((peer, m))
            assert len(message) == stop - start
            held[start:stop] = message
        for r in range(part.num_rows):
            total = np.zeros(h.shape[1])
            for k in range(part.row_ptr[r], part.row_ptr[r + 1]):
                total += float(part.value[k]) * held[part.column[k]]
            result[part.global_id[r]] = total
    assert not mail, "messages that nobody receives"
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
        for k, peer in enumerate(part.recv_peer.tolist()):
            back = partial[part.num_rows :][part.recv_ptr[k] : part.recv_ptr[k + 1]]
            for row, value in zip(parts[peer].send_mask(m), back, strict=True):
                result[parts[peer].global_id[row]] += value
    return result
