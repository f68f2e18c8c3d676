"""Words and messages of one epoch of a GCN, depending on its passes and on boundary sampling.

What is sent before training, in evaluations and in all-reduces is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plancc.plan.exchange import Int64Array
from plancc.plan.metrics import Traffic
from plancc.plan.words import Counts
from plancc.predict.memory import WORD_BYTES
from plancc.predict.passes import PASSES, moved_widths


@dataclass(frozen=True)
class PassCost:
    """The cost of one epoch with some passes on.

    Attributes:
        words, messages: Words and messages that all parts send.
        max_words_sent, max_messages_sent: Words and messages of the part that sends most.
        saved: Words that the passes save, divided by the words of an epoch without passes.
    """

    passes: list[str]
    words: int
    max_words_sent: int
    messages: int
    max_messages_sent: int
    saved: float

    @classmethod
    def of(cls, passes: Sequence[str], sent: Counts, plain: PassCost | None) -> PassCost:
        """Return an epoch's cost with the given passes.

        `sent` counts what every rank sends with these passes. `plain` is the cost without passes;
        None if `passes` is empty.
        """
        words = int(sent.words_sent.sum())
        return cls(
            passes=list(passes),
            words=words,
            max_words_sent=int(sent.words_sent.max()),
            messages=int(sent.messages_sent.sum()),
            max_messages_sent=int(sent.messages_sent.max()),
            saved=1 - words / plain.words if plain and plain.words else 0.0,
        )


def added_passes(passes: Sequence[str], epoch: Callable[[Sequence[str]], Counts]) -> list[PassCost]:
    """Return the costs of an epoch without passes, then with one more of `passes` each time."""
    costs: list[PassCost] = []
    for number in range(len(passes) + 1):
        done = passes[:number]
        costs.append(PassCost.of(done, epoch(done), costs[0] if costs else None))
    return costs


@dataclass(frozen=True)
class SampledCost:
    """The expected cost of one epoch with boundary sampling (BNS-GCN, Wan et al. 2022).

    Attributes:
        rate: Probability that a halo row is kept.
        words, messages: Expected words and messages of all parts, with all passes on.
        saved: Share of the words that sampling saves, compared with rate 1.
        max_memory, mean_memory: Maximum and mean over the parts of the memory by Equation 4 of the
            paper, in bytes.
    """

    rate: float
    words: float
    messages: float
    saved: float
    max_memory: int
    mean_memory: int


def sampled_costs(
    parts: Traffic, live: Sequence[Int64Array], dims: Sequence[int], rates: Sequence[float]
) -> list[SampledCost]:
    """Return the expected cost of an epoch for each of these rates of boundary sampling.

    A message of s rows is sent with probability 1 - (1 - rate)^s: if at least one row is kept.
    `live` has the number of rows of each message, for every layer.
    """
    widths = moved_widths(dims, PASSES)
    full = sum(float(rows.sum()) * sum(two) for rows, two in zip(live, widths, strict=True))
    rounds = [(forward > 0) + (back > 0) for forward, back in widths]
    costs = []
    for rate in rates:
        travel = [1 - (1 - rate) ** rows.astype(np.float64) for rows in live]
        held = equation_4(parts, dims, rate)
        costs.append(
            SampledCost(
                rate=float(rate),
                words=rate * full,
                messages=sum(n * float(each.sum()) for n, each in zip(rounds, travel, strict=True)),
                saved=1.0 - rate,
                max_memory=round(held.max()),
                mean_memory=round(held.mean()),
            )
        )
    return costs


def equation_4(parts: Traffic, dims: Sequence[int], rate: float = 1.0) -> npt.NDArray[np.float64]:
    """Return the bytes of each part by Equation 4 of Wan et al. 2022, float64[num_parts].

    A part needs 4 (3 x own rows + rate x halo rows) x input width bytes, summed over the layers;
    `rate` is the share of the halo rows that boundary sampling keeps.
    """
    return WORD_BYTES * sum(dims[:-1]) * (3 * parts.rows + rate * parts.received)
