"""Split volume and messages into traffic inside the nodes of a machine and traffic between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plancc.plan.topology import Topology


class ByNode(NamedTuple):
    """A total, split into two: the amount inside nodes and the amount between nodes."""

    inside: int
    between: int


def volumes_by_node(pairs: sp.csr_array, topology: Topology) -> ByNode:
    """Return the number of rows that one expand sends inside and between nodes."""
    return _split(pairs, topology, pairs.data)


def messages_by_node(pairs: sp.csr_array, topology: Topology) -> ByNode:
    """Return the number of messages of one expand inside and between nodes.

    Parameters and errors: see `volumes_by_node`.
    """
    return _split(pairs, topology, np.ones(pairs.nnz, dtype=np.int64))


def _split(pairs: sp.csr_array, topology: Topology, amount: npt.NDArray[np.int64]) -> ByNode:
    num_parts = pairs.shape[0]
    topology.check(num_parts)
    node = topology.node_of_rank()
    same = np.repeat(node, np.diff(pairs.indptr)) == node[pairs.indices]
    inside = int(amount[same].sum())
    return ByNode(inside, int(amount.sum()) - inside)
