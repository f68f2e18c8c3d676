"""Whether a pattern is symmetric, in numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from plancc.kernel import njit
from plancc.sampling.counter import mix


@njit(cache=True, nogil=True)
def is_mirrored(indptr: Any, indices: Any) -> bool:
    """Whether (j, i) is a nonzero of a CSR pattern wherever (i, j) is; columns ascend in rows.

    Reading the rows one after the other meets the nonzeros (i, j) of column j for ascending i: each
    time, (j, i) is the next nonzero of row j.
    """
    following = indptr[:-1].copy()
    for i in range(len(following)):
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            if following[j] == indptr[j + 1] or indices[following[j]] != i:
                return False
            following[j] += 1
    return True


@njit(cache=True, nogil=True)
def mirror_sum(base: int, indptr: Any, indices: Any) -> Any:
    """Hashes (splitmix64) of entries above the diagonal less those of the mirrored ones below it.

    ``base`` is the first of the rows. Over all rows of a symmetric pattern, which several ranks may
    have, the sums add up to 0; over those of another to some number of 64 bits.
    """
    total = np.uint64(0)
    for i in range(len(indptr) - 1):
        for k in range(indptr[i], indptr[i + 1]):
            u, v = base + i, np.int64(indices[k])
            low, high = (u, v) if u < v else (v, u)
            # one hash for both orders of the pair: low end above 32 bits, high end below
            x = mix(np.uint64(low) << np.uint64(32) | np.uint64(high))
            if u < v:
                total += x
            elif u > v:
                total -= x
    return total
