"""Everything that can be said of a plan, as plain values: what inspect and compare print.

Reads offsets and header only, unless figures for fewer ranks, training costs of the baseline, or a
missing baseline ask for the matrix. Knows no terminal.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp

from plancc.cost.machine import Machine, epoch_seconds
from plancc.cost.memory import memory
from plancc.cost.metrics import Metrics, Traffic, summarize
from plancc.cost.owners import BASELINE_SEED, traffic_of_owners
from plancc.cost.pairs import pair_volumes, read_pair_volumes
from plancc.cost.topology import ByNode, Topology, messages_by_node, volumes_by_node
from plancc.cost.training import (
    PassCost,
    SampledCost,
    live_traffic,
    pass_costs,
    sampled_costs,
    training_vertices,
)
from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.models.random import random_owner
from plancc.plan.matrix import graph_of
from plancc.plan.plan import Header, Int32Array, Plan
from plancc.plan.reader import PlanFile
from plancc.plan.slices import block_of_parts, read_offsets

FIGURES_TRIED = ("seconds", "value", "volume", "overload", "best")
"""What steps of `tried` may have beside their name."""


@dataclass(frozen=True)
class TrainingCost:
    """One epoch of a GCN with given dims.

    Attributes
    ----------
    words, max_words_sent, messages, max_messages_sent : int
        Of the plain execution (`plancc.cost.training`), sent by all parts, and most by one.
    max_epoch_seconds, mean_epoch_seconds : float
        Of the plain execution, by `plancc.cost.machine`: the slowest part's, and the mean.
    max_memory : dict of str to int
        Bytes of the fullest part with all passes, by term and in total (`plancc.cost.memory`).
    passes : list of PassCost
        The plain execution, and then one pass more each time (`plancc.cost.training`).
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
    ) -> TrainingCost:
        """Of these owners of a plan's matrix, whose exchange of all rows is `parts`."""
        num_parts, header = len(parts.rows), plan.header
        live = live_traffic(matrix, owner, num_parts, len(dims) - 1, training_vertices(plan))
        costs = pass_costs(parts, live, dims)
        row_owner = np.repeat(owner, matrix.row_nonzeros())
        held = memory(
            parts,
            live,
            dims,
            np.bincount(row_owner[row_owner != owner[matrix.indices]], minlength=num_parts),
            symmetric=not header.directed and header.normalization != "row",
            value_bytes=plan.value.itemsize,
        )
        seconds = epoch_seconds(parts, dims, machine)
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
        Parts, or fewer where parts are merged; all figures are of that many.
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

    def as_dict(self, per_part: bool = False) -> dict[str, Any]:
        """Ready for JSON."""
        result: dict[str, Any] = {
            "path": self.path,
            "header": asdict(self.header),
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
            result["machine"] = asdict(self.machine)
            result["machine_from"] = self.machine_from
        if self.topology is not None:
            result["topology"] = self.topology.as_dict()
        if per_part:
            result["parts"] = {name: array.tolist() for name, array in vars(self.parts).items()}
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
        Widths d_0..d_L, for words, memory and seconds of training.
    num_ranks : int, optional
        Figures after merging the parts onto that many ranks.
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
        of ranks, or there are a machine or rates and no `dims`.
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
        if topology is None:
            topology = recorded_topology(provenance, ranks)
        else:
            topology.check(ranks)
        merged = ranks < file.header.num_parts
        random = Metrics.from_dict(file.attributes("metrics"), prefix="random_")
        if merged or random is None or dims is not None:
            plan = file.read_plan()
            matrix = graph_of(plan)
            random_owners = random_owner(matrix.num_vertices, ranks, BASELINE_SEED)
            random_parts = traffic_of_owners(matrix, random_owners, ranks)
            random = summarize(random_parts)
            owner = owner_on_ranks(plan, ranks)
        pairs = None
        if merged:
            parts = traffic_of_owners(matrix, owner, ranks)
            if topology is not None or boundary_sampling:
                pairs = pair_volumes(matrix, owner, ranks)
        else:
            parts = _read_traffic(file)
            if topology is not None or boundary_sampling:
                pairs = read_pair_volumes(file)
        training = random_training = None
        sampled: list[SampledCost] = []
        machine_from = "" if machine is None else "given"
        if dims is not None:
            if machine is None:
                machine = recorded_machine(provenance)
                machine_from = "plan" if machine else "default"
            machine = machine or Machine()
            training = TrainingCost.of(plan, matrix, owner, parts, dims, machine)
            random_training = TrainingCost.of(
                plan, matrix, random_owners, random_parts, dims, machine
            )
            if pairs is not None:
                sampled = sampled_costs(parts, pairs, dims, boundary_sampling)
        return Report(
            path=file.path,
            header=file.header,
            content_sha256=file.content_sha256,
            provenance=decoded(provenance),
            vertex_data=file.vertex_data_names(),
            num_ranks=ranks,
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
        )


def checked_ranks(file: PlanFile, num_ranks: int | None) -> int:
    """The number of ranks, all parts if it is None; InputError if the plan does not run on it."""
    ranks = file.header.num_parts if num_ranks is None else num_ranks
    if not 1 <= ranks <= file.header.num_parts:
        raise InputError(f"{ranks} ranks: {file.path} runs on 1 to {file.header.num_parts}")
    return ranks


def owner_on_ranks(plan: Plan, num_ranks: int) -> Int32Array:
    """Rank of every vertex when the parts are merged onto `num_ranks`, int32[num_vertices]."""
    blocks = block_of_parts(plan.num_parts, num_ranks)
    rank_of_part = np.searchsorted(blocks, np.arange(plan.num_parts), side="right") - 1
    return rank_of_part.astype(np.int32)[plan.owner()]


def recorded_topology(provenance: Mapping[str, Any], num_ranks: int) -> Topology | None:
    """The topology that a plan was compiled for, if that is what the ranks make up."""
    try:
        topology = Topology.parse(str(provenance.get("topology", "")))
        topology.check(num_ranks)
    except InputError:
        return None
    return topology


def recorded_machine(provenance: Mapping[str, Any]) -> Machine | None:
    """The machine that a plan was compiled or refined for."""
    try:
        return Machine.parse(str(provenance.get("machine", "")))
    except InputError:
        return None


def decoded(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """A plan's provenance with ``tried`` as a list, where it is readable."""
    tried = read_tried(provenance)
    return dict(provenance) | ({"tried": tried} if tried else {})


def read_tried(provenance: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What the compiler tried, in its order; empty where the provenance has no such text.

    Every dict has a name (step) and, as numbers or None, seconds, value, volume, overload (plans
    of older writers have none) and whether it was the best so far.
    """
    try:
        tried = json.loads(provenance.get("tried", ""))
    except (TypeError, ValueError, RecursionError):
        return []
    well = isinstance(tried, list) and all(
        isinstance(each, dict)
        and isinstance(each.get("step"), str)
        and all(_is_figure(each.get(name)) for name in FIGURES_TRIED)
        for each in tried
    )
    return tried if well else []


def reached(tried: Sequence[Mapping[str, Any]]) -> int | float | None:
    """The value of the best of them, which is the plan's."""
    return next((each.get("value") for each in reversed(tried) if each.get("best")), None)


def _is_figure(value: Any) -> bool:
    """A finite number, a truth value, or None."""
    return value is None or (isinstance(value, int | float) and abs(value) < np.inf)


def _read_traffic(file: PlanFile) -> Traffic:
    """Load and communication of every part from the offsets alone."""
    part_ptr = read_offsets(file, "rows/part_ptr", file.header.num_vertices)
    row_ptr = read_offsets(file, "matrix/row_ptr", file.header.num_nonzeros)
    counts = {}
    for prefix in ("send", "recv"):
        ptr = read_offsets(file, f"expand/{prefix}_ptr", file.messages)
        rows = read_offsets(file, f"expand/{prefix}_row_ptr", file.volume)
        counts[prefix] = (np.diff(rows[ptr]), np.diff(ptr))
    return Traffic(
        rows=np.diff(part_ptr),
        nonzeros=np.diff(row_ptr[part_ptr]),
        sent=counts["send"][0],
        received=counts["recv"][0],
        messages_sent=counts["send"][1],
        messages_received=counts["recv"][1],
    )
