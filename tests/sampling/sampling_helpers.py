"""Small populations, and batches as plain Python sets."""

import numpy as np

from plancc.sampling import Population


def population_of(pattern: np.ndarray, train=None, clusters=None) -> Population:
    """The pattern of a dense array."""
    columns = [np.flatnonzero(row) for row in pattern]
    return Population(
        len(pattern),
        np.cumsum([0, *map(len, columns)], dtype=np.int64),
        np.concatenate(columns).astype(np.int32),
        None if train is None else np.asarray(train, np.bool_),
        None if clusters is None else np.asarray(clusters, np.int32),
    )


def kept_by(batch, block: int = 0) -> set[tuple[int, int]]:
    """The nonzeros of one block."""
    found = batch.block(block)
    rows = np.repeat(found.rows, np.diff(found.ptr))
    return set(zip(rows.tolist(), found.columns.tolist(), strict=True))


def volume_of(batch, owner: list[int]) -> int:
    """Rows moved by one exchange of every block."""
    return sum(
        len({(j, owner[i]) for i, j in kept_by(batch, k) if owner[i] != owner[j]})
        for k in range(batch.num_blocks)
    )
