"""The chunked graph format of DistDGL's tools, with a partition for `dispatch_data.py`. No dgl.

DGL documentation, "Advanced Graph Partitioning": ``metadata.json`` lists the files of edges and
data, ``<node type>.txt`` has a part per line, ``partition_meta.json`` is of version 1.0.0.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from plancc.export.contents import DGL_NAMES, Arrays, edges_of, vertex_arrays
from plancc.export.target import Export, write_json
from plancc.graph.kernels import format_lines
from plancc.plan.exchange import Int64Array
from plancc.plan.plan import Plan

NODE = "_N"
EDGE = "_N:_E:_N"
"""Names that DGL gives the one type of nodes and of edges."""


def write(plan: Plan, folder: Path) -> None:
    """Write edges, data and owners, in one chunk per part; vertices keep the source's numbers."""
    edges, place = edges_of(plan), plan.places()
    chunks = _chunk_ptr(len(edges.source), plan.num_parts)
    (folder / "edges").mkdir()
    names = [f"edges/{k}.txt" for k in range(plan.num_parts)]
    for name, (first, last) in zip(names, pairwise(chunks.tolist()), strict=True):
        ends = np.column_stack([edges.source[first:last], edges.target[first:last]]).ravel()
        text = format_lines(2 * np.arange(last - first + 1, dtype=np.int64), ends)
        (folder / name).write_bytes(text.tobytes())
    rows = _chunk_ptr(plan.num_vertices, plan.num_parts)
    of_nodes = {name: array[place] for name, array in vertex_arrays(plan, DGL_NAMES).items()}
    metadata = {
        "graph_name": "plancc",
        "node_type": [NODE],
        "num_nodes_per_chunk": [np.diff(rows).tolist()],
        "num_nodes_per_type": [plan.num_vertices],
        "edge_type": [EDGE],
        "num_edges_per_chunk": [np.diff(chunks).tolist()],
        "num_edges_per_type": [len(edges.source)],
        "edges": {EDGE: {"format": {"name": "csv", "delimiter": " "}, "data": names}},
        "node_data": {NODE: _write_chunks(folder, "node_data", of_nodes, rows)},
        "edge_data": {EDGE: _write_chunks(folder, "edge_data", {"weight": edges.weight}, chunks)},
    }
    write_json(folder / "metadata.json", metadata)
    owner = format_lines(np.arange(plan.num_vertices + 1), plan.owner().astype(np.int64))
    (folder / f"{NODE}.txt").write_bytes(owner.tobytes())
    # the tools refuse all names but "random" and "metis"; plan.json says how the plan was made
    about = {"version": "1.0.0", "num_parts": plan.num_parts, "algo_name": "metis"}
    write_json(folder / "partition_meta.json", about)


def _chunk_ptr(count: int, num_chunks: int) -> Int64Array:
    return np.arange(num_chunks + 1, dtype=np.int64) * count // num_chunks


def _write_chunks(folder: Path, kind: str, arrays: Arrays, ptr: Int64Array) -> dict[str, Any]:
    """Write arrays as .npy files, one per chunk; what metadata.json says of them."""
    (folder / kind).mkdir()
    told = {}
    for name, array in arrays.items():
        files = [f"{kind}/{name}-{k}.npy" for k in range(len(ptr) - 1)]
        for file, (first, last) in zip(files, pairwise(ptr.tolist()), strict=True):
            np.save(folder / file, array[first:last])
        told[name] = {"format": {"name": "numpy"}, "data": files}
    return told


EXPORT = Export("DistDGL's chunked graph and a partition for dispatch_data.py; needs no dgl", write)
