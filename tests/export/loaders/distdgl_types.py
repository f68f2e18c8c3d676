"""What dgl says of a heterogeneous partition: python distdgl_types.py CONFIG.json REFERENCE.npz."""

import json
import os
import sys

os.environ["DGL_DIST_DEBUG"] = "1"  # DGL's own checks of a partition that it loads

import dgl
import numpy as np

config, reference = sys.argv[1], np.load(sys.argv[2])
with open(config) as stream:
    described = json.load(stream)
vertex, parts = {}, []
for part in range(described["num_parts"]):
    graph, nodes, edges, book, name, ntypes, etypes = dgl.distributed.load_partition(config, part)
    assert (book.nid2partid(graph.ndata[dgl.NID]) == graph.ndata["part_id"]).all()
    for kind in ntypes:
        first, end = described["node_map"][kind][part]
        assert len(book.partid2nids(part, kind)) == end - first
        assert book.ntypes == ntypes
        for at, number in enumerate(nodes[f"{kind}/vertex"].tolist(), first):
            vertex[at] = number
        held = nodes[f"{kind}/feat"].numpy()
        wanted = reference[f"features {kind}"][nodes[f"{kind}/vertex"].numpy()]
        np.testing.assert_array_equal(held, wanted)
        owner = reference[f"owner {kind}"][nodes[f"{kind}/vertex"].numpy()]
        assert (owner == part).all()
    parts.append((graph, edges))
found = {etype: np.zeros_like(reference[":".join(etype)]) for etype in etypes}
for graph, edges in parts:
    ids = graph.ndata[dgl.NID].tolist()
    source, target = (each.tolist() for each in graph.edges())
    kinds, types = graph.edata[dgl.ETYPE].tolist(), graph.ndata[dgl.NTYPE].tolist()
    for k, etype in enumerate(etypes):
        mine = [e for e, kind in enumerate(kinds) if kind == k]
        weight = edges[etype]["weight"] if etype in edges else edges[":".join(etype) + "/weight"]
        assert len(weight) == len(mine)
        for e, value in zip(mine, weight.tolist(), strict=True):
            assert ntypes[types[source[e]]] == etype[0]
            assert ntypes[types[target[e]]] == etype[2]
            found[etype][vertex[ids[target[e]]], vertex[ids[source[e]]]] = value
for etype, matrix in found.items():
    np.testing.assert_allclose(matrix, reference[":".join(etype)], rtol=1e-15)
print("loaded by dgl", dgl.__version__)
