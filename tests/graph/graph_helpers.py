"""Plain references for the readers: dictionaries and loops, sharing no code with plancc."""

from pathlib import Path

import numpy as np
import pytest

from plancc.errors import InputError

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


def refused(read, path, *words, names=None):
    """`read` refuses a path in one line that names it (or what it has at `names`), and why."""
    with pytest.raises(InputError) as caught:
        read(path)
    message = str(caught.value)
    for each in (str(names or path), *words):
        assert each in message
    assert "\n" not in message


def shared(name):
    """A file of the shared data; the test is skipped where there is none."""
    if not (SHARED / name).exists():
        pytest.skip("no shared data")
    return SHARED / name


def write_parquet(path, columns, **how):
    """Columns by name as a file of Parquet; the test is skipped where there is no pyarrow."""
    arrow = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(arrow.table(columns), path, **how)


def put_sparse(file, name, matrix):
    """A compressed matrix in an open .h5ad, as AnnData lays it out."""
    group = file.create_group(name)
    group.attrs["encoding-type"] = f"{matrix.format}_matrix"
    group.attrs["shape"] = matrix.shape
    for key in ("data", "indices", "indptr"):
        group[key] = getattr(matrix, key)


def dense_entries(array):
    """The entries that `entries` finds for the nonzeros of a dense array."""
    return {(i, j): float(array[i, j]) for i, j in zip(*array.nonzero(), strict=True)}


def entries(graph):
    """{(i, j): value} of a Graph, checking on the way that it is canonical."""
    assert graph.indptr.dtype == np.int64
    assert graph.indices.dtype == np.int32
    assert graph.indptr[0] == 0
    assert graph.indptr[-1] == len(graph.indices)
    if graph.values is not None:
        assert graph.values.dtype in (np.float32, np.float64)
        assert graph.values.shape == graph.indices.shape
        assert (graph.values != 0).all()
    found = {}
    for i in range(graph.num_vertices):
        columns = graph.indices[graph.indptr[i] : graph.indptr[i + 1]].tolist()
        assert columns == sorted(set(columns))
        for k, j in enumerate(columns):
            assert 0 <= j < graph.num_vertices
            found[i, j] = 1.0 if graph.values is None else graph.values[graph.indptr[i] + k].item()
    return found


def merged(triples, *, valued):
    """Naive assembly: duplicates summed (valued) or united, zeros dropped."""
    found = {}
    for i, j, value in triples:
        found[i, j] = found.get((i, j), 0.0) + value if valued else 1.0
    return {key: value for key, value in found.items() if value != 0}


def symmetrized(triples):
    triples = list(triples)
    return triples + [(j, i, value) for i, j, value in triples if i != j]


def same(graph, other):
    assert entries(graph) == entries(other)
    assert graph.num_vertices == other.num_vertices
    assert (graph.values is None) == (other.values is None)
    assert graph.directed == other.directed
