"""A lower bound on the rows moved by any plan of a matrix, from degrees and components."""

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
    """A lower bound on the rows moved by row partitions whose parts are bounded.

    Row j travels to every part, except its owner, that has a row with a nonzero in column j. If j
    and these rows fit only into k_j parts, row j travels k_j - 1 times at least; add up over j. If
    the rows of a connected component are in k parts, the messages of its rows link all k parts,
    which takes k - 1 at least. For c components that need K parts together, this is K - c at least.

    Attributes:
        most_rows, most_nonzeros: Largest numbers of a part.
        components: Number of connected components of the matrix, without direction.
        volume: The largest of the proven sums, in rows.
    """

    most_rows: int
    most_nonzeros: int
    components: int
    volume: int

    def facts(self, of: Metrics) -> list[tuple[str, str]]:
        """Return lines of names and texts for the facts about a plan."""
        share = ratio(self.volume, of.volume)
        limit = f"{self.most_rows:,} rows and {self.most_nonzeros:,} nonzeros"
        proven = f"{self.volume:,} rows, {share} of these; parts up to {limit}"
        return [("no plan below", proven), ("components", f"{self.components:,}")]

    @classmethod
    def of(cls, matrix: Graph, most_rows: int, most_nonzeros: int) -> Certificate:
        """Return the certificate of a matrix for parts of at most these sizes."""
        from scipy.sparse import csr_array
        from scipy.sparse.csgraph import connected_components

        n, of_row = matrix.num_vertices, matrix.row_nonzeros()
        row = np.repeat(np.arange(n), of_row)
        own = np.ones(n, np.bool_)  # rows without a nonzero on the diagonal
        own[row[row == matrix.indices]] = False

        def needed(rows: npt.NDArray[np.int64], nonzeros: npt.NDArray[np.int64]) -> Any:
            """Return the least number of parts that can hold these rows and nonzeros."""
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
    """Return the report with a bound for row plans whose parts are at most as full as this plan's.

    Raises:
        InputError: If the plan is an edge or a grid plan.
    """
    with PlanFile(given.path) as file:
        file.check_row_plan("a certificate")
        matrix = graph_of(file.read_plan())
    most = int(given.parts.rows.max()), int(given.parts.nonzeros.max())
    return replace(given, more=given.more | {"certificate": Certificate.of(matrix, *most)})
