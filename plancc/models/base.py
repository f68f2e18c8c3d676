"""The base classes of models. Their class attributes describe a model to the rest of plancc."""

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

    The class attributes describe the model. The pipeline, the search, sweeps, process grids and the
    command line read these attributes, and never compare a model's name.

    Attributes:
        layout: Layout of the model's plans: "row", "edge", "grid" or "feature"; "any": the model
            chooses among models.
        problem: Type of the problem for a partitioner, `Hypergraph` or `WeightedGraph`. Models of
            layout "edge" wrap it in an `EdgeProblem`. None: the model assigns owners itself.
        searched: Whether `plancc.search` searches for owners, unless the user names a partitioner.
        default_objective: The objective if the user names none; None: nothing is minimised.
        own_objectives: Names of objectives that the model adds to those of plancc. Only a
            partitioner that gets the model's problem can minimise them (`with_objective`). If the
            default objective is one of these, plancc searches only if an option asks for a search.
        minimised: Names of the objectives that a partitioner minimises when it minimises the cost
            of the model's problem. For these objectives, the owners that the partitioner finds
            need no refinement.
        starts_from_cut: Whether a search starts from a partition of the graph with few cut edges,
            made by the fastest partitioner. False: the search starts from a partition of the
            model's own problem.
        of_batches: Whether the objective is the expected volume of mini-batches. Only
            `StochasticModel` and classes derived from it may set this.
        competes: Whether model auto may compare the model with others.
        swept: Whether `plancc simulate` can predict epochs of the model's plans for a list of
            numbers of ranks.
        assigns_blocks: Whether a row model can also assign rows to the blocks of a process grid.
        even_random: Whether owners are random and parts have equal numbers of rows. The number of
            halo rows can then be estimated from the sizes of the graph.
        follows_capacities: Whether a model that assigns owners itself respects capacities, because
            it makes parts in proportion to the capacities, or because the user has chosen the
            sizes of the parts. If plancc or a partitioner finds the owners, they always respect
            capacities.
        on_ranks: Whether several ranks can compile a plan of the model together
            (`plancc.distributed`). They can if plancc searches for owners of rows by volume, or if
            `build` does not read the columns of the matrix.
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
        """Return the problem to partition, or the owners.

        Parameters:
            matrix: The normalised matrix.
            num_parts: Number of parts.
            balance: The weights that parts share evenly.
            seed: Seed of random choices.

        Raises:
            InputError: If `num_parts` is not in 1..num_vertices, or if the model cannot keep
                `balance`.
        """

    @classmethod
    def takes_capacities(cls) -> bool:
        """Whether the user can give the parts unequal sizes (capacities)."""
        return cls.follows_capacities or cls.searched or cls.problem is not None

    @classmethod
    def option_fields(cls) -> dict[str, Field[Any]]:
        """Return the dataclass fields of the options that `from_options` accepts, by name."""
        return {each.name: each for each in options_of(cls)}

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Make the model with the given options; other options keep their defaults."""
        return cls(**options)

    @classmethod
    def forms(cls, num_ranks: int) -> list[dict[str, Any]]:
        """Return the sets of options that model auto tries for this model on `num_ranks` ranks."""
        return [{}]

    def with_objective(self, objective: str) -> Self:
        """Return the model that minimises `objective`, one of the names in `own_objectives`."""
        return self

    def with_data(self, vertex_data: VertexData) -> Self:
        """Return the model with the training mask and the clusters of `vertex_data`.

        By default, the method returns the model itself: most models need neither.
        """
        return self

    def taken(self, matrix: Graph, num_parts: int) -> dict[str, Any]:
        """Return the values that the model chose for options that the user left out, by name.

        They are written to the plan's provenance.
        """
        return {}

    def check(self, graph: Graph, num_parts: int) -> None:  # noqa: B027  most have nothing to do
        """Raise InputError if an option does not fit the graph, such as a part vector that is too
        short. The compiler calls this before it normalises the graph.
        """

    def unfit(self, matrix: Graph, num_parts: int) -> str:
        """Say why the model does not suit the matrix, and which model to choose; "" if it suits."""
        return ""


class EdgeModel(Model):
    """A model that assigns owners to rows and to single nonzeros, for edge plans.

    The plans have two exchanges, expand and fold.

    Attributes:
        partitioned_first: Whether a search first lets a partitioner partition the problem that the
            model builds. False: it first searches for owners of rows.
    """

    layout: ClassVar[str] = "edge"
    minimised: ClassVar[tuple[str, ...]] = ("volume",)
    assigns_blocks: ClassVar[bool] = False
    partitioned_first: ClassVar[bool] = False
