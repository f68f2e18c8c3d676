"""Tables for predictions without a graph, from numbers of vertices and nonzeros.

All parts have equal sizes; halo rows are measured on plans of other graphs, or assumed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.plan.exchange import Int64Array
from plancc.plan.grid import Grid
from plancc.plan.reader import PlanFile
from plancc.plan.slices import check_tables
from plancc.predict.schedule import Pairs
from plancc.predict.schedules.tables import Tables, sends_rows


@dataclass(frozen=True)
class Boundary:
    """The number of halo rows per own row of a part, as a function of the number of parts p.

    Between two points and beyond the outer points, the logarithm of the number is linear in log p.

    Attributes:
        points: Ascending tuples: number of parts; halo rows per own row; parts from which a part
            receives. If the third is None, a part receives from all other parts or, if it has
            fewer halo rows, from one part for each of them.
        source: "assumed", or the names of the plans on which the points were measured.
    """

    points: tuple[tuple[int, float, float | None], ...]
    source: str = "assumed"

    @classmethod
    def parse(cls, text: str) -> Boundary:
        """Return the `Boundary` that a string such as "16:0.5,256:1.2" or "16:0.5:12" describes.

        Commas separate points. A point is a plan file to measure, or an item of `points`: 2 or 3
        numbers with colons. Raises InputError for another form, a negative or infinite number, or
        two points with the same number of parts.
        """
        points: list[tuple[int, float, float | None]] = []
        plans = []
        for word in filter(None, (word.strip() for word in text.split(","))):
            if word.endswith(".h5"):
                points.append(_measured(word))
                plans.append(word)
                continue
            try:
                parts, fraction, *peers = word.split(":")
                point = int(parts), float(fraction), float(peers[0]) if peers else None
                if len(peers) > 1 or not all(math.isfinite(x) for x in point if x is not None):
                    raise ValueError
            except (ValueError, OverflowError):
                point = 0, 0.0, None
            if point[0] < 1 or point[1] < 0 or (point[2] or 0) < 0:
                raise InputError(
                    f"`boundary` '{text}': '{word}' is not a plan file or PARTS:FRACTION; 16:0.5, "
                    "for example, gives each of 16 parts half as many halo rows as own rows"
                )
            points.append(point)
        points.sort(key=lambda point: point[0])
        if not points:
            raise InputError(f"`boundary` '{text}': is empty; give at least one PARTS:FRACTION")
        numbers = [point[0] for point in points]
        if len(set(numbers)) < len(numbers):
            raise InputError(f"`boundary` '{text}': gives a number of parts twice; drop a point")
        return cls(tuple(points), f"measured on {', '.join(plans)}" if plans else "assumed")

    def at(self, num_parts: int) -> tuple[float, float | None]:
        """Return halo rows per own row, and the number of parts from which a part receives rows.

        Both are interpolated between `points`. The second is None if any point lacks this number.
        """
        parts = [point[0] for point in self.points]
        fraction = _power_law(parts, [point[1] for point in self.points], num_parts)
        peers = [point[2] for point in self.points if point[2] is not None]
        if len(peers) < len(parts):
            return fraction, None
        return fraction, _power_law(parts, peers, num_parts)


def _power_law(parts: Sequence[int], values: Sequence[float], at: int) -> float:
    """Return the value at `at` of the power law through the two nearest points (parts, value).

    If one of the two values is 0, the value is a linear function of the logarithm of `at` instead.
    """
    if len(parts) == 1:
        return values[0]
    last = min(max(1, int(np.searchsorted(parts, at))), len(parts) - 1)
    x0, x1 = math.log(parts[last - 1]), math.log(parts[last])
    y0, y1 = values[last - 1], values[last]
    share = (math.log(at) - x0) / (x1 - x0)
    if y0 > 0 and y1 > 0:
        return math.exp(math.log(y0) + share * (math.log(y1) - math.log(y0)))
    return max(0.0, y0 + share * (y1 - y0))


def _measured(path: str) -> tuple[int, float, float | None]:
    with PlanFile(path) as file:
        file.check_content()
        check_tables(file)
        metrics = file.metrics()
        if metrics is None or file.header.layout == "edge":
            raise InputError(f"{path}: the file has no numbers of halo rows; give a row plan")
        return file.header.num_parts, metrics.boundary_ratio, metrics.average_messages


@dataclass(frozen=True)
class Sizes:
    """The numbers that replace a graph in a prediction.

    Attributes:
        vertices: Number of vertices.
        nonzeros: Number of nonzeros with the diagonal, at least `vertices`.
        boundary: Halo rows per own row (see `Boundary`), by label of a model. The key "" stands for
            all other models that exchange rows, except rp. Without an entry, rp has the halo rows
            of a random matrix in which all columns have the same number of nonzeros.
    """

    vertices: int
    nonzeros: int
    boundary: Mapping[str, Boundary] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.vertices < 1:
            raise InputError(f"`vertices` {self.vertices}: at least 1 is needed")
        if not self.vertices <= self.nonzeros <= self.vertices**2:
            raise InputError(
                f"`nonzeros` {self.nonzeros}: for {self.vertices} vertices choose from "
                f"{self.vertices} (the diagonal alone) to {self.vertices**2}"
            )


def tables_of_sizes(
    sizes: Sizes,
    name: str,
    num_parts: int,
    grid: Grid | None = None,
    boundary: Boundary | None = None,
) -> Tables:
    """Return `Tables` of equal parts; numbers of halo rows and messages are from `boundary`.

    Without `boundary`, the numbers are those of a random matrix.
    """
    tables = even_tables(name, sizes.vertices, sizes.nonzeros, num_parts, grid)
    if not sends_rows(grid):
        return tables
    fraction, peers = random_boundary(sizes.vertices, sizes.nonzeros, num_parts), None
    if boundary is not None:
        fraction, peers = boundary.at(num_parts)
    return replace(tables, expand=_even_pairs(tables.rows, fraction, peers))


def random_boundary(vertices: int, nonzeros: int, num_parts: int) -> float:
    """Return the expected number of halo rows per own row of a random partition.

    With p parts, and d = nonzeros / vertices - 1 nonzeros off the diagonal in a column, ``(p - 1)
    (1 - (1 - 1 / p)^d)`` other parts need a row. If d differs between columns, there are fewer halo
    rows.
    """
    degree = nonzeros / vertices - 1
    return (num_parts - 1) * (1 - (1 - 1 / num_parts) ** degree)


def even_tables(
    name: str,
    vertices: int,
    nonzeros: int,
    num_parts: int,
    grid: Grid | None = None,
    speeds: npt.NDArray[np.float64] | None = None,
) -> Tables:
    """Return `Tables` of parts without messages; sizes are equal, or proportional to `speeds`."""
    nobody = np.zeros(0, np.int32)
    return Tables(
        name=name,
        layout="row" if grid is None else grid.layout,
        rows=_shares(vertices, num_parts, speeds),
        nonzeros=_shares(nonzeros, num_parts, speeds),
        expand=Pairs(num_parts, nobody, nobody, np.zeros(0, np.int64)),
        grid=grid,
    )


def _shares(total: int, number: int, speeds: npt.NDArray[np.float64] | None = None) -> Int64Array:
    if speeds is None:
        return np.diff(np.arange(number + 1, dtype=np.int64) * total // number)
    ends = np.rint(total * (np.cumsum(speeds) / speeds.sum())).astype(np.int64)
    return np.diff(ends, prepend=0)


def _even_pairs(rows: Int64Array, fraction: float, peers: float | None) -> Pairs:
    """Return messages: `peers` (None: all) parts together send a part fraction * max(rows) rows."""
    num_parts = len(rows)
    halo = min(round(fraction * int(rows.max())), int(rows.sum() - rows.max()))
    number = num_parts - 1 if peers is None else min(num_parts - 1, max(1, round(peers)))
    number = min(number, halo)
    return ring(num_parts, _shares(halo, max(1, number))[:number])


def ring(num_parts: int, rows: Int64Array) -> Pairs:
    """Return messages in which every part receives ``rows[k]`` rows from its k-th peer.

    The peers of a part are at equal distances in a ring of all parts.
    """
    peers = len(rows)
    offsets = 1 + np.arange(peers, dtype=np.int64) * (num_parts - 1) // max(1, peers)
    target = np.repeat(np.arange(num_parts, dtype=np.int32), peers)
    source = ((target + np.tile(offsets, num_parts)) % num_parts).astype(np.int32)
    return Pairs(num_parts, source, target, np.tile(rows, num_parts))
