"""What torch_geometric.distributed reads: python pyg_partition.py FOLDER REFERENCE."""

import sys

import numpy as np
import torch_geometric
from torch_geometric.distributed import LocalFeatureStore, LocalGraphStore

folder, reference = sys.argv[1], np.load(sys.argv[2])
owner, wanted = reference["owner"], reference["matrix"]
found = np.zeros_like(wanted)
for part in range(int(owner.max()) + 1):
    graph = LocalGraphStore.from_partition(folder, part)
    store = LocalFeatureStore.from_partition(folder, part)
    np.testing.assert_array_equal(graph.node_pb, owner)
    vertex = store.get_global_id(None).numpy()
    assert sorted(vertex) == np.flatnonzero(owner == part).tolist()
    (attr,) = graph.get_all_edge_attrs()
    source, target = graph.get_edge_index(attr)
    assert (owner[target] == part).all()
    assert (graph.get_partition_ids_from_eids(graph.get_edge_id(attr)) == part).all()

    def of_nodes(name, store=store):
        return store.get_tensor(group_name=None, attr_name=name, index=None)

    np.testing.assert_array_equal(of_nodes("x"), reference["features"][vertex])
    np.testing.assert_array_equal(of_nodes("y"), reference["labels"][vertex])
    np.testing.assert_array_equal(of_nodes("train_mask"), reference["train_mask"][vertex])
    np.testing.assert_array_equal(of_nodes("original_id"), reference["original_id"][vertex])
    weight = store.get_tensor(group_name=(None, None), attr_name="edge_attr", index=None)
    found[target, source] = weight[:, 0]
np.testing.assert_allclose(found, wanted, rtol=1e-15)
print("loaded by torch_geometric", torch_geometric.__version__)
