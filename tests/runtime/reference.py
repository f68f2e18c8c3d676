"""What the runtime must compute, by other means: naive sets, dense float64 matrices, one process.

Plans are lowered by plancc, whose tables are held in tests/plan/; all else shares nothing with it.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
import worlds

from plancc.graph.owners import Owners
from plancc.graph.vertexdata import VertexData
from plancc.plan.lowering import lower
from plancc.plan.parts import Part
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


def in_plan_order(vertices: Iterable[int], a: np.ndarray, owner: np.ndarray) -> list[int]:
    """Vertices in the order of a plan's rows: those that need no row of another part first."""
    crossing = ((a != 0) & (owner[:, None] != owner)).any(axis=1)
    return sorted(vertices, key=lambda v: (crossing[v], v))


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
    a: np.ndarray,
    owner: Any,
    num_parts: int,
    data: VertexData | None = None,
    holder: np.ndarray | None = None,
) -> tuple[Header, list[Part]]:
    """A plan of the dense matrix `a`, to whose diagonal loops were added; `data` in vertex order.

    With `holder` an edge plan, whose nonzero (i, j) is with part ``holder[i, j]``.
    """
    held = None if holder is None else holder[np.nonzero(a)].astype(np.int32)
    owners = Owners(np.asarray(owner, np.int32), held)
    graph = worlds.graph_of(a.astype(np.float64))
    plan = lower(graph, owners, num_parts, normalization="sym", self_loops=True)
    plan = replace(plan, vertex_data=(data or VertexData()).take(plan.global_id))
    return plan.header, [plan.part(m) for m in range(num_parts)]


def descend(
    parameters: list[torch.Tensor],
    losses: Iterable[torch.Tensor],
    lr: float,
    optimizer: str = "sgd",
) -> list[float]:
    """The values of losses, each made of the parameters as they are once it is asked for."""
    first, second = ([torch.zeros_like(w) for w in parameters] for _ in range(2))
    values = []
    for step, loss in enumerate(losses, 1):
        values.append(loss.item())
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
    return values


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
    chosen = np.flatnonzero(train & (labels >= 0))
    batch = [a] * len(weights), chosen
    given = features, labels
    losses, weights = train_in_batches([batch] * epochs, *given, weights, lr, optimizer, activation)
    z = gcn(batch[0], features, [torch.tensor(w) for w in weights], activation)
    target = torch.tensor(labels[chosen], dtype=torch.int64)
    final = torch.nn.functional.cross_entropy(z[chosen], target)
    return [*losses, final.item()], weights, z.numpy()


def train_in_batches(
    batches: list[tuple[list[np.ndarray], np.ndarray]],
    features: np.ndarray,
    labels: np.ndarray,
    weights: list[np.ndarray],
    lr: float,
    optimizer: str,
    activation: str,
) -> tuple[list[float], list[np.ndarray]]:
    """Losses of all steps and the final weights; float64.

    A batch is its dense matrix of every layer, and the vertices that count for its loss.
    """
    parameters = [torch.tensor(w, dtype=torch.float64, requires_grad=True) for w in weights]

    def loss(matrices: list[np.ndarray], chosen: np.ndarray) -> torch.Tensor:
        z = gcn(matrices, features, parameters, activation)
        target = torch.tensor(labels[chosen], dtype=torch.int64)
        return torch.nn.functional.cross_entropy(z[chosen], target) if len(chosen) else 0 * z.sum()

    losses = (loss(*batch) for batch in batches)
    values = descend(parameters, losses, lr, optimizer)
    return values, [w.detach().numpy() for w in parameters]


def gcn(
    matrices: list[np.ndarray], features: np.ndarray, weights: list[torch.Tensor], activation: str
) -> torch.Tensor:
    """The logits of a GCN with a dense matrix for every layer."""
    act = {"relu": torch.relu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}.get(activation)
    h = torch.tensor(features, dtype=torch.float64)
    for k, (a, w) in enumerate(zip(matrices, weights, strict=True)):
        h = torch.tensor(a, dtype=torch.float64) @ h @ w
        h = act(h) if act and k < len(weights) - 1 else h
    return h


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


def model_outputs(
    model: str,
    aggregator: str,
    matrix: torch.Tensor,
    h: torch.Tensor,
    parameters: dict[str, torch.Tensor],
    residual: bool = False,
    self_loops: bool = True,
) -> torch.Tensor:
    """The outputs of the last layer; as `train_model` has it."""
    layers = 1 + max(int(name.split(".")[1]) for name in parameters if "convs." in name)
    for k in range(layers):
        prefix = f"convs.{k}."
        own = {name.removeprefix(prefix): w for name, w in parameters.items() if prefix in name}
        z = dense_convolution(model, aggregator, matrix, own, h, self_loops=self_loops)
        if k < layers - 1:
            skip = parameters.get(f"skips.{k}.weight")
            z = torch.relu(z)
            if residual:
                z = z + (h if skip is None else h @ skip.T)
        h = z
    return h


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
    residual: bool = False,
    self_loops: bool = True,
) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses of all epochs and the final weights, by gradient descent; float64.

    Parameters are named ``convs.LAYER.NAME``; between layers there is a ReLU, and with `residual`
    what went into the layer is added, times ``skips.LAYER.weight`` where there is one.
    """
    matrix = torch.tensor(a, dtype=torch.float64)
    x = torch.tensor(features, dtype=torch.float64)
    parameters = {
        k: torch.tensor(w, dtype=torch.float64, requires_grad=True) for k, w in weights.items()
    }
    chosen = np.flatnonzero(train & (labels >= 0))
    target = torch.tensor(labels[chosen], dtype=torch.int64)

    def loss() -> torch.Tensor:
        h = model_outputs(model, aggregator, matrix, x, parameters, residual, self_loops)
        return torch.nn.functional.cross_entropy(h[chosen], target)

    values = descend(list(parameters.values()), (loss() for _ in range(epochs)), lr)
    return values, {k: w.detach().numpy() for k, w in parameters.items()}


def coefficients(a: np.ndarray, loops: bool) -> dict[str, np.ndarray]:
    """Dense matrices by the name of what a product multiplies by; with `loops` the diagonal of
    `a` was added and is no edge."""
    edge = (a != 0).astype(float)
    if loops:
        np.fill_diagonal(edge, 0)
    closed = np.maximum(edge, np.eye(len(a)))
    return {
        "plan": a,
        "mean": edge / np.maximum(edge.sum(axis=1, keepdims=True), 1),
        "sum": edge,
        "closed-mean": closed / closed.sum(axis=1, keepdims=True),
    }


def bound(wire: str, rows: np.ndarray) -> np.ndarray:
    """The most by which every number may be off once it has travelled."""
    rows = np.abs(rows)
    return (1 + 2.0**-20) * {"fp32": np.zeros_like(rows), "bf16": 2.0**-8 * rows}[wire]


class Dense:
    """A GCN of two layers on one dense matrix, and the loss of (outputs, targets) it lowers."""

    def __init__(self, a: np.ndarray, data: VertexData, dims: list[int], loss: Callable) -> None:
        self.a, self.x = torch.tensor(a), torch.tensor(data.features).double()
        self.weights = [torch.tensor(w, requires_grad=True) for w in glorot_weights(dims, 1)]
        truth = data.labels if data.targets is None else data.targets
        known = truth >= 0 if truth.ndim == 1 else ~np.isnan(truth.astype(float)).any(axis=1)
        self.rows = {
            name: np.flatnonzero(getattr(data, f"{name}_mask") & known)
            for name in ("train", "val", "test")
        }
        self.truth, self.criterion = torch.tensor(truth), loss
        self.clipped = 0

    def outputs(self) -> torch.Tensor:
        return self.a @ torch.relu(self.a @ self.x @ self.weights[0]) @ self.weights[1]

    def of(self, split: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Return outputs and targets of the known vertices of a split."""
        return self.outputs()[self.rows[split]], self.truth[self.rows[split]]

    def loss(self, split: str = "train") -> torch.Tensor:
        return self.criterion(*self.of(split))

    def step(self, optimizer: torch.optim.Optimizer, clip_norm: float = np.inf) -> float:
        """Update the weights; return the loss before that."""
        optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        if clip_norm < np.inf:
            self.clipped += torch.nn.utils.clip_grad_norm_(self.weights, clip_norm) > clip_norm
        optimizer.step()
        return loss.item()


def close(got: Any, expected: Any, tolerance: float) -> None:
    """Assert that all differences are small beside the largest number that is expected."""
    scale = np.abs(expected).max(initial=0) or 1
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * scale)


def mix(x: int) -> int:
    """splitmix64 (Steele, Lea and Flood 2014), in Python's integers."""
    z = (x + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def key_of(*numbers: int) -> int:
    """What a seed and what it is drawn for make together."""
    key = 0
    for number in numbers:
        key = mix(key ^ mix(number))
    return key


def live_sets(a: np.ndarray, wanted: list[int], layers: int) -> list[set[int]]:
    """Vertices that are inputs of layer 1, 2, ... and the outputs of the last."""
    sets = [set(wanted)]
    for _ in range(layers):
        needed = {j for i in sets[0] for j in range(len(a)) if a[i, j]}
        sets.insert(0, sets[0] | needed)
    return sets
