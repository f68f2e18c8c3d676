"""What `refine` and `patch` share: options, lowering and provenance of a plan with other owners."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.graph.union import without_relations
from plancc.models.hypergraph import hypergraph_of
from plancc.models.limits import Limits
from plancc.models.weights import BATCH, DEFAULT_BALANCE, Balance
from plancc.options import EPSILON, RefineOptions, SearchOptions
from plancc.owners.provenance import empty_parts, provenance
from plancc.owners.task import REFINED
from plancc.partitioners.run import balance_notes
from plancc.passes.context import Context
from plancc.passes.kernels.nets import nets_of
from plancc.passes.migration import with_all_placed
from plancc.plan.grid_slices import with_grid
from plancc.plan.lowering import lower, with_links
from plancc.plan.matrix import ends_of_links
from plancc.plan.plan import Plan
from plancc.plan.routes import routed_like
from plancc.predict.forecast import RECORDED, Forecast
from plancc.predict.widths import DataWidths
from plancc.report.epochs import Basis
from plancc.report.payback import search_seconds
from plancc.search.record import Record
from plancc.text import shown

OF_EXPECTATION = (
    *("theta", "delta", "hoeffding_nets", "hoeffding_batches", "nets_per_batch"),
    *("batches", "vertices_seen", "nonzeros_seen"),
)
"""Entries of a provenance about the expected volume that owners were found for."""


@dataclass(frozen=True, eq=False)
class Revision:
    """A matrix that gets owners in place of those of a plan.

    Attributes:
        plan: The plan before.
        whole, matrix: The normalised matrix, and the same with its relations united.
        search: With a capacity for every part where ranks are of unequal speed.
        balance: What the parts share evenly.
        limits: Limits of the rows of every part, or of its nonzeros in an edge plan.
    """

    plan: Plan
    whole: Graph
    matrix: Graph
    search: SearchOptions
    balance: Balance
    limits: Limits

    @classmethod
    def of(cls, plan: Plan, whole: Graph, search: SearchOptions, balance: Balance) -> Self:
        """The revision with limits for the matrix `whole`."""
        matrix, parts = without_relations(whole), plan.num_parts
        limits = balance.limits(matrix, parts, search.epsilon)
        if plan.fold is not None:
            number, epsilon = matrix.num_nonzeros, search.epsilon
            limits = Limits.of_nonzeros(number, parts, epsilon, balance.capacities)
        return cls(plan, whole, matrix, search, balance, limits)

    def notes(self, owners: Owners) -> list[str]:
        """Warnings of empty parts, and of a balance that is missed."""
        empty = empty_parts(owners.rows, self.plan.num_parts)
        return empty + balance_notes(owners.sharers, self.limits, REFINED)

    def provenance(
        self,
        made: Plan,
        owners: Owners,
        record: Record,
        first: Mapping[str, Any],
        about: Mapping[str, Any],
        command: str,
        notes: Sequence[str],
    ) -> dict[str, Any]:
        """The provenance of the plan that is made.

        Parameters:
            first: What is kept of the plan before, see `kept_of`.
            about: Entries of refining, or of patching.
        """
        before = search_seconds(self.plan.provenance) or 0.0
        found = {
            **Forecast.of(self.search.predictor, made, self.matrix).provenance(),
            **about,
            "objective": self.search.objective,
            "search_seconds": before + record.seconds,
            "tried": record.result([]).tried_json(),
        }
        reached = self.limits.reached(owners.sharers)
        return provenance(first, command, self.balance, reached, self.search, found, notes)


def revised_options(
    plan: Plan, widths: DataWidths, train_mask: npt.NDArray[np.bool_] | None, asked: RefineOptions
) -> tuple[SearchOptions, Balance]:
    """Options of the search and the balance that are asked for, or that the plan records.

    Parameters:
        widths, train_mask: Of the vertex data, in vertex order.

    Raises:
        InputError: The plan has no data for the balance, or its parts take no capacities.
    """
    assert not isinstance(asked.machine, str)  # it is found
    predictor = Basis.of(plan.provenance, widths, asked.dims, asked.machine).predictor
    dims, grid = tuple(predictor.dims), plan.header.grid
    balance, epsilon = _asked_balance(plan, asked.balance, asked.epsilon, dims)
    search = SearchOptions(
        objective=asked.objective,
        seed=asked.seed,
        epsilon=epsilon,
        capacities=asked.capacities,
        dims=dims,
        machine=predictor.machine,
        grid=grid,
    )
    if grid is None or grid.scheme == "1d":
        search = search.of_parts(plan.num_parts)
    elif search.capacities is not None:
        raise InputError(f"`capacities`: the parts of grid '{grid}' are all of one size")
    return search, replace(balance, train_mask=train_mask, capacities=search.capacities)


def lowered_like(
    plan: Plan, matrix: Graph, owners: Owners, ends: npt.NDArray[np.int32] | None = None
) -> Plan:
    """The plan of a matrix that was normalised as that of `plan`, with its grid, hops and links.

    Parameters:
        ends (int32[2, links]): Vertices of the links of `plan`; None: the same as there.
    """
    header, links = plan.header, plan.links
    how = {"normalization": header.normalization, "self_loops": header.self_loops}
    new = lower(matrix, owners, plan.num_parts, **how)
    if header.grid is not None:
        new = with_grid(new, header.grid)
    new = routed_like(new, plan)
    if links is None:
        return new
    ends = ends_of_links(plan) if ends is None else ends
    return with_links(new, ends, links.kind, links.number, header.links or 0)


def with_rows_placed(
    owner: npt.NDArray[np.int32], matrix: Graph, num_parts: int
) -> npt.NDArray[np.int32]:
    """Owners with a part for every vertex, also where they have -1."""
    limits = Balance().limits(matrix, num_parts, EPSILON)
    return with_all_placed(owner, nets_of(hypergraph_of(matrix, limits)), Context(limits))


def kept_of(recorded: Mapping[str, Any], *stale: str) -> dict[str, Any]:
    """What a provenance says that holds for other owners too, without the names in `stale`."""
    stale = (*stale, *OF_EXPECTATION, *RECORDED)
    return {
        name: value
        for name, value in recorded.items()
        if name not in stale and not name.startswith("expected_")
    }


def _asked_balance(
    plan: Plan, balance: str | None, epsilon: float | None, dims: Sequence[int]
) -> tuple[Balance, float]:
    """The balance and the imbalance that are asked for or recorded.

    An imbalance without a balance stands in place of all that are recorded.
    """
    recorded = str(plan.provenance.get("balance", "nnz"))
    try:
        wanted = Balance.parse(balance or recorded, dims)
    except InputError as error:
        if balance:
            raise
        raise InputError(
            f"the plan records balance '{shown(recorded)}', of another version of plancc: give "
            f"`balance`, such as {DEFAULT_BALANCE}"
        ) from error
    for name, of in (("weights", "of the graph file"), (BATCH, "of mini-batches")):
        if name in wanted.names:
            raise InputError(
                f"balance '{wanted}': cannot balance by the '{name}' {of}, which a plan "
                "does not keep; choose another (`balance`)"
            )
    if plan.fold is not None and wanted.names != ("nnz",):
        raise InputError(f"balance {wanted}: edge plans share nonzeros evenly (nnz)")
    if epsilon is None:
        return wanted, _recorded_epsilon(plan.provenance)
    return wanted if balance else wanted.without_limits(), epsilon


def _recorded_epsilon(provenance: dict[str, Any]) -> float:
    """Allowed imbalance, where the provenance has one."""
    epsilon = provenance.get("epsilon")
    known = isinstance(epsilon, int | float) and math.isfinite(epsilon) and epsilon >= 0
    return float(epsilon) if known else EPSILON  # type: ignore[arg-type]
