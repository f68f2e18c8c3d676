"""A training script as users of PyTorch Geometric write it; prints a line of JSON.

    python pyg_accuracy.py problem.npz --model sage --seed 0 --epochs 100

Two layers with a ReLU and dropout between them, as `torch_geometric.nn.models` stacks them, Adam,
and the accuracies of the last epoch's weights. `problem.npz`: adjacency (indptr, indices), features
as a sparse matrix (feat_...), labels, and a mask per split.
"""

from __future__ import annotations

import argparse
import json
import warnings

import numpy as np
import scipy.sparse as sp
import torch
import torch_geometric
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

warnings.filterwarnings("ignore", "Sparse", UserWarning)  # "is in beta state"


class Net(nn.Module):
    """Two layers of one kind."""

    def __init__(self, model: str, widths: tuple[int, int, int], dropout: float) -> None:
        super().__init__()
        kind = {"gcn": GCNConv, "sage": SAGEConv, "gat": GATConv}[model]
        options = {"cached": True} if model == "gcn" else {}
        self.first = kind(widths[0], widths[1], **options)
        self.second = kind(widths[1], widths[2], **options)
        self.dropout = dropout

    def forward(self, x: Tensor, graph: Tensor) -> Tensor:
        x = self.first(x, graph).relu()
        x = functional.dropout(x, self.dropout, self.training)
        return self.second(x, graph)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("problem")
    parser.add_argument("--model", choices=("gcn", "sage", "gat"), required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--dropout", type=float, default=0.5)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(given.seed)
    with np.load(given.problem) as file:
        arrays = {key: file[key] for key in file.files}
    parts = (arrays[f"feat_{key}"] for key in ("data", "indices", "indptr"))
    features = sp.csr_matrix(tuple(parts), shape=tuple(arrays["feat_shape"]))
    x = torch.from_numpy(features.toarray().astype(np.float32))
    y = torch.from_numpy(arrays["labels"].astype(np.int64))
    masks = {name: torch.from_numpy(arrays[f"{name}_mask"]) for name in ("train", "val", "test")}
    indptr, indices = (torch.from_numpy(arrays[k].astype(np.int64)) for k in ("indptr", "indices"))
    if given.model != "gat":  # a sparse matrix multiplies without a message per edge and column
        graph = torch.sparse_csr_tensor(indptr, indices, torch.ones(len(indices)), [len(x)] * 2)
    else:
        target = torch.repeat_interleave(torch.arange(len(x)), indptr.diff())
        graph = torch.stack([indices, target])
    net = Net(given.model, (x.shape[1], given.hidden, int(y.max()) + 1), given.dropout)
    optimizer = torch.optim.Adam(net.parameters(), lr=given.lr)
    losses = []
    for _ in range(given.epochs):
        net.train()
        optimizer.zero_grad()
        loss = functional.cross_entropy(net(x, graph)[masks["train"]], y[masks["train"]])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    net.eval()
    with torch.no_grad():
        right = net(x, graph).argmax(dim=1) == y
    found = {name: right[mask].float().mean().item() for name, mask in masks.items()}
    versions = {"torch": torch.__version__, "torch_geometric": torch_geometric.__version__}
    print(json.dumps({"accuracy": found, "losses": losses, **versions}))


if __name__ == "__main__":
    main()
