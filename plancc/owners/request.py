"""The request for a compilation: its options, checked before the graph is read.

For a process grid, another model (option `blocks`) assigns the rows to blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, Self

from plancc.errors import InputError
from plancc.fields import divided
from plancc.graph.graph import Graph
from plancc.graph.rowids import warn_of_lines
from plancc.graph.textfile import check_readable
from plancc.graph.vertexdata import VertexData
from plancc.models import MODELS, make_model
from plancc.models.process_grid import ProcessGridModel
from plancc.models.stochastic import StochasticModel
from plancc.models.weights import DEFAULT_BALANCE, LOOSE, WEIGHTS, Balance, check_num_parts
from plancc.options import COMPILES, PlanOptions, Rows, SearchOptions, refuse
from plancc.owners.task import Task
from plancc.plan.grid import Grid
from plancc.predict.passes import DEFAULT_DIMS
from plancc.predict.widths import DataWidths


@dataclass(frozen=True)
class Assigner:
    """The model that assigns rows to parts, and the process grid to which the parts belong, if any.

    Attributes:
        named: Name of the model that the user asks for.
        grid: The process grid; None if the user does not ask for one.
        model: Name of the model that assigns rows; not `named` if there is a grid.
        num_parts: Number of parts; with a grid, number of its blocks of rows.
        options: Options of `model`.
    """

    named: str
    grid: Grid | None
    model: str
    num_parts: int
    options: dict[str, Any]

    @classmethod
    def of(cls, model: str, num_ranks: int, options: Mapping[str, Any]) -> Assigner:
        """Make an assigner; raise InputError for an unknown option, or a grid that does not fit."""
        chosen = make_model(model, options)
        if not isinstance(chosen, ProcessGridModel):
            return cls(model, None, model, num_ranks, dict(options))
        shape, sparse = chosen.shape(num_ranks), chosen.sends_needed_rows
        grid = Grid(chosen.scheme, *shape, sparse=sparse)
        return cls(model, grid, chosen.blocks, grid.num_parts, chosen.block_options)

    def check_widths(self, dims: Sequence[int] | None) -> None:
        """Raise InputError if the grid does not suit the widths of the layers."""
        if self.grid is not None:
            for width in dims or ():
                self.grid.check_width(width)

    def with_capacities(self, options: SearchOptions) -> SearchOptions:
        """Return options with a capacity for every part: from the user or the machine's speeds.

        Parts that must have equal sizes get no capacities. Raise InputError if the user gives
        capacities for such parts.
        """
        grid = self.grid
        of_ranks = grid is None or (grid.scheme == "1d" and grid.num_parts == grid.num_ranks)
        if of_ranks and MODELS[self.model].takes_capacities():
            return options.of_parts(self.num_parts)
        if options.capacities is not None:
            who = self.named if not of_ranks else self.model
            raise InputError(f"`capacities`: the parts of model '{who}' must have equal sizes")
        return options

    def check_graph(self, num_vertices: int, vertex_data: VertexData) -> None:
        """Raise InputError if there are too few vertices, or too few features for the grid."""
        if self.grid is None:
            check_num_parts(num_vertices, self.num_parts)
            return
        check_num_parts(num_vertices, self.grid.num_ranks, "rank")
        if vertex_data.features is not None:
            self.grid.check_width(vertex_data.features.shape[1])

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Context manager in which errors about `model` also say that it assigns grid blocks."""
        try:
            yield
        except InputError as error:
            if self.grid is None or f"'{self.model}'" not in str(error):
                raise
            why = f"'{self.model}' assigns the blocks of rows of '{self.named}': see `blocks`"
            raise InputError(f"{error} ({why})") from None


@dataclass(frozen=True, eq=False)
class Request:
    """The checked request of a compilation.

    Attributes:
        options: The user's options of the model.
        search, plan_options: The user's options of the search, and of the plan.
        task: The task of the search; its options have a capacity for every part.
        balance: Balance of the parts: by default "weights" if the user gives weights, else
            `default_balance`.
    """

    assigner: Assigner
    options: Mapping[str, Any]
    search: SearchOptions
    plan_options: PlanOptions
    task: Task
    balance: Balance

    @classmethod
    def of(
        cls, model: str, num_ranks: int, options: Mapping[str, Any], refused: Rows = COMPILES
    ) -> Self:
        """Check the options of a compile, and make its request.

        `num_ranks` is the number of parts or of a grid's ranks. `refused` adds combinations of
        options to those that `Task` refuses.
        """
        of_search, of_plan, own = divided(options, SearchOptions, PlanOptions)
        search, plan_options = SearchOptions(**of_search), PlanOptions(**of_plan)
        assigner, balance = Assigner.of(model, num_ranks, own), plan_options.balance
        if balance is None:
            weighted = plan_options.weights is not None
            balance = WEIGHTS if weighted else default_balance(assigner.model, search)
        shared = Balance.parse(balance, search.dims or DEFAULT_DIMS)
        assigner.check_widths(search.dims)
        asked = replace(assigner.with_capacities(search), grid=assigner.grid)
        asked.predictor.machine.check_ranks(num_ranks)
        with assigner.explained():
            chosen = make_model(assigner.model, assigner.options)
            task = Task(assigner.model, chosen, assigner.num_parts, asked)
        if isinstance(chosen, StochasticModel) and search.dims is not None:
            chosen.check_layers(len(search.dims) - 1)
        shared = replace(shared, capacities=asked.capacities)
        request = cls(assigner, own, search, plan_options, task, shared)
        refuse(refused, request)
        if isinstance(plan_options.weights, str | PathLike):
            check_readable(plan_options.weights)
        return request

    def for_graph(self, graph: Graph, data: VertexData) -> Self:
        """Return the request, with widths, training mask and fixed rows for a graph and its data.

        Widths that the user does not give follow from features and labels, or are defaults.
        """
        widths, options = DataWidths.of(data), self.task.options
        self.assigner.check_graph(graph.num_vertices, data)
        balance = replace(self.balance, train_mask=data.train_mask)
        if self.task.model.layout == "row":  # parts of other layouts share nonzeros alone
            balance.check_given(graph)
        if options.dims is None:
            options = replace(options, dims=widths.dims)
        else:
            widths.check(options.dims)
        if options.fixed is not None:
            from plancc.models.file import part_vector

            fixed = part_vector(options.fixed, graph.num_vertices, self.task.num_parts, -1)
            warn_of_lines(graph, options.fixed)
            options = replace(options, fixed=fixed)
        task = replace(self.task, options=options)
        return replace(self, task=task, balance=replace(balance, dims=options.dims))


def default_balance(model: str, options: SearchOptions) -> str:
    """Return the default balance: the weights that parts share evenly if the user names none.

    A search for row plans, and model "auto" with objective "time", have "nnz:0.1,rows"
    (`DEFAULT_BALANCE`), or "nnz,rows" if epsilon is above 0.1 (`LOOSE`). Otherwise the balance is
    "nnz", as in Demirci et al. 2022. It is also "nnz" for a named partitioner, unless the objective
    is "time", so that the partitioner's owners need no refinement.
    """
    chosen = MODELS[model]
    of_rows = chosen.searched and chosen.layout == "row" and not chosen.of_batches
    if chosen.layout == "any":
        of_rows = (options.objective or chosen.default_objective) == "time"
    if not of_rows or (options.named and options.objective != "time"):
        return "nnz"
    return DEFAULT_BALANCE if options.epsilon <= LOOSE else "nnz,rows"
