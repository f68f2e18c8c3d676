"""A partition for torch_geometric.distributed, as its Partitioner writes it. Needs torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from plancc.export.contents import PYG_NAMES, edges_of, vertex_arrays
from plancc.export.target import Export, write_json
from plancc.plan.plan import Plan


def write(plan: Plan, folder: Path) -> None:
    """Write META.json, the maps of nodes and edges, and a folder per part.

    Nodes have the source's numbers, edges are numbered by source, then target. An edge is with the
    owner of its target; edges of a part are sorted by target, then source.
    """
    import torch

    edges, owner = edges_of(plan), plan.owner()
    arrays = vertex_arrays(plan, PYG_NAMES)
    del arrays["vertex"]  # it is global_id
    part_of_edge = owner[edges.target]
    order = np.lexsort((edges.source, edges.target, part_of_edge))
    ends = np.cumsum(np.bincount(part_of_edge, minlength=plan.num_parts))
    for index, numbers in enumerate(np.split(order, ends[:-1])):
        rows = slice(*plan.part_ptr[index : index + 2])
        part = folder / f"part_{index}"
        part.mkdir()
        edge_id = torch.from_numpy(numbers)
        graph = {
            "edge_id": edge_id,
            "row": torch.from_numpy(edges.source[numbers]),
            "col": torch.from_numpy(edges.target[numbers]),
            "size": (plan.num_vertices, plan.num_vertices),
        }
        torch.save(graph, part / "graph.pt")
        feats = {name: torch.from_numpy(array[rows].copy()) for name, array in arrays.items()}
        global_id = torch.from_numpy(plan.global_id[rows].astype(np.int64))
        torch.save({"global_id": global_id, "feats": feats}, part / "node_feats.pt")
        weight = torch.from_numpy(edges.weight[numbers]).reshape(-1, 1)
        torch.save({"global_id": edge_id, "feats": {"edge_attr": weight}}, part / "edge_feats.pt")
    torch.save(torch.from_numpy(owner.astype(np.int64)), folder / "node_map.pt")
    torch.save(torch.from_numpy(part_of_edge.astype(np.int64)), folder / "edge_map.pt")
    about = {
        "num_parts": plan.num_parts,
        "node_types": None,
        "edge_types": None,
        "node_offset": None,
        "is_hetero": False,
        "is_sorted": True,
    }
    write_json(folder / "META.json", about)


EXPORT = Export(
    "a partition for torch_geometric.distributed",
    write,
    library="torch",
    install="pip install torch",
)
