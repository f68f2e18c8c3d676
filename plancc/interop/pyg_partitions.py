"""Exports of partitions for PyTorch Geometric.

A cache for ClusterData replaces a run of METIS (Chiang et al., Cluster-GCN, 2019).
``part_P/metis.pt`` holds the permutations of vertices and edges as in PyTorch Geometric 2.4 and
newer, ``data.pt`` the graph. This export needs torch and torch_geometric. The other export, which
needs torch, is a partition for torch_geometric.distributed, as its Partitioner writes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from plancc.export.contents import PYG_NAMES, edges_of, vertex_arrays
from plancc.export.target import Export, write_json
from plancc.plan.plan import Plan


def write_cluster(plan: Plan, folder: Path) -> None:
    """Write ``data.pt`` (edges, vertex data) and ``part_P/metis.pt`` (P parts) for ClusterData."""
    import torch
    from torch_geometric.loader.cluster import Partition

    edges, place = edges_of(plan), plan.places()
    data: dict[str, torch.Tensor | int] = {
        name: torch.from_numpy(array[place])
        for name, array in vertex_arrays(plan, PYG_NAMES).items()
    }
    del data["vertex"]  # row v is vertex v
    data["num_nodes"] = plan.num_vertices  # edges do not show isolated vertices at the end
    data["edge_index"] = torch.from_numpy(np.stack([edges.source, edges.target]))
    data["edge_weight"] = torch.from_numpy(edges.weight)
    torch.save(data, folder / "data.pt")

    # CSR by source in plan order; the edges of a source are sorted by target, as in ClusterData
    source, target = place[edges.source], place[edges.target]
    order = np.lexsort((target, source))
    ptr = np.concatenate([[0], np.cumsum(np.bincount(source, minlength=plan.num_vertices))])
    partition = Partition(
        indptr=torch.from_numpy(ptr),
        index=torch.from_numpy(target[order]),
        partptr=torch.from_numpy(plan.part_ptr.astype(np.int64)),
        node_perm=torch.from_numpy(plan.global_id.astype(np.int64)),
        edge_perm=torch.from_numpy(order),
        sparse_format="csr",
    )
    (folder / f"part_{plan.num_parts}").mkdir()
    torch.save(partition, folder / f"part_{plan.num_parts}" / "metis.pt")


CLUSTER = Export(
    "the graph and ClusterData's cache, for torch_geometric.loader",
    write_cluster,
    library="torch_geometric",
    install="pip install torch torch_geometric",
)


def write_partition(plan: Plan, folder: Path) -> None:
    """Write META.json, the maps of nodes and edges, and a folder per part.

    Nodes are numbered like the graph's vertices. Edges are numbered by source node, then by
    target node. A part lists the edges into its own nodes, sorted by target, then by source.
    """
    import torch

    edges, owner = edges_of(plan), plan.owner()
    arrays = vertex_arrays(plan, PYG_NAMES)
    del arrays["vertex"]  # global_id holds the same numbers
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


PARTITION = Export(
    "a partition for torch_geometric.distributed",
    write_partition,
    library="torch",
    install="pip install torch",
)
