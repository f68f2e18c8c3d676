"""Exact areas under ROC and precision-recall curves, over the vertices of all ranks.

The ranks sort their counts of vertices per score by a parallel sample sort (Shi and Schaeffer
1992). Equal scores then meet on one rank, so that ties count as in scikit-learn.
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
"""Distinct keys, ascending; and for each key the number of vertices outside and in the class."""


def areas(
    groups: Groups, transport: Transport, hits: Sequence[int] | None = None
) -> list[Float64Array]:
    """Return the area under the ROC curve and the average precision of every class. Collective.

    The average precision is the sum of (R_n - R_{n-1}) P_n over descending thresholds n, with
    recall R_n and precision P_n. `groups` has, for every split, finite scores float64[m, classes],
    and whether each vertex is in the class, bool[m, classes].

    Returns:
        A list of arrays float64[splits, classes]:

        1. The areas; NaN for a class that has all vertices or none.
        2. The average precisions; NaN for a class that has no vertex.
        3. If `hits` is given: the mean reciprocal rank. A rank is 1 plus the number of vertices
            outside the class with a higher score; equal scores count half.
        4. For every K in `hits`: Hits@K of Hu et al. (2020), the share of the class's vertices for
            which fewer than K vertices outside the class have an equal or higher score.
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
    # vertices with a lower score in the same column, on this rank and on lower ranks
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
    """Return the ascending keys, and for each the numbers of own vertices outside and in the class.

    A key is the complex number c + s i, where c is the number of a class in a split, and s a score
    of a vertex for this class: numpy sorts complex numbers by real part first.
    """
    columns = [each for scores, truth in groups for each in zip(scores.T, truth.T, strict=True)]
    every = [_added(score, np.stack([~own, own], axis=1)) for score, own in columns]
    keys = np.empty(sum(len(scores) for scores, _ in every), np.complex128)
    keys.real = np.repeat(np.arange(len(every)), [len(scores) for scores, _ in every])
    keys.imag = np.concatenate([scores for scores, _ in every])
    return keys, np.concatenate([counts for _, counts in every])


def _added(
    keys: npt.NDArray[Any], counts: npt.NDArray[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return the distinct keys, ascending, and the sums of each key's two counts, int64[m, 2]."""
    known, place = np.unique(keys, return_inverse=True)
    sums = [np.bincount(place, each, len(known)) for each in counts.T]
    return known, np.stack(sums, axis=1).astype(np.int64)


def _sorted_together(mine: Counts, transport: Transport) -> Counts:
    """Divide all keys (see `_counted`) among the ranks; return this rank's keys and counts.

    Each rank gets the keys in one range, and higher ranks get higher keys. Samples of all ranks'
    keys give the bounds of the ranges. The counts of equal keys are added up. Collective.
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
