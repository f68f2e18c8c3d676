"""Every figure of a plan file once more, from its rows and columns alone, with h5py and numpy.

Communication is counted from the matrix and the owners, not from the
plan's own messages.
"""

from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
from naive import NaivePlan


@dataclass(frozen=True)
class PlanArrays:
    """The global matrix as triples (row, column, value), and the part of every vertex."""

    row: np.ndarray
    column: np.ndarray
    value: np.ndarray
    owner: np.ndarray
    num_parts: int

    def dense(self) -> np.ndarray:
        n = len(self.owner)
        result = np.zeros((n, n))
        result[self.row, self.column] = self.value
        return result


def read(path: Path) -> PlanArrays:
    with h5py.File(path, locking=False) as file:
        part_ptr, vertex = file["rows/part_ptr"][:], file["rows/global_id"][:]
        row_ptr, column = file["matrix/row_ptr"][:], file["matrix/column"][:]
        value = file["matrix/value"][:]
        recv_ptr, peer = file["expand/recv_ptr"][:], file["expand/recv_peer"][:]
        recv_row_ptr, recv_row = file["expand/recv_row_ptr"][:], file["expand/recv_row"][:]
    owner = np.empty(len(vertex), dtype=int)
    rows, columns = [], []
    for m in range(len(part_ptr) - 1):
        own = vertex[part_ptr[m] : part_ptr[m + 1]]
        owner[own] = m
        here = [own]
        for k in range(recv_ptr[m], recv_ptr[m + 1]):
            local = recv_row[recv_row_ptr[k] : recv_row_ptr[k + 1]]
            here.append(vertex[part_ptr[peer[k]] + local])
        vertex_of_column = np.concatenate(here)
        for r, v in enumerate(own, start=part_ptr[m]):
            used = column[row_ptr[r] : row_ptr[r + 1]]
            rows += [v] * len(used)
            columns += vertex_of_column[used].tolist()
    return PlanArrays(np.array(rows), np.array(columns), value, owner, len(part_ptr) - 1)


def naive_plan(arrays: PlanArrays, owner: np.ndarray, p: int) -> NaivePlan:
    """The row plan of these owners."""
    return NaivePlan(zip(arrays.row.tolist(), arrays.column.tolist(), strict=True), owner, p)


def parts(arrays: PlanArrays, owner: np.ndarray, p: int) -> dict[str, list[int]]:
    """What every part owns, sends and receives under these owners."""
    of = naive_plan(arrays, owner, p).per_part()
    return {name: each for name, each in of.items() if name != "copies" and "fold" not in name}


def metrics(arrays: PlanArrays, owner: np.ndarray, p: int) -> dict[str, float]:
    """The figures of `inspect`."""
    return naive_plan(arrays, owner, p).printed()


def random_owner(n: int, p: int) -> np.ndarray:
    """The even random partition that plans are compared with."""
    owner = np.arange(n) % p
    np.random.default_rng(1).shuffle(owner)
    return owner


def normalized(adjacency: np.ndarray, normalization: str, self_loops: bool) -> np.ndarray:
    """docs/reference/plan-format.md, section Header, in dense float64."""
    matrix = adjacency + np.eye(len(adjacency)) * self_loops
    degree = matrix.sum(axis=1)
    with np.errstate(divide="ignore"):
        if normalization == "row":
            return np.where(degree > 0, 1 / degree, 0)[:, None] * matrix
        if normalization == "sym":
            factor = np.where(degree > 0, degree**-0.5, 0)
            return factor[:, None] * matrix * factor
    return matrix
