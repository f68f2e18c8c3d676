"""The costs of Tripathy et al. 2020: formulas by hand, and what is executed, buffer by buffer."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise, product

import numpy as np
import pytest
from grid_words import executed, sum_of

from plancc.errors import InputError
from plancc.plan.grid import Grid
from plancc.predict.cagnet import Cost, published, published_memory, rectangular, total
from plancc.predict.schedule import Pairs
from plancc.predict.schedules import Tables, schedule_of

N, NNZ, F = 100, 1000, 10

# One layer of width F on N vertices: factors of alpha and beta, worked out by hand.
BY_HAND = [
    (Grid("1d", 16), "IV-A5", 4 + 32, 2 * 1000 + 100),
    (Grid("1.5d", 8, 2), "IV-B5", 2 * 4 * 2, 2 * 500 + 2 * 125),
    (Grid("2d", 4, 4), "IV-C5", 5 * 4 + 3 * 4, 8 * 250 + 2 * 250 + 100),
    (Grid("3d", 2, 2, 2), "IV-D5", 4 * 2, 2 * 250 + 12 * 250),
]


@pytest.mark.parametrize(("grid", "equation", "messages", "words"), BY_HAND, ids=str)
def test_totals_as_printed(grid, equation, messages, words):
    assert total(grid, N, NNZ, [F, F])[:3] == (equation, 0, "an epoch")
    assert total(grid, N, NNZ, [F, F])[3:] == pytest.approx((messages, words))
    assert total(grid, N, NNZ, [F] * 4)[3:] == pytest.approx((3 * messages, 3 * words))


@pytest.mark.parametrize("grid", [case[0] for case in BY_HAND], ids=str)
def test_sections_add_up_to_totals(grid):
    terms = published(grid, N, NNZ, [F, F, F])
    whole = Cost.of(terms)
    lg, rows = math.log2(grid.num_ranks), math.log2(grid.rows)
    left_out = {  # latency, words: per layer
        "1d": (0, 0),
        "1.5d": (rows, F * F),
        "2d": (0, 0),
        "3d": (2 * lg + lg + 3 * lg + 2 * lg, F * F),
    }[grid.scheme]
    expected = total(grid, N, NNZ, [F, F, F])
    assert whole.messages - 2 * left_out[0] == pytest.approx(expected.messages)
    assert whole.words - 2 * left_out[1] == pytest.approx(expected.words)


def test_equations_by_hand():
    def of(grid, equation, dims=(F, F)):
        return Cost.of(t for t in published(grid, N, NNZ, dims) if t.equation == equation)

    square, cube = Grid("2d", 4, 4), Grid("3d", 2, 2, 2)
    assert of(square, "IV-C1") == (8, 250 + 2 * 250)
    assert of(square, "IV-C2") == (4, 250)
    assert of(square, "IV-C3") == (12, 250 + 3 * 250)
    assert of(square, "IV-C4") == (8, 2 * 250 + 100)
    assert of(cube, "IV-D1") == (2 * (2 + 3), 250 + 4 * 250)
    assert of(cube, "IV-D2") == (3, 250)
    assert of(cube, "IV-D3") == (4 + 9, 250 + 5 * 250)
    assert of(cube, "IV-D4") == (6, 2 * 250 + 100)
    assert of(Grid("1.5d", 8, 2), "IV-B1") == (8, 500 + 125)
    assert of(Grid("1.5d", 8, 2), "IV-B4") == (3, 100)
    # widths of their own: forward the input's, back the output's
    assert of(Grid("1d", 16), "IV-A1", (7, 3)).words == 700
    assert of(Grid("1d", 16), "IV-A3", (7, 3)).words == 300
    assert of(Grid("1d", 16), "IV-A4", (7, 3)) == (4, 21)
    assert rectangular(2, 8, N, NNZ, F)[3:] == (2, 500 + 125 + 500)
    assert published_memory(Grid("1.5d", 8, 2), N, NNZ, [F, F, F]).total == pytest.approx(
        2 * 2 * 2000
    )
    assert published_memory(Grid("1.5d", 8, 2), N, NNZ, [F, F, F]).per_process == pytest.approx(500)
    assert published_memory(Grid("2d", 4, 4), N, NNZ, [9, 5, F]).total == NNZ + N * 15
    assert published_memory(cube, N, NNZ, [9, 5, F]).total == pytest.approx(NNZ + N * 5 + 2 * N * F)


@pytest.mark.parametrize(
    ("call", "grid"),
    [
        (published, Grid("2d", 2, 3)),
        (published, Grid("feature", 1, 4)),
        (total, Grid("3d", 2, 2, 3)),
        (published_memory, Grid("1d", 4, sparse=True)),
        (executed, Grid("1.5d", 4, 2, sparse=True)),
        (executed, Grid("2d", 4, 16)),
    ],
)
def test_what_has_no_formula(call, grid):
    with pytest.raises(InputError, match=f"grid '{grid}'"):
        call(grid, N, NNZ, [F, F])


# What is executed: who receives what, one buffer after the other.


class Counts:
    """Words and messages that every rank receives, and words that it reduces, by step."""

    def __init__(self):
        self.words, self.messages = Counter(), Counter()
        self.reduced, self.reductions = Counter(), Counter()

    def send(self, step, source, target, words):
        if source != target and words:
            self.words[step, target] += words
            self.messages[step, target] += 1

    def reduce(self, step, rank, words):
        self.reduced[step, rank] += words
        self.reductions[step, rank] += 1

    def of(self, step):
        return [
            sum(each for (name, _), each in counter.items() if name == step)
            for counter in (self.words, self.messages, self.reductions, self.reduced)
        ]

    def most(self, step):
        both = self.words + self.reduced
        return max((each for (name, _), each in both.items() if name == step), default=0)


def widths_that_travel(dims, order, constant):
    """Of every layer, forward and back."""
    found = []
    for layer, (d_in, d_out) in enumerate(pairwise(dims)):
        forward, back = d_in, d_out
        if order:
            forward = back = min(d_in, d_out)
            if layer == 0 and d_in <= d_out:  # A H^0 first: features need no gradient
                back = 0
        found.append((0, 0) if constant and layer == 0 else (forward, back))
    return found


def count_1d(grid, a, dims, widths):
    counts, size = Counts(), len(a) // grid.rows
    rows, copies = range(grid.rows), range(grid.columns)
    per_chunk = grid.rows / grid.columns
    for layer, (forward, back) in enumerate(widths, start=1):
        for part, i in product(rows, rows):
            j = int(part / per_chunk)  # the process column of the part's chunk
            counts.send((layer, "broadcast of H"), (part, j), (i, j), size * forward)
            counts.send((layer, "reduce of gradients"), (i, j), (part, j), size * back)
        for i, j in product(rows, copies):
            if grid.scheme == "1.5d" and forward:
                counts.reduce((layer, "all-reduce of A H"), (i, j), size * forward)
            at = (i, int(i / per_chunk))
            counts.send((layer, "broadcast to copies"), at, (i, j), size * back)
    return counts


def count_3d(grid, a, dims, widths):
    counts = Counts()
    number_of_rows, number_of_columns, layers = grid.rows, grid.columns, grid.layers
    n = len(a)
    block = n // number_of_rows  # rows of a process row, split over its layers
    share = block // layers
    pieces = math.lcm(number_of_rows, number_of_columns)
    everyone = list(product(range(number_of_rows), range(number_of_columns), range(layers)))

    def columns_of(layer):
        """Of A, in the order in which the process columns share them."""
        return np.concatenate(
            [np.arange(share) + i * block + layer * share for i in range(number_of_rows)]
        )

    def product_with_a(step, width, back):
        piece_width = width // number_of_columns
        for k, q in product(range(layers), range(pieces)):
            columns = np.array_split(columns_of(k), pieces)[q]
            column, row = q * number_of_columns // pieces, q * number_of_rows // pieces
            for i, j in product(range(number_of_rows), range(number_of_columns)):
                nonzeros = int(a[i * block : (i + 1) * block, columns].sum())
                for words in (nonzeros, nonzeros, block + 1):
                    of_a = (step[0], "broadcast of A", back)
                    counts.send(of_a, (i, column, k), (i, j, k), words)
                ends = [(row, j, k), (i, j, k)]
                counts.send(step, *(ends[::-1] if back else ends), len(columns) * piece_width)

    for layer, ((d_in, d_out), (forward, back)) in enumerate(
        zip(pairwise(dims), widths, strict=True), start=1
    ):
        if forward:
            product_with_a((layer, "broadcast of H"), forward, False)
        if back:
            product_with_a((layer, "reduce of gradients"), back, True)
        for (i, j, k), other in product(everyone, everyone):
            if other[:2] == (i, j):
                for step, width in (("reduce-scatter", forward), ("all-gather", back)):
                    words = share * width // number_of_columns
                    counts.send((layer, f"fiber {step}"), other, (i, j, k), words)
            if (other[0], other[2]) == (i, k):
                steps = [("rows for W", d_in), ("rows for W, back", d_out)]
                if layer == len(dims) - 1:
                    steps.append(("whole last rows", d_out))
                for step, width in steps:
                    words = share * width // number_of_columns
                    counts.send((layer, step), other, (i, j, k), words)
    return counts


GRIDS = [
    *(Grid("1d", 1), Grid("1d", 6), Grid("1.5d", 4, 1), Grid("1.5d", 4, 2), Grid("1.5d", 6, 2)),
    *(Grid("1.5d", 3, 3), Grid("2d", 1, 1), Grid("2d", 2, 2), Grid("2d", 3, 3), Grid("2d", 2, 3)),
    *(Grid("2d", 3, 2), Grid("2d", 4, 2), Grid("2d", 1, 3), Grid("2d", 3, 1)),
    *(Grid("3d", 2, 2, 2), Grid("3d", 3, 2, 2), Grid("3d", 2, 3, 1), Grid("3d", 1, 2, 3)),
]
DIMS = [[12, 6], [6, 12, 6], [24, 6, 6, 12]]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("passes", [(), ("order",), ("order", "constant")], ids=len)
def test_executed_is_what_is_counted(grid, passes):
    n = 36
    rng = np.random.default_rng(7)
    full, sparse = np.ones((n, n), bool), rng.random((n, n)) < 0.01
    for a, dims in product((full, sparse), DIMS):
        widths = widths_that_travel(dims, "order" in passes, "constant" in passes)
        of_grid = count_3d if grid.scheme in ("2d", "3d") else count_1d
        counts = of_grid(grid, a, dims, widths)
        steps = executed(grid, n, int(a.sum()), dims, passes, empty_pieces=num_empty(grid, a))
        names = {
            (s.layer, s.step, s.direction == "back")
            if s.step == "broadcast of A"
            else (s.layer, s.step)
            for s in steps
            if s.layer and s.words + s.words_reduced
        }
        assert names == {name for name, _ in (counts.words + counts.reduced)}
        for step in steps:
            name = (step.layer, step.step)
            if step.step == "broadcast of A":
                name = (*name, step.direction == "back")
            if step.layer == 0:
                weights = sum((d_in + 1) * d_out for d_in, d_out in pairwise(dims)) + 1
                assert step[4:] == (0, 0, grid.num_ranks, grid.num_ranks * weights, weights)
                continue
            expected = counts.of(name)
            assert list(step[4:8]) == expected, (name, step)
            if a is full:
                assert step.most == counts.most(name), (name, step)
        both = sum_of(steps)
        assert both.words == sum(counts.words.values())
        assert both.messages == sum(counts.messages.values())


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_schedules_move_the_same_whatever_the_sizes(grid):
    n, nnz, dims = 101, 2000, [13, 7, 8]
    rows, nonzeros = (
        np.diff(np.arange(grid.num_parts + 1) * number // grid.num_parts) for number in (n, nnz)
    )
    nobody = np.zeros(0, np.int32)
    none = Pairs(grid.num_parts, nobody, nobody, nobody.astype(np.int64))
    tables = Tables("sizes", "grid", rows, nonzeros, none, grid=grid)
    for passes in ((), ("order",), ("order", "constant")):
        counts = schedule_of(tables, dims, passes).counts()
        whole = sum_of(executed(grid, n, nnz, dims, passes))
        for sent in (counts.words_sent, counts.words_received):
            assert sent.sum() == whole.words
        assert counts.messages_sent.sum() == whole.messages
        assert counts.reductions.sum() == whole.reductions
        assert counts.words_reduced.sum() == whole.words_reduced


def num_empty(grid, a):
    """Pieces of A without nonzeros, by the columns that they have."""
    if grid.scheme not in ("2d", "3d"):
        return 0
    block = len(a) // grid.rows
    pieces = math.lcm(grid.rows, grid.columns)
    empty = 0
    for k in range(grid.layers):
        of_layer = np.flatnonzero(np.arange(len(a)) % block * grid.layers // block == k)
        for columns in np.array_split(of_layer, pieces):
            empty += sum(not rows[:, columns].any() for rows in np.array_split(a, grid.rows))
    return empty


# Which of the paper's terms a step is, and which share of its words the busiest rank receives.
Q = "(q - 1) / q"
TERMS = {
    "A": {
        "broadcast of H": ("broadcasts of H", "(P - 1) / P"),
        "reduce of gradients": ("broadcasts of G", "(P - 1) / P"),
    },
    "B": {
        "broadcast of H": ("broadcasts of H", "1"),
        "all-reduce of A H": ("all-reduce of A H", "1"),
        "reduce of gradients": ("broadcasts of G", "c - c / R"),
        "broadcast to copies": ("all-reduce of A G", "1"),
    },
    "C": {
        "broadcast of H": ("broadcasts of H", Q),
        "reduce of gradients": ("broadcasts of G", Q),
        "rows for W": ("partial SUMMA, A H", Q),
        "rows for W, back": ("partial SUMMA, A G", Q),
        "whole last rows": ("all-gather for sigma", Q),
    },
    "D": {
        "broadcast of H": ("broadcasts of H", Q),
        "reduce of gradients": ("broadcasts of G", Q),
        "fiber reduce-scatter": ("fiber reduction of A H", Q),
        "fiber all-gather": ("fiber reduction of A G", Q),
        "rows for W": ("partial Split-3D, A H", Q),
        "rows for W, back": ("partial Split-3D, A G", Q),
        "whole last rows": ("all-gather for sigma", Q),
    },
}
AVOIDED = {
    "A": [],
    "B": [],
    "C": ["all-gather for sigma", "all-gather for sigma'", "dense SUMMA"],
    "D": [
        *("all-gather for sigma", "all-gather for sigma'", "dense SUMMA"),
        *("its fiber reduction, A H", "its fiber reduction, A G"),
    ],
}


@pytest.mark.parametrize(
    "grid",
    [Grid("1d", 8), Grid("1.5d", 16, 4), Grid("2d", 16, 16), Grid("3d", 4, 4, 4)],
    ids=str,
)
def test_executed_steps_are_terms_of_the_paper(grid):
    n, nnz, dims = 2**12, 2**16, [64, 32, 16]
    left = {(t.equation, t.layer, t.what): t for t in published(grid, n, nnz, dims)}
    size = {"q": grid.rows, "P": grid.num_ranks, "R": grid.rows, "c": grid.columns}
    for step in executed(grid, n, nnz, dims, passes=()):
        section = step.equation[3]
        if step.layer == 0:
            whats = [key for key in left if key[2].endswith(" of Y")]
            words = sum(left.pop(key).words for key in whats)
            assert step.most == words + sum(dims[1:]) + 1  # the paper has no biases, nor the loss
            continue
        if step.step == "broadcast of A":
            term = left.pop((step.equation, step.layer, "broadcasts of A"))
            pointers = n + grid.rows
            share = (grid.rows - 1) / grid.rows
            assert step.most == pytest.approx(share * (2 * term.words + pointers))
            continue
        what, share = TERMS[section][step.step]
        term = left.pop((step.equation, step.layer, what))
        assert step.most == pytest.approx(eval(share, size) * term.words), step
    layers_of_sigma = {layer for _, layer, what in left if what == "all-gather for sigma"}
    assert layers_of_sigma == ({1} if grid.splits_columns else set())
    assert {what for _, _, what in left} == set(AVOIDED[section])


def test_executed_tends_to_the_paper():
    """Ever more ranks: what the paper's approximations drop goes to nothing."""
    n, dims = 2**20, [256, 256]
    for scheme, sides in (("1d", (4, 64, 1024)), ("2d", (2, 16, 256)), ("3d", (2, 16, 256))):
        gaps = []
        for side in sides:
            grid = Grid(scheme, side, *([side] * (int(scheme[0]) - 1)))
            kept = [t for t in published(grid, n, 0, dims) if not t.what.endswith(" of Y")]
            kept = [t for t in kept if t.what not in AVOIDED["D"][1:]]
            words = sum(
                s.most
                for s in executed(grid, n, 0, dims, ())
                if s.layer and s.step != "broadcast of A"
            )
            gaps.append(1 - words / Cost.of(kept).words)
        assert gaps == pytest.approx([1 / side for side in sides])
