"""The distributed run against a dense float64 reference, on 1 to 5 real MPI ranks."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import reference
import torch
from launcher import run

from plancc.graph.vertexdata import VertexData
from plancc_runtime.transport.base import usable_cores

RANK_MAIN = Path(__file__).with_name("rank_main.py")
EPOCHS = 5
RANKS = (1, 2, 3, 5)


def graphs(num_parts: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """name -> (normalised matrix, owners): the shapes that break communication plans."""
    random = np.random.default_rng(num_parts)
    directed = random.random((40, 40)) < 0.08
    isolated = directed.copy()
    isolated[::5], isolated[:, ::5] = False, False
    # everything flows from part 0: it receives nothing, the others send nothing
    star = np.zeros((40, 40), bool)
    star[:, :3] = True
    owner = random.integers(0, num_parts, 40)
    owner[:num_parts] = np.arange(num_parts)  # no part is empty
    blocks = np.arange(40) * num_parts // 40
    unscaled = np.where(directed, random.standard_normal((40, 40)), 0)  # no diagonal
    diagonal = np.eye(40)  # nothing is sent at all
    star[:3] = False
    return {
        "undirected": (reference.normalised(directed | directed.T), owner),
        "directed": (reference.normalised(directed), owner),
        "isolated": (reference.normalised(isolated), owner),
        "one way": (reference.normalised(star), blocks),
        "weights": (unscaled, blocks),
        "silent": (diagonal, owner),
    }


def data() -> VertexData:
    random = np.random.default_rng(99)
    train = random.random(40) < 0.6
    return VertexData(
        features=random.standard_normal((40, 12)).astype(np.float32),
        labels=random.integers(-1, 5, 40).astype(np.int32),
        train_mask=train,
        val_mask=~train & (np.arange(40) % 2 == 0),
        test_mask=~train & (np.arange(40) % 2 == 1),
    )


COMMON = {
    "epochs": EPOCHS,
    "optimizer": "sgd",
    "parametrization": "paper",  # as the dense reference has it
    "dtype": "float64",
    "threads": 1,
    "passes": (),
    "eval_every": 1,
}
VARIANTS = [
    {"optimizer": "sgd", "activation": "relu", "layers": 2, "lr": 0.5, "hidden": 7},
    {"optimizer": "adam", "activation": "tanh", "layers": 3, "lr": 0.05, "hidden": 12},
    {"optimizer": "sgd", "activation": "sigmoid", "layers": 1, "lr": 0.1},
    {"optimizer": "adam", "activation": "none", "layers": 2, "lr": 0.02, "hidden": 5},
]
DISAGREEMENTS = [
    {},
    {0: "Ino such file"},
    {-1: "Pbroken slice"},
    {0: "Isame", -1: "Isame"},
    {0: "Pone", -1: "Ianother"},
]


def train_cases(num_parts: int):
    """(name, matrix, owners, data, options); every graph, every variant, both dtypes."""
    for k, (name, (a, owner)) in enumerate(graphs(num_parts).items()):
        for dtype in ("float32", "float64"):
            yield name, a, owner, data(), {**COMMON, **VARIANTS[k % len(VARIANTS)], "dtype": dtype}
    a, owner = graphs(num_parts)["directed"]
    for variant in VARIANTS:
        yield "directed", a, owner, data(), {**COMMON, **variant}
    yield "random data", a, owner, None, {**COMMON, "features": 9, "classes": 4, "seed": 3}


def all_tasks(p: int) -> list[tuple[str, dict]]:
    tasks = []
    for _, a, owner, vertex_data, options in train_cases(p):
        header, parts = reference.make_parts(a, owner, p, vertex_data)
        tasks.append(("train", {"header": header, "parts": parts, "options": options}))
    for a, owner in graphs(p).values():
        header, parts = reference.make_parts(a, owner, p)
        common = {"header": header, "parts": parts, "seed": 5}
        # messages each on its own, in groups of a few, all in one
        for dtype, width, group in ((torch.float32, 3, 1), (torch.float64, 1, 10)):
            product = {**common, "width": width, "dtype": dtype, "group": group}
            tasks.append(("product", product))
        if p > 1:
            tasks.append(("product", {**product, "group": 2000, "max_words": 2}))
    for failing in DISAGREEMENTS:
        tasks.append(("agree", {"failing": {r % p: text for r, text in failing.items()}}))
    tasks.append(("threads", {}))
    for values in ([b"one"] * p, [b"one"] * (p - 1) + [b"other"], [b""] * p):
        tasks.append(("all_equal", {"values": values}))
    _, parts = reference.make_parts(*graphs(p)["undirected"], p)
    tasks.append(("check_slices", {"parts": parts, "contents": ["hash"] * p}))
    if p > 1:
        other = {"parts": parts, "contents": ["hash"] * (p - 1) + ["x"]}
        tasks.append(("check_slices", other))
        tasks.append(("check_slices", {**other, "paths": ["same.h5"] * p}))
        tasks.append(("check_slices", {**other, "paths": ["a.h5"] * (p - 1) + ["b.h5"]}))
        torn = replace(parts[1], send_ptr=parts[1].send_ptr.copy())
        torn.send_ptr[-1] -= 1
        parts = [parts[0], torn, *parts[2:]]
        tasks.append(("check_slices", {"parts": parts, "contents": ["hash"] * p}))
    return tasks


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> dict[int, list[tuple[str, dict, list]]]:
    """All tasks of all numbers of ranks, done in one launch."""
    folder = tmp_path_factory.mktemp("ranks")
    todo = {p: all_tasks(p) for p in RANKS}
    inputs, outputs = folder / "tasks.pkl", folder / "answers.pkl"
    inputs.write_bytes(pickle.dumps(todo))
    done = run(max(RANKS), RANK_MAIN, inputs, outputs, timeout=200)
    assert done.returncode == 0, done.stderr
    results = pickle.loads(outputs.read_bytes())
    return {
        p: [(*task, result) for task, result in zip(todo[p], results[p], strict=True)]
        for p in RANKS
    }


def of_kind(answers, p: int, kind: str) -> list[tuple[dict, list]]:
    return [(arguments, result) for k, arguments, result in answers[p] if k == kind]


def close(got, expected, tolerance):
    scale = np.abs(expected).max() or 1
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance * scale)


@pytest.mark.mpi
@pytest.mark.parametrize("p", RANKS)
def test_training_equals_the_dense_reference(p, answers):
    for (name, a, owner, vertex_data, options), (arguments, ranks) in zip(
        train_cases(p), of_kind(answers, p, "train"), strict=True
    ):
        if vertex_data is None:
            vertex_data = random_data(options["seed"], options["features"], options["classes"])
        results = [result for result, _ in ranks]
        result = results[0]
        layers, hidden = options.get("layers", 2), options.get("hidden", 16)
        num_classes = 4 if name == "random data" else 5
        dims = [vertex_data.features.shape[1], *[hidden] * (layers - 1), num_classes]
        assert result.dims == dims
        weights = reference.glorot_weights(dims, options.get("seed", 0))
        losses, trained, logits = reference.train_dense(
            a,
            vertex_data.features,
            vertex_data.labels,
            vertex_data.train_mask,
            weights,
            EPOCHS,
            options.get("lr", 0.01),
            options["optimizer"],
            options.get("activation", "relu"),
        )
        tolerance = 1e-5 if options["dtype"] == "float32" else 1e-11
        close([e.loss for e in (*result.epochs, result.final)], losses, tolerance)
        for got, expected in zip(result.weights.values(), trained, strict=True):
            assert got.dtype == options["dtype"]
            close(got, expected, tolerance)
        for other in results[1:]:  # replicated means bit for bit
            assert list(other.weights) == list(result.weights)
            for name, w in other.weights.items():
                np.testing.assert_array_equal(w, result.weights[name])
            assert [e.loss for e in other.epochs] == [e.loss for e in result.epochs]
        check_accuracy(result, vertex_data, logits)
        check_words(result, a, owner, dims, [t for _, t in ranks], arguments["parts"])


def random_data(seed, width, classes):
    from plancc_runtime.data import random_features, random_labels

    vertex = np.arange(40)
    return VertexData(
        features=random_features(vertex, width, seed),
        labels=random_labels(vertex, classes, seed),
        train_mask=np.ones(40, bool),
    )


def check_accuracy(result, vertex_data, logits):
    right = logits.argmax(axis=1) == vertex_data.labels
    for split, accuracy in result.final.accuracy.items():
        mask = getattr(vertex_data, f"{split}_mask") & (vertex_data.labels >= 0)
        assert accuracy == pytest.approx(right[mask].mean()), split
        assert result.split_sizes[split] == mask.sum()


def check_words(result, a, owner, dims, traffic, parts):
    """Counted by the transport == volume * sum_k (d_{k-1} + d_k), volume counted by sets."""
    rows = reference.volume(a, owner)
    per_epoch = rows * sum(x + y for x, y in pairwise(dims))
    final = rows * sum(dims[:-1])
    size = np.dtype(result.options.dtype).itemsize
    for epoch in result.epochs:
        assert epoch.words_sent == per_epoch
        assert epoch.bytes_sent == per_epoch * size
        assert epoch.messages_sent == 2 * (len(dims) - 1) * len(reference.needed_rows(a, owner))
    assert result.final.words_sent == final
    sent, received = sum(t[1] for t in traffic), sum(t[4] for t in traffic)
    assert sent == received == EPOCHS * per_epoch + final
    most = max(
        len(p.send_row) * sum(dims[:-1]) + int(p.recv_ptr[-1]) * sum(dims[1:]) for p in parts
    )
    assert all(e.words_sent_max == most for e in result.epochs)


@pytest.mark.mpi
@pytest.mark.parametrize("p", RANKS)
def test_adjoint_is_the_transpose(p, answers):
    checked = 0
    for arguments, ranks in of_kind(answers, p, "product"):
        dense = np.zeros((40, 40))
        for part in arguments["parts"]:  # the matrix again, from the parts
            local = np.concatenate([part.global_id, halo_vertices(arguments["parts"], part)])
            for r, i in enumerate(part.global_id):
                at = slice(part.row_ptr[r], part.row_ptr[r + 1])
                dense[i, local[part.column[at]]] = part.value[at]
        whole = [np.zeros((40, arguments["width"])) for _ in range(4)]
        for rows, *locals_ in ranks:
            for target, values in zip(whole, locals_, strict=True):
                target[rows] = values
        h, g, forward, adjoint = whole
        tolerance = 1e-6 if arguments["dtype"] == torch.float32 else 1e-14
        close(forward, dense @ h, tolerance)
        close(adjoint, dense.T @ g, tolerance)
        assert np.vdot(forward, g) == pytest.approx(np.vdot(h, adjoint), rel=1e-4, abs=1e-4)
        checked += 1
    assert checked == len(graphs(p)) * (2 if p == 1 else 3)


def halo_vertices(parts, part):
    pieces = [np.empty(0, np.int32)]
    for peer in part.recv_peer:
        sender = parts[peer]
        k = int(np.flatnonzero(sender.send_peer == part.index)[0])
        rows = sender.send_row[sender.send_ptr[k] : sender.send_ptr[k + 1]]
        pieces.append(sender.global_id[rows])
    return np.concatenate(pieces)


@pytest.mark.mpi
@pytest.mark.parametrize("p", [1, 2, 3])
def test_an_error_of_one_rank_is_raised_by_all(p, answers):
    seen = [ranks for _, ranks in of_kind(answers, p, "agree")]
    for ranks in seen:
        assert ranks == [ranks[0]] * p
    assert seen[0][0] is None
    first, last = "rank 0: ", f"rank {p - 1}: "
    if p == 1:
        assert seen[1][0] == ("InputError", "no such file", True)
        assert seen[2][0] == ("PlanError", "broken slice", True)
    else:
        assert seen[1][0] == ("InputError", first + "no such file", True)
        assert seen[2][0] == ("PlanError", last + "broken slice", True)
        same = "same" if p == 2 else "ranks 0, 2: same"
        assert seen[3][0] == ("InputError", same, True)
        assert seen[4][0] == ("PlanError", f"{first}one; {last}another", True)


@pytest.mark.mpi
@pytest.mark.parametrize("p", [1, 5])
def test_threads_share_the_machine(p, answers):
    [(_, threads)] = of_kind(answers, p, "threads")
    cores = len(usable_cores())
    assert all(1 <= t <= max(1, cores // p) for t in threads)


@pytest.mark.mpi
@pytest.mark.parametrize("p", RANKS)
def test_ranks_notice_that_they_differ(p, answers):
    same, different, empty = (result for _, result in of_kind(answers, p, "all_equal"))
    assert same == empty == [True] * p
    assert different == [p == 1] * p


@pytest.mark.mpi
@pytest.mark.parametrize("p", RANKS)
def test_slices_that_do_not_fit_are_an_error_and_not_a_hang(p, answers):
    good, *bad = (result for _, result in of_kind(answers, p, "check_slices"))
    assert good == [None] * p
    if p > 1:
        another_file, same_name, another_name, one_row_less = bad
        most = "rank 0" if p == 2 else f"ranks {', '.join(map(str, range(p - 1)))}"
        hashes = f"content hashes: {most}: hash; rank {p - 1}: x"
        assert another_file == [f"the ranks opened different plans ({hashes})"] * p
        assert same_name == another_file
        files = f"content hashes and files: {most}: hash of a.h5; rank {p - 1}: x of b.h5"
        assert another_name == [f"the ranks opened different plans ({files})"] * p
        assert one_row_less == [one_row_less[0]] * p
        assert "rank 1 sends" in one_row_less[0]
