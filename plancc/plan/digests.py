"""The tree of digests over a plan: parts' slices of datasets, datasets, the plan.

A leaf is the BLAKE3 digest of one part's entries of one dataset, so that a reader of a part can
check what it read, and nothing else. The leaves of a dataset stand in ``/digests`` of the file; the
content hash is made of all of them (docs/reference/plan-format.md, "Digests" and "Content hash").
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.graph.mapped import MappedRows
from plancc.plan.exchange import Int64Array
from plancc.plan.format import (
    DATASETS,
    FOLDED,
    LOCAL_ROWS,
    OF_TYPE,
    PART_PTR,
    Arrays,
    dataset_of,
    header_attributes,
)
from plancc.plan.hashing import blake3_digest, blake3_of_pieces
from plancc.plan.values import Header

DIGEST_BYTES = 32
Digests = npt.NDArray[np.uint8]
"""The leaves of a dataset: uint8[parts or 1, 32]."""


def cut_points(cut: str, table: Callable[[str], npt.NDArray[Any]]) -> Int64Array:
    """Where the entries of every part start in a dataset, and where the last ones end.

    Parameters:
        cut: `FileDataset.cut` of the dataset, which is not empty.
        table: Datasets of the plan by name. In a damaged plan they may hold any numbers.

    Returns:
        int64[num_parts + 1]
    """
    if cut == LOCAL_ROWS:
        part_ptr: Int64Array = table(PART_PTR)
        try:
            return part_ptr + cut_points(FOLDED, table)
        except KeyError:  # no edge plan
            return part_ptr
    name, _, number = cut.partition(OF_TYPE)
    offsets, outer = table(name), DATASETS[name].cut
    if number:
        return offsets[int(number)]
    return _entries(offsets, cut_points(outer, table)) if outer else offsets


def _entries(offsets: Int64Array, at: Int64Array) -> Int64Array:
    """``offsets[at]``, of a damaged plan as well."""
    return offsets[np.clip(at, 0, len(offsets) - 1)]


def digests_of(
    array: npt.NDArray[Any] | MappedRows, points: Int64Array, *, shared: bool
) -> Digests:
    """A digest for each slice of an array.

    Parameters:
        array: array[entries, ...].
        points (int64[k + 1]): Slice i has the entries ``points[i]:points[i + 1]``.
        shared: Whether a slice has the entry after its last too, with which the next one begins.

    Returns:
        uint8[k, 32]
    """
    if isinstance(array, MappedRows):
        bounds = np.clip(points, 0, len(array)).tolist()
        leaves = [blake3_of_pieces(map(bytes_of, array.pieces(*ends))) for ends in pairwise(bounds)]
        return np.frombuffer(b"".join(leaves), np.uint8).reshape(len(leaves), DIGEST_BYTES)
    content = bytes_of(array)
    size = len(content) // len(array) if len(array) else 0
    bounds = (np.clip(points, 0, len(array)) * size).tolist()
    more = size if shared else 0
    leaves = [
        blake3_digest(content[start : max(start, stop + more)]) for start, stop in pairwise(bounds)
    ]
    return np.frombuffer(b"".join(leaves), np.uint8).reshape(len(leaves), DIGEST_BYTES)


def points_of(arrays: Arrays) -> dict[str, Int64Array]:
    """`cut_points` of everything that cuts one of these datasets."""
    cuts = dict.fromkeys(dataset_of(name).cut for name in arrays)  # in one order on all ranks
    return {cut: cut_points(cut, arrays.__getitem__) for cut in cuts if cut}


def leaves_of(arrays: Arrays, points: Mapping[str, Int64Array]) -> dict[str, Digests]:
    """The leaves of datasets by their names; `points` as of `points_of`."""

    def leaves(name: str) -> Digests:
        array, dataset = arrays[name], dataset_of(name)
        at = points[dataset.cut] if dataset.cut else np.array([0, len(array)])
        return digests_of(array, at, shared=dataset.shared)

    names = sorted(arrays)
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(leaves, names), strict=True))


def digests_of_plan(arrays: Arrays) -> dict[str, Digests]:
    """The leaves of all datasets of a plan, by the names of the datasets."""
    return leaves_of(arrays, points_of(arrays))


def content_sha256(header: Header, arrays: Arrays) -> str:
    """Hash of everything that determines what a run of the plan computes and sends.

    Provenance, metrics and storage (chunks, compression) do not enter.
    """
    return root_of(header_attributes(header), digests_of_plan(arrays), arrays)


def root_of(
    attributes: Mapping[str, Any], digests: Mapping[str, Digests], arrays: Mapping[str, Any]
) -> str:
    """The content hash from header attributes and leaves; of `arrays` only dtypes and shapes.

    SHA-256 of one line ``name=value`` per header attribute and one line ``name dtype shape digest``
    per dataset, both sorted by name, where the digest is BLAKE3 of the dataset's leaves.
    """
    lines = sorted(
        f"{name}={int(v) if isinstance(v, bool | np.bool_) else v}"
        for name, v in attributes.items()
    )
    for name in sorted(digests):
        shape = "x".join(map(str, arrays[name].shape))
        digest = blake3_digest(bytes_of(digests[name])).hex()
        lines.append(f"{name} {arrays[name].dtype.str} {shape} {digest}")
    return hashlib.sha256("\n".join([*lines, ""]).encode()).hexdigest()


def bytes_of(array: npt.NDArray[np.generic]) -> memoryview:
    """The bytes of an array in C order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
