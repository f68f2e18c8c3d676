"""Number the parts so that parts which exchange many rows share a node.

`plancc.cost.topology` computes the cost of a numbering.
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
    """Renumber parts so that few rows are sent between nodes; the rows of every part stay together.

    ::

        parts 0 1 2 3 on 2 nodes of 2 ranks; 0 and 2 exchange much, so do 1 and 3

        before   node 0: 0 1    node 1: 2 3        after   node 0: 0 2    node 1: 1 3
                                                   renamed         0 1            2 3

    There are two starts: the given numbering, and a numbering grown greedily node by node. Each
    numbering is improved by swaps of a part with its best partner, until no swap helps. The better
    result is returned. The result is the same in every run, and never worse than the given
    numbering. No swap of two parts would improve the result, unless the number of sweeps has
    reached `sweeps`. A sweep takes O(p^2) time and memory.

    Attributes:
        topology: The nodes and their ranks.
        sweeps: Largest number of sweeps over all parts; a sweep finds the best partner of every
            part.
        capacities: Capacities of the parts. Only parts of equal capacity are swapped, so that rank
            r keeps a part of its capacity. The given numbering is then the only start. None: equal
            capacities.
    """

    topology: Topology
    sweeps: int = 100
    capacities: Capacities = None

    def run(
        self, owner: npt.NDArray[np.int32], pairs: sp.csr_array, num_parts: int
    ) -> npt.NDArray[np.int32]:
        """Return the owners after renumbering the parts.

        Parameters:
            owner (int32[n]): Part of every vertex; not changed.
            pairs (csr_array int64[num_parts, num_parts]): Rows that part q sends to part m with
                these owners (`plancc.cost.pairs`).
            num_parts: Number of parts.

        Returns:
            int32[n]: New owners; `owner` itself if the numbering does not change.

        Raises:
            InputError: If the topology does not have one rank for every part.
        """
        self.topology.check(num_parts)
        number = self._numbering(pairs)
        return owner if (number == np.arange(num_parts)).all() else number[owner]

    def _numbering(self, pairs: sp.csr_array) -> npt.NDArray[np.int32]:
        """New number of every part, int32[p]."""
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
    """Number of rows sent between nodes, if part m is on ``node[m]``."""
    sender = np.repeat(node, np.diff(pairs.indptr))
    return int(pairs.data[sender != node[pairs.indices]].sum())


@njit(cache=True, nogil=True)
def _grow(weight, ranks):  # type: ignore[no-untyped-def]
    """Fill one node after another: add the part that exchanges most rows with the node's parts.

    The first part of a node is the part that exchanges most rows with all free parts. The same rule
    decides among equal parts. `weight` is int64[p, p], symmetric; `ranks` is int64[nodes]. Returns
    the node of every part, int32[p].
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
    """Swap every part with the best part of its kind on another node, while swaps help.

    Consider a swap of part i on node a and part j on node b. Its gain is the number of rows that
    each part exchanges with the other part's node, minus the rows that each exchanges with its own
    node, minus twice the rows between i and j (these stay between nodes). Returns the node of every
    part, int32[p].
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
