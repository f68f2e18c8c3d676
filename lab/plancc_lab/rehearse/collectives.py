"""The time that one collective takes on a machine, as in the prediction of an epoch."""

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
    """Return a function for the seconds that a collective takes after all its ranks have called it.

    The seconds are for messages, without the overhead of the operation. The function's parameters
    are the attributes of `links.RecordedCollective`.
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
