"""What an epoch on a process grid moves, as Tripathy et al. 2020 have it; terms, totals and memory.

An epoch is one forward pass, the loss and one backward pass. A *message* is what the paper
multiplies with alpha, a *word* what it multiplies with beta; lg is the logarithm to base 2.

`published` has the terms of Section IV as they are printed, per process. The text at hand is a
noisy copy; it is read so:

    IV-A5    "alpha lg P + 2P" is alpha (lg P + 2P): A1 and A3 have alpha P each, A4 alpha lg P
    IV-B1    alpha (P/c^2) lg(P/c^2), though A1 drops the factor lg P of a broadcast
    IV-C5    f^l stands for both widths of layer l; the terms here have the width that travels,
             so that sums agree where all layers are of one width
    IV-C6    alpha gcf(P_r, P_c), though Algorithm 3 needs lcm(P_r, P_c) stages of two broadcasts
    IV-B5    leaves out lg P latencies and f^2 words
    IV-D5    leaves out lg P latencies and, unsaid, f^2 words
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from plancc.errors import InputError
from plancc.plan.grid import Grid


class Term(NamedTuple):
    """A term of the paper, per process and epoch.

    Attributes:
        equation: Where it stands, such as "IV-A1".
        layer: 1..L; 0 for a sum over all layers.
        messages: The factor of alpha.
        words: The factor of beta.
    """

    equation: str
    layer: int
    what: str
    messages: float
    words: float


class CagnetCost(NamedTuple):
    """Factors of alpha and beta."""

    messages: float
    words: float

    @classmethod
    def of(cls, terms: Iterable[Term]) -> CagnetCost:
        found = list(terms)
        return cls(sum(t.messages for t in found), sum(t.words for t in found))


def published(grid: Grid, n: int, nnz: int, dims: Sequence[int]) -> list[Term]:
    """The terms of Tripathy et al. 2020, Sections IV-A to IV-D, per process and epoch.

    Parameters:
        grid: 1d, 1.5d of c that divides P / c, a square 2d, or a cubic 3d one.
        n, nnz: Vertices, and nonzeros of A with its diagonal.
        dims: Widths d_0..d_L; the paper's f^{l-1} and f^l in layer l.

    Raises:
        InputError: For a grid whose epoch the paper has no formula for; `rectangular` has what
            there is.
    """
    known = {"1d": _one, "1.5d": _one_and_a_half, "2d": _two, "3d": _three}
    sides = {grid.rows, grid.columns, *([grid.layers] if grid.scheme == "3d" else [])}
    uneven = grid.scheme == "1.5d" and grid.rows % grid.columns > 0
    if grid.sparse or uneven or grid.scheme not in known:
        raise InputError(f"grid '{grid}': Tripathy et al. 2020 have no formula for it")
    if grid.scheme in ("2d", "3d") and len(sides) > 1:
        raise InputError(
            f"grid '{grid}': Tripathy et al. 2020 give formulas for square and cubic grids only"
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
            cost, name = CagnetCost.of(terms), "IV-A5"
        case "1.5d":
            cost, name = CagnetCost.of(t for t in terms if t.equation != "IV-B4"), "IV-B5"
        case "2d":
            q = grid.rows
            words = sum(8 * n * f / q + 2 * nnz / q + f**2 for f in dims[1:])
            cost, name = CagnetCost(layers * (5 * q + 3 * math.log2(p)), words), "IV-C5"
        case _:
            q = grid.rows
            words = sum(2 * nnz / q**2 + 12 * n * f / q**2 for f in dims[1:])
            cost, name = CagnetCost(layers * 4 * q, words), "IV-D5"
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

    Raises:
        InputError: For grids that the paper does not have.
    """
    p = grid.num_ranks
    if grid.scheme == "feature" or grid.sparse:
        raise InputError(f"grid '{grid}': Tripathy et al. 2020 have no formula for it")
    if grid.scheme == "1.5d":
        layers, f = len(dims) - 1, sum(dims[1:]) / (len(dims) - 1)
        per_process = layers * (nnz + n * f) / (p / grid.columns)
        return Held(per_process, per_process * p)
    words: float = nnz + n * sum(dims[1:])
    if grid.scheme == "3d":
        words += (p ** (1 / 3) - 1) * n * max(dims[1:])
    return Held(words / p, words)
