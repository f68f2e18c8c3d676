"""Programs end soon after a signal, whatever they do, with one sentence and nothing left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import pytest
from cases import long
from cli_helpers import PROGRAMS, family, plancc, plancc_run
from hostile.attack import Case
from hostile.signals import KERNEL, Signals, answers

from plancc import processes
from plancc.errors import PlanError
from plancc.files import atomic_write
from plancc_cli import signals
from plancc_cli.ranks import told
from plancc_cli.run import RANKS
from plancc_cli.signals import TWICE
from plancc_runtime import launch

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc")

SOON = 30.0
"""Seconds in which a program ends that takes 1 on a machine that has time for it; what it was
stuck in takes for ever."""
LONG = 60.0
"""`GRACE` of work that ends by itself."""
INTERRUPTED = "interrupted; nothing was written\n"
PRELUDE = """if True:
    import ctypes, os, signal, subprocess, sys, threading, time
    from pathlib import Path
    from plancc.files import atomic_write, scratch_folder
    from plancc_cli import signals
    from plancc_cli.signals import answering

    def stuck():
        "Wait for ever in native code, as a kernel that takes long."
        print("ready", flush=True)
        lock = ctypes.create_string_buffer(256)
        while True:
            ctypes.CDLL(None).pthread_mutex_lock(lock)

    def ready(seconds=60):
        print("ready", flush=True)
        time.sleep(seconds)

    def ready_to_go():
        ready(0)
        while not Path("go").exists():
            time.sleep(0.01)

"""


@contextmanager
def program(
    work: str, folder: Path, grace: float = 1.0, twice: float = TWICE, **options: object
) -> Iterator[subprocess.Popen[str]]:
    """A program whose work is these lines of Python, when it has said "ready".

    `grace` are the seconds that it has to end by itself, many where it does; `twice` those in which
    two signals are one.
    """
    lines = "".join(f"        {line.strip(chr(10))}\n" for line in work.splitlines())
    numbers = f"    signals.GRACE, signals.TWICE = {grace}, {twice}\n"
    code = f"{PRELUDE}{numbers}    def work():\n{lines}\n    answering('plancc', work)\n"
    given = {"cwd": folder, "env": os.environ | {"TMPDIR": str(folder)}} | options
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code], **(pipes | given)) as process:  # type: ignore
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            for pid in (*family(process.pid), process.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Exit code and stderr of a program that is gone soon, with all that it started."""
    started = family(process.pid)
    _, said = process.communicate(timeout=SOON)
    assert not set(started) & set(family(1))
    return process.returncode, said.removeprefix("plancc: error: ")


def test_who_says_why_it_ends_is_not_interrupted(tmp_path: Path) -> None:
    work = (
        "signals.ends_with(1)\n"
        "print('plancc: error: the only sentence', file=sys.stderr, flush=True)\n"
        "ready(0)\n"
        "os.kill(os.getpid(), signal.SIGTERM)\n"
        "time.sleep(0.2)\n"
        "raise SystemExit(1)"
    )
    with program(work, tmp_path, LONG) as process:
        assert ended(process) == (1, "the only sentence\n")


# -- every command, at random moments --------------------------------------------------------------

SEED = 17
TRIALS = 20


@pytest.fixture(scope="module")
def attack(tmp_path_factory: pytest.TempPathFactory) -> Signals:
    made = Signals()
    made.scale, made.longest = 13, 2.0
    made.prepare(tmp_path_factory.mktemp("signals"))
    return made


@pytest.mark.parametrize("trial", [None, *(pytest.param(k, marks=long) for k in range(TRIALS))])
def test_a_command_at_a_random_moment(trial, attack, tmp_path, monkeypatch):
    """None: a kernel is compiled, where LLVM's callback once took the signal, and went on."""
    work, scratch = tmp_path / "work", tmp_path / "scratch"
    work.mkdir()
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    case = Case("", words=("compile-search", "SIGTERM", KERNEL, "fresh"))
    attack.look(case if trial is None else attack.case(np.random.default_rng([SEED, trial])), work)
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "number"), [("plancc", signal.SIGINT), ("plancc-run", signal.SIGTERM)]
)
def test_as_soon_as_it_answers(name: str, number: int) -> None:
    """In the middle of imports."""
    command = [str(PROGRAMS / name), *(["compile"] if name == "plancc" else []), "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while not answers(process.pid):
            assert process.poll() is None
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 1
    assert said.decode().strip() in (
        f"{name}: error: interrupted",
        f"{name}: error: {INTERRUPTED[:-1]}",
    )


def test_before_it_answers() -> None:
    """The signal ends the process, which says nothing of what it was importing."""
    code = (
        "import os, signal, sys\n"
        "class Finder:\n"
        "    def find_spec(*words): os.kill(os.getpid(), signal.SIGINT)\n"
        "from plancc_cli.run import main; sys.meta_path.insert(0, Finder); main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


@pytest.mark.parametrize("name", ["plancc", "plancc-run"])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), PlanError("g.h5 is damaged: a lock")])
def test_interrupted_work_says_one_line(name, error, tmp_path, monkeypatch):
    """Also if it says something else: a library that was interrupted fails in its own words."""

    def fail(*_words: object, **_options: object) -> None:
        signals.stopped.set()
        raise error

    monkeypatch.setattr("plancc.plan.reader.PlanFile.__init__", fail)
    monkeypatch.setattr("plancc_cli.ranks.RankJob.run", fail)
    try:
        done = (plancc if name == "plancc" else plancc_run)(*["verify"][: name == "plancc"], "g.h5")
    finally:
        signals.stopped.clear()
    nothing = "; nothing was written" * (name == "plancc")
    assert (done.code, done.err) == (1, f"{name}: error: interrupted{nothing}\n")


def test_an_interrupted_run_names_its_log(monkeypatch: pytest.MonkeyPatch) -> None:
    assert told(KeyboardInterrupt()) == ("interrupted", 1)
    monkeypatch.setattr(processes, "written", {"run.jsonl": None})
    assert told(KeyboardInterrupt()) == ("interrupted; run.jsonl was written before", 1)


# -- closed streams --------------------------------------------------------------------------------


@pytest.mark.parametrize("closed", [(1,), (2,), (0, 1, 2)])
def test_no_file_takes_the_place_of_a_closed_stream(closed, tmp_path):
    code = (
        "import os, sys, plancc_cli.run as program\n"
        "def work():\n"
        "    print(sys.stdin.read(), flush=True)\n"
        "    print('x', file=sys.stderr, flush=True)\n"
        "    with open('opened', 'w') as file:\n"
        "        print(file.fileno() > 2, sys.stdout.encoding, file=file)\n"
        "    os.system('echo x; echo x >&2')\n"
        "program._work = work\n"
        "program.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        stdin=None if 0 in closed else subprocess.DEVNULL,
        preexec_fn=lambda: [os.close(number) for number in closed],
        stdout=None if 1 in closed else subprocess.PIPE,
        stderr=None if 2 in closed else subprocess.PIPE,
    )
    assert done.returncode == 0
    assert (tmp_path / "opened").read_text().startswith("True ")
    assert done.stdout in (None, b"\n\x78\n")


# -- native code -----------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=long)])
def test_stuck_in_native_code(number: int, tmp_path: Path) -> None:
    work = """
        with scratch_folder() as folder, atomic_write("out.txt") as temporary:
            temporary.write_text("half")
            (folder / "more").write_text("x")
            subprocess.Popen(["sh", "-c", "sleep 100; true"])
            stuck()
    """
    with program(work, tmp_path) as process:
        assert len(list(tmp_path.iterdir())) == 2
        wait_until(lambda: len(family(process.pid)) == 2)
        process.send_signal(number)
        assert ended(process) == (1, INTERRUPTED)
    assert list(tmp_path.iterdir()) == []


def test_native_code_that_loses_an_interruption_and_fails_later(tmp_path: Path) -> None:
    """As a compiler whose callback was interrupted: what it says of itself is of no use."""
    work = """
        from plancc_cli import group
        def main(**options):
            try:
                ready()
            except KeyboardInterrupt:
                raise RuntimeError("no compiled object yet")
        group.command.main = main
        group.run()
    """
    with program(work, tmp_path, LONG) as process:
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (1, INTERRUPTED)


def test_a_file_that_an_interruption_left_half_done_is_closed_without_a_word(tmp_path):
    """As HDF5's: the destructor prints by `sys.excepthook` what it cannot raise, as Cython does."""
    work = """
        from plancc_cli import group
        class File:
            def __del__(self):
                try:
                    raise RuntimeError("cannot decrement the count")
                except RuntimeError:
                    sys.excepthook(*sys.exc_info())
                    raise
        def main(**options):
            held = File()
            ready()
        group.command.main = main
        group.run()
    """
    with program(work, tmp_path, LONG) as process:
        process.send_signal(signal.SIGTERM)
        assert ended(process) == (1, INTERRUPTED)


@pytest.mark.parametrize(
    ("files", "said"), [("a", "a was"), ("ab", "a, b were"), ("abcde", "a, b, c and 2 more were")]
)
def test_what_is_written_is_said(files: str, said: str, tmp_path: Path) -> None:
    work = f"""
        for name in {files!r}:
            with atomic_write(name) as temporary:
                temporary.write_text("whole")
        stuck()
    """
    with program(work, tmp_path) as process:
        process.terminate()
        assert ended(process) == (1, f"interrupted; {said} written before\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == list(files)


def test_a_callback_that_swallows_the_interrupt(tmp_path: Path) -> None:
    work = """
        @ctypes.CFUNCTYPE(None)
        def called():
            print("ready", flush=True)
            time.sleep(60)
        called()
        time.sleep(60)
    """
    with program(work, tmp_path) as process:
        process.terminate()
        assert ended(process) == (1, INTERRUPTED)


def test_an_interrupt_comes_once(tmp_path: Path) -> None:
    """Who is impatient presses Ctrl-C again."""
    work = """
        try:
            ready()
        except KeyboardInterrupt:
            time.sleep(0.5)
            sys.exit("tidy")
    """
    with program(work, tmp_path, LONG, start_new_session=True) as process:
        for _ in range(3):
            os.killpg(process.pid, signal.SIGINT)
            time.sleep(0.05)
        assert ended(process) == (1, "tidy\n")


# -- signals that the work answers by itself -------------------------------------------------------

SAVES = """
    from functools import partial
    from plancc_cli.signals import StopSignals
    with StopSignals(["USR1"], partial(signals.end_now, "plancc")) as stop:
        print("ready", flush=True)
        while not stop():
            time.sleep(0.01)
        time.sleep(1.6)
        sys.exit(75)
"""


@pytest.mark.parametrize("number", [pytest.param(signal.SIGTERM, marks=long), signal.SIGUSR1])
def test_work_that_saves_has_its_time(number: int, tmp_path: Path) -> None:
    with program(SAVES, tmp_path) as process:
        process.send_signal(number)
        assert ended(process) == (75, "")


def test_a_signal_that_comes_twice_is_one(tmp_path: Path) -> None:
    with program(SAVES, tmp_path, twice=LONG) as process:
        process.terminate()
        time.sleep(0.1)
        process.terminate()
        assert ended(process) == (75, "")


def test_a_second_signal_ends_work_that_saves(tmp_path: Path) -> None:
    with program(SAVES.replace("1.6", "60"), tmp_path) as process:
        process.terminate()
        time.sleep(TWICE + 0.1)
        process.terminate()
        assert ended(process) == (1, INTERRUPTED)


@pytest.mark.parametrize(
    ("work", "number"), [("pass\n    stuck()", signal.SIGTERM), ("stuck()", signal.SIGHUP)]
)
def test_signals_that_work_which_saves_leaves_to_others(work, number, tmp_path):
    """After its block, and signals that it does not name."""
    begin, _, _ = SAVES.partition("        print")
    with program(f"{begin}        {work}\n", tmp_path) as process:
        process.send_signal(number)
        assert ended(process) == (1, INTERRUPTED)


# -- how the work ends -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("work", "code", "said"),
    [
        ("os._exit(7)", 7, ""),
        ("sys.exit('in words')", 1, "in words\n"),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
    ],
)
def test_exit_codes(work: str, code: int, said: str, tmp_path: Path) -> None:
    with program(f"ready(0)\n{work}", tmp_path) as process:
        assert ended(process) == (code, said)


@pytest.mark.parametrize(
    ("words", "code"), [(["list", "models"], 0), (["compile", "g.txt", "-p2", "-og.h5"], 1)]
)
def test_the_system_has_no_thread_left(words: list[str], code: int, tmp_path: Path) -> None:
    (tmp_path / "g.txt").write_text("0 1\n1 2\n")
    lines = f"""if True:
        import sys, threading
        from plancc_cli.main import main
        def start(thread):
            raise RuntimeError("can't start new thread")
        threading.Thread.start, sys.argv = start, {["plancc", *words]}
        main()
    """
    done = subprocess.run(
        [sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr.count("can't start new thread")) == (code, code)
    assert done.stderr.count("\n") == code


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGBUS])
def test_a_crash_says_where(number: int, tmp_path: Path) -> None:
    """What it leaves is removed by the next writer of the same file."""
    work = f"""
        def crash():
            os.kill(os.getpid(), {int(number)})
        with atomic_write("out.txt"):
            ready(0)
            crash()
    """
    with program(work, tmp_path) as process:
        code, said = ended(process)
    assert code == -number
    assert said.startswith("Fatal Python error: ")
    assert " in crash\n" in said
    assert len(list(tmp_path.iterdir())) == 1
    with atomic_write(tmp_path / "out.txt"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["out.txt"]


def test_exit_handlers_run(tmp_path: Path) -> None:
    work = "import atexit\natexit.register(Path('done').touch)\nready(0)"
    with program(work, tmp_path) as process:
        assert ended(process) == (0, "")
    assert (tmp_path / "done").exists()


def test_libraries_do_not_close_under_threads_of_interrupted_work(tmp_path: Path) -> None:
    """As HDF5, which crashes if a thread that nobody joined still writes."""
    work = "import atexit\natexit.register(Path('done').touch)\nready()"
    with program(work, tmp_path, LONG) as process:
        process.terminate()
        assert ended(process)[0] == 1
    assert not (tmp_path / "done").exists()


def test_a_signal_after_the_work_changes_nothing(tmp_path: Path) -> None:
    work = """
        import atexit
        @atexit.register
        def late():
            ready(0)
            stuck()
        sys.exit(3)
    """
    with program(work, tmp_path) as process:
        process.terminate()
        assert ended(process) == (3, "")


def wait_until(what: Callable[[], bool]) -> None:
    stop = time.monotonic() + SOON
    while not what():
        assert time.monotonic() < stop
        time.sleep(0.005)


def test_ignored_signals_stay_ignored(tmp_path: Path) -> None:
    """nohup, and jobs in the background of a script."""

    def ignore() -> None:
        for number in (signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)

    with program("ready_to_go()\nsys.exit(4)", tmp_path, preexec_fn=ignore) as process:
        for number in (signal.SIGHUP, signal.SIGINT):
            os.kill(process.pid, number)
            for pid in family(process.pid):
                os.kill(pid, number)
        (tmp_path / "go").touch()
        assert ended(process) == (4, "")


# -- where nobody answers --------------------------------------------------------------------------


def test_launchers_end_their_ranks() -> None:
    assert set(RANKS) == {each.size for each in launch._LAUNCHERS}
    *many, alone = threads("plancc_cli.run", *({name: "2"} for name in RANKS), {"WORLD_SIZE": "1"})
    assert many == [1] * len(RANKS)
    assert alone == 2


def threads(module: str, *environments: dict[str, str]) -> list[int]:
    """Threads of a program while it works, by environment; one that answers ends with the work."""
    code = (
        f"import os, threading, {module} as program\n"
        "program._work = lambda: print(threading.active_count(), flush=True)\n"
        f"for more in {environments!r}:\n"
        "    os.environ.update(more)\n"
        "    program.main()\n"
        "    [os.environ.pop(name) for name in more]\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={key: value for key, value in os.environ.items() if key not in RANKS},
        **{"capture_output": True, "text": True, "check": True},
    )
    return list(map(int, done.stdout.split()))


def test_plancc_run_answers_before_its_heavy_imports() -> None:
    code = "import sys, plancc_cli.run; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"click", "rich", "numpy", "torch"} & set(done.stdout.split())
