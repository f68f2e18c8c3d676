"""Results of long benchmarks: kept by sources, and after an interruption."""

import errno
import re

import pytest

from plancc.errors import OutputError
from plancc_lab.kept import Kept


def test_a_step_is_done_once(tmp_path):
    done = []

    def work():
        done.append(1)
        return {"seconds": 0.1 + 0.2}

    path = tmp_path / "kept.jsonl"
    first = Kept(path, "a").step(("graph", 4), work)
    again = Kept(path, "a")
    assert ("graph", 4) in again
    assert ("graph", 8) not in again
    assert again.step(("graph", 4), work) == first == {"seconds": 0.1 + 0.2}
    assert len(done) == 1


def test_other_sources_count_only_when_asked_to(tmp_path):
    path = tmp_path / "kept.jsonl"
    Kept(path, "old").put(("x",), 1)
    assert ("x",) not in Kept(path, "new")
    assert Kept(path, "new", any_sources=True).step(("x",), lambda: 2) == 1
    assert Kept(path, "new").step(("x",), lambda: 2) == 2
    assert Kept(path, "old").step(("x",), lambda: 3) == 1


def test_a_line_that_was_cut_short_is_done_again(tmp_path):
    path = tmp_path / "kept.jsonl"
    kept = Kept(path, "a")
    kept.put(("x",), 1)
    kept.put(("y",), 2)
    path.write_text(path.read_text()[:-9])
    again = Kept(path, "a")
    assert again.step(("x",), lambda: 5) == 1
    assert again.step(("y",), lambda: 6) == 6
    assert Kept(path, "a").step(("y",), lambda: 7) == 6


def test_a_step_that_fails_is_not_kept(tmp_path):
    def fails():
        raise RuntimeError("not today")

    kept = Kept(tmp_path / "kept.jsonl", "a")
    with pytest.raises(RuntimeError):
        kept.step(("x",), fails)
    assert kept.step(("x",), lambda: 1) == 1


def test_a_full_disk_is_told_by_the_file(tmp_path, monkeypatch):
    """Nothing empty is left there."""
    path = tmp_path / "kept.jsonl"

    def full(self, mode):
        self.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(type(path), "open", full)
    with pytest.raises(OutputError, match=re.escape(f"cannot write {path}: ")):
        Kept(path, "a").put(("x",), 1)
    assert not path.exists()
