"""What ranks tell each other before they work: errors, slices that do not fit; threads and MPI."""

from dataclasses import replace

import numpy as np
import pytest
import rank_tasks
import worlds
from cases import long

from plancc_runtime.transport.local import run_ranks

pytestmark = pytest.mark.mpi
RANKS = [
    *((3, "threads"), (2, "mpi")),
    *(pytest.param(p, "mpi", marks=long) for p in (3, 4)),
]


@pytest.fixture
def on_ranks(p, kind, ranks):
    """What a task answers on p ranks of a kind."""
    if kind == "mpi":
        return lambda task, *given, **named: ranks.call(p, task, *given, **named)
    return lambda task, *given, **named: run_ranks(p, lambda t: task(t, *given, **named), 180)


@pytest.mark.parametrize(("p", "kind"), RANKS)
def test_an_error_of_one_rank_is_raised_by_all(p, kind, on_ranks):
    last = p - 1
    same = "same" if p == 2 else f"ranks 0, {last}: same"
    for failing, said in (
        ({}, None),
        ({0: "Ino such file"}, ("InputError", "rank 0: no such file", True)),
        ({last: "Pbroken slice"}, ("PlanError", f"rank {last}: broken slice", True)),
        ({0: "Isame", last: "Isame"}, ("InputError", same, True)),
        ({0: "Pone", last: "Ianother"}, ("PlanError", f"rank 0: one; rank {last}: another", True)),
    ):
        assert on_ranks(rank_tasks.agreed, failing) == [said] * p


@pytest.mark.parametrize(("p", "kind"), RANKS)
def test_slices_that_do_not_fit_are_an_error_and_not_a_hang(p, kind, on_ranks):
    plan = worlds.plan("undirected", "row", p)
    parts = [plan.part(m) for m in range(p)]

    def said(*given):
        return on_ranks(rank_tasks.checked_slices, *given)

    assert said(parts, ["hash"] * p) == [None] * p
    other, names = ["hash"] * (p - 1) + ["x"], ["a.h5"] * (p - 1) + ["b.h5"]
    most = "rank 0" if p == 2 else f"ranks {', '.join(map(str, range(p - 1)))}"
    hashes = f"content hashes: {most}: hash; rank {p - 1}: x"
    files = f"content hashes and files: {most}: hash of a.h5; rank {p - 1}: x of b.h5"
    for paths, differ in ((), hashes), ((["same.h5"] * p,), hashes), ((names,), files):
        assert said(parts, other, *paths) == [f"the ranks opened different plans ({differ})"] * p
    expand = parts[1].expand
    kept = np.arange(expand.send.volume) < expand.send.volume - 1
    torn = replace(parts[1], expand=replace(expand, send=expand.send.keep(kept)))
    one_row_less = said([parts[0], torn, *parts[2:]], ["hash"] * p)
    assert one_row_less == [one_row_less[0]] * p
    assert "rank 1 sends" in one_row_less[0]
