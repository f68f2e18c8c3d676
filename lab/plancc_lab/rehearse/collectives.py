"""The time that one collective takes on a machine, as in the prediction of an epoch.

A rehearsal executes an epoch on this computer, but takes the times of its collectives from here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from plancc.plan.words import AllGatherWords, AllReduceWords, BroadcastWords
from plancc.predict.machine import Machine
from plancc.predict.simulation import WorkTimes

Groups = tuple[tuple[int, ...], ...]


def collective_times(machine: Machine) -> Callable[[str, Groups, int, tuple[int, ...]], float]:
    """Return a function that returns the seconds of a collective, after all members have joined.

    The seconds are for messages, without the overhead of the operation. The function's parameters
    are:

    kind : str
        "broadcast", "allreduce" or "allgather". A reduction to a root takes as long as a broadcast,
        a reduce-scatter as long as an all-gather.
    groups : tuple of tuple of int
        Ranks of all groups that perform the same collective at the same time and share the network.
        The groups are disjoint and have equal sizes, and their ranks ascend.
    number : int
        Position of this group in `groups`.
    sizes : tuple of int
        Bytes of the buffer; for an all-gather, bytes of the piece of every member.
    """
    quiet = replace(machine, compute=replace(machine.compute, overhead=0.0), speed=())

    @cache  # an epoch has few different collectives
    def seconds(kind: str, groups: Groups, number: int, sizes: tuple[int, ...]) -> float:
        ranks = np.array(groups, np.int64)
        pieces = np.tile(np.array(sizes, np.int64), (len(ranks), 1))
        whole = pieces[:, 0]
        works = {
            "allgather": AllGatherWords(ranks, pieces),
            "allreduce": AllReduceWords(ranks, whole),
            "broadcast": BroadcastWords(ranks, whole[None], root=0 * whole[None]),
        }
        spent = WorkTimes(quiet, int(ranks.max()) + 1, word_bytes=1).seconds(works[kind])
        return float(spent[ranks[number, 0]])

    return seconds
