"""Renumber the parts to suit the nodes of a machine, so that exchanges take less time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plancc.cost.rates import LinkRates
from plancc.kernel import njit
from plancc.passes.presets import MEAN, Swaps


@dataclass(frozen=True)
class MapToMachine:
    """Renumber parts so that exchanges take less time on the slowest rank.

    Swaps of two parts on different nodes are tried in random order, and kept if the time falls. The
    time depends on `LinkRates`: the ranks of a node share its network link. `MapToTopology` only
    counts the rows that are sent between nodes.

    Attributes:
        links: Times of rows and messages, and the node of every rank.
        speeds (float64[num_parts], optional): Only parts of equal speed swap; None: all are equal.
        seed: Seed of the random order.
    """

    links: LinkRates
    speeds: npt.NDArray[np.float64] | None = None
    seed: int = 1

    def run(self, exchanges: Sequence[sp.csr_array]) -> npt.NDArray[np.int32]:
        """Return the new number of every part, int32[num_parts].

        `exchanges` holds a matrix int64[num_parts, num_parts] for the expand and, if there is a
        fold, one for the fold. Entry (q, m) counts the rows that part q sends to part m.
        """
        num_parts = exchanges[0].shape[0]
        node = np.asarray(self.links.node)
        if node[0] == node[-1]:
            return np.arange(num_parts, dtype=np.int32)
        rows = np.stack([each.toarray() for each in exchanges]).astype(np.float64)
        kinds = np.zeros(num_parts) if self.speeds is None else self.speeds
        _, kind = np.unique(kinds, return_inverse=True)
        tries = min(Swaps.per_part * num_parts, Swaps.most)
        pairs = np.random.default_rng(self.seed).integers(0, num_parts, (tries, 2))
        rank: npt.NDArray[np.int32] = _swap(rows, pairs, kind, self.links)
        return rank


@njit(cache=True, nogil=True)
def _swap(rows, pairs, kind, links):  # type: ignore[no-untyped-def]
    """Return the rank of every part, int32[p], after the swaps in `pairs` that shorten exchanges.

    ``rows[s, q, m]`` is the number of rows that part q sends to part m in exchange s. Only parts
    with equal `kind`, int64[p], are swapped, since only these are equally fast.
    """
    rank = np.arange(rows.shape[1]).astype(np.int32)
    node = links.node.copy()  # node of every part
    sums = sums_of(rows, node)
    most = seconds(sums, rank, links)
    for k in range(len(pairs)):
        i, j = pairs[k]
        if node[i] == node[j] or kind[i] != kind[j]:
            continue
        _exchange(i, j, node, rows, sums)
        rank[i], rank[j] = rank[j], rank[i]
        reached = seconds(sums, rank, links)
        if reached < most * (1 - 1e-12):
            most = reached
        else:
            _exchange(i, j, node, rows, sums)
            rank[i], rank[j] = rank[j], rank[i]
    return rank


@njit(cache=True, nogil=True)
def sums_of(rows, node):  # type: ignore[no-untyped-def]
    """Return the traffic of every part in every exchange, float64[exchanges, 4, 2, num_parts].

    First index: the expand, and the fold if there is one. Second index: rows sent, rows received,
    messages sent, messages received. Third index: inside a node, between nodes.
    """
    steps, num_parts, _ = rows.shape
    sums = np.zeros((steps, 4, 2, num_parts))
    for s in range(steps):
        for q in range(num_parts):
            for m in range(num_parts):
                if rows[s, q, m] > 0:
                    _count(s, q, m, int(node[q] != node[m]), 1.0, rows, sums)
    return sums


@njit(cache=True, nogil=True)
def _count(s, q, m, far, sign, rows, sums):  # type: ignore[no-untyped-def]
    """Add `sign` times the message from part q to part m to the traffic `sums` (see `sums_of`).

    `s` is 0 for the expand, 1 for the fold, and the message has ``rows[s, q, m]`` rows. `far` is 1
    if the parts are on different nodes, else 0.
    """
    sums[s, 0, far, q] += sign * rows[s, q, m]
    sums[s, 1, far, m] += sign * rows[s, q, m]
    sums[s, 2, far, q] += sign
    sums[s, 3, far, m] += sign


@njit(cache=True, nogil=True)
def _exchange(i, j, node, rows, sums):  # type: ignore[no-untyped-def]
    """Swap parts i and j, which are on different nodes; update `node` and the traffic `sums`."""
    steps, num_parts, _ = rows.shape
    for a, b in ((i, j), (j, i)):
        old, new = node[a], node[b]
        for m in range(num_parts):
            if m in (a, b) or node[m] not in (old, new):
                continue
            far = 0 if node[m] == old else 1
            for s in range(steps):
                for q, r in ((a, m), (m, a)):
                    if rows[s, q, r] > 0:
                        _count(s, q, r, far, -1.0, rows, sums)
                        _count(s, q, r, 1 - far, 1.0, rows, sums)
    node[i], node[j] = node[j], node[i]


@njit(cache=True, nogil=True)
def seconds(sums, rank, links):  # type: ignore[no-untyped-def]
    """Return the estimated seconds of all exchanges, with the traffic `sums` (see `sums_of`).

    An exchange takes as long as its slowest rank. A small share of the ranks' mean time is added,
    to choose between numberings with equal times.
    """
    steps, _, _, num_parts = sums.shape
    node = links.node[rank]
    total = 0.0
    for s in range(steps):
        at_node = np.zeros((2, links.node[-1] + 1))
        for q in range(num_parts):
            at_node[0, node[q]] += sums[s, 0, 1, q]
            at_node[1, node[q]] += sums[s, 1, 1, q]
        most = mean = 0.0
        for q in range(num_parts):
            near = max(sums[s, 2, 0, q], sums[s, 3, 0, q]) * links.message_inside
            near += max(sums[s, 0, 0, q], sums[s, 1, 0, q]) * links.row_inside
            far = max(sums[s, 2, 1, q], sums[s, 3, 1, q]) * links.message_between
            if sums[s, 0, 1, q] > 0 or sums[s, 1, 1, q] > 0:
                shared = max(at_node[0, node[q]], at_node[1, node[q]]) * links.row_of_node
                far += max(max(sums[s, 0, 1, q], sums[s, 1, 1, q]) * links.row_between, shared)
            # owners copy the rows that they send in the expand (s = 0) or receive in the fold
            copied = sums[s, s, 0, q] + sums[s, s, 1, q]
            spent = near + far + copied * links.row_copied[s] * links.slow[rank[q]]
            most, mean = max(most, spent), mean + spent / num_parts
        total += most + MEAN * mean
    return total
