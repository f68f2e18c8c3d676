"""The passes that avoid communication: exact, and as frugal as they say; on 1, 2 and 3 ranks."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import rank_tasks
import reference
import torch
from scipy.sparse import csr_matrix

from plancc.graph.vertexdata import VertexData
from plancc_runtime.data import load_data
from plancc_runtime.execution.choice import execution_of
from plancc_runtime.execution.drawn import chosen_batches
from plancc_runtime.layouts.matrices import is_symmetric
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.networks import make_network
from plancc_runtime.options import PASSES, TrainOptions
from plancc_runtime.tasks import task_of
from plancc_runtime.transport.local import run_ranks
from plancc_runtime.transport.single import SingleTransport

RANKS = (1, 2, 3)
N, WIDTH, CLASSES, EPOCHS = 60, 9, 3, 2
COMMON = {"layers": 3, "hidden": 6, "activation": "tanh", "kernel": "numba"}
MODELS = {
    "gcn": {"parametrization": "paper"},  # as the dense reference has it
    "sage mean": {"model": "sage"},
    "sage max": {"model": "sage", "aggregator": "max"},
    "sage gcn": {"model": "sage", "aggregator": "gcn"},
    "gin": {"model": "gin"},
    "gat": {"model": "gat", "heads": 2},
    "gcn residual": {"residual": True, "norm": "layer", "bias": True},
    "gcn dropout": {"dropout": 0.4, "input_dropout": 0.0},
    "sage dropout": {"model": "sage", "dropout": 0.3},
    "gcn batch": {"norm": "batch"},
    "narrow": {"hidden": 3},
    "wide": {"hidden": 20},
    "one layer": {"layers": 1},
}


def graph(directed: bool, density: float = 0.03) -> np.ndarray:
    random = np.random.default_rng(directed)
    pattern = random.random((N, N)) < density
    return reference.normalised(pattern if directed else pattern | pattern.T)


def owners(num_parts: int) -> np.ndarray:
    owner = np.random.default_rng(num_parts).integers(0, num_parts, N)
    owner[:num_parts] = np.arange(num_parts)
    return owner


def data(num_training: int) -> VertexData:
    random = np.random.default_rng(5)
    train = np.zeros(N, bool)
    train[random.permutation(N)[:num_training]] = True
    return VertexData(
        features=random.standard_normal((N, WIDTH)).astype(np.float32),
        labels=random.integers(0, CLASSES, N).astype(np.int32),
        train_mask=train,
        val_mask=~train,
    )


def cases(p: int):
    """(name, matrix, number of training vertices, options) of every training run on p ranks."""
    for directed in (False, True):
        for name, model in MODELS.items():
            if (directed or p == 2) and name not in ("gcn", "sage mean", "gat"):
                continue
            for passes in ((), PASSES):
                if p == 1 or passes or name == "gcn":
                    yield name, graph(directed), 4, {**COMMON, **model, "passes": passes}
    for pass_ in PASSES:
        yield "gcn", graph(False), 4, {**COMMON, **MODELS["gcn"], "passes": (pass_,)}
    for passes in ((), PASSES):
        yield "all train", graph(False), N, {**COMMON, "passes": passes}
    for chosen in ({"row_order": "rcm"}, {"row_order": "degree"}, {"kernel": "torch"}):
        options = {**COMMON, **MODELS["gcn"], "passes": PASSES, **chosen}
        yield "gcn", graph(True), 4, options


@pytest.fixture(scope="module")
def on_ranks(ranks):
    """Does a task on p ranks, of MPI or threads."""

    def done(p, mpi, task, *arguments):
        if mpi:
            return ranks.call(p, task, *arguments)
        return run_ranks(p, lambda transport: task(transport, *arguments), 180)

    return done


@pytest.fixture(scope="module")
def trained(on_ranks):
    """All training runs on p ranks, with the answers of the ranks; some on two ranks of MPI."""

    @cache
    def runs(p):
        found = []
        for k, case in enumerate(cases(p)):
            _, a, training, options = case
            plan = reference.make_parts(a, owners(p), p, data(training))
            mpi = p == 2 and k % 4 == 1
            found.append((*case, on_ranks(p, mpi, rank_tasks.looped, *plan, options, EPOCHS)))
        return found

    return runs


def key_of(name, a, training, options):
    plain = {k: v for k, v in options.items() if k not in ("passes", "row_order", "kernel")}
    return name, a.tobytes(), training, tuple(sorted(plain.items()))


def outputs(ranks):
    z = np.empty((N, CLASSES))
    for answer in ranks:
        z[answer["vertices"]] = answer["outputs"]
    return z


@pytest.mark.mpi
@pytest.mark.parametrize("p", RANKS)
def test_passes_change_nothing_but_words(p, trained):
    """Against one rank without passes; the GCN of that against dense matrices."""
    plain = {key_of(*case[:4]): case[4] for case in trained(1) if not case[3]["passes"]}
    for *case, ranks in trained(p):
        expected = plain[key_of(*case)][0]
        for answer in ranks:
            np.testing.assert_allclose(answer["losses"], expected["losses"], rtol=1e-10)
            for name, w in expected["weights"].items():
                np.testing.assert_allclose(answer["weights"][name], w, rtol=0, atol=1e-10)
        np.testing.assert_allclose(outputs(ranks), outputs([expected]), rtol=0, atol=1e-9)
        name, a, training, _ = case
        if name == "gcn":
            dims = [WIDTH, 6, 6, CLASSES]
            losses, _, z = reference.train_dense(
                a,
                data(training).features,
                data(training).labels,
                data(training).train_mask,
                reference.glorot_weights(dims, 1),
                EPOCHS,
                0.5,
                "sgd",
                "tanh",
            )
            np.testing.assert_allclose(ranks[0]["losses"], losses[:-1], rtol=1e-10)
            np.testing.assert_allclose(outputs(ranks), z, rtol=0, atol=1e-9)


def words_of_gcn(a, owner, train, dims, passes):
    """Words of an epoch, from sets of vertices."""
    sets = [set(range(N))] * len(dims)
    if "dead-rows" in passes:
        sets = reference.live_sets(a, train, len(dims) - 1)
    total = 0
    for k, (d_in, d_out) in enumerate(pairwise(dims)):
        only = np.zeros_like(a)
        rows = sorted(sets[k + 1])
        only[rows] = a[rows]
        if "order" not in passes:
            columns = d_in + d_out
        else:
            columns = 2 * min(d_in, d_out)
            if k == 0 and d_in <= d_out:
                columns = d_in
        if k or "constant" not in passes:
            total += reference.volume(only, owner) * columns
    return total


@pytest.mark.mpi
@pytest.mark.parametrize("p", RANKS)
def test_words_are_those_of_the_figures(p, trained):
    for name, a, training, options, ranks in trained(p):
        figures = ranks[0]["figures"]
        counted = sum(answer["traffic"][:, 1] for answer in ranks)
        assert (counted[1:] == figures.planned).all(), (name, options)
        received = sum(answer["traffic"][:, 4] for answer in ranks)
        np.testing.assert_array_equal(counted, received)
        train = np.flatnonzero(data(training).train_mask).tolist()
        dims = [WIDTH, *[options["hidden"]] * (options["layers"] - 1), CLASSES]
        if options.get("model") == "gin":  # its last layer narrows by its second map
            dims[-1] = max(dims[-2:])
        owner = owners(p)
        if options.get("model") == "gat" or options.get("aggregator") == "max":
            if not options["passes"]:
                assert figures.plain == figures.planned
        else:
            assert figures.plain == words_of_gcn(a, owner, train, dims, ())
        if name.split()[0] in ("gcn", "narrow", "wide", "one", "all") and "batch" not in name:
            passes = options["passes"]
            assert figures.planned == words_of_gcn(a, owner, train, dims, passes)
            on = [pass_ for pass_ in PASSES[:3] if pass_ in passes]
            assert figures.words == {
                pass_: words_of_gcn(a, owner, train, dims, on[: k + 1])
                for k, pass_ in enumerate(on)
            }
        if "constant" in options["passes"] and "sage dropout" not in name:
            moved = reference.volume(a, owner) * WIDTH
            dead = "dead-rows" in options["passes"] and "batch" not in name
            told = options["layers"] * reference.volume(a, owner) if dead else 0
            assert counted[0] == moved + told  # one byte per halo row and layer
            evaluated = sum(answer["evaluation"][1] for answer in ranks)
            rest = words_of_gcn(a, owner, train, dims, ()) if p == 1 else None
            assert rest is None or evaluated == rest == 0


@pytest.mark.mpi
@pytest.mark.parametrize("p", RANKS)
def test_passes_that_do_not_fit_are_off(p, trained):
    for name, _, training, options, ranks in trained(p):
        answer = ranks[0]
        dead = "dead-rows" in options["passes"] and training < N
        if "batch" in name:
            dead = False
            assert set(answer["off"]) == {"dead-rows"} & set(options["passes"])
        if "sage dropout" in name:
            assert set(answer["off"]) == {"constant"} & set(options["passes"])
        rows = np.sum([answer["rows"] for answer in ranks], axis=0)
        assert (rows[-1] == training) if dead else (rows == N).all()
        plain = "dropout" not in name and "batch" not in name
        assert answer["evaluates"] == (plain and not dead)
        if "constant" in options["passes"]:  # GCN and GAT read the product alone
            kept = name in ("sage mean", "sage max", "gin", "gcn residual", "sage dropout")
            assert [len(answer["vertices"]) if kept else 0 for answer in ranks] == [
                answer["features"] for answer in ranks
            ]


def alone(**options):
    """An execution on one rank, prepared, and its network."""
    header, (part,) = reference.make_parts(graph(False), owners(1), 1, data(4))
    transport, dtype = SingleTransport(), torch.float64
    options = TrainOptions(dtype="float64", kernel="numba", **options)
    given = load_data(part, transport, dtype, options)
    network = make_network(options, given, transport, dtype)
    resources = Resources(transport, dtype, kernel=options.kernel)
    task = task_of(header, options)
    drawn = chosen_batches((header, part), task) if options.mini_batches else None
    execution = execution_of(task, part, given, resources, drawn)
    execution.prepare(network)
    return execution, network


def test_symmetry_is_exact():
    random = np.random.default_rng(0)
    dense = np.where(random.random((30, 30)) < 0.2, random.standard_normal((30, 30)), 0)
    dense += dense.T
    shuffled = csr_matrix(dense)
    for i in range(30):
        at = slice(shuffled.indptr[i], shuffled.indptr[i + 1])
        order = random.permutation(at.stop - at.start)
        shuffled.indices[at] = shuffled.indices[at][order]
        shuffled.data[at] = shuffled.data[at][order]
    shuffled.has_sorted_indices = False
    kept = shuffled.indices.copy()
    assert is_symmetric(csr_matrix(dense))
    assert is_symmetric(shuffled)
    np.testing.assert_array_equal(shuffled.indices, kept)
    for i, j in [(0, 1), (7, 29), (29, 7)]:
        other = dense.copy()
        other[i, j] += 1
        assert not is_symmetric(csr_matrix(other))
    ring = np.roll(np.eye(30), 1, axis=1)  # as many nonzeros in every column as in its row
    assert not is_symmetric(csr_matrix(ring))
    assert not is_symmetric(csr_matrix(dense[:20]))
    assert is_symmetric(csr_matrix((0, 0)))
