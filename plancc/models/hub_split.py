"""Row plans in which only the heaviest rows are split: ``hub-split``."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.fields import option
from plancc.graph.graph import Graph
from plancc.models.base import EdgeModel
from plancc.models.crowd import Crowd
from plancc.models.medium_grain import check_nonzeros_balanced, lighter_columns, split_problem
from plancc.models.problem import EdgeProblem, Hypergraph
from plancc.models.weights import Balance, check_num_parts

SHARE_OF_PART = 0.02
"""Share of an average part's nonzeros above which a row is a hub, unless told otherwise."""
DEGREES = 4
"""Least nonzeros of a hub, over those of an average row."""


@dataclass(frozen=True)
class HubSplitModel(EdgeModel):
    """Row partition, except for the nonzeros of heavy rows.

    A nonzero goes with its column if its row is a *hub*, heavier than the threshold, and its column
    is lighter than the row (`MediumGrainModel`); all others stay with their rows. So a hub's row is
    folded, a hub's column is expanded as in any row plan, and rows that are no hubs need no fold.

    Attributes:
        threshold: Nonzeros above which a row is a hub; None: `SHARE_OF_PART` of the nonzeros of an
            average part, beyond which a few such rows decide the balance of a part, but at least
            `DEGREES` times the nonzeros of an average row, so that a mesh has no hubs.
    """

    problem: ClassVar[type[Hypergraph]] = Hypergraph
    searched: ClassVar[bool] = True
    default_objective: ClassVar[str] = "volume"

    threshold: int | None = option(
        None,
        "heavier rows are split",
        metavar="NONZEROS",
        otherwise="2% of an average part's nonzeros",
    )

    def __post_init__(self) -> None:
        given = self.threshold
        if given is not None and not (isinstance(given, Integral) and 0 <= given < 2**63):
            raise InputError(f"threshold {given}: must be a whole number from 0 to 2^63 - 1")

    def build(
        self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int
    ) -> EdgeProblem:
        """Build the problem; `seed` is not used."""
        check_num_parts(matrix.num_vertices, num_parts)
        check_nonzeros_balanced("hub-split", balance)
        return split_problem(matrix, self.allowed(matrix, num_parts))

    def unfit(self, matrix: Graph, num_parts: int) -> str:
        """A clique, in which no row is a hub."""
        crowd = Crowd.of(matrix, num_parts)
        if crowd is None or crowd.hubs:
            return ""
        return (
            f"model 'hub-split' is not made for this graph: {crowd}, and none is a hub; take model "
            "checkerboard, or these owners of a quick search by rows"
        )

    def threshold_of(self, matrix: Graph, num_parts: int) -> int:
        """Nonzeros above which a row is a hub."""
        if self.threshold is not None:
            return self.threshold
        per_part = SHARE_OF_PART * matrix.num_nonzeros / num_parts
        per_row = DEGREES * matrix.num_nonzeros / matrix.num_vertices
        return int(np.ceil(max(per_part, per_row)))

    def taken(self, matrix: Graph, num_parts: int) -> dict[str, Any]:
        return {"hub_threshold": self.threshold_of(matrix, num_parts)}

    def allowed(self, matrix: Graph, num_parts: int) -> npt.NDArray[np.bool_]:
        """Nonzeros that may be elsewhere than their rows: bool[num_nonzeros]."""
        size = matrix.row_nonzeros()
        hub = size > self.threshold_of(matrix, num_parts)
        of_nonzeros: npt.NDArray[np.bool_] = lighter_columns(matrix) & np.repeat(hub, size)
        return of_nonzeros
