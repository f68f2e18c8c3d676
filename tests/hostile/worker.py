"""Tries cases under limits of the system, in a process of its own, and says how each one ends.

    python -m tests.hostile.worker FOLDER

Reads lines of JSON, the number of a case or the name of one of `SEEDS`, and answers each with one.
`Worker` starts such a process and sees a crash or a hang by an answer that is missing.
"""

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plancc import guarded_child
from plancc.errors import PlanccError

from .attack import Case, Finding, check_words
from .inputs import Inputs
from .plan_bytes import PlanBytes

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).with_name("seeds")
SEEDS = tomllib.loads((FOLDER / "index.toml").read_text())
"""What was found once, which is tried first for ever after: ``files`` of the case in the folder."""
WALL = 600.0
"""Seconds of a case, and of all until the first."""
CPU, SPARE = 10.0, 2.0
"""Seconds of CPU time of a case: above is a hang; so many more, and the system ends the process."""
MEMORY = 1 << 30
"""Bytes of address space that a case may take beyond what the process has."""


class Worker:
    """A process that tries cases and is watched; one that crashes or hangs is replaced.

    Attributes:
        case: Folder with the files of the last case.
    """

    def __init__(self, home: Path) -> None:
        self.home, self.case = home, home / "case"
        self.process: subprocess.Popen[str] | None = None
        home.mkdir(parents=True, exist_ok=True)

    def tried(self, trial: int | str) -> dict[str, str]:
        """How a case ends: ``outcome``, and ``what`` and ``how`` for a finding."""
        if self.process is None:
            self._start()
        assert self.process is not None and self.process.stdin and self.process.stdout  # noqa: PT018
        self.process.stdin.write(json.dumps(trial) + "\n")
        self.process.stdin.flush()
        if select.select([self.process.stdout], [], [], WALL)[0]:
            if line := self.process.stdout.readline():
                found: dict[str, str] = json.loads(line)
                return found
            hangs = self.process.wait() == -signal.SIGXCPU
        else:
            hangs = True
        code = self.process.returncode
        self.end()
        how = (self.home / "how").read_text()[:200]
        words = (self.home / "stderr.txt").read_text(errors="replace").strip().splitlines()
        died = f"exit code {code}; {words[-1][:200] if words else 'no word'}"
        return {"outcome": "hang" if hangs else "crash", "what": how if hangs else died, "how": how}

    def _start(self) -> None:
        (self.home / "how").write_text("before its first case")
        with (self.home / "stderr.txt").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.hostile.worker", str(self.home)],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                **{"stderr": log, "text": True, "start_new_session": True},
                env=os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
            )

    def end(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            self.process = None


@contextlib.contextmanager
def worker() -> Iterator[Worker]:
    """A worker in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="plancc-hostile-", ignore_cleanup_errors=True) as home:
        made = Worker(Path(home))
        try:
            yield made
        finally:
            made.end()


def main(folder: str) -> None:
    says = os.fdopen(os.dup(1), "w", buffering=1)  # what the program prints goes elsewhere
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    home = Path(folder)
    for each in ("case", "tmp", "base"):
        (home / each).mkdir(parents=True, exist_ok=True)
    tempfile.tempdir = os.environ["TMPDIR"] = str(home / "tmp")
    guarded_child.CPU_SECONDS = 2  # a whole file needs 0.4; those that never end use up all
    attacks = Inputs(home / "base"), PlanBytes(home / "base")
    for line in sys.stdin:
        trial = json.loads(line)
        attack = attacks[0 if isinstance(trial, str) else trial % 2]
        case = seed_case(trial) if isinstance(trial, str) else attack.case(trial)
        print(json.dumps(tried(attack, case, home)), file=says)


def seed_case(name: str) -> Case:
    entry = SEEDS[name]
    files = {to: (FOLDER / file).read_bytes() for to, file in entry["files"].items()}
    return Case(entry["what"], files)


def tried(attack: Inputs | PlanBytes, case: Case, home: Path) -> dict[str, Any]:
    """How a case ends: ``outcome``, and ``what`` for a finding."""
    folder, temporary = home / "case", home / "tmp"
    for each in (folder, temporary):
        shutil.rmtree(each)
        each.mkdir()
    for name, content in case.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (home / "how").write_text(ascii(" ".join((case.how, *case.words))))
    start, here = limited(), os.getcwd()
    os.chdir(folder)
    try:
        try:
            outcome = attack.look(case, folder)
            if (used := cpu_seconds() - start) > CPU:
                raise Finding("hang", f"{used:.0f} s of CPU time ({case.how})")
        except PlanccError as error:
            check_words(str(error), folder)
            outcome = "refused"
        check_leftovers(case, folder, temporary)
        return {"outcome": outcome}
    except Finding as found:
        kind, what = found.kind, found.what
    except MemoryError:
        kind, what = "memory", f"MemoryError {place()}"
    except (Exception, SystemExit) as error:
        said = " ".join(str(error).split())[:200]
        kind, what = "traceback", f"{type(error).__name__} {place()}: {said}"
    finally:
        os.chdir(here)
    return {"outcome": kind, "what": what, "how": ascii(case.how)}


def check_leftovers(case: Case, folder: Path, temporary: Path) -> None:
    """The files of the case are as they were, and nothing temporary is left."""
    for name, content in case.files.items():
        if not (folder / name).is_file() or (folder / name).read_bytes() != content:
            raise Finding("leftover", f"the input {name} was changed")
    left = [path.name for path in folder.rglob("*.tmp*")] + os.listdir(temporary)
    if left:
        raise Finding("leftover", f"{left[0]} was left")


def limited() -> float:
    """Sets the limits of the next case; the CPU seconds that the process has used so far."""
    used = cpu_seconds()
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + CPU + SPARE) + 1, hard))
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, hard))
    return used


def cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def place() -> str:
    """Where the present exception was raised: the innermost line of this project."""
    frames = traceback.extract_tb(sys.exc_info()[2])
    ours = [f for f in frames if "/plancc" in f.filename and "site-packages" not in f.filename]
    frame = (ours or list(frames))[-1]
    return f"in {Path(frame.filename).name}:{frame.name}"


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it ends it
    main(sys.argv[1])
