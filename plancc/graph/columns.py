"""Columns: arrays with an entry for every nonzero, selected and reordered with the nonzeros.

For a new column, add a name to `COLUMNS` and a dataset ``matrix/NAME`` to the plan file
(`plancc.plan.format`); layers read the column by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Columns = Mapping[str, npt.NDArray[Any]]
COLUMNS = {"relation": "relations", "edge_features": "features of edges"}
"""Phrases that name columns in messages, by the name of the column. Datasets of the columns in the
group "matrix" of a plan file have the same names.
"""
RELATION, EDGE_FEATURES = COLUMNS


def columns_of(**given: npt.NDArray[Any] | None) -> Columns:
    """Return the given arrays by name; an array that is None is left out."""
    return {name: each for name, each in given.items() if each is not None}


@dataclass(frozen=True, eq=False, kw_only=True)
class WithColumns:
    """A matrix with further arrays, called columns, that have an entry for every nonzero.

    Attributes:
        columns: Arrays by name, whose first axis is the nonzeros in the matrix's order:

            relation (uint16[num_nonzeros]): Relation of every nonzero, only if two relations join
            the same types (*parallel*). A row may then have adjacent nonzeros in one column, with
            ascending relations.
            edge_features (float32[num_nonzeros, width]): Zeros for a nonzero that is not an edge,
            such as an added self loop.
    """

    columns: Columns = field(default_factory=dict)

    @property
    def relation(self) -> npt.NDArray[np.uint16] | None:
        """Index of the relation of every nonzero; None if the matrix has no column "relation"."""
        return self.columns.get(RELATION)

    @property
    def edge_features(self) -> npt.NDArray[np.float32] | None:
        """Features of every nonzero's edge; None if the matrix has no column "edge_features"."""
        return self.columns.get(EDGE_FEATURES)

    @property
    def read_columns(self) -> list[str]:
        """Names of the arrays in `columns` that layers read: all but "relation"."""
        return [name for name in self.columns if name != RELATION]

    def columns_at(self, places: Any) -> Columns:
        """Return the columns' entries for some nonzeros: a slice, a mask or positions."""
        return {name: each[places] for name, each in self.columns.items()}

    def without_read_columns(self) -> Self:
        """Return the matrix without those arrays of `columns` that layers read."""
        return self.with_columns(**dict.fromkeys(self.read_columns))

    def with_columns(self, **columns: Any) -> Self:
        """Return a copy in which `columns` are added or replaced, by name, or removed if None."""
        return replace(self, columns=columns_of(**{**self.columns, **columns}))
