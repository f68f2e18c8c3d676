"""What dgl says of a DistDGL partition: python distdgl.py FOLDER/CONFIG.json REFERENCE.npz."""

import json
import os
import sys

os.environ["DGL_DIST_DEBUG"] = "1"  # DGL's own checks of a partition that it loads

import dgl
import numpy as np
import torch

config, reference = sys.argv[1], np.load(sys.argv[2])
folder = os.path.dirname(config)
with open(config) as stream:
    num_parts = json.load(stream)["num_parts"]
matrix = np.zeros_like(reference["matrix"])
parts = []
for part in range(num_parts):
    graph, nodes, edges, book, *_ = dgl.distributed.load_partition(config, part)
    inner = graph.ndata["inner_node"].bool()
    ids = graph.ndata[dgl.NID]
    if "part_id" in graph.ndata:  # DGL's tools leave it out
        assert (book.nid2partid(ids) == graph.ndata["part_id"]).all()
    assert torch.equal(book.partid2nids(part), ids[inner])
    assert torch.equal(book.partid2eids(part), graph.edata[dgl.EID])
    vertex = nodes["_N/vertex"].numpy()
    assert (reference["owner"][vertex] == part).all()
    np.testing.assert_array_equal(nodes["_N/feat"], reference["features"][vertex])
    np.testing.assert_array_equal(nodes["_N/label"], reference["labels"][vertex])
    np.testing.assert_array_equal(nodes["_N/cluster"], reference["clusters"][vertex])
    np.testing.assert_array_equal(nodes["_N/original_id"], reference["original_id"][vertex])
    for mask in ("train_mask", "val_mask", "test_mask"):
        np.testing.assert_array_equal(nodes[f"_N/{mask}"], reference[mask][vertex])
    parts.append((graph, ids, vertex, edges["_N:_E:_N/weight"]))
vertex_of = np.concatenate([vertex for _, _, vertex, _ in parts])
for graph, ids, _, weight in parts:
    source, target = graph.edges()
    matrix[vertex_of[ids[target]], vertex_of[ids[source]]] = weight
np.testing.assert_allclose(matrix, reference["matrix"], rtol=1e-15)

dgl.distributed.dgl_partition_to_graphbolt(config, store_eids=True)
found = np.zeros_like(matrix)
for part in range(num_parts):
    os.remove(f"{folder}/part{part}/graph.dgl")
    graph, nodes, edges, *_ = dgl.distributed.load_partition(config, part, use_graphbolt=True)
    ids, eids = graph.node_attributes[dgl.NID], graph.edge_attributes[dgl.EID]
    first = int(eids.min()) if len(eids) else 0
    target = torch.repeat_interleave(graph.csc_indptr.diff())
    weight = edges["_N:_E:_N/weight"][eids - first]
    found[vertex_of[ids[target]], vertex_of[ids[graph.indices]]] = weight
np.testing.assert_array_equal(found, matrix)
print("loaded by dgl", dgl.__version__)
