"""Which parts share a node.

Parts are numbered node by node, as MPI places ranks unless told otherwise: node 0 runs the first
parts, node 1 those after them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import Self

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError

MOST = 2**31 - 1
"""Largest number of nodes, and of ranks of a node."""


@dataclass(frozen=True)
class Topology:
    """Nodes and their ranks; `str` of it is what `parse` reads.

    Attributes:
        groups: Numbers of consecutive nodes, and of the ranks of each: ((4, 8), (1, 2)) is four
            nodes of 8 ranks and one of 2. Neighbours have different numbers of ranks.
    """

    groups: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, text: object) -> Self:
        """``4x8`` is 4 nodes of 8 ranks each, ``4x8+1x2`` has one more of 2 ranks.

        Raises:
            InputError: For any other text.
        """
        text = str(text)
        group = r"([1-9][0-9]{0,9})x([1-9][0-9]{0,9})"
        found = [re.fullmatch(group, word, re.ASCII) for word in text.split("+")]
        pairs = [(int(each[1]), int(each[2])) for each in found if each is not None]
        if len(pairs) < len(found) or max(map(max, pairs)) > MOST:
            raise InputError(
                f"topology '{text}': give nodes x ranks per node, such as 4x8 for 4 nodes of 8 "
                "ranks each, or 4x8+1x2 for one more of 2 ranks"
            )
        groups = groupby(pairs, key=lambda pair: pair[1])
        return cls(tuple((sum(nodes for nodes, _ in each), ranks) for ranks, each in groups))

    def __str__(self) -> str:
        return "+".join(f"{nodes}x{ranks}" for nodes, ranks in self.groups)

    @property
    def nodes(self) -> int:
        return sum(nodes for nodes, _ in self.groups)

    @property
    def num_ranks(self) -> int:
        return sum(nodes * ranks for nodes, ranks in self.groups)

    @property
    def ranks_per_node(self) -> int | None:
        """Ranks of every node; None: the nodes differ."""
        return self.groups[0][1] if len(self.groups) == 1 else None

    def check(self, num_parts: int) -> None:
        """InputError unless there is exactly one part for every rank."""
        if num_parts != self.num_ranks:
            raise InputError(
                f"topology {self} has {self.num_ranks} ranks, one for every part; here are "
                f"{num_parts} parts"
            )

    def ranks(self) -> npt.NDArray[np.int64]:
        """Ranks of every node, int64[nodes]; call `check` first."""
        nodes, ranks = np.array(self.groups, dtype=np.int64).T
        return np.repeat(ranks, nodes)

    def first_ranks(self) -> npt.NDArray[np.int64]:
        """First rank of every node, and the number of all: int64[nodes + 1]."""
        return np.append(0, np.cumsum(self.ranks()))

    def node_of_rank(self) -> npt.NDArray[np.int32]:
        """Node of every rank, int32[num_ranks]; call `check` first."""
        return np.repeat(np.arange(self.nodes, dtype=np.int32), self.ranks())
