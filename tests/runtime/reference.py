"""What the runtime must compute, by other means: naive sets, dense float64 matrices, one process.

Shares nothing with the runtime but the `Part` value that it builds.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch

from plancc.graph.vertexdata import VertexData
from plancc.plan.plan import Header, Part


def normalised(pattern: np.ndarray) -> np.ndarray:
    """D^-1/2 (A + I) D^-1/2 with D the row sums (paper 000, Section 3.1)."""
    a = (pattern != 0).astype(np.float64)
    np.fill_diagonal(a, 1)
    scale = 1 / np.sqrt(a.sum(axis=1))
    return scale[:, None] * a * scale[None, :]


def glorot_weights(dims: list[int], seed: int) -> list[np.ndarray]:
    """The initial weights of a GCN: uniform in +-sqrt(6 / (d_in + d_out)), layer after layer."""
    random = np.random.default_rng(seed)
    shapes = pairwise(dims)
    return [random.uniform(-1, 1, (a, b)) * np.sqrt(6 / (a + b)) for a, b in shapes]


def needed_rows(a: np.ndarray, owner: np.ndarray) -> dict[tuple[int, int], list[int]]:
    """(sender, receiver) -> vertices whose rows travel."""
    sets: dict[tuple[int, int], set[int]] = {}
    for i, j in zip(*np.nonzero(a), strict=True):
        if owner[i] != owner[j]:
            sets.setdefault((int(owner[j]), int(owner[i])), set()).add(int(j))
    return {pair: sorted(rows) for pair, rows in sets.items()}


def volume(a: np.ndarray, owner: np.ndarray) -> int:
    return sum(map(len, needed_rows(a, owner).values()))


def make_parts(
    a: np.ndarray, owner: np.ndarray, num_parts: int, data: VertexData | None = None
) -> tuple[Header, list[Part]]:
    """A row plan of the dense matrix `a`; `data` is in vertex order."""
    n = len(a)
    travel = needed_rows(a, owner)
    members = [[v for v in range(n) if owner[v] == m] for m in range(num_parts)]
    local = {v: r for rows in members for r, v in enumerate(rows)}
    data = data or VertexData()
    parts, first_row = [], 0
    for m, rows in enumerate(members):
        sends = [(q, travel[m, q]) for q in range(num_parts) if (m, q) in travel]
        recvs = [(q, travel[q, m]) for q in range(num_parts) if (q, m) in travel]
        halo = [v for _, vertices in recvs for v in vertices]
        column_of = {v: c for c, v in enumerate(rows + halo)}
        row_ptr, column, value = [0], [], []
        for i in rows:
            for c in sorted(column_of[int(j)] for j in np.nonzero(a[i])[0]):
                column.append(c)
                value.append(a[i, (rows + halo)[c]])
            row_ptr.append(len(column))
        pick = np.array(rows, int)
        parts.append(
            Part(
                index=m,
                num_parts=num_parts,
                first_row=first_row,
                global_id=np.array(rows, np.int32),
                num_interior=0,
                row_ptr=np.array(row_ptr, np.int64),
                column=np.array(column, np.int32),
                value=np.array(value, np.float64),
                send_peer=np.array([q for q, _ in sends], np.int32),
                send_ptr=np.cumsum([0] + [len(v) for _, v in sends]).astype(np.int64),
                send_row=np.array([local[v] for _, vs in sends for v in vs], np.int32),
                recv_peer=np.array([q for q, _ in recvs], np.int32),
                recv_ptr=np.cumsum([0] + [len(v) for _, v in recvs]).astype(np.int64),
                vertex_data=VertexData(
                    **{k: None if v is None else v[pick] for k, v in vars(data).items()}
                ),
            )
        )
        first_row += len(rows)
    header = Header("row", n, int(np.count_nonzero(a)), num_parts, True, "sym", True)
    return header, parts


def train_dense(
    a: np.ndarray,
    features: np.ndarray,
    labels: np.ndarray,
    train: np.ndarray,
    weights: list[np.ndarray],
    epochs: int,
    lr: float,
    optimizer: str,
    activation: str,
) -> tuple[list[float], list[np.ndarray], np.ndarray]:
    """Losses of all epochs and of the final pass, final weights, final logits; float64."""
    act, slope = {
        "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0) * 1.0),
        "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
        "sigmoid": (
            lambda z: 1 / (1 + np.exp(-z)),
            lambda z: np.exp(-z) / (1 + np.exp(-z)) ** 2,
        ),
        "none": (lambda z: z, np.ones_like),
    }[activation]
    weights = [w.astype(np.float64) for w in weights]
    first = [np.zeros_like(w) for w in weights]
    second = [np.zeros_like(w) for w in weights]
    chosen = np.flatnonzero(train & (labels >= 0))
    losses = []
    for epoch in range(epochs + 1):
        hs, zs = [features.astype(np.float64)], []
        for k, w in enumerate(weights):
            zs.append(a @ hs[-1] @ w)
            hs.append(act(zs[-1]) if k < len(weights) - 1 else zs[-1])
        shifted = np.exp(zs[-1] - zs[-1].max(axis=1, keepdims=True))
        probability = shifted / shifted.sum(axis=1, keepdims=True)
        losses.append(float(-np.mean(np.log(probability[chosen, labels[chosen]]))))
        if epoch == epochs:
            break
        g = np.zeros_like(zs[-1])
        for i in chosen:
            g[i] = probability[i] / len(chosen)
            g[i, labels[i]] -= 1 / len(chosen)
        gradients = []
        for k in reversed(range(len(weights))):
            gradients.insert(0, (a @ hs[k]).T @ g)
            if k:
                g = (a.T @ (g @ weights[k].T)) * slope(zs[k - 1])
        for k, d in enumerate(gradients):
            if optimizer == "sgd":
                weights[k] = weights[k] - lr * d
            else:
                first[k] = 0.9 * first[k] + 0.1 * d
                second[k] = 0.999 * second[k] + 0.001 * d**2
                mean = first[k] / (1 - 0.9 ** (epoch + 1))
                square = second[k] / (1 - 0.999 ** (epoch + 1))
                weights[k] = weights[k] - lr * mean / (np.sqrt(square) + 1e-8)
    return losses, weights, zs[-1]


def train_in_batches(
    batches: list[tuple[list[np.ndarray], np.ndarray]],
    features: np.ndarray,
    labels: np.ndarray,
    weights: list[np.ndarray],
    lr: float,
    optimizer: str,
    activation: str,
) -> tuple[list[float], list[np.ndarray]]:
    """Losses of all steps and the final weights, with torch's autograd; float64.

    A batch is its dense matrix of every layer, and the vertices that count for its loss.
    """
    act = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}[activation]
    parameters = [torch.tensor(w, dtype=torch.float64, requires_grad=True) for w in weights]
    first = [torch.zeros_like(w) for w in parameters]
    second = [torch.zeros_like(w) for w in parameters]
    losses = []
    for step, (matrices, chosen) in enumerate(batches, 1):
        h = torch.tensor(features, dtype=torch.float64)
        for k, w in enumerate(parameters):
            h = torch.tensor(matrices[k]) @ h @ w
            h = act(h) if k < len(parameters) - 1 else h
        loss = 0 * h.sum()
        if len(chosen):
            target = torch.tensor(labels[chosen], dtype=torch.int64)
            loss = torch.nn.functional.cross_entropy(h[chosen], target)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for w, d, mean, square in zip(parameters, gradients, first, second, strict=True):
                if optimizer == "sgd":
                    w -= lr * d
                    continue
                mean.copy_(0.9 * mean + 0.1 * d)
                square.copy_(0.999 * square + 0.001 * d**2)
                root = torch.sqrt(square / (1 - 0.999**step))
                w -= lr * mean / (1 - 0.9**step) / (root + 1e-8)
        losses.append(loss.item())
    return losses, [w.detach().numpy() for w in parameters]
