"""Features, labels and masks."""

import csv
import gzip
import re
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from cases import turns
from graph_helpers import refused, write_parquet

import plancc
from plancc.errors import InputError, PlanccWarning
from plancc.graph.vertexdata import VertexData, save_vertex_data
from plancc.graph.vertexsources import read_vertex_data, vertex_data_of


def test_round_trip(tmp_path):
    rng = np.random.default_rng(0)
    data = VertexData(
        rng.random((5, 3), dtype=np.float32),
        np.array([0, 1, -1, 2, 0], np.int32),
        train_mask=np.array([1, 0, 0, 0, 1], np.bool_),
        clusters=np.array([3, 0, 0, 1, 3], np.int32),
    )
    save_vertex_data(data, tmp_path / "a.npz")
    found = read_vertex_data(tmp_path / "a.npz", 5)
    for name, array in vars(data).items():
        assert getattr(getattr(found, name), "dtype", None) == getattr(array, "dtype", None)
        np.testing.assert_array_equal(getattr(found, name), array)


@turns(key=["targets", "labels"], dtype=[np.bool_, np.uint8, np.int64, np.float32])
def test_several_classes_per_vertex(tmp_path, key, dtype):
    targets = np.array([[0, 1, 1], [0, 0, 0]], dtype)
    np.savez(tmp_path / "a.npz", **{key: targets})
    found = read_vertex_data(tmp_path / "a.npz", 2)
    assert found.labels is None
    assert found.targets.dtype == np.bool_
    np.testing.assert_array_equal(found.targets, targets)
    save_vertex_data(found, tmp_path / "b.npz")
    np.testing.assert_array_equal(read_vertex_data(tmp_path / "b.npz", 2).targets, targets)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int8])
def test_sparse_features(tmp_path, dtype):
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((6, 4)) < 0.5, 9 * rng.random((6, 4)), 0).astype(dtype)
    m = sp.csr_array(dense.astype(np.float32))
    sparse = {"indptr": m.indptr, "indices": m.indices, "shape": m.shape}
    sparse["data"] = m.data.astype(dtype)
    named = {f"feat_{name}": array for name, array in sparse.items()}
    np.savez(tmp_path / "a.npz", labels=np.arange(6, dtype=np.uint8), **named)
    found = read_vertex_data(tmp_path / "a.npz", 6)
    assert np.array_equal(found.features, dense)
    assert found.labels.tolist() == list(range(6))


def test_sparse_features_of_any_claimed_width(tmp_path, monkeypatch):
    one = {"feat_indptr": [0, 1, 1], "feat_indices": [0], "feat_data": [1.0]}
    for width, words in ((2**62, f"{2**62}"), (2**33, "is too wide"), (10**8, "allow_large")):
        np.savez(tmp_path / "a.npz", **one, feat_shape=[2, width])
        with pytest.raises(InputError, match=rf"a\.npz: .*{words}"):
            read_vertex_data(tmp_path / "a.npz", 2)
    np.savez(tmp_path / "a.npz", **one, feat_shape=[2, 2**20])
    monkeypatch.setattr("plancc.memory.available_memory", lambda: 2**23 - 1)
    with pytest.raises(InputError, match=r"of shape \(2, 1048576\), takes 8 MiB of memory"):
        read_vertex_data(tmp_path / "a.npz", 2)
    monkeypatch.setattr("plancc.memory.available_memory", lambda: 2**23)
    assert read_vertex_data(tmp_path / "a.npz", 2).features.sum() == 1


def test_nothing_to_write(tmp_path):
    with pytest.raises(InputError, match=r"a\.npz"):
        save_vertex_data(VertexData(), tmp_path / "a.npz")


SPARSE = {"feat_indptr": [0, 1, 1], "feat_indices": [0], "feat_data": [1.0], "feat_shape": [2, 1]}
BAD = {
    "nan": (
        {"features": [[0, 1], [2, np.nan]]},
        "'features' holds 'nan' in row 1, column 1 "
        "(counted from 0), not a finite 32-bit number: replace it, for example with torch.nan_",
    ),
    "inf": ({"features": np.full((2, 2), 1e300)}, "'features' holds '1e+300'"),
    "labels beside": (
        {"features": [[1], [2]], "y": [1]},
        "key 'y' has '1' rows, but the graph has 2 "
        "vertices, as many as 'features' has rows; give every vertex one label",
    ),
    "mask type": ({"train_mask": [0.0, 1]}, "'train_mask' must be a list of booleans"),
    "mask of two": ({"val_mask": [[0], [2]]}, "a list of vertex numbers is called 'val_idx'"),
    "mask count": ({"test_mask": [True]}, "'test_mask' has '1' rows"),
    "cluster count": ({"clusters": [1]}, "'clusters' has '1' rows"),
    "cluster value": ({"clusters": [0, -1]}, "'clusters' holds '-1'"),
    "cluster type": ({"clusters": [0.0, 1.0]}, "'clusters' must be a list of integers"),
    "cluster size": ({"clusters": [0, 2**31]}, f"'clusters' holds '{2**31}'"),
    "cluster bound": ({"clusters": [0, 1024]}, "'clusters' holds '1024' in row 1"),
    "target value": ({"targets": [[0, 2], [1, 0]]}, "'targets' holds '2' in row 0, column 1"),
    "target shape": ({"targets": [0, 1]}, "'targets' must be a matrix of 0 and 1"),
    "target count": ({"targets": [[0, 1]]}, "'targets' has '1' rows"),
    "both": ({"targets": [[0], [1]], "labels": [0, 1]}, "'labels' and 'targets' are both given"),
    "sparse rows": (
        SPARSE | {"feat_shape": [3, 1]},
        "'feat_shape' has '3' rows, but the graph has 2 vertices; give every vertex one row",
    ),
    "sparse column": (SPARSE | {"feat_indices": [4]}, "'feat_indices' holds '4'"),
    "sparse pointer": (SPARSE | {"feat_indptr": [0, 2, 1]}, "'feat_indptr' does not ascend"),
    "sparse data": (SPARSE | {"feat_data": [1.0, 2.0]}, "'feat_data'"),
    "sparse nan": (SPARSE | {"feat_data": [np.nan]}, "'feat_data' holds 'nan'"),
    "sparse missing": ({k: v for k, v in SPARSE.items() if k != "feat_data"}, "'feat_data'"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_data(tmp_path, case):
    arrays, words = BAD[case]
    np.savez(tmp_path / "bad.npz", **arrays)
    refused(lambda at: read_vertex_data(at, 2), tmp_path / "bad.npz", words)


N = 5
X = np.arange(10, dtype=np.float64).reshape(5, 2)
TRAIN = np.array([1, 0, 0, 1, 0], np.bool_)


def check(found, *, features=True, labels=True):
    assert (found.features is None) != features
    assert (found.labels is None) != labels
    if features:
        np.testing.assert_array_equal(found.features, X)
    if labels:
        assert found.labels.tolist() == [0, 1, 2, -1, 0]


Y = [0, 1, 2, -1, 0]


@turns(names=[("features", "labels"), ("x", "y"), ("feat", "label")], shape=[(5,), (5, 1)])
def test_names_and_shapes(tmp_path, names, shape):
    np.savez(tmp_path / "a.npz", **{names[0]: X, names[1]: np.reshape(Y, shape)})
    check(read_vertex_data(tmp_path / "a.npz", N))


def test_own_names(tmp_path):
    np.savez(tmp_path / "a.npz", emb=X, y=np.zeros(3), kind=Y)
    keys = {"features": "emb", "labels": "kind"}
    check(read_vertex_data(tmp_path / "a.npz", N, keys=keys))
    with pytest.raises(InputError, match="key 'none' is missing; there are 'emb', 'y', 'kind'"):
        read_vertex_data(tmp_path / "a.npz", N, keys={"labels": "none"})
    with pytest.raises(InputError, match="unknown name of vertex data 'colour'"):
        read_vertex_data(tmp_path / "a.npz", N, keys={"colour": "none"})


def test_own_names_in_several_files(tmp_path):
    """Every name is looked up in the file that has it; its key is taken from nowhere else."""
    np.savez(tmp_path / "a.npz", emb=X, features=np.zeros((N, 9)))
    np.savez(tmp_path / "b.npz", kind=Y, x=np.zeros((N, 9)), train_idx=np.array([0, 3]))
    files, keys = [tmp_path / "a.npz", tmp_path / "b.npz"], {"features": "emb", "labels": "kind"}
    for order in (files, files[::-1]):
        found = read_vertex_data(order, N, keys=keys)
        check(found)
        assert np.array_equal(found.train_mask, TRAIN)
    with pytest.raises(InputError, match=r"key 'none' is missing in all of .*a\.npz, .*b\.npz"):
        read_vertex_data(files, N, keys=keys | {"clusters": "none"})
    with pytest.raises(InputError, match=r"features are in .*a\.npz, too"):
        read_vertex_data([files[0], files[1], files[0]], N, keys=keys)


def test_names_and_split_of_the_library(tmp_path):
    """`compile` takes names and split as `plancc compile` does, and says them as its own."""
    path = tmp_path / "both.npz"
    masks = np.stack([~TRAIN, TRAIN], axis=1)
    np.savez(path, **ARCHIVE, emb=X, kind=Y, train_mask=masks)
    keys = {"features": "emb", "labels": "kind"}
    plan = plancc.compile(path, "block", 2, split="1", keys=keys)
    np.testing.assert_array_equal(plan.vertex_data.features, X[plan.global_id])
    assert np.array_equal(plan.vertex_data.train_mask, TRAIN[plan.global_id])
    for data in (path, [path], dict(np.load(path))):
        again = plancc.compile(path, "block", 2, split="1", keys=keys, data=data)
        assert np.array_equal(again.vertex_data.labels, plan.vertex_data.labels)
    words = r"choose one by `split` 0\.\.1 \(`data=False` leaves the vertex data out\)"
    with pytest.raises(InputError, match=words):
        plancc.compile(path, "block", 2)
    (tmp_path / "g.txt").write_text("0 1\n1 2\n2 3\n3 4\n")
    plan = plancc.compile(tmp_path / "g.txt", "block", 2, keys=keys, data=path, split="0")
    np.testing.assert_array_equal(plan.vertex_data.features, X[plan.global_id])
    matrix = sp.eye_array(N, format="csr")
    for source, more, words in [
        (tmp_path / "g.txt", {"keys": keys}, "format 'edgelist' holds no vertex data"),
        (matrix, {"keys": keys}, "the graph has no vertex data"),
        (matrix, {"split": "0"}, "the graph has no vertex data"),
        (path, {"split": "0", "data": False}, "`data` has no names"),
        (path, {"keys": keys, "data": VertexData(labels=np.array(Y))}, "`data` has no names"),
        (matrix, {"keys": {"graph": "a"}}, "needs a graph that is read from a file"),
        (tmp_path / "g.txt", {"keys": {"graph": "a"}}, "`keys` is only for pyg, h5ad"),
        (path, {"keys": {"graph": "a"}}, "`keys` is only for pyg, h5ad"),
    ]:
        with pytest.raises(InputError, match=words):
            plancc.compile(source, "block", 2, **more)


def test_lists_of_vertices_are_masks():
    found = vertex_data_of({"train_idx": np.array([3, 0]), "valid_idx": np.array([[1]])}, N)
    assert np.array_equal(found.train_mask, TRAIN)
    assert found.val_mask.tolist() == [False, True, False, False, False]
    with pytest.raises(InputError, match=r"key 'test_idx' holds vertex '5', out of range 0\.\.4"):
        vertex_data_of({"test_idx": np.array([1, 5])}, N)
    with pytest.raises(InputError, match="'train_idx' must be a list of vertex numbers"):
        vertex_data_of({"train_idx": np.array([1.0])}, N)


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.int32])
def test_masks_of_0_and_1(dtype):
    assert np.array_equal(vertex_data_of({"train_mask": TRAIN.astype(dtype)}, N).train_mask, TRAIN)


def test_masks_of_several_splits():
    masks = np.stack([~TRAIN, TRAIN], axis=1)
    found = vertex_data_of({"train_mask": masks.astype(np.uint8)}, N, split="1")
    assert np.array_equal(found.train_mask, TRAIN)
    for split in (None, "2", "random"):
        with pytest.raises(InputError, match=r"has 2 splits; choose one by `split` 0\.\.1"):
            vertex_data_of({"train_mask": masks}, N, split=split)


def test_array_files(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", np.array(Y))
    np.savez(tmp_path / "z.npz", train_mask=TRAIN)
    check(read_vertex_data(tmp_path / "x.npy", N), labels=False)
    files = [tmp_path / name for name in ("x.npy", "y.npy", "z.npz")]
    found = read_vertex_data(files, N)
    check(found)
    assert np.array_equal(found.train_mask, TRAIN)
    with pytest.raises(InputError, match=r"x\.npy: features are in .*x\.npy, too"):
        read_vertex_data([tmp_path / "x.npy"] * 2, N)
    np.save(tmp_path / "o.npy", np.array([None] * N), allow_pickle=True)
    (tmp_path / "t.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-9])
    head = (tmp_path / "x.npy").read_bytes().replace(b"(5, 2), }        ", b"(99999999, 2), } ")
    (tmp_path / "h.npy").write_bytes(head)
    for name in ("o.npy", "t.npy", "h.npy"):
        with pytest.raises(InputError, match=f"{name}: is not an .npy array"):
            read_vertex_data(tmp_path / name, N)


def test_tables(tmp_path):
    (tmp_path / "y.csv").write_text("0\n1\n2\nnan\n0\n")
    check(read_vertex_data(tmp_path / "y.csv", N), features=False)
    with gzip.open(tmp_path / "x.csv.gz", "wt") as stream:
        stream.writelines(f"{a},{b}\n" for a, b in X)
    check(read_vertex_data(tmp_path / "x.csv.gz", N), labels=False)
    (tmp_path / "t.tsv").write_text(
        "id\tlabel\ttrain_mask\n3\tnan\t1\n4\t0\t0\n0\t0\t1\n1\t1\t0\n2\t2\t0\n"
    )
    found = read_vertex_data(tmp_path / "t.tsv", N)
    check(found, features=False)
    assert np.array_equal(found.train_mask, TRAIN)


def test_a_table_as_wide_as_it_is(tmp_path):
    """A first line of any length: without names its numbers are the first row."""
    wide = np.arange(30000)
    (tmp_path / "x.csv").write_text(
        "\n".join([",".join(map(str, wide + k)) for k in (0, 1)]) + "\n"
    )
    found = read_vertex_data(tmp_path / "x.csv", 2)
    np.testing.assert_array_equal(found.features, [wide, wide + 1])
    names = [*(f"column_{k}" for k in wide[:6000]), "label"]
    words = [",".join(names), ",".join(["0"] * 6000 + ["3"])]
    (tmp_path / "y.csv").write_text("\n".join(words) + "\n")
    assert read_vertex_data(tmp_path / "y.csv", 1).labels.tolist() == [3]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("label\n0.5\n", "column 'label' holds '0.5', not the number of a class"),
        ("0.5\n", "the column holds '0.5'"),
        ("1,2\n3\n", "not a table of numbers"),
        ("\n1,2\n\n3,x\n", ", line 4: not a table of numbers: 'x' in column 2"),
        ("id,label\n0,1\n1,x\n", ", line 3: not a table of numbers: 'x' in column 'label'"),
        ("label\n0,1\n", "1 names for 2 columns"),
        ("label,train_mask\n1,2\n", "column 'train_mask' is a mask"),
        ("label,label\n1,2\n", "2 names for 2 columns; name each once"),
    ],
)
def test_bad_tables(tmp_path, text, words):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=f"{re.escape(str(tmp_path))}/a.csv.*{words}"):
        read_vertex_data(tmp_path / "a.csv", 1)


GAPS = "3 10\n10 20\n20 3\n"
"""Edges of the vertices 3, 10 and 20."""


@pytest.fixture
def gaps(tmp_path):
    (tmp_path / "g.txt").write_text(GAPS)
    with pytest.warns(PlanccWarning, match="3 vertices occur"):
        return plancc.read_graph(tmp_path / "g.txt")


def test_rows_are_joined_by_id(tmp_path, gaps):
    """Rows of ids in any order; lists then are of ids too."""
    x, y = np.array([[20.0], [3], [10]]), np.array([2, 0, 1])
    held = {"ids": np.array([20, 3, 10]), "x": x, "y": y, "train_idx": np.array([10, 20])}
    np.savez(tmp_path / "a.npz", **held)
    (tmp_path / "b.csv").write_text("label,id,train_mask\n2,20,1\n0,3,0\n1,10,1\n")
    for source in (tmp_path / "a.npz", tmp_path / "b.csv"):
        found = read_vertex_data(source, gaps)
        assert found.labels.tolist() == [0, 1, 2]
        assert found.train_mask.tolist() == [False, True, True]
    found = vertex_data_of(held, gaps)
    assert found.features.tolist() == [[3], [10], [20]]
    # without ids in the graph they are vertex numbers
    assert vertex_data_of({"id": [2, 0, 1], "y": y}, 3).labels.tolist() == [0, 1, 2]
    m = sp.csr_array(x)
    np.savez(tmp_path / "s.npz", ids=held["ids"], feat_indptr=m.indptr, feat_indices=m.indices,
             feat_data=m.data, feat_shape=m.shape)  # fmt: skip
    assert read_vertex_data(tmp_path / "s.npz", gaps).features.tolist() == [[3], [10], [20]]


def test_ids_beside_a_graph_join_nothing(tmp_path):
    np.savez(tmp_path / "both.npz", **ARCHIVE, labels=Y, ids=[9, 8, 7, 6, 5])
    with pytest.warns(PlanccWarning, match="ignored: 'ids'"):
        plan = plancc.compile(tmp_path / "both.npz", "block", 1)
    assert plan.vertex_data.labels.tolist() == Y


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        ([3, 10, 21], "vertex '20' of the graph has no row (1 of 3 vertices have none)"),
        ([3, 10, 10], "holds '10' twice"),
        ([3.0, 10, 20], "must be a list of vertex ids"),
        ([3, 10], "key 'y' of shape (3,) must have a row for each of the 2 ids of 'ids'"),
    ],
)
def test_bad_ids(gaps, ids, words):
    with pytest.raises(InputError) as caught:
        vertex_data_of({"ids": np.array(ids), "y": np.arange(3)}, gaps)
    assert words in str(caught.value)


def test_a_list_of_ids_that_no_row_has(gaps):
    held = {"ids": np.array([3, 10, 20]), "train_idx": np.array([3, 4])}
    with pytest.raises(InputError, match="'train_idx' holds the id '4', which no row has"):
        vertex_data_of(held, gaps)


def test_rows_of_ids_that_do_not_occur(gaps):
    held = {"ids": np.array([50, 20, 3, 10]), "y": np.array([9, 2, 0, 1])}
    with pytest.warns(PlanccWarning, match="1 of 4 rows are left out") as caught:
        assert vertex_data_of(held, gaps).labels.tolist() == [0, 1, 2]
    assert "`num_vertices`" not in str(caught[0].message)  # 0..50 would have no rows
    held = {"ids": np.arange(30), "y": np.arange(30)}
    with pytest.warns(PlanccWarning, match="27 of 30 rows.*`num_vertices` 30, or `keep_ids`"):
        assert vertex_data_of(held, gaps).labels.tolist() == [3, 10, 20]


def test_what_is_not_taken_is_said(tmp_path):
    np.savez(tmp_path / "a.npz", myfeat=X, y=Y, version=[1])
    with pytest.warns(PlanccWarning, match=r"ignored: 'myfeat'.*no features \(names") as caught:
        read_vertex_data(tmp_path / "a.npz", N)
    assert len(caught) == 1
    (tmp_path / "a.csv").write_text("label,a0,b,c,d,e,f\n" + "0,1,2,3,4,5,6\n" * N)
    with pytest.warns(PlanccWarning, match="ignored: 'a0', 'b', 'c', 'd', 'e' and 1 more;"):
        read_vertex_data(tmp_path / "a.csv", N)
    with pytest.warns(PlanccWarning, match="`data`: ignored: 'z'$"):
        vertex_data_of({"x": X, "z": X, "k": X.T, "num_nodes": N}, N, "`data`: ")
    np.savez(tmp_path / "own.npz", **ARCHIVE, myfeat=X)
    with pytest.warns(PlanccWarning, match=r"own\.npz: ignored: 'myfeat'"):
        plancc.compile(tmp_path / "own.npz", "block", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PlanccWarning)
        vertex_data_of({"x": X, "y": Y, "edge_index": 1, "k": X.T}, N)


WITH_ALL = {"id": [1, 0, 2], "label": [1, 0, -1], "name": ["a, b", "c", "d"],
            "train_mask": [True, False, True], "f1": [1.5, 0, 2], "f0": [4.0, 3, 5]}  # fmt: skip


def check_all(path):
    with pytest.warns(PlanccWarning, match="ignored: 'name'$"):
        found = read_vertex_data(path, 3)
    assert found.features.tolist() == [[3, 0], [4, 1.5], [5, 2]]
    assert found.labels.tolist() == [0, 1, -1]
    assert found.train_mask.tolist() == [False, True, True]
    with pytest.warns(PlanccWarning, match="ignored: 'label', 'name', 'f0'$"):
        found = read_vertex_data(path, 3, keys={"features": "f1", "labels": "id"})
    assert found.features.tolist() == [[1.5], [0], [2]]
    assert found.labels.tolist() == [1, 0, 2]


def test_a_table_as_pandas_writes_it(tmp_path):
    names = [*WITH_ALL]
    rows = zip(*WITH_ALL.values(), strict=True)
    with open(tmp_path / "a.csv", "w", newline="") as stream:
        csv.writer(stream).writerows([names, *rows])
    check_all(tmp_path / "a.csv")


def test_a_table_in_parquet(tmp_path):
    write_parquet(tmp_path / "a.parquet", WITH_ALL)
    check_all(tmp_path / "a.parquet")
    lists = {"x": [[1, 2], [3, 4], [5, 6]], "y": [0, None, 1]}
    write_parquet(tmp_path / "l.parquet", lists)
    found = read_vertex_data(tmp_path / "l.parquet", 3)
    assert found.features.tolist() == lists["x"]
    assert found.labels.tolist() == [0, -1, 1]
    write_parquet(tmp_path / "n.parquet", {"v": [0, None, 2], "y": [0, 1, 0]})
    with pytest.warns(PlanccWarning, match="ignored: 'v'"):
        assert read_vertex_data(tmp_path / "n.parquet", 3).labels.tolist() == [0, 1, 0]
    for wrong, words in [
        ({"x": [[1], [2, 3]]}, "column 'x' holds lists of different lengths"),
        ({"y": ["a", "b"]}, "column 'y' holds 'string', not numbers"),
        ({"train_mask": [True, None]}, "column 'train_mask': 1 values are null"),
        ({"train_mask": [2, 1]}, "column 'train_mask' is a mask"),
        ({"z": [1, 2]}, "no vertex data"),
        ({"x": np.zeros(0)}, "key 'x' has '0' rows, but the graph has 2 vertices"),
    ]:
        write_parquet(tmp_path / "w.parquet", wrong)
        with pytest.raises(InputError, match=words):
            read_vertex_data(tmp_path / "w.parquet", 2)
    (tmp_path / "d.parquet").write_bytes((tmp_path / "l.parquet").read_bytes()[:-9])
    with pytest.raises(InputError, match=r"d\.parquet: cannot be read as Parquet"):
        read_vertex_data(tmp_path / "d.parquet", 2)


def test_a_line_of_numbers_may_be_names(tmp_path):
    (tmp_path / "x.csv").write_text("0,1\n5,6\n7,8\n")
    assert read_vertex_data(tmp_path / "x.csv", 3).features.tolist() == [[0, 1], [5, 6], [7, 8]]
    with pytest.warns(PlanccWarning, match=r"the first line, 0,1\.\.\., is read as names"):
        assert read_vertex_data(tmp_path / "x.csv", 2).features.tolist() == [[5, 6], [7, 8]]


def test_formats_without_data(tmp_path):
    (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n1 1 0\n")
    with pytest.raises(InputError, match=r"format 'mtx' holds no vertex data; give \.npz, \.npy"):
        read_vertex_data(tmp_path / "a.mtx", 1)


ARCHIVE = {"indptr": [0, 1, 2, 3, 4, 5], "indices": [1, 2, 3, 4, 0], "num_nodes": [5]}


def test_a_source_with_both(tmp_path):
    """An archive with graph and data: compile takes both, neither, or others."""
    path = tmp_path / "both.npz"
    np.savez(path, **ARCHIVE, features=X, labels=Y)
    plan = plancc.compile(path, "block", 2)
    np.testing.assert_array_equal(plan.vertex_data.features, X[plan.global_id])
    assert plan.vertex_data.sizes() == {"features": 2, "classes": 3}
    assert plancc.compile(path, "block", 2, data=False).vertex_data == VertexData()
    plan = plancc.compile(path, "block", 2, data={"y": np.arange(5)})
    assert np.array_equal(plan.vertex_data.labels, plan.global_id)
    assert plan.vertex_data.features is None
    np.savez(path, **ARCHIVE, x=np.arange(5.0))
    with pytest.raises(InputError, match=r"'x' must be a matrix.*`data=False` leaves"):
        plancc.compile(path, "block", 2)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"z": [1]}, "`data`: there is no vertex data: none of the keys 'features, labels"),
        ({"x": np.ones((4, 2))}, "`data`: key 'x' has '4' rows, but the graph has 5 vertices"),
        (np.ones((5, 2)), "`data` is 'ndarray'; pass a path, a VertexData, or a dict"),
        ({"x": [[1], [2, 3]]}, "key 'x' cannot be read as an array"),
    ],
)
def test_bad_dicts(tmp_path, data, words):
    np.savez(tmp_path / "g.npz", **ARCHIVE)
    with pytest.raises(InputError, match=words):
        plancc.compile(tmp_path / "g.npz", "block", 2, data=data)


@pytest.mark.parametrize("text", ["1.5,2\n3,4\n", "f0,f1\n1.5,2\n3,4\n"])
def test_a_byte_order_mark_before_a_table(tmp_path, text):
    (tmp_path / "x.csv").write_text(text, encoding="utf-8-sig")
    assert read_vertex_data(tmp_path / "x.csv", 2).features.tolist() == [[1.5, 2], [3, 4]]


# -- real targets ----------------------------------------------------------------------------------

REAL = np.array([[0.5, 1.25], [np.nan, np.nan], [3.0, -2.5], [4.0, 1e-3]])


def held(**arrays):
    return vertex_data_of(arrays, 4, "x: ").targets


@pytest.mark.parametrize("name", ["y", "label", "targets"])
def test_real_targets_under_all_names(name):
    found = held(**{name: REAL})
    assert (found.dtype, found.shape) == (np.float32, (4, 2))
    np.testing.assert_array_equal(found, REAL.astype(np.float32))
    for column in (REAL[:, 0], REAL[:, :1]):
        np.testing.assert_array_equal(held(**{name: column}), REAL[:, :1].astype(np.float32))
    assert vertex_data_of({name: REAL}, 4).sizes() == {"real_targets": 2, "without_targets": 1}


def test_whole_numbers_are_targets_under_that_name_alone():
    whole = np.array([3.0, 1.0, 4.0, 1.0])
    assert held(targets=whole).tolist() == [[3], [1], [4], [1]]
    with pytest.raises(
        InputError, match=r"must be a list of integers.*real numbers are called tar"
    ):
        held(y=whole)
    assert held(targets=np.eye(4)).dtype == np.bool_


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.where(REAL == 3, np.nan, REAL), "'nan' in row 2, column 0 .*, not a finite"),
        (np.where(REAL == 3, np.inf, REAL), "'inf' in row 2, column 0"),
        (np.where(REAL == 3, 1e39, REAL), "'1e.39' in row 2, column 0"),
        (np.where(np.isnan(REAL), np.nan, 1.0), "'nan' in row 1, column 0.*; targets of 0 and 1"),
        (np.array([[0, 1], [1, 2], [0, 0], [1, 1]]), "'2' in row 1, column 1.*of a floating type"),
    ],
)
def test_wrong_targets(array, words):
    with pytest.raises(InputError, match=f"x: key 'y' holds {words}"):
        held(y=array)


def test_real_targets_of_files(tmp_path):
    """Columns by name or number, of any order; a list of .npy."""
    (tmp_path / "one.csv").write_text("id,targets\n3,4\n1,nan\n0,0.5\n2,3\n")
    (tmp_path / "two.csv").write_text(
        "target1,x0,target0\n1.25,1,0.5\n,1,nan\n".replace("\n,", "\nnan,")
    )
    np.save(tmp_path / "list.npy", REAL[:, 0])
    for name in ("one.csv", "list.npy"):
        found = read_vertex_data(tmp_path / name, 4).targets
        np.testing.assert_array_equal(found, REAL[:, :1].astype(np.float32))
    data = read_vertex_data(tmp_path / "two.csv", 2)
    np.testing.assert_array_equal(data.targets, REAL[:2].astype(np.float32))
    assert data.features.tolist() == [[1], [1]]
    (tmp_path / "price.csv").write_text("price\n4\n1\n1\n7\n")
    found = read_vertex_data(tmp_path / "price.csv", 4, keys={"targets": "price"}).targets
    assert found.tolist() == [[4], [1], [1], [7]]
    (tmp_path / "y.csv").write_text("y\n1\n0.5\n1\n2\n")
    with pytest.raises(InputError, match=r"'0\.5', not the number of a class"):
        read_vertex_data(tmp_path / "y.csv", 4)
