"""The time of single collectives, as the prediction of an epoch has it.

For those who execute an epoch themselves and only ask what its collectives would take elsewhere.
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
    """Return the seconds of a collective of one group, once all of its members are there.

    Only what travels: without the overhead of the operation itself. The function takes

    kind : str
        "broadcast", "allreduce" or "allgather". Reductions to a root are broadcasts backward, and
        take as long; so are reduce-scatters all-gathers.
    groups : tuple of tuple of int
        The ranks of groups that do the same at once and share the network: disjoint and of the
        same size, each ascending.
    number : int
        Which of them it is.
    sizes : tuple of int
        Bytes of the buffer; of an all-gather, of every member's piece.
    """
    quiet = replace(machine, compute=replace(machine.compute, overhead=0.0), speed=())

    @cache  # an epoch has few different ones
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
