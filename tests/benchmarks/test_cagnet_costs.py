"""The costs of Tripathy et al. 2020: formulas by hand, and what is executed, buffer by buffer."""

import math

import numpy as np
import pytest
from grid_words import executed, sum_of

from benchmarks.papers.cagnet import CagnetCost, published, published_memory, rectangular, total
from plancc.errors import InputError
from plancc.plan.grid import Grid
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
    whole = CagnetCost.of(terms)
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
        return CagnetCost.of(t for t in published(grid, N, NNZ, dims) if t.equation == equation)

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
        (published, Grid("1.5d", 5, 2)),
        (total, Grid("3d", 2, 2, 3)),
        (published_memory, Grid("1d", 4, sparse=True)),
        (executed, Grid("1.5d", 4, 2, sparse=True)),
        (executed, Grid("2d", 4, 16)),
    ],
)
def test_what_has_no_formula(call, grid):
    with pytest.raises(InputError, match=f"grid '{grid}'"):
        call(grid, N, NNZ, [F, F])


GRIDS = [
    *(Grid("1d", 1), Grid("1d", 6), Grid("1.5d", 4, 1), Grid("1.5d", 4, 2), Grid("1.5d", 6, 2)),
    *(Grid("1.5d", 5, 3), Grid("1.5d", 2, 3), Grid("1.5d", 9, 4)),
    *(Grid("1.5d", 3, 3), Grid("2d", 1, 1), Grid("2d", 2, 2), Grid("2d", 3, 3), Grid("2d", 2, 3)),
    *(Grid("2d", 3, 2), Grid("2d", 4, 2), Grid("2d", 1, 3), Grid("2d", 3, 1)),
    *(Grid("3d", 2, 2, 2), Grid("3d", 3, 2, 2), Grid("3d", 2, 3, 1), Grid("3d", 1, 2, 3)),
]


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
    "grid", [Grid("1d", 8), Grid("1.5d", 16, 4), Grid("2d", 16, 16), Grid("3d", 4, 4, 4)], ids=str
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
            gaps.append(1 - words / CagnetCost.of(kept).words)
        assert gaps == pytest.approx([1 / side for side in sides])
