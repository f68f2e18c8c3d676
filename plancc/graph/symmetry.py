"""Whether a pattern is symmetric, in numba. Imported at first use only."""

from __future__ import annotations

from typing import Any

from plancc.jit import njit


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
