"""Dataclasses of numbers that give the times of messages and collectives on a machine.

A `replay` knows a machine only by its `Links`, which the command `plancc rehearse` makes.
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
        """Return the seconds of one message of this many bytes."""
        return self.latency + num_bytes / self.bandwidth


class RecordedCollective(NamedTuple):
    """One collective of a group.

    Reductions to a root are recorded as broadcasts, and reduce-scatters as all-gathers.

    Attributes:
        kind: "broadcast", "allreduce", "allgather" or `replay.MEETING`.
        groups: Ranks of all groups, disjoint and of equal size, that act at about the same time.
        number: Position of this group in `groups`.
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

    `overlap` is 0 for libraries that move messages only during their calls, and 1 if the network
    works without the rank.

    Attributes:
        ranks_per_node: Number of ranks of a node; rank r is on node ``r // ranks_per_node``.
        inside, between: Links between ranks of one node, and of different nodes.
        injection: Bytes per second that a node sends to others while it receives as many.
        overlap: Speed of messages while their rank computes, as a share of their speed otherwise.
        cores: Number of ranks of a node that compute at full speed; more ranks share the cores.
        slowness: Seconds that each rank, alone on a core, needs for this computer's work of 1 s.
        collective: Function for the seconds of a collective after all its ranks have called it.
    """

    ranks_per_node: int
    inside: Link
    between: Link
    injection: float
    overlap: float
    cores: int
    slowness: tuple[float, ...]
    collective: Callable[[RecordedCollective], float]
