"""The file that a rival trains from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.graph.normalize import normalize


def write_problem(
    path: Path,
    graph: Graph,
    width: int,
    num_classes: int = 8,
    train_fraction: float = 1.0,
    seed: int = 0,
) -> None:
    """Write a symmetric graph, normalised, with random features and labels, as .npz.

    The file holds ``indptr`` int64[n + 1], ``indices`` int32[nnz], ``values`` float32[nnz]
    (D^-1/2 (A + I) D^-1/2 with D the row sums of A + I, what `plancc.compile` makes by default),
    ``adjacency`` int32[nnz] (A + I), ``features`` float32[n, width], ``labels`` int32[n],
    ``train_mask`` bool[n] and ``num_classes``.

    Parameters:
        path: Ends in ``.npz``.
        graph: A symmetric pattern; self loops are allowed.
        width: Columns of the features.
        train_fraction: Each vertex is a training vertex with this probability.
        seed: Of features, labels and the train mask.

    Raises:
        InputError: If the graph has weights or is not symmetric.
    """
    if graph.values is not None:
        raise InputError(f"{graph.source.name}: has weights; the rivals train on patterns")
    n = graph.num_vertices
    pattern = csr_array((np.ones(graph.num_nonzeros, bool), graph.indices, graph.indptr), (n, n))
    if (pattern != pattern.T).nnz:
        raise InputError(f"{graph.source.name}: is not symmetric; read it with symmetrize")
    matrix, adjacency = normalize(graph), normalize(graph, "none")
    assert matrix.values is not None
    assert adjacency.values is not None
    random = np.random.default_rng(seed)
    np.savez(
        path,
        indptr=matrix.indptr,
        indices=matrix.indices,
        values=matrix.values,
        adjacency=adjacency.values.astype(np.int32),
        features=random.standard_normal((n, width), np.float32),
        labels=random.integers(num_classes, size=n, dtype=np.int32),
        train_mask=random.random(n) < train_fraction,
        num_classes=num_classes,
    )
