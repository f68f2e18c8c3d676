"""Everything that can be said of a plan, as plain values: what inspect and compare print.

Reads offsets and header only, unless it is an edge plan, or figures for fewer ranks, training costs
of the baseline, or a missing baseline ask for the matrix. Knows no terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp

from plancc.cost.owners import BASELINE_SEED, traffic, traffic_of_owners
from plancc.cost.pairs import pair_volumes, read_pair_volumes
from plancc.cost.topology import ByNode, Topology, messages_by_node, volumes_by_node
from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.models.random import random_owner
from plancc.plan.format import header_attributes
from plancc.plan.grid_slices import check_ranks
from plancc.plan.matrix import graph_of, owners_of
from plancc.plan.metrics import Metrics, Traffic, summarize
from plancc.plan.plan import Plan
from plancc.plan.reader import PlanFile
from plancc.plan.values import Header, Int32Array
from plancc.predict.grid_traffic import ProductTraffic, product_traffic
from plancc.predict.machine import Machine, epoch_rates
from plancc.predict.memory import row_memory
from plancc.predict.passes import COMMON_PASSES, PASSES
from plancc.predict.schedules import read_tables, schedule_of, tables_of
from plancc.predict.schedules.tables import rank_of_parts
from plancc.predict.training import (
    PassCost,
    SampledCost,
    added_passes,
    live_traffic,
    pass_costs,
    sampled_costs,
    training_vertices,
)
from plancc.report.provenance import decoded, recorded_machine, recorded_topology

PART_FIGURES = ("rows", "nonzeros", "sent", "received", "messages_sent", "messages_received")
"""What is said of every part."""

WIDTH = 128
"""Of the product that is counted on a process grid, where a plan carries no features."""


@dataclass(frozen=True)
class TrainingCost:
    """One epoch of a GCN with given dims.

    Attributes
    ----------
    words, max_words_sent, messages, max_messages_sent : int
        Of the plain execution (`plancc.predict.training`), sent by all parts, and most by one.
    max_epoch_seconds, mean_epoch_seconds : float
        Of the plain execution, by `plancc.predict.machine`: the slowest part's, and the mean.
    max_memory : dict of str to int
        Bytes of the fullest part with all passes, by term and in total (`plancc.predict.memory`).
    passes : list of PassCost
        The plain execution, and then one pass more each time (`plancc.predict.training`); edge
        plans have none that leaves out dead rows.
    """

    dims: list[int]
    words: int
    max_words_sent: int
    messages: int
    max_messages_sent: int
    max_epoch_seconds: float
    mean_epoch_seconds: float
    max_memory: dict[str, int]
    passes: list[PassCost]

    @classmethod
    def of(
        cls,
        plan: Plan,
        matrix: Graph,
        owner: Int32Array,
        parts: Traffic,
        dims: Sequence[int],
        machine: Machine,
        nonzero_owner: Int32Array | None = None,
    ) -> TrainingCost:
        """Of these owners of a plan's matrix, whose exchange of all rows is `parts`.

        `nonzero_owner`, int32[nnz], makes it an edge plan.
        """
        num_parts, header = len(parts.rows), plan.header
        row_owner = np.repeat(owner, matrix.row_nonzeros())
        if nonzero_owner is None:
            holder = row_owner
            live = live_traffic(matrix, owner, num_parts, len(dims) - 1, training_vertices(plan))
        else:
            holder = nonzero_owner
            live = [parts] * (len(dims) - 1)
        costs = pass_costs(parts, live, dims, PASSES if nonzero_owner is None else COMMON_PASSES)
        foreign = (holder != row_owner) | (holder != owner[matrix.indices])
        undirected = not header.directed and header.normalization != "row"
        held = row_memory(
            parts,
            live,
            dims,
            np.bincount(holder[foreign], minlength=num_parts),
            symmetric=undirected and nonzero_owner is None,
            value_bytes=plan.value.itemsize,
        )
        seconds = epoch_rates(dims, machine).seconds(parts)
        plain = costs[0]
        return cls(
            dims=list(dims),
            words=plain.words,
            max_words_sent=plain.max_words_sent,
            messages=plain.messages,
            max_messages_sent=plain.max_messages_sent,
            max_epoch_seconds=float(seconds.max()),
            mean_epoch_seconds=float(seconds.mean()),
            max_memory=held.of_part(int(held.total.argmax())),
            passes=costs,
        )


@dataclass(frozen=True)
class TopologyCost:
    """What one expand moves inside and between the nodes of a topology.

    Attributes
    ----------
    topology : Topology
    volume, messages : ByNode
    random_share : float
        Expected share of either between nodes if the parts were numbered at random: of the p - 1
        others of a part, p - ranks_per_node are on other nodes.
    """

    topology: Topology
    volume: ByNode
    messages: ByNode
    random_share: float

    @classmethod
    def of(cls, pairs: sp.csr_array, topology: Topology) -> TopologyCost:
        """From the rows that parts send to each other (`plancc.cost.pairs`)."""
        others = topology.num_ranks - 1
        return cls(
            topology=topology,
            volume=volumes_by_node(pairs, topology),
            messages=messages_by_node(pairs, topology),
            random_share=(topology.num_ranks - topology.ranks_per_node) / max(1, others),
        )

    def as_dict(self) -> dict[str, Any]:
        return {
            **asdict(self.topology),
            "volume": self.volume._asdict(),
            "messages": self.messages._asdict(),
            "random_share": self.random_share,
        }


@dataclass(frozen=True)
class Report:
    """A plan's figures beside those of an even random partition.

    Attributes
    ----------
    provenance : dict
        As in the file; a readable `tried`, what the compiler tried, is a list of dict.
    num_ranks : int
        Parts, or fewer where parts are merged; all figures are of that many. Of a grid plan, whose
        figures are those of the row plan inside, the ranks of its grid.
    vertex_data : list of str
        What the plan carries.
    parts : Traffic
    training, random_training : TrainingCost or None
        For given dims; the random one is computed with them.
    sampled : list of SampledCost
        For given rates of boundary sampling.
    machine : Machine or None
        Whose seconds `training` has.
    machine_from : str
        Where it is from: "given", "plan" (its provenance) or "default"; "" if there is none.
    topology : TopologyCost or None
        For the given topology, or the one that the plan was compiled for.
    product : ProductTraffic or None
        What one product moves on the grid of a grid plan.
    on_grid : list of PassCost
        What an epoch of given dims moves on it.
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
    machine: Machine | None
    machine_from: str
    topology: TopologyCost | None
    product: ProductTraffic | None = None
    on_grid: list[PassCost] = field(default_factory=list)

    def as_dict(self, per_part: bool = False) -> dict[str, Any]:
        """Ready for JSON."""
        result: dict[str, Any] = {
            "path": self.path,
            "header": header_attributes(self.header),
            "content_sha256": self.content_sha256,
            "provenance": self.provenance,
            "vertex_data": self.vertex_data,
            "num_ranks": self.num_ranks,
            "metrics": self.metrics.figures(),
            "random": self.random.figures(),
        }
        if self.training is not None and self.random_training is not None:
            result["training"] = asdict(self.training)
            result["random_training"] = asdict(self.random_training)
        if self.sampled:
            result["boundary_sampling"] = [asdict(each) for each in self.sampled]
        if self.machine is not None:
            result["machine"] = self.machine.as_dict()
            result["machine_from"] = self.machine_from
        if self.topology is not None:
            result["topology"] = self.topology.as_dict()
        if self.product is not None:
            result["product"] = asdict(self.product)
        if self.on_grid:
            result["passes"] = [asdict(each) for each in self.on_grid]
        if per_part:
            of = self.parts
            shown = {name: getattr(of, name) for name in PART_FIGURES}
            if of.fold is not None:
                shown |= {f"fold_{name}": array for name, array in of.fold._asdict().items()}
                shown["copies"] = of.copies
            result["parts"] = {name: array.tolist() for name, array in shown.items()}
        return result


def report(
    path: str | PathLike[str],
    *,
    dims: Sequence[int] | None = None,
    num_ranks: int | None = None,
    machine: Machine | None = None,
    topology: Topology | None = None,
    boundary_sampling: Sequence[float] = (),
) -> Report:
    """Figures of a plan file.

    Parameters
    ----------
    path : path of the plan
    dims : list of int, optional
        Widths d_0..d_L, for words, memory and seconds of training; of a grid plan for words and
        messages only.
    num_ranks : int, optional
        Figures after merging the parts onto that many ranks; those of a grid cannot be merged.
    machine : Machine, optional
        For the seconds, so only with `dims`; without it the one in the plan's provenance, or else
        the default machine.
    topology : Topology, optional
        Of exactly `num_ranks` ranks; without it the one in the plan's provenance, if it has as
        many.
    boundary_sampling : list of float
        Rates in [0, 1], for what an epoch then costs; only with `dims`.

    Raises
    ------
    InputError
        If the file is missing, `num_ranks` is not in 1..num_parts, the topology has another number
        of ranks, there are a machine or rates and no `dims`, or it is an edge plan and there are
        rates or a topology, or a grid plan and there are rates, a machine, widths below its process
        columns, or a topology although ranks do not exchange what the parts of the row plan inside
        do.
    PlanError
        If the file is damaged.
    """
    if machine is not None and dims is None:
        raise InputError("a machine predicts training: give the widths of the layers (dims) too")
    if boundary_sampling and dims is None:
        raise InputError(
            "boundary sampling is of training: give the widths of the layers (dims) too"
        )
    with PlanFile(path) as file:
        ranks = checked_ranks(file, num_ranks)
        provenance = file.attributes("provenance")
        edges, grid = file.header.layout == "edge", file.header.grid
        row_like = not edges and (grid is None or grid.exchanges_rows)
        if topology is not None and not row_like:
            file.check_row_plan("a topology")
        if machine is not None and grid is not None:
            raise InputError(
                f"{file.path}: a plan of grid '{grid}' takes no machine here: plancc simulate "
                "predicts its time"
            )
        if boundary_sampling:
            file.check_row_plan("boundary sampling")
        if topology is not None:
            topology.check(ranks)
        elif row_like:
            topology = recorded_topology(provenance, ranks)
        merged = ranks < file.header.num_parts
        random = file.metrics("random_")
        training_dims = dims if grid is None else None
        if edges or merged or random is None or training_dims is not None:
            plan = file.read_plan()
        if merged or random is None or training_dims is not None:
            matrix = graph_of(plan)
            random_owners = random_owner(matrix.num_vertices, ranks, BASELINE_SEED)
            random_parts = traffic_of_owners(matrix, random_owners, ranks)
            random = summarize(random_parts)
            rank_of_part = rank_of_parts(file.header.num_parts, ranks)
            owners = owners_of(plan).renumbered(rank_of_part)
            owner, nonzero_owner = owners.rows, owners.nonzeros
        pairs = None
        if merged:
            parts = traffic(matrix, owners, ranks)
            if topology is not None or boundary_sampling:
                pairs = pair_volumes(matrix, owner, ranks)
        else:
            parts = plan.traffic() if edges else _read_traffic(file)
            if topology is not None or boundary_sampling:
                pairs = read_pair_volumes(file)
        training = random_training = None
        sampled: list[SampledCost] = []
        machine_from = "" if machine is None else "given"
        if training_dims is not None:
            if machine is None:
                machine = recorded_machine(provenance)
                machine_from = "plan" if machine else "default"
            machine = machine or Machine()
            training = TrainingCost.of(
                *(plan, matrix, owner, parts, training_dims, machine, nonzero_owner)
            )
            random_training = TrainingCost.of(
                plan, matrix, random_owners, random_parts, training_dims, machine
            )
            if pairs is not None:
                sampled = sampled_costs(parts, pairs, training_dims, boundary_sampling)
        return Report(
            path=file.path,
            header=file.header,
            content_sha256=file.content_sha256,
            provenance=decoded(provenance),
            vertex_data=file.vertex_data_names(),
            num_ranks=ranks if grid is None else grid.num_ranks,
            metrics=summarize(parts),
            random=random,
            parts=parts,
            training=training,
            random_training=random_training,
            sampled=sampled,
            machine=machine,
            machine_from=machine_from,
            topology=(
                None if topology is None or pairs is None else TopologyCost.of(pairs, topology)
            ),
            product=None if grid is None else _read_product(file),
            on_grid=[] if grid is None or dims is None else grid_pass_costs(file.path, dims),
        )


def product_of(plan: Plan) -> ProductTraffic | None:
    """What one product of a grid plan moves, of H as wide as its features; None of other plans."""
    header, features = plan.header, plan.vertex_data.features
    if header.grid is None:
        return None
    width = WIDTH if features is None else features.shape[1]
    return product_traffic(tables_of(plan, blocks=False), width)


def _read_product(file: PlanFile) -> ProductTraffic:
    """The same, of an open plan file."""
    width = WIDTH
    if file.has("vertex_data/features"):
        width = file.node("vertex_data/features").shape[1]
    return product_traffic(read_tables(file.path, blocks=False), width)


def grid_pass_costs(path: str, dims: Sequence[int]) -> list[PassCost]:
    """One epoch on the grid of a plan: plainly, and then one pass more each time.

    The sums over the copies of "1.5d", and that of the weights' gradients, are no messages.

    Raises
    ------
    InputError
        If a layer is narrower than the grid has process columns.
    """
    tables = read_tables(path)

    try:
        return added_passes(COMMON_PASSES, lambda done: schedule_of(tables, dims, done).counts())
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def checked_ranks(file: PlanFile, num_ranks: int | None) -> int:
    """The parts of figures, all of them if it is None; InputError if the plan does not run on it.

    A grid plan runs on the ranks of its grid only, and its figures are of its blocks of rows.
    """
    if file.header.grid is not None:
        if num_ranks is not None:
            check_ranks(file.path, file.header, num_ranks)
        return file.header.num_parts
    ranks = file.header.num_parts if num_ranks is None else num_ranks
    if not 1 <= ranks <= file.header.num_parts:
        raise InputError(f"{ranks} ranks: {file.path} runs on 1 to {file.header.num_parts}")
    return ranks


def _read_traffic(file: PlanFile) -> Traffic:
    """Load and communication of every part from the offsets alone."""
    part_ptr = file.read_offsets("rows/part_ptr", file.header.num_vertices)
    row_ptr = file.read_offsets("matrix/row_ptr", file.header.num_nonzeros)
    counts = {}
    for prefix in ("send", "recv"):
        ptr = file.read_offsets(f"expand/{prefix}_ptr", file.messages)
        rows = file.read_offsets(f"expand/{prefix}_row_ptr", file.volume)
        counts[prefix] = (np.diff(rows[ptr]), np.diff(ptr))
    return Traffic(
        rows=np.diff(part_ptr),
        nonzeros=np.diff(row_ptr[part_ptr]),
        sent=counts["send"][0],
        received=counts["recv"][0],
        messages_sent=counts["send"][1],
        messages_received=counts["recv"][1],
    )
