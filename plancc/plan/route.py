"""Over which parts rows travel in hops: what a header says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from plancc.errors import InputError
from plancc.plan.exchange import Int32Array, Int64Array
from plancc.plan.topology import Topology

HOPS = ("collect", "cross", "spread")
"""The hops of a step, in their order."""
RELAYS = "relays"
"""Attribute of the root group of a plan whose hops lead over any parts: 1."""


@dataclass(frozen=True)
class Route:
    """Hops between the nodes of a topology, or over relays, which may be any parts.

    Attributes:
        topology: Which parts share a node; None: over relays.
    """

    topology: Topology | None = None

    def __str__(self) -> str:
        return RELAYS if self.topology is None else f"topology '{self.topology}'"

    @classmethod
    def read(cls, attributes: Mapping[str, Any], topology: Topology | None) -> Self | None:
        """The route that the attributes of the root group say; None: there is none.

        InputError for another value of `RELAYS`, and for both. `topology` is read already.
        """
        if RELAYS not in attributes:
            return None if topology is None else cls(topology)
        if attributes[RELAYS] != 1:
            raise InputError(f"header attribute '{RELAYS}' is not 1")
        if topology is not None:
            raise InputError(f"{cls()} in a plan with {cls(topology)}")
        return cls()

    def attributes(self) -> dict[str, str | bool]:
        """Attributes of the root group."""
        return {RELAYS: True} if self.topology is None else {"topology": str(self.topology)}

    def problem(self, layout: str, num_parts: int) -> str:
        """Why the route does not fit a plan of these; "" if it does."""
        if layout not in ("row", "edge"):
            return f"{self} in a plan of layout '{layout}'"
        if self.topology is None or self.topology.num_ranks == num_parts:
            return ""
        ranks = self.topology.num_ranks
        return f"{self}, of {ranks} ranks, in a plan of {num_parts} parts"

    def keeps_groups(self, ranks: Int64Array) -> bool:
        """Whether no rank has parts of several nodes or, over relays, several parts.

        `ranks`: int64[num_ranks + 1], the first part of every rank.
        """
        topology = self.topology
        first = np.arange(ranks[-1]) if topology is None else topology.first_ranks()
        return bool(np.isin(first, ranks).all())

    def node_of_part(self) -> Int32Array:
        """Node of every part, int32[num_parts]; empty over relays."""
        return np.zeros(0, np.int32) if self.topology is None else self.topology.node_of_rank()
