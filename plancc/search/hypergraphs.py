"""Search for a partition of any hypergraph: the steps of a search by rows, without a matrix.

Vertices that are fixed become one per part. They have a second weight, of which every part may hold
one: so no pass needs to know of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.graph.textfile import StrPath
from plancc.models.base import Model
from plancc.models.file import part_vector
from plancc.models.hmetis import read_hmetis
from plancc.models.hypergraph import HypergraphModel
from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph
from plancc.models.weights import check_num_parts
from plancc.options import SearchOptions
from plancc.partitioners.run import balance_notes, check_problem
from plancc.passes.fixed import numbered_by, one_for_each_part
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import state_of, volume
from plancc.passes.multilevel import Owner
from plancc.search.effort import STEPS
from plancc.search.record import Trial
from plancc.search.rows import RowJob
from plancc.search.starts import Beginning, beginnings


@dataclass(frozen=True, eq=False)
class HypergraphPartition:
    """A partition and what it costs.

    Attributes:
        owner (int32[num_vertices]): Part of every vertex.
        connectivity: Cost of every net times its number of parts less 1, added up.
        nets_cut: Cost of all nets in several parts.
        imbalance: Heaviest part over the mean, less 1.
        tried: Steps of the search.
        warnings: What the user should know.
        seconds: Of the search.
    """

    owner: npt.NDArray[np.int32]
    connectivity: int
    nets_cut: int
    imbalance: float
    tried: list[Trial]
    warnings: list[str]
    seconds: float


def partition_hypergraph(
    hypergraph: Hypergraph | StrPath,
    num_parts: int,
    options: SearchOptions | None = None,
    *,
    part: StrPath | npt.ArrayLike | None = None,
    fixed: StrPath | npt.ArrayLike | None = None,
    report: Callable[[Trial], None] | None = None,
) -> HypergraphPartition:
    """Find a partition of least connectivity, no part of which weighs more than epsilon allows.

    With two parts connectivity is the cost of the nets cut.

    Parameters:
        hypergraph: Or an hMETIS file.
        options: Effort, epsilon, seed, threads, budget and time limit count.
        part (path or int[num_vertices], optional): Where the search begins, in place of
            partitioners; the result is no worse. -1: a partitioner chooses a part for this vertex
            first.
        fixed (path or int[num_vertices], optional): The part where a vertex stays; -1: any.
        report: Called with every `Trial` as it ends.

    Raises:
        InputError: A file that is wrong, more parts than vertices, a part out of range, weights or
            costs that no partitioner takes.
        BackendError: The partitioner failed.
    """
    if not isinstance(hypergraph, Hypergraph):
        hypergraph = read_hmetis(hypergraph)
    options, n = options or SearchOptions(), hypergraph.num_vertices
    check_num_parts(n, num_parts)
    check_problem(hypergraph)
    stays, begin = (
        np.full(n, -1, np.int32) if given is None else part_vector(given, n, num_parts, -1)
        for given in (fixed, part)
    )
    if part is not None:
        begin = np.where(stays >= 0, stays, begin)
        if (begin < 0).any():
            fast = replace(options, effort="fast")
            begin = partition_hypergraph(hypergraph, num_parts, fast, fixed=begin).owner
    limits = Limits(hypergraph.vertex_weights, num_parts, options.epsilon, names=("weights",))
    label, problem, inner = np.arange(n, dtype=np.int32), hypergraph, limits
    if (stays >= 0).any():
        label, problem = _merged(hypergraph, stays)
        assert problem.fixed is not None
        if problem.num_vertices < num_parts:
            raise InputError(
                f"fixed vertices: too few others are left to fill {num_parts} parts: fix fewer"
            )
        two = np.stack([problem.vertex_weights, problem.fixed >= 0], axis=1)
        names = ("weights", "fixed vertices")
        inner = Limits(two, num_parts, np.array([options.epsilon, 0]), names=names)
    start = None
    if part is not None:
        start = np.empty(problem.num_vertices, np.int32)
        start[label] = begin
    job = HypergraphJob(
        matrix=Graph(np.zeros(problem.num_vertices + 1, np.int64), np.empty(0, np.int32)),
        hypergraph=problem,
        limits=inner,
        options=options,
        model=HypergraphModel(),
        expectation=None,
        given=start,
        report=report,
    )
    STEPS[job.effort](job)
    found = job.record.result([*dict.fromkeys(job.warnings)])
    owner = found.owners.rows
    if problem.fixed is not None:
        owner = numbered_by(problem.fixed[problem.fixed >= 0], owner, num_parts)
    return _judged(hypergraph, owner[label], limits, job, found.seconds)


@dataclass(kw_only=True)
class HypergraphJob(RowJob):
    """A search whose nets are given, not made of a matrix.

    Attributes:
        matrix: Of the vertices, without nonzeros.
        given (int32[num_vertices], optional): Where it begins, in place of partitioners.
    """

    given: Owner | None = None

    def __post_init__(self) -> None:
        whole = self.hypergraph
        self.hypergraph = replace(whole, vertex_weights=self.limits.vertex_weights)
        super().__post_init__()
        self.hypergraph = whole  # partitioners balance the first weight alone

    def _problem_of(self, model: Model) -> Hypergraph:
        return self.hypergraph

    @property
    def by_kind(self) -> bool:
        return False

    @property
    def size(self) -> int:
        return len(self.nets.pins)

    @cached_property
    def degrees(self) -> npt.NDArray[np.int64]:
        """Other pins of the nets of every vertex: int64[n]."""
        others = np.diff(self.nets.net_ptr)[self.nets.nets] - 1
        ends = np.concatenate([[0], np.cumsum(others)])
        return np.diff(ends[self.nets.vertex_ptr])

    def first(self, effort: str, more: int = 0) -> Owner | None:
        if self.given is None:
            return super().first(effort, more)
        self.note("as given", self.record.start, Owners(self.given))
        self.kind = self._measured(self.given)
        return self.given

    def beginnings(self, effort: str) -> list[Beginning]:
        """Partitioners of hypergraphs, the best first; efforts below best have one of them."""
        if self.given is not None:
            return []
        weights = self.hypergraph.vertex_weights
        every = beginnings(self.kind_now, "best", weights, self.size, self.num_parts)
        found = [each for each in every if not each.how.objective]
        if effort == "best":
            return found
        plain = [each for each in found if each.how.preset == each.adapter.presets[0]]
        return sorted(plain, key=lambda each: -each.adapter.auto_rank.get(Hypergraph, 0))[:1]


def _merged(
    hypergraph: Hypergraph, fixed: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int32], Hypergraph]:
    """The hypergraph with one vertex for all that are fixed in a part, after the others.

    Returns:
        label (int32[num_vertices]): The new vertex that stands for every vertex.
        hypergraph: Its `fixed` are those vertices' parts.
    """
    label, parts = one_for_each_part(fixed)
    n, num_nets = int(label.max()) + 1, hypergraph.num_nets
    net = np.repeat(np.arange(num_nets), np.diff(hypergraph.net_ptr))
    key = np.unique(net * n + label[hypergraph.pins])
    weights = np.zeros(n, np.int64)
    np.add.at(weights, label, hypergraph.vertex_weights)
    part = np.full(n, -1, np.int32)
    part[n - len(parts) :] = parts
    net_ptr = np.concatenate([[0], np.cumsum(np.bincount(key // n, minlength=num_nets))])
    merged = Hypergraph(
        net_ptr, (key % n).astype(np.int32), weights, hypergraph.net_costs, fixed=part
    )
    return label, merged


def _judged(
    hypergraph: Hypergraph, owner: Owner, limits: Limits, job: HypergraphJob, seconds: float
) -> HypergraphPartition:
    nets = nets_of(hypergraph)
    state = state_of(nets, owner, limits.num_parts)
    notes = balance_notes(owner, limits, f"effort {job.effort}")
    return HypergraphPartition(
        owner,
        volume(nets, state),
        int(nets.cost[state.spread > 1].sum()),
        float(limits.imbalance(state.sums).max()),
        job.record.trials,
        [*dict.fromkeys(job.warnings), *notes],
        seconds,
    )
