"""AnnData: files as anndata 0.10 and later lay them out, made by h5py and the library."""

import warnings
from functools import partial

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from cases import long
from graph_helpers import entries, put_sparse, refused

import plancc
from plancc.errors import InputError, PlanccWarning
from plancc.graph.formats import read_graph
from plancc.graph.vertexsources import read_vertex_data
from plancc.interop.h5ad import leave

X = np.arange(8, dtype=np.float32).reshape(4, 2)
PCA = X[:, ::-1] / 2
GRAPH = sp.csr_array(([0.5, 0.5, 2.0], ([0, 1, 2], [1, 0, 3])), shape=(4, 4))
EDGES = {(0, 1): 0.5, (1, 0): 0.5, (2, 3): 2.0}
CODES = np.array([0, 1, -1, 1], np.int8)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "cells.h5ad"
    with h5py.File(path, "w") as file:
        file["X"] = X
        file["obsm/X_pca"] = PCA
        put_sparse(file, "obsp/connectivities", GRAPH)
        put_sparse(file, "obsp/distances", (GRAPH * 2).tocsc())
        file["obs/leiden/codes"] = CODES
        file["obs/leiden/categories"] = np.array([b"a", b"b"])
        file["obs/leiden"].attrs["encoding-type"] = "categorical"
        file["obs/label"] = np.array([3, 1, 0, 2])
        file["obs/train_mask"] = np.array([True, False, True, False])
        file["obs/names"] = np.array(["a", "b", "c", "d"], dtype=object)
    return path


@pytest.fixture
def here(monkeypatch):
    """What the child process does is done here."""
    monkeypatch.setattr("plancc.interop.h5ad.ask", lambda _, at, __, asked, **___: leave(at, asked))


def test_the_child_process(path):
    plan = plancc.compile(path, "block", 2)
    np.testing.assert_array_equal(plan.vertex_data.features, X[plan.global_id])


@pytest.mark.usefixtures("here")
def test_graph(path):
    graph = read_graph(path)
    assert entries(graph) == EDGES
    assert (graph.num_vertices, graph.directed, graph.source.format) == (4, True, "h5ad")
    other = read_graph(path, keys={"graph": "distances"})
    assert entries(other) == {pair: 2 * value for pair, value in EDGES.items()}
    assert other.source.reading == "keys=distances"
    assert read_graph(path, pattern=True).values is None


@pytest.mark.usefixtures("here")
def test_other_matrices_are_named(path):
    """Unless the graph is chosen."""
    with pytest.warns(PlanccWarning, match="ignored: 'obsp/distances'; the graph is 'obsp/conn"):
        read_graph(path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_graph(path, keys={"graph": "connectivities"})


def test_data(path):
    data = read_vertex_data(path, 4)
    np.testing.assert_array_equal(data.features, X)
    assert data.labels.tolist() == [3, 1, 0, 2]
    assert data.train_mask.tolist() == [True, False, True, False]
    keys = {"features": "X_pca", "labels": "leiden"}
    data = read_vertex_data(path, 4, keys=keys)
    np.testing.assert_array_equal(data.features, PCA)
    assert data.labels.tolist() == CODES.tolist()


@pytest.mark.usefixtures("here")
def test_sparse_features(path, monkeypatch):
    with h5py.File(path, "a") as file:
        del file["X"]
        put_sparse(file, "X", sp.csr_array(X))
    np.testing.assert_array_equal(read_vertex_data(path, 4).features, X)
    monkeypatch.setattr("plancc.memory.available_memory", lambda: X.nbytes - 1)
    words = r"cells\.h5ad: 'X', dense of shape \(4, 2\), takes .* of memory, but this computer has"
    with pytest.raises(InputError, match=words):
        read_vertex_data(path, 4)


def test_the_real_library(tmp_path):
    anndata = pytest.importorskip("anndata")
    pandas = pytest.importorskip("pandas")
    leiden = pandas.Categorical.from_codes(CODES, ["a", "b"])
    obs = pandas.DataFrame({"leiden": leiden, "train_mask": [True, False, True, False]})
    obs.index = obs.index.astype(str)
    made = anndata.AnnData(
        sp.csr_matrix(X), obs, obsm={"X_pca": PCA}, obsp={"connectivities": sp.csr_matrix(GRAPH)}
    )
    for compression in (None, "gzip"):
        made.write_h5ad(tmp_path / "a.h5ad", compression=compression)
        graph = read_graph(tmp_path / "a.h5ad")
        assert entries(graph) == EDGES
        keys = {"features": "X_pca", "labels": "leiden"}
        data = read_vertex_data(tmp_path / "a.h5ad", graph, keys=keys)
        np.testing.assert_array_equal(data.features, PCA)
        assert data.labels.tolist() == CODES.tolist()
        assert data.train_mask.tolist() == [True, False, True, False]
        np.testing.assert_array_equal(read_vertex_data(tmp_path / "a.h5ad", graph).features, X)
    assert entries(plancc.as_graph(made.obsp["connectivities"])) == EDGES


def replaced(name, value, **more):
    def change(file):
        del file[name]
        file.create_dataset(name, data=value, **more)

    return change


def claimed(name, shape):
    """A dataset that claims a shape and holds nothing."""

    def change(file):
        del file[name]
        file.create_dataset(name, shape, dtype="i8", chunks=True)

    return change


def shape_of(value):
    return lambda file: file["obsp/connectivities"].attrs.__setitem__("shape", value)


def linked(name, link):
    """The node elsewhere, behind a link of its name."""

    def change(file):
        file.move(name, "elsewhere")
        file[name] = link(file.filename)

    return change


def outside(name):
    """A dataset whose data are in another file."""

    def change(file):
        del file[name]
        file.create_dataset(name, (4, 2), "f4", external=[(file.filename + ".raw", 0, 32)])

    return change


def virtual(name):
    """A dataset that is put together of others."""

    def change(file):
        file.move(name, "elsewhere")
        layout = h5py.VirtualLayout((4, 2), "f4")
        layout[:] = h5py.VirtualSource(".", "elsewhere", (4, 2))
        file.create_virtual_dataset(name, layout)

    return change


def wide(file):
    """Features that are as wide as their file says, and hold nothing."""
    del file["X"]
    put_sparse(file, "X", sp.csr_array((4, 2**33), dtype=np.float32))


C = "obsp/connectivities"
EXTERNAL = partial(h5py.ExternalLink, path="/elsewhere")
SOFT = lambda _: h5py.SoftLink("/elsewhere")  # noqa: E731


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.__delitem__("obsp"), "'obsp/connectivities' is missing; obsp has no matrix"),
        (lambda f: f.move(C, "obsp/other"), "is missing; obsp has 'distances', 'other'; choose"),
        (lambda f: f.__delitem__(f"{C}/indptr"), "'obsp/connectivities/indptr' is missing"),
        (shape_of((4, 5)), "must be square"),
        (shape_of((2**40, 2**40)), "do not form a matrix of shape"),
        (shape_of("four"), "has no shape"),
        (shape_of((-1, -1)), "has no shape"),
        (replaced(f"{C}/indptr", [0, 1, 2, 1, 3]), "from 0 to 3: entry 3 is '1'"),
        (replaced(f"{C}/indices", [1, 0, 9]), "holds '9', out of range 0..3"),
        (replaced(f"{C}/indices", [1.0, 0, 3]), "must be a list of integers"),
        (replaced(f"{C}/data", [1.0, np.nan, 1.0]), "'nan' is not a finite number"),
        (replaced(f"{C}/data", [1.0]), "and values of shape (1,) do not form a matrix"),
        (claimed(f"{C}/indptr", (2**36,)), "of shape (68719476736,) is cut off"),
        (claimed("X", (4, 2**40)), "is cut off"),
        (wide, "'X', dense of shape (4, 8589934592), is too wide"),
        (linked("X", EXTERNAL), "'X' is a soft or external link"),
        (linked("X", SOFT), "'X' is a soft or external link"),
        (linked("obsp", SOFT), "'obsp' is a soft or external link"),
        (linked(C, EXTERNAL), "'obsp/connectivities' is a soft or external link"),
        (linked(f"{C}/data", SOFT), "'obsp/connectivities/data' is a soft or external link"),
        (linked("obs", EXTERNAL), "'obs' is a soft or external link"),
        (linked("obs/label", SOFT), "'obs/label' is a soft or external link"),
        (outside("X"), "'X' keeps its data outside the file"),
        (virtual("X"), "'X' keeps its data outside the file"),
        (replaced("obs/train_mask", [2, 0, 1, 0]), "'train_mask' must be a list of booleans"),
        (replaced("obs/train_mask", np.array(["a"] * 4, object)), "holds no numbers"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("child", [False, pytest.param(True, marks=long)])
def test_refused(path, change, words, child, request):
    """The sentence of what the child process does, done here; and that of the child."""
    with h5py.File(path, "a") as file:
        change(file)
    if not child:
        request.getfixturevalue("here")
    refused(lambda at: plancc.compile(at, "block", 2), path, words)


@pytest.mark.usefixtures("here")
def test_columns_that_are_no_classes(path):
    with pytest.raises(InputError, match="key 'none' is missing; there are"):
        read_vertex_data(path, 4, keys={"labels": "none"})
    with pytest.raises(InputError, match="'obs/names' holds no numbers"):
        read_vertex_data(path, 4, keys={"labels": "names"})


def test_files_that_are_none(path):
    data = path.read_bytes()
    for wrong in (b"", b"\x89HDF\r\n\x1a\n", data[: len(data) // 2]):
        path.write_bytes(wrong)
        with pytest.raises(InputError, match=r"cells\.h5ad"):
            read_graph(path)
