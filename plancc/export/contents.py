"""What several targets write of a plan: edges, and vertex data under a framework's names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.graph.named_ids import are_names
from plancc.graph.vertexdata import MASKS, VertexData
from plancc.plan.exchange import Int64Array
from plancc.plan.matrix import matrix_of
from plancc.plan.parts import taken
from plancc.plan.plan import Plan

Arrays = dict[str, npt.NDArray[Any]]
DGL_NAMES = {"features": "feat", "labels": "label", "targets": "label", "clusters": "cluster"}
"""Names of vertex data that DGL's data sets use."""
PYG_NAMES = {"features": "x", "labels": "y", "targets": "y", "clusters": "cluster"}
"""Names of vertex data that PyTorch Geometric's data sets use."""


@dataclass(frozen=True)
class Edges:
    """The matrix as edges: the nonzero ``A[i, j]`` is the edge from j to i, along which data flow.

    Sorted by source, then target, which is the order of a coalesced `edge_index`.

    Attributes:
        source, target: int64[num_nonzeros].
        weight: float32 or float64[num_nonzeros].
    """

    source: Int64Array
    target: Int64Array
    weight: npt.NDArray[np.floating]


def edges_of(plan: Plan) -> Edges:
    """All edges between vertices in the source's own numbering."""
    matrix = matrix_of(plan).tocsc()
    source = np.repeat(np.arange(plan.num_vertices, dtype=np.int64), np.diff(matrix.indptr))
    return Edges(source, matrix.indices.astype(np.int64), matrix.data)


def vertex_arrays(plan: Plan, names: Mapping[str, str]) -> Arrays:
    """Vertex data in plan order, in the types that frameworks train with.

    Parameters:
        names: The framework's names of features, labels, targets and clusters; masks keep theirs.

    Returns:
        dict of str to array: Features float32, labels and clusters int64, targets float32, masks
            bool, as far as the plan has them; besides ``vertex``, the number of the vertex in the
            source, int64, and ``original_id``, the source's own id, where it differs: of names the
            bytes in UTF-8, padded with 0, uint8[n, bytes].
    """
    ids = taken(plan.original_id, plan.global_id)
    return arrays_of(plan.vertex_data, plan.global_id, names, ids)


def arrays_of(
    data: VertexData,
    vertices: npt.NDArray[np.integer],
    names: Mapping[str, str],
    ids: npt.NDArray[Any] | None,
) -> Arrays:
    """The data of rows of these vertices, int[m], and their ids, as `vertex_arrays` has them."""
    types = {
        "labels": np.int64,
        "clusters": np.int64,
        "targets": np.float32,
        "features": np.float32,
    }
    found: Arrays = {}
    for key, kind in types.items():
        array = getattr(data, key)
        if array is not None:
            found[names[key]] = array.astype(kind, copy=False)
    found |= {key: array for key in MASKS if (array := getattr(data, key)) is not None}
    found["vertex"] = vertices.astype(np.int64)
    if ids is not None:
        found["original_id"] = ids.view(np.uint8).reshape(len(ids), -1) if are_names(ids) else ids
    return found


def halo_rows(plan: Plan) -> Iterator[Int64Array]:
    """For every part the rows that it receives, as numbers in plan order, ascending."""
    receive = plan.receive
    place = plan.part_ptr[receive.peer_of_row()] + receive.row
    ends = receive.row_ptr[receive.ptr]
    for first, last in pairwise(ends.tolist()):
        yield place[first:last]
