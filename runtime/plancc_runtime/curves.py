"""Areas under curves over the vertices of all ranks, exact, and no rank holds all scores.

Every rank counts the vertices of each score, and all sort these counts together by sampling (Shi
and Schaeffer 1992): equal scores meet on one rank, so that ties count as scikit-learn counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.row_numbers import swapped

Float64Array = npt.NDArray[np.float64]
Groups = Sequence[tuple[Float64Array, npt.NDArray[np.bool_]]]
Counts = tuple[npt.NDArray[np.complex128], npt.NDArray[np.int64]]
"""Keys in ascending order, each once, and how many vertices of each are (not of, of) its class."""


def areas(
    groups: Groups, transport: Transport, hits: Sequence[int] | None = None
) -> list[Float64Array]:
    """The area under the ROC curve and the average precision of every class. Collective.

    The area is the chance that a vertex of the class has a higher score than one that is not of it,
    where equal ones count half. The average precision is the mean, over the vertices of the class,
    of the precision at their score: the sum of (R_n - R_{n-1}) P_n over descending thresholds.

    Parameters:
        groups: Of every split float64[m, classes], finite, and bool[m, classes]: this rank's
            vertices.
        hits: Numbers K: then also means over the ranks that those of a class have among the others.

    Returns:
        float64[groups, classes] each: AUC, NaN for a class to which all or none of the vertices
        belong; average precision, NaN for one to which none belong. With `hits` the mean of
        1 / rank, where equal scores of others count half; for every K the share of those with fewer
        than K others of at least their score (Hits@K of Hu et al. 2020).
    """
    classes = groups[0][0].shape[1]
    columns = len(groups) * classes
    keys, counts = _sorted_together(_counted(groups), transport)
    column = keys.real.astype(np.int64)
    every = np.zeros((transport.size, columns, 2))
    for k in range(2):
        every[transport.rank, :, k] = np.bincount(column, counts[:, k], columns)
    transport.allreduce_sum(every)
    totals = every.sum(axis=0)
    # of the vertices whose score is lower: in the column, on this rank and those before it
    lower = np.cumsum(counts, axis=0) - counts
    first = np.searchsorted(column, np.arange(columns))
    before = every[: transport.rank].sum(axis=0)
    lower = lower - np.append(lower, [[0, 0]], axis=0)[first][column] + before[column]
    others, own = counts.T
    reached = totals[column] - lower
    precision = reached[:, 1] / reached.sum(axis=1)
    terms = [own * (lower[:, 0] + others / 2), own * precision]
    if hits is not None:
        terms.append(own / (1 + reached[:, 0] - others / 2))
        terms += [own * (reached[:, 0] < most) for most in hits]
    sums = np.empty((len(terms), columns))  # bincount of nothing has whole numbers
    sums[:] = [np.bincount(column, each, columns) for each in terms]
    transport.allreduce_sum(sums)
    with np.errstate(divide="ignore", invalid="ignore"):
        sums /= [totals[:, 0] * totals[:, 1], *[totals[:, 1]] * (len(terms) - 1)]
    return list(sums.reshape(len(terms), -1, classes))


def _counted(groups: Groups) -> Counts:
    """The counts of this rank; a key is (column, score) as a complex number, which sorts so."""
    columns = [each for scores, truth in groups for each in zip(scores.T, truth.T, strict=True)]
    every = [_added(score, np.stack([~own, own], axis=1)) for score, own in columns]
    keys = np.empty(sum(len(scores) for scores, _ in every), np.complex128)
    keys.real = np.repeat(np.arange(len(every)), [len(scores) for scores, _ in every])
    keys.imag = np.concatenate([scores for scores, _ in every])
    return keys, np.concatenate([counts for _, counts in every])


def _added(
    keys: npt.NDArray[Any], counts: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """The keys in ascending order, each once, and the counts of equal ones together."""
    known, place = np.unique(keys, return_inverse=True)
    sums = [np.bincount(place, each, len(known)) for each in counts.T]
    return known, np.stack(sums, axis=1).astype(np.int64)


def _sorted_together(mine: Counts, transport: Transport) -> Counts:
    """All ranks' counts, a range of keys on each, in the order of the ranks. Collective.

    Splitters are regular samples of the ranks' samples.
    """
    size = transport.size
    if size == 1:
        return mine
    keys = mine[0]
    sample = keys[np.arange(size) * len(keys) // size] if len(keys) else keys
    samples = [np.frombuffer(each, keys.dtype) for each in transport.gather_bytes(sample.tobytes())]
    every = np.sort(np.concatenate(samples))
    splitters = every[np.arange(1, size) * len(every) // size] if len(every) else np.zeros(size - 1)
    bounds = np.searchsorted(keys, splitters)
    ranges = (swapped(np.split(each, bounds), transport, in_bytes=True) for each in mine)
    return _added(*map(np.concatenate, ranges))
