"""Export for hypre: text files with the IJ matrix and the communication package of every rank.

``HYPRE_IJMatrixRead`` reads ``matrix.00000`` and the following files. ``comm.00000`` and the
following files hold the arrays of ``hypre_ParCSRCommPkg``. Writing needs no hypre.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from plancc.export.contents import halo_rows, vertex_arrays
from plancc.export.target import Export
from plancc.plan.exchange import Int64Array
from plancc.plan.parts import Part
from plancc.plan.plan import Plan

ROWS_AT_ONCE = 1 << 16


def write(plan: Plan, folder: Path) -> None:
    """Write each part's matrix and communication package in plan order; then the vertex data."""
    for index, halo in enumerate(halo_rows(plan)):
        part = plan.part(index)
        _write_matrix(folder / f"matrix.{index:05d}", part, halo)
        _write_comm(folder / f"comm.{index:05d}", part, halo)
    names = {key: key for key in ("features", "labels", "targets", "clusters")}
    arrays: dict[str, Any] = vertex_arrays(plan, names)
    np.savez(folder / "vertex_data.npz", **arrays)


def _write_matrix(path: Path, part: Part, halo: Int64Array) -> None:
    """Write the rows of one part as an IJ matrix, numbered in plan order.

    The first line has the first and last row, then the first and last column. Other lines are "row
    column value".
    """
    first, last = part.first_row, part.first_row + part.num_rows - 1
    places = np.concatenate([np.arange(first, last + 1, dtype=np.int64), halo])
    with open(path, "w", encoding="ascii") as stream:
        stream.write(f"{first} {last} {first} {last}\n")
        for start in range(0, part.num_rows, ROWS_AT_ONCE):
            ptr = part.row_ptr[start : start + ROWS_AT_ONCE + 1]
            rows = first + start + np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
            columns = places[part.column[ptr[0] : ptr[-1]]]
            values = part.value[ptr[0] : ptr[-1]].astype(np.float64)
            entries = zip(rows.tolist(), columns.tolist(), values.tolist(), strict=True)
            stream.writelines(f"{i} {j} {value!r}\n" for i, j, value in entries)


def _write_comm(path: Path, part: Part, halo: Int64Array) -> None:
    """Write the send sets, the receive sets and `halo`, the halo rows in plan order.

    Each array has a line with its name, its length and its numbers.
    """
    arrays: dict[str, Iterable[int]] = {
        "send_procs": part.expand.send.peer.tolist(),
        "send_map_starts": part.expand.send.row_ptr.tolist(),
        "send_map_elmts": part.expand.send.row.tolist(),
        "recv_procs": part.expand.receive.peer.tolist(),
        "recv_vec_starts": part.expand.receive.row_ptr.tolist(),
        "col_map_offd": halo.tolist(),
    }
    with open(path, "w", encoding="ascii") as stream:
        for name, numbers in arrays.items():
            words = [str(number) for number in numbers]
            stream.write(" ".join([name, str(len(words)), *words]) + "\n")


EXPORT = Export(
    "hypre's IJ matrix and communication package of every rank; needs no hypre", write, doubles=True
)
