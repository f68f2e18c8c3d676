"""Arrays with an entry for every nonzero, which all that selects or orders nonzeros carries along.

A new array for every nonzero is a name in `COLUMNS` and a dataset ``matrix/NAME`` of the plan file
(`plancc.plan.format`); layers read it by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Columns = Mapping[str, npt.NDArray[Any]]
COLUMNS = {"relation": "relations", "edge_features": "features of edges"}
"""Names of columns, and of nodes of the group "matrix" of a plan file, with their words."""
RELATION, EDGE_FEATURES = COLUMNS


def columns_of(**given: npt.NDArray[Any] | None) -> Columns:
    """Columns by their names; those that are None are missing."""
    return {name: each for name, each in given.items() if each is not None}


@dataclass(frozen=True, eq=False, kw_only=True)
class WithColumns:
    """A matrix whose nonzeros carry more than a value.

    Attributes:
        columns: By their names arrays whose first axis is the nonzeros, in the same order:

            relation (uint16[num_nonzeros]): Number of the relation of every nonzero, where
                relations are parallel (`plancc.graph.types.Types`). A column then may occur several
                times in a row, once for a relation; they stand together, their relations ascending.
            edge_features (float32[num_nonzeros, width]): Features of the edges; of a nonzero that
                is none (a self loop that was added) zeros.
    """

    columns: Columns = field(default_factory=dict)

    @property
    def relation(self) -> npt.NDArray[np.uint16] | None:
        """The column of this name; None: there is none."""
        return self.columns.get(RELATION)

    @property
    def edge_features(self) -> npt.NDArray[np.float32] | None:
        """The column of this name; None: there is none."""
        return self.columns.get(EDGE_FEATURES)

    @property
    def read_columns(self) -> list[str]:
        """Names of the columns that layers read: all but the relation."""
        return [name for name in self.columns if name != RELATION]

    def columns_at(self, places: Any) -> Columns:
        """The columns of some nonzeros, which a slice, a mask or numbers name."""
        return {name: each[places] for name, each in self.columns.items()}

    def without_read_columns(self) -> Self:
        """The same without the columns that layers read."""
        return self.with_columns(**dict.fromkeys(self.read_columns))

    def with_columns(self, **columns: Any) -> Self:
        """The same with other columns of these names; None: without them."""
        return replace(self, columns=columns_of(**{**self.columns, **columns}))
