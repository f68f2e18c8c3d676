"""0c and cd-r of DistGNN beside dense simulations: per-part copies, whole histories, autograd."""

from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import rank_tasks
import runs
import torch
import worlds
from cases import turns

from plancc.errors import PlanccError
from plancc.graph.owners import Owners
from plancc.graph.vertexdata import VertexData
from plancc.plan.lowering import lower
from plancc.plan.parts import Part
from plancc.plan.plan import Plan
from plancc.plan.values import Header
from plancc.sampling.counter import key_of
from plancc_runtime.layouts.clones import bin_of
from plancc_runtime.nn.dropout import dropout
from plancc_runtime.options import TrainOptions
from plancc_runtime.results import TrainResult
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks

N, FEATURES, CLASSES, LR = 40, 5, 3, 0.3
COMMON = {
    **{"hidden": 4, "activation": "tanh", "optimizer": "sgd", "lr": LR, "dtype": "float64"},
    **{"eval_every": 0, "kernel": "numba", "threads": 1},
}
MODELS = {
    "gcn": {},
    "mean": {"model": "sage"},
    "sum": {"model": "sage", "aggregator": "sum"},
    "closed-mean": {"model": "sage", "aggregator": "gcn"},
    "gin": {"model": "gin", "model_options": {"train_eps": True}},
}
CASES = [
    *((name, 2, True) for name in MODELS),
    ("gcn", 3, True),
    ("mean", 2, False),
    ("closed-mean", 3, False),
]
PASSES = [(), ("order", "constant")]


@dataclass
class Case:
    """A dense matrix, whose nonzeros have owners, and vertex data."""

    a: np.ndarray
    owner: np.ndarray
    nonzero_owner: np.ndarray  # [N, N]
    self_loops: bool
    data: VertexData

    @property
    def num_parts(self) -> int:
        return int(self.owner.max()) + 1

    def plan(self) -> Plan:
        owners = Owners(
            self.owner.astype(np.int32), self.nonzero_owner[self.a != 0].astype(np.int32)
        )
        plan = lower(
            *(worlds.graph_of(self.a, directed=True), owners, self.num_parts),
            **{"normalization": "none", "self_loops": self.self_loops},
        )
        return replace(plan, vertex_data=self.data.take(plan.global_id))

    def clones(self, part: int) -> np.ndarray:
        """Vertices of which a part has a row: bool[N]."""
        held = (self.a != 0) & (self.nonzero_owner == part)
        return held.any(axis=0) | held.any(axis=1) | (self.owner == part)


def case(num_parts: int, self_loops: bool = True, seed: int = 0) -> Case:
    """Directed; values of all sizes; without added self loops every third vertex has an edge to
    itself. Few training vertices, none in the last part."""
    random = np.random.default_rng(seed)
    a = (random.random((N, N)) < 0.1) * random.uniform(0.1, 0.4, (N, N))
    own = random.uniform(0.2, 0.5, N)
    np.fill_diagonal(a, own if self_loops else own * (np.arange(N) % 3 == 0))
    owner = random.integers(0, num_parts, N)
    owner[:num_parts] = np.arange(num_parts)
    nonzero_owner = random.integers(0, num_parts, (N, N))
    np.fill_diagonal(nonzero_owner, owner)
    train_mask = (random.random(N) < 0.5) & ((owner < num_parts - 1) | (num_parts == 1))
    data = VertexData(
        features=random.normal(size=(N, FEATURES)).astype(np.float32),
        labels=random.integers(0, CLASSES, N).astype(np.int32),
        train_mask=train_mask,
    )
    return Case(a, owner, nonzero_owner, self_loops, data)


def slices(plan: Plan) -> tuple[Header, list[Part]]:
    return plan.header, [plan.part(m) for m in range(plan.num_parts)]


def trained(this: Case | Path, epochs: int, *, ranks: int = 3, **options) -> TrainResult:
    """Train a case on as many ranks as it has parts, or a plan file."""
    chosen = TrainOptions(epochs=epochs, **{**COMMON, **options})
    if isinstance(this, Path):
        return runs.trained(this, chosen, ranks)[0]
    return runs.trained(slices(this.plan()), chosen)[0]


def coefficients(this: Case, name: str, part: int, at_hand: bool) -> tuple[np.ndarray, np.ndarray]:
    """What a part multiplies by, and what its leaves add of their own rows.

    Means are over all edges, or over those of the part alone. The owner of a row holds its
    diagonal, also where the plan has none.
    """
    diagonal = np.eye(N, dtype=bool)
    held = np.where(diagonal, this.owner[:, None], this.nonzero_owner) == part
    leaf = this.clones(part) & (this.owner != part)
    if name == "gcn":
        return this.a * held, np.diag(this.a) * leaf
    edges = (this.a != 0) & ~(diagonal & this.self_loops)
    if name in ("sum", "gin"):
        return edges * held * 1.0, np.zeros(N)
    if name == "closed-mean":
        edges = edges | diagonal
    else:
        leaf = np.zeros(N, bool)
    counted = edges & (held | np.diag(leaf)) if at_hand else edges
    mean = edges / np.maximum(counted.sum(axis=1, keepdims=True), 1)
    return mean * held, np.diag(mean) * leaf


def layer(name: str, w: dict[str, torch.Tensor], k: int, h: torch.Tensor, z: torch.Tensor):
    """Output rows from input rows and their sums."""
    own = {key.split(".", 2)[2]: value for key, value in w.items() if key.startswith(f"convs.{k}.")}
    if name in ("mean", "sum"):
        return z @ own["weight"] + h @ own["weight_self"] + own["bias"]
    if name == "gin":
        inner = (z + (1 + own["eps"]) * h) @ own["weight"] + own["bias"]
        return torch.relu(inner) @ own["weight_out"] + own["bias_out"]
    return z @ own["weight"] + own["bias"]


def simulated(
    this: Case,
    name: str,
    layers: int,
    epochs: int,
    weights: dict,
    delay: int | None,
    rate: float = 0.0,
) -> tuple[list[float], dict[str, np.ndarray]]:
    """Losses and final weights of 0c (`delay` None) or cd-r: every part has its copy of all rows.

    What a vertex receives in epoch e is looked up in the histories of the partial sums and of the
    roots' sums, at the last turn of its bin that is late enough.
    """
    parts, owner = range(this.num_parts), this.owner
    leaf = [this.clones(m) & (owner != m) for m in parts]
    both = [coefficients(this, name, m, at_hand=not delay) for m in parts]
    local = [torch.tensor(matrix) for matrix, _ in both]
    itself = [torch.tensor(of_itself[:, None]) for _, of_itself in both]
    turn = bin_of(np.arange(N, dtype=np.int32), delay) if delay else None

    def own(part: int) -> torch.Tensor:
        return torch.tensor(owner[:, None] == part)

    w = {key: torch.tensor(value, requires_grad=True) for key, value in weights.items()}
    partials, totals = {}, {}  # (epoch, layer) -> rows
    labels = torch.tensor(this.data.labels, dtype=torch.int64)
    losses = []
    for epoch in range(epochs):
        h = [torch.tensor(this.data.features, dtype=torch.float64)] * len(parts)
        for k in range(layers):
            if rate:
                mask = torch.ones(h[0].shape, dtype=torch.float64)
                mask = dropout(mask, rate, key_of(1, epoch, k), torch.arange(N, dtype=torch.int32))
                h = [rows * mask for rows in h]
            partial = [local[m] @ h[m] for m in parts]
            z = [partial[m] + itself[m] * h[m] for m in parts]
            if delay:
                partials[epoch, k] = [p.detach().clone() for p in partial]
                root = sum(own(m) * z[m] for m in parts).detach()
                late = [epoch - (epoch - bin) % delay for bin in range(delay)]  # their last turns
                for m, bin in product(parts, range(delay)):
                    if late[bin] >= delay:
                        mine = leaf[m] & (turn == bin)
                        root[mine] += partials[late[bin] - delay, k][m][mine]
                totals[epoch, k] = root
                received = [torch.where(own(m), root, z[m].detach()) for m in parts]
                for m, bin in product(parts, range(delay)):
                    if late[bin] >= 2 * delay:
                        mine = leaf[m] & (turn == bin)
                        received[m][mine] = totals[late[bin] - delay, k][mine]
                z = [z[m] + received[m] - z[m].detach() for m in parts]
            h = [layer(name, w, k, h[m], z[m]) for m in parts]
            if k < layers - 1:
                h = [torch.tanh(rows) for rows in h]
        output = sum(own(m) * h[m] for m in parts)
        mask = torch.tensor(this.data.train_mask)
        loss = torch.nn.functional.cross_entropy(output[mask], labels[mask])
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, list(w.values()))
        with torch.no_grad():
            for value, gradient in zip(w.values(), gradients, strict=True):
                value -= LR * gradient
    return losses, {key: value.detach().numpy() for key, value in w.items()}


@cache
def initial_weights(name: str, layers: int) -> dict[str, np.ndarray]:
    return trained(case(1), 0, layers=layers, **MODELS[name]).weights


RUNS = [  # model, layers, whether loops are added, parts, epochs, delay, dropout
    *((*case, 4, 3, None, 0.0) for case in CASES[1::2]),
    *((*case, 3, 7, 2, 0.0) for case in CASES[::2]),
    *(("gcn", 3, True, 4, 3 * delay + 3, delay, 0.0) for delay in (1, 3)),
    *(("mean", 2, True, 3, 6, delay, 0.4) for delay in (None, 2)),  # of all copies the same
]


@turns(passes=PASSES, chosen=RUNS)
def test_a_run_is_the_simulation_of_copies(passes, chosen):
    """Copies ignore each other, or hear of each other's sums late."""
    name, layers, self_loops, parts, epochs, delay, rate = chosen
    this = case(parts, self_loops)
    fold = {"fold": "delayed", "delay": delay} if delay else {"fold": "none"}
    options = {"layers": layers, **MODELS[name], "dropout": rate, "passes": passes}
    found = trained(this, epochs, **options, **fold)
    start = initial_weights(name, layers)
    losses, weights = simulated(this, name, layers, epochs, start, delay, rate)
    np.testing.assert_allclose([epoch.loss for epoch in found.epochs], losses, rtol=1e-9)
    assert found.weights.keys() == weights.keys()
    for key, value in weights.items():
        np.testing.assert_allclose(found.weights[key], value, rtol=1e-7, atol=1e-10)
    assert len(set(losses)) == epochs


def test_evaluation_has_the_exact_product():
    this = case(4)
    for fold in ("none", "delayed"):
        found = trained(this, 3, fold=fold, eval_every=1)
        if fold == "none":  # no epoch sends a word
            assert {(each.words_sent, each.messages_sent) for each in found.epochs} == {(0, 0)}
            assert found.figures.planned == 0
        h = np.asarray(this.data.features, np.float64)
        h = np.tanh(this.a @ h @ found.weights["convs.0.weight"] + found.weights["convs.0.bias"])
        z = torch.tensor(this.a @ h @ found.weights["convs.1.weight"])
        z += torch.tensor(found.weights["convs.1.bias"])
        chosen = torch.tensor(this.data.train_mask)
        labels = torch.tensor(this.data.labels, dtype=torch.int64)
        loss = torch.nn.functional.cross_entropy(z[chosen], labels[chosen]).item()
        np.testing.assert_allclose(found.final.loss, loss, rtol=1e-10)
        unseen = trained(this, 3, fold=fold)
        assert found.weights.keys() == unseen.weights.keys()
        for key, value in found.weights.items():
            np.testing.assert_array_equal(value, unseen.weights[key])


def leaves_of_bins(this: Case, delay: int) -> np.ndarray:
    """Leaves of all parts, by bin: int[delay]."""
    counts = sum((this.clones(m) & (this.owner != m)).astype(int) for m in range(this.num_parts))
    return np.bincount(bin_of(np.arange(N, dtype=np.int32), delay), counts, delay).astype(int)


@pytest.mark.parametrize("constant", [False, True])
def test_words_of_delayed_epochs(constant):
    """Partial sums from epoch 0 on, totals r epochs later; of constant features once."""
    this, r, width = case(4), 3, COMMON["hidden"]
    passes = ("constant",) if constant else ()
    found = trained(this, 3 * r + 2, fold="delayed", delay=r, layers=3, passes=passes)
    leaves = leaves_of_bins(this, r)
    assert (leaves > 0).all()
    for epoch in found.epochs:
        e, rows = epoch.epoch, leaves[epoch.epoch % r]
        first = (e < r) + (r <= e < 2 * r) if constant else 1 + (e >= r)
        columns = FEATURES * first + width * (1 + (e >= r)) + width
        assert epoch.words_sent == rows * columns
    per_epoch = leaves.sum() * (3 * width + (0 if constant else 2 * FEATURES)) / r
    assert found.figures is not None
    assert found.figures.planned == pytest.approx(per_epoch, abs=2)


def test_bins_are_even_and_depend_on_the_vertex_alone():
    vertices = np.random.default_rng(0).permutation(10_000).astype(np.int32)
    bins = bin_of(vertices, 5)
    assert bins.min() == 0
    sizes = np.bincount(bins, minlength=5)
    assert len(sizes) == 5
    assert np.abs(sizes - 2000).max() < 5 * np.sqrt(2000)
    np.testing.assert_array_equal(bin_of(vertices[:100], 5), bins[:100])
    assert bin_of(vertices, 1).max() == 0


ENDINGS = {
    "all epochs": {},
    "fewer epochs than the delay": {"delay": 9},
    "early": {"patience": 2, "eval_every": 1, "lr": 3.0},
    "the loss of epoch": {"layers": 3, "lr": 3e38, "weight_decay": 1e30},
}


@turns(ending=ENDINGS, passes=[(), ("constant",)])
def test_rounds_under_way_are_finished_at_the_end(ending, passes):
    this, options = case(3), ENDINGS[ending]
    val_mask = ~this.data.train_mask
    plan = replace(this, data=replace(this.data, val_mask=val_mask)).plan()
    chosen = {**COMMON, "epochs": 8, "fold": "delayed", "delay": 3, "passes": passes, **options}
    under_way, most = [0, 0, 0], [0, 0, 0]

    def work(transport):
        rank, make = transport.rank, transport.exchange

        def exchange(sends, receives):
            made = make(sends, receives)
            start, finish = made.start, made.finish

            def count_start():
                under_way[rank] += 1
                most[rank] = max(most[rank], under_way[rank])
                start()

            def count_finish():
                finish()
                under_way[rank] -= 1

            made.start, made.finish = count_start, count_finish
            return made

        transport.exchange = exchange
        part = plan.part(transport.rank)
        return train((plan.header, part), TrainOptions(**chosen), transport)

    if ending == "the loss of epoch":
        with pytest.raises(PlanccError, match=ending):
            run_ranks(3, work, timeout=180)
    else:
        [result, *_] = run_ranks(3, work, timeout=180)
        assert (len(result.epochs) < 8) == (ending == "early")
    assert min(most) > 2
    assert under_way == [0, 0, 0]


@pytest.mark.mpi
def test_messages_of_mpi_may_be_late(ranks):
    """Several rounds of one pair of ranks are under way, evaluations between."""
    this, epochs = case(2), 9
    options = {**COMMON, "layers": 3, "epochs": epochs, "fold": "delayed", "delay": 2}
    options["eval_every"] = 2
    plan = slices(this.plan())
    result, _ = ranks.call(2, rank_tasks.trained, plan, options)[0]
    losses = [epoch.loss for epoch in result.epochs]
    expected = trained(this, epochs, layers=3, fold="delayed", delay=2)
    np.testing.assert_allclose(losses, [epoch.loss for epoch in expected.epochs], rtol=1e-12)
    for key, value in expected.weights.items():
        np.testing.assert_allclose(result.weights[key], value, rtol=1e-9)
