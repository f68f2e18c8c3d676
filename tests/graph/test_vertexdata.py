"""Features, labels and masks."""

import numpy as np
import pytest
import scipy.sparse as sp
from graph_helpers import SHARED

from plancc.errors import InputError
from plancc.graph.vertexdata import VertexData, read_vertex_data, save_vertex_data


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
    assert np.array_equal(found.features, data.features)
    assert np.array_equal(found.labels, data.labels)
    assert np.array_equal(found.train_mask, data.train_mask)
    assert np.array_equal(found.clusters, data.clusters)
    assert found.clusters.dtype == np.int32
    assert found.features.dtype == np.float32
    assert found.labels.dtype == np.int32
    assert found.val_mask is None
    assert found.test_mask is None


@pytest.mark.parametrize("key", ["targets", "labels"])
@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int64, np.float32])
def test_several_classes_per_vertex(tmp_path, key, dtype):
    targets = np.array([[0, 1, 1], [0, 0, 0]], dtype)
    np.savez(tmp_path / "a.npz", **{key: targets})
    found = read_vertex_data(tmp_path / "a.npz", 2)
    assert found.labels is None
    assert found.targets.dtype == np.bool_
    np.testing.assert_array_equal(found.targets, targets)
    save_vertex_data(found, tmp_path / "b.npz")
    np.testing.assert_array_equal(read_vertex_data(tmp_path / "b.npz", 2).targets, targets)


def test_sparse_features(tmp_path):
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((6, 4)) < 0.5, rng.random((6, 4)), 0).astype(np.float32)
    m = sp.csr_array(dense)
    np.savez(tmp_path / "a.npz", feat_indptr=m.indptr, feat_indices=m.indices, feat_data=m.data,
             feat_shape=m.shape, labels=np.arange(6, dtype=np.uint8))  # fmt: skip
    found = read_vertex_data(tmp_path / "a.npz", 6)
    assert np.array_equal(found.features, dense)
    assert found.labels.tolist() == list(range(6))


def test_nothing_to_write(tmp_path):
    with pytest.raises(InputError, match=r"a\.npz"):
        save_vertex_data(VertexData(), tmp_path / "a.npz")


SPARSE = {"feat_indptr": [0, 1, 1], "feat_indices": [0], "feat_data": [1.0], "feat_shape": [2, 1]}
BAD = {
    "nothing": ({"x": [1]}, "no vertex data"),
    "feature rows": ({"features": np.ones((3, 2))}, "'features' has '3' rows"),
    "feature shape": ({"features": np.ones(2)}, "'features' must be a matrix"),
    "nan": ({"features": np.full((2, 2), np.nan)}, "'features' holds 'nan'"),
    "inf": ({"features": np.full((2, 2), 1e300)}, "'features' holds '1e+300'"),
    "text": ({"features": np.array([["a"], ["b"]])}, "'features' holds no numbers"),
    "objects": ({"features": np.array([[None], [None]])}, "'features' cannot be read"),
    "label count": ({"labels": [1, 2, 3]}, "'labels' has '3' rows"),
    "label value": ({"labels": [1, -2]}, "'labels' holds '-2'"),
    "label type": ({"labels": [1.0, 2.0]}, "'labels' must be a list of integers"),
    "label size": ({"labels": [1, 2**40]}, f"'labels' holds '{2**40}'"),
    "mask type": ({"train_mask": [0, 1]}, "'train_mask' must be a list of booleans"),
    "mask count": ({"test_mask": [True]}, "'test_mask' has '1' rows"),
    "cluster count": ({"clusters": [1]}, "'clusters' has '1' rows"),
    "cluster value": ({"clusters": [0, -1]}, "'clusters' holds '-1'"),
    "cluster type": ({"clusters": [0.0, 1.0]}, "'clusters' must be a list of integers"),
    "cluster size": ({"clusters": [0, 2**31]}, f"'clusters' holds '{2**31}'"),
    "target value": ({"targets": [[0, 2], [1, 0]]}, "'targets' holds '2'; targets are 0 or 1"),
    "target shape": ({"targets": [0, 1]}, "'targets' must be a matrix of 0 and 1"),
    "target count": ({"targets": [[0, 1]]}, "'targets' has '1' rows"),
    "both": ({"targets": [[0], [1]], "labels": [0, 1]}, "'labels' and 'targets' are both there"),
    "sparse rows": (SPARSE | {"feat_shape": [3, 1]}, "'feat_shape' has '3' rows"),
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
    with pytest.raises(InputError) as caught:
        read_vertex_data(tmp_path / "bad.npz", 2)
    assert str(tmp_path / "bad.npz") in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "name", ["Cora", "Citeseer", "CoauthorCS", "AmazonPhoto", "fb100-Cornell5", "musae-github"]
)
def test_shared_data(name):
    path = SHARED / f"{name}.npz"
    if not path.exists():
        pytest.skip("no shared data")
    file = np.load(path, allow_pickle=False)
    found = read_vertex_data(path, int(file["num_nodes"]))
    assert np.array_equal(found.labels, file["labels"])
    parts = (file["feat_data"], file["feat_indices"], file["feat_indptr"])
    row = np.repeat(np.arange(len(found.labels)), np.diff(parts[2]))
    assert np.array_equal(found.features[row, parts[1]], parts[0].astype(np.float32))
    assert np.count_nonzero(found.features) == np.count_nonzero(parts[0])
    assert (found.train_mask is None) == ("train_mask" not in file.files)
