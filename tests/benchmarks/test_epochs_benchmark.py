"""The benchmark of epochs on a small graph, against the one rival that needs no environment."""

import re
import shutil

import pytest
from cases import long

from benchmarks.epoch_ranks import CLEAR
from benchmarks.epochs import Side, play, run
from benchmarks.inputs import BIN, Inputs


def test_rivals_that_are_slow_in_the_first_round_are_in_no_other():
    def side(name, rounds):
        return Side(name, lambda: (order.append(name), (next(rounds), [0.5]))[1])

    order = []
    slow = side("slow", iter([[9.0, 6.0, 7.0]]))
    quick = side("quick", iter([[3.0, 3.0, 5.0], [8.0, 20.0, 9.0]]))
    ours = side("ours", iter([[30.0], [31.0]]))
    play([slow, quick], [ours], rounds=2)
    assert order == ["slow", "quick", "ours", "quick", "ours"]
    assert (slow.seconds, quick.seconds, ours.seconds) == ([7.0], [3.0, 9.0], [30.0, 31.0])
    assert (slow.least, quick.least) == ([6.0], [3.0, 8.0])


@long
@pytest.mark.mpi
@pytest.mark.skipif(
    not (BIN / "mpirun").exists() and shutil.which("mpirun") is None, reason="no mpirun"
)
def test_a_quick_run_has_every_figure(tmp_path):
    report = run(Inputs(tmp_path, quick=True))
    notes = "\n".join(report.notes)
    for name in ("pyg-csr", "pyg-scatter", "dgl"):
        assert re.search(rf"^{name}: left out, \w+: its environment is not made yet$", notes, re.M)
    found = {figure.name.partition(": ")[2]: figure for figure in report.figures}
    losses = found.pop("losses differ by")
    assert losses.reached
    assert losses.value > 0  # float32 sums in other orders: not one run compared with itself
    targets = {
        "one rank / torch-csr, medians": 0.75,
        "one rank / torch-csr, minima": 0.75,
        "two ranks / one rank, medians": None,
        "two ranks / one rank, minima": None,
        "exchange / Isend, Irecv": 1.3,
        "expand / Isend, Irecv": None,
    }
    if CLEAR.exists():
        targets["peak memory, 2 ranks, measured / predicted"] = None
        targets["peak memory, 2 ranks, off by"] = 0.15
    assert {name: figure.target for name, figure in found.items()} == targets
    assert all(figure.value > 0 for figure in found.values())
