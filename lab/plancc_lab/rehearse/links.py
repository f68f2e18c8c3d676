"""What messages and collectives take on a machine, in plain numbers.

`Links` is all that a `replay` needs to know of a machine; who knows machines makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Link:
    """Cost of a rank's messages while all ranks exchange.

    Attributes:
        latency: Seconds per message.
        bandwidth: Bytes per second that a rank sends while it receives as many.
    """

    latency: float
    bandwidth: float

    def seconds(self, num_bytes: int) -> float:
        """The time of one message."""
        return self.latency + num_bytes / self.bandwidth


class RecordedCollective(NamedTuple):
    """One collective of a group.

    Attributes:
        kind: "broadcast", "allreduce", "allgather" or `replay.MEETING`; a reduction to a root
            counts as a broadcast, a reduce-scatter as an all-gather: the same backward.
        groups: The ranks of this group, and of the others that do the same at about the same time:
            disjoint and of the same size.
        number: Which of the groups it is.
        sizes: Bytes: of the buffer; of an all-gather, of every member's piece.
    """

    kind: str
    groups: tuple[tuple[int, ...], ...]
    number: int
    sizes: tuple[int, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The members."""
        return self.groups[self.number]


@dataclass(frozen=True)
class Links:
    """The network of a machine, and how fast its ranks compute.

    Attributes:
        ranks_per_node: Rank r is on node ``r // ranks_per_node``.
        inside, between: Links between ranks of one node, and of different ones.
        injection: Bytes per second that a whole node sends to other nodes while it receives as
            many.
        overlap: How fast messages move while their rank computes, as a share of their speed while
            it waits: 0 in libraries that move them only when they are called, 1 where the network
            needs no help.
        cores: Ranks of a node that can compute at the same time; more of them share the cores
            evenly.
        slowness: Seconds that every rank takes, alone on a core, for what takes this
            computer's thread one second.
        collective: Seconds of a collective, once all of its members are there.
    """

    ranks_per_node: int
    inside: Link
    between: Link
    injection: float
    overlap: float
    cores: int
    slowness: tuple[float, ...]
    collective: Callable[[RecordedCollective], float]
