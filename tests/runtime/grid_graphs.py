"""Small graphs, plans of process grids on them, and ranks that run them; for the tests of grids."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import reference
import worlds
from runs import on_ranks as on_ranks

from plancc.graph.owners import Owners
from plancc.graph.vertexdata import VertexData
from plancc.plan.grid import Grid
from plancc.plan.grid_slices import with_grid
from plancc.plan.lowering import lower
from plancc.plan.parts import Part
from plancc.plan.plan import Plan
from plancc.plan.slices import read_rank_slice
from plancc.plan.values import Header

N = 41
WIDTH, CLASSES = 7, 5
KINDS = ("undirected", "directed")
GRIDS = [
    *(Grid("1d", p) for p in (1, 2, 3, 4, 9)),
    *(Grid("1.5d", *shape) for shape in ((2, 1), (2, 2), (4, 2))),
    *(Grid("2d", *shape) for shape in ((2, 2), (3, 3), (2, 3), (3, 2), (1, 4), (4, 1), (2, 4))),
    *(Grid("3d", *shape) for shape in ((2, 2, 2), (1, 2, 2), (2, 1, 2), (2, 2, 1))),
    *(Grid("1.5d", *shape, sparse=True) for shape in ((2, 2), (4, 2), (3, 3))),
]


@cache
def matrix(kind: str, n: int = N) -> np.ndarray:
    """Dense; "undirected" normalised with an added diagonal, "directed" with some loops of its own
    and rows and columns without nonzeros."""
    random = np.random.default_rng(3)
    a = np.where(random.random((n, n)) < 0.12, random.uniform(0.2, 1, (n, n)), 0)
    if kind == "undirected":
        return reference.normalised(a + a.T)
    np.fill_diagonal(a, 0)
    a[range(2, n, 4), range(2, n, 4)] = 0.5
    a[[0, 13, 20]] = a[:, [0, 13, 29]] = 0
    return a


@cache
def data(n: int = N) -> VertexData:
    random = np.random.default_rng(99)
    masks = {name: random.random(n) < 0.6 for name in ("train_mask", "val_mask", "test_mask")}
    return VertexData(
        features=random.standard_normal((n, WIDTH)).astype(np.float32),
        labels=random.integers(-1, CLASSES, n).astype(np.int32),
        **masks,
    )


def owners(num_parts: int) -> np.ndarray:
    """At random; part 2 without rows."""
    owner = np.random.default_rng(num_parts).integers(0, num_parts, N)
    owner[owner == 2] = 0
    return owner.astype(np.int32)


def row_plan(
    a: np.ndarray, owner: np.ndarray, num_parts: int, known: VertexData, loops: bool
) -> Plan:
    """Of a dense matrix; with `loops` it is normalised, and its diagonal was added."""
    plan = lower(
        worlds.graph_of(a),
        Owners(owner.astype(np.int32)),
        num_parts,
        normalization="sym" if loops else "none",
        self_loops=loops,
    )
    return replace(plan, vertex_data=known.take(plan.global_id))


def plan_of(kind: str, owner: np.ndarray, num_parts: int) -> Plan:
    n = len(owner)
    return row_plan(matrix(kind, n), owner, num_parts, data(n), kind == "undirected")


def save(
    path: Path,
    grid: Grid,
    kind: str,
    owner: np.ndarray | None = None,
    without_data: bool = False,
) -> Path:
    """A plan file of a grid."""
    owner = owners(grid.num_parts) if owner is None else owner
    plan = with_grid(plan_of(kind, owner, grid.num_parts), grid)
    (replace(plan, vertex_data=VertexData()) if without_data else plan).save(path)
    return path


def slices_of(plan: Plan, grid: Grid) -> list[tuple[Header, Part]]:
    """What the ranks of a grid read of the file of a row plan."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "plan.h5"
        with_grid(plan, grid).save(file)
        return [read_rank_slice(file, rank, grid.num_ranks) for rank in range(grid.num_ranks)]


@cache
def slices(grid: Grid, kind: str) -> list[tuple[Header, Part]]:
    return slices_of(plan_of(kind, owners(grid.num_parts), grid.num_parts), grid)
