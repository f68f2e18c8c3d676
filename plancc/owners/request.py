"""What is asked for, checked before a graph is read: a task, its balance, a grid if there is one.

Owners of the rows of a process grid are found as for any row plan, by the model of its blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

from plancc.errors import InputError
from plancc.graph.textfile import check_readable
from plancc.graph.vertexdata import VertexData
from plancc.models import MODELS, make_model
from plancc.models.process_grid import ProcessGridModel
from plancc.models.weights import DEFAULT_BALANCE, LOOSE, WEIGHTS, Balance, check_num_parts
from plancc.options import SearchOptions
from plancc.owners.task import Task
from plancc.plan.grid import Grid
from plancc.predict.passes import DEFAULT_DIMS
from plancc.predict.widths import DataWidths


def balance_of(balance: str | None, weights: Any) -> str | None:
    """What is to be balanced where weights of vertices are given: these, unless it is said.

    Parameters:
        weights (path or array, optional): As of `plancc.graph.weights.weighted`.

    Raises:
        InputError: If the balance has no use for them, or there is no such file.
    """
    if weights is None:
        return balance
    if isinstance(weights, str | PathLike):
        check_readable(weights)
    names = [word.partition(":")[0].strip() for word in (balance or WEIGHTS).split(",")]
    if WEIGHTS not in names:
        raise InputError(
            f"`weights`: balance '{balance}' does not use them; give `balance` {balance},{WEIGHTS}"
        )
    return balance or WEIGHTS


@dataclass(frozen=True)
class Assigner:
    """The model that assigns rows to parts, and the grid that shares these parts, if there is one.

    Attributes:
        named: The model that the user names.
        model: The one that assigns rows to parts.
        num_parts: Parts of the row plan: blocks of rows.
        options: Of `model`.
    """

    named: str
    grid: Grid | None
    model: str
    num_parts: int
    options: dict[str, Any]

    @classmethod
    def of(cls, model: str, num_ranks: int, options: Mapping[str, Any]) -> Assigner:
        """What a model with these options needs for a number of ranks.

        Raises:
            InputError: An option that the model does not have, or a grid that these ranks do not
                make.
        """
        chosen = make_model(model, options)
        if not isinstance(chosen, ProcessGridModel):
            return cls(model, None, model, num_ranks, dict(options))
        grid = grid_of(chosen, num_ranks)
        return cls(model, grid, chosen.blocks, grid.num_parts, chosen.block_options)

    def check_options(self, dims: Sequence[int] | None, topology: object | None) -> None:
        """InputError unless the grid suits the widths of the layers and the topology."""
        if self.grid is None:
            return
        for width in dims or ():
            self.grid.check_width(width)
        if topology is not None and not self.grid.exchanges_rows:
            raise InputError(
                f"topology {topology}: ranks of grid '{self.grid}' cannot be mapped to nodes; "
                "those of row plans and of cagnet-1d with `sparse` can"
            )

    def with_capacities(self, options: SearchOptions) -> SearchOptions:
        """The options with a capacity for every part: those given, or the machine's speeds.

        Raises:
            InputError: There are capacities, but of another number of parts, or for a model whose
                parts are of one size; speeds of another number of ranks.
        """
        of_ranks = self.grid is None or (self.grid.num_parts, self.grid.scheme) == (
            self.grid.num_ranks,
            "1d",
        )
        if of_ranks and MODELS[self.model].takes_capacities():
            return options.of_parts(self.num_parts)
        if options.capacities is not None:
            who = self.named if not of_ranks else self.model
            raise InputError(f"`capacities`: the parts of model '{who}' are all of one size")
        return options

    def check_graph(self, num_vertices: int, vertex_data: VertexData) -> None:
        """InputError unless the graph has enough vertices, and its features enough columns."""
        if self.grid is None:
            check_num_parts(num_vertices, self.num_parts)
            return
        check_num_parts(num_vertices, self.grid.num_ranks, "rank")
        if vertex_data.features is not None:
            self.grid.check_width(vertex_data.features.shape[1])

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Errors that name the model of the blocks say why it is there."""
        try:
            yield
        except InputError as error:
            if self.grid is None or f"'{self.model}'" not in str(error):
                raise
            raise InputError(
                f"{error} ('{self.model}' assigns the blocks of rows of '{self.named}': see "
                "`blocks`)"
            ) from None


def prepared(
    model: str,
    num_ranks: int,
    model_options: Mapping[str, Any],
    options: SearchOptions,
    balance: str | None,
) -> tuple[Assigner, Task, Balance]:
    """What `compile` is asked for, checked before any graph is read.

    Parameters:
        model: The model that the user names.
        num_ranks: Parts, or ranks of a grid.
        balance: None: the default of the objective.

    Raises:
        InputError
    """
    assigner = Assigner.of(model, num_ranks, model_options)
    if balance is None:
        balance = default_balance(assigner.model, options)
    wanted = Balance.parse(balance, options.dims or DEFAULT_DIMS)
    assigner.check_options(options.dims, options.nodes)
    options = replace(assigner.with_capacities(options), grid=assigner.grid)
    options.predictor.machine.check_ranks(num_ranks)
    wanted = replace(wanted, capacities=options.capacities)
    with assigner.explained():
        chosen = make_model(assigner.model, assigner.options)
        task = Task(assigner.model, chosen, assigner.num_parts, options)
    return assigner, task, wanted


def with_dims(task: Task, data: VertexData) -> Task:
    """The task with the widths of the layers: given, of the data, or the default ones."""
    widths, dims = DataWidths.of(data), task.options.dims
    if dims is None:
        dims = widths.dims
    else:
        widths.check(dims)
    return replace(task, options=replace(task.options, dims=dims))


def default_balance(model: str, options: SearchOptions) -> str:
    """What parts share evenly unless told otherwise.

    `DEFAULT_BALANCE` for a search by rows. Nonzeros, as in Demirci et al. 2022, for edge plans,
    mini-batches, models that assign rows themselves, and a named partitioner, which is to minimise
    what it can (but for objective "time", which it cannot). Where several models compete for the
    least time, `DEFAULT_BALANCE` is that of row plans.
    """
    chosen = MODELS[model]
    of_rows = chosen.searched and chosen.layout == "row" and not chosen.of_batches
    if chosen.layout == "any":
        of_rows = (options.objective or chosen.default_objective) == "time"
    if not of_rows or (options.named and options.objective != "time"):
        return "nnz"
    return DEFAULT_BALANCE if options.epsilon <= LOOSE else "nnz,rows"


def grid_of(model: ProcessGridModel, num_ranks: int) -> Grid:
    """The grid that a model makes of `num_ranks` ranks.

    Raises:
        InputError: There is none; the message names shapes that would do.
    """
    return Grid(model.scheme, *model.shape(num_ranks), sparse=model.sends_needed_rows)
