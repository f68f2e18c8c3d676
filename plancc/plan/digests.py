"""Digests of a plan: one leaf for each dataset and part, and one root, the content hash.

A leaf is the BLAKE3 digest of one part's entries in one dataset, so that a rank can check its own
part alone. The file stores the leaves in ``/digests`` (docs/reference/plan-format.md, "Digests" and
"Content hash").
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
from plancc.plan.blake3_hash import blake3_digest, blake3_of_pieces
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
from plancc.plan.values import Header

DIGEST_BYTES = 32
Digests = npt.NDArray[np.uint8]
"""The leaves of a dataset: uint8[num_parts, 32], or uint8[1, 32] if it is not cut into parts."""


def cut_points(cut: str, table: Callable[[str], npt.NDArray[Any]]) -> Int64Array:
    """Return offsets that cut a dataset into parts, int64[num_parts + 1].

    `cut` is a `FileDataset.cut` other than "". ``table(name)`` returns a dataset; in a damaged
    plan, its numbers may be out of range.
    """
    if cut == LOCAL_ROWS:
        part_ptr: Int64Array = table(PART_PTR)
        try:
            return part_ptr + cut_points(FOLDED, table)
        except KeyError:  # a row plan folds no rows
            return part_ptr
    name, _, number = cut.partition(OF_TYPE)
    offsets, outer = table(name), DATASETS[name].cut
    if number:
        return offsets[int(number)]
    return _entries(offsets, cut_points(outer, table)) if outer else offsets


def _entries(offsets: Int64Array, at: Int64Array) -> Int64Array:
    """Return ``offsets[at]``. Indices out of range, which a damaged plan may have, are clipped."""
    return offsets[np.clip(at, 0, len(offsets) - 1)]


def digests_of(
    array: npt.NDArray[Any] | MappedRows, points: Int64Array, *, shared: bool
) -> Digests:
    """Return the BLAKE3 digests of the k pieces ``points[i]:points[i + 1]``, uint8[k, 32].

    If `shared`, each piece also has the first entry of the next piece.
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
    """Return the offsets that cut the datasets into parts (see `cut_points`).

    The keys are the values of `FileDataset.cut` of these datasets, except "".
    """
    cuts = dict.fromkeys(dataset_of(name).cut for name in arrays)  # the same order on all ranks
    return {cut: cut_points(cut, arrays.__getitem__) for cut in cuts if cut}


def leaves_of(arrays: Arrays, points: Mapping[str, Int64Array]) -> dict[str, Digests]:
    """Return the leaves (digests of each part's entries) of each dataset, by dataset name.

    `points` has, for each way to cut datasets into parts (`FileDataset.cut`), the offsets of the
    parts (see `cut_points`).
    """

    def leaves(name: str) -> Digests:
        array, dataset = arrays[name], dataset_of(name)
        at = points[dataset.cut] if dataset.cut else np.array([0, len(array)])
        return digests_of(array, at, shared=dataset.shared)

    names = sorted(arrays)
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(leaves, names), strict=True))


def digests_of_plan(arrays: Arrays) -> dict[str, Digests]:
    """Return the leaves (digests of each part's entries) of a plan's datasets, by dataset name."""
    return leaves_of(arrays, points_of(arrays))


def content_sha256(header: Header, arrays: Arrays) -> str:
    """Return the content hash of a plan, over all data that determine a run.

    Provenance, metrics and storage (chunks, compression) do not change the hash.
    """
    return root_of(header_attributes(header), digests_of_plan(arrays), arrays)


def root_of(
    attributes: Mapping[str, Any], digests: Mapping[str, Digests], arrays: Mapping[str, Any]
) -> str:
    """Return the content hash of a plan, from header attributes and the datasets' leaves.

    The hash is SHA-256 of a text: lines ``name=value`` of attributes, then ``name dtype shape
    digest`` of datasets, both sorted by name. ``digest`` is the BLAKE3 digest of a dataset's
    leaves (the digests of the parts' entries). `arrays` give only dtypes and shapes.
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
    """Return the bytes of an array in C order."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
