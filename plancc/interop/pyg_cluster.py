"""The cache of PyTorch Geometric's ClusterData, which then needs no METIS. Needs torch_geometric.

``part_P/metis.pt`` holds the permutations of nodes and edges (Chiang et al., Cluster-GCN, 2019, as
PyTorch Geometric 2.4 and newer store them); ``data.pt`` holds the graph that they belong to.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from plancc.export.contents import PYG_NAMES, edges_of, vertex_arrays
from plancc.export.target import Export
from plancc.plan.plan import Plan


def write(plan: Plan, folder: Path) -> None:
    """Write ``data.pt``, tensors by vertex and the number of vertices, and ``part_P/metis.pt``."""
    import torch
    from torch_geometric.loader.cluster import Partition

    edges, place = edges_of(plan), plan.places()
    data: dict[str, torch.Tensor | int] = {
        name: torch.from_numpy(array[place])
        for name, array in vertex_arrays(plan, PYG_NAMES).items()
    }
    del data["vertex"]  # row v is vertex v
    data["num_nodes"] = plan.num_vertices  # edges do not tell of isolated last vertices
    data["edge_index"] = torch.from_numpy(np.stack([edges.source, edges.target]))
    data["edge_weight"] = torch.from_numpy(edges.weight)
    torch.save(data, folder / "data.pt")

    # CSR by source in plan order; within a source by target, as ClusterData sorts
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


EXPORT = Export(
    "the graph and ClusterData's cache, for torch_geometric.loader",
    write,
    library="torch_geometric",
    install="pip install torch torch_geometric",
)
