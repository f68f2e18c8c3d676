"""`Topology` says which parts share a node. `Route` says how hops send rows.

Parts are numbered node by node, as MPI places ranks by default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError

MOST = 2**31 - 1
"""Largest number of nodes, and of ranks per node."""
HOPS = ("collect", "cross", "spread")
"""The hops of a step, in their order."""
RELAYS = "relays"
"""Attribute of the root group, with value 1, of a plan with hops that may lead over any parts."""


@dataclass(frozen=True)
class Topology:
    """The number of ranks on each node. `parse` reads the string that `str` returns.

    Attributes:
        groups: Pairs (consecutive nodes, ranks on each): ((4, 8), (1, 2)) stands for 4 nodes of 8
            ranks and 1 node of 2. Consecutive pairs differ in ranks.
    """

    groups: tuple[tuple[int, int], ...]

    @classmethod
    def parse(cls, text: object) -> Self:
        """Parse a string: ``4x8+1x2`` means 4 nodes of 8 ranks, then one node of 2 ranks."""
        text = str(text)
        group = r"([1-9][0-9]{0,9})x([1-9][0-9]{0,9})"
        found = [re.fullmatch(group, word, re.ASCII) for word in text.split("+")]
        pairs = [(int(each[1]), int(each[2])) for each in found if each is not None]
        if len(pairs) < len(found) or max(map(max, pairs)) > MOST:
            raise InputError(
                f"topology '{text}': give nodes x ranks per node, such as 4x8 for 4 nodes of 8 "
                "ranks each, or 4x8+1x2 for one more node of 2 ranks"
            )
        groups = groupby(pairs, key=lambda pair: pair[1])
        return cls(tuple((sum(nodes for nodes, _ in each), ranks) for ranks, each in groups))

    @classmethod
    def recorded(cls, provenance: Mapping[str, Any], num_ranks: int) -> Self | None:
        """Return a plan's recorded topology if it has `num_ranks` ranks, else None."""
        try:
            found = cls.parse(str(provenance.get("topology", "")))
            found.check(num_ranks)
        except InputError:
            return None
        return found

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
        """Number of ranks on each node; None if nodes have different numbers of ranks."""
        return self.groups[0][1] if len(self.groups) == 1 else None

    def check(self, num_parts: int) -> None:
        """Raise InputError if the number of parts is not the number of ranks."""
        if num_parts != self.num_ranks:
            raise InputError(
                f"topology {self} has {self.num_ranks} ranks for {num_parts} parts; give it one "
                "rank for every part"
            )

    def ranks(self) -> npt.NDArray[np.int64]:
        """Return the number of ranks on each node, int64[nodes]; call `check` first."""
        nodes, ranks = np.array(self.groups, dtype=np.int64).T
        return np.repeat(ranks, nodes)

    def first_ranks(self) -> npt.NDArray[np.int64]:
        """Return the first rank of each node, then the number of all ranks: int64[nodes + 1]."""
        return np.append(0, np.cumsum(self.ranks()))

    def node_of_rank(self) -> npt.NDArray[np.int32]:
        """Return the node of each rank, int32[num_ranks]; call `check` first."""
        return np.repeat(np.arange(self.nodes, dtype=np.int32), self.ranks())


@dataclass(frozen=True)
class Route:
    """How rows are sent in hops: between the nodes of a topology, or over relays (any parts).

    Attributes:
        topology: Which parts share a node; None if rows are sent over relays.
    """

    topology: Topology | None = None

    def __str__(self) -> str:
        return RELAYS if self.topology is None else f"topology '{self.topology}'"

    @classmethod
    def read(cls, attributes: Mapping[str, Any], topology: Topology | None) -> Self:
        """Return the route that root attributes of a plan file and parsed `topology` describe."""
        if RELAYS not in attributes:
            return cls(topology)
        if attributes[RELAYS] != 1:
            raise InputError(f"header attribute '{RELAYS}' is not 1")
        if topology is not None:
            raise InputError(f"header has both {cls()} and {cls(topology)}; remove one of them")
        return cls()

    def attributes(self) -> dict[str, str | bool]:
        """Return the route as attributes of the plan file's root group."""
        return {RELAYS: True} if self.topology is None else {"topology": str(self.topology)}

    def problem(self, layout: str, num_parts: int) -> str:
        """Return why the route does not fit a plan of this layout and size; "" if it fits."""
        if layout not in ("row", "edge"):
            return f"{self} cannot be in a plan of layout '{layout}'"
        if self.topology is None or self.topology.num_ranks == num_parts:
            return ""
        ranks = self.topology.num_ranks
        return f"{self} has {ranks} ranks, but the plan has {num_parts} parts"

    def keeps_groups(self, ranks: npt.NDArray[np.int64]) -> bool:
        """Return whether the hops still work if a rank runs several parts.

        `ranks` has the first part of every rank, then the number of parts. A rank must have parts
        of one node only, and a single part if hops lead over relays.
        """
        topology = self.topology
        first = np.arange(ranks[-1]) if topology is None else topology.first_ranks()
        return bool(np.isin(first, ranks).all())

    def node_of_part(self) -> npt.NDArray[np.int32]:
        """Return the node of each part, int32[num_parts]; empty if rows are sent through relays."""
        return np.zeros(0, np.int32) if self.topology is None else self.topology.node_of_rank()
