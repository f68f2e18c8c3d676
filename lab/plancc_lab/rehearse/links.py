"""Times of messages and collectives on a machine, as plain numbers.

A `replay` knows a machine only by its `Links`, which the command makes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


@dataclass(frozen=True)
class Link:
    """Latency and bandwidth of a rank's messages while all ranks exchange.

    Attributes:
        latency: Seconds per message.
        bandwidth: Bytes per second that a rank sends while it receives at the same rate.
    """

    latency: float
    bandwidth: float

    def seconds(self, num_bytes: int) -> float:
        """Return the seconds of one message."""
        return self.latency + num_bytes / self.bandwidth


class RecordedCollective(NamedTuple):
    """One collective of a group.

    Attributes:
        kind: "broadcast", "allreduce", "allgather" or `replay.MEETING`. A reduction to a root
            counts as a broadcast, its reverse, and a reduce-scatter as an all-gather.
        groups: Ranks of this group and of the other groups that do the same at about the same time;
            groups are disjoint and of one size.
        number: Place of this group among the groups.
        sizes: Bytes of the buffer; for an all-gather, bytes of the piece of every member.
    """

    kind: str
    groups: tuple[tuple[int, ...], ...]
    number: int
    sizes: tuple[int, ...]

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks of the group."""
        return self.groups[self.number]


@dataclass(frozen=True)
class Links:
    """The network of a machine, and the speed of its ranks.

    Attributes:
        ranks_per_node: Number of ranks of a node; rank r is on node ``r // ranks_per_node``.
        inside, between: Links between ranks of one node, and of different nodes.
        injection: Bytes per second that a whole node sends to other nodes while it receives at the
            same rate.
        overlap: Speed of a rank's messages while the rank computes, as a share of the speed while
            the rank waits. 0 for libraries that move messages only during their calls; 1 if the
            network works without the rank.
        cores: Number of ranks of a node that compute at full speed; more ranks share the cores
            evenly.
        slowness: Seconds that every rank, alone on a core, takes for the work of which a thread of
            this computer does one second.
        collective: Function that returns the seconds of a collective, once all members have joined.
    """

    ranks_per_node: int
    inside: Link
    between: Link
    injection: float
    overlap: float
    cores: int
    slowness: tuple[float, ...]
    collective: Callable[[RecordedCollective], float]
