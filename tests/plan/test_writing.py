"""When a plan cannot be written: one sentence, and nothing is left or lost."""

import os
import subprocess
import sys
from pathlib import Path

import h5py
import plan_helpers
import pytest
import sealing
from cases import long

from plancc.plan import writer
from plancc.plan.reader import load
from plancc.plan.verify import verify_file

SCRIPT = Path(__file__).with_name("write_failures.py")


def run(how, path, *numbers):
    done = subprocess.run(
        [sys.executable, SCRIPT, how, path, *map(str, numbers)],
        **{"capture_output": True, "text": True, "timeout": 200},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_no_room(tmp_path):
    """The plan takes about 110 kB; the process must end well too, which HDF5 makes hard.

    The old plan stays under both its names, until there is room for the new one.
    """
    plan, path, other = plan_helpers.rich_plan(), tmp_path / "plan.h5", tmp_path / "old.h5"
    plan.save(path)
    other.hardlink_to(path)
    sizes = (0, 1000, 20_000, 60_000, 100_000)
    sentence = f"cannot write {path}: the file would be larger than this system allows"
    said = run("limit", path, *sizes, 400_000)
    assert said == [sentence, "[] 2"] * len(sizes) + ["saved", "[] 1"]
    assert sorted(os.listdir(tmp_path)) == ["old.h5", "plan.h5"]
    plan_helpers.assert_equal(load(other), plan)
    assert 100_000 < path.stat().st_size < 400_000
    verify_file(path)


@pytest.mark.parametrize("number", [0, 7, 30])
def test_interrupted_before_a_dataset(tmp_path, number, monkeypatch):
    before, write = [], writer.write_array

    def stop(file, name, *rest):
        before.append(name)
        if len(before) > number:
            raise KeyboardInterrupt
        write(file, name, *rest)

    monkeypatch.setattr(writer, "write_array", stop)
    with pytest.raises(KeyboardInterrupt):
        plan_helpers.rich_plan().save(tmp_path / "plan.h5")
    assert os.listdir(tmp_path) == []


@long
@pytest.mark.parametrize("microseconds", [2000, 20_000, 60_000, 200_000])
def test_interrupted(tmp_path, microseconds):
    """Wherever Ctrl-C hits: the whole plan or nothing, and no temporary file."""
    [said] = run("interrupt", tmp_path / "plan.h5", microseconds)
    if said == "saved":
        assert os.listdir(tmp_path) == ["plan.h5"]
        verify_file(tmp_path / "plan.h5")
    else:
        assert said == "nothing"
        assert os.listdir(tmp_path) == []


def test_large_arrays_are_written_in_steps(tmp_path, monkeypatch):
    """More than one step for each dataset: the same content."""
    plan = plan_helpers.rich_plan()
    digest = plan.save(tmp_path / "plan.h5")
    monkeypatch.setattr("plancc.plan.writer.CHUNK_BYTES", 16)
    monkeypatch.setattr("plancc.plan.writer.CHUNKS_PER_WRITE", 3)
    assert plan.save(tmp_path / "steps.h5") == digest == sealing.content_hash(tmp_path / "steps.h5")
    plan.save(tmp_path / "small.h5", compress=True)
    with h5py.File(tmp_path / "small.h5", "r") as file:
        assert file["matrix/column"].chunks == (4,)
    plan_helpers.assert_equal(load(tmp_path / "steps.h5"), plan)
