"""The widths that vertex data need in the first and last layer, and checks of given widths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.vertexdata import VertexData
from plancc.plan.format import too_many_classes
from plancc.predict.passes import DEFAULT_DIMS

if TYPE_CHECKING:
    from plancc.plan.reader import PlanFile


@dataclass(frozen=True)
class DataWidths:
    """The first and the last width of a network, as features and labels require.

    Attributes:
        features: Number of columns of the features; None if there are no features.
        classes: Number of classes of the labels or targets; None if there are neither.
        excess: Message if there are too many classes for the number of vertices, else "".
    """

    features: int | None = None
    classes: int | None = None
    excess: str = ""

    @classmethod
    def of(cls, data: VertexData) -> DataWidths:
        """Return the widths of vertex data, over all vertex types (`_over_types`)."""
        if data.by_type is not None:
            return cls._over_types([cls.of(each) for each in data.by_type.of_type.values()])
        features = None if data.features is None else data.features.shape[1]
        if data.targets is not None:
            return cls(features or None, data.targets.shape[1] or None)
        return cls._from_labels(features, data.labels)

    @classmethod
    def read(cls, file: PlanFile) -> DataWidths:
        """Return the layer widths that a plan file's vertex data need. Only labels are read."""
        if file.header.types is None:
            return cls._read(file, "")
        names = file.header.types.names
        return cls._over_types([cls._read(file, f"_of_{k}") for k in range(len(names))])

    @classmethod
    def _read(cls, file: PlanFile, end: str) -> DataWidths:
        """Return the widths of the vertex data whose dataset names end with `end`."""
        features = file.width(f"vertex_data/features{end}")
        targets = file.width(f"vertex_data/targets{end}")
        if targets is not None:
            return cls(features or None, targets or None)
        labels = f"vertex_data/labels{end}"
        return cls._from_labels(features, file.read(labels) if file.has(labels) else None)

    @classmethod
    def _over_types(cls, found: Sequence[DataWidths]) -> DataWidths:
        """Return the most features of any type, and the classes of the only type with labels.

        If several types have labels, or none, the number of classes is None.
        """
        labelled = [each for each in found if each.classes is not None]
        one = labelled[0] if len(labelled) == 1 else cls()
        features = max((each.features or 0 for each in found), default=0)
        return cls(features or None, one.classes, one.excess)

    @classmethod
    def _from_labels(cls, features: int | None, labels: npt.NDArray[np.int32] | None) -> DataWidths:
        """Return the widths for features and labels, if the data have no array `targets`."""
        if labels is None:
            return cls(features or None)
        classes = int(labels.max(initial=-1)) + 1
        return cls(features or None, classes or None, too_many_classes(classes, len(labels)))

    @property
    def known(self) -> bool:
        """Whether the data have features, labels or targets, and so determine a width."""
        return self.features is not None or self.classes is not None

    @property
    def dims(self) -> tuple[int, ...]:
        """`DEFAULT_DIMS`, but with the numbers of features and classes, if known, at the ends."""
        first, *hidden, last = DEFAULT_DIMS
        return (self.features or first, *hidden, self.classes or last)

    def contradiction(self, dims: Sequence[int]) -> str:
        """Return the reason why these widths d_0..d_L do not suit the data; empty if they suit."""
        if self.features not in (None, dims[0]):
            return f"the first width is {dims[0]}, but the features have {self.features} columns"
        if self.classes is not None and dims[-1] < self.classes:
            return f"the last width is {dims[-1]}, but there are {self.classes} classes"
        return ""

    def check(self, dims: Sequence[int]) -> None:
        """Raise InputError if these widths d_0..d_L contradict the data."""
        why = self.contradiction(dims)
        if why:
            raise InputError(f"`dims` {','.join(map(str, dims))}: {why}")
