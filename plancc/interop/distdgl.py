"""Functions that read a partition of DistDGL as a part vector, and write a plan for DistDGL.

DistDGL renumbers vertices by part, then by type (its "shuffled node ids"). With one type, this is
plan order. A part's own nodes are its own rows, its halo nodes are its halo rows. A part has all
edges into its own nodes.

``NAME.json`` gives the range of every part in DGL's new numbers, but a part vector needs the old
numbers. So the mapping that dgl.distributed.partition_graph returns with ``return_mapping=True``
must be in the same folder.

The chunked format is written without dgl, with a partition for the tool `dispatch_data.py` (DGL
documentation, "Advanced Graph Partitioning"). ``metadata.json`` lists the files of edges and data,
``<type>.txt`` has a part per line, and ``partition_meta.json`` has version 1.0.0.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.export.contents import DGL_NAMES, Arrays, arrays_of, edges_of, halo_rows, vertex_arrays
from plancc.export.target import Export, write_json
from plancc.files import StrPath
from plancc.graph.arrays import Array
from plancc.graph.kernels import format_lines
from plancc.graph.npz import map_array
from plancc.graph.textfile import read_bytes
from plancc.graph.vertexdata import VertexData, as_array
from plancc.interop.torchfile import load_torch
from plancc.plan.exchange import Int64Array
from plancc.plan.matrix import relations_of
from plancc.plan.parts import taken
from plancc.plan.plan import Plan
from plancc.text import shown

HETERO = "parts of heterogeneous graphs are not supported; use one type of vertex and one of edge"
MAPPINGS = ("orig_nids.npy", "orig_nids.pt", "node_mapping.pt")
"""Names of files that have, for every vertex, the number that it had before DGL renumbered it."""
NAME = "plancc"
"""Name of the graph, and of the JSON file."""
NODE = "_N"
EDGE = "_N:_E:_N"
"""DGL's names for the only type of nodes, and for the only type of edges."""


def read_partition(path: StrPath) -> npt.NDArray[np.int32]:
    """Return the part of every vertex, in the order before DGL's renumbering: int32[num_vertices].

    `path` is the .json file. Raises InputError for a heterogeneous graph, or if the mapping to old
    numbers is missing.
    """
    where = os.fspath(path)
    try:
        described = json.loads(read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: is not JSON: {shown(error)}") from error
    if not isinstance(described, dict) or "node_map" not in described:
        raise InputError(f"{where}: does not describe a partition of DGL: 'node_map' is missing")
    held = described["node_map"]
    if not isinstance(held, dict) or len(held) != 1:
        raise InputError(f"{where}: {HETERO}")
    ranges = _ranges(next(iter(held.values())), where)
    count = int(ranges[-1, 1])
    original = _original_ids(where, count)
    if original.shape != (count,) or (np.sort(original) != np.arange(count)).any():
        raise InputError(f"{where}: the mapping must hold each of the {count} vertices once")
    owner = np.empty(count, np.int32)
    owner[original] = np.repeat(np.arange(len(ranges)), np.diff(ranges, axis=1)[:, 0])
    return owner


def _ranges(held: Any, where: str) -> Int64Array:
    """Return the range [first, last + 1] of every part in DGL's numbers: int64[parts, 2].

    `held` is the value of "node_map" for the only vertex type.
    """
    try:
        ranges = np.array(held)
        right = ranges.ndim == 2 and ranges.shape[1] == 2 and ranges.dtype.kind == "i"
    except ValueError:
        right = False
    if right:
        right = ranges[0, 0] == 0 and np.array_equal(ranges[1:, 0], ranges[:-1, 1])
    if not right or (ranges[:, 1] < ranges[:, 0]).any() or ranges[-1, 1] >= 2**31:
        raise InputError(f"{where}: 'node_map' does not hold consecutive ranges of vertices")
    return ranges.astype(np.int64)


def _checked(array: Array, what: str) -> Int64Array:
    if array.ndim != 1 or array.dtype.kind not in "iu" or not array.size:
        raise InputError(f"{what} is not a list of whole numbers")
    if array.min() < 0 or array.max() >= 2**31:
        raise InputError(f"{what} holds {array.min()}..{array.max()}, out of range 0..2^31 - 1")
    return array.astype(np.int64)


def _original_ids(where: str, count: int) -> Int64Array:
    """Return the number before DGL's renumbering, for every vertex in DGL's numbers: int64[count].

    The mapping is in a file beside the partition `where`.
    """
    folder = os.path.dirname(where)
    for name in MAPPINGS:
        file = os.path.join(folder, name)
        if os.path.isfile(file):
            held = map_array(file) if name.endswith(".npy") else load_torch(file)
            if isinstance(held, dict) and len(held) == 1:
                held = next(iter(held.values()))
            return _checked(as_array(held, file), file)
    told = f"numbers the {count} vertices as DGL does, and its folder has no mapping"
    saved = (
        f"as {MAPPINGS[0]} what partition_graph(..., return_mapping=True) returns for the vertices"
    )
    raise InputError(f"{where}: {told} to the graph's own numbers; save {saved}")


@dataclass(frozen=True, eq=False)
class DistNumbers:
    """DistDGL's ids of vertices and edges: sorted by part, then by type, then in plan order.

    Attributes:
        ntypes, etypes: Names of the types of vertices and of edges, by type number.
        row_type, edge_type (int64[n], int64[nnz]): Type numbers of rows and nonzeros, in plan
            order.
        row, edge (int64[n], int64[nnz]): Row (nonzero) in plan order of every DistDGL id.
        place (int64[n]): DistDGL id of every row in plan order; the inverse of `row`.
    """

    plan: Plan
    ntypes: tuple[str, ...]
    etypes: tuple[str, ...]
    row_type: Int64Array
    edge_type: Int64Array
    row: Int64Array
    edge: Int64Array
    place: Int64Array

    @classmethod
    def of(cls, plan: Plan) -> DistNumbers:
        """Make DistDGL's ids for the rows and the nonzeros of a plan."""
        types, n = plan.header.types, plan.num_vertices
        ntypes: tuple[str, ...] = (NODE,)
        etypes: tuple[str, ...] = (EDGE,)
        row_type, edge_type = np.zeros(n, np.int64), np.zeros(len(plan.column), np.int64)
        if types is not None:
            ntypes, etypes = types.names, tuple(map(":".join, types.relations))
            row_type, edge_type = types.type_of(plan.global_id), relations_of(plan).astype(np.int64)
        part = _part_of_row(plan, np.arange(n))
        row = np.lexsort((row_type, part))
        edge = np.lexsort((edge_type, np.repeat(part, np.diff(plan.row_ptr))))
        return cls(plan, ntypes, etypes, row_type, edge_type, row, edge, np.argsort(row))

    def ranges(self, edges: bool = False) -> dict[str, list[list[int]]]:
        """Return, by type, the range [first, last + 1] of vertex (or edge) ids in each part."""
        part = _part_of_row(self.plan, np.arange(self.plan.num_vertices))
        names, kind = self.ntypes, self.row_type
        if edges:
            names, kind = self.etypes, self.edge_type
            part = np.repeat(part, np.diff(self.plan.row_ptr))
        size = len(names) * self.plan.num_parts
        sizes = np.bincount(part * len(names) + kind, minlength=size)
        ends = np.cumsum(sizes)
        pairs = np.stack([ends - sizes, ends], 1).reshape(-1, len(names), 2)
        return {name: pairs[:, k].tolist() for k, name in enumerate(names)}

    def part(self, index: int, halo: Int64Array) -> dict[str, Int64Array]:
        """Return the graph of a part's own rows and halo rows; `halo` is in plan order.

        "nodes" and "edges" are DistDGL's ids, own rows first. "source" and "target", the ends of
        the edges, are indices into "nodes".
        """
        part = self.plan.part(index)
        own = slice(part.first_row, part.first_row + part.num_rows)
        place = self.place[own] - part.first_row
        nodes = np.concatenate([np.arange(own.start, own.stop), self.place[halo]])
        edges = np.arange(self.plan.row_ptr[own.start], self.plan.row_ptr[own.stop])
        order = self.edge[edges] - self.plan.row_ptr[own.start]
        target = np.repeat(place, np.diff(part.row_ptr))[order]
        number = np.concatenate([place, np.arange(part.num_rows, len(nodes))])
        return {
            "nodes": nodes,
            "edges": edges,
            "source": number[part.column[order]],
            "target": target,
        }

    def vertex_data(self) -> dict[str, tuple[Arrays, Int64Array]]:
        """Return, for every vertex type, its arrays in plan order, and the offsets of the parts.

        The offsets are int64[num_parts + 1].
        """
        plan, types = self.plan, self.plan.header.types
        if types is None:
            return {NODE: (vertex_arrays(plan, DGL_NAMES), plan.part_ptr)}
        found, first = {}, types.rows_before(plan.global_id, plan.part_ptr)
        for k, name in enumerate(types.names):
            vertices = plan.global_id[self.row_type == k]
            data = plan.vertex_data.of_type.get(name, VertexData())
            of_type = vertices - types.first[k], DGL_NAMES, taken(plan.original_id, vertices)
            found[name] = arrays_of(data, *of_type), first[k]
        return found


def write(plan: Plan, folder: Path) -> None:
    """Write ``plancc.json`` and a folder per part."""
    from dgl.data.utils import save_graphs, save_tensors

    numbers = DistNumbers.of(plan)
    of_types, edge_map = numbers.vertex_data(), numbers.ranges(edges=True)
    metadata: dict[str, Any] = {
        "graph_name": NAME,
        "num_nodes": plan.num_vertices,
        "num_edges": plan.header.num_nonzeros,
        "part_method": NAME,
        "num_parts": plan.num_parts,
        "halo_hops": 1,
        "node_map": numbers.ranges(),
        "edge_map": edge_map,
        "ntypes": {name: k for k, name in enumerate(numbers.ntypes)},
        "etypes": {name: k for k, name in enumerate(numbers.etypes)},
    }
    for index, halo in enumerate(halo_rows(plan)):
        part = folder / f"part{index}"
        part.mkdir()
        names = {"node_feats": "node_feat", "edge_feats": "edge_feat", "part_graph": "graph"}
        files = {what: f"part{index}/{name}.dgl" for what, name in names.items()}
        data, weights = dict[str, Any](), dict[str, Any]()
        for name, (arrays, first) in of_types.items():
            data |= _tensors(name, arrays, slice(*first[index : index + 2]))
        for name, ranges in edge_map.items():
            edge = numbers.edge[slice(*ranges[index])]
            of_edges = {"weight": plan.value, DGL_NAMES["features"]: plan.edge_features}
            arrays = {key: each[edge] for key, each in of_edges.items() if each is not None}
            weights |= _tensors(name, arrays, slice(None))
        save_tensors(str(folder / files["node_feats"]), data)
        save_tensors(str(folder / files["edge_feats"]), weights)
        save_graphs(str(folder / files["part_graph"]), [_graph_of_part(numbers, index, halo)])
        metadata[f"part-{index}"] = files
    write_json(folder / f"{NAME}.json", metadata)


def _tensors(kind: str, arrays: Arrays, rows: slice) -> dict[str, Any]:
    import torch

    return {
        f"{kind}/{name}": torch.from_numpy(np.ascontiguousarray(array[rows]))
        for name, array in arrays.items()
    }


def _graph_of_part(numbers: DistNumbers, index: int, halo: Int64Array) -> Any:
    """Return a DGLGraph of a part's own and halo rows, with the id arrays that DistDGL reads."""
    import dgl
    import torch

    plan = numbers.plan
    found = {name: torch.from_numpy(each) for name, each in numbers.part(index, halo).items()}
    nodes, edges = found["nodes"], found["edges"]
    graph = dgl.graph((found["source"], found["target"]), num_nodes=len(nodes))
    graph.ndata[dgl.NID] = nodes
    graph.ndata["part_id"] = torch.from_numpy(_part_of_row(plan, nodes.numpy()))
    graph.ndata["inner_node"] = (torch.arange(len(nodes)) < len(nodes) - len(halo)).to(torch.uint8)
    graph.edata[dgl.EID] = edges
    graph.edata["inner_edge"] = torch.ones(len(edges), dtype=torch.uint8)
    if plan.header.types is not None:
        graph.ndata[dgl.NTYPE] = torch.from_numpy(numbers.row_type[numbers.row[nodes]])
        graph.edata[dgl.ETYPE] = torch.from_numpy(numbers.edge_type[numbers.edge[edges]])
    return graph


def _part_of_row(plan: Plan, rows: Int64Array) -> Int64Array:
    return np.searchsorted(plan.part_ptr, rows, side="right") - 1


EXPORT = Export(
    "a DistDGL partition, for dgl.distributed and GraphBolt",
    write,
    has_types=True,
    columns=("edge_features",),
    library="dgl",
    install='pip install torch==2.2.1 dgl==2.1.0 torchdata==0.7.1 "pandas<2.3" pydantic pyyaml '
    '"numpy<2", in a separate environment (docs/reference/export.md)',
)


def write_chunks(plan: Plan, folder: Path) -> None:
    """Write edges, vertex data and owners in chunks, one for each part.

    Vertices are numbered as in the graph, not as in the plan.
    """
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
    # the tools accept only the names "random" and "metis"; plan.json says how the plan was made
    about = {"version": "1.0.0", "num_parts": plan.num_parts, "algo_name": "metis"}
    write_json(folder / "partition_meta.json", about)


def _chunk_ptr(count: int, num_chunks: int) -> Int64Array:
    return np.arange(num_chunks + 1, dtype=np.int64) * count // num_chunks


def _write_chunks(folder: Path, kind: str, arrays: Arrays, ptr: Int64Array) -> dict[str, Any]:
    """Write arrays as .npy files, one per chunk; return formats and files for metadata.json.

    `kind` is "node_data" or "edge_data". `ptr` has the first row of every chunk, then the number of
    rows.
    """
    (folder / kind).mkdir()
    told = {}
    for name, array in arrays.items():
        files = [f"{kind}/{name}-{k}.npy" for k in range(len(ptr) - 1)]
        for file, (first, last) in zip(files, pairwise(ptr.tolist()), strict=True):
            np.save(folder / file, array[first:last])
        told[name] = {"format": {"name": "numpy"}, "data": files}
    return told


CHUNKED = Export(
    "DistDGL's chunked graph and a partition for dispatch_data.py; needs no dgl", write_chunks
)
