"""The distributed run against a dense float64 reference, on threads and on real MPI ranks."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import rank_tasks
import reference
import worlds
from cases import long

from plancc.graph.vertexdata import VertexData
from plancc.threads import usable_cores
from plancc_runtime.layouts import halo, matrices
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.testing import Layout, LayoutTests
from plancc_runtime.transport.local import run_ranks

pytestmark = pytest.mark.mpi
EPOCHS = 5
RANKS = [
    *((1, ""), (3, "threads"), (2, "mpi")),
    *(pytest.param(p, "mpi", marks=long) for p in (3, 4)),
]


@pytest.fixture
def on_ranks(p, kind, ranks):
    """What a task answers on p ranks of a kind."""
    if kind == "mpi":
        return lambda task, *given, **named: ranks.call(p, task, *given, **named)
    return lambda task, *given, **named: run_ranks(p, lambda t: task(t, *given, **named), 180)


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
        variant = VARIANTS[k % len(VARIANTS)] | {"dtype": ("float32", "float64")[k % 2]}
        yield name, a, owner, worlds.data(40, 12), {**COMMON, **variant}
    a, owner = graphs(num_parts)["directed"]
    for variant in VARIANTS:
        yield "directed", a, owner, worlds.data(40, 12), {**COMMON, **variant}
    yield "random data", a, owner, None, {**COMMON, "features": 9, "classes": 4, "seed": 3}


@pytest.mark.parametrize(("p", "kind"), RANKS)
def test_training_equals_the_dense_reference(p, kind, on_ranks):
    every = list(train_cases(p))
    for name, a, owner, vertex_data, options in every[:: 4 if kind == "mpi" else 1]:
        plan = reference.make_parts(a, owner, p, vertex_data)
        answers = on_ranks(rank_tasks.trained, plan, options)
        if vertex_data is None:
            vertex_data = random_data(options["seed"], options["features"], options["classes"])
        results = [result for result, _ in answers]
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
        reference.close([e.loss for e in (*result.epochs, result.final)], losses, tolerance)
        for got, expected in zip(result.weights.values(), trained, strict=True):
            assert got.dtype == options["dtype"]
            reference.close(got, expected, tolerance)
        for other in results[1:]:  # replicated means bit for bit
            assert list(other.weights) == list(result.weights)
            for name, w in other.weights.items():
                np.testing.assert_array_equal(w, result.weights[name])
            assert [e.loss for e in other.epochs] == [e.loss for e in result.epochs]
        check_accuracy(result, vertex_data, logits)
        check_words(result, a, owner, dims, [t for _, t in answers], plan[1])


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
        len(p.expand.send.row) * sum(dims[:-1]) + int(p.expand.receive.row_ptr[-1]) * sum(dims[1:])
        for p in parts
    )
    assert all(e.words_sent_max == most for e in result.epochs)


class TestProducts(LayoutTests):
    @pytest.fixture(
        scope="class",
        params=[
            pytest.param((p, name), marks=long if p % 2 == 0 else ())
            for p in (1, 2, 3, 4)
            for name in graphs(1)
        ],
        ids=str,
    )
    @classmethod
    def layout(cls, request):
        """Messages are each on its own, in groups of a few, or all in one."""
        p, name = request.param
        a, owner = graphs(p)[name]
        turn = (p + len(name)) % 3
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(halo, "GROUP_ROWS", (1, 10, 2000)[turn])
            patch.setattr(matrices, "GROUP_NONZEROS", (2, 20, 4000)[turn])
            header, parts = reference.make_parts(a, owner, p)

            def make(transport, resources):
                block = Block.of_part(parts[transport.rank], header.self_loops)
                return LocalGraph(block, resources)

            yield Layout(p, make, {"plan": a}, width=1 + turn, columns=2)


@pytest.mark.parametrize("what", ["product", "adjoint"])
def test_overlap_that_changes_a_bit_fails_its_check(what):
    a, owner = graphs(2)["directed"]
    header, parts = reference.make_parts(a, owner, 2)

    def make(transport, resources):
        graph = LocalGraph(Block.of_part(parts[transport.rank], header.self_loops), resources)
        real, size = graph.product, 2.0**-50 * resources.overlap

        def faulty(x, name):
            out = real(x, name)
            return out + size * (out.detach() if what == "product" else out - out.detach())

        graph.product = faulty
        return graph

    with pytest.raises(AssertionError, match="Arrays are not equal"):
        TestProducts().test_overlap_changes_no_bit(Layout(2, make, {"plan": a}))


@pytest.mark.parametrize(("p", "kind"), RANKS)
def test_an_error_of_one_rank_is_raised_by_all(p, kind, on_ranks):
    seen = []
    for failing in DISAGREEMENTS:
        failing = {rank % p: text for rank, text in failing.items()}
        seen.append(on_ranks(rank_tasks.agreed, failing))
        assert seen[-1] == [seen[-1][0]] * p
    assert seen[0][0] is None
    first, last = "rank 0: ", f"rank {p - 1}: "
    if p == 1:
        assert seen[1][0] == ("InputError", "no such file", True)
        assert seen[2][0] == ("PlanError", "broken slice", True)
    else:
        assert seen[1][0] == ("InputError", first + "no such file", True)
        assert seen[2][0] == ("PlanError", last + "broken slice", True)
        same = "same" if p == 2 else f"ranks 0, {p - 1}: same"
        assert seen[3][0] == ("InputError", same, True)
        assert seen[4][0] == ("PlanError", f"{first}one; {last}another", True)


@pytest.mark.parametrize("p", [1, 4])
def test_threads_share_the_machine(p, ranks):
    threads = ranks.call(p, rank_tasks.cores)
    cores = len(usable_cores())
    assert all(1 <= t <= max(1, cores // p) for t in threads)


@pytest.mark.parametrize(("p", "kind"), RANKS)
def test_ranks_notice_that_they_differ(p, kind, on_ranks):
    for values, same in (
        ([b"one"] * p, True),
        ([b"one"] * (p - 1) + [b"other"], p == 1),
        ([b""] * p, True),
    ):
        assert on_ranks(rank_tasks.all_equal, values) == [same] * p


@pytest.mark.parametrize(("p", "kind"), RANKS)
def test_slices_that_do_not_fit_are_an_error_and_not_a_hang(p, kind, on_ranks):
    _, parts = reference.make_parts(*graphs(p)["undirected"], p)

    def said(*given):
        return on_ranks(rank_tasks.checked_slices, *given)

    assert said(parts, ["hash"] * p) == [None] * p
    if p > 1:
        other = ["hash"] * (p - 1) + ["x"]
        most = "rank 0" if p == 2 else f"ranks {', '.join(map(str, range(p - 1)))}"
        hashes = f"content hashes: {most}: hash; rank {p - 1}: x"
        another_file = [f"the ranks opened different plans ({hashes})"] * p
        assert said(parts, other) == another_file
        assert said(parts, other, ["same.h5"] * p) == another_file
        files = f"content hashes and files: {most}: hash of a.h5; rank {p - 1}: x of b.h5"
        names = ["a.h5"] * (p - 1) + ["b.h5"]
        assert said(parts, other, names) == [f"the ranks opened different plans ({files})"] * p
        expand = parts[1].expand
        kept = np.arange(expand.send.volume) < expand.send.volume - 1
        torn = replace(parts[1], expand=replace(expand, send=expand.send.keep(kept)))
        one_row_less = said([parts[0], torn, *parts[2:]], ["hash"] * p)
        assert one_row_less == [one_row_less[0]] * p
        assert "rank 1 sends" in one_row_less[0]
