"""Renumber the parts so that parts that exchange many rows share a node.

`plancc.cost.topology` computes how many rows a numbering sends between nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plancc.kernel import njit
from plancc.models.capacities import Capacities, relative_capacities
from plancc.plan.topology import Topology


@dataclass(frozen=True)
class MapToTopology:
    """Renumber parts so that few rows are sent between nodes; the rows of a part stay together.

    ::

        parts 0 1 2 3 on 2 nodes of 2 ranks; 0 and 2 exchange many rows, so do 1 and 3

        before   node 0: 0 1    node 1: 2 3        after   node 0: 0 2    node 1: 1 3
                                                   renamed         0 1            2 3

    The search starts from two numberings: the given one, and one that fills the nodes one after
    another by a greedy rule. A sweep over the parts swaps each part with the part for which this
    saves the most rows between nodes. Sweeps are repeated until no swap saves rows, or until their
    number reaches `sweeps`. The better of the two results is returned. It is never worse than the
    given numbering, and it is the same in every run. For p parts, a sweep takes O(p^2) time and
    memory.

    Attributes:
        topology: The nodes and their ranks.
        sweeps: Largest number of sweeps.
        capacities: Capacities of the parts. Only parts of equal capacity are swapped, so that every
            rank keeps a part of its capacity. If capacities differ, the search starts from the
            given numbering only. None: equal capacities.
    """

    topology: Topology
    sweeps: int = 100
    capacities: Capacities = None

    def run(
        self, owner: npt.NDArray[np.int32], pairs: sp.csr_array, num_parts: int
    ) -> npt.NDArray[np.int32]:
        """Return the owners after renumbering the parts; `owner` itself if no number changes.

        Entry (q, m) of `pairs` is the number of rows that part q sends to part m.
        """
        self.topology.check(num_parts)
        number = self._numbering(pairs)
        return owner if (number == np.arange(num_parts)).all() else number[owner]

    def _numbering(self, pairs: sp.csr_array) -> npt.NDArray[np.int32]:
        """Return the new number of every part, int32[num_parts]; for `pairs` see `run`."""
        nodes, ranks = self.topology.nodes, self.topology.ranks()
        num_parts = self.topology.num_ranks
        if nodes == 1 or nodes == num_parts:
            return np.arange(num_parts, dtype=np.int32)
        weight = (pairs + pairs.T).toarray()
        relative = relative_capacities(num_parts, self.capacities)
        _, kind = np.unique(relative, return_inverse=True)
        starts = [self.topology.node_of_rank()]
        if kind.any():
            node = _swap(weight, starts[0], kind, nodes, self.sweeps)
            # The parts of one node and kind take the places that this kind had on the node.
            number = np.empty(num_parts, dtype=np.int32)
            number[np.lexsort((kind, node))] = np.lexsort((kind, starts[0]))
            return number
        starts.append(_grow(weight, ranks))
        ends = [_swap(weight, node, kind, nodes, self.sweeps) for node in starts]
        node = min(ends, key=lambda node: _between(pairs, node))
        # Sort nodes by their first parts, and keep the order of parts in a node. Only nodes of
        # equal size change places, since the topology fixes the ranks of a node.
        _, first = np.unique(node, return_index=True)
        order = np.lexsort((first, ranks))
        of_size = np.argsort(ranks, kind="stable")
        first[order] = of_size
        number = np.empty(num_parts, dtype=np.int32)
        number[np.argsort(first[node], kind="stable")] = np.arange(num_parts)
        return number


def _between(pairs: sp.csr_array, node: npt.NDArray[np.int32]) -> int:
    """Count rows between nodes: part m, on ``node[m]``, sends part n ``pairs[m, n]`` rows."""
    sender = np.repeat(node, np.diff(pairs.indptr))
    return int(pairs.data[sender != node[pairs.indices]].sum())


@njit(cache=True, nogil=True)
def _grow(weight, ranks):  # type: ignore[no-untyped-def]
    """Fill one node after another with the part that exchanges most rows with the node's parts.

    Returns the node of every part, int32[p]. On a tie, and for a node's first part, the part is
    chosen that exchanges most rows with the parts that have no node yet. `weight`, int64[p, p] and
    symmetric, has the rows that two parts exchange; `ranks` has the number of ranks on each node.
    """
    num_parts = len(weight)
    node = np.full(num_parts, -1, dtype=np.int32)
    to_free = weight.sum(axis=1)
    for k in range(len(ranks)):
        to_node = np.zeros(num_parts, dtype=np.int64)
        for _ in range(ranks[k]):
            best = -1
            for i in range(num_parts):
                if node[i] < 0 and (
                    best < 0 or (to_node[i], to_free[i]) > (to_node[best], to_free[best])
                ):
                    best = i
            node[best] = k
            to_node += weight[best]
            to_free -= weight[best]
    return node


@njit(cache=True, nogil=True)
def _swap(weight, start, kind, nodes, sweeps):  # type: ignore[no-untyped-def]
    """Swap each part with the part on another node that saves the most rows, if this helps.

    A swap of part i on node a with part j on node b saves
    r(i, b) + r(j, a) - r(i, a) - r(j, b) - 2 r(i, j) rows between nodes, where r(x, y) counts rows
    between x and y.

    `weight`, int64[p, p], is symmetric. `start` has every part's node before the swaps, `kind` a
    number: only parts with equal numbers are swapped. Returns the node of every part, int32[p].
    """
    num_parts = len(weight)
    node = start.copy()
    to_node = np.zeros((nodes, num_parts), dtype=np.int64)
    for i in range(num_parts):
        to_node[node[i]] += weight[i]
    for _ in range(sweeps):
        swapped = False
        for i in range(num_parts):
            a, best, most = node[i], -1, 0
            for j in range(num_parts):
                b = node[j]
                if b == a or kind[i] != kind[j]:
                    continue
                gain = to_node[b, i] - to_node[a, i] + to_node[a, j] - to_node[b, j]
                gain -= 2 * weight[i, j]
                if gain > most:
                    best, most = j, gain
            if best >= 0:
                b = node[best]
                to_node[a] += weight[best] - weight[i]
                to_node[b] -= weight[best] - weight[i]
                node[i], node[best] = b, a
                swapped = True
        if not swapped:
            break
    return node
