"""Remarks: sentences about vertex data that are allowed but probably a mistake."""

from __future__ import annotations

import os
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.graph.vertexchecks import EXACT
from plancc.graph.vertexdata import MASKS, VertexData
from plancc.text import shown

GAPS = 2
"""A remark says that labels have gaps if there are this many times more class numbers than
classes."""


def files_of_data(given: Any) -> str:
    """Return the names of the files of vertex data; "" if `given` is neither a path nor paths."""
    paths = [given] if isinstance(given, str | os.PathLike) else given
    return ", ".join(map(os.fspath, paths)) if isinstance(paths, list | tuple) else ""


def remarks(data: VertexData, graph: str, files: str = "") -> list[str]:
    """Return sentences about masks, labels and targets, and about types without data.

    Every sentence begins with the name of a source: `files` (`files_of_data`), or `graph` if
    `files` is "".
    """
    where = files or graph
    found = [f"{where}: {each}" for each in _array_remarks(data)]
    for name, each in data.of_type.items():
        found += [f"{where}: type '{shown(name)}': {remark}" for remark in _array_remarks(each)]
    return found + [f"{graph}: {each}" for each in _type_remarks(data)]


def _array_remarks(data: VertexData) -> list[str]:
    return [*_mask_remarks(data), *_class_remarks(data)]


def lost_values(
    given: npt.NDArray[np.floating] | None, normalization: str, dtype: npt.DTypeLike
) -> tuple[int, int]:
    """Return how many weights become 0 in `dtype`, and how many lose digits in `dtype`.

    The second number counts only weights that are whole numbers, and is 0 if weights are
    normalised.
    """
    if given is None or np.dtype(dtype) != np.float32 or given.dtype == np.float32:
        return 0, 0
    with np.errstate(over="ignore", under="ignore"):
        rounded = given.astype(np.float32)
    gone, lost = int(np.count_nonzero(rounded == 0)), 0
    if normalization == "none" and max(-given.min(initial=0), given.max(initial=0)) > EXACT:
        lost = int(np.count_nonzero((rounded != given) & (given == np.floor(given))))
    return gone, lost


def lost_value_remarks(gone: int, lost: int) -> list[str]:
    """Return sentences about the two counts of `lost_values`; no sentence about a count of 0."""
    found = [f"{gone:,} weights are 0 in float32 and left out"] * (gone > 0)
    found += [f"{lost:,} weights above {EXACT:,} lose digits in float32"] * (lost > 0)
    return [f"{each}: `value_dtype` float64 keeps them" for each in found]


def _mask_remarks(data: VertexData) -> list[str]:
    found = []
    masks = {name: getattr(data, name) for name in MASKS if getattr(data, name) is not None}
    for (name, mask), (other, second) in combinations(masks.items(), 2):
        both = np.count_nonzero(mask & second)
        if both:
            trained = ": accuracy is measured on what was trained" * (name == "train_mask")
            found.append(f"{both:,} vertices are in '{name}' and in '{other}'{trained}")
    train = data.train_mask
    if train is not None:
        known = train if data.labels is None else train & (data.labels >= 0)
        nothing = ": there is nothing to train on"
        if not train.any():
            found.append(f"'train_mask' holds no vertex{nothing}")
        elif not known.any():
            found.append(f"no vertex of 'train_mask' has a class (labels are -1){nothing}")
    return found


def _class_remarks(data: VertexData) -> list[str]:
    if data.labels is not None:
        classes = int(data.labels.max(initial=-1)) + 1
        occurring = np.unique(data.labels[data.labels >= 0])
        there = len(occurring)
        gets = "a network gets an output for each of"
        if classes > GAPS * there:
            told = f"{there:,} of the class numbers 0..{classes - 1} occur"
            cure = "number the classes from 0 without gaps"
            return [f"labels: {told}; {gets} the {classes:,}: {cure}"]
        if there and occurring[0] == 1:
            told = f"the classes 1..{classes - 1} occur, 0 does not"
            cure = "subtract 1 if the classes count from 1"
            return [f"labels: {told}; {gets} 0..{classes - 1}: {cure}"]
    if data.targets is not None and data.targets.dtype == np.bool_:
        columns = data.targets.shape[1]
        if columns > 1 and (data.targets.sum(axis=1) == 1).all():
            told = "a vertex may be of any number of classes (sigmoid, F1)"
            looks = "Every row has exactly one 1, which looks one-hot"
            cure = "give the numbers of the classes, n integers, if a vertex is of one class"
            words = f"{told}. {looks}: {cure} (softmax, accuracy)"
            return [f"labels of {columns} columns are targets: {words}"]
    return []


def _type_remarks(data: VertexData) -> list[str]:
    """Return sentences about types that no relation leads to, and types without features."""
    if data.by_type is None:
        return []
    types, labelled = data.by_type.types, data.by_type.labelled
    found = list[str]()
    for name in types.unreached():
        why = ", so that neighbours do not update it"
        if name in labelled:
            why = ", which has labels: they are learnt from its own features alone"
        found.append(f"no relation leads to '{shown(name)}'{why}{types.advice_to_reach(name)}")
    known = {name for name, each in data.of_type.items() if each.features is not None}
    read = {*(labelled or types.names)}
    for _ in types.names:
        read |= {source for source, _, end in types.relations if end in read}
    without = [f"'{shown(name)}'" for name in types.names if name in read and name not in known]
    if known and without:
        told = f"no features of {', '.join(without)}: plancc-run refuses networks that read them"
        cure = "give features of every type, a column of ones if there are none"
        found.append(f"{told}; {cure}")
    return found
