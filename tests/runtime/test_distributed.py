"""What ranks tell each other before they work: errors, slices that do not fit."""

from dataclasses import replace

import numpy as np
import pytest
import worlds

from plancc.errors import InputError, PlanError
from plancc_runtime.slices import check_contents, check_slices
from plancc_runtime.transport.local import run_ranks

P = 3
SAID = {  # by failing ranks and what each says
    ("rank 0: no such file", InputError): {0: InputError("no such file")},
    ("rank 2: broken slice", PlanError): {2: PlanError("broken slice")},
    ("ranks 0, 2: same", InputError): {0: InputError("same"), 2: InputError("same")},
    ("rank 0: one; rank 2: another", PlanError): {0: PlanError("one"), 2: InputError("another")},
}


@pytest.mark.parametrize(("expected", "failing"), SAID.items(), ids=str)
def test_an_error_of_one_rank_is_raised_by_all(expected, failing):
    said, kind = expected

    def work(transport):
        with pytest.raises(kind) as caught:
            transport.agree(failing.get(transport.rank))
        assert caught.value is transport.agreed_error
        return str(caught.value)

    assert run_ranks(P, work) == [said] * P


def test_slices_that_do_not_fit_are_an_error_and_not_a_hang():
    plan = worlds.plan("undirected", "row", P)
    parts = [plan.part(m) for m in range(P)]

    def said(parts, contents, paths=None):
        def work(transport):
            rank = transport.rank
            try:
                check_contents(contents[rank], transport, *(paths[rank:][:1] if paths else ()))
                check_slices(parts[rank], transport)
            except PlanError as error:
                return str(error)
            return None

        return run_ranks(P, work)

    assert said(parts, ["hash"] * P) == [None] * P
    other, names = ["hash", "hash", "x"], ["a.h5", "a.h5", "b.h5"]
    hashes = "content hashes: ranks 0, 1: hash; rank 2: x"
    files = "content hashes and files: ranks 0, 1: hash of a.h5; rank 2: x of b.h5"
    for paths, differ in ((None, hashes), (["same.h5"] * P, hashes), (names, files)):
        assert said(parts, other, paths) == [f"the ranks opened different plans ({differ})"] * P
    expand = parts[1].expand
    kept = np.arange(expand.send.volume) < expand.send.volume - 1
    torn = replace(parts[1], expand=replace(expand, send=expand.send.keep(kept)))
    one_row_less = said([parts[0], torn, *parts[2:]], ["hash"] * P)
    assert one_row_less == [one_row_less[0]] * P
    assert "rank 1 sends" in one_row_less[0]
