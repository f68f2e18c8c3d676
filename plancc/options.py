"""The options of compilation, refinement and patching, and the combinations that are refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, Self

from plancc.cost.objectives import OBJECTIVES
from plancc.errors import InputError
from plancc.fields import check_options, checked, described, instance, like, option
from plancc.graph.formats import ReadOptions
from plancc.graph.graph import NORMALIZATIONS
from plancc.graph.links import check_shares
from plancc.models import MODELS
from plancc.models.capacities import Capacities, check_capacities
from plancc.models.weights import BALANCES, BATCH, DEFAULT_BALANCE, WEIGHTS, check_dims
from plancc.partitioners.options import PartitionOptions, of_balance, of_search
from plancc.plan.topology import Topology
from plancc.predict.machine import Machine
from plancc.predict.machine_files import DEFAULT_MACHINE, find_machine
from plancc.predict.passes import DEFAULT_DIMS
from plancc.registry import check_choice

if TYPE_CHECKING:
    from plancc.cost.rates import EpochTime
    from plancc.graph.graph import Graph
    from plancc.passes.deadline import Stop
    from plancc.plan.grid import Grid
    from plancc.predict.predictor import Predictor

of_links = partial(option, section="Links")
EFFORTS = ("fast", "balanced", "best")
WITH = " with speeds "
"""String before the capacities in the name of a machine whose ranks differ in speed."""
MAX_SPEEDS = 8
"""Largest number of capacities in the name of a machine."""
BATCHES = "Mini-batches (model stochastic-hp)"
"""Title of a section of the command line's help."""
EFFORT = "balanced"
"""Default effort of a search."""
WISHES = ("effort", "budget")
"""Options that ask for a search; the plan's provenance records them."""
EPSILON = PartitionOptions.epsilon
"""Default imbalance of a plan."""


Rows = Mapping[str, Callable[[Any], Any]]
"""Combinations of options that are refused: for each error message, the test for its combination.

A test is a function of ``asked``, the object with the options. It returns a true value if the
combination must be refused; the message shows this value as ``{0}``."""


def refuse(rows: Rows, asked: Any) -> None:
    """Raise InputError with the message of the first test in `rows` that refuses `asked`."""
    for sentence, combination in rows.items():
        if wrong := combination(asked):
            raise InputError(sentence.format(wrong, asked=asked))


def models_that(able: str) -> str:
    """Return the names of the models whose attribute `able` is true, separated by commas."""
    return ", ".join(name for name, each in MODELS.loaded().items() if getattr(each, able))


def _objective_of_others(asked: Any) -> tuple[str, str] | None:
    """Return two lists of names, as strings for an error message.

    They are the models that have the asked objective, and the objectives of the asked model. Return
    None if the asked model has the asked objective, or if no model's `own_objectives` include it.
    """
    known, name = asked.objectives, asked.options.objective
    owners = [n for n, each in MODELS.loaded().items() if name in each.own_objectives]
    return None if name in known or not owners else (" and ".join(owners), ", ".join(known))


PLAN_OPTIONS: Rows = {
    "`link_times` needs shares of links; give `link_split` too": lambda asked: (
        asked.link_times is not None and asked.link_split is None
    ),
    "`links` and `link_split` exclude each other; give one of them": lambda asked: (
        asked.links is not None and asked.link_split is not None
    ),
    "`disjoint_train_ratio` needs links; give `links` or `link_split`": lambda asked: (
        asked.disjoint_train_ratio and not asked.learns_pairs
    ),
}
REFINEMENTS: Rows = {
    "objective 'volume' does not support `max_extra_volume`; leave out this option, or choose "
    "objective {0}": lambda asked: (
        asked.max_extra_volume is not None
        and asked.objective == "volume"
        and ", ".join(name for name in OBJECTIVES if name != "volume")
    )
}
TASKS: Rows = {
    "model '{asked.name}' has no option `objective`; leave the option out": lambda asked: (
        asked.objectives and not asked.model.searched
    ),
    "objective '{asked.options.objective}': the objective of model '{asked.name}' is the "
    "expected volume of its mini-batches; for another objective use model hp": lambda asked: (
        asked.objectives and asked.model.of_batches
    ),
    "objective '{asked.options.objective}' is only for {0[0]}; for model '{asked.name}' choose "
    "from {0[1]}": lambda asked: asked.objectives and _objective_of_others(asked),
    "`{0[0]}` {0[1]}: model '{asked.name}' needs no partitioner; drop `{0[0]}`": lambda asked: (
        asked.model.problem is None and asked.options.named
    ),
    "`budget` only limits refinement, but the nets of {asked.model.batches} batches are "
    "partitioned without refinement; drop one of the two": lambda asked: (
        asked.options.budget is not None
        and not asked.searches
        and not isinstance(getattr(asked.model, "batches", ""), str)  # they are a number
    ),
    "topology {asked.options.topology}: ranks of grid '{asked.options.grid}' cannot be mapped to "
    "nodes; use a row plan, or cagnet-1d with `sparse`": lambda asked: (
        asked.options.topology is not None
        and asked.options.grid
        and not asked.options.grid.exchanges_rows
    ),
    "`fixed` is only for searches that give a row to any part, as hp does, not for "
    "model '{asked.name}'": lambda asked: (
        asked.options.fixed is not None and not asked.model.searched
    ),
    "`fixed` needs parts of one size; drop `capacities`": lambda asked: (
        asked.options.fixed is not None and asked.options.capacities is not None
    ),
    "`{0[0]}` is only for the models {0[1]}, not for '{asked.name}'": lambda asked: (
        not asked.model.searched and asked.wish and (asked.wish, models_that("searched"))
    ),
    "`effort` chooses partitioners itself; drop `{0[0]}` {0[1]}": lambda asked: (
        asked.wish == "effort" and asked.options.named
    ),
    "`{asked.wish}` is only for `effort`, which chooses partitioners itself; drop `{0[0]}` "
    "{0[1]}": lambda asked: asked.wish and asked.options.named,
    "`{asked.wish}` is only for the objectives {0}; drop `objective` "
    "{asked.options.objective}": lambda asked: (
        asked.options.objective in asked.model.own_objectives
        and asked.wish
        and ", ".join(OBJECTIVES)
    ),
}
COMPILES: Rows = {
    "`exchange` nodes: it needs nodes x ranks per node; give `topology`": lambda asked: (
        asked.plan_options.exchange == "nodes" and asked.search.topology is None
    ),
    "`weights`: balance '{asked.plan_options.balance}' does not use them; give `balance` "
    f"{{asked.plan_options.balance}},{WEIGHTS}": lambda asked: (
        asked.plan_options.weights is not None and WEIGHTS not in asked.balance.names
    ),
    "`exchange` relays: a process grid has no relays; choose another `model`": lambda asked: (
        asked.assigner.grid and asked.plan_options.exchange.startswith("relays")
    ),
    "a process grid cannot hold links; choose another `model`": lambda asked: (
        asked.assigner.grid and asked.plan_options.learns_pairs
    ),
    "balance {asked.balance}: model '{asked.task.name}' only balances nonzeros "
    "(nnz)": lambda asked: asked.task.model.layout == "edge" and asked.balance.names != ("nnz",),
    "balance {asked.balance}: model '{asked.task.name}' only balances nonzeros (nnz), or nonzeros "
    "and rows (nnz,rows)": lambda asked: (
        asked.task.model.layout == "any" and asked.balance.names not in (("nnz",), ("nnz", "rows"))
    ),
}
GRAPHS_OF_GRIDS: Rows = {
    "{asked.source.name}: `{0}`: a process grid holds none; choose another `model`": lambda asked: (
        asked.read_columns and asked.read_columns[0]
    ),
    "{asked.source.name}: several relations join the same types, but a process grid "
    "multiplies with their sum; choose another `model`": lambda asked: asked.relation is not None,
}
REVISIONS: Rows = {
    "balance '{asked}': cannot balance by the 'weights' of the graph file, which a plan does "
    "not keep; choose another `balance`": lambda asked: "weights" in asked.names,
    f"balance '{{asked}}': cannot balance by the '{BATCH}' of mini-batches, which a plan does "
    "not keep; choose another `balance`": lambda asked: BATCH in asked.names,
}


@described
@dataclass(frozen=True)
class SearchOptions(PartitionOptions):
    """Options of a search for owners, in `compile`, `refine`, model auto and sweeps.

    Users cannot set the attribute `grid`. If the plan is for a process grid, `grid` is this grid,
    the parts are its blocks of rows, and epochs are predicted for it. Otherwise `grid` is None.

    Raises:
        InputError: If a name is unknown, or a number is out of range.
    """

    objective: str | None = of_search(
        None,
        f"what the search minimises: {', '.join(OBJECTIVES)}",
        otherwise="the model's",
        more="See `plancc.cost.objectives`. A model may have objectives of its own; models that "
        "assign owners themselves have no objective.",
        metavar="NAME",
    )
    effort: str | None = of_search(
        None,
        f"search effort: {', '.join(EFFORTS)}",
        otherwise=EFFORT,
        metavar="NAME",
        choices=EFFORTS,
    )
    budget: float | None = of_search(
        None,
        "time limit of the search (30s, 5m), which ends with the best result so far",
        more="In Python a number of seconds; effort best uses all of them. With a named "
        "partitioner, it limits only the refinement that follows.",
        metavar="SECONDS",
        above=0,
        below=math.inf,
    )
    dims: tuple[int, ...] | None = of_search(
        None,
        "widths d0,d1,...,dL of the layers, for predicted epochs",
        otherwise=f"widths of the data, or {','.join(map(str, DEFAULT_DIMS))}",
        metavar="D0,D1,...",
    )
    machine: Machine | str | None = of_search(
        None,
        "machine of the predicted epochs (see plancc list machines)",
        otherwise=DEFAULT_MACHINE,
        more="A `Machine`, a name or a file.",
        metavar="NAME|FILE.toml",
        kind=instance("a machine is needed, its name or its file", Machine, str, PathLike),
    )
    topology: Topology | str | None = of_search(
        None,
        "nodes x ranks per node (4x8): few rows go between nodes, and at most once to each node",
        more="Every part has one rank. Predictions then assume this number of ranks per node.",
        metavar="NODESxRANKS",
        kind=instance("nodes x ranks are needed, as '4x8'", Topology, str),
    )
    fixed: Any = of_search(
        None,
        "part vector of rows that never move; -1 lets a row move",
        more="In Python also int[n], in vertex order.",
        metavar="FILE",
    )
    stop: Stop | None = option(
        None,
        "function that any thread may call; if it returns true, a search ends with the best so far",
        section="",
        kind=instance("a function is needed", Callable),
    )
    grid: Grid | None = option(None, internal=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dims is not None:
            object.__setattr__(self, "dims", tuple(self.dims))
        if isinstance(self.machine, str | PathLike):
            object.__setattr__(self, "machine", find_machine(self.machine))
        if self.capacities is not None:
            self._give_speed(self.capacities)
        if self.topology is not None:
            topology = self.topology
            if not isinstance(topology, Topology):
                topology = Topology.parse(topology)
            object.__setattr__(self, "topology", topology)
            machine = self.predictor.machine.on_nodes(topology.ranks_per_node)
            object.__setattr__(self, "machine", machine)

    def _give_speed(self, capacities: tuple[float, ...]) -> None:
        machine, number = self.predictor.machine, len(capacities)
        known = len(machine.speed) in (number, machine.node.ranks)
        if not (known and tuple(machine.speeds(number)) == capacities):
            speeds = ",".join(f"{value:g}" for value in capacities[:MAX_SPEEDS])
            more = ",..." if number > MAX_SPEEDS else ""
            name = f"{machine.title.split(WITH)[0]}{WITH}{speeds}{more}"
            machine = replace(machine, speed=capacities, name=name)
        object.__setattr__(self, "machine", machine)

    def of_parts(self, num_parts: int) -> Self:
        """Return the options with a capacity for each part: as given, or by the machine's speeds.

        If there are neither, the options are returned unchanged.
        """
        if self.capacities is not None:
            check_capacities(self.capacities, num_parts)
            return self
        machine = self.predictor.machine
        return replace(self, capacities=tuple(machine.speeds(num_parts))) if machine.speed else self

    @property
    def named(self) -> tuple[str, str] | None:
        """Name and value of option `partitioner` or `preset`, which replaces a search, or None."""
        own, usual = vars(self), vars(PartitionOptions)
        given = [name for name in ("partitioner", "preset") if own[name] != usual[name]]
        return (given[0], own[given[0]]) if given else None

    @property
    def wishes(self) -> dict[str, Any]:
        """Those of the options "effort" and "budget" (`WISHES`) that are given, by name."""
        own, known = vars(self), self.__dataclass_fields__
        return {name: checked(known[name], own[name]) for name in WISHES if own[name] is not None}

    @property
    def nodes(self) -> Topology | None:
        """The option `topology` as an object; None if it is not given."""
        assert not isinstance(self.topology, str)
        return self.topology

    @property
    def predictor(self) -> Predictor:
        """The predictor of an epoch's time, with defaults for options that are not given."""
        from plancc.predict.predictor import default_predictor

        assert not isinstance(self.machine, str)
        return default_predictor(self.dims, self.machine)

    def time(self, matrix: Graph, num_parts: int) -> EpochTime | None:
        """Return the function that predicts an epoch's time for given owners.

        Return None if the objective is not "time".
        """
        if self.objective != "time":
            return None
        return self.predictor.time(matrix, num_parts, self.grid)

    def for_search(self) -> tuple[str, str]:
        """Return effort and objective of a search, by default `EFFORT` and "volume"."""
        objective = self.objective or "volume"
        check_choice("objective", objective, OBJECTIVES)
        return self.effort or EFFORT, objective


@described
@dataclass(frozen=True)
class PlanOptions:
    """Options of a plan: its content, and the quantities that parts share evenly.

    Raises:
        InputError: If a name is unknown, or a number is out of range.
    """

    value_dtype: str = option(
        "float32", "type of the matrix values", section="Plan", choices=("float32", "float64")
    )
    normalize: str = option(
        "sym",
        "normalisation. sym: D^-1/2 (A+I) D^-1/2. row: D^-1 (A+I), a mean. none: no scaling",
        section="Model",
        choices=NORMALIZATIONS,
        noun="normalization",
    )
    self_loops: bool = option(True, "add the identity before normalising", section="Model")
    exchange: str = of_search(
        "auto",
        "how rows are sent. flat: directly from rank to rank. nodes: node-aware, for `topology`. "
        "relays:2, relays:3: over relays, in 2 or 3 messages; relays is relays:3. auto: what is "
        "predicted to be fastest",
        more="See `plancc.plan.routes`. With 64 parts or more, auto also tries relays for "
        "objectives that measure the busiest part.",
        choices=("auto", "flat", "nodes", "relays", "relays:2", "relays:3"),
    )
    memory: int | None = of_search(
        None,
        "memory limit per rank, such as 16G; a compilation that needs more is refused",
        otherwise="free memory, less a tenth",
        more="In Python a number of bytes. The limit is for the compiler and the processes that it "
        "starts (`plancc.search.footprint`).",
    )
    balance: str | None = of_balance(
        None,
        f"what parts share evenly: {', '.join(BALANCES)}; each may have an epsilon (nnz:0.05)",
        otherwise=f"{DEFAULT_BALANCE} for searches of row plans; else nnz",
        more="See `plancc.models.weights.Balance`; weights where there are `weights`.",
        metavar="NAME,...",
    )
    weights: Any = of_balance(
        None,
        "file of vertex weights to balance: .npy, or text with a number or id,weight per line",
        more="In Python also number[n] or number[n, num_weights], in vertex order or with ids "
        "(`plancc.graph.weights.read_weights`). None: weights that the source of the graph or the "
        "vertex data have, if any.",
    )
    data: Any = option(
        None,
        "file of features, labels and masks (.npz, .npy, .csv ...); may be repeated",
        otherwise="data of the source of the graph",
        more="In Python also several paths, a VertexData, or a mapping of names to arrays in "
        "vertex order (`plancc.graph.vertexsources.read_vertex_data`). False: no data.",
        section="Vertex data",
    )
    split: str | None = option(
        None, "name of the split, if the data have several", section="Vertex data", metavar="NAME"
    )
    keys: Mapping[str, str] | None = like(ReadOptions, "keys")
    edge_features: Any = option(
        None,
        "features of edges: a .npy file with a row for every edge in the order of GRAPH, or the "
        "word source, for the features in GRAPH",
        more="In Python also number[edges, width]; with types, a mapping of relations to arrays "
        "(`plancc.graph.edge_features.with_edges`).",
        section="Vertex data",
        metavar="FILE.npy|source",
    )
    links: Any = of_links(
        None,
        "links to predict: .npz, or a folder of the Open Graph Benchmark",
        more="In Python also a mapping, or what RandomLinkSplit returns "
        "(`plancc.graph.links.read_links`). Edges of validation and test links carry no messages.",
        metavar="SOURCE",
    )
    link_split: tuple[float, ...] | None = of_links(
        None,
        "links to predict: random shares of the edges for validation and test, such as 0.1,0.1",
        metavar="P,P",
    )
    link_times: Any = of_links(
        None,
        "with `link_split`: times of the edges; the latest edges are for test, the edges before "
        "them for validation. FILE (.npy, .csv, .csv.gz): the time of every edge, in the order of "
        "GRAPH. values: the values of GRAPH are times; the graph then has no weights",
        more="In Python also number[edges] (`plancc.graph.links`).",
        metavar="FILE|values",
    )
    disjoint_train_ratio: float = of_links(
        0.0,
        "share of the training links that are predicted; their edges carry no messages. 0: all "
        "are predicted, and their edges carry messages",
        at_least=0,
        below=1,
    )
    clusters: int | None = option(
        None, "store this many clusters, for sampler cluster", section=BATCHES
    )

    def __post_init__(self) -> None:
        check_options(self)
        refuse(PLAN_OPTIONS, self)
        if self.link_split is not None:
            check_shares(self.link_split)

    @property
    def learns_pairs(self) -> bool:
        """Whether the plan has links for link prediction."""
        return self.links is not None or self.link_split is not None

    @property
    def normalizing(self) -> dict[str, Any]:
        """Arguments for the functions `normalize` and `lower`, by name."""
        return {"normalization": self.normalize, "self_loops": self.self_loops}


@described
@dataclass(frozen=True)
class RefineOptions:
    """Options of a refinement of owners.

    Raises:
        InputError: If a number is out of range.
    """

    objective: str = like(
        SearchOptions,
        "objective",
        default="volume",
        otherwise="volume",
        more="See `plancc.cost.objectives`.",
    )
    budget: float | None = like(
        SearchOptions,
        "budget",
        more="In Python a number of seconds. A step that has begun is finished.",
    )
    cycles: int | None = of_search(
        None,
        "largest number of V-cycles",
        more="None: the default of the pass for the objective.",
        at_least=0,
    )
    max_extra_volume: float | None = of_search(
        None,
        "allowed increase of the volume, for objectives other than volume",
        otherwise="max-volume 3%, messages 8%, time 5%",
        metavar="SHARE",
        at_least=0,
        below=math.inf,
    )
    seed: int = like(SearchOptions, "seed", more="Without a budget, equal seeds give equal plans.")
    threads: int = like(
        SearchOptions,
        "threads",
        help="threads for sweeps of large graphs and minimum cuts; they do not change the plan",
    )
    dims: Sequence[int] | None = like(SearchOptions, "dims", otherwise="the plan's")
    machine: Machine | str | None = like(SearchOptions, "machine", otherwise="the plan's")
    balance: str | None = like(PlanOptions, "balance", otherwise="the plan's, or nnz")
    epsilon: float | None = like(
        SearchOptions, "epsilon", default=None, otherwise=f"the plan's, or {EPSILON:g}"
    )
    capacities: Capacities = like(
        SearchOptions,
        "capacities",
        otherwise="the machine's",
        more="They hold for every balance, and are the machine's speeds in predictions.",
    )

    def __post_init__(self) -> None:
        check_options(self)
        if self.capacities is not None:
            object.__setattr__(self, "capacities", check_capacities(self.capacities))
        if self.dims is not None:
            check_dims(self.dims)
        if isinstance(self.machine, str | PathLike):
            object.__setattr__(self, "machine", find_machine(self.machine))
        check_choice("objective", self.objective, OBJECTIVES)
        refuse(REFINEMENTS, self)


@described
@dataclass(frozen=True)
class PatchOptions:
    """Options for making the plan of a changed graph from the previous plan.

    Raises:
        InputError: If a number is out of range.
    """

    max_moves: float = of_search(
        0.01,
        "share of the rows that may get another owner",
        more="New rows do not count.",
        metavar="SHARE",
        at_least=0,
        at_most=1,
    )
    seed: int = like(SearchOptions, "seed")
    balance: str | None = like(RefineOptions, "balance")
    epsilon: float | None = like(RefineOptions, "epsilon")

    def __post_init__(self) -> None:
        check_options(self)
