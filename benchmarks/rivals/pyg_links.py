"""Link prediction as users of PyTorch Geometric write it; prints a line of JSON.

    python pyg_links.py problem.npz --seed 0 --epochs 100

Two layers of SAGEConv with a ReLU between them, scalar products, `negative_sampling` in every
epoch, Adam, and the area under the ROC curve on the test links of the weights that are best on the
validation links. `problem.npz`: the edges that carry messages (indptr, indices), features as a
sparse matrix (feat_...), links by kind.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.nn import functional
from torch_geometric.nn import SAGEConv
from torch_geometric.utils import negative_sampling


def as_tensor(matrix: sp.csr_matrix) -> Tensor:
    """The same in torch, in float32."""
    parts = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data
    return torch.sparse_csr_tensor(*map(torch.from_numpy, parts), matrix.shape).float()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("problem")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--every", type=int, required=True)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.01)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(given.seed)
    with np.load(given.problem) as file:
        arrays = {key: file[key] for key in file.files}
    parts = (arrays[f"feat_{key}"] for key in ("data", "indices", "indptr"))
    features = sp.csr_matrix(tuple(parts), shape=tuple(arrays["feat_shape"]))
    sums = np.maximum(abs(features).sum(axis=1), 1e-12)
    x = as_tensor(features.multiply(1 / sums).tocsr())
    indptr, indices = (torch.from_numpy(arrays[k].astype(np.int64)) for k in ("indptr", "indices"))
    # a sparse matrix multiplies without a message per edge and column
    graph = torch.sparse_csr_tensor(indptr, indices, torch.ones(len(indices)), [len(x)] * 2)
    share = 1 / indptr.diff().clamp(min=1).float()[:, None]
    edges = torch.stack([indices, torch.repeat_interleave(torch.arange(len(x)), indptr.diff())])
    links = torch.from_numpy(arrays["train"].astype(np.int64))
    first, second = SAGEConv(x.shape[1], given.hidden), SAGEConv(given.hidden, given.hidden)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=given.lr)

    def outputs() -> Tensor:
        # `first(x, graph)`, but that weights come before neighbours: features have few entries
        found = graph @ (x @ first.lin_l.weight.T) * share + first.lin_l.bias
        return second((found + x @ first.lin_r.weight.T).relu(), graph)

    def area(split: str) -> float:
        with torch.no_grad():
            z = outputs().numpy()
        pairs = arrays[split], arrays[f"{split}_negative"]
        own, others = ((z[a] * z[b]).sum(axis=1) for a, b in pairs)
        truth = np.repeat([1, 0], [len(own), len(others)])
        return float(roc_auc_score(truth, np.concatenate([own, others])))

    best = (0.0, 0.0)
    for epoch in range(given.epochs + 1):
        if epoch % given.every == 0 or epoch == given.epochs:
            best = max(best, (area("val"), area("test")))
        optimizer.zero_grad()
        others = negative_sampling(edges, len(x), links.shape[1])
        pairs = torch.cat([links, others], dim=1)
        truth = torch.cat([torch.ones(links.shape[1]), torch.zeros(others.shape[1])])
        z = outputs()
        scores = (z[pairs[0]] * z[pairs[1]]).sum(dim=1)
        functional.binary_cross_entropy_with_logits(scores, truth).backward()
        optimizer.step()
    print(json.dumps({"auc": best[1]}))


if __name__ == "__main__":
    main()
