"""Pictures of a plan as arrays: the rows that parts send each other, and where the nonzeros are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from plancc.plan.exchange import Int64Array, Side
from plancc.plan.parts import PartRange
from plancc.plan.values import STEPS, Exchanges

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

CHUNK = 1 << 22
"""Number of nonzeros that are counted at a time."""
COLOUR = "#3a78ee"
"""The colour of pictures, which is visible on white and on dark pages."""
FAINTEST = 0.25
"""Opacity of the lowest value that is not 0."""


def ramp() -> Colormap:
    """Return a colour map from a faint to a full `COLOUR`, for light and for dark pages."""
    from matplotlib.colors import ListedColormap, to_rgba

    return ListedColormap([to_rgba(COLOUR, alpha) for alpha in np.linspace(FAINTEST, 1, 256)])


@dataclass(frozen=True, eq=False)
class Density:
    """A square matrix, reduced to a picture in which a pixel stands for some rows and columns.

    Attributes:
        counts (float64[pixels, pixels]): Sum of the entries in each pixel.
        size: Number of rows of the matrix.
        per_pixel: Number of rows, and of columns, of a pixel; the last pixel may have fewer.
    """

    counts: npt.NDArray[np.float64]
    size: int
    per_pixel: int


def per_pixel(size: int, most: int) -> int:
    """Return the number of rows per pixel with which `size` rows need at most `most` pixels."""
    return max(1, -(-size // most))


def volume_density(num_parts: int, sends: Iterable[Side], most: int) -> Density:
    """Return a picture of how many rows each part (row) sends to each part (column) in a product.

    The picture has at most `most` pixels in a row.
    """
    step = per_pixel(num_parts, most)
    side = per_pixel(num_parts, step)
    counts = np.zeros(side * side)
    for send in sends:
        sender = np.repeat(np.arange(num_parts) // step, np.diff(send.ptr))
        pixel = sender * side + send.peer // step
        counts += np.bincount(pixel, np.diff(send.row_ptr), side * side)
    return Density(counts.reshape(side, side), num_parts, step)


def send_tables(exchanges: Exchanges) -> list[Side]:
    """Return tables of the rows that parts send: in the expand and, if it exists, in the fold."""
    return [exchanges[step].send for step in STEPS if step in exchanges]


def heaviest_pairs(num_parts: int, sends: Iterable[Side], count: int) -> list[tuple[int, int, int]]:
    """Return the `count` largest (sender, receiver, number of rows), in descending order."""
    volumes = sum(
        (
            sp.csr_array((np.diff(send.row_ptr), send.peer, send.ptr), shape=(num_parts, num_parts))
            for send in sends
        ),
        sp.csr_array((num_parts, num_parts), dtype=np.int64),
    ).tocoo()
    first = np.lexsort((volumes.col, volumes.row, -volumes.data))[:count]
    pairs = zip(volumes.row[first], volumes.col[first], volumes.data[first], strict=True)
    return [(int(sender), int(receiver), int(rows)) for sender, receiver, rows in pairs]


@dataclass(frozen=True, eq=False)
class MatrixPictures:
    """The nonzeros of a plan's matrix, in two orders of the vertices.

    Attributes:
        before, after: Nonzeros in the order of the source, and in plan order, part by part.
        part_ptr (int64[num_parts + 1]): The first row of every part in plan order.
        inside: Number of nonzeros whose row and column have the same owner.
    """

    before: Density
    after: Density
    part_ptr: Int64Array
    inside: int
    total: int


def matrix_pictures(parts: PartRange, most: int) -> MatrixPictures:
    """Return pictures of the nonzeros of all parts, at most `most` pixels wide."""
    size, row_ptr = len(parts.global_id), parts.row_ptr
    step = per_pixel(size, most)
    side = per_pixel(size, step)
    local_row, column_place = parts.place_of_rows(), parts.place_of_columns()
    part = np.repeat(np.arange(parts.last, dtype=np.int32), np.diff(parts.part_ptr))
    pixel = {"before": (parts.global_id // step).astype(np.int64), "after": np.arange(size) // step}
    counts = {name: np.zeros(side * side) for name in pixel}
    inside = 0
    local_rows = np.arange(len(local_row))
    # chunks of whole local rows, each of about CHUNK nonzeros
    ends = np.searchsorted(row_ptr, np.arange(CHUNK, row_ptr[-1] + CHUNK, CHUNK))
    first = 0
    for last in np.minimum(ends, len(local_row)).tolist():
        nonzeros = np.diff(row_ptr[first : last + 1])
        rows = local_row[np.repeat(local_rows[first:last], nonzeros)]
        columns = column_place[row_ptr[first] : row_ptr[last]]
        inside += int((part[rows] == part[columns]).sum())
        for name, of_place in pixel.items():
            places = of_place[rows] * side + of_place[columns]
            counts[name] += np.bincount(places, minlength=side * side)
        first = last
    before, after = (Density(c.reshape(side, side), size, step) for c in counts.values())
    return MatrixPictures(before, after, parts.part_ptr, inside, int(row_ptr[-1]))
