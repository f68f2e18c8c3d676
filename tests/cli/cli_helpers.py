"""Run `plancc` as a user does, in this process or in its own, and look at all that it leaves."""

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import forks
import h5py
import sealing

PROGRAMS = Path(sys.executable).parent
SLOWER = "slower than an even random partition"
"""What a warning says of many plans of tiny graphs."""
PLANCC = str(PROGRAMS / "plancc")
MACHINE = """
name = "ours"
latency = 1e-6
bandwidth = 1e9
multiply_adds = 1e9
[node]
ranks = 2
memory = 1e6
"""


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line on stderr of a failed command, without its prefix."""
        lines = self.err.splitlines()
        assert len(lines) == 1, f"stderr is not one line:\n{self.err}"
        assert lines[0].startswith("plancc: error: "), self.err
        assert "Traceback" not in self.err
        assert "PLANCC_TRACEBACK" not in self.err, self.err
        return lines[0].removeprefix("plancc: error: ")


def without_progress(err: str) -> str:
    """Stderr but for what depends on how fast a machine is, and on its cache of kernels."""
    from plancc_cli.progress import COMPILING

    lines = err.splitlines(keepends=True)
    return "".join(
        line for line in lines if COMPILING not in line and not re.match(r"\d+ s: ", line)
    )


def plancc(*words: object) -> Outcome:
    """`plancc WORDS` in this process: `main` with everything that it does to streams and errors."""
    from plancc_cli.main import main

    return in_process(main, "plancc", *words)


def plancc_run(*words: object) -> Outcome:
    """`plancc-run WORDS` in this process, on one rank or on threads."""
    from plancc_cli.run import main

    with patch.object(os, "_exit", sys.exit):  # the end of a job on threads
        return in_process(main, "plancc-run", *words)


def in_process(main: Callable[[], None], *words: object) -> Outcome:
    """A program in this process, with all that it does to streams and errors."""
    out, err = io.StringIO(), io.StringIO()
    argv = list(map(str, words))
    handler = signal.getsignal(signal.SIGTERM)
    code: object = 0
    try:
        with patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as stop:
        code = 0 if stop.code is None else stop.code
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert isinstance(code, int), f"exit code {code!r}"
    return Outcome(code, out.getvalue(), without_progress(err.getvalue()))


def ok(*words: object, warned: bool = False) -> str:
    """Stdout of a command that must succeed without a word on stderr (but warnings if `warned`).

    Plans of tiny graphs are often slower than random ones, and many test graphs are directed; to be
    told so is no reason to fail.
    """
    done = plancc(*words)
    assert done.code == 0, done.err
    others = [line for line in done.err.splitlines() if SLOWER not in line]
    if warned:
        others = [line for line in others if not line.startswith("plancc: warning: ")]
    assert not others, done.err
    return done.out


def as_json(*words: object, warned: bool = False) -> Any:
    """What a command that must succeed prints with --json."""
    return json.loads(ok(*words, "--json", warned=warned))


def listing(folder: Path) -> dict[str, bytes]:
    """Every file below a folder with what is in it."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def noted(plan: Path, folder: Path, without: Iterable[str] = (), **provenance: object) -> Path:
    """A copy of the plan with more in its provenance, and without some of it."""
    copy = folder / "noted.h5"
    copy.unlink(missing_ok=True)  # it may be open
    shutil.copy(plan, copy)
    with h5py.File(copy, "r+") as file:
        for name in {*without} & {*file["provenance"].attrs}:
            del file["provenance"].attrs[name]
        sealing.note(file["provenance"], **provenance)
    return copy


def fails(folder: Path, *words: object, code: int = 2) -> str:
    """The error of a command that must fail and leave every file in `folder` as it was."""
    before = listing(folder)
    done = plancc(*words)
    assert done.code == code, (done.code, done.err)
    assert done.out == ""
    assert listing(folder) == before
    return done.error


def start(*words: object, **options: object) -> subprocess.Popen[str]:
    """`plancc WORDS` as a process of its own, with pipes."""
    # readline in this process has a COLUMNS that `os.environ` has not
    usual = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "env": os.environ}
    return subprocess.Popen([PLANCC, *map(str, words)], **(usual | options))  # type: ignore


def execute(*words: object, **options: object) -> Outcome:
    """`plancc WORDS` as a process of its own, from the start of an interpreter to its end."""
    child = start(*words, **options)
    out, err = child.communicate(timeout=120)
    return Outcome(child.returncode, out or "", without_progress(err or ""))


def run(*words: object, **options: object) -> Outcome:
    """`plancc WORDS` as a process of its own, forked from one that has imported (`forks.run`)."""
    done = forks.run(["plancc", *words], **options)  # type: ignore[arg-type]
    return Outcome(done.returncode, done.stdout, without_progress(done.stderr))


def family(ancestor: int) -> dict[int, list[str]]:
    """What a process has started, and what that has: the words of ``/proc/*/stat`` after the name,
    by process; without zombies."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            stats[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    found: set[int] = set()
    more = {ancestor}
    while more:
        more = {pid for pid, words in stats.items() if int(words[1]) in more} - found
        found |= more
    return {pid: stats[pid] for pid in found if stats[pid][0] != "Z"}


def environment() -> dict[str, str]:
    """The environment with the programs of this Python first in PATH."""
    return os.environ | {"PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"}
