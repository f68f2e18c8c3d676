"""What only a real process shows: full disks, signals, closed pipes, terminals, a quick start."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from cases import long
from cli_helpers import Outcome, family, ok, plancc, plancc_run, run, start

INTERRUPTED = "plancc: error: interrupted; nothing was written\n"
needs_proc = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no /proc")


@pytest.fixture(scope="module")
def middling(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph whose search says several times how far it is."""
    path = tmp_path_factory.mktemp("middling") / "middling.mtx"
    ok("dataset", "rmat", "--scale", 11, "-o", path)
    return path


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph that keeps a partitioner busy for ten seconds."""
    path = tmp_path_factory.mktemp("big") / "big.mtx"
    ok("dataset", "rmat", "--scale", 13, "-o", path)
    return path


# -- full disks ------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("may not mount a small disk here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_full_disk(small_disk: Path, graph: Path, plan: Path, tmp_path: Path) -> None:
    kept = small_disk / "kept"
    kept.write_text("x" * 30_000)
    (tmp_path / "grid.mtx").unlink(missing_ok=True)
    ok("dataset", "grid", "--rows", 60, "--cols", 60, "-o", tmp_path / "grid.mtx")
    ok("compile", tmp_path / "grid.mtx", "-p", 2, "--model", "block", "-o", tmp_path / "grid.h5")
    for words, name in (
        (["compile", graph, "-p", 2, "--model", "rp"], "plan.h5"),
        (["compile", tmp_path / "grid.mtx", "-p", 2, "--model", "block", "--compress"], "plan.h5"),
        (["export", tmp_path / "grid.mtx"], "x.mtx"),
        (["export", tmp_path / "grid.mtx"], "x.graph"),
        (["export", tmp_path / "grid.mtx"], "x.hgr"),
        (["dataset", "grid", "--rows", 60, "--cols", 60], "x.mtx"),
        (["dataset", "digits"], "x.mtx.gz"),
    ):
        done = plancc(*words, "-o", small_disk / name)
        assert done.code == 1
        assert done.error.startswith(f"cannot write {small_disk / name}")
        assert "full" in done.error or "No space" in done.error
        assert [path.name for path in small_disk.iterdir()] == ["kept"]
    # what does not fit leaves the file that it was to replace
    done = plancc("compile", graph, "-p", 2, "--model", "rp", "-o", kept)
    assert done.code == 1
    assert kept.read_text() == "x" * 30_000


# -- signals ---------------------------------------------------------------------------------------


def wait_for(what: Callable[[], object], process: subprocess.Popen[str]) -> object:
    stop = time.monotonic() + 120
    while time.monotonic() < stop:
        if found := what():
            return found
        if process.poll() is not None:
            pytest.fail(f"ended too early: {process.communicate()}")
        time.sleep(0.005)
    process.kill()
    pytest.fail("nothing happened in 120 s")


def partitioners_of(parent: int) -> list[int]:
    """Process ids of the partitioners that a program runs and that have begun to work."""
    found = []
    for pid, words in family(parent).items():
        used = (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
        with suppress(OSError):
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            if b"plancc.partitioners.child" in command and used > 0.6:
                found.append(pid)
    return found


def gone(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return True
    return state == "Z"


@needs_proc
@pytest.mark.parametrize("how", ["Ctrl-C", pytest.param("SIGTERM", marks=long), "SIGKILL"])
def test_interrupted_while_partitioning(how: str, big: Path, tmp_path: Path) -> None:
    out, scratch = tmp_path / "out", tmp_path / "scratch"
    out.mkdir()
    scratch.mkdir()
    words = ["compile", big, "-p", 64, "--partitioner", "mtkahypar", "--preset", "quality"]
    words += ["-q", "-o", out / "plan.h5"]
    environ = os.environ | {"TMPDIR": str(scratch)}
    process = start(*words, start_new_session=True, env=environ)
    (child,) = wait_for(lambda: partitioners_of(process.pid), process)
    if how == "Ctrl-C":  # the terminal sends it to the whole group
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(getattr(signal, how))
    said = process.communicate(timeout=60)
    if how == "SIGKILL":
        stop = time.monotonic() + 60
        while not gone(child) and time.monotonic() < stop:
            time.sleep(0.01)
    else:
        assert (process.returncode, *said) == (1, "", INTERRUPTED)
        assert list(scratch.iterdir()) == []
    assert gone(child)
    assert list(out.iterdir()) == []


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=long), signal.SIGTERM])
def test_interrupted_while_writing(number: int, tmp_path: Path) -> None:
    source, out = tmp_path / "grid.mtx", tmp_path / "out"
    out.mkdir()
    (out / "plan.h5").write_text("the old one")
    ok("dataset", "grid", "--rows", 120, "--cols", 120, "-o", source)
    features = np.random.default_rng(1).random((14400, 800), dtype=np.float32)
    np.savez(tmp_path / "data.npz", features=features)
    words = ["compile", source, "-p", 2, "--model", "block", "--data", tmp_path / "data.npz"]
    process = start(*words, "-q", "--compress", "-o", out / "plan.h5")
    wait_for(lambda: len(list(out.iterdir())) > 1, process)
    process.send_signal(number)
    said = process.communicate(timeout=60)
    assert (process.returncode, *said) == (1, "", INTERRUPTED)
    assert [path.name for path in out.iterdir()] == ["plan.h5"]
    assert (out / "plan.h5").read_text() == "the old one"


def test_a_line_every_few_seconds_where_stderr_is_a_pipe(middling, tmp_path, monkeypatch):
    monkeypatch.setattr("plancc_cli.progress.EVERY", 0.02)
    monkeypatch.setattr("cli_helpers.without_progress", str)
    done = plancc("compile", middling, "-p", 16, "-o", tmp_path / "plan.h5")
    assert re.search(r"(?m)^\d+ s: partition, \d+ s: volume [\d,]+ \(.+\)$", done.err)


# -- streams ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many_parts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plan whose report is longer than a pipe holds."""
    folder = tmp_path_factory.mktemp("many")
    ok("dataset", "grid", "--rows", 64, "--cols", 64, "-o", folder / "grid.mtx")
    ok("compile", folder / "grid.mtx", "-p", 2048, "--model", "block", "-o", folder / "plan.h5")
    return folder / "plan.h5"


def run_into(pipe: int, *words: object) -> Outcome:
    try:
        return run(*words, stdout=pipe)
    finally:
        os.close(pipe)


@pytest.mark.parametrize("options", [[], pytest.param(["--json"], marks=long)])
def test_a_reader_that_leaves_early(options: list[str], many_parts: Path) -> None:
    reader, writer = os.pipe()
    with ThreadPoolExecutor(1) as pool:
        inspecting = pool.submit(run_into, writer, "inspect", many_parts, "--per-part", *options)
        assert os.read(reader, 1)
        os.close(reader)
        done = inspecting.result()
    assert (done.code, done.err) == (1, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("words", [["inspect"], ["inspect", "--json"]])
def test_stdout_is_full(words: list[str], plan: Path) -> None:
    with open("/dev/full", "w") as full:
        done = run(words[0], plan, *words[1:], stdout=full)
    assert done.code == 1
    assert "No space left on device" in done.error


def test_quiet_and_verbose(graph: Path, tmp_path: Path) -> None:
    words = ["compile", graph, "-p", 2, "--effort", "fast", "-o", tmp_path / "plan.h5"]
    told = plancc(*words, "-v").err
    assert {"read", "partition", "tables", "write"} <= {*re.findall(r"(\w+): \d+\.\d s", told)}
    assert re.search(r"    fast: .+: volume [\d,]+ \*", told)
    assert "read" not in plancc(*words, "-q").err
    done = run(*words)
    assert (done.code, done.err) == (0, "")


# -- help ------------------------------------------------------------------------------------------

HEAVY = {"numpy", "scipy", "numba", "h5py", "torch", "mpi4py", "networkx", "rich", "mtkahypar"}


def test_the_group_is_light() -> None:
    """Where the commands work, which is not where signals are waited for."""
    code = (
        "import sys\n"
        "from plancc_cli.group import run\n"
        "for words in ['--help'], ['-h'], ['--version'], [], ['bogus']:\n"
        "    sys.argv = ['plancc', *words]\n"
        "    try:\n"
        "        run()\n"
        "    except SystemExit as end:\n"
        "        assert end.code == 2 and words in ([], ['bogus']), words\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.splitlines()[-1].split())
    assert {"plancc_cli.group", "click"} <= imported
    assert not imported & HEAVY


def test_the_help_of_the_group_fits_a_terminal() -> None:
    text = ok("--help")
    assert "..." not in text.partition("\n")[2]  # every command's line is whole
    assert max(map(len, text.splitlines())) <= 80
    assert len(text.splitlines()) <= 30
    assert "try --help all" in plancc("compile", "--help", "serch").error


@pytest.mark.parametrize(
    ("program", "words", "most"), [(plancc, ["compile"], 62), (plancc_run, [], 50)]
)
def test_help_begins_with_what_is_used_most(program, words, most):
    first, every = (program(*words, "--help", *more).out for more in ([], ["all"]))
    assert len(first.splitlines()) <= most
    few, flags = (
        set(re.findall(r"^  (?:-\w, )?(--[\w-]+)", page, re.MULTILINE)) for page in (first, every)
    )
    assert few < flags
    assert len(flags) > 40
    assert "--help all" in first


def test_version() -> None:
    from importlib.metadata import version

    assert ok("--version") == f"plancc, version {version('plancc')}\n"


@pytest.mark.parametrize("words", [[], ["dataset"]])
def test_alone_it_shows_its_help(words: list[str]) -> None:
    done = plancc(*words)
    assert (done.code, done.out) == (2, "")
    assert done.err == ok(*words, "--help")


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("plancc com", ["compile", "compare"]),
        ("plancc compile --part", ["--part", "--parts", "--partitioner"]),
        ("plancc compile g.mtx --model cagnet-1", ["cagnet-1d", "cagnet-1.5d"]),
        ("plancc bogus --mod", []),
    ],
)
def test_what_a_shell_is_offered_for_the_last_word(words: str, offered: list[str]) -> None:
    asked = {"_PLANCC_COMPLETE": "bash_complete", "COMP_WORDS": words}
    done = run(env=os.environ | asked | {"COMP_CWORD": str(words.count(" "))})
    assert (done.code, done.err) == (0, "")
    assert sorted(done.out.split()) == sorted(f"plain,{word}" for word in offered)
