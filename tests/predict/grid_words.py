"""Closed forms of what an epoch on a process grid sends, as a count beside the schedules'.

`executed` has what the layouts send, over all ranks, exactly: words for all sizes, messages where
no piece of H is empty. P ranks, R process rows, C columns (c: copies of 1.5d), K layers as in
`plancc.plan.grid`; w is the width that travels, which the passes of `plancc.predict.passes` make
smaller; S = lcm(R, C); q is the side of a square or a cube. The last column is what the busiest
rank receives, as a share of the paper's term:

    =====  ======================  ==============================  ======  =============
    grid   step                    words over all ranks            IV-     share
    =====  ======================  ==============================  ======  =============
    1d     broadcast of H          (P - 1) n w                     A1      (P - 1) / P
           reduce of gradients     (P - 1) n w                     A3      (P - 1) / P
    1.5d   broadcast of H          (R - 1) n w                     B1      1
           all-reduce of A H       c n w, reduced                  B1      1
           reduce of gradients     (R - 1) n w                     B3      c - c / R
           broadcast to copies     (c - 1) n w                     B3      1
    2d     broadcast of A          (C - 1) (2 nnz + S (n + R))     C1, C3  see below
           broadcast of H          (R - 1) n w                     C1      (q - 1) / q
           reduce of gradients     (R - 1) n w                     C3      (q - 1) / q
           rows for W              (C - 1) n d_in                  C1      (q - 1) / q
           rows for W, back        (C - 1) n d_out                 C3      (q - 1) / q
           whole last rows         (C - 1) n d_L                   C2      (q - 1) / q
    3d     broadcast of A          (C - 1) (2 nnz + K S (n + R))   D1, D3  see below
           fiber reduce-scatter    (K - 1) n w                     D1      (q - 1) / q
           fiber all-gather        (K - 1) n w                     D3      (q - 1) / q
           the others as in 2d                                     D1..D3  (q - 1) / q
    all    weight gradients        P (sum of d_in d_out + 1)       A4..D4  1
    =====  ======================  ==============================  ======  =============

*A.* The paper counts one word per nonzero. A broadcast piece of CSR has two, and rows + 1 row
pointers, which the paper forgets: a rank receives (q - 1) / q of 2 nnz / q + n + q words (3d:
2 nnz / q^2 + n + q), and the n words do not shrink however large q is. *1.5d.* Forward every rank
receives the rows of its chunk; back, one copy of a part receives the gradients of all R - 1 others
for its own rows, which is c times the paper's term at that rank and the same in total; the sum
needs no all-reduce then, but a broadcast to the other copies. *Weights.* All layers' gradients and
the loss are one all-reduce.

Not executed: the all-gather for sigma of hidden layers and for sigma' (C2, C3, D2, D3), since
activations are element-wise; the dense SUMMA of C4 and D4, 2 n f / q words (3d: / q^2), since the
adjoint of the partial SUMMA has gathered whole rows of the gradient, with which a rank makes its
rows of the weight gradient; the fiber reduction of the partial product in D1 and D3, since W is
replicated and whole rows need no other layer; the products of a first layer that is constant. The
lg factors of collectives are not counted, as `Transport.traffic` does not: what has to arrive
counts, however it is routed.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from predict_helpers import widths_of

from plancc.errors import InputError
from plancc.plan.grid import Grid
from plancc.predict.passes import COMMON_PASSES

BUFFERS = 3
"""Buffers of a broadcast piece of A: values, columns, row pointers."""


class Moved(NamedTuple):
    """What a step of an epoch moves here, once in a layer (0: the whole epoch) and direction.

    Words and messages are received by all ranks together; as many are sent. `reductions` are those
    that all ranks take part in. `most` are the words that the busiest rank receives, reduced ones
    included, where blocks and slices are of one size and nonzeros are spread evenly.
    """

    layer: int
    direction: str
    step: str
    equation: str
    words: int = 0
    messages: int = 0
    reductions: int = 0
    words_reduced: int = 0
    most: float = 0.0


def executed(
    grid: Grid, n: int, nnz: int, dims: Sequence[int], passes: Sequence[str] = COMMON_PASSES
) -> list[Moved]:
    """What an epoch of a GCN moves on a grid, which is not sparse, step by step.

    n, nnz: rows and nonzeros of the matrix; dims: widths d_0..d_L; passes: of `COMMON_PASSES`.
    """
    if grid.sparse or grid.scheme == "feature":
        raise InputError(f"grid '{grid}': its words do not follow from sizes alone")
    for width in dims:
        grid.check_width(width)
    found: list[Moved] = []
    last = len(dims) - 1
    layers = list(enumerate(zip(pairwise(dims), widths_of(dims, passes), strict=True), start=1))
    for layer, ((d_in, _), (width, _)) in layers:
        found += _product(grid, layer, n, nnz, width, forward=True)
        found += _rows_for_weights(grid, layer, n, d_in, forward=True)
    if grid.splits_columns:
        found.append(_in_process_rows(grid, last, n, dims[-1], "forward", "whole last rows", "2"))
    for layer, ((_, d_out), (_, width)) in reversed(layers):
        found += _rows_for_weights(grid, layer, n, d_out, forward=False)
        found += _product(grid, layer, n, nnz, width, forward=False)
    return [*found, *_weight_gradients(grid, dims)]


def sum_of(steps: Iterable[Moved]) -> Moved:
    """All of it in one: words, messages and reductions; `most` is the sum of the busiest ranks'."""
    steps = list(steps)
    numbers = zip(*(step[4:] for step in steps), strict=True)
    return Moved(0, "", "epoch", "", *map(sum, numbers))


def _product(grid: Grid, layer: int, n: int, nnz: int, width: int, *, forward: bool) -> list[Moved]:
    """A H, or its adjoint, of `width` columns; 0: there is none."""
    if width == 0:
        return []
    direction = "forward" if forward else "back"
    number = "1" if forward else "3"
    rows, columns, ranks = grid.rows, grid.columns, grid.num_ranks
    name = "broadcast of H" if forward else "reduce of gradients"
    section = _section(grid)
    along = Moved(layer, direction, name, f"IV-{section}{number}", (rows - 1) * n * width)
    if grid.scheme in ("1d", "1.5d"):
        most = along.words / ranks
        if columns > 1:
            chunk = math.ceil(rows / columns) / rows  # the largest
            most = chunk * n * width if forward else (rows - 1) * n * width / rows
        along = along._replace(messages=(rows - 1) * rows, most=most)
        if grid.scheme == "1d" or (columns == 1 and not forward):
            return [along]
        return [along, _copies(grid, layer, n, width, forward)]
    pieces = math.lcm(rows, columns)
    along = along._replace(
        messages=(rows - 1) * columns * pieces * grid.layers, most=along.words / ranks
    )
    found = [along] if rows > 1 else []
    if columns > 1:
        words = (columns - 1) * (2 * nnz + grid.layers * pieces * (n + rows))
        messages = (columns - 1) * BUFFERS * grid.layers * rows * pieces
        name, equation = "broadcast of A", f"IV-{section}{number}"
        found.append(Moved(layer, direction, name, equation, words, messages, most=words / ranks))
    if grid.layers > 1:
        words = (grid.layers - 1) * n * width
        name = "fiber reduce-scatter" if forward else "fiber all-gather"
        messages = ranks * (grid.layers - 1)
        found.append(
            Moved(layer, direction, name, f"IV-D{number}", words, messages, most=words / ranks)
        )
    return found


def _copies(grid: Grid, layer: int, n: int, width: int, forward: bool) -> Moved:
    """Between the copies of 1.5d: sums of A H forward, the finished gradients back.

    A sum counts as a reduction for one copy too, though nothing travels.
    """
    rows, copies = grid.rows, grid.columns
    most = n * width / rows
    if forward:
        reduced = {"reductions": grid.num_ranks, "words_reduced": copies * n * width}
        return Moved(layer, "forward", "all-reduce of A H", "IV-B1", **reduced, most=most)
    words = (copies - 1) * n * width
    return Moved(
        layer, "back", "broadcast to copies", "IV-B3", words, (copies - 1) * rows, most=most
    )


def _rows_for_weights(grid: Grid, layer: int, n: int, width: int, *, forward: bool) -> list[Moved]:
    """Whole rows for the product with W, or with its transpose: the partial SUMMA."""
    if not grid.splits_columns:
        return []
    words = ("forward", "rows for W", "1") if forward else ("back", "rows for W, back", "3")
    return [_in_process_rows(grid, layer, n, width, *words)]


def _in_process_rows(
    grid: Grid, layer: int, n: int, width: int, direction: str, name: str, number: str
) -> Moved:
    words = (grid.columns - 1) * n * width
    messages = grid.num_ranks * (grid.columns - 1)
    equation = f"IV-{_section(grid)}{number}"
    return Moved(layer, direction, name, equation, words, messages, most=words / grid.num_ranks)


def _weight_gradients(grid: Grid, dims: Sequence[int]) -> list[Moved]:
    """One all-reduce of the gradients of all weights and biases, and the loss."""
    if grid.num_ranks == 1:
        return []
    words = sum((d_in + 1) * d_out for d_in, d_out in pairwise(dims)) + 1
    reduced = {"reductions": grid.num_ranks, "words_reduced": grid.num_ranks * words}
    return [Moved(0, "back", "weight gradients", f"IV-{_section(grid)}4", **reduced, most=words)]


def _section(grid: Grid) -> str:
    return {"1d": "A", "1.5d": "B", "2d": "C", "3d": "D"}[grid.scheme]
