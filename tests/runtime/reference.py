"""What the runtime must compute, by other means: naive sets, dense float64 matrices, one process.

Shares nothing with the runtime but the `Part` value that it builds.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import torch

from plancc.graph.vertexdata import VertexData
from plancc.plan.parts import Part, PartFold
from plancc.plan.values import Header


def normalised(pattern: np.ndarray) -> np.ndarray:
    """D^-1/2 (A + I) D^-1/2 with D the row sums (Demirci et al. 2022, Section 3.1)."""
    a = (pattern != 0).astype(np.float64)
    np.fill_diagonal(a, 1)
    scale = 1 / np.sqrt(a.sum(axis=1))
    return scale[:, None] * a * scale[None, :]


def glorot_weights(dims: list[int], seed: int) -> list[np.ndarray]:
    """The initial weights of a GCN: uniform in +-sqrt(6 / (d_in + d_out)), layer after layer."""
    random = np.random.default_rng(seed)
    shapes = pairwise(dims)
    return [random.uniform(-1, 1, (a, b)) * np.sqrt(6 / (a + b)) for a, b in shapes]


def needed_rows(
    a: np.ndarray, owner: np.ndarray, holder: np.ndarray | None = None
) -> dict[tuple[int, int], list[int]]:
    """(sender, receiver) -> vertices whose rows travel; `holder` has the part of every nonzero."""
    sets: dict[tuple[int, int], set[int]] = {}
    for i, j in zip(*np.nonzero(a), strict=True):
        part = owner[i] if holder is None else holder[i, j]
        if part != owner[j]:
            sets.setdefault((int(owner[j]), int(part)), set()).add(int(j))
    return {pair: sorted(rows) for pair, rows in sets.items()}


def partial_rows(
    a: np.ndarray, owner: np.ndarray, holder: np.ndarray
) -> dict[tuple[int, int], list[int]]:
    """(sender, owner) -> vertices whose partial sums travel."""
    sets: dict[tuple[int, int], set[int]] = {}
    for i, j in zip(*np.nonzero(a), strict=True):
        if holder[i, j] != owner[i]:
            sets.setdefault((int(holder[i, j]), int(owner[i])), set()).add(int(i))
    return {pair: sorted(rows) for pair, rows in sets.items()}


def volume(a: np.ndarray, owner: np.ndarray, holder: np.ndarray | None = None) -> int:
    """Rows moved by one product, partial ones too."""
    steps = [needed_rows(a, owner, holder)]
    if holder is not None:
        steps.append(partial_rows(a, owner, holder))
    return sum(len(rows) for step in steps for rows in step.values())


def make_parts(
    a: np.ndarray, owner: np.ndarray, num_parts: int, data: VertexData | None = None
) -> tuple[Header, list[Part]]:
    """A row plan of the dense matrix `a`; `data` is in vertex order."""
    holder = np.broadcast_to(np.asarray(owner)[:, None], a.shape)
    header, parts = make_edge_parts(a, owner, holder, num_parts, data)
    return replace(header, layout="row"), [replace(part, fold=None) for part in parts]


def make_edge_parts(
    a: np.ndarray,
    owner: np.ndarray,
    holder: np.ndarray,
    num_parts: int,
    data: VertexData | None = None,
) -> tuple[Header, list[Part]]:
    """An edge plan of the dense matrix `a`, whose nonzero (i, j) is with part ``holder[i, j]``."""
    n = len(a)
    assert all(holder[i, i] == owner[i] for i in range(n) if a[i, i] != 0)
    expand, fold = needed_rows(a, owner, holder), partial_rows(a, owner, holder)
    members = [[v for v in range(n) if owner[v] == m] for m in range(num_parts)]
    local = {v: r for rows in members for r, v in enumerate(rows)}
    data = data or VertexData()
    parts, first_row = [], 0
    for m, rows in enumerate(members):
        sends = [(q, expand[m, q]) for q in range(num_parts) if (m, q) in expand]
        recvs = [(q, expand[q, m]) for q in range(num_parts) if (q, m) in expand]
        folds = [(q, fold[m, q]) for q in range(num_parts) if (m, q) in fold]
        adds = [(q, fold[q, m]) for q in range(num_parts) if (q, m) in fold]
        columns = rows + [v for _, vertices in recvs for v in vertices]
        column_of = {v: c for c, v in enumerate(columns)}
        row_ptr, column, value = [0], [], []
        for i in rows + [v for _, vertices in folds for v in vertices]:
            held = [int(j) for j in np.nonzero(a[i])[0] if holder[i, j] == m]
            for c in sorted(column_of[j] for j in held):
                column.append(c)
                value.append(a[i, columns[c]])
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
                fold=PartFold(
                    send_peer=np.array([q for q, _ in folds], np.int32),
                    send_ptr=np.cumsum([0] + [len(v) for _, v in folds]).astype(np.int64),
                    recv_peer=np.array([q for q, _ in adds], np.int32),
                    recv_ptr=np.cumsum([0] + [len(v) for _, v in adds]).astype(np.int64),
                    recv_row=np.array([local[v] for _, vs in adds for v in vs], np.int32),
                ),
            )
        )
        first_row += len(rows)
    header = Header("edge", n, int(np.count_nonzero(a)), num_parts, True, "sym", True)
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
    momentum: float = 0.0,
    clip_norm: float = np.inf,
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
        norm = np.sqrt(sum((d**2).sum() for d in gradients))
        if norm > clip_norm:
            gradients = [d * clip_norm / (norm + 1e-6) for d in gradients]
        for k, d in enumerate(gradients):
            if optimizer == "sgd":
                first[k] = momentum * first[k] + d
                weights[k] = weights[k] - lr * first[k]
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


def dense_convolution(
    model: str,
    aggregator: str,
    a: torch.Tensor,
    w: dict[str, torch.Tensor],
    x: torch.Tensor,
    rows: np.ndarray | slice = slice(None),
    self_loops: bool = True,
) -> torch.Tensor:
    """One layer on a dense matrix, with the names of the parameters.

    Its outputs are those of `rows`. With `self_loops` the diagonal is no edge.
    """
    eye = torch.eye(len(a), dtype=torch.bool)
    edge = (a != 0) & ~(eye & self_loops)
    a, edge, closed, own = a[rows], edge[rows], (edge | eye)[rows], x[rows]
    bias = w.get("bias", 0)
    if model == "gcn":
        return a @ x @ w["weight"] + bias
    if model == "gin":
        z = ((1 + w.get("eps", 0)) * own + edge.double() @ x) @ w["weight"] + bias
        return torch.relu(z) @ w["weight_out"] + w["bias_out"]
    if aggregator == "gcn":
        return closed.double() @ x / closed.sum(dim=1, keepdim=True) @ w["weight"] + bias
    z = edge.double() @ x
    if aggregator == "mean":
        z = z / edge.sum(dim=1, keepdim=True).clamp(min=1)
    if aggregator == "max":
        each = x.expand(len(a), *x.shape).masked_fill(~edge[:, :, None], -torch.inf)
        z = torch.where(edge.any(dim=1)[:, None], each.max(dim=1).values, 0)
    return z @ w["weight"] + own @ w["weight_self"] + bias


def train_model(
    model: str,
    aggregator: str,
    a: np.ndarray,
    features: np.ndarray,
    labels: np.ndarray,
    train: np.ndarray,
    weights: dict[str, np.ndarray],
    epochs: int,
    lr: float,
) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses of all epochs and the final weights, by gradient descent; float64, torch's autograd.

    Parameters are named ``convs.LAYER.NAME``; between layers there is a ReLU.
    """
    matrix = torch.tensor(a, dtype=torch.float64)
    parameters = {
        k: torch.tensor(w, dtype=torch.float64, requires_grad=True) for k, w in weights.items()
    }
    layers = 1 + max(int(name.split(".")[1]) for name in weights)
    chosen = np.flatnonzero(train & (labels >= 0))
    target = torch.tensor(labels[chosen], dtype=torch.int64)
    losses = []
    for _ in range(epochs):
        h = torch.tensor(features, dtype=torch.float64)
        for k in range(layers):
            prefix = f"convs.{k}."
            own = {name.removeprefix(prefix): w for name, w in parameters.items() if prefix in name}
            h = dense_convolution(model, aggregator, matrix, own, h)
            h = torch.relu(h) if k < layers - 1 else h
        loss = torch.nn.functional.cross_entropy(h[chosen], target)
        gradients = torch.autograd.grad(loss, list(parameters.values()))
        with torch.no_grad():
            for w, gradient in zip(parameters.values(), gradients, strict=True):
                w -= lr * gradient
        losses.append(loss.item())
    return losses, {k: w.detach().numpy() for k, w in parameters.items()}


def live_sets(a: np.ndarray, wanted: list[int], layers: int) -> list[set[int]]:
    """Vertices that are inputs of layer 1, 2, ... and the outputs of the last."""
    sets = [set(wanted)]
    for _ in range(layers):
        needed = {j for i in sets[0] for j in range(len(a)) if a[i, j]}
        sets.insert(0, sets[0] | needed)
    return sets
