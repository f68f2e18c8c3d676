"""Partitioners that crash, hang or lie become one clear sentence."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from plancc.errors import BackendError, BackendUnavailable, InputError
from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.options import PartitionOptions
from plancc.partitioners.run import partition, partitions

FAULTS = ("crash", "sleep", "garbage", "too_short", "lazy", "words", "chatty", "one_part", "raises",
          "refuses", "exits", "silent", "missing")  # fmt: skip
RING = Hypergraph(
    np.arange(0, 41, 2, dtype=np.int64),
    np.sort(np.stack([np.arange(20), (np.arange(20) + 1) % 20], axis=1))
    .reshape(-1)
    .astype(np.int32),
    np.ones(20, dtype=np.int64),
)


@pytest.fixture(autouse=True)
def faulty_partitioners(monkeypatch):
    for name in FAULTS:
        target = f"faulty_partitioners:{name.upper()}"
        monkeypatch.setitem(PARTITIONERS._targets, name, target)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("crash", r"crash crashed \(SIGABRT\): assertion of a native library failed; .*py, line"),
        ("garbage", r"garbage gave a wrong answer: part numbers 4\.\.4 instead of 0\.\.3"),
        ("too_short", r"instead of 20 part numbers"),
        ("words", r"wrong answer"),
        ("raises", r"raises failed \(exit status 1\): ValueError: the library did not like it"),
        ("exits", r"exits failed \(exit status 7\): giving up;"),
        ("silent", r"silent ended without an answer"),
    ],
)
def test_failure_is_one_sentence(name, words):
    with pytest.raises(BackendError, match=words) as error:
        partition(RING, 4, PartitionOptions(name))
    assert "\n" not in str(error.value)


def test_every_seed_has_an_answer():
    assert len(partitions(RING, 4, [1], PartitionOptions("lazy"))) == 1
    with pytest.raises(
        BackendError, match=r"lazy gave a wrong answer: .* every seed; look at .*py, line"
    ):
        partitions(RING, 4, [1, 2], PartitionOptions("lazy"))


def test_endless_run_is_stopped():
    start = time.perf_counter()
    with pytest.raises(BackendError, match="sleep was stopped after 1 s"):
        partition(RING, 4, PartitionOptions("sleep", time_limit=1))
    assert time.perf_counter() - start < 120  # it sleeps for 600 s


def test_adapter_raises_in_our_words():
    with pytest.raises(InputError, match=r"^this preset cannot do that$"):
        partition(RING, 4, PartitionOptions("refuses"))


def test_output_of_a_library_does_not_reach_stdout(capfd):
    result = partition(RING, 4, PartitionOptions("chatty"))
    assert result.owner.tolist() == [v % 4 for v in range(20)]
    assert capfd.readouterr() == ("", "")


def test_empty_parts_are_filled_with_a_warning():
    result = partition(RING, 4, PartitionOptions("one_part"))
    assert sorted(np.bincount(result.owner)) == [1, 1, 1, 17]
    assert "3 of 4 parts empty" in result.warnings[0]
    assert "imbalance 2.4" in result.warnings[1]


def test_missing_library():
    with pytest.raises(BackendUnavailable, match="'missing' is not installed: pip install no_such"):
        partition(RING, 4, PartitionOptions("missing"))


def test_auto_goes_on_to_the_next_one():
    result = partition(RING, 4)  # the faulty ones have the largest ranks
    assert result.partitioner == "builtin"
    assert "missing is not installed" in result.warnings[0]
    assert "crash crashed (SIGABRT)" in result.warnings[1]
    with pytest.raises(BackendError, match="crash crashed"):
        partition(RING, 4, PartitionOptions("crash"))


SCRIPT = """
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.options import PartitionOptions
from plancc.partitioners.run import partition
import test_faults
PARTITIONERS._targets["sleep"] = "faulty_partitioners:SLEEP"
try:
    partition(test_faults.RING, 4, PartitionOptions("sleep"))
except KeyboardInterrupt:
    raise SystemExit(130)
"""


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_child_ends_with_its_parent(tmp_path, sent):
    pid_file, temporary = tmp_path / "pid", tmp_path / "tmp"
    temporary.mkdir()
    # Not a __main__ guard in sight: user scripts lack one too.
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = os.environ | {
        "PLANCC_TEST_PID_FILE": str(pid_file),
        "TMPDIR": str(temporary),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)]),
    }
    parent = subprocess.Popen(
        [sys.executable, str(script)],
        env=environment,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        deadline = time.monotonic() + 240
        while not (pid_file.exists() and pid_file.read_text().endswith("\n")):
            assert time.monotonic() < deadline
            assert parent.poll() is None
            time.sleep(0.05)
        child = int(pid_file.read_text())
        assert _alive(child)
        parent.send_signal(sent)
        _, stderr = parent.communicate(timeout=120)
        deadline = time.monotonic() + 120
        while _alive(child):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        parent.kill()
    assert b"Traceback" not in stderr
    if sent == signal.SIGINT:
        assert parent.returncode == 130
        assert list(temporary.iterdir()) == []


def test_a_search_that_may_stop_waits_for_large_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is larger than a pipe holds, and questions come before the child is up."""
    from plancc.partitioners import process

    monkeypatch.setattr(process, "ASK_SECONDS", 0.005)
    n = 60_000
    path = np.arange(n, dtype=np.int32)
    indices = np.stack([np.maximum(path - 1, 0), np.minimum(path + 1, n - 1)], axis=1)
    indices = indices.reshape(-1)[1:-1]
    indptr = np.clip(2 * np.arange(n + 1, dtype=np.int64) - 1, 0, len(indices))
    graph = WeightedGraph(indptr, indices, np.ones(n, dtype=np.int64))
    asked = []
    result = partition(
        graph, 4, PartitionOptions("metis", time_limit=300), stop=lambda: bool(asked.append(1))
    )
    assert asked
    assert np.bincount(result.owner).max() <= 1.02 * n / 4
    with pytest.raises(BackendError, match="metis was stopped"):
        partition(graph, 4, PartitionOptions("metis"), stop=lambda: True)
