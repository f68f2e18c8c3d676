"""The request for a compilation: its options, checked before the graph is read.

If the request is for a process grid, another model (option `blocks`) assigns the rows to blocks, as
it would assign them to the parts of a row plan.
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
        model: Name of the model that assigns rows to parts; not `named` if there is a grid.
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
        """Make the assigner for a model, its options and a number of ranks.

        Raises:
            InputError: For an option that the model does not have, and for a grid that does not
                suit the number of ranks.
        """
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
        """Return the options with a capacity for every part.

        The capacities are those that the user gives. If the user gives none, they are the speeds of
        the ranks in the machine file. If the parts must have equal sizes, no capacities are set.

        Raises:
            InputError: If the number of capacities is not the number of parts; if the number of
                speeds is not the number of ranks; or if the user gives capacities for a model whose
                parts have equal sizes.
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
        """Context manager that explains errors about `model`, which the user may not have named.

        It adds to the message that `model` assigns the blocks of rows of the process grid.
        """
        try:
            yield
        except InputError as error:
            if self.grid is None or f"'{self.model}'" not in str(error):
                raise
            why = f"'{self.model}' assigns the blocks of rows of '{self.named}': see `blocks`"
            raise InputError(f"{error} ({why})") from None


@dataclass(frozen=True, eq=False)
class Request:
    """The checked request of a compile.

    Attributes:
        assigner: The model that assigns rows, and the process grid.
        options: The user's options of the model.
        search, plan_options: The user's options of the search, and of the plan.
        task: The task of the search. Its options have a capacity for every part.
        balance: Balance of the parts. If the user gives none, it is "weights" if there are
            `plan_options.weights`, else the `default_balance`.
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

        Parameters:
            model: Name of the model.
            num_ranks: Number of parts; for a process grid, number of its ranks.
            options: Options of the model, the search and the plan.
            refused: Combinations of options that are refused, besides the combinations that `Task`
                refuses.

        Raises:
            InputError: For unknown options, wrong values and refused combinations.
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
        """Return the request, completed by what depends on the graph and its data.

        These are the widths of the layers, the training mask and the fixed rows. If the user gives
        no widths, they follow from the data; if the data has no features or labels, defaults are
        taken.

        Raises:
            InputError: If the graph or its data do not suit the number of parts, the balance, the
                widths or the fixed rows.
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

    A search for row plans has the balance `DEFAULT_BALANCE`, or "nnz,rows" if epsilon is above
    `LOOSE`. The same holds for model "auto" with objective "time". In all other cases the balance
    is "nnz", as in Demirci et al. 2022: for edge plans, for mini-batches, and for models that
    assign rows themselves.

    For row plans, there is one exception. If the user names a partitioner, and the objective is not
    "time", the balance is "nnz", so that the owners need no refinement. For objective "time", a
    partitioner's owners are refined in any case.
    """
    chosen = MODELS[model]
    of_rows = chosen.searched and chosen.layout == "row" and not chosen.of_batches
    if chosen.layout == "any":
        of_rows = (options.objective or chosen.default_objective) == "time"
    if not of_rows or (options.named and options.objective != "time"):
        return "nnz"
    return DEFAULT_BALANCE if options.epsilon <= LOOSE else "nnz,rows"
