"""Volume and messages inside and between the nodes of a machine. Knows no search.

Parts are numbered node by node: node k runs parts ``k * ranks_per_node`` to
``(k + 1) * ranks_per_node - 1``, as MPI places ranks unless told otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plancc.errors import InputError


@dataclass(frozen=True)
class Topology:
    """`nodes` nodes of `ranks_per_node` ranks each; `str` of it is what `parse` reads."""

    nodes: int
    ranks_per_node: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """``"4x8"`` is 4 nodes of 8 ranks each; InputError for anything else."""
        found = re.fullmatch(r"([1-9][0-9]{0,8})x([1-9][0-9]{0,8})", text, re.ASCII)
        if found is None:
            raise InputError(
                f"topology '{text}': give nodes x ranks per node, such as 4x8 for 4 nodes of 8 "
                "ranks each"
            )
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.nodes}x{self.ranks_per_node}"

    @property
    def num_ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    def check(self, num_parts: int) -> None:
        """InputError unless there is exactly one part for every rank."""
        if num_parts != self.num_ranks:
            raise InputError(
                f"topology {self} has {self.num_ranks} ranks, one for every part; here are "
                f"{num_parts} parts"
            )


class ByNode(NamedTuple):
    """A total, split into what stays inside nodes and what travels between them."""

    inside: int
    between: int


def volumes_by_node(pairs: sp.csr_array, topology: Topology) -> ByNode:
    """Rows that one expand moves inside and between nodes.

    Parameters
    ----------
    pairs : csr_array int64[p, p]
        Rows that part q sends to part m (`plancc.cost.pairs`).
    topology : Topology

    Raises
    ------
    InputError
        If the topology has not p ranks.
    """
    return _split(pairs, topology, pairs.data)


def messages_by_node(pairs: sp.csr_array, topology: Topology) -> ByNode:
    """Ordered pairs of parts that talk, inside and between nodes; see `volumes_by_node`."""
    return _split(pairs, topology, np.ones(pairs.nnz, dtype=np.int64))


def _split(pairs: sp.csr_array, topology: Topology, amount: npt.NDArray[np.int64]) -> ByNode:
    num_parts = pairs.shape[0]
    topology.check(num_parts)
    node = np.arange(num_parts) // topology.ranks_per_node
    same = np.repeat(node, np.diff(pairs.indptr)) == node[pairs.indices]
    inside = int(amount[same].sum())
    return ByNode(inside, int(amount.sum()) - inside)
