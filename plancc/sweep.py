"""Predicted epochs of several models on more and more ranks: which parallelisation, how many ranks?

    a graph    every model's owners for every number of ranks -> tables -> schedule -> seconds
    numbers    vertices, nonzeros and boundary fractions, assumed or measured, in place of owners

No plan is lowered. Finds owners; predictions and their table are `plancc.predict`'s. No terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from plancc.clock import wall_seconds
from plancc.errors import BackendError, BackendUnavailable, InputError
from plancc.fields import parsed
from plancc.graph.graph import Graph
from plancc.graph.vertexdata import VertexData
from plancc.models import MODELS, make_model
from plancc.models.weights import Balance
from plancc.options import SearchOptions
from plancc.owners.find import find_owners
from plancc.owners.numbering import numbered
from plancc.owners.request import Assigner, default_balance
from plancc.owners.task import Observer, Task
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import Tables, tables_of_owners
from plancc.predict.sizes import Boundary, Sizes, even_tables, tables_of_sizes
from plancc.registry import check_choice
from plancc.report.scaling import Cell, Sweep

SEARCH = SearchOptions(effort="fast")
"""How a sweep finds owners unless told otherwise."""
MAX_RANKS = 4096
"""Greatest number of ranks."""
BALANCES = ("nnz", "rows", "weights", "work")
"""What parts can share evenly; a sweep knows neither training vertices nor mini-batches."""


@dataclass(frozen=True)
class Request:
    """A model of a sweep.

    Attributes
    ----------
    label : str
        As the user wrote it, such as "cagnet-1.5d:replication=4".
    model : str
    options : dict
        Options of the model.
    """

    label: str
    model: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def sends_rows(self) -> bool:
        """Whether parts send each other needed rows."""
        groups = bool(self.options.get("sparse")) or self.options.get("groups", 1) != 1
        return MODELS[self.model].layout == "row" or groups

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
        known = MODELS[model].option_fields()
        for word in words:
            name, _, value = word.partition("=")
            options[name] = parsed(known[name], value) if value and name in known else value or True
        make_model(model, options)
        return cls(text.strip(), model, options)


def parse_models(text: str) -> list[Request]:
    """Models with commas between them; InputError if there are none, or one is given twice."""
    found = [Request.parse(word) for word in text.split(",") if word.strip()]
    if not found:
        raise InputError(f"`models` '{text}': name at least one, such as hp,cagnet-1d")
    for request in found:
        if sum(request.label == other.label for other in found) > 1:
            raise InputError(f"`models` '{text}': '{request.label}' is given twice")
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
                f"numbers '{text}': give a range such as 16..4096, which stands for its powers of "
                "two, or numbers such as 16,36,64"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if not 1 <= min(first, last) <= max(first, last) <= MAX_RANKS:
            raise InputError(f"numbers '{text}': they must be from 1 to {MAX_RANKS}")
        powers = [2**k for k in range(MAX_RANKS.bit_length()) if first <= 2**k <= last]
        chosen = [first] if match[2] is None else powers
        if not chosen:
            raise InputError(f"numbers '{text}': there is no power of two in {first}..{last}")
        found.update(chosen)
    return sorted(found)


def sweep(
    source: Graph | Sizes,
    ranks: Sequence[int],
    models: Sequence[Request],
    predictor: Predictor,
    *,
    options: SearchOptions = SEARCH,
    balance: str | None = None,
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
    predictor : Predictor
    options : SearchOptions
        Effort, epsilon, seed and threads of the search; the effort is for models that `compile`
        searches without being asked to.
    balance : str, optional
        What parts of row plans share evenly; None: what `compile` has by default. Those of edge
        plans share nonzeros.
    name : str
        Name of the graph, for tables.
    observer : callable
        Called with the name of each stage; returns a context manager around it.

    Raises
    ------
    InputError
        An option that makes no sense for any cell, or no cell has a plan.
    """
    options = replace(options, dims=tuple(predictor.dims), machine=predictor.machine)
    shared = None if balance is None else Balance.parse(balance, options.dims)
    for each in () if shared is None else shared.names:
        check_choice("balance of a sweep", each, BALANCES)
    if isinstance(source, Sizes):
        _check_boundaries(source, models)
        vertices, nonzeros = source.vertices, source.nonzeros
    else:
        vertices, nonzeros = source.num_vertices, source.num_nonzeros

    def tables_of(request: Request, num_ranks: int) -> Tables:
        assigner = Assigner.of(request.model, num_ranks, request.options)
        assigner.check_options(predictor.dims, None)
        assigner.check_graph(vertices, VertexData())
        if isinstance(source, Graph):
            found = assigner.with_capacities(replace(options, machine=predictor.machine))
            return _tables_of_graph(source, request, assigner, found, shared)
        boundary = _boundary_of(source, request)
        return tables_of_sizes(source, request.label, assigner.num_parts, assigner.grid, boundary)

    cells = []
    for request in models:
        for num_ranks in ranks:
            with observer(f"{request.label}, {num_ranks} ranks"):
                start = wall_seconds()
                cell = Cell(request.label, num_ranks)
                try:
                    tables = tables_of(request, num_ranks)
                    cell = replace(cell, compile_seconds=wall_seconds() - start)
                    cell = cell.predicted(predictor.epoch(tables), tables.notes)
                except (InputError, BackendError, BackendUnavailable) as error:
                    cell = replace(cell, why=str(error))
            cells.append(cell)
    if all(cell.seconds is None for cell in cells):
        raise InputError(f"no model of the sweep has a plan: {cells[0].label}: {cells[0].why}")
    return Sweep(
        name=name,
        vertices=vertices,
        nonzeros=nonzeros,
        dims=list(predictor.dims),
        machine=predictor.machine,
        sequential=predictor.epoch(even_tables("one rank", vertices, nonzeros, 1)).seconds,
        ranks=list(ranks),
        labels=[request.label for request in models],
        cells=cells,
        notes=_notes(source, models),
    )


def _tables_of_graph(
    matrix: Graph,
    request: Request,
    assigner: Assigner,
    options: SearchOptions,
    balance: Balance | None,
) -> Tables:
    """Tables of owners as `compile` would find them; models searched on request only are not."""
    model, num_parts = make_model(assigner.model, assigner.options), assigner.num_parts
    if not model.searched or model.default_objective in model.own_objectives:
        options = replace(options, effort=None)
    task = Task(assigner.model, model, num_parts, options)
    edges = model.layout == "edge"
    if balance is None or edges:
        shared = default_balance(assigner.model, options)
        balance = Balance() if edges else Balance.parse(shared, options.dims)
    found = find_owners(matrix, task, balance, nullcontext)
    if assigner.grid is None:
        found = numbered(matrix, found, task)
    tables = tables_of_owners(
        matrix, found.owners, num_parts, assigner.grid, request.label, blocks=True
    )
    return replace(
        tables, undirected=not matrix.directed and not edges, notes=tuple(found.warnings)
    )


def _check_boundaries(sizes: Sizes, models: Sequence[Request]) -> None:
    """InputError for fractions of a model that is not there, and for models that lack them."""
    labels = [request.label for request in models]
    for label in sizes.boundary:
        if label:
            check_choice("model of a boundary", label, labels)
    for request in models:
        model = MODELS[request.model]
        if model.layout == "edge":
            raise InputError(
                f"model '{request.label}': its parts share rows, which numbers do not tell: give "
                "the graph"
            )
        needed = request.sends_rows and not model.even_random
        if needed and _boundary_of(sizes, request) is None:
            raise InputError(
                f"model '{request.label}' without a graph: give its `boundary`, as in "
                f"{request.label}=PARTS:FRACTION, the halo rows per own row"
            )


def _boundary_of(sizes: Sizes, request: Request) -> Boundary | None:
    found = sizes.boundary.get(request.label)
    if found is None and not MODELS[request.model].even_random:
        found = sizes.boundary.get("")
    return found


def _notes(source: Graph | Sizes, models: Iterable[Request]) -> list[str]:
    if not isinstance(source, Sizes):
        return []
    notes = ["no graph: parts of equal sizes are assumed"]
    for request in models:
        if not request.sends_rows:
            continue
        boundary = _boundary_of(source, request)
        if boundary is None:
            notes.append(f"{request.label}: assumed boundary fractions, those of a random matrix")
        elif boundary.source == "assumed":
            notes.append(f"{request.label}: assumed boundary fractions")
        else:
            notes.append(f"{request.label}: boundary fractions {boundary.source}")
    return notes
