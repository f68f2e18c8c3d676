"""Cost of mini-batches for given owners of rows: of each mini-batch, or its expected value.

A part that does not own row j receives it once in each block that keeps a nonzero ``A[i, j]`` of
one of the part's rows i.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from plancc.kernel import njit
from plancc.models.nets import column_nets
from plancc.plan.exchange import Int32Array, Int64Array
from plancc.plan.metrics import imbalance
from plancc.plan.receive_sets import grouped
from plancc.sampling import SHOWN, Inclusion, Population, Sampler, draw
from plancc.threads import check_threads

CONFIDENCE = 0.95
"""Level of every confidence interval."""
CHUNK = 32
"""Number of batches that a thread draws at a time; small, so that an interrupt is answered
quickly."""

Float64Array = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class BatchFigures:
    """Figures of several mini-batches, for given owners; each array has an entry per mini-batch.

    Attributes:
        nonzeros: Nonzeros that all blocks together keep.
        volume: Rows that are sent if every block is exchanged once.
        max_volume: Most rows that a part sends or receives in all blocks.
        work_imbalance: max / mean - 1 of the kept nonzeros per part; 0 without nonzeros.
    """

    vertices: Int64Array
    nonzeros: Int64Array
    volume: Int64Array
    max_volume: Int64Array
    messages: Int64Array
    work_imbalance: Float64Array

    @classmethod
    def empty(cls, batches: int) -> BatchFigures:
        vertices, nonzeros, volume, max_volume, messages = np.zeros((5, batches), dtype=np.int64)
        return cls(vertices, nonzeros, volume, max_volume, messages, np.zeros(batches))


def batch_figures(
    sampler: Sampler,
    population: Population,
    owners: Sequence[tuple[Int32Array, int]],
    numbers: Sequence[int],
    *,
    seed: int,
    stream: int = SHOWN,
    threads: int = 1,
) -> list[BatchFigures]:
    """Return figures of the mini-batches `numbers`, each drawn once, for several partitions.

    `owners` has the owners and the number of parts of every partition. Arrays in the result have an
    entry per mini-batch, in the order of `numbers`. Every thread holds one mini-batch, and 8 bytes
    per vertex of the graph. For `seed` and `stream` see `Sampler.batch`.
    """
    sampler.check(population)
    check_threads(threads)
    found = [BatchFigures.empty(len(numbers)) for _ in owners]
    most_parts = max((num_parts for _, num_parts in owners), default=0)

    def count(places: range) -> None:
        stamp = np.zeros(population.num_vertices, dtype=np.int64)
        talked = np.zeros(most_parts, dtype=np.int64)
        ticket = 0  # stamps of this batch, block, owner vector and part: above all stamps so far
        for place in places:
            batch = draw(sampler, population, seed, numbers[place], stream)
            blocks = [batch.block(number) for number in range(batch.num_blocks)]
            ticket += 1
            vertices = 0
            for b in blocks:
                vertices += _new(b.rows, stamp, ticket) + _new(b.columns, stamp, ticket)
            for (owner, num_parts), figures in zip(owners, found, strict=True):
                load = np.zeros((3, num_parts), dtype=np.int64)
                for b in blocks:
                    messages = _exchange(
                        b.rows, b.ptr, b.columns, owner, stamp, talked, ticket, load
                    )
                    ticket += num_parts
                    figures.messages[place] += messages
                work, sent, received = load
                figures.vertices[place] = vertices
                figures.nonzeros[place] = work.sum()
                figures.volume[place] = sent.sum()
                figures.max_volume[place] = max(sent.max(), received.max())
                figures.work_imbalance[place] = imbalance(work)

    chunks = [range(len(numbers))[k : k + CHUNK] for k in range(0, len(numbers), CHUNK)]
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(count, chunks))
    return found


@njit(cache=True, nogil=True)
def _new(vertices, stamp, ticket):  # type: ignore[no-untyped-def]
    """Give all `vertices` the stamp `ticket`, and return how many did not have this stamp yet."""
    found = 0
    for v in vertices:
        if stamp[v] != ticket:
            stamp[v] = ticket
            found += 1
    return found


@njit(cache=True, nogil=True)
def _exchange(rows, ptr, columns, owner, stamp, talked, ticket, load):  # type: ignore[no-untyped-def]
    """Add the work of one block of a mini-batch to `load`, and return the number of messages.

    ``load[:, q]`` has part q's numbers of nonzeros, sent rows and received rows. When column j is
    counted for part q, ``stamp[j]`` becomes ``ticket + 1 + q``; when sender p is counted for part
    q, ``talked[p]`` does. `ticket` is larger in every call, so older values do not count.
    """
    num_parts = load.shape[1]
    order, _, part_ptr = grouped(owner[rows], num_parts)
    messages = 0
    for q in range(num_parts):
        ticket += 1
        for k in order[part_ptr[q] : part_ptr[q + 1]]:
            load[0, q] += ptr[k + 1] - ptr[k]
            for a in range(ptr[k], ptr[k + 1]):
                j = columns[a]
                sender = owner[j]
                if sender != q and stamp[j] != ticket:
                    stamp[j] = ticket
                    load[1, sender] += 1
                    load[2, q] += 1
                    if talked[sender] != ticket:
                        talked[sender] = ticket
                        messages += 1
    return messages


def expected_volume(
    inclusion: Inclusion, indptr: Int64Array, indices: Int32Array, owner: Int32Array, num_parts: int
) -> float:
    """Return the exact expected number of rows that are sent in one exchange of a mini-batch.

    With the attributes of `inclusion`, it is ``share`` times the sum of ``reach[c_jq]`` over all
    columns j and all parts q != owner[j]; c_jq is the number of rows i != j of part q that have a
    nonzero in column j.
    """
    net_ptr, pins, column = column_nets(indptr, indices)
    allowed = inclusion.vertices
    if allowed is None:
        allowed = np.ones(len(owner), dtype=np.bool_)
    reached = _reached(net_ptr, pins, column, owner, num_parts, inclusion.reach, allowed)
    return inclusion.share * float(reached)


@njit(cache=True, nogil=True)
def _reached(ptr, pins, column, owner, num_parts, reach, allowed):  # type: ignore[no-untyped-def]
    """Return the sum of ``reach[c_jq]`` over all columns j and all parts q except the owner of j.

    c_jq is the number of pins of net j in part q, and `reach` is `Inclusion.reach`. Only vertices
    that are true in `allowed` count.
    """
    count = np.zeros(num_parts, dtype=np.int64)
    total = 0.0
    for e in range(len(column)):
        j = column[e]
        if not allowed[j]:
            continue
        rows = pins[ptr[e] : ptr[e + 1]]
        for i in rows:
            if allowed[i]:
                count[owner[i]] += 1
        for i in rows:  # visit every part once, and set its count back to 0
            q = owner[i]
            if count[q] > 0:
                if q != owner[j]:
                    total += reach[count[q]]
                count[q] = 0
    return total


@dataclass(frozen=True)
class Estimate:
    """The mean of a figure over mini-batches, with a confidence interval.

    Attributes:
        low, high: Ends of the interval; None if there are fewer than two mini-batches.
    """

    mean: float
    low: float | None
    high: float | None

    @classmethod
    def around(cls, mean: float, deviations: npt.NDArray[Any]) -> Estimate:
        """Return the mean with its confidence interval, by Student's t distribution.

        `deviations` are the figures of the mini-batches minus a common constant, such as 0 or a
        value near the mean.
        """
        batches = len(deviations)
        if batches < 2:
            return cls(mean, None, None)
        error = float(np.std(deviations, ddof=1)) / batches**0.5
        half = float(stdtrit(batches - 1, 0.5 + CONFIDENCE / 2)) * error
        return cls(mean, mean - half, mean + half)


def estimate(values: npt.NDArray[Any]) -> Estimate:
    """Return the mean of the figures of at least one mini-batch, with a 95% confidence interval."""
    return Estimate.around(float(np.mean(values)), values)


def difference(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Estimate:
    """Return the mean of a - b over mini-batches, with a paired 95% confidence interval."""
    return estimate(np.asarray(a) - np.asarray(b))


def ratio(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> Estimate | None:
    """Return (mean of a) / (mean of b) with a 95% confidence interval; None if b's mean is 0.

    Entry k of each array is for mini-batch k. By the delta method, the variance of the ratio r is
    about the variance of ``a - r b``, divided by the squared mean of b (Cochran, Sampling
    Techniques, 1977, section 2.11).
    """
    base = float(np.mean(b))
    if base == 0:
        return None
    value = float(np.mean(a)) / base
    return Estimate.around(value, (np.asarray(a) - value * np.asarray(b)) / base)
