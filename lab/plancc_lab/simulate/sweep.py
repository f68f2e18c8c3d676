"""Predictions of epochs for several models and numbers of ranks, without writing plans.

    from a graph    owners of every model for every number of ranks -> tables -> schedule -> seconds
    from sizes      vertices, nonzeros, boundary fractions -> tables -> schedule -> seconds

This module finds the owners; `plancc.predict` makes the predictions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import replace

from plancc.clock import wall_seconds
from plancc.errors import BackendError, BackendUnavailable, InputError
from plancc.graph.graph import Graph
from plancc.graph.vertexdata import VertexData
from plancc.models import MODELS, make_model
from plancc.models.weights import Balance
from plancc.options import SearchOptions
from plancc.owners.find import find_owners
from plancc.owners.numbering import numbered
from plancc.owners.request import Assigner, default_balance
from plancc.owners.task import Observer, Task, Unowned
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import Tables, tables_of_owners
from plancc.predict.sizes import Boundary, Sizes, even_tables, tables_of_sizes
from plancc.registry import check_choice
from plancc_lab.contenders import Contender, parse_contenders
from plancc_lab.simulate.scaling import Cell, Sweep

SEARCH = SearchOptions(effort="fast")
"""Default options of the search for owners in a sweep."""
BALANCES = ("nnz", "rows", "weights", "work")
"""Balances that a sweep allows: it has neither training vertices nor mini-batches to balance."""


def parse_models(text: str) -> list[Contender]:
    """Return the models in a comma-separated string (`plancc_lab.contenders`).

    Raises InputError for a model that is not possible in a sweep, or has options of the search.
    """
    found = parse_contenders(text)
    for each in found:
        check_choice("model", each.model, [n for n, m in MODELS.loaded().items() if m.swept])
        if each.search:
            name = next(iter(each.search))
            raise InputError(f"`models` '{each.label}': all models share `{name}`; give it once")
    return found


def sends_rows(model: Contender) -> bool:
    """Return whether ranks with a plan of this model send only needed rows, not whole blocks."""
    groups = bool(model.options.get("sparse")) or model.options.get("groups", 1) != 1
    return MODELS[model.model].layout == "row" or groups


def sweep(
    source: Graph | Sizes,
    ranks: Sequence[int],
    models: Sequence[Contender],
    predictor: Predictor,
    *,
    options: SearchOptions = SEARCH,
    balance: str | None = None,
    name: str = "",
    observer: Observer = nullcontext,
) -> Sweep:
    """Return the predicted epochs of all models on all numbers of ranks.

    A `Cell` without a prediction says why in `why`. The effort matters only to models for which
    `compile` searches by default. Edge plans balance nonzeros, whatever `balance` is.
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

    def tables_of(contender: Contender, num_ranks: int) -> Tables:
        assigner = Assigner.of(contender.model, num_ranks, contender.options)
        assigner.check_widths(predictor.dims)
        assigner.check_graph(vertices, VertexData())
        if isinstance(source, Graph):
            found = assigner.with_capacities(replace(options, machine=predictor.machine))
            return _tables_of_graph(source, contender, assigner, found, shared)
        boundary = _boundary_of(source, contender)
        return tables_of_sizes(source, contender.label, assigner.num_parts, assigner.grid, boundary)

    cells = []
    for contender in models:
        for num_ranks in ranks:
            with observer(f"{contender.label}, {num_ranks} ranks"):
                start = wall_seconds()
                cell = Cell(contender.label, num_ranks)
                try:
                    tables = tables_of(contender, num_ranks)
                    cell = replace(cell, compile_seconds=wall_seconds() - start)
                    cell = cell.predicted(predictor.epoch(tables), tables.notes)
                except (InputError, BackendError, BackendUnavailable) as error:
                    cell = replace(cell, why=str(error))
            cells.append(cell)
    if all(cell.seconds is None for cell in cells):
        raise InputError(f"the sweep has no prediction: {cells[0].label}: {cells[0].why}")
    return Sweep(
        name=name,
        vertices=vertices,
        nonzeros=nonzeros,
        dims=list(predictor.dims),
        machine=predictor.machine,
        sequential=predictor.epoch(even_tables("one rank", vertices, nonzeros, 1)).seconds,
        ranks=list(ranks),
        labels=[contender.label for contender in models],
        cells=cells,
        notes=_notes(source, models),
    )


def _tables_of_graph(
    matrix: Graph,
    contender: Contender,
    assigner: Assigner,
    options: SearchOptions,
    balance: Balance | None,
) -> Tables:
    """Find owners as `compile` does by default; return the sizes of their parts and messages.

    Searches that `compile` runs only on request are left out.
    """
    model, num_parts = make_model(assigner.model, assigner.options), assigner.num_parts
    if not model.searched or model.default_objective in model.own_objectives:
        options = replace(options, effort=None)
    task = Task(assigner.model, model, num_parts, options)
    edges = model.layout == "edge"
    if balance is None:
        balance = Balance.parse(default_balance(assigner.model, options), options.dims)
    asked = Unowned(matrix, task, Balance() if edges else balance)
    found = find_owners(asked)
    if assigner.grid is None:
        found = numbered(asked, found)
    tables = tables_of_owners(matrix, found.owners, num_parts, assigner.grid, contender.label)
    return replace(
        tables, undirected=not matrix.directed and not edges, notes=tuple(found.warnings)
    )


def _check_boundaries(sizes: Sizes, models: Sequence[Contender]) -> None:
    """Check that every model has the boundary fractions (halo rows per own row) that it needs.

    Raises InputError also for edge plans, or if `sizes` names a model that is not in the sweep.
    """
    labels = [contender.label for contender in models]
    for label in sizes.boundary:
        if label:
            check_choice("model of a boundary", label, labels)
    for contender in models:
        model = MODELS[contender.model]
        if model.layout == "edge":
            raise InputError(
                f"model '{contender.label}': its parts share rows, so the numbers of vertices and "
                "nonzeros are not enough; give the graph"
            )
        needed = sends_rows(contender) and not model.even_random
        if needed and _boundary_of(sizes, contender) is None:
            raise InputError(
                f"model '{contender.label}' needs a graph or a `boundary`; {contender.label}=16:0.5"
                ", for example, gives each of 16 parts half as many halo rows as own rows"
            )


def _boundary_of(sizes: Sizes, contender: Contender) -> Boundary | None:
    found = sizes.boundary.get(contender.label)
    if found is None and not MODELS[contender.model].even_random:
        found = sizes.boundary.get("")
    return found


def _notes(source: Graph | Sizes, models: Iterable[Contender]) -> list[str]:
    if not isinstance(source, Sizes):
        return []
    notes = ["no graph: parts of equal sizes are assumed"]
    for contender in models:
        if not sends_rows(contender):
            continue
        boundary = _boundary_of(source, contender)
        if boundary is None:
            notes.append(f"{contender.label}: assumed boundary fractions of a random matrix")
        elif boundary.source == "assumed":
            notes.append(f"{contender.label}: assumed boundary fractions")
        else:
            notes.append(f"{contender.label}: boundary fractions {boundary.source}")
    return notes
