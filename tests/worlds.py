"""Small graphs, data and plans that tests name: ``worlds.plan("directed", "edge", 4)``.

Everything is made once per process and never changed: copy what you change. What takes a search
is kept in files of ``build/worlds``, under a hash of the compiler's sources, for later runs.
"""

import hashlib
import itertools
import os
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

import plancc
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.graph.vertexdata import VertexData
from plancc.plan.grid import Grid
from plancc.plan.grid_slices import with_grid
from plancc.plan.lowering import lower
from plancc.plan.plan import Plan
from plancc.predict.machine import Machine
from plancc.predict.machine_files import find_machine
from plancc.predict.schedules import schedule_of, tables_of
from plancc.predict.simulation import simulate
from plancc.testing.samplers import factors_of, members_of

ROOT = Path(__file__).parents[1]
KEPT = ROOT / "build" / "worlds"
N = 41
WIDTH, CLASSES = 7, 5


# -- arrays ----------------------------------------------------------------------------------------


def random_pattern(n: int, density: float, seed: int = 0, diagonal: str = "some") -> np.ndarray:
    """Booleans, directed; a row and a column are empty, and one vertex has neither where n allows.

    The diagonal is "some", "full" or "none".
    """
    pattern = np.random.default_rng(seed).random((n, n)) < density
    if n > 4:
        pattern[1] = pattern[:, 2] = pattern[3] = pattern[:, 3] = False
    if diagonal != "some":
        np.fill_diagonal(pattern, diagonal == "full")
    return pattern


def random_array(rng, n, density, *, symmetric=False, diagonal="as is") -> np.ndarray:
    """Values of both signs, some rows empty, none of them zero where the pattern is not."""
    array = np.where(rng.random((n, n)) < density, rng.uniform(0.5, 2, (n, n)), 0)
    array *= rng.choice([-1.0, 1.0], (n, n))
    array[rng.random(n) < 0.1] = 0
    if symmetric:
        array = np.triu(array) + np.triu(array, 1).T
    if diagonal == "full":
        np.fill_diagonal(array, 1.5)
    elif diagonal == "none":
        np.fill_diagonal(array, 0)
    return array


def _weights(seed: int = 3, n: int = N, density: float = 0.12) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.where(random.random((n, n)) < density, random.uniform(0.2, 1, (n, n)), 0)


def _undirected() -> np.ndarray:
    a = _weights()
    a = a + a.T
    np.fill_diagonal(a, 1.0)
    scale = 1 / np.sqrt(a.sum(axis=1))
    return a * np.outer(scale, scale)


def _directed() -> np.ndarray:
    a = _weights()
    np.fill_diagonal(a, 0)
    a[range(2, N, 4), range(2, N, 4)] = 0.5
    a[[0, 13, 20]] = a[:, [0, 13, 29]] = 0
    return a


def _one_way() -> np.ndarray:
    a = _weights()
    np.fill_diagonal(a, 0)
    a[6:] = 0
    return a


def _hubs() -> np.ndarray:
    random = np.random.default_rng(5)
    n = 90
    a = np.zeros((n, n))
    rows, columns = (random.random((2, 400)) ** 2 * (n - 6)).astype(int)
    a[rows, columns] = random.integers(1, 5, 400)
    return a


def _grid(rows: int = 16, columns: int = 20) -> np.ndarray:
    def path(n: int) -> sp.spmatrix:
        return sp.diags([1.0, 1.0], [-1, 1], shape=(n, n))

    return sp.kronsum(path(columns), path(rows)).toarray()


def _tiny() -> np.ndarray:
    a = np.zeros((5, 5))
    for k, (i, j) in enumerate([(0, 1), (1, 0), (1, 2), (2, 4), (3, 3), (4, 0)]):
        a[i, j] = k + 1.0
    return a


ARRAYS: dict[str, Callable[[], np.ndarray]] = {
    "tiny": _tiny,  # 5 vertices, directed, one loop
    "undirected": _undirected,  # 41, normalised, full diagonal
    "directed": _directed,  # 41, some loops, rows and columns without nonzeros
    "one way": _one_way,  # 41, only the first six rows have nonzeros
    "hubs": _hubs,  # 90, directed, whole weights, hubs and isolated vertices
    "grid": _grid,  # 320, a mesh of four neighbours, undirected
}


@cache
def array(name: str) -> np.ndarray:
    """The dense matrix of a world, float64[n, n], read-only."""
    found = ARRAYS[name]()
    found.setflags(write=False)
    return found


# -- graphs and data -------------------------------------------------------------------------------


def graph_of(matrix: Any, *, directed: bool | None = None, dtype: Any = None, **fields) -> Graph:
    """The nonzeros of a dense or sparse matrix as a Graph; booleans give a pattern without values.

    `directed` None: whether the matrix differs from its transpose.
    """
    rows = sp.csr_matrix(matrix)
    rows.sort_indices()
    if directed is None:
        directed = (rows != rows.T).nnz > 0
    values = None if rows.dtype == bool else rows.data.astype(dtype or rows.dtype)
    indptr, indices = rows.indptr.astype(np.int64), rows.indices.astype(np.int32)
    return Graph(indptr, indices, values, directed=directed, **fields)


def places(graph: Graph) -> list[tuple[int, int]]:
    """Row and column of every nonzero."""
    row = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    return list(zip(row.tolist(), graph.indices.tolist(), strict=True))


def rows_moved(graph: Graph, owner: Any, part: Any = None) -> set[tuple[str, int, int, int]]:
    """What moves, by definition: ("expand" or "fold", row, from part, to part).

    `part` holds the parts of nonzeros; without it they are with the owners of their rows.
    """
    owner = np.asarray(owner).tolist()
    held = places(graph)
    parts = [owner[i] for i, _ in held] if part is None else np.asarray(part).tolist()
    moved = set()
    for (i, j), q in zip(held, parts, strict=True):
        if owner[j] != q:
            moved.add(("expand", j, owner[j], q))
        if owner[i] != q:
            moved.add(("fold", i, q, owner[i]))
    return moved


def net_list(problem: Any) -> list[list[int]]:
    """The pins of every net of a hypergraph, or of the nets of a pass."""
    return [problem.pins[a:b].tolist() for a, b in itertools.pairwise(problem.net_ptr.tolist())]


def kept_nonzeros(batch: Any, pattern: np.ndarray) -> Iterator[list[tuple[int, int]]]:
    """Nonzeros (i, j) that every block of a batch keeps, by the factors that the runtime uses."""
    members = members_of(batch, len(pattern))
    rows, columns = np.nonzero(pattern[np.ix_(members, members)])
    for block in range(batch.num_blocks):
        kept = factors_of(batch, block, members, rows, columns) != 0
        ends = members[rows[kept]], members[columns[kept]]
        yield list(zip(*(each.tolist() for each in ends), strict=True))


def slow_overload(weights, owner, num_parts: int, epsilon: float, capacities=None) -> float:
    """Weight above the limit, each constraint over its even share; no hubs with capacities."""
    total = 0.0
    speed = [Fraction(c) for c in capacities or [1] * num_parts]
    for column in np.asarray(weights).reshape(len(owner), -1).T.tolist():
        loads = [0] * num_parts
        for q, w in zip(owner, column, strict=True):
            loads[q] += w
        mean = max(-(-sum(column) // num_parts), 1)
        for load, c in zip(loads, speed, strict=True):
            even = -(-sum(column) * c / sum(speed) // 1)
            limit = int((1 + epsilon) * int(even) + 1e-9)
            if capacities is None:
                limit = max(limit, *column)
            total += float(max(load - limit, 0) / (mean * c * num_parts / sum(speed)))
    return total


@cache
def graph(name: str) -> Graph:
    """The graph of a world, with values of float64."""
    return graph_of(array(name))


@cache
def data(n: int = N, width: int = WIDTH, classes: int = CLASSES, seed: int = 99) -> VertexData:
    """Features, labels (some -1), masks and clusters of n vertices, in vertex order."""
    random = np.random.default_rng(seed)
    splits = random.integers(0, 4, n)  # the last kind is in no mask
    names = ("train_mask", "val_mask", "test_mask")
    masks = {name: splits == k for k, name in enumerate(names)}
    return VertexData(
        features=random.standard_normal((n, width)).astype(np.float32),
        labels=random.integers(-1, classes, n).astype(np.int32),
        clusters=random.integers(0, 5, n).astype(np.int32),
        **masks,
    )


def write_mtx(path: Path, matrix: np.ndarray) -> Path:
    """A dense matrix as a MatrixMarket text."""
    entries = [f"{i + 1} {j + 1} {float(matrix[i, j])!r}\n" for i, j in np.argwhere(matrix)]
    head = f"%%MatrixMarket matrix coordinate real general\n{len(matrix)} {len(matrix)}"
    path.write_text(f"{head} {len(entries)}\n" + "".join(entries))
    return path


# -- plans -----------------------------------------------------------------------------------------


def owners(n: int, num_parts: int, seed: int = 0) -> np.ndarray:
    """Random parts, int32[n]; part 2 has no rows where there are more than three."""
    owner = np.random.default_rng([seed, num_parts]).integers(0, num_parts, n)
    if num_parts > 3:
        owner[owner == 2] = 0
    return owner.astype(np.int32)


def nonzero_owners(graph: Graph, owner: np.ndarray, num_parts: int, seed: int = 0) -> np.ndarray:
    """Random parts of all nonzeros, int32[nnz]; the diagonal is with the owner of its row."""
    random = np.random.default_rng([seed, num_parts, 1])
    row = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    held = random.integers(0, num_parts, graph.num_nonzeros)
    return np.where(row == graph.indices, owner[row], held).astype(np.int32)


@cache
def plan(name: str, layout: str = "row", num_parts: int = 4, seed: int = 0) -> Plan:
    """A plan of a world with data and random owners; no search.

    Parameters:
        layout: "row", "edge", or a process grid as text ("2d 2x2", "feature 3x2"), whose parts then
            count.
    """
    matrix = graph(name)
    grid = None if layout in ("row", "edge") else Grid.parse(layout)
    num_parts = num_parts if grid is None else grid.num_parts
    owner = owners(matrix.num_vertices, num_parts, seed)
    held = nonzero_owners(matrix, owner, num_parts, seed) if layout == "edge" else None
    made = lower(matrix, Owners(owner, held), num_parts, normalization="none", self_loops=False)
    made = replace(made, vertex_data=data(matrix.num_vertices).take(made.global_id))
    return made if grid is None else with_grid(made, grid)


def epoch_seconds(plan: Plan, dims: Any, machine: Machine | str = "cpu-cluster") -> float:
    """Seconds of an epoch, by the simulation of the plan's tables."""
    used = find_machine(machine) if isinstance(machine, str) else machine
    return simulate(schedule_of(tables_of(plan), dims), used).seconds


@cache
def searched(name: str, model: str = "hp", num_parts: int = 4, **options: Any) -> Path:
    """The file of what `plancc.compile` makes of a world with data; searched once, then kept."""
    how = f"{name}-{model}-{num_parts}-{sorted(options.items())!r}"
    folder = KEPT / _sources()
    path = folder / f"{hashlib.sha256(how.encode()).hexdigest()[:16]}.h5"
    if not path.exists():
        made = plancc.compile(graph(name), model, num_parts, data=data(len(array(name))), **options)
        folder.mkdir(parents=True, exist_ok=True)
        mine = path.with_suffix(f".{os.getpid()}")
        made.save(mine)
        mine.replace(path)  # of two processes the later one, with the same content
    return path


@cache
def _sources() -> str:
    """A hash of all that decides what `compile` makes."""
    found = hashlib.sha256(pickle.dumps([np.__version__, Path(__file__).read_bytes()]))
    for file in sorted((ROOT / "plancc").rglob("*.py")):
        found.update(file.read_bytes())
    return found.hexdigest()[:16]
