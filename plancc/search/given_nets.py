"""A search on given nets instead of a matrix, for any hypergraph, or for problems with fixed rows.

All vertices that are fixed to the same part are merged into one vertex. An additional constraint
keeps merged vertices in different parts, so passes need no rule for fixed vertices.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.owners import Owner, Owners
from plancc.models.base import Model
from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph
from plancc.passes.context import Context
from plancc.passes.fixed import Around
from plancc.search.record import SearchResult
from plancc.search.rows import RowJob
from plancc.search.starts import Beginning, beginnings, highest


def check_fixed(fixed: Owner, limits: Limits) -> None:
    """Raise InputError if the vertices fixed to a part weigh more than its limit; -1 means free."""
    held, most = fixed >= 0, limits.limit
    load = replace(limits, weights=limits.weights[held]).load(fixed[held])
    if (load > most).any():
        part, which = np.argwhere(load > most)[0]
        have = f"of part {part} weigh {load[part, which]:,} ('{limits.names[which]}')"
        may = f"the limit is {int(most[part, which]):,}; fix fewer vertices, or raise `epsilon`"
        raise InputError(f"fixed vertices {have}, but {may}")


def fixed_around(fixed: Owner, hypergraph: Hypergraph, limits: Limits) -> Around | None:
    """Return the smaller problem in which fixed vertices are merged; None if no vertex is fixed.

    `fixed`: part of every vertex; -1: free. Raise InputError if too few vertices are free.
    """
    if (fixed < 0).all():
        return None
    around = Around.of(fixed, hypergraph, limits)
    if around.problem.num_vertices < limits.num_parts:
        raise InputError(
            f"too few vertices are free to fill {limits.num_parts} parts; fix fewer vertices"
        )
    return around


@dataclass(kw_only=True)
class HypergraphJob(RowJob):
    """A search on given nets.

    Attributes:
        matrix: Matrix with a row for every vertex, perhaps without nonzeros.
        around: The searched problem, with fixed vertices merged; None if no vertex is fixed.
        given (int32[vertices], optional): Owners to start from, instead of a partitioner's.
    """

    around: Around | None = None
    given: Owner | None = None

    def __post_init__(self) -> None:
        whole = self.hypergraph
        if self.around is not None:
            whole, self.limits = self.around.problem, self.around.limits
        self.hypergraph = replace(whole, vertex_weights=self.limits.vertex_weights)
        super().__post_init__()
        self.hypergraph = (
            whole  # partitioners get the parts of fixed vertices, not the extra weight
        )

    def _problem_of(self, model: Model) -> Hypergraph:
        return self.hypergraph

    @property
    def starts_by_kind(self) -> bool:
        return False

    @property
    def size(self) -> int:
        return len(self.nets.pins)

    @cached_property
    def degrees(self) -> npt.NDArray[np.int64]:
        """For every vertex, the number of other pins in its nets, summed over nets: int64[n]."""
        others = np.diff(self.nets.net_ptr)[self.nets.nets] - 1
        ends = np.concatenate([[0], np.cumsum(others)])
        return np.diff(ends[self.nets.vertex_ptr])

    @property
    def refinable(self) -> Hypergraph:
        if self.around is None:
            return super().refinable
        if self.expectation is None:
            return self.around.refinable
        expected = self.expectation.problem
        return Around.of(self.around.fixed, expected, self.shared, sized=True).refinable

    @property
    def shared(self) -> Limits:
        return self.limits if self.around is None else self.around.given

    def context(self, seed: int = 1) -> Context:
        found = super().context(seed)
        return found if self.around is None else self.around.within(found)

    def row_owner(self, owner: Owner) -> Owner:
        return owner if self.around is None else self.around.outside(owner)

    def first(self, effort: str, more: int = 0) -> Owner | None:
        if self.given is None:
            return super().first(effort, more)
        begin = self.given if self.around is None else self.around.inside(self.given)
        self.note("as given", self.record.start, Owners(begin))
        self.kind = self._measured(begin)
        return begin

    def beginnings(self, effort: str) -> list[Beginning]:
        """Return the hypergraph partitioners' starts, best first; only one below effort "best"."""
        if self.given is not None:
            return []
        weights = self.hypergraph.vertex_weights
        every = beginnings(self.kind_now, "best", weights, self.size, self.num_parts)
        found = [each for each in every if not each.how.objective]
        if effort == "best":
            return found
        plain = [each for each in found if each.how.preset == each.adapter.presets[0]]
        return sorted(plain, key=lambda each: -each.adapter.auto_rank.get(Hypergraph, 0))[:1]

    def highest(self) -> list[Beginning]:
        return [] if self.given is not None else highest(hypergraphs=True, graphs=False)

    def result(self) -> SearchResult:
        found = self.record.result([])
        owners = Owners(self.row_owner(found.owners.rows))
        return replace(found, owners=owners, warnings=self.all_warnings(owners))


def job_with_fixed(known: Mapping[str, Any], fixed: Owner) -> RowJob:
    """Return a search in which fixed vertices keep their parts; `fixed` is -1 for other vertices.

    ``known`` has the fields of `RowJob`, by name. For InputError, see `check_fixed` and
    `fixed_around`.
    """
    check_fixed(fixed, known["limits"])
    around = fixed_around(fixed, known["hypergraph"], known["limits"])
    return RowJob(**known) if around is None else HypergraphJob(**known, around=around)
