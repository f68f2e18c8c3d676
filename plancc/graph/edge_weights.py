"""Range of the edge weights of a source, and warnings about numbers that may not be weights.

Some edge lists have times, types or ids in the place of weights. Only the names of columns and the
size of the numbers reveal this.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import warn
from plancc.graph.graph import Source

LARGE = 10**6
"""Whole numbers from this number on are more often times or ids than weights."""
OF_TIMES = 10**9
"""Any numbers from this number on are often times, such as seconds since 1970."""
BLOCK = 1 << 14
"""Number of values that are checked at a time, so that they stay in the cache."""
UNNAMED = "the values"
SUMMED = "repeated entries summed"
_NO_WEIGHTS = re.compile(r"\b(time|timestamp|datetime|date|year|label|type|id|distance|dist)s?\b")
_FAR = ("distance", "dist")
_ATTRIBUTES = re.compile(r"\b(attr|attribute|feat|feature)s?\b")


class WeightRange:
    """Range of edge weights: the smallest, the largest, and whether all are whole numbers.

    Parameters:
        name: Name that the source gives the weights.
    """

    def __init__(self, name: str) -> None:
        self._name = name or UNNAMED
        # split the name into words, at camel case and underscores
        self._words = re.sub(r"(?<=[a-z])(?=[A-Z])|[\W_]+", " ", self._name).lower()
        self._least, self._largest, self._whole = float("inf"), float("-inf"), True

    @property
    def _is_large(self) -> bool:
        return max(-self._least, self._largest) >= LARGE

    def add(self, values: npt.NDArray[Any]) -> None:
        """Add finite values to the range, and test whether they are whole numbers.

        Only the first `BLOCK` values are tested, unless the range reaches large numbers or the name
        of the weights has a word such as "attr".
        """
        if not len(values):
            return
        # print float32 with its own digits: 0.1, not 0.100000001490116
        ends = (str(x) if x.dtype == np.float32 else x for x in (values.min(), values.max()))
        least, largest = map(float, ends)
        self._least, self._largest = min(self._least, least), max(self._largest, largest)
        all_of_them = self._is_large or _ATTRIBUTES.search(self._words)
        end = len(values) if all_of_them else BLOCK
        for start in range(0, min(end, len(values)), BLOCK):
            block = values[start : start + BLOCK]
            self._whole = self._whole and (
                block.dtype.kind in "biu" or bool((np.floor(block) == block).all())
            )

    def described(self, source: Source, repeated: int = 0) -> Source:
        """Return the source with the name of the weights, and with a phrase that says their range.

        A source that already states a range is unchanged. Warns of values like times, types or ids.
        """
        if source.weight_range:
            return source
        name = self._name
        if self._least > self._largest:  # no entries
            return replace(source, weights=name)
        words = f"{self._least:,.15g} to {self._largest:,.15g}"
        if self._least == self._largest:
            words = f"all {self._least:,.15g}"
        if repeated:
            words += f", {SUMMED}: {repeated:,}"
        why = self._doubt()
        if why:
            are = "is" if name.startswith(("column", "'")) else "are"
            cure = "`pattern` reads the graph without weights"
            warn(
                f"{source.name}: {name} {are} read as weights of the edges, {words}: {why}; {cure}"
            )
        return replace(source, weights=name, weight_range=words)

    def _doubt(self) -> str:
        """Return the reason why the values may not be weights; "" if there is none."""
        if found := _NO_WEIGHTS.search(self._words):
            far = ", and near vertices would have small weights" * (found[1] in _FAR)
            return f"the name says {found[1]}{far}"
        if self._whole and self._is_large:
            return "whole numbers this large are often times or ids"
        if max(-self._least, self._largest) >= OF_TIMES:
            return "numbers this large are often times"
        if self._whole and _ATTRIBUTES.search(self._words):
            return "whole numbers may be types of edges"
        return ""
