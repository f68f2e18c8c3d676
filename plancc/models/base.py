"""What every model is, and what it says of itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

from plancc.fields import options_of
from plancc.graph.graph import Graph
from plancc.models.problem import Hypergraph, Problem, WeightedGraph

if TYPE_CHECKING:
    from plancc.graph.vertexdata import VertexData
    from plancc.models.weights import Balance


@dataclass(frozen=True)
class Model(ABC):
    """A frozen dataclass that turns a normalised matrix into a `Problem`; its fields are options.

    The class attributes say what a model is. The pipeline, the search, sweeps, process grids and
    the command line read them, and do not ask for a model's name.

    Attributes:
        layout: Layout of its plans: "row", "edge", "grid", "feature", or "any" (it chooses among
            models).
        problem: What it hands to a partitioner: `Hypergraph` or `WeightedGraph` (models of layout
            "edge" wrap theirs in an `EdgeProblem`). None: it assigns owners without a partitioner.
        searched: Whether `plancc.search` looks for owners, unless the user names a partitioner.
        default_objective: What is minimised where the user names no objective; None: nothing is.
        own_objectives: Objectives besides the search's, which its partitioner minimises
            (`with_objective`). A model whose default is one of them is searched on request only.
        minimised: Objectives that its problem states exactly, so that a partitioner's answer needs
            no refinement.
        starts_from_cut: Whether a search starts from few cut edges of the graph, by the quickest
            partitioner. False: from a partition of the model's own problem.
        of_batches: Whether the objective is the expected volume of mini-batches (classes derived
            from `StochasticModel` only).
        competes: Whether model auto may try it.
        swept: Whether it gives owners for any number of ranks, so that a sweep can predict
            it.
        assigns_blocks: Whether a row model can assign rows to the blocks of a process grid.
        even_random: Whether rows are owned at random in equal numbers: the halo then follows from
            sizes alone.
        follows_capacities: Whether a model that assigns owners itself makes parts in proportion to
            the capacities of its balance, or leaves sizes to the user. What is searched or
            partitioned always is.
        on_ranks: Whether several ranks can compile it together (`plancc.distributed`): it is
            searched by the volume of row plans, or `build` looks at no column.
    """

    layout: ClassVar[str] = "row"
    problem: ClassVar[type[Hypergraph] | type[WeightedGraph] | None] = None
    searched: ClassVar[bool] = False
    default_objective: ClassVar[str | None] = None
    own_objectives: ClassVar[tuple[str, ...]] = ()
    minimised: ClassVar[tuple[str, ...]] = ()
    starts_from_cut: ClassVar[bool] = False
    of_batches: ClassVar[bool] = False
    competes: ClassVar[bool] = True
    swept: ClassVar[bool] = True
    assigns_blocks: ClassVar[bool] = True
    even_random: ClassVar[bool] = False
    follows_capacities: ClassVar[bool] = False
    on_ranks: ClassVar[bool] = False

    @abstractmethod
    def build(self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int) -> Problem:
        """What is partitioned, or the owners.

        Parameters:
            matrix: The normalised matrix.

        Raises:
            InputError: `num_parts` is not in 1..num_vertices, or `balance` cannot be had.
        """

    @classmethod
    def takes_capacities(cls) -> bool:
        """Whether parts can be of unequal size."""
        return cls.follows_capacities or cls.searched or cls.problem is not None

    @classmethod
    def option_fields(cls) -> dict[str, Field[Any]]:
        """The options that `from_options` takes, by name."""
        return {each.name: each for each in options_of(cls)}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """The model with some of its `option_fields`; the others take their defaults."""
        return cls(**options)

    @classmethod
    def forms(cls, num_ranks: int) -> list[dict[str, Any]]:
        """Options of every form in which model auto tries it on `num_ranks` ranks."""
        return [{}]

    def with_objective(self, objective: str) -> Self:
        """The model whose partitioner minimises `objective`, one of `own_objectives`."""
        return self

    def with_data(self, vertex_data: VertexData) -> Self:
        """The same model where it needs masks or clusters; by default it does not."""
        return self

    def taken(self, matrix: Graph, num_parts: int) -> dict[str, Any]:
        """Values that stand for options left to the model, for the provenance."""
        return {}

    def check(self, graph: Graph, num_parts: int) -> None:  # noqa: B027  most have nothing to do
        """Refuse, before the graph is normalised, what can be refused by its number of vertices."""

    def unfit(self, matrix: Graph, num_parts: int) -> str:
        """Why the model is not made for such a matrix and what to choose; "" where it is."""
        return ""


class EdgeModel(Model):
    """A model of owners of rows and of single nonzeros, whose plans have an expand and a fold.

    Attributes:
        partitioned_first: Whether a search starts from a partition of the model's own problem, not
            from a search by rows.
    """

    layout: ClassVar[str] = "edge"
    minimised: ClassVar[tuple[str, ...]] = ("volume",)
    assigns_blocks: ClassVar[bool] = False
    partitioned_first: ClassVar[bool] = False
