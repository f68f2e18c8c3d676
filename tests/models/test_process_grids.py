"""Process grids and feature parallelism as models: shapes, refusals, the row plan inside."""

import math
import re

import numpy as np
import pytest
import scipy.sparse as sp
from cases import long, turns

import plancc
from plancc.errors import InputError
from plancc.models.process_grid import row_models
from plancc.owners.request import Assigner
from plancc.plan.grid import Grid

N = 40
GRIDS = ("cagnet-1d", "cagnet-1.5d", "cagnet-2d", "cagnet-3d", "mop")


def matrix():
    return sp.random_array((N, N), density=0.1, rng=np.random.default_rng(1), format="csr")


def fits(model, num_ranks, **options):
    """The grid, or the words that refuse it."""
    try:
        return Assigner.of(model, num_ranks, options).grid
    except InputError as error:
        return str(error)


def test_default_shapes_of_all_numbers_of_ranks():
    for p in range(1, 70):
        assert fits("cagnet-1d", p) == Grid("1d", p)
        assert fits("mop", p) == Grid("feature", 1, p)
        sides = [side for side in range(1, 9) if side**2 == p]
        found = fits("cagnet-2d", p)
        assert found == Grid("2d", *sides * 2) if sides else "not a perfect square" in found
        sides = [side for side in range(1, 5) if side**3 == p]
        found = fits("cagnet-3d", p)
        assert found == Grid("3d", *sides * 3) if sides else "not a perfect cube" in found
        for c in (1, 2, 3):
            found = fits("cagnet-1.5d", p, replication=c)
            if p % c:
                assert f"cannot divide {p} ranks by replication {c}" in found
            else:
                assert found == Grid("1.5d", p // c, c)
        for groups in (1, 2, 5):
            found = fits("mop", p, groups=groups)
            if p % groups:
                assert f"cannot divide {p} ranks into {groups} equal groups" in found
            else:
                assert found == Grid("feature", groups, p // groups)


@pytest.mark.parametrize("num_ranks", [2, 7, 12, 30, 63, 65])
def test_refusals_name_what_fits(num_ranks):
    for model, dimensions in (("cagnet-2d", 2), ("cagnet-3d", 3)):
        words = fits(model, num_ranks)
        shapes = re.findall(r"\d+(?:x\d+)+", words)
        assert len(set(shapes)) == len(shapes) >= 2
        for shape in shapes:
            sizes = tuple(map(int, shape.split("x")))
            assert len(sizes) == dimensions
            assert math.prod(sizes) == num_ranks
            assert fits(model, num_ranks, grid=shape) == Grid(model[-2:], *sizes)
            assert fits(model, num_ranks, grid=sizes) == Grid(model[-2:], *sizes)
        near = re.search(r"use (\d+) or (\d+) ranks", words)
        assert int(near[1]) < num_ranks < int(near[2])
        for number in near.groups():
            assert isinstance(fits(model, int(number)), Grid)
    words = fits("cagnet-1.5d", num_ranks, replication=8)
    for c in map(
        int, re.search("choose replication (.*), or use", words)[1].replace(" or", ",").split(", ")
    ):
        assert isinstance(fits("cagnet-1.5d", num_ranks, replication=c), Grid)
    for number in re.search(r"or use ([\d or]+) ranks", words)[1].split(" or "):
        assert isinstance(fits("cagnet-1.5d", int(number), replication=8), Grid)


@pytest.mark.parametrize(
    ("model", "num_ranks", "options", "words"),
    [
        ("cagnet-2d", 12, {"grid": "3x5"}, "grid '3x5': for 12 ranks choose 4x3, 3x4"),
        ("cagnet-2d", 12, {"grid": "3x4x1"}, "grid '3x4x1': give 2 numbers of ranks"),
        ("cagnet-2d", 12, {"grid": "3x04"}, "grid '3x04'"),
        ("cagnet-2d", 12, {"grid": 12}, "grid '12'"),
        ("cagnet-3d", 12, {"grid": "3x4"}, "grid '3x4': give 3 numbers of ranks, such as 4x4x2"),
        ("cagnet-1.5d", 4, {"replication": 0}, "replication 0: a whole number"),
        ("cagnet-1.5d", 4, {"replication": "2"}, "replication '2': a whole number"),
        ("mop", 4, {"groups": -1}, "groups -1: a whole number"),
        ("mop", 4, {"groups": 1.0}, "groups 1.0: a whole number"),
        ("cagnet-1d", 0, {}, "0 ranks: at least 1"),
        ("cagnet-3d", 2**40, {}, f"{2**40} ranks: a grid has at most"),
        ("cagnet-2d", 4.0, {}, "4.0 ranks: a whole number"),
        ("cagnet-1d", 4, {"blocks": "libra"}, "blocks 'libra': .* hp, gp, rcm, block, rp or file"),
        ("cagnet-1d", 4, {"blocks": "cagnet-1d"}, "blocks 'cagnet-1d'"),
        ("cagnet-1d", 4, {"blocks": "stochastic-hp"}, "blocks 'stochastic-hp'"),
        ("cagnet-1d", 4, {"part": [0] * N}, "for blocks 'file', not for 'rp'"),
    ],
)
def test_wrong_options(model, num_ranks, options, words):
    with pytest.raises(InputError, match=words):
        plancc.compile(matrix(), model, num_ranks, **options)


def test_what_the_graph_makes_wrong():
    features = plancc.VertexData(features=np.ones((N, 3), np.float32))
    for num_ranks, options, words in (
        (N + 1, {"model": "cagnet-1d"}, f"{N + 1} ranks for {N} vertices"),
        (49, {"model": "cagnet-2d"}, f"49 ranks for {N} vertices"),  # in 7 blocks of rows
        (16, {"data": features}, "a layer is 3 wide; use at most 3 process columns"),
        (16, {"dims": [8, 2, 4]}, "a layer is 2 wide; use at most 2 process columns"),
        (4, {"topology": "2x2"}, "ranks of grid '2d 2x2' cannot be mapped to nodes"),
        (4, {"objective": "volume"}, "'rp' assigns the blocks of rows of 'cagnet-2d'"),
        (4, {"budget": 1.0}, "'rp' assigns the blocks of rows of 'cagnet-2d'"),
        (4, {"seed": -1}, "`seed` -1: must be at least 0$"),  # has nothing to do with the blocks
    ):
        with pytest.raises(InputError, match=words):
            plancc.compile(matrix(), **{"model": "cagnet-2d", "num_parts": num_ranks, **options})
    # ranks of a group without a column of their own wait for the others
    assert plancc.compile(matrix(), "mop", 4, data=features).header.num_ranks == 4


INSIDE = [
    ("cagnet-1d", 3, {"blocks": "hp"}, 3),
    pytest.param("cagnet-1d", 3, {"sparse": True, "blocks": "block"}, 3, marks=long),
    ("cagnet-1.5d", 6, {"sparse": True}, 3),
    pytest.param("cagnet-1.5d", 36, {"replication": 4}, 9, marks=long),
    ("cagnet-2d", 9, {"blocks": "gp"}, 3),
    ("cagnet-2d", 6, {"grid": "2x3", "blocks": "rcm"}, 2),
    pytest.param("cagnet-3d", 8, {}, 4, marks=long),
    ("cagnet-3d", 12, {"grid": "3x2x2", "blocks": "file", "part": np.arange(N) % 6}, 6),
    ("mop", 6, {"groups": 3, "blocks": "hp"}, 3),
    ("mop", 5, {}, 1),
]


@pytest.mark.parametrize(("model", "num_ranks", "options", "num_blocks"), INSIDE)
def test_the_plan_is_the_row_plan_of_its_blocks(model, num_ranks, options, num_blocks, tmp_path):
    """The same tables as the model of the blocks makes; its provenance, and the grid's."""
    how = {"balance": "rows", "seed": 5, "dims": [6, 5], "epsilon": 0.2}
    if options.get("blocks") == "hp":
        how["effort"] = "fast"
    plan = plancc.compile(matrix(), model, num_ranks, **how, **options)
    grid = Assigner.of(model, num_ranks, options).grid
    assert (plan.header.grid, plan.header.num_ranks) == (grid, num_ranks)
    blocks = options.get("blocks", "rp")
    part = {"part": options["part"]} if "part" in options else {}
    inside = plancc.compile(matrix(), blocks, num_blocks, **how, **part)
    for (name, array), expected in zip(
        plan.arrays().items(), inside.arrays().values(), strict=True
    ):
        np.testing.assert_array_equal(array, expected, err_msg=name)
    assert plan.metrics() == inside.metrics()
    assert plan.baseline == inside.baseline
    assert plan.content_sha256() != inside.content_sha256()
    said, said_inside = plan.provenance, inside.provenance
    assert (said["model"], said["blocks"]) == (model, blocks)
    assert "blocks" not in said_inside
    for name in ("balance", "balance_imbalance", "seed", "dims", "partitioner", "bandwidth_after"):
        assert said.get(name) == said_inside.get(name), name
    for name in set(options) - {"part"}:
        assert said[f"model_{name}"] == str(options[name])
    plan.save(tmp_path / "plan.h5")
    plancc.verify_file(tmp_path / "plan.h5", plancc.as_graph(matrix()))


def test_options_of_the_search_are_of_the_blocks():
    shared = {"blocks": "hp", "partitioner": "builtin", "objective": "max-volume"}
    shared |= {"sparse": True, "topology": "2x2"}
    said = plancc.compile(matrix(), "cagnet-1d", 4, **shared).provenance
    assert (said["partitioner"], said["objective"]) == ("builtin", "max-volume")
    assert said["topology"] == "2x2"
    of_gp = {"blocks": "gp", "objective": "cut", "epsilon": 0.1}
    said = plancc.compile(matrix(), "cagnet-2d", 9, **of_gp).provenance
    assert (said["partitioner"], said["model_objective"]) == ("metis", "cut")


@turns(model=GRIDS, blocks=["rp", "hp", "rcm"])
def test_one_rank_and_one_vertex(model, blocks, tmp_path):
    options = {"replication": 1} if model == "cagnet-1.5d" else {}
    plan = plancc.compile(sp.csr_array((1, 1)), model, 1, blocks=blocks, **options)
    assert plan.owner().tolist() == [0]
    plan.save(tmp_path / "plan.h5")
    plancc.verify_file(tmp_path / "plan.h5")


def test_who_assigns_blocks():
    assert not {*GRIDS, "auto", "libra", "stochastic-hp"} & set(row_models())
