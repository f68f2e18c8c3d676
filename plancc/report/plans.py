"""The figures of a plan that `plancc inspect` and `plancc compare` print.

The plan is checked first, some parts at a time; only some figures need the whole plan in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from plancc.cost.owners import BASELINE_SEED, traffic
from plancc.errors import InputError
from plancc.files import StrPath
from plancc.graph.graph import Graph
from plancc.graph.named_ids import are_names
from plancc.graph.owners import Owners
from plancc.models.random import random_owner
from plancc.plan.format import header_attributes
from plancc.plan.links import NUM_KINDS, OF_SPLITS
from plancc.plan.matrix import graph_of, owners_of
from plancc.plan.metrics import Metrics, Traffic, summarize
from plancc.plan.plan import Plan
from plancc.plan.reader import PlanFile
from plancc.plan.relations import RelationTraffic, TypeTraffic, relation_traffic, type_traffic
from plancc.plan.slices import check_tables
from plancc.plan.topology import Topology
from plancc.plan.values import Header
from plancc.predict.machine import Machine
from plancc.predict.schedules import live_tables, read_tables, tables_of_owners, training_vertices
from plancc.predict.schedules.plan_tables import rank_of_parts
from plancc.predict.schedules.row import traffic_of
from plancc.report.costs import TrainingCost, grid_pass_costs, read_product
from plancc.report.epochs import Basis, EpochTimes, recorded_random
from plancc.report.grid_traffic import ProductTraffic
from plancc.report.passes import PassCost, SampledCost, sampled_costs
from plancc.report.payback import Payoff, Spending, search_seconds
from plancc.report.provenance import decoded
from plancc.report.routes import RelayCost, TopologyCost, chosen_topology, read_topology_cost

T = TypeVar("T")
ID = "rows/original_id"
PART_FIGURES = ("rows", "nonzeros", "sent", "received", "messages_sent", "messages_received")
"""Names of the figures of every part."""
OPTIONAL = {
    **{name: name for name in ("training", "random_training", "topology", "relays", "product")},
    **{name: name for name in ("types", "relations", "links", "ids_are_names")},
    **{"boundary_sampling": "sampled", "passes": "on_grid"},
}
"""Figures that only some reports have: for every JSON name, the attribute of `Report`."""
DIFFERENT = "figures of different matrices do not compare"


@dataclass(frozen=True)
class Report:
    """Figures of a plan, and of a random partition with parts of equal size.

    Attributes:
        provenance: Provenance of the plan; `tried` is decoded to a list of dicts.
        num_ranks: Number of ranks; below the number of parts if parts are merged. For a grid plan,
            the number of ranks of the grid; `metrics`, `random` and `parts` describe its row plan.
        metrics, random: Figures of one product, for the plan and for the random partition.
        training, random_training: Costs of an epoch, for plan and random partition, or None.
        sampled: Costs of an epoch for each given rate of boundary sampling.
        topology: Traffic within and between nodes; None if no nodes are given or recorded.
        relays: Traffic with relays; None if the plan has no relays, or if parts are merged.
        product: Words of one product on the process grid; None without a grid.
        on_grid: Costs of an epoch on the process grid; empty without given widths.
        types, relations: Figures of vertex types and relations; empty if parts are merged.
        links: Links by split, and rows and messages of their exchange; empty without links.
        more: Objects that a caller adds, by name in JSON; each has a method ``facts(metrics)`` that
            returns table rows.
    """

    path: str
    header: Header
    content_sha256: str
    provenance: dict[str, Any]
    vertex_data: list[str]
    num_ranks: int
    metrics: Metrics
    random: Metrics
    parts: Traffic
    training: TrainingCost | None
    random_training: TrainingCost | None
    sampled: list[SampledCost]
    epoch: EpochTimes
    topology: TopologyCost | None
    relays: RelayCost | None = None
    product: ProductTraffic | None = None
    on_grid: list[PassCost] = field(default_factory=list)
    types: list[TypeTraffic] = field(default_factory=list)
    relations: list[RelationTraffic] = field(default_factory=list)
    links: dict[str, int] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)
    ids_are_names: bool = False

    @property
    def spending(self) -> Spending:
        """Seconds of the search, and predicted seconds of an epoch."""
        return Spending(search_seconds(self.provenance), self.epoch.seconds)

    def pays_over(self, other: Report | None = None) -> Payoff:
        """Return after how many epochs this plan's shorter epochs make up for its longer search.

        The plan is compared with `other`; None: with random owners.
        """
        random = Spending(0.0, self.epoch.random)
        return self.spending.pays_over(random if other is None else other.spending)

    def as_dict(self, per_part: bool = False) -> dict[str, Any]:
        """Return the report as a dict for JSON; `per_part` adds the figures of every part."""
        result: dict[str, Any] = {
            "path": self.path,
            "header": header_attributes(self.header),
            "content_sha256": self.content_sha256,
            "provenance": self.provenance,
            "vertex_data": self.vertex_data,
            "num_ranks": self.num_ranks,
            "metrics": self.metrics.figures(),
            "random": self.random.figures(),
            "epoch": self.epoch.as_dict(),
        }
        others = {name: getattr(self, attribute) for name, attribute in OPTIONAL.items()}
        others |= self.more
        result |= {name: _plain(value) for name, value in others.items() if value}
        if per_part:
            of = self.parts
            shown = {name: getattr(of, name) for name in PART_FIGURES}
            if of.fold is not None:
                shown |= {f"fold_{name}": array for name, array in of.fold._asdict().items()}
                shown["copies"] = of.copies
            result["parts"] = {name: array.tolist() for name, array in shown.items()}
        return result


def _plain(value: Any) -> Any:
    """Return figures, or a list of figures, as dicts and lists that JSON can hold."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if hasattr(value, "as_dict"):
        return value.as_dict()
    return value if isinstance(value, dict | int) else asdict(value)


def _links(file: PlanFile) -> dict[str, int]:
    """Return the counts of links, rows and messages of an open plan file, as in `Report.links`."""
    if file.header.links is None:
        return {}
    counts = np.bincount(file.read("links/kind"), minlength=NUM_KINDS)
    found = {split: int(counts[kinds[0]]) for split, kinds in OF_SPLITS.items()}
    rows, messages = (len(file.node(f"links/recv_{name}")) for name in ("row", "peer"))
    return found | {"rows": rows, "messages": messages}


def report(
    path: StrPath,
    *,
    dims: Sequence[int] | None = None,
    num_ranks: int | None = None,
    machine: Machine | None = None,
    topology: Topology | None = None,
    boundary_sampling: Sequence[float] = (),
    basis: Basis | None = None,
    random_epoch: bool = False,
) -> Report:
    """Return the figures of a plan file.

    Parameters:
        dims: Widths d_0..d_L of the layers; None: no costs of training.
        num_ranks: Number of ranks; if below the number of parts, parts are merged.
        machine: Machine of the predicted epoch; by default `Basis` chooses it.
        topology: Topology of `num_ranks` ranks; by default the recorded topology if it fits.
        boundary_sampling: Rates in [0, 1], for which an epoch's expected costs are reported. They
            need `dims`.
        basis: Machine and widths that several compared plans share.
        random_epoch: Whether to predict a random partition's epoch time if it is not recorded.

    Raises:
        InputError: If an argument does not fit the plan, or the file is missing.
        PlanError: If the file is damaged.
    """
    if dims is None and boundary_sampling:
        raise InputError("boundary sampling needs the widths of the layers; give `dims` too")
    with PlanFile(path) as file:
        source = _Source(file, file.checked_ranks(num_ranks))
        check_plan(file)
        grid = file.header.grid
        basis = basis or Basis.read(file, dims, machine)
        topology = chosen_topology(file, source.num_ranks, topology)
        if boundary_sampling:
            file.check_row_plan("boundary sampling")
        in_layers = dims if grid is None else None
        return Report(
            path=file.path,
            header=file.header,
            content_sha256=file.content_sha256,
            provenance=decoded(file.attributes("provenance")),
            vertex_data=file.vertex_data_names(),
            links=_links(file),
            num_ranks=source.num_ranks if grid is None else grid.num_ranks,
            metrics=summarize(source.parts),
            random=source.random(counted=in_layers is not None),
            parts=source.parts,
            training=source.training(in_layers),
            random_training=source.random_training(in_layers),
            sampled=source.sampled(in_layers, boundary_sampling),
            epoch=source.epoch(basis, random_epoch),
            topology=None if topology is None else source.on_nodes(topology),
            relays=source.relays(),
            product=read_product(file),
            on_grid=[] if dims is None or grid is None else grid_pass_costs(file.path, dims),
            types=source.type_figures(type_traffic),
            relations=source.type_figures(relation_traffic),
            ids_are_names=file.has(ID) and are_names(file.node(ID)),
        )


def other_graph(first: Report, other: Report, first_file: str, other_file: str) -> str:
    """Say how the matrices of two plans differ; return "" if they have the same nonzeros.

    Files are read from `first_file` and `other_file`; the message names the paths in the reports.
    """
    for kind in ("vertices", "nonzeros"):
        one, two = (getattr(each.header, f"num_{kind}") for each in (first, other))
        if one != two:
            return f"{other.path} has {two:,} {kind}, {first.path} {one:,}: {DIFFERENT}"
    hashes = {each.provenance.get("source_sha256") for each in (first, other)}
    if len(hashes) == 1 and None not in hashes:
        return ""
    matrices = []
    for path in (first_file, other_file):
        with PlanFile(path) as file:
            matrices.append(graph_of(file.read_plan()))
    one, two = matrices
    same = np.array_equal(one.indptr, two.indptr) and np.array_equal(one.indices, two.indices)
    return "" if same else f"{other.path} has other nonzeros than {first.path}: {DIFFERENT}"


class _Source:
    """An open plan file, read when a figure needs data. The parts of one rank are merged."""

    def __init__(self, file: PlanFile, num_ranks: int) -> None:
        self.file, self.num_ranks = file, num_ranks
        self.merged = num_ranks < file.header.num_parts
        self.route = None if self.merged else file.header.route

    @cached_property
    def plan(self) -> Plan:
        return self.file.read_plan()

    def epoch(self, basis: Basis, random_epoch: bool) -> EpochTimes:
        """Return the predicted times; for the parameters see `report`."""
        try:
            tables = read_tables(self.file.path, self.num_ranks if self.merged else None)
        except InputError as error:  # no prediction for merged parts of this layout
            return EpochTimes(basis, why=str(error))
        random = recorded_random(self.file.attributes("provenance"), basis)
        times = EpochTimes.of(basis, tables, random)
        asked = basis.given or self.merged or (random_epoch and random is None)
        if times.seconds is None or not asked:
            return times
        random = basis.predictor.of_random(self.matrix, tables.num_ranks).seconds
        return replace(times, random=random)

    def type_figures(self, traffic: Callable[[Plan], list[T]]) -> list[T]:
        """Return ``traffic(plan)``; [] if the plan has no vertex types, or if parts are merged."""
        return [] if self.merged or self.file.header.types is None else traffic(self.plan)

    @cached_property
    def matrix(self) -> Graph:
        return graph_of(self.plan)

    @cached_property
    def owners(self) -> Owners:
        rank = rank_of_parts(self.file.header.num_parts, self.num_ranks)
        return owners_of(self.plan).renumbered(rank)

    @cached_property
    def parts(self) -> Traffic:
        if self.merged:
            return traffic(self.matrix, self.owners, self.num_ranks)
        if self.file.header.layout == "edge":
            return self.plan.traffic()
        return traffic_of(read_tables(self.file.path, blocks=False))

    def random(self, counted: bool) -> Metrics:
        """Return the figures of a random partition, from the plan file or counted anew.

        They are counted if `counted` is true, if parts are merged, or if the file lacks them.
        """
        recorded = None if self.merged or counted else self.file.metrics("random_")
        return recorded or summarize(self.random_parts)

    def training(self, dims: Sequence[int] | None) -> TrainingCost | None:
        """Return the cost of an epoch of a GCN; None if `dims` is None."""
        if dims is None:
            return None
        owned = self.owners, self.parts
        return TrainingCost.of(self.plan, self.matrix, *owned, dims, self.route is not None)

    def random_training(self, dims: Sequence[int] | None) -> TrainingCost | None:
        """Return what `training` returns, but for the owners of a random partition.

        Rows are then sent directly, even if the plan has a route.
        """
        if dims is None:
            return None
        owned = self.random_owners, self.random_parts
        return TrainingCost.of(self.plan, self.matrix, *owned, dims)

    def sampled(self, dims: Sequence[int] | None, rates: Sequence[float]) -> list[SampledCost]:
        """Return an epoch's cost for each rate of boundary sampling; [] without `dims`."""
        if dims is None or not rates:
            return []
        rows, wanted = self.owners.rows, training_vertices(self.plan)
        live = live_tables(self.matrix, rows, self.num_ranks, len(dims) - 1, wanted)
        messages = [each.expand.rows for each in live.layers]
        return sampled_costs(self.parts, messages, dims, rates)

    def on_nodes(self, topology: Topology) -> TopologyCost:
        """Return the traffic of one product within and between the nodes of a topology."""
        if not self.merged:
            return read_topology_cost(self.file, topology)
        tables = tables_of_owners(self.matrix, self.owners, self.num_ranks)
        return TopologyCost.of(tables, topology)

    def relays(self) -> RelayCost | None:
        """Return the traffic over relays; None if the plan has no relays."""
        if self.route is None or self.route.topology is not None:
            return None
        return RelayCost.of(read_tables(self.file.path))

    @cached_property
    def random_owners(self) -> Owners:
        return Owners(random_owner(self.matrix.num_vertices, self.num_ranks, BASELINE_SEED))

    @cached_property
    def random_parts(self) -> Traffic:
        return traffic(self.matrix, self.random_owners, self.num_ranks)


def check_plan(file: PlanFile) -> None:
    """Check a plan file as `plancc verify` does; PlanError if the file is damaged."""
    file.check_content()
    check_tables(file)
    file.check_figures(lambda: summarize(_Source(file, file.header.num_parts).parts))
