"""Sweeps: what is asked for, tables without a plan, and which way the times go."""

import math
from dataclasses import replace

import numpy as np
import pytest
from predict_helpers import matrix

import plancc
from plancc.errors import InputError
from plancc.owners.request import Assigner
from plancc.plan.grid_slices import with_grid
from plancc.predict.machine import Machine, Node
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import schedule_of, tables_of
from plancc.predict.simulation import simulate
from plancc.predict.sizes import Boundary, Sizes, random_boundary
from plancc_lab.contenders import Contender, parse_numbers
from plancc_lab.simulate.sweep import SEARCH, _tables_of_graph, parse_models, sweep

__all__ = ["matrix"]

DIMS = [16, 8, 4]
MACHINE = Machine(latency=1e-6, bandwidth=1e9, multiply_adds=1e9)
PREDICTOR = Predictor(DIMS, MACHINE)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        *(("p=16..4096", [16, 32, 64, 128, 256, 512, 1024, 2048, 4096]), ("10..100", [16, 32, 64])),
        *(("p=16,36,64", [16, 36, 64]), ("100, 4..8,1", [1, 4, 8, 100]), ("4,4", [4])),
    ],
)
def test_numbers_of_ranks(text, ranks):
    assert parse_numbers(text) == ranks


@pytest.mark.parametrize("text", ["", "p=", "16..", "0..4", "4..5000", "9..15", "8..4", "x", "1e3"])
def test_numbers_of_ranks_that_are_none(text):
    with pytest.raises(InputError, match="numbers"):
        parse_numbers(text)


def test_models_with_options():
    found = parse_models("hp, cagnet-1.5d:replication=4,cagnet-1d:sparse,cagnet-2d:grid=2x8")
    assert [each.model for each in found] == ["hp", "cagnet-1.5d", "cagnet-1d", "cagnet-2d"]
    assert [each.options for each in found] == [
        {},
        {"replication": 4},
        {"sparse": True},
        {"grid": "2x8"},
    ]
    for text in (
        "",
        "nope",
        "hp,hp",
        "hp:groups=2",
        "auto",
        "file:part=x",
        "mop:groups",
        "metis",
        "hp:effort=best",
    ):
        with pytest.raises(InputError):
            parse_models(text) and Assigner.of("mop", 4, Contender.parse(text).options)


def test_boundaries_are_power_laws():
    found = Boundary.parse("64:0.4:8,16:0.1:4")
    assert found.points == ((16, 0.1, 4.0), (64, 0.4, 8.0))
    assert found.at(16) == pytest.approx((0.1, 4))
    assert found.at(32) == pytest.approx((0.2, math.sqrt(32)))
    assert found.at(256) == pytest.approx((1.6, 16))  # beyond the points, as between them
    assert Boundary.parse("16:0.5").at(1024) == (0.5, None)
    assert Boundary.parse("16:0,64:1").at(32) == pytest.approx((0.5, None))
    assert Boundary.parse("16:0,64:1").at(4)[0] == 0
    large = "9" * 400
    for text in (
        *("", "16", "16:x", "0:1", "16:-1", "16:nan", "16:1,16:2", "16:1:2:3", "16:1e400"),
        *(f"{large}:0.5", f"16:{large}", f"16:0.5:{large}"),
    ):
        with pytest.raises(InputError, match="boundary"):
            Boundary.parse(text)


def test_boundary_measured_on_plans(matrix, tmp_path):
    texts = []
    for parts in (2, 8):
        plan = plancc.compile(matrix, "rp", parts, normalize="none", self_loops=False)
        plan.save(tmp_path / f"{parts}.h5")
        texts.append(str(tmp_path / f"{parts}.h5"))
    found = Boundary.parse(",".join(texts))
    metrics = plan.metrics()
    assert found.at(8) == pytest.approx((metrics.boundary_ratio, metrics.messages / 8))
    assert found.source.startswith("measured on")
    # about what a random matrix has; an uneven one has less
    assert 0.8 < found.at(8)[0] / random_boundary(240, matrix.num_nonzeros, 8) < 1


@pytest.mark.parametrize(
    "text",
    [
        *("rp", "hp", "gp", "libra", "cagnet-1d", "cagnet-1d:sparse", "cagnet-1.5d"),
        *("cagnet-1.5d:replication=2:sparse", "cagnet-2d:grid=2x4", "cagnet-3d", "mop"),
        "mop:groups=2",
    ],
)
def test_tables_are_those_of_the_plan(matrix, text):
    """Words, messages and memory of a sweep's owners are those of the plan that they make."""
    request = Contender.parse(text)
    assigner = Assigner.of(request.model, 8, request.options)
    options = replace(SEARCH, effort=None, machine=MACHINE, dims=(16, 9, 8))
    tables = _tables_of_graph(matrix, request, assigner, options, None)
    plan = plancc.compile(
        *(matrix, assigner.model, assigner.num_parts),
        normalize="none",
        self_loops=False,
        machine=MACHINE,
        dims=(16, 9, 8),
        **assigner.options,
    )
    plan = plan if assigner.grid is None else with_grid(plan, assigner.grid)
    expected = tables_of(plan)
    square = "2x4" not in text
    for name in ("rows", "nonzeros", "own_nonzeros", "blocks", "undirected"):
        mine, theirs = getattr(tables, name), getattr(expected, name)
        if name == "blocks" and not square:  # pieces of a block: the plan orders its rows
            mine, theirs = (each.reshape(2, 2, 2).sum(axis=2) for each in (mine, theirs))
        assert np.array_equal(mine, theirs) if theirs is not None else mine is None, name
    ours, lowered = (
        simulate(schedule_of(each, [16, 9, 8]), MACHINE) for each in (tables, expected)
    )
    assert (ours.words, ours.messages) == (lowered.words, lowered.messages)
    if square:
        assert (ours.max_words, ours.max_messages) == (lowered.max_words, lowered.max_messages)
        assert ours.memory == lowered.memory
        assert ours.seconds == lowered.seconds
    assert ours.seconds == pytest.approx(lowered.seconds, rel=0.05)


def test_a_sweep(matrix):
    stages = []

    class Stage:
        def __init__(self, name):
            stages.append(name)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

    models = parse_models("hp,rp,cagnet-1d,cagnet-2d,mop")
    found = sweep(matrix, [1, 4, 8, 512], models, PREDICTOR, name="g", observer=Stage)
    assert stages[:2] == ["hp, 1 ranks", "hp, 4 ranks"]
    assert len(found.cells) == len(stages) == 20
    for label in found.labels:
        one = found.cell(label, 1)
        # one rank has nothing to send, whatever the model
        assert one.seconds == pytest.approx(found.sequential)
        assert found.speedup(one) == pytest.approx(1)
        assert one.communication == 0
        for cell in (one, found.cell(label, 4)):
            assert sum(cell.steps.values()) == pytest.approx(cell.seconds)
            assert cell.communication + cell.computation == pytest.approx(cell.seconds)
        assert found.cell(label, 4).computation < one.computation
        assert "512" in found.cell(label, 512).why
    assert "not a perfect square" in found.cell("cagnet-2d", 8).why
    assert found.cell("mop", 8).seconds  # though the last layer has 4 columns
    assert found.cell("rp", 4).communication < found.cell("cagnet-1d", 4).communication
    best = found.best(4)
    assert best.seconds == min(found.cell(label, 4).seconds for label in found.labels)
    assert found.best(512) is None
    with pytest.raises(KeyError):
        found.cell("hp", 2)
    figures = found.as_dict()
    assert figures["models"] == found.labels
    assert figures["cells"][0]["speedup"] == pytest.approx(1)


def test_memory_that_does_not_suffice(matrix):
    plain = sweep(matrix, [2], parse_models("rp,mop"), PREDICTOR)
    most = plain.cell("rp", 2).memory
    assert plain.cell("rp", 2).fits
    small = Machine(latency=1e-6, bandwidth=1e9, multiply_adds=1e9, node=Node(memory=most - 1))
    found = sweep(matrix, [2], parse_models("rp,mop"), Predictor(DIMS, small))
    assert not found.cell("rp", 2).fits
    assert found.best(2) is None  # mop holds all of A on both ranks


def test_numbers_in_place_of_a_graph():
    n, nnz = 10**6, 2 * 10**7
    models = parse_models("hp,rp,cagnet-1d,cagnet-1d:sparse,mop")
    sizes = Sizes(n, nnz, {"": Boundary.parse("16:0.1:4,64:0.2:8")})
    found = sweep(sizes, [16, 64], models, PREDICTOR)
    assert found.notes[1:] == [
        "hp: assumed boundary fractions",
        "rp: assumed boundary fractions of a random matrix",
        "cagnet-1d:sparse: assumed boundary fractions",
    ]
    # 16 ranks: 6,250 halo rows from 4 parts, the layers' exchanges as wide as the passes say
    rows, width = 0.1 * n / 16, 4 + 4
    expected = 2 * 4 * MACHINE.latency + rows * width * 4 / MACHINE.bandwidth
    assert found.cell("hp", 16).steps["expand"] == pytest.approx(expected)
    assert found.cell("cagnet-1d:sparse", 16).seconds == found.cell("hp", 16).seconds
    assert found.cell("rp", 64).communication > found.cell("hp", 64).communication
    assert found.cell("mop", 64).seconds > found.cell("hp", 64).seconds  # ranks without a column
    with pytest.raises(InputError, match="'hp' needs a graph or a `boundary`"):
        sweep(Sizes(n, nnz), [16], models, PREDICTOR)
    with pytest.raises(InputError, match="'libra'"):
        sweep(sizes, [16], parse_models("libra"), PREDICTOR)
    with pytest.raises(InputError, match="model of a boundary"):
        sweep(Sizes(n, nnz, {"gp": sizes.boundary[""]}), [16], models, PREDICTOR)
    for vertices, nonzeros in ((0, 0), (10, 9), (10, 101)):
        with pytest.raises(InputError):
            Sizes(vertices, nonzeros)


def test_a_random_boundary_is_what_random_graphs_have():
    n, degree, parts = 4000, 6, 16
    rng = np.random.default_rng(0)
    rows = np.concatenate([np.arange(n), np.repeat(np.arange(n), degree)])
    columns = np.concatenate([np.arange(n), rng.permutation(np.repeat(np.arange(n), degree))])
    nnz = len(np.unique(rows * n + columns))
    owner = rng.permutation(n) % parts
    pairs = np.unique(owner[rows] * n + columns)
    halo = np.count_nonzero(pairs // n != owner[pairs % n])
    assert halo / n == pytest.approx(random_boundary(n, nnz, parts), rel=0.02)
