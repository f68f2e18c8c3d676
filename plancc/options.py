"""The options of a search as one value, checked once. Knows names and machines; no search."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from plancc.cost.objectives import OBJECTIVES
from plancc.cost.rates import EpochTime
from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.models.capacities import check_capacities
from plancc.partitioners.options import AUTO, PartitionOptions
from plancc.passes.deadline import Stop
from plancc.plan.grid import Grid
from plancc.plan.topology import Topology
from plancc.predict.machine import Machine
from plancc.predict.machine_files import find_machine
from plancc.registry import check_choice

if TYPE_CHECKING:
    from plancc.predict.predictor import Predictor

EFFORTS = ("fast", "balanced", "best")
WITH = " with speeds "
"""What the name of a machine has before its capacities."""
MAX_SPEEDS = 8
"""Most capacities that the name of a machine spells out."""
EFFORT = "balanced"
"""Effort of a search unless told otherwise."""


@dataclass(frozen=True)
class SearchOptions(PartitionOptions):
    """How owners are found: what `compile`, `refine`, the search, `auto` and sweeps are told.

    Attributes
    ----------
    objective : str, optional
        One of `plancc.cost.objectives.OBJECTIVES`, or of the model's own objectives; None: the
        model's default.
    effort : str, optional
        One of `EFFORTS`; None: `EFFORT`.
    budget : float, optional
        Seconds after which nothing new is started, for a search or a refinement.
    dims : sequence of int, optional
        Widths d_0..d_L of the layers that epochs are predicted for; None:
        `plancc.predict.passes.DEFAULT_DIMS`.
    machine : Machine or str, optional
        The machine that epochs are predicted on, or its name or file; None:
        `plancc.predict.machine_files.DEFAULT_MACHINE`.
    topology : Topology or what it parses, optional
        With one rank for every part. The nodes of the machine have as many ranks then.
    grid : Grid, optional
        Process grid whose blocks the parts are: the time of an epoch is then the grid's.
    stop : callable, optional
        Asked often, by any thread: once it says yes, a search ends with the best owners so far.
    on_disk : bool
        Whether matrix and nets are in files, not in memory (`plancc.scratch`).
    lean : bool
        Whether partitioners are given the graph between clusters only, whatever the kind of graph:
        for memory (`plancc.search.footprint`).
    room : int, optional
        Bytes that a partitioner of that graph may take; None: any number.
    partitioner, preset, epsilon, seed, threads, time_limit
        See `PartitionOptions`. A partitioner or preset that is named replaces the search.
    capacities : sequence of float, optional
        As of `PartitionOptions`; the ranks of the machine have these speeds then.

    Raises
    ------
    InputError
        A name that is unknown, a number that is out of range.
    """

    objective: str | None = None
    effort: str | None = None
    budget: float | None = None
    dims: tuple[int, ...] | None = None
    machine: Machine | str | None = None
    topology: Topology | str | None = None
    grid: Grid | None = None
    stop: Stop | None = None
    lean: bool = False
    room: int | None = None
    on_disk: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.effort is not None:
            check_choice("effort", self.effort, EFFORTS)
        if self.budget is not None and not (math.isfinite(self.budget) and self.budget > 0):
            raise InputError(f"budget {self.budget:g} s: a number of seconds above 0 is needed")
        if self.dims is not None:
            object.__setattr__(self, "dims", tuple(self.dims))
        if isinstance(self.machine, str):
            object.__setattr__(self, "machine", find_machine(self.machine))
        if self.capacities is not None:
            self._give_speed(self.capacities)
        if self.topology is not None:
            topology = self.topology
            if not isinstance(topology, Topology):
                topology = Topology.parse(topology)
            object.__setattr__(self, "topology", topology)
            object.__setattr__(self, "machine", self.predictor.machine.on_nodes(topology))

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
        """Copy with one capacity per part: as given, else the machine's speeds.

        Raises
        ------
        InputError
            There are capacities, or speeds, of another number of parts.
        """
        if self.capacities is not None:
            check_capacities(self.capacities, num_parts)
            return self
        machine = self.predictor.machine
        return replace(self, capacities=tuple(machine.speeds(num_parts))) if machine.speed else self

    @property
    def names_partitioner(self) -> bool:
        """Whether a partitioner or preset is named, which replaces the search."""
        return self.partitioner != AUTO or self.preset is not None

    @property
    def nodes(self) -> Topology | None:
        """The topology."""
        assert not isinstance(self.topology, str)
        return self.topology

    @property
    def predictor(self) -> Predictor:
        """The prediction by which owners are judged, with defaults for what is not given."""
        from plancc.predict.predictor import default_predictor

        assert not isinstance(self.machine, str)
        return default_predictor(self.dims, self.machine)

    def time(self, matrix: Graph, num_parts: int) -> EpochTime | None:
        """The predicted epoch, for objective "time"; None for another objective."""
        if self.objective != "time":
            return None
        return self.predictor.time(matrix, num_parts, self.grid)

    def for_search(self) -> tuple[str, str]:
        """Effort and objective of a search, checked; the objective is "volume" if none."""
        objective = self.objective or "volume"
        check_choice("objective", objective, OBJECTIVES)
        return self.effort or EFFORT, objective
