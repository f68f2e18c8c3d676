"""A lower bound on the rows that any row plan of a matrix moves.

It is computed from the degrees of the vertices and from connected components.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.graph.graph import Graph
from plancc.plan.matrix import graph_of
from plancc.plan.metrics import Metrics
from plancc.plan.reader import PlanFile
from plancc.report.plans import Report
from plancc_cli.tables import ratio


@dataclass(frozen=True)
class Certificate:
    """A lower bound on the volume of row plans with parts of bounded size: the larger of two.

    First: if row j and the rows that need row j do not fit into fewer than k_j parts, row j is sent
    at least k_j - 1 times; the bound is the sum. Second: if c connected components need at least K
    parts in total, at least K - c rows are sent.

    Attributes:
        most_rows, most_nonzeros: Largest allowed number of rows, and of nonzeros, of a part.
        components: Number of connected components of the matrix, ignoring direction.
        volume: The larger of the two bounds, in rows.
    """

    most_rows: int
    most_nonzeros: int
    components: int
    volume: int

    def facts(self, of: Metrics) -> list[tuple[str, str]]:
        """Return pairs (name, value) for a plan's table of facts; `of` are the plan's metrics."""
        share = ratio(self.volume, of.volume)
        limit = f"{self.most_rows:,} rows and {self.most_nonzeros:,} nonzeros"
        proven = f"{self.volume:,} rows, {share} of these; parts up to {limit}"
        return [("no plan below", proven), ("components", f"{self.components:,}")]

    @classmethod
    def of(cls, matrix: Graph, most_rows: int, most_nonzeros: int) -> Certificate:
        """Return the bound for row plans whose parts have at most so many rows and nonzeros."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        n, of_row = matrix.num_vertices, matrix.row_nonzeros()
        row = np.repeat(np.arange(n), of_row)
        own = np.ones(n, np.bool_)  # rows without a nonzero on the diagonal
        own[row[row == matrix.indices]] = False

        def needed(rows: npt.NDArray[np.int64], nonzeros: npt.NDArray[np.int64]) -> Any:
            """Return, for each i, how few parts can hold rows[i] rows with nonzeros[i] nonzeros."""
            return np.maximum(-(-rows // max(most_rows, 1)), -(-nonzeros // max(most_nonzeros, 1)))

        rows = np.bincount(matrix.indices, minlength=n) + own
        weight = np.bincount(matrix.indices, of_row[row].astype(np.float64), n).astype(np.int64)
        journeys = np.maximum(needed(rows, weight + own * of_row) - 1, 0)
        data = np.ones(matrix.num_nonzeros, np.int8)
        pattern = csr_array((data, matrix.indices, matrix.indptr), shape=(n, n))
        count, component = connected_components(pattern, directed=True, connection="weak")
        by_degrees = np.bincount(component, journeys, count)
        sizes = np.bincount(component, minlength=count)
        nonzeros = np.bincount(component, of_row, count).astype(np.int64)
        links = needed(sizes, nonzeros) - 1
        total = needed(np.array([n]), np.array([matrix.num_nonzeros]))[0]
        volume = max(int(np.maximum(by_degrees, links).sum()), int(total) - int(count), 0)
        return cls(most_rows, most_nonzeros, int(count), volume)


def with_certificate(given: Report) -> Report:
    """Return the report with a certificate: a lower bound on the volume of row plans.

    The bound holds for parts that are at most as large as this plan's largest part.
    """
    with PlanFile(given.path) as file:
        file.check_row_plan("a certificate")
        matrix = graph_of(file.read_plan())
    most = int(given.parts.rows.max()), int(given.parts.nonzeros.max())
    return replace(given, more=given.more | {"certificate": Certificate.of(matrix, *most)})
