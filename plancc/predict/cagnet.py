"""What an epoch on a process grid moves: as paper 001 has it, and as it is executed here.

Knows numbers only: n, nonzeros, widths d_0..d_L, a `Grid`; no plan, no machine. An epoch is one
forward pass, the loss and one backward pass. A *message* is what the paper multiplies with alpha,
a *word* what it multiplies with beta; lg is the logarithm to base 2.

`published` has the terms of Section IV as they are printed, per process. The text at hand is a
noisy copy; it is read so:

    IV-A5    "alpha lg P + 2P" is alpha (lg P + 2P): A1 and A3 have alpha P each, A4 alpha lg P
    IV-B1    alpha (P/c^2) lg(P/c^2), though A1 drops the factor lg P of a broadcast
    IV-C5    f^l stands for both widths of layer l; the terms here have the width that travels,
             so that sums agree where all layers are of one width
    IV-C6    alpha gcf(P_r, P_c), though Algorithm 3 needs lcm(P_r, P_c) stages of two broadcasts
    IV-B5    leaves out lg P latencies and f^2 words
    IV-D5    leaves out lg P latencies and, unsaid, f^2 words

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

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from plancc.errors import InputError
from plancc.plan.grid import Grid
from plancc.predict.passes import COMMON_PASSES, moved_widths

BUFFERS = 3
"""Of a broadcast piece of A: values, columns, row pointers; the first two may be empty."""


class Term(NamedTuple):
    """A term of the paper, per process and epoch.

    Attributes
    ----------
    equation : str
        Where it stands, such as "IV-A1".
    layer : int
        1..L; 0 for a sum over all layers.
    what : str
    messages : float
        The factor of alpha.
    words : float
        The factor of beta.
    """

    equation: str
    layer: int
    what: str
    messages: float
    words: float


class Cost(NamedTuple):
    """Factors of alpha and beta."""

    messages: float
    words: float

    @classmethod
    def of(cls, terms: Iterable[Term]) -> Cost:
        found = list(terms)
        return cls(sum(t.messages for t in found), sum(t.words for t in found))


def published(grid: Grid, n: int, nnz: int, dims: Sequence[int]) -> list[Term]:
    """The terms of paper 001, Sections IV-A to IV-D, per process and epoch.

    Parameters
    ----------
    grid : Grid
        1d, 1.5d, a square 2d, or a cubic 3d one.
    n, nnz : int
        Vertices, and nonzeros of A with its diagonal.
    dims : list of int
        Widths d_0..d_L; the paper's f^{l-1} and f^l in layer l.

    Raises
    ------
    InputError
        For a grid whose epoch the paper has no formula for; `rectangular` has what there is.
    """
    known = {"1d": _one, "1.5d": _one_and_a_half, "2d": _two, "3d": _three}
    sides = {grid.rows, grid.columns, *([grid.layers] if grid.scheme == "3d" else [])}
    if grid.sparse or grid.scheme not in known:
        raise InputError(f"grid '{grid}': paper 001 has no formula for it")
    if grid.scheme in ("2d", "3d") and len(sides) > 1:
        raise InputError(
            f"grid '{grid}': paper 001 has formulas for an epoch on square and cubic grids only"
        )
    return [
        term
        for layer, (f_in, f_out) in enumerate(pairwise(dims), start=1)
        for term in known[grid.scheme](grid, layer, n, nnz, f_in, f_out)
    ]


def _one(grid: Grid, layer: int, n: int, nnz: int, f_in: int, f_out: int) -> list[Term]:
    p = grid.num_ranks
    return [
        Term("IV-A1", layer, "broadcasts of H", p, n * f_in),
        Term("IV-A3", layer, "broadcasts of G", p, n * f_out),
        Term("IV-A4", layer, "all-reduce of Y", math.log2(p), f_in * f_out),
    ]


def _one_and_a_half(grid: Grid, layer: int, n: int, nnz: int, f_in: int, f_out: int) -> list[Term]:
    p, c = grid.num_ranks, grid.columns
    stages = p / c**2
    found = []
    for equation, name, f in (("IV-B1", "H", f_in), ("IV-B3", "G", f_out)):
        found += [
            Term(equation, layer, f"broadcasts of {name}", stages * math.log2(stages), n * f / c),
            Term(equation, layer, f"all-reduce of A {name}", 0, n * f * c / p),
        ]
    return [*found, Term("IV-B4", layer, "all-reduce of Y", math.log2(p / c), f_in * f_out)]


def _two(grid: Grid, layer: int, n: int, nnz: int, f_in: int, f_out: int) -> list[Term]:
    q, lg = grid.rows, math.log2(grid.num_ranks)
    return [
        Term("IV-C1", layer, "broadcasts of A", q, nnz / q),
        Term("IV-C1", layer, "broadcasts of H", q, n * f_in / q),
        Term("IV-C1", layer, "partial SUMMA, A H", 0, n * f_in / q),
        Term("IV-C2", layer, "all-gather for sigma", lg, n * f_out / q),
        Term("IV-C3", layer, "broadcasts of A", q, nnz / q),
        Term("IV-C3", layer, "broadcasts of G", q, n * f_out / q),
        Term("IV-C3", layer, "partial SUMMA, A G", 0, n * f_out / q),
        Term("IV-C3", layer, "all-gather for sigma'", lg, n * f_in / q),
        Term("IV-C4", layer, "dense SUMMA", q, n * (f_in + f_out) / q),
        Term("IV-C4", layer, "all-gather of Y", lg, f_in * f_out),
    ]


def _three(grid: Grid, layer: int, n: int, nnz: int, f_in: int, f_out: int) -> list[Term]:
    q, lg = grid.rows, math.log2(grid.num_ranks)
    found = []
    for equation, name, f, sigma, f_sigma in (
        ("IV-D1", "H", f_in, "", 0),
        ("IV-D3", "G", f_out, "'", f_in),
    ):
        found += [
            Term(equation, layer, "broadcasts of A", q, nnz / q**2),
            Term(equation, layer, f"broadcasts of {name}", 0, n * f / q**2),
            Term(equation, layer, f"fiber reduction of A {name}", lg, n * f / q**2),
            Term(equation, layer, f"partial Split-3D, A {name}", q, n * f / q**2),
            Term(equation, layer, f"its fiber reduction, A {name}", lg, n * f / q**2),
        ]
        if sigma:
            found.append(Term(equation, layer, "all-gather for sigma'", lg, n * f_sigma / q**2))
        else:
            found.append(Term("IV-D2", layer, "all-gather for sigma", lg, n * f_out / q**2))
    return [
        *found,
        Term("IV-D4", layer, "dense SUMMA", lg, n * (f_in + f_out) / q**2),
        Term("IV-D4", layer, "all-gather of Y", lg, f_in * f_out),
    ]


def total(grid: Grid, n: int, nnz: int, dims: Sequence[int]) -> Term:
    """The paper's sum over an epoch: IV-A5, IV-B5, IV-C5 or IV-D5, as printed.

    A5 and C5 are the sums of their sections, C5 with f^l for both widths. B5 leaves out
    lg P latencies and f^2 words, D5 latencies of lg P and, without a word of it, those f^2.

    Parameters and errors are those of `published`.
    """
    terms = published(grid, n, nnz, dims)
    layers, p = len(dims) - 1, grid.num_ranks
    match grid.scheme:
        case "1d":
            cost, name = Cost.of(terms), "IV-A5"
        case "1.5d":
            cost, name = Cost.of(t for t in terms if t.equation != "IV-B4"), "IV-B5"
        case "2d":
            q = grid.rows
            words = sum(8 * n * f / q + 2 * nnz / q + f**2 for f in dims[1:])
            cost, name = Cost(layers * (5 * q + 3 * math.log2(p)), words), "IV-C5"
        case _:
            q = grid.rows
            words = sum(2 * nnz / q**2 + 12 * n * f / q**2 for f in dims[1:])
            cost, name = Cost(layers * 4 * q, words), "IV-D5"
    return Term(name, 0, "an epoch", cost.messages, cost.words)


def rectangular(rows: int, columns: int, n: int, nnz: int, f: float) -> Term:
    """IV-C6: one forward layer on a P_r x P_c grid, per process."""
    words = nnz / rows + n * f / columns + n * f / rows
    return Term("IV-C6", 1, "forward", math.gcd(rows, columns), words)


class Held(NamedTuple):
    """Words of memory, as the paper counts them: a nonzero is one."""

    per_process: float
    total: float


def published_memory(grid: Grid, n: int, nnz: int, dims: Sequence[int]) -> Held:
    """Words that the paper says an algorithm holds.

    1.5d: IV-B5, the input replicated, ``L c (nnz + n f)`` in total, with f the mean of f^1..f^L.
    3d: the end of IV-D, ``nnz + sum of n f^l but the largest + cbrt(P) n f_max``. 1d and 2d: the
    optimum of IV-D, ``nnz + sum of n f^l``, which they are said to match.

    Raises
    ------
    InputError
        For grids that the paper does not have.
    """
    p = grid.num_ranks
    if grid.scheme == "feature" or grid.sparse:
        raise InputError(f"grid '{grid}': paper 001 has no formula for it")
    if grid.scheme == "1.5d":
        layers, f = len(dims) - 1, sum(dims[1:]) / (len(dims) - 1)
        per_process = layers * (nnz + n * f) / (p / grid.columns)
        return Held(per_process, per_process * p)
    words: float = nnz + n * sum(dims[1:])
    if grid.scheme == "3d":
        words += (p ** (1 / 3) - 1) * n * max(dims[1:])
    return Held(words / p, words)


class Moved(NamedTuple):
    """What a step of an epoch moves here, once in a layer and direction.

    Attributes
    ----------
    layer : int
        1..L; 0 for the all-reduce of the whole epoch.
    direction : str
        "forward" or "back".
    step : str
    equation : str
        The paper's equation that has it.
    words, messages : int
        Received by all ranks together; as many are sent.
    reductions, words_reduced : int
        All-reductions that all ranks take part in, and their words, added up over ranks.
    most : float
        Words, reduced ones included, received by the busiest rank of this step, where the sizes of
        blocks and slices are equal and nonzeros are spread evenly.
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
    grid: Grid,
    n: int,
    nnz: int,
    dims: Sequence[int],
    passes: Sequence[str] = COMMON_PASSES,
    empty_pieces: int = 0,
) -> list[Moved]:
    """What an epoch of a GCN without biases moves on a grid, step by step.

    Parameters
    ----------
    grid : Grid
        Of paper 001, not sparse: what needed rows are is no matter of sizes.
    n, nnz : int
        Rows and nonzeros of the matrix.
    dims : list of int
        Widths d_0..d_L.
    passes : list of str
        Of `COMMON_PASSES`: which widths travel (`plancc.predict.passes.moved_widths`).
    empty_pieces : int
        2d, 3d: pieces of A without nonzeros, of all process rows and layers; of them only row
        pointers travel.

    Raises
    ------
    InputError
        For sparse and feature grids; if a layer is narrower than the process columns.
    """
    if grid.sparse or grid.scheme == "feature":
        raise InputError(f"grid '{grid}': its words do not follow from sizes alone")
    for width in dims:
        grid.check_width(width)
    found: list[Moved] = []
    last = len(dims) - 1
    layers = list(enumerate(zip(pairwise(dims), moved_widths(dims, passes), strict=True), start=1))
    for layer, ((d_in, _), (width, _)) in layers:
        found += _product(grid, layer, n, nnz, width, empty_pieces, forward=True)
        found += _rows_for_weights(grid, layer, n, d_in, forward=True)
    if grid.splits_columns:
        found.append(_in_process_rows(grid, last, n, dims[-1], "forward", "whole last rows", "2"))
    for layer, ((_, d_out), (_, width)) in reversed(layers):
        found += _rows_for_weights(grid, layer, n, d_out, forward=False)
        found += _product(grid, layer, n, nnz, width, empty_pieces, forward=False)
    return [*found, *_weight_gradients(grid, dims)]


def sum_of(steps: Iterable[Moved]) -> Moved:
    """All of it in one: words, messages and reductions; `most` is the sum of the busiest ranks'."""
    steps = list(steps)
    return Moved(
        *(0, "", "epoch", ""),
        words=sum(s.words for s in steps),
        messages=sum(s.messages for s in steps),
        reductions=sum(s.reductions for s in steps),
        words_reduced=sum(s.words_reduced for s in steps),
        most=sum(s.most for s in steps),
    )


def _product(
    grid: Grid, layer: int, n: int, nnz: int, width: int, empty_pieces: int, *, forward: bool
) -> list[Moved]:
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
            most = n * width / columns if forward else (rows - 1) * n * width / rows
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
        full = BUFFERS * grid.layers * rows * pieces - 2 * empty_pieces
        found.append(
            Moved(
                *(layer, direction, "broadcast of A", f"IV-{section}{number}", words),
                messages=(columns - 1) * full,
                most=words / ranks,
            )
        )
    if grid.layers > 1:
        words = (grid.layers - 1) * n * width
        name = "fiber reduce-scatter" if forward else "fiber all-gather"
        messages = ranks * (grid.layers - 1)
        found.append(
            Moved(*(layer, direction, name, f"IV-D{number}", words, messages), most=words / ranks)
        )
    return found


def _copies(grid: Grid, layer: int, n: int, width: int, forward: bool) -> Moved:
    """Between the copies of 1.5d: sums of A H forward, the finished gradients back.

    A sum counts as a reduction for one copy too, though nothing travels.
    """
    rows, copies = grid.rows, grid.columns
    most = n * width / rows
    if forward:
        return Moved(
            *(layer, "forward", "all-reduce of A H", "IV-B1"),
            reductions=grid.num_ranks,
            words_reduced=copies * n * width,
            most=most,
        )
    words = (copies - 1) * n * width
    return Moved(
        *(layer, "back", "broadcast to copies", "IV-B3", words, (copies - 1) * rows), most=most
    )


def _rows_for_weights(grid: Grid, layer: int, n: int, width: int, *, forward: bool) -> list[Moved]:
    """Whole rows for the product with W, or with its transpose: the partial SUMMA."""
    if not grid.splits_columns:
        return []
    name, number = ("rows for W", "1") if forward else ("rows for W, back", "3")
    direction = "forward" if forward else "back"
    return [_in_process_rows(grid, layer, n, width, direction, name, number)]


def _in_process_rows(
    grid: Grid, layer: int, n: int, width: int, direction: str, name: str, number: str
) -> Moved:
    words = (grid.columns - 1) * n * width
    messages = grid.num_ranks * (grid.columns - 1)
    equation = f"IV-{_section(grid)}{number}"
    return Moved(layer, direction, name, equation, words, messages, most=words / grid.num_ranks)


def _weight_gradients(grid: Grid, dims: Sequence[int]) -> list[Moved]:
    """One all-reduce of all weight gradients and the loss."""
    if grid.num_ranks == 1:
        return []
    words = sum(d_in * d_out for d_in, d_out in pairwise(dims)) + 1
    return [
        Moved(
            *(0, "back", "weight gradients", f"IV-{_section(grid)}4"),
            reductions=grid.num_ranks,
            words_reduced=grid.num_ranks * words,
            most=words,
        )
    ]


def _section(grid: Grid) -> str:
    return {"1d": "A", "1.5d": "B", "2d": "C", "3d": "D"}[grid.scheme]
