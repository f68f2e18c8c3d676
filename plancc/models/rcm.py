"""Model ``rcm``: blocks of consecutive rows in reverse Cuthill-McKee order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from plancc.graph.graph import Graph
from plancc.models.base import Model
from plancc.models.block import block_owner
from plancc.models.pattern import symmetrised
from plancc.models.problem import Assignment, Problem
from plancc.models.weights import Balance, capacities_of, check_num_parts, combined, vertex_weights


def bandwidth(matrix: Graph, position: npt.NDArray[np.integer] | None = None) -> int:
    """Return the maximum of ``|position[i] - position[j]|`` over all nonzeros, or 0 without any.

    If `position` is None, the position of a vertex is its number.
    """
    if matrix.num_nonzeros == 0:
        return 0
    place = np.arange(matrix.num_vertices) if position is None else position
    place = place.astype(np.int32)
    row = np.repeat(place, matrix.row_nonzeros())
    return int(np.abs(row - place[matrix.indices]).max())


def pipeline_stages(num_vertices: int, band: int) -> int:
    """Return ``ceil(2n / (n - b))``, the least number of pipeline stages without idle time.

    See Wan et al. 2025, Proposition 3.5. n is `num_vertices`; b is `band`, the result of
    `bandwidth`.
    """
    return -(-2 * num_vertices // (num_vertices - band))


def pipeline_granularity(num_vertices: int, band: int) -> float:
    """Return ``(n - b) / 2n``: no stage is idle if each has at most this share of the rows.

    See Wan et al. 2025, Proposition 3.5. n is `num_vertices`; b is `band`, the result of
    `bandwidth`.
    """
    return (num_vertices - band) / (2 * num_vertices)


def rcm_order(matrix: Graph) -> npt.NDArray[np.int32]:
    """Return the vertices in reverse Cuthill-McKee order of the pattern of A + A^T: int32[n]."""
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    order: npt.NDArray[np.int32] = reverse_cuthill_mckee(symmetrised(matrix), symmetric_mode=True)
    return order


@dataclass(frozen=True)
class RcmModel(Model):
    """Parts are blocks of consecutive rows in the reverse Cuthill-McKee order of A + A^T."""

    follows_capacities: ClassVar[bool] = True

    def build(self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int) -> Problem:
        """Order the rows, and cut them into blocks of about the same weight.

        The notes have ``bandwidth``, ``granularity`` and ``stages``, with the suffix ``_before``
        (order in the graph file) or ``_after`` (reverse Cuthill-McKee order).
        """
        n = matrix.num_vertices
        check_num_parts(n, num_parts)
        order = rcm_order(matrix)
        position = np.empty(n, dtype=np.int64)
        position[order] = np.arange(n)
        owner = np.empty(n, dtype=np.int32)
        weights = combined(vertex_weights(matrix, balance))
        owner[order] = block_owner(weights[order], num_parts, capacities_of(balance))
        widths = {"before": bandwidth(matrix), "after": bandwidth(matrix, position)}
        notes: dict[str, Any] = {f"bandwidth_{when}": each for when, each in widths.items()}
        for name, of in (("granularity", pipeline_granularity), ("stages", pipeline_stages)):
            notes |= {f"{name}_{when}": of(n, each) for when, each in widths.items()}
        return Assignment(owner, notes=notes)
