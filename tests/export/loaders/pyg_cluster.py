"""What PyTorch Geometric makes of a ClusterData cache: python pyg_cluster.py FOLDER REFERENCE."""

import sys
from unittest.mock import patch

import numpy as np
import torch
import torch_geometric
from torch_geometric.data import Data
from torch_geometric.loader import ClusterData, ClusterLoader

folder, reference = sys.argv[1], np.load(sys.argv[2])
owner, wanted = reference["owner"], reference["matrix"]
num_parts = int(owner.max()) + 1
data = Data(**torch.load(f"{folder}/data.pt", weights_only=True))
assert data.validate()
assert data.is_coalesced()
np.testing.assert_array_equal(data.x, reference["features"])
np.testing.assert_array_equal(data.y, reference["labels"])
np.testing.assert_array_equal(data.original_id, reference["original_id"])
for mask in ("train_mask", "val_mask", "test_mask"):
    np.testing.assert_array_equal(data[mask], reference[mask])
data.vertex = torch.arange(data.num_nodes)


def matrix_of(batch):
    source, target = batch.vertex[batch.edge_index]
    found = np.zeros_like(wanted)
    found[target, source] = batch.edge_weight
    return found


np.testing.assert_allclose(matrix_of(data), wanted, rtol=1e-15)
with patch.object(ClusterData, "_metis", side_effect=AssertionError("METIS was asked for")):
    clusters = ClusterData(data, num_parts, save_dir=folder)
    kept = ClusterData(data, num_parts, save_dir=folder, keep_inter_cluster_edges=True)
for part, cluster in enumerate(clusters):
    vertex = cluster.vertex.numpy()
    assert sorted(vertex) == np.flatnonzero(owner == part).tolist()
    np.testing.assert_array_equal(cluster.x, reference["features"][vertex])
    inside = (owner == part)[:, None] & (owner == part)
    np.testing.assert_allclose(matrix_of(cluster), wanted * inside, rtol=1e-15)
    assert kept[part].num_edges == (wanted[:, owner == part] != 0).sum()
for batch in ClusterLoader(clusters, batch_size=2):
    inside = np.isin(np.arange(len(owner)), batch.vertex)
    np.testing.assert_allclose(matrix_of(batch), wanted * np.outer(inside, inside), rtol=1e-15)
print("loaded by torch_geometric", torch_geometric.__version__)
