"""Functions that extract from a plan what exports write: edges, halo rows and vertex data."""

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
"""Names of vertex data in DGL's data sets."""
PYG_NAMES = {"features": "x", "labels": "y", "targets": "y", "clusters": "cluster"}
"""Names of vertex data that PyTorch Geometric's data sets use."""


@dataclass(frozen=True)
class Edges:
    """The matrix as a list of edges, sorted by source, then target, as a coalesced `edge_index`.

    Nonzero ``A[i, j]`` is the edge from j to i, which is the direction in which data flow.

    Attributes:
        source, target: int64[num_nonzeros].
        weight: float32 or float64[num_nonzeros].
    """

    source: Int64Array
    target: Int64Array
    weight: npt.NDArray[np.floating]


def edges_of(plan: Plan) -> Edges:
    """Return all edges. Vertices are numbered 0..n-1 as in the graph, not in plan order."""
    matrix = matrix_of(plan).tocsc()
    source = np.repeat(np.arange(plan.num_vertices, dtype=np.int64), np.diff(matrix.indptr))
    return Edges(source, matrix.indices.astype(np.int64), matrix.data)


def vertex_arrays(plan: Plan, names: Mapping[str, str]) -> Arrays:
    """Return the plan's vertex data in plan order, with the names and dtypes of a framework.

    Features and targets are float32, labels and clusters int64, masks bool. ``vertex``, int64, has
    each row's vertex. If there are ids, ``original_id`` has each row's id; ids that are names are
    uint8[n, bytes] in UTF-8.
    """
    ids = taken(plan.original_id, plan.global_id)
    return arrays_of(plan.vertex_data, plan.global_id, names, ids)


def arrays_of(
    data: VertexData,
    vertices: npt.NDArray[np.integer],
    names: Mapping[str, str],
    ids: npt.NDArray[Any] | None,
) -> Arrays:
    """Return the arrays that `vertex_arrays` returns, for given vertices, their data and ids."""
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
    """Yield, for each part, the places of its halo rows in plan order, ascending."""
    receive = plan.receive
    place = plan.part_ptr[receive.peer_of_row()] + receive.row
    ends = receive.row_ptr[receive.ptr]
    for first, last in pairwise(ends.tolist()):
        yield place[first:last]
