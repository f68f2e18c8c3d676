"""A DistDGL partition, as `dgl.distributed.partition_graph` writes it. Needs dgl.

The rows of a plan in plan order are DistDGL's shuffled node ids: both number part by part. A part
has all edges into its own nodes, which are its rows, and its halo nodes are the rows it receives.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.export.contents import DGL_NAMES, Arrays, halo_rows, vertex_arrays
from plancc.export.target import Export, write_json
from plancc.plan.exchange import Int64Array
from plancc.plan.plan import Plan

NAME = "plancc"
"""Name of the graph, and of the JSON file."""
NODE = "_N"
EDGE = "_N:_E:_N"


def write(plan: Plan, folder: Path) -> None:
    """Write ``plancc.json`` and a folder per part."""
    from dgl.data.utils import save_graphs, save_tensors

    edge_ptr = plan.row_ptr[plan.part_ptr]
    arrays = vertex_arrays(plan, DGL_NAMES)
    metadata: dict[str, Any] = {
        "graph_name": NAME,
        "num_nodes": plan.num_vertices,
        "num_edges": plan.header.num_nonzeros,
        "part_method": NAME,
        "num_parts": plan.num_parts,
        "halo_hops": 1,
        "node_map": {NODE: _ranges(plan.part_ptr)},
        "edge_map": {EDGE: _ranges(edge_ptr)},
        "ntypes": {NODE: 0},
        "etypes": {EDGE: 0},
    }
    for index, halo in enumerate(halo_rows(plan)):
        rows = slice(*plan.part_ptr[index : index + 2])
        nonzeros = slice(*edge_ptr[index : index + 2])
        part = folder / f"part{index}"
        part.mkdir()
        files = {
            "node_feats": f"part{index}/node_feat.dgl",
            "edge_feats": f"part{index}/edge_feat.dgl",
            "part_graph": f"part{index}/graph.dgl",
        }
        save_tensors(str(folder / files["node_feats"]), _tensors(NODE, arrays, rows))
        weights = _tensors(EDGE, {"weight": plan.value}, nonzeros)
        save_tensors(str(folder / files["edge_feats"]), weights)
        save_graphs(str(folder / files["part_graph"]), [_graph_of_part(plan, index, halo)])
        metadata[f"part-{index}"] = files
    write_json(folder / f"{NAME}.json", metadata)


def _ranges(ptr: Int64Array) -> list[list[int]]:
    return np.column_stack([ptr[:-1], ptr[1:]]).tolist()


def _tensors(kind: str, arrays: Arrays, rows: slice) -> dict[str, Any]:
    import torch

    return {
        f"{kind}/{name}": torch.from_numpy(np.ascontiguousarray(array[rows]))
        for name, array in arrays.items()
    }


def _graph_of_part(plan: Plan, index: int, halo: Int64Array) -> Any:
    """A DGLGraph of the part's own rows and the halo, with the numbers that DistDGL looks for."""
    import dgl
    import torch

    part = plan.part(index)
    target = np.repeat(np.arange(part.num_rows, dtype=np.int64), np.diff(part.row_ptr))
    nodes = np.concatenate([part.first_row + np.arange(part.num_rows, dtype=np.int64), halo])
    ends = (torch.from_numpy(part.column.astype(np.int64)), torch.from_numpy(target))
    graph = dgl.graph(ends, num_nodes=len(nodes))
    graph.ndata[dgl.NID] = torch.from_numpy(nodes)
    graph.ndata["part_id"] = torch.from_numpy(_part_of_row(plan, nodes))
    graph.ndata["inner_node"] = (torch.arange(len(nodes)) < part.num_rows).to(torch.uint8)
    first = int(plan.row_ptr[plan.part_ptr[index]])
    graph.edata[dgl.EID] = first + torch.arange(len(target))
    graph.edata["inner_edge"] = torch.ones(len(target), dtype=torch.uint8)
    return graph


def _part_of_row(plan: Plan, rows: Int64Array) -> npt.NDArray[np.int64]:
    return np.searchsorted(plan.part_ptr, rows, side="right") - 1


EXPORT = Export(
    "a DistDGL partition, for dgl.distributed and GraphBolt",
    write,
    library="dgl",
    install='pip install torch==2.2.1 dgl==2.1.0 torchdata==0.7.1 "pandas<2.3" pydantic pyyaml '
    '"numpy<2", in an environment of its own (docs/reference/export.md)',
)
