"""Model ``file``: owners that the user gives."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.fields import option
from plancc.files import StrPath
from plancc.graph.graph import Graph, first_true
from plancc.graph.partvector import read_part_vector
from plancc.graph.rowids import warn_of_lines
from plancc.models.base import Model
from plancc.models.problem import Assignment, Problem
from plancc.models.weights import Balance, check_num_parts


@dataclass(frozen=True, eq=False)
class FileModel(Model):
    """Owners that the user gives, as a part vector in a file or an array.

    Attributes:
        part (path or int[num_vertices]): Part of every vertex, counted from 0.
    """

    competes: ClassVar[bool] = False
    swept: ClassVar[bool] = False
    follows_capacities: ClassVar[bool] = True
    on_ranks: ClassVar[bool] = True

    part: StrPath | npt.ArrayLike = option(
        "", "part vector, one number per line, or NAME.json of a DistDGL partition", metavar="FILE"
    )

    def check(self, graph: Graph, num_parts: int) -> None:
        self.build(graph, num_parts, balance="nnz", seed=0)
        warn_of_lines(graph, self.part)

    def build(self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int) -> Problem:
        """Return the given owners; raise InputError for a wrong length or wrong part numbers."""
        return Assignment(part_vector(self.part, matrix.num_vertices, num_parts))


def part_vector(
    part: StrPath | npt.ArrayLike, num_vertices: int, num_parts: int, least: int = 0
) -> npt.NDArray[np.int32]:
    """Read and check the part of every vertex, from a file or an array: int32[num_vertices].

    Part numbers are from `least` (-1 if a vertex may have no part) to ``num_parts - 1``.
    """
    n = num_vertices
    check_num_parts(n, num_parts)
    if isinstance(part, (str, os.PathLike)):
        if not os.fspath(part):
            raise InputError("model 'file' needs a part vector (`part`)")
        where = os.fspath(part)
        given = np.asarray(read_part_vector(part, n, least=least))
    else:
        where = "part vector"
        given = np.asarray(part)
    if given.shape != (n,):
        raise InputError(f"{where}: {given.size} part numbers for {n} vertices; give 1 per vertex")
    if given.dtype.kind not in "iu":
        raise InputError(f"{where}: part numbers must be integers, not {given.dtype}")
    if (vertex := first_true((given < least) | (given >= num_parts))) is not None:
        from_one = bool(least == 0 and given.min() == 1 and given.max() == num_parts)
        rule = f"the {num_parts} parts are numbered 0..{num_parts - 1}"
        rule += ": subtract 1 from each number" * from_one
        raise InputError(f"{where}: vertex {vertex} is in part {int(given[vertex])}; {rule}")
    return given.astype(np.int32)
