"""The population from which samplers draw, read from a plan.

Vertices are in the order of the graph's source, and columns ascend in each row: samplers choose by
position, and compiler and runtime must draw the same mini-batches.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from plancc.errors import InputError, PlanError
from plancc.kernel import njit
from plancc.plan.exchange import Int32Array, Int64Array
from plancc.plan.matrix import graph_of
from plancc.plan.plan import Plan
from plancc.plan.reader import PlanFile, within
from plancc.sampling import Population, Sampler


def num_training(file: PlanFile, target: str | None = None) -> int | None:
    """Return the number of vertices in the training mask or, without a mask, of type `target`.

    Return None if the plan has no training mask and `target` is None.
    """
    types, suffix = file.header.types, ""
    if types is not None and target is not None:
        suffix = f"_of_{types.names.index(target)}"
    if file.has(f"vertex_data/train_mask{suffix}"):
        return int(file.read(f"vertex_data/train_mask{suffix}").sum(dtype=np.int64))
    return None if types is None or target is None else int(types.counts[target])


def read_population(
    file: PlanFile, sampler: Sampler, *, with_pattern: bool = True, target: str | None = None
) -> Population:
    """Read the population from which a sampler draws, with the data that the sampler needs.

    Reading the pattern calls compiled functions, and takes twice the memory of the result. Without
    a training mask, all vertices of type `target` are training vertices.
    """
    n, types, suffix = file.header.num_vertices, file.header.types, ""
    carried = file.vertex_data_names()
    if types is not None and target is not None:
        suffix = f"_of_{types.names.index(target)}"
        carried = [name.removesuffix(f" of {target}") for name in carried]
    of_type = f" of {target}" if suffix else ""
    for name in sampler.needs:
        if name != "pattern" and name not in carried:
            raise InputError(
                f"{file.path} has no {name}{of_type}; sampler '{sampler.name}' needs this data "
                f"(compile with `{'clusters' if name == 'clusters' else 'data'}`)"
            )
    if not sampler.needs:
        return Population(n)
    part_ptr = file.read("rows/part_ptr")
    global_id = file.read("rows/global_id")
    if not (np.bincount(global_id, minlength=n) == 1).all():
        raise PlanError(f"{file.path}: /rows/global_id is damaged: it is not a permutation")

    vertices = global_id
    if types is not None and target is not None:
        vertices = global_id[types.type_of(global_id) == types.names.index(target)]

    def read_by_vertex(name: str) -> Any:
        array = file.read(f"vertex_data/{name}{suffix}")
        file.check(f"vertex_data/{name}{suffix}", len(array) == len(vertices))
        found = np.zeros(n, array.dtype)
        found[vertices] = array
        return found

    training = None
    if file.has(f"vertex_data/train_mask{suffix}"):
        training = read_by_vertex("train_mask").astype(np.bool_)
    elif suffix:
        training = np.zeros(n, np.bool_)
        training[vertices] = True
    indptr, indices = None, None
    if "pattern" in sampler.needs:
        file.check_row_plan(f"sampler '{sampler.name}'")
        if with_pattern:
            indptr, indices = _read_pattern(file, part_ptr, global_id)
    return Population(
        n,
        indptr,
        indices,
        training,
        read_by_vertex("clusters") if "clusters" in sampler.needs else None,
    )


def population_of(plan: Plan) -> Population:
    """Return a population for any sampler: pattern, and the plan's training mask and clusters."""
    graph, data, place = graph_of(plan), plan.vertex_data, plan.places()
    return Population(
        plan.num_vertices,
        graph.indptr,
        graph.indices,
        train_mask=None if data.train_mask is None else data.train_mask[place],
        clusters=None if data.clusters is None else data.clusters[place],
    )


def _read_pattern(
    file: PlanFile, part_ptr: Int64Array, global_id: Int32Array
) -> tuple[Int64Array, Int32Array]:
    """Read the matrix pattern by vertex as ``indptr``, int64[n + 1], and ``indices``, int32[nnz].

    Columns ascend in every row.
    """
    row_ptr = file.read("matrix/row_ptr")
    received = file.read_side("expand/recv")
    row, sender = received.row, received.peer_of_row()
    file.check("expand/recv_row", within(row, np.diff(part_ptr)[sender]))
    halo, halo_ptr = global_id[part_ptr[sender] + row], received.row_ptr[received.ptr]
    indptr = np.zeros(len(row_ptr), dtype=np.int64)
    indptr[global_id + 1] = np.diff(row_ptr)
    np.cumsum(indptr, out=indptr)
    indices = np.empty(file.header.num_nonzeros, dtype=np.int32)
    column = file.read("matrix/column")
    in_range = _renumbered(part_ptr, global_id, row_ptr, column, halo_ptr, halo, indptr, indices)
    file.check("matrix/column", in_range)
    return indptr, indices


@njit(cache=True, nogil=True)
def _renumbered(  # type: ignore[no-untyped-def]
    part_ptr, global_id, row_ptr, column, halo_ptr, halo, indptr, indices
):
    """Write the columns of all nonzeros, as vertices, to `indices`.

    Returns False if a local column is out of range.
    """
    for part in range(len(part_ptr) - 1):
        row0, row1 = part_ptr[part], part_ptr[part + 1]
        own, held = row1 - row0, row1 - row0 + halo_ptr[part + 1] - halo_ptr[part]
        for r in range(row0, row1):
            first = indptr[global_id[r]]
            for a in range(row_ptr[r], row_ptr[r + 1]):
                c = column[a]
                if c < 0 or c >= held:
                    return False
                at = first + a - row_ptr[r]
                indices[at] = global_id[row0 + c] if c < own else halo[halo_ptr[part] + c - own]
            indices[first : first + row_ptr[r + 1] - row_ptr[r]].sort()
    return True
