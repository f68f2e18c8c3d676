"""The benchmark of mini-batch steps, on small graphs."""

from __future__ import annotations

from benchmarks.inputs import Inputs
from benchmarks.minibatch_steps import run


def test_small_graphs_are_drawn_and_stepped(tmp_path):
    names = [figure.name for figure in run(Inputs(tmp_path, quick=True)).figures]
    drawing = [f"R-MAT {scale}: drawing" for scale in (8, 9, 10)]
    assert [name for name in names if name.endswith("drawing")] == drawing
