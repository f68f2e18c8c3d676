"""Predicted epochs of several models on more and more ranks: which parallelisation, how many ranks?

    a graph    every model's owners for every number of ranks -> tables -> schedule -> seconds
    numbers    vertices, nonzeros and boundary fractions, assumed or measured, in place of owners

No plan is lowered. Knows the whole compiler and the machine model; no terminal.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from plancc.errors import BackendError, BackendUnavailable, InputError
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.graph.vertexdata import VertexData
from plancc.models import MODELS, make_model
from plancc.models.weights import Balance
from plancc.options import SearchOptions
from plancc.owners.find import find_owners
from plancc.owners.grids import Assigner
from plancc.owners.task import Observer, Task
from plancc.plan.grid import Grid
from plancc.plan.reader import PlanFile
from plancc.plan.receive_sets import grouped
from plancc.plan.values import Int32Array, Int64Array
from plancc.predict.machine import Machine
from plancc.predict.schedule import STEPS, Pairs
from plancc.predict.schedules import Tables, schedule_of
from plancc.predict.schedules.tables import piece_of_rows, pieces_of_grid, tables_of_owners
from plancc.predict.simulation import simulate
from plancc.registry import check_choice

MODELS_SHOWN = ("hp", "gp", "rp", "cagnet-1d", "cagnet-1.5d", "cagnet-2d", "mop", "libra")
"""Those of a sweep that names none."""
EFFORT = "fast"
"""Of the search for owners in a sweep."""
MAX_RANKS = 4096
COMPUTATION = ("multiply", "dense")
COMMUNICATION = tuple(step for step in STEPS if step not in COMPUTATION)
BALANCE = "nnz,rows"
"""What the parts of row plans share evenly: what sparse products take, and what dense ones do."""
BALANCES = ("nnz", "rows", "weights", "work")
"""What they can share; of training vertices and mini-batches a sweep knows nothing."""
CHUNK = 1 << 24
"""Nonzeros that are counted at a time."""


@dataclass(frozen=True)
class Request:
    """A model of a sweep.

    Attributes
    ----------
    label : str
        As the user wrote it, such as "cagnet-1.5d:replication=4".
    model : str
    options : dict
        Of the model.
    """

    label: str
    model: str
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Request:
        """MODEL or MODEL:OPTION=VALUE:...; an option without a value is switched on.

        Raises
        ------
        InputError
            An unknown model or option, or a model that cannot be swept.
        """
        model, *words = text.strip().split(":")
        check_choice("model", model, [n for n, m in MODELS.loaded().items() if m.swept])
        options: dict[str, Any] = {}
        for word in words:
            name, _, value = word.partition("=")
            options[name] = _value(value) if value else True
        make_model(model, options)
        return cls(text.strip(), model, options)


def _value(text: str) -> Any:
    return int(text) if re.fullmatch(r"\d{1,9}", text, re.ASCII) else text


def parse_models(text: str) -> list[Request]:
    """Models with commas between them; InputError if there are none, or one is there twice."""
    found = [Request.parse(word) for word in text.split(",") if word.strip()]
    if not found:
        raise InputError(f"--models '{text}': name at least one, such as hp,cagnet-1d")
    for request in found:
        if sum(request.label == other.label for other in found) > 1:
            raise InputError(f"--models '{text}': '{request.label}' is there twice")
    return found


def parse_ranks(text: str) -> list[int]:
    """Numbers of ranks: "p=16..4096" has the powers of two, "p=16,36,64" these; ascending.

    Raises
    ------
    InputError
        Anything else, an empty range, or numbers outside 1..4096.
    """
    found: set[int] = set()
    for word in text.strip().removeprefix("p=").split(","):
        match = re.fullmatch(r"(\d{1,9})(?:\.\.(\d{1,9}))?", word.strip(), re.ASCII)
        if not match:
            raise InputError(
                f"--sweep '{text}': give a range such as p=16..4096, of which the powers of two "
                "are taken, or numbers such as p=16,36,64"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if not 1 <= min(first, last) <= max(first, last) <= MAX_RANKS:
            raise InputError(f"--sweep '{text}': numbers of ranks are from 1 to {MAX_RANKS}")
        inside = [first] if match[2] is None else _powers_of_two(first, last)
        if not inside:
            raise InputError(f"--sweep '{text}': there is no power of two in {first}..{last}")
        found.update(inside)
    return sorted(found)


def _powers_of_two(first: int, last: int) -> list[int]:
    return [2**k for k in range(MAX_RANKS.bit_length()) if first <= 2**k <= last]


@dataclass(frozen=True)
class Boundary:
    """Halo rows per own row of a part, as a function of the number of parts.

    Between the points its logarithm is linear in log p, beyond them as in the nearest interval; one
    point is a constant.

    Attributes
    ----------
    points : tuple of (int, float, float or None)
        Parts, ascending; halo rows per own row; parts that a part receives from, None for as many
        as there are rows for.
    source : str
        "assumed", or of which plans.
    """

    points: tuple[tuple[int, float, float | None], ...]
    source: str = "assumed"

    @classmethod
    def parse(cls, text: str) -> Boundary:
        """ "16:0.5,256:1.2", "16:0.5:12,..." with peers, or plan files that were compiled.

        Raises
        ------
        InputError
            Anything else, negative or infinite numbers, the same number of parts twice.
        """
        points: list[tuple[int, float, float | None]] = []
        plans = []
        for word in filter(None, (word.strip() for word in text.split(","))):
            if word.endswith(".h5"):
                points.append(_measured(word))
                plans.append(word)
                continue
            try:
                parts, fraction, *peers = word.split(":")
                point = int(parts), float(fraction), float(peers[0]) if peers else None
                if len(peers) > 1 or not all(math.isfinite(x) for x in point if x is not None):
                    raise ValueError
            except ValueError:
                point = 0, 0.0, None
            if point[0] < 1 or point[1] < 0 or (point[2] or 0) < 0:
                raise InputError(
                    f"--boundary '{text}': '{word}' is not PARTS:FRACTION, such as 16:0.5 for half "
                    "a halo row per own row of 16 parts, nor a plan file"
                )
            points.append(point)
        points.sort(key=lambda point: point[0])
        if not points:
            raise InputError(f"--boundary '{text}': give at least one PARTS:FRACTION")
        numbers = [point[0] for point in points]
        if len(set(numbers)) < len(numbers):
            raise InputError(f"--boundary '{text}': a number of parts is there twice")
        return cls(tuple(points), f"measured on {', '.join(plans)}" if plans else "assumed")

    def at(self, num_parts: int) -> tuple[float, float | None]:
        """Halo rows per own row, and peers or None."""
        parts = [point[0] for point in self.points]
        fraction = _power_law(parts, [point[1] for point in self.points], num_parts)
        peers = [point[2] for point in self.points if point[2] is not None]
        if len(peers) < len(parts):
            return fraction, None
        return fraction, _power_law(parts, peers, num_parts)


def _power_law(parts: Sequence[int], values: Sequence[float], at: int) -> float:
    """Interpolation and extrapolation in logarithms; linear in log p where a value is 0."""
    if len(parts) == 1:
        return values[0]
    last = min(max(1, int(np.searchsorted(parts, at))), len(parts) - 1)
    x0, x1 = math.log(parts[last - 1]), math.log(parts[last])
    y0, y1 = values[last - 1], values[last]
    share = (math.log(at) - x0) / (x1 - x0)
    if y0 > 0 and y1 > 0:
        return math.exp(math.log(y0) + share * (math.log(y1) - math.log(y0)))
    return max(0.0, y0 + share * (y1 - y0))


def _measured(path: str) -> tuple[int, float, float | None]:
    with PlanFile(path) as file:
        metrics = file.metrics()
        if metrics is None or file.header.layout == "edge":
            raise InputError(f"{path}: has no halo rows per own row: a row plan is needed")
        return file.header.num_parts, metrics.boundary_ratio, metrics.average_messages


@dataclass(frozen=True)
class Sizes:
    """A graph that is too large to be at hand.

    Attributes
    ----------
    vertices, nonzeros : int
        Of the matrix, its diagonal included.
    boundary : dict of str to Boundary
        By label of a model; "" for all others that exchange rows, but rp: without any, a random
        partition has the boundary of a random matrix with as many nonzeros in every row.

    Raises
    ------
    InputError
        No vertices, or fewer nonzeros than vertices.
    """

    vertices: int
    nonzeros: int
    boundary: Mapping[str, Boundary] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.vertices < 1:
            raise InputError(f"--vertices {self.vertices}: at least 1 is needed")
        if not self.vertices <= self.nonzeros <= self.vertices**2:
            raise InputError(
                f"--nonzeros {self.nonzeros}: {self.vertices} vertices have from {self.vertices} "
                f"(the diagonal) to {self.vertices**2} of them"
            )


@dataclass(frozen=True)
class Cell:
    """A model on a number of ranks.

    Attributes
    ----------
    label : str
    num_ranks : int
    seconds : float or None
        Of an epoch; None: see `why`.
    steps : dict of str to float
        Seconds of the steps of `plancc.predict.schedule.STEPS`; they add up to `seconds`.
    memory : int
        Bytes that the fullest rank holds.
    fits : bool
        Whether that is at most what the machine has for a rank; True where it does not say.
    why : str
        Why there is no figure.
    notes : tuple of str
        What was assumed, and what was noticed of the owners.
    compile_seconds : float
        That the owners took.
    """

    label: str
    num_ranks: int
    seconds: float | None = None
    steps: dict[str, float] = field(default_factory=dict)
    memory: int = 0
    fits: bool = True
    why: str = ""
    notes: tuple[str, ...] = ()
    compile_seconds: float = 0.0

    @property
    def communication(self) -> float:
        """Seconds of messages and collectives."""
        return sum(self.steps.get(name, 0.0) for name in COMMUNICATION)

    @property
    def computation(self) -> float:
        return sum(self.steps.get(name, 0.0) for name in COMPUTATION)


@dataclass(frozen=True)
class Sweep:
    """The whole table.

    Attributes
    ----------
    name : str
        Of the graph.
    vertices, nonzeros : int
        Of the normalised matrix.
    dims : list of int
    machine : Machine
    sequential : float
        Predicted seconds of an epoch on one rank: what speed-ups are relative to.
    ranks : list of int
    labels : list of str
    cells : list of Cell
        By label, then by ranks.
    notes : list of str
        What holds for all: assumed boundary fractions.
    """

    name: str
    vertices: int
    nonzeros: int
    dims: list[int]
    machine: Machine
    sequential: float
    ranks: list[int]
    labels: list[str]
    cells: list[Cell]
    notes: list[str] = field(default_factory=list)

    def cell(self, label: str, num_ranks: int) -> Cell:
        """KeyError if it is not part of the sweep."""
        for cell in self.cells:
            if (cell.label, cell.num_ranks) == (label, num_ranks):
                return cell
        raise KeyError((label, num_ranks))

    def speedup(self, cell: Cell) -> float | None:
        """Over one rank."""
        return self.sequential / cell.seconds if cell.seconds else None

    def best(self, num_ranks: int) -> Cell | None:
        """The fastest model that fits."""
        there = [c for c in self.cells if c.num_ranks == num_ranks and c.seconds and c.fits]
        return min(there, key=lambda cell: cell.seconds or 0.0, default=None)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        cells = [
            asdict(cell)
            | {
                "communication": cell.communication,
                "computation": cell.computation,
                "speedup": self.speedup(cell),
                "notes": list(cell.notes),
            }
            for cell in self.cells
        ]
        return {
            "name": self.name,
            "vertices": self.vertices,
            "nonzeros": self.nonzeros,
            "dims": list(self.dims),
            "machine": self.machine.as_dict(),
            "sequential_seconds": self.sequential,
            "ranks": self.ranks,
            "models": self.labels,
            "notes": self.notes,
            "cells": cells,
        }


def sweep(
    source: Graph | Sizes,
    ranks: Sequence[int],
    models: Sequence[Request],
    dims: Sequence[int],
    machine: Machine,
    *,
    passes: Sequence[str] = ("order", "constant"),
    effort: str = EFFORT,
    balance: str = BALANCE,
    epsilon: float = 0.01,
    seed: int = 1,
    threads: int = 1,
    name: str = "",
    observer: Observer = nullcontext,
) -> Sweep:
    """Predict an epoch of every model on every number of ranks.

    A model that does not admit a number of ranks has a cell that says why.

    Parameters
    ----------
    source : Graph or Sizes
        The normalised matrix, or numbers in its place.
    ranks : list of int
    models : list of Request
    dims : list of int
        Widths d_0..d_L.
    machine : Machine
    passes : list of str
        Of "order" and "constant".
    effort : str
        Of the models that are searched for; gp is METIS's.
    balance : str
        What parts share evenly; those of edge plans share nonzeros.
    epsilon, seed, threads
        See `plancc.compile`.
    name : str
        Of the graph, for tables.
    observer : callable
        Called with the name of each stage; returns a context manager around it.

    Raises
    ------
    InputError
        An option that makes no sense for any cell, or no cell has a plan.
    """
    options = SearchOptions(effort=effort, epsilon=epsilon, seed=seed, threads=threads)
    shared = Balance.parse(balance, dims)
    for each in shared.names:
        check_choice("balance of a sweep", each, BALANCES)
    if isinstance(source, Sizes):
        _check_boundaries(source, models)
        vertices, nonzeros = source.vertices, source.nonzeros
    else:
        vertices, nonzeros = source.num_vertices, source.num_nonzeros
    alone = _even("one rank", "row", vertices, nonzeros, 1, None)
    sequential = simulate(schedule_of(alone, dims, passes), machine).seconds
    cells = []
    for request in models:
        for num_ranks in ranks:
            with observer(f"{request.label}, {num_ranks} ranks"):
                start = time.perf_counter()
                cell = Cell(request.label, num_ranks)
                try:
                    assigner = Assigner.of(request.model, num_ranks, request.options)
                    assigner.check_options(dims, None)
                    assigner.check_graph(vertices, VertexData())
                    if isinstance(source, Sizes):
                        tables = tables_of_sizes(source, request, assigner)
                    else:
                        tables = _of_owners(source, request, assigner, options, shared)
                    cell = replace(cell, compile_seconds=time.perf_counter() - start)
                    cell = _predicted(cell, tables, dims, passes, machine)
                except (InputError, BackendError, BackendUnavailable) as error:
                    cell = replace(cell, why=str(error))
            cells.append(cell)
    if all(cell.seconds is None for cell in cells):
        raise InputError(f"no model of the sweep has a plan: {cells[0].label}: {cells[0].why}")
    return Sweep(
        name=name,
        vertices=vertices,
        nonzeros=nonzeros,
        dims=list(dims),
        machine=machine,
        sequential=sequential,
        ranks=list(ranks),
        labels=[request.label for request in models],
        cells=cells,
        notes=_notes(source, models),
    )


def _predicted(
    cell: Cell, tables: Tables, dims: Sequence[int], passes: Sequence[str], machine: Machine
) -> Cell:
    result = simulate(schedule_of(tables, dims, passes), machine)
    return replace(
        cell,
        seconds=result.seconds,
        steps={step: result.of_step(step)[0] for step in STEPS},
        memory=result.memory["total"],
        fits=result.fits is not False,
        notes=(*cell.notes, *tables.notes),
    )


# Tables of owners.


def _of_owners(
    matrix: Graph,
    request: Request,
    assigner: Assigner,
    options: SearchOptions,
    balance: Balance,
) -> Tables:
    """Owners as `compile` would find them; models that are searched on request only are not."""
    model, num_parts = make_model(assigner.model, assigner.options), assigner.num_parts
    if not model.searched or model.default_objective in model.own_objectives:
        options = replace(options, effort=None)
    task = Task(assigner.model, model, num_parts, options)
    edges = model.layout == "edge"
    found = find_owners(matrix, task, Balance() if edges else balance, nullcontext)
    if found.owners.nonzeros is not None:
        tables = _of_edges(matrix, found.owners, num_parts)
    else:
        rows, grid = found.owners.rows, assigner.grid
        tables = tables_of_owners(matrix, rows, num_parts, grid, request.label)
        if grid is not None and grid.scheme in ("1.5d", "2d", "3d"):
            tables = replace(tables, blocks=column_blocks(matrix, rows, grid))
    return replace(
        tables,
        name=request.label,
        undirected=not matrix.directed and not edges,
        notes=(*tables.notes, *found.warnings),
    )


def column_blocks(matrix: Graph, owner: Int32Array, grid: Grid) -> Int64Array:
    """Nonzeros of every block of rows, by the piece that their columns are in.

    Where pieces are smaller than blocks, in grids that are not square, a block's rows are taken in
    the order of their vertices; a plan has those without a halo first.

    Parameters
    ----------
    matrix : Graph
    owner : int32[n]
        Of the grid's blocks of rows.
    grid : Grid
        1.5d, 2d or 3d.

    Returns
    -------
    int64[num_parts, pieces]
        See `plancc.predict.schedules.tables.piece_of_rows`.
    """
    _, position, part_ptr = grouped(owner, grid.num_parts)
    piece = piece_of_rows(grid, part_ptr)[position]
    pieces = pieces_of_grid(grid)
    found = np.zeros(grid.num_parts * pieces, np.int64)
    row = 0
    while row < matrix.num_vertices:
        limit = matrix.indptr[row] + CHUNK
        last = max(row + 1, int(np.searchsorted(matrix.indptr, limit, side="right")) - 1)
        chosen = slice(int(matrix.indptr[row]), int(matrix.indptr[last]))
        part = np.repeat(owner[row:last].astype(np.int64), np.diff(matrix.indptr[row : last + 1]))
        place = part * pieces + piece[matrix.indices[chosen]]
        found += np.bincount(place, minlength=len(found))
        row = last
    return found.reshape(grid.num_parts, pieces)


def _of_edges(matrix: Graph, owners: Owners, num_parts: int) -> Tables:
    """Who expands and folds how many rows under owners of rows and nonzeros."""
    owner, holder = owners.rows, owners.of_nonzeros(matrix)
    row = np.repeat(np.arange(matrix.num_vertices), matrix.row_nonzeros())
    own = holder == owner[row]
    return Tables(
        name="",
        layout="edge",
        rows=np.bincount(owner, minlength=num_parts),
        nonzeros=np.bincount(holder, minlength=num_parts),
        expand=_pairs(matrix.indices, owner, holder, num_parts, to_owner=False),
        fold=_pairs(row, owner, holder, num_parts, to_owner=True),
        own_nonzeros=np.bincount(holder[own], minlength=num_parts),
    )


def _pairs(
    vertex: Int64Array | Int32Array,
    owner: Int32Array,
    holder: Int32Array,
    num_parts: int,
    to_owner: bool,
) -> Pairs:
    """Vertices of every nonzero that its holder does not own: each travels once per holder."""
    foreign = owner[vertex] != holder
    keys = np.unique(holder[foreign].astype(np.int64) * len(owner) + vertex[foreign])
    at_holder, at_owner = keys // len(owner), owner[keys % len(owner)].astype(np.int64)
    ends = (at_holder, at_owner) if to_owner else (at_owner, at_holder)
    pair, rows = np.unique(ends[0] * num_parts + ends[1], return_counts=True)
    source, target = (each.astype(np.int32) for each in np.divmod(pair, num_parts))
    return Pairs(num_parts, source, target, rows.astype(np.int64))


# Tables of numbers.


def _check_boundaries(sizes: Sizes, models: Sequence[Request]) -> None:
    """InputError for fractions of a model that is not there, and for models that lack them."""
    labels = [request.label for request in models]
    for label in sizes.boundary:
        if label and label not in labels:
            check_choice("model of --boundary", label, labels)
    for request in models:
        if MODELS[request.model].layout == "edge":
            raise InputError(
                f"model '{request.label}': its parts share rows, which numbers do not tell: give "
                "the graph"
            )
        exchanges = MODELS[request.model].layout == "row" or _sends_rows(request)
        if (
            exchanges
            and _boundary_of(sizes, request) is None
            and not MODELS[request.model].even_random
        ):
            raise InputError(
                f"model '{request.label}' without a graph: give --boundary "
                f"{request.label}=PARTS:FRACTION,... , its halo rows per own row"
            )


def _sends_rows(request: Request) -> bool:
    """Of a process grid, whether needed rows travel between its blocks."""
    return bool(request.options.get("sparse")) or request.options.get("groups", 1) != 1


def _boundary_of(sizes: Sizes, request: Request) -> Boundary | None:
    found = sizes.boundary.get(request.label)
    if found is None and not MODELS[request.model].even_random:
        found = sizes.boundary.get("")
    return found


def tables_of_sizes(sizes: Sizes, request: Request, assigner: Assigner) -> Tables:
    """Parts of equal sizes, with the boundary that is measured or assumed.

    Parameters
    ----------
    sizes : Sizes
    request : Request
        Of a row plan or a process grid.
    assigner : Assigner
        What the model needs for a number of ranks.
    """
    grid = assigner.grid
    layout = "row" if grid is None else grid.layout
    tables = _even(request.label, layout, sizes.vertices, sizes.nonzeros, assigner.num_parts, grid)
    if grid is not None and not _sends_rows(request):
        return tables
    boundary, peers = _boundary_of(sizes, request), None
    if boundary is None:
        fraction = random_boundary(sizes.vertices, sizes.nonzeros, assigner.num_parts)
    else:
        fraction, peers = boundary.at(assigner.num_parts)
    return replace(tables, expand=_even_pairs(tables.rows, fraction, peers))


def random_boundary(vertices: int, nonzeros: int, num_parts: int) -> float:
    """Expected halo rows per own row of a random partition, if all columns were alike.

    A column has d = nonzeros / vertices - 1 nonzeros beside the diagonal, in random rows: so many
    of the other p - 1 parts need it, ``(p - 1) (1 - (1 - 1 / p)^d)``. Graphs whose columns differ
    have fewer.
    """
    degree = nonzeros / vertices - 1
    return (num_parts - 1) * (1 - (1 - 1 / num_parts) ** degree)


def _even(
    name: str, layout: str, vertices: int, nonzeros: int, num_parts: int, grid: Grid | None
) -> Tables:
    """Parts of equal sizes that exchange nothing."""
    nobody = np.zeros(0, np.int32)
    return Tables(
        name=name,
        layout=layout,
        rows=_shares(vertices, num_parts),
        nonzeros=_shares(nonzeros, num_parts),
        expand=Pairs(num_parts, nobody, nobody, np.zeros(0, np.int64)),
        grid=grid,
    )


def _shares(total: int, number: int) -> Int64Array:
    return np.diff(np.arange(number + 1, dtype=np.int64) * total // number)


def _even_pairs(rows: Int64Array, fraction: float, peers: float | None) -> Pairs:
    """Every part receives `fraction` rows per own row, from `peers` parts all around it."""
    num_parts = len(rows)
    halo = min(round(fraction * int(rows.max())), int(rows.sum() - rows.max()))
    number = num_parts - 1 if peers is None else min(num_parts - 1, max(1, round(peers)))
    number = min(number, halo)
    offsets = 1 + np.arange(number, dtype=np.int64) * (num_parts - 1) // max(1, number)
    target = np.repeat(np.arange(num_parts, dtype=np.int32), number)
    source = ((target + np.tile(offsets, num_parts)) % num_parts).astype(np.int32)
    return Pairs(
        num_parts, source, target, np.tile(_shares(halo, max(1, number))[:number], num_parts)
    )


def _notes(source: Graph | Sizes, models: Iterable[Request]) -> list[str]:
    if not isinstance(source, Sizes):
        return []
    notes = ["no graph: parts of equal sizes are assumed"]
    for request in models:
        if MODELS[request.model].layout != "row" and not _sends_rows(request):
            continue
        boundary = _boundary_of(source, request)
        if boundary is None:
            notes.append(f"{request.label}: assumed boundary fractions, those of a random matrix")
        elif boundary.source == "assumed":
            notes.append(f"{request.label}: assumed boundary fractions")
        else:
            notes.append(f"{request.label}: boundary fractions {boundary.source}")
    return notes
