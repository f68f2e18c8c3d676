"""Vertices, edges and sizes of parts of a ClusterData cache: python pyg_sizes.py FOLDER PARTS."""

import sys

import torch
from torch_geometric.data import Data
from torch_geometric.loader import ClusterData

folder, num_parts = sys.argv[1], int(sys.argv[2])
data = Data(**torch.load(f"{folder}/data.pt", weights_only=True))
parts = ClusterData(data, num_parts, save_dir=folder, log=False)
print(data.num_nodes, data.num_edges, [part.num_nodes for part in parts])
