"""Every partitioner on tiny, regular and real input."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from cases import long, some, turns
from worlds import graph_of, rows_moved

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.models import MODELS
from plancc.models.graph import GraphModel
from plancc.models.limits import Limits, part_weights
from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.models.random import random_owner
from plancc.models.weights import combined
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.adapter import scaled
from plancc.partitioners.builtin import as_hypergraph
from plancc.partitioners.options import PartitionOptions
from plancc.partitioners.run import (
    TRIVIAL,
    _combined_constraint,
    balance_notes,
    by_rank,
    improve,
    partition,
    partitions,
    strongest,
)
from plancc.plan.metrics import imbalance

NAMES = ("mtkahypar", "kahypar", "metis", "kaminpar", "builtin")
CASES = [
    (name, model)
    for name in NAMES
    for model in ("hp", "gp")
    if (name, model) not in {("kahypar", "gp"), ("metis", "hp"), ("kaminpar", "hp")}
]
BALANCING = [("metis", "gp"), ("builtin", "hp")]
"""Those that balance several constraints."""


def build(graph, model, num_parts, balance="nnz", **options):
    return MODELS[model](**options).build(graph, num_parts, balance=balance, seed=1)


def grid(side: int) -> Graph:
    path = sp.diags_array([1.0, 1.0], offsets=[1, -1], shape=(side, side))
    return graph_of(sp.kron(path, sp.eye(side)) + sp.kron(sp.eye(side), path) + sp.eye(side**2))


def communities(sizes: int, number: int) -> Graph:
    rng = np.random.default_rng(0)
    n = sizes * number
    near = rng.integers(n, size=8 * n)
    far = (near // sizes) * sizes + rng.integers(sizes, size=8 * n)
    row = np.concatenate([near, rng.integers(n, size=n)])
    column = np.concatenate([far, rng.integers(n, size=n)])
    mixed = rng.permutation(n)
    matrix = sp.coo_matrix((np.ones(9 * n), (mixed[row], mixed[column])), shape=(n, n)).tocsr()
    return graph_of(matrix + sp.eye(n))


def volume(graph: Graph, owner) -> int:
    """Rows moved, counted without the models."""
    return len(rows_moved(graph, owner))


def random_volume(graph: Graph, num_parts: int, capacities=None) -> int:
    return volume(graph, random_owner(graph.num_vertices, num_parts, 1, capacities))


def solved(problem, num_parts, name="builtin", *, limits=None, **options):
    """What a partitioner makes of it; every part has a vertex."""
    if not PARTITIONERS[name].available():
        pytest.skip(f"{name} is not installed")
    result = partition(problem, num_parts, PartitionOptions(name, **options), limits=limits)
    owner = result.owner
    assert owner.dtype == np.int32
    assert owner.shape == (problem.num_vertices,)
    assert owner.min() >= 0
    assert owner.max() < num_parts
    assert np.bincount(owner, minlength=num_parts).min() >= 1
    return result


TINY = {
    "no edges": np.zeros((5, 5)),
    "one": np.ones((1, 1)),
    "pair": np.array([[0, 1], [0, 0]]),
    "star": np.pad(np.ones((1, 4)), ((0, 4), (1, 0))),
    "full": np.ones((4, 4)),
    "isolated": np.diag([1.0, 1.0, 0, 0, 0, 0, 0], 1),
}


@pytest.mark.parametrize("model", ["hp", "gp"])
def test_tiny_input(model):
    for array in TINY.values():
        graph = graph_of(array)
        for p in range(1, graph.num_vertices + 1):
            if p > 3 and p < graph.num_vertices - 1:
                continue
            problem = build(graph, model, p)
            result = solved(problem, p)
            trivial = (
                p in (1, graph.num_vertices) or not array[~np.eye(len(array), dtype=bool)].any()
            )
            assert result.partitioner == (TRIVIAL if trivial else "builtin")


@pytest.mark.parametrize(("name", "model"), CASES)
@pytest.mark.parametrize("p", [16, pytest.param(7, marks=long)], ids=["communities", "grid"])
def test_grid_and_communities(name, model, p):
    graph = communities(60, 16) if p == 16 else grid(32)
    problem = build(graph, model, p)
    result = solved(problem, p, name, epsilon=0.03, seed=3)
    reached = imbalance(part_weights(result.owner, problem.vertex_weights, p))
    bound = Limits(problem.vertex_weights, p, 0.03).least_imbalance[0]
    assert reached <= 1.03 * (1 + bound) - 1 + 1e-9
    assert result.warnings == []
    assert result.preset == PARTITIONERS[name].presets[0]
    assert volume(graph, result.owner) < 0.5 * random_volume(graph, p)


def test_builtin_beats_random_and_blocks():
    graph = grid(64)
    problem = build(graph, "hp", 16)
    first, other = (solved(problem, 16, seed=seed).owner for seed in (1, 2))
    assert volume(graph, first) < 0.15 * random_volume(graph, 16)
    assert volume(graph, first) < 0.6 * volume(graph, build(graph, "block", 16).rows)
    assert other.tobytes() != first.tobytes()


def test_graph_objectives_as_hypergraphs():
    rng = np.random.default_rng(4)
    array = rng.random((30, 30)) < 0.1
    graph = graph_of(array | array.T)
    owner = rng.integers(4, size=30)
    for objective in ("cut", "volume"):
        problem = GraphModel(objective).build(graph, 4, balance="rows", seed=0)
        nets = as_hypergraph(problem)
        total = sum(
            len(np.unique(owner[nets.pins[nets.net_ptr[e] : nets.net_ptr[e + 1]]])) - 1
            for e in range(nets.num_nets)
        )
        row = np.repeat(np.arange(30), np.diff(graph.indptr))
        cut = int((owner[row] != owner[graph.indices]).sum()) // 2
        assert total == (cut if objective == "cut" else volume(graph, owner))


@pytest.mark.parametrize("name", ["metis", "builtin"])
def test_volume_objective(name):
    graph = communities(60, 8)
    problem = build(graph, "gp", 8, objective="volume")
    result = solved(problem, 8, name)
    assert volume(graph, result.owner) < 0.5 * random_volume(graph, 8)


def test_scaled_keeps_what_fits():
    small = np.array([0, 3, 5])
    assert scaled(small, 100) is small
    large = scaled(np.array([0, 1, 2**40, 2**41]), 2**30)
    assert large[0] == 0
    assert large[1] == 1
    assert large[3] == pytest.approx(2 * large[2], abs=2)
    assert large.sum() <= 2**30


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_parts": 0}, "at least 1"),
        ({"num_parts": 10}, "10 parts for 9 vertices"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"threads": 0}, "threads"),
        ({"partitioner": "patoh"}, "auto, mtkahypar, kahypar, metis, kaminpar, builtin"),
        (
            {"partitioner": "metis"},
            "a hypergraph; use `model` gp, .* choose from mtkahypar, kahypar, builtin",
        ),
        ({"partitioner": "kahypar", "preset": "best"}, "'best'; choose from default, quality"),
    ],
)
def test_wrong_options(options, words):
    num_parts = options.pop("num_parts", 2)
    with pytest.raises(InputError, match=words):
        partition(build(grid(3), "hp", 2), num_parts, PartitionOptions(**options))


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"vertex_weights": np.full(9, -1)}, "vertex weight is -1"),
        ({"vertex_weights": np.full(9, 2**62)}, "vertex weights sum"),
        ({"net_costs": np.zeros(9, np.int64)}, "cost is 0"),
        ({"net_costs": np.full(9, 2**62)}, "costs sum"),
        ({"vertex_weights": np.ones((9, 2), int) * [1, -1]}, "vertex weight is -1"),
        ({"vertex_weights": np.ones((9, 2), int) * [1, 2**52]}, "vertex weights sum"),
    ],
)
def test_weights_and_costs_that_no_partitioner_can_take(fields, words):
    with pytest.raises(InputError, match=words):
        solved(Hypergraph(**vars(build(grid(3), "hp", 2)) | fields), 2)


@pytest.mark.parametrize(
    ("name", "preset", "words"),
    [("metis", "recursive", "kway"), ("kaminpar", None, "'volume'; choose from metis, builtin")],
)
def test_who_has_no_volume_objective(name, preset, words):
    with pytest.raises(InputError, match=words):
        solved(build(grid(5), "gp", 2, objective="volume"), 2, name, preset=preset)


def test_heavy_vertex_is_a_bound_not_a_failure():
    star = np.eye(40)
    star[0] = 1
    problem = build(graph_of(star), "hp", 8)
    result = solved(problem, 8)
    assert "heaviest vertex weighs 40" in result.warnings[0]
    assert result.warnings[0].endswith("below 3.051")
    reached = imbalance(part_weights(result.owner, problem.vertex_weights, 8))
    assert reached == pytest.approx(40 * 8 / 79 - 1)


def test_auto_takes_the_best_that_is_installed():
    hypergraph, graph = build(grid(6), "hp", 3), build(grid(6), "gp", 3)
    by_volume = build(grid(6), "gp", 3, objective="volume")

    def names(problem, ranks):
        return [adapter.name for adapter in by_rank(problem, ranks)]

    for problem, auto, strong in (
        (hypergraph, ["mtkahypar", "kahypar", "builtin"], ["mtkahypar"]),
        (graph, ["metis", "kaminpar", "builtin"], ["mtkahypar"]),
        (by_volume, ["metis", "builtin"], []),
    ):
        assert names(problem, lambda adapter: adapter.auto_rank) == auto
        assert names(problem, lambda adapter: adapter.strong_rank) == strong
        assert strongest(problem) is (PARTITIONERS[strong[0]] if strong else None)
    result = partition(graph, 3)
    assert result.partitioner == "metis"
    assert result.version
    assert result.seconds > 0


def test_threads_are_noted():
    problem = build(grid(12), "hp", 4)
    noted = solved(problem, 4, "mtkahypar", threads=2)
    assert "2 threads may give another partition" in noted.warnings[-1]
    runs = [solved(problem, 4, "mtkahypar", threads=2, preset="deterministic") for _ in range(2)]
    assert runs[0].warnings == []
    assert runs[0].owner.tobytes() == runs[1].owner.tobytes()


def several(problem, columns):
    return type(problem)(**vars(problem) | {"vertex_weights": np.stack(columns, axis=1)})


@some(lambda case: case in (("mtkahypar", "hp"), *BALANCING), case=CASES)
def test_several_constraints(case):
    """Balanced by those who can, else by one weight for all, and measured one by one."""
    name, model = case
    graph = communities(60, 16)
    problem = build(graph, model, 4, "nnz,rows")
    limits = Limits(problem.vertex_weights, 4, 0.03, names=("nnz", "rows"))
    result = solved(problem, 4, name, limits=limits, epsilon=0.03, seed=3)
    reached = [imbalance(load) for load in part_weights(result.owner, problem.vertex_weights, 4).T]
    missed = [
        f"{k}: imbalance {x:.4g} of {name}"
        for k, x in zip(["nnz", "rows"], reached, strict=True)
        if x > 0.0301
    ]
    assert [note.partition(" is above")[0] for note in result.warnings] == missed
    assert max(reached) < 0.2
    if PARTITIONERS[name].constraints:
        assert missed == []
    assert volume(graph, result.owner) < 0.5 * random_volume(graph, 4)
    again = solved(problem, 4, name, epsilon=0.03, seed=3)
    assert again.owner.tobytes() == result.owner.tobytes()


@pytest.mark.parametrize("shares", [None, (1.0, 2.0, 3.0, 2.0)])
def test_a_library_improves_a_partition(shares):
    if not PARTITIONERS["mtkahypar"].available():
        pytest.skip("mtkahypar is not installed")
    graph = communities(60, 16)
    problem = build(graph, "hp", 4)
    limits = Limits(problem.vertex_weights, 4, 0.03, shares)
    owner = random_owner(problem.num_vertices, 4, 1, shares)
    before = owner.copy()
    better = improve(problem, owner, 7, limits)
    assert (owner == before).all()
    assert volume(graph, better) < 0.6 * volume(graph, owner)
    assert limits.overload(part_weights(better, limits.vertex_weights, 4)) == 0
    assert (improve(problem, owner, 7, limits) == better).all()


@turns(preset=["kway", "recursive"], costs=[None, 3])
def test_metis_balances_what_one_weight_cannot(preset, costs):
    """Vertices at both edges of a grid weigh more: every part gets its share of both."""
    problem = build(grid(24), "gp", 4, "rows")
    left = (np.arange(576) % 24 < 6).astype(np.int64)
    problem = several(problem, [np.ones(576, np.int64), left, 7 * left[::-1]])
    if costs is not None:
        weights = np.full(len(problem.indices), costs)
        problem = WeightedGraph(**vars(problem) | {"edge_weights": weights})
    result = solved(problem, 4, "metis", preset=preset, epsilon=0.1)
    assert result.warnings == []
    for load in part_weights(result.owner, problem.vertex_weights, 4).T:
        assert imbalance(load) <= 0.1 + 1e-9


@turns(case=BALANCING, epsilon=[(0.3, 0.02), (0.02, 0.3)])
def test_every_constraint_has_an_epsilon_of_its_own(case, epsilon):
    """The tight one holds, and what the other is allowed is used: it lowers the volume."""
    name, model = case
    problem = build(communities(60, 16), model, 4, "nnz,rows")
    limits = Limits(problem.vertex_weights, 4, epsilon, names=("nnz", "rows"))
    result = solved(problem, 4, name, seed=3, limits=limits)
    reached = [imbalance(load) for load in part_weights(result.owner, problem.vertex_weights, 4).T]
    assert all(x <= allowed + 1e-3 for x, allowed in zip(reached, epsilon, strict=True))
    tight = replace(limits, epsilon=0.001)
    notes = solved(problem, 4, name, seed=3, limits=tight).warnings
    assert all("is above epsilon 0.001" in note for note in notes)


@some(
    lambda case, capacities: len(capacities) == 3 and case not in (CASES[1], CASES[-1]),
    case=CASES,
    capacities=[(1.0, 1.0, 2.0), (4.0, *(1.0,) * 7)],
)
def test_parts_of_unequal_size(case, capacities):
    (name, model), graph, num_parts = case, communities(60, 16), len(capacities)
    problem = build(graph, model, num_parts, "nnz")
    result = solved(problem, num_parts, name, epsilon=0.05, seed=3, capacities=capacities)
    assert result.warnings == []
    loads = part_weights(result.owner, problem.vertex_weights, num_parts)
    shares = loads.sum() * np.array(capacities) / sum(capacities)
    assert (loads <= 1.05 * np.ceil(shares)).all()
    assert volume(graph, result.owner) < 0.6 * random_volume(graph, num_parts, capacities)
    with pytest.raises(InputError, match=f"{num_parts} numbers for 2 parts"):
        solved(problem, 2, name, capacities=capacities)


@pytest.mark.parametrize(("name", "model"), BALANCING)
def test_several_constraints_of_unequal_parts(name, model):
    problem = build(communities(60, 16), model, 3, "nnz,rows")
    result = solved(problem, 3, name, epsilon=0.05, seed=3, capacities=(1.0, 3.0, 2.0))
    assert result.warnings == []
    loads = part_weights(result.owner, problem.vertex_weights, 3)
    shares = loads.sum(axis=0) * np.array([[1], [3], [2]]) / 6
    assert (loads <= 1.05 * np.ceil(shares)).all()


def test_a_partitioner_of_one_size(monkeypatch):
    """Its parts are brought to their shares, and the user is told."""
    adapter = replace(PARTITIONERS["builtin"], name="even", capacities=False)
    monkeypatch.setattr("plancc.partitioners.run._candidates", lambda *_: [adapter])
    for model in ("hp", "gp"):
        problem = build(communities(60, 16), model, 3, "nnz,rows")
        options = PartitionOptions(epsilon=0.05, capacities=(1.0, 1.0, 2.0))
        result = partition(problem, 3, options)
        assert result.warnings == [
            "even makes parts of one size: plancc moved vertices between them, to the shares of "
            "`capacities`"
        ]
        loads = part_weights(result.owner, problem.vertex_weights, 3)
        assert (loads <= 1.05 * np.ceil(loads.sum(axis=0) * [[0.25], [0.25], [0.5]])).all()


def test_unequal_parts_with_nothing_to_minimise():
    lone = Hypergraph(np.zeros(1, np.int64), np.zeros(0, np.int32), np.ones(80, np.int64))
    options = PartitionOptions(epsilon=0.05, capacities=(1.0, 1.0, 2.0))
    result = partition(lone, 3, options)
    assert (result.partitioner, result.warnings) == (TRIVIAL, [])
    assert np.bincount(result.owner).tolist() == [20, 20, 40]
    three = Hypergraph(np.zeros(1, np.int64), np.zeros(0, np.int32), np.array([1, 9, 5]))
    owner = partition(three, 3, replace(options, capacities=(1.0, 4.0, 2.0))).owner
    assert owner.tolist() == [0, 1, 2]
    tiny = partition(lone, 3, replace(options, capacities=(1.0, 1000.0, 2.0)))
    assert np.bincount(tiny.owner).tolist() == [1, 78, 1]


def test_notes_on_unequal_parts():
    owner = np.array([0] * 10 + [1] * 10, np.int32)
    limits = Limits.of_nonzeros(20, 2, 0.1, (1.0, 3.0))
    assert balance_notes(owner, limits, "it") == ["imbalance 1 of it is above epsilon 0.1"]
    assert balance_notes(owner, replace(limits, capacities=(2.0, 2.0)), "it") == []
    heavy = replace(limits, weights=np.array([40] + [1] * 19))
    owner[:] = [1] + [0] * 14 + [1] * 5
    assert balance_notes(owner, heavy, "it") == []  # 45 of 59 * 3 / 4 = 44.25
    heavy = replace(heavy, capacities=(1.0, 1.1))
    note = balance_notes(owner, heavy, "it")[0]
    assert note.startswith("the heaviest vertex weighs 40, the average part 29.5 and the largest ")
    assert note.endswith(f"30.9: no partition has an imbalance below {40 / 59 * 2.1 / 1.1 - 1:.3f}")
    tiny = Limits(np.full(20, 3), 2, 0.1, (1.0, 999.0))
    note = balance_notes(owner, tiny, "it")[0]
    assert note.startswith("every vertex weighs 3 or more, the least share is 0.06: no partition")
    assert note.endswith("below 49.000")


def test_one_weight_for_constraints_with_limits_of_their_own():
    """Whatever is within all limits is within that of the one weight, and hardly anything else."""
    rng = np.random.default_rng(3)
    weights = rng.integers(0, 9, (40, 3)) * np.array([1, 1000, 10**9])
    epsilon = np.array([0.5, 0.05, 0.2])
    one, allowed = _combined_constraint(weights, epsilon)
    assert 0.05 < allowed < 0.2
    within = 0
    for _ in range(10_000):
        owner = rng.integers(0, 2, 40)
        shares = [
            np.bincount(owner, column, 2).max() / column.sum() * 2 - 1
            for column in (*weights.T, one)
        ]
        if (shares[:3] <= epsilon).all():
            within += 1
            assert shares[3] <= allowed + 1e-9
    assert within > 50
    assert (_combined_constraint(weights, np.full(3, 0.1))[0] == combined(weights)).all()
    assert _combined_constraint(weights, np.zeros(3))[1] == 0.0
    assert _combined_constraint(weights, np.array([0.0, 0.1, 0.1]))[1] < 0.01


@pytest.mark.parametrize(("name", "model"), BALANCING)
def test_constraints_without_weight_and_too_large_for_the_library(name, model):
    problem = build(grid(10), model, 4, "rows")
    one, zero = np.full(100, 10**12), np.zeros(100, np.int64)
    for columns in ([one, zero], [zero, zero], [one, np.arange(100) * 10**10, zero]):
        result = solved(several(problem, columns), 4, name, epsilon=0.2)
        if len(columns) == 2 or PARTITIONERS[name].constraints:
            assert result.warnings == []
            assert np.bincount(result.owner).max() <= 30


def test_trivial_owners_and_notes_of_several_constraints():
    rows = np.ones(8, np.int64)
    heavy = np.array([6, 1, 1, 0, 0, 0, 0, 0])
    problem = several(Hypergraph(np.zeros(1, np.int64), np.zeros(0, np.int32), rows), [rows, heavy])
    result = partition(problem, 4)
    assert result.warnings == [
        "weight 2: the heaviest vertex weighs 6, the average part 2.0: "
        "no partition has an imbalance below 2.000"
    ]
    limits = Limits(problem.vertex_weights, 4, 0.01, names=("rows", "work"))
    named = partition(problem, 4, limits=limits)
    assert named.warnings[0].startswith("work: the heaviest")


def test_kaminpar_is_given_no_weight_of_zero(tmp_path):
    """With such weights it searches for ever now and then."""
    graph = WeightedGraph(np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1]), np.array([2, 0, 5]))
    options = {"epsilon": 0.5, "seed": 1, "preset": "fast", "threads": 1}
    given = PARTITIONERS["kaminpar"].prepare(graph, 2, options, tmp_path)
    written = np.fromfile(given["path"], dtype=np.uint64)
    assert written[:3].tolist() == [1, 3, 4]
    assert written[-3:].tolist() == [2000, 1, 5000]
    heavy = replace(graph, vertex_weights=np.array([2**29, 0, 2**29]))
    given = PARTITIONERS["kaminpar"].prepare(heavy, 2, options, tmp_path)
    assert np.fromfile(given["path"], dtype=np.uint64)[-3:].tolist() == [2**29, 1, 2**29]


@pytest.mark.parametrize(
    ("name", "model"), [("metis", "gp"), ("kaminpar", "gp"), ("builtin", "hp")]
)
def test_several_seeds_at_once_give_what_each_gives_alone(name, model):
    problem = build(communities(30, 12), model, 5)
    options, seeds = PartitionOptions(partitioner=name), [3, 1, 8]
    together = partitions(problem, 5, seeds, options)
    assert len({each.owner.tobytes() for each in together}) > 1
    for seed, each in zip(seeds, together, strict=True):
        alone = partition(problem, 5, replace(options, seed=seed))
        assert np.array_equal(each.owner, alone.owner)
        assert each.warnings == alone.warnings
