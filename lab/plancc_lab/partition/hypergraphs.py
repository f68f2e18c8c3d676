"""Search for partitions of hypergraphs, with the same steps as a search for owners of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.files import StrPath
from plancc.graph.graph import Graph
from plancc.models.file import part_vector
from plancc.models.hypergraph import HypergraphModel
from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph
from plancc.models.weights import check_num_parts
from plancc.options import SearchOptions
from plancc.partitioners.run import check_problem
from plancc.passes.kernels.nets import nets_of
from plancc.passes.kernels.state import state_of, volume
from plancc.passes.multilevel import Owner
from plancc.search.effort import leave, make_steps
from plancc.search.given_nets import HypergraphJob, check_fixed, fixed_around
from plancc.search.record import SearchResult, Trial
from plancc_lab.partition.hmetis import read_hmetis


@dataclass(frozen=True, eq=False)
class HypergraphPartition:
    """A partition and its cost.

    Attributes:
        owner (int32[num_vertices]): Part of every vertex.
        connectivity: The connectivity-1 cut: sum over nets of cost x (number of parts - 1).
        nets_cut: Sum of the costs of all nets that are in several parts.
        imbalance: Weight of the heaviest part over the mean, minus 1.
        tried: All steps of the search, with the cut that each reached.
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
    """Return a partition with a small connectivity-1 cut; epsilon limits the weight of parts.

    Parameters:
        hypergraph: A hypergraph, or the path of an hMETIS file.
        options: Only effort, epsilon, seed, threads, budget and time limit are used.
        part (int[num_vertices]): Parts to start from; -1: a partitioner chooses the vertex's part.
            The cut can rise only if parts exceed their limits at the start.
        fixed (int[num_vertices]): Parts of vertices that never move; -1 for a vertex that may move.
        report: Function that is called with every `Trial` when the trial ends.
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
    limits = Limits(hypergraph.vertex_weights, num_parts, options.epsilon, names=("weights",))
    check_fixed(stays, limits)

    def searched(options: SearchOptions, stays: Owner, **others: Any) -> SearchResult:
        job = HypergraphJob(
            matrix=Graph(np.zeros(n + 1, np.int64), np.empty(0, np.int32)),
            hypergraph=hypergraph,
            limits=limits,
            options=options,
            model=HypergraphModel(),
            expectation=None,
            around=fixed_around(stays, hypergraph, limits),
            **others,
        )
        make_steps(job, leave)
        return job.result()

    notes = list[str]()
    if part is not None:
        begin = np.where(stays >= 0, stays, begin)
        if (begin < 0).any():
            begin = searched(replace(options, effort="fast"), begin).owners.rows
        uneven = float(limits.imbalance(limits.load(begin)).max())
        if limits.overload(limits.load(begin)) > 0:
            notes.append(
                f"the part vector to start from has an imbalance of {uneven:.4g}, above epsilon "
                f"{options.epsilon:g}: its parts are first brought below the limit, which may "
                f"raise the cut; `epsilon` {uneven + 5e-5:.4f} avoids this"
            )
    found = searched(options, stays, given=None if part is None else begin, report=report)
    nets = nets_of(hypergraph)
    state = state_of(nets, found.owners.rows, num_parts)
    return HypergraphPartition(
        found.owners.rows,
        volume(nets, state),
        int(nets.cost[state.spread > 1].sum()),
        float(limits.imbalance(state.sums).max()),
        found.tried,
        [*notes, *found.warnings],
        found.seconds,
    )
