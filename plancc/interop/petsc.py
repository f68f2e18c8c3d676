"""Export as binary files of PETSc: the matrix in plan order, and index sets.

``MatLoad`` and ``ISLoad`` read the files (PETSc manual, MatLoad); writing needs no PETSc. A file
begins with a number that names its class; then follow big-endian 32-bit integers and doubles.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.export.contents import halo_rows, vertex_arrays
from plancc.export.target import Export
from plancc.plan.plan import Plan

MATRIX, INDEX_SET = 1211216, 1211218
DENSE = -1
"""Number in the header, in place of the number of nonzeros, that marks a dense matrix."""
MOST = 2**31 - 1


def write(plan: Plan, folder: Path) -> None:
    """Write the matrix, the vertex data, and every rank's number of rows and halo rows.

    The file "ordering.is" has the vertex of every row, in plan order.
    """
    from scipy.sparse import csr_array

    n, nnz = plan.num_vertices, plan.header.num_nonzeros
    if nnz > MOST:
        raise InputError(f"export 'petsc': a file holds at most {MOST} nonzeros; there are {nnz}")
    columns = plan.all_parts.place_of_columns()
    matrix = csr_array((plan.value.astype(np.float64), columns, plan.row_ptr), shape=(n, n))
    matrix.sort_indices()
    with open(folder / "matrix.petsc", "wb") as stream:
        for integers in ([MATRIX, n, n, nnz], np.diff(matrix.indptr), matrix.indices):
            stream.write(_big_endian(integers))
        stream.write(matrix.data.astype(">f8").tobytes())
    _write_index_set(folder / "ordering.is", plan.global_id)
    _write_index_set(folder / "rows_per_rank.is", np.diff(plan.part_ptr))
    (folder / "halo").mkdir()
    for index, halo in enumerate(halo_rows(plan)):
        _write_index_set(folder / "halo" / f"{index}.is", halo)
    names = {key: key for key in ("features", "labels", "targets", "clusters")}
    data: dict[str, Any] = vertex_arrays(plan, names)
    for name in ("features", "targets"):
        if name in data:
            header = _big_endian([MATRIX, *data[name].shape, DENSE])
            numbers = data.pop(name).astype(">f8").tobytes()
            (folder / f"{name}.petsc").write_bytes(header + numbers)
    np.savez(folder / "vertex_data.npz", **data)


def _big_endian(integers: npt.ArrayLike) -> bytes:
    return np.asarray(integers).astype(">i4").tobytes()


def _write_index_set(path: Path, numbers: npt.NDArray[np.integer]) -> None:
    path.write_bytes(_big_endian([INDEX_SET, len(numbers)]) + _big_endian(numbers))


EXPORT = Export(
    "PETSc's binary matrix in plan order, with index sets; needs no PETSc", write, doubles=True
)
