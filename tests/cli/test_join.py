"""`plancc join`, and plans in pieces as the commands see them."""

import numpy as np
import pytest
from cli_helpers import fails, ok, plancc_run

import plancc
from plancc.plan.piece_writer import save_in_pieces
from plancc.plan.reader import load


@pytest.fixture
def head(tmp_path):
    """A plan in two pieces, alone in its folder."""
    row, column = np.random.default_rng(3).integers(0, 40, (2, 200))
    graph = plancc.as_graph((40, np.stack([row, column])))
    plan = plancc.compile(graph, "block", 6)
    (tmp_path / "plan").mkdir()
    save_in_pieces(plan, tmp_path / "plan/plan.h5", [0, 2, 6])
    return tmp_path / "plan/plan.h5"


def test_commands_read_pieces(head, tmp_path):
    one = tmp_path / "one.h5"
    assert "6 parts" in ok("inspect", head)
    assert "valid" in ok("verify", head)
    assert str(one) in ok("join", head, "-o", one)
    assert load(one).content_sha256() == load(head).content_sha256()
    assert load(one).provenance == load(head).provenance
    assert "6" in ok("compare", head, one)
    assert '"content_sha256"' in ok("join", head, "-o", tmp_path / "two.h5", "--json")
    done = plancc_run(head, "--ranks", 2, "--epochs", 1)
    assert done.code == 0, done.err


def test_what_cannot_be_joined(head, tmp_path):
    one, other = tmp_path / "one.h5", tmp_path / "other.h5"
    ok("join", head, "-o", one)
    assert fails(tmp_path, "join", one, "-o", other) == f"{one}: is in one file already"
    assert str(head) in fails(tmp_path, "join", head, "-o", head)
    assert "choose a name" in fails(tmp_path, "join", head, "-o", tmp_path / "x.mtx")
    assert "no such file" in fails(tmp_path, "join", tmp_path / "nope.h5", "-o", other)
    next(head.parent.glob("*/1.h5")).unlink()
    assert "piece 1 of 2 is missing" in fails(tmp_path, "join", head, "-o", other, code=1)
