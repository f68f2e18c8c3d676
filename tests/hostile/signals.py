"""SIGTERM, SIGINT and SIGHUP at random moments, to every command."""

import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from .attack import Case, Finding

PROGRAMS = Path(sys.executable).parent
START = 120.0
"""Seconds for a program to begin: it answers signals from then on."""
LIMIT = 5.0
"""Seconds, and CPU seconds, above which it is a finding: the machine may be busy."""
PATIENCE = 60.0
"""Seconds above which it is a finding, whatever it does."""
KERNEL = "a kernel is compiled"
"""A moment: that of the first kernel that is kept, when others are still to be compiled."""
SENTENCE = re.compile(r"plancc(-run| \w+)?: error: interrupted(; .+)?")
MIGHT_BE = re.compile(r"plancc[\w -]*: |\d+ s: |")
"""Beginnings of the other lines that a program may say."""

COMMANDS = {
    "compile-search": "compile BIG -p 32 --effort best -o out.h5",
    "compile-builtin": "compile BIG -p 32 --partitioner builtin -o out.h5",
    "compile-mtkahypar": "compile BIG -p 64 --partitioner mtkahypar --preset quality -o out.h5",
    "compile-kahypar": "compile BIG -p 32 --partitioner kahypar -o out.h5",
    "compile-metis": "compile BIG --model gp -p 64 --partitioner metis -o out.h5",
    "compile-kaminpar": "compile BIG --model gp -p 64 --partitioner kaminpar -o out.h5",
    "compile-auto": "compile BIG --model auto -p 16 -o out.h5",
    "compile-edges": "compile BIG --model medium-grain -p 32 -o out.h5",
    "compile-fine-grain": "compile BIG --model fine-grain -p 16 -o out.h5",
    "compile-stochastic": "compile BIG --model stochastic-hp -p 16 -o out.h5",
    "compile-grid": "compile BIG --model cagnet-2d -p 16 -o out.h5",
    "compile-compressed": "compile BIG --model rp -p 64 --compress -o out.h5",
    "refine": "refine PLAN --objective max-volume --budget 60 -o out.h5",
    "inspect": "inspect PLAN --per-part",
    "inspect-batches": "inspect PLAN --batches 50",
    "verify": "verify PLAN --against BIG",
    "compare": "compare PLAN PLAN",
    "study": "study BIG --models hp,metis,rp -p 8,16,64 --results kept.jsonl",
    "report": "report PLAN -o out.html",
    "simulate": "simulate PLAN --per-rank",
    "sweep": "simulate BIG --sweep p=16..128",
    "rehearse": "rehearse PLAN --dims 1,256,2 --epochs 50",
    "calibrate": "calibrate -o out.toml --ranks 2",
    "predict": "predict PLAN --weights WEIGHTS -o out.csv --ranks 2",
    "export-text": "export BIG -o out.mtx",
    "export-compressed": "export BIG -o out.mtx.gz",
    "convert": "convert BIG -o out",
    "patch": "patch PLAN --add NEW -o out.h5",
    "export-folder": "export PLAN --to pyg-cluster -o out",
    "dataset": "dataset rmat --scale 19 -o out.mtx",
    "accelerators": "accelerators PLAN",
    "doctor": "doctor",
    "run": "plancc-run PLAN --epochs 10000 --hidden 64 --save out.npz",
    "run-ranks": "plancc-run PLAN --ranks 3 --epochs 10000 --log out.jsonl",
}
"""What is interrupted; names in capitals are `FILES`."""
FILES = {
    "BIG": ("big.mtx", "dataset rmat --scale {scale} -o {path}"),
    "DATA": ("data.npz", ""),
    "NEW": ("new.txt", ""),
    "PLAN": ("plan.h5", "compile BIG --model rp -p 8 --data DATA -q -o {path}"),
    "WEIGHTS": ("weights.npz", "plancc-run PLAN --epochs 1 --hidden 8 -q --save {path}"),
}
"""Names of files, and the commands that make some of them."""


class Signals:
    """SIGTERM, SIGINT or SIGHUP to a command at a random moment, in any state of its kernels."""

    longest = 6.0
    """Seconds of the latest moment."""
    scale = 15
    """Size of the graph: 2**scale vertices."""
    seconds = 0.0
    """From the last signal to the end of the process."""

    def prepare(self, folder: Path) -> None:
        self.folder = folder

    def file(self, name: str) -> Path:
        """The file of a name in capitals, made when a command first needs it."""
        path = self.folder / FILES[name][0]
        if path.exists():
            return path
        if name == "NEW":
            path.write_text("0 1\n1 0\n")
        elif name == "DATA":
            rows = np.arange(1 << self.scale, dtype=np.int32)
            np.savez(path, features=np.float32(rows[:, None] % 7), labels=rows % 2)
        else:
            words = self.command(FILES[name][1].format(scale=self.scale, path=path))
            subprocess.run(words, check=True, capture_output=True, cwd=self.folder)
        return path

    def command(self, words: str) -> list[str]:
        """A command line, with the paths of files in place of their names."""
        if not words.startswith("plancc-run"):
            words = f"plancc {words}"
        program, *rest = words.split()
        known = (str(self.file(word)) if word in FILES else word for word in rest)
        return [str(PROGRAMS / program), *known]

    def case(self, rng: np.random.Generator) -> Case:
        name = str(rng.choice(list(COMMANDS)))
        number = str(rng.choice(["SIGTERM", "SIGINT", "group", "SIGHUP"], p=[0.4, 0.3, 0.2, 0.1]))
        share = rng.choice([10 ** rng.uniform(-2, 0), rng.uniform(0, 1)])  # start-up, and work
        moment = f"{self.longest * share:.3f}"
        kernels = str(rng.choice(["fresh", "kept"]))
        return Case("a signal", words=(name, number, moment, kernels))

    def look(self, case: Case, folder: Path) -> str:
        """Words of a case: command, signal ("group": SIGINT to all processes, as a terminal does),
        seconds or `KERNEL`, and whether kernels are compiled first ("fresh")."""
        name, number, moment, kernels = case.words
        command, environ = self.command(COMMANDS[name]), dict(os.environ)
        if kernels == "fresh":
            environ["NUMBA_CACHE_DIR"] = str(folder / "kernels")
        with open(self.folder / "stderr.txt", "w+") as stderr:
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=environ,
                stdin=subprocess.DEVNULL,
                **{"stdout": subprocess.DEVNULL, "stderr": stderr, "start_new_session": True},
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )
            try:
                outcome = "ended before"
                if self.reached(process, moment, folder):
                    outcome = self.interrupted(process, number)
            finally:
                for pid in (process.pid, *relatives(process.pid)):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                process.wait()
            stderr.seek(0)
            said = stderr.read()
        if outcome != "ended before":
            check_end(process.returncode, number, said)
        check_files(folder, said, process.returncode)
        return outcome

    def reached(self, process: subprocess.Popen[bytes], moment: str, folder: Path) -> bool:
        """Wait for the moment; whether the program is still there."""

        def wait(condition: Callable[[], bool], seconds: float) -> None:
            stop = time.monotonic() + seconds
            while not condition() and process.poll() is None and time.monotonic() < stop:
                time.sleep(0.002)

        wait(lambda: answers(process.pid), START)
        if moment == KERNEL:
            wait(lambda: any(folder.glob("kernels/[!.]*.kernel")), START)
        else:
            with suppress(subprocess.TimeoutExpired):
                process.wait(float(moment))
        return process.poll() is None

    def interrupted(self, process: subprocess.Popen[bytes], number: str) -> str:
        """How long it took, in words; Finding if too long, or if processes are left."""
        others = relatives(process.pid)
        begin, used = time.monotonic(), cpu_seconds(process.pid)
        if number == "group":
            os.killpg(process.pid, signal.SIGINT)
        else:
            process.send_signal(getattr(signal, number))
        while process.poll() is None:
            seconds = time.monotonic() - begin
            busy = cpu_seconds(process.pid) - used > LIMIT
            if seconds > PATIENCE or (seconds > LIMIT and busy):
                raise Finding("hang", f"there {seconds:.0f} s after {number}")
            time.sleep(0.01)
        seconds = self.seconds = time.monotonic() - begin
        while left := relatives(process.pid) | {pid for pid in others if alive(pid)}:
            if time.monotonic() - begin > seconds + LIMIT:
                what = " ".join(Path(f"/proc/{min(left)}/cmdline").read_text().split("\0"))[:80]
                raise Finding("leftover", f"a process was left after {number}: {what}")
            time.sleep(0.05)
        return f"gone within {math.ceil(2 * seconds) / 2:.1f} s"


def cpu_seconds(leader: int) -> float:
    """What the processes of a session that are there have used so far."""
    stats = dict(processes())
    ticks = [
        int(number) for pid in {leader, *relatives(leader)} for number in stats.get(pid, ())[11:13]
    ]
    return sum(ticks) / os.sysconf("SC_CLK_TCK")


def answers(pid: int) -> bool:
    """Whether a process catches SIGTERM."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)
    return False


def alive(pid: int) -> bool:
    return pid in dict(processes())


def processes() -> Iterator[tuple[int, list[str]]]:
    """All that are no zombies: the words of ``/proc/*/stat`` after the name."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            words = path.read_text().rpartition(")")[2].split()
            if words[0] != "Z":
                yield int(path.parent.name), words


def relatives(leader: int) -> set[int]:
    """The other processes of a session, and what they have started."""
    stats = dict(processes())
    found = {pid for pid, words in stats.items() if int(words[3]) == leader} | {leader}
    more = found
    while more:
        more = {pid for pid, words in stats.items() if int(words[1]) in more} - found
        found = found | more
    return found - {leader}


def check_end(code: int, number: str, said: str) -> None:
    """One sentence and exit code 1."""
    if code == 0:  # the work was done when the signal came
        return
    if code != 1:
        raise Finding("manners", f"exit code {code} after {number}: {said[-200:]!a}")
    lines = said.splitlines()
    if not lines or not SENTENCE.fullmatch(lines[-1]):
        raise Finding("manners", f"no sentence after {number}: {said[-300:]!a}")
    for line in lines[:-1]:
        if not MIGHT_BE.match(line) or ": error: " in line or "Traceback" in line:
            raise Finding("manners", f"more than a sentence after {number}: {said[-300:]!a}")


def check_files(folder: Path, said: str, code: int) -> None:
    """Only what is said to be written is there, nothing temporary."""
    for path in folder.rglob("*"):
        shown = str(path.relative_to(folder))
        expected = shown.startswith("kernels/") or not code or shown.split("/")[0] in said
        if path.is_file() and (".tmp" in shown or not expected):
            raise Finding("leftover", f"{shown} is there: {said[-200:]!a}")
