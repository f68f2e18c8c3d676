"""The time of single collectives, as the prediction of an epoch has it. Knows machines and ranks.

For those who execute an epoch themselves and only ask what its collectives would take elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from plancc.plan.words import AllGatherWords, AllReduceWords, BroadcastWords
from plancc.predict.machine import Machine
from plancc.predict.simulation import collective_seconds

KINDS = ("broadcast", "allreduce", "allgather")
"""Kinds of collectives: reductions to a root are broadcasts backward, and take as long; so are
reduce-scatters all-gathers."""


class CollectiveTimes:
    """Seconds of collectives on a machine.

    Parameters
    ----------
    machine : Machine
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.seconds = cache(self._seconds)  # an epoch has few different ones

    def _seconds(
        self,
        kind: str,
        groups: tuple[tuple[int, ...], ...],
        number: int,
        sizes: tuple[int, ...],
    ) -> float:
        """Seconds of the collective of one group, once all of its members are there.

        Parameters
        ----------
        kind : str
            One of `KINDS`.
        groups : tuple of tuple of int
            The ranks of groups that do the same at once and share the network: disjoint and of the
            same size, each ascending.
        number : int
            Which of them it is.
        sizes : tuple of int
            Bytes of the buffer; of an all-gather, of every member's piece.
        """
        ranks = np.array(groups, np.int64)
        operation = _operation(kind, ranks, sizes)
        return float(collective_seconds(operation, self._machine, word_bytes=1)[number])


def _operation(
    kind: str, ranks: np.ndarray, sizes: Sequence[int]
) -> BroadcastWords | AllReduceWords | AllGatherWords:
    """What all groups do at once, in words of one byte."""
    if kind == "allgather":
        return AllGatherWords(ranks, np.tile(np.array(sizes, np.int64), (len(ranks), 1)))
    words = np.full(len(ranks), sizes[0], np.int64)
    if kind == "allreduce":
        return AllReduceWords(ranks, words)
    return BroadcastWords(ranks, words[None], root=np.zeros_like(words)[None])
