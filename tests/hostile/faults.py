"""Faults while jobs run: a rank that is killed, stopped, has other options or another plan."""

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .attack import Attack, Case, Finding
from .plan_bytes import fresh_plans

BIN = Path(sys.executable).parent
MARK = "PLANCC_HOSTILE_CASE"
"""Variable that all processes of a case inherit, so that those that are left can be found."""
PATIENCE = 30.0
"""Seconds after which a process counts as hanging or as left behind: machines are busy."""


@dataclass(frozen=True)
class End:
    """How a program ended: its exit code, what it said, and the seconds until then."""

    code: int
    out: str
    err: str
    seconds: float


class Program:
    """A program as a process with its own session, of which nothing stays behind."""

    def __init__(self, words: list[str], folder: Path, **environment: str) -> None:
        self.mark, self.folder = secrets.token_hex(8), folder
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "PRTE_"))}
        self.files = [(folder / f"{name}.txt").open("w+") for name in ("stdout", "stderr")]
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            words,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=self.files[0],
            stderr=self.files[1],
            start_new_session=True,
            env=kept
            | {MARK: self.mark, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
            | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            | environment,
        )

    def wait(self, seconds: float) -> End:
        """Its end, and that of all that it started; Finding if there is none in time."""
        start = time.monotonic()
        try:
            code = self.process.wait(seconds)
            took = time.monotonic() - start
            deadline = time.monotonic() + PATIENCE
            while (left := self.left()) and time.monotonic() < deadline:
                time.sleep(0.2)
            if left:
                raise Finding("leftover", f"a process was left: {words_of(left[0])}")
        except subprocess.TimeoutExpired:
            raise Finding("hang", f"no end after {seconds:.0f} s") from None
        finally:
            for each in self.left():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(each, signal.SIGKILL)
            texts = []
            for stream in self.files:
                stream.seek(0)
                texts.append(stream.read())
                stream.close()
                Path(stream.name).unlink()
        return End(code, *texts, took)

    def left(self) -> list[int]:
        """Processes of this case that are there and no zombies."""
        mark, found = f"{MARK}={self.mark}".encode(), []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (path / "environ").read_bytes():
                    found.append(int(path.name))
        return found


def words_of(process: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode()[:100]
    return "?"


def no_leftovers(folder: Path) -> None:
    left = [path.name for path in folder.rglob("*") if re.search(r"\.tmp|^plancc", path.name)]
    if left:
        raise Finding("leftover", f"{left[0]} was left")


MPICH = Path(
    os.environ.get("PLANCC_MPICH_PYTHON", Path(__file__).parents[2] / "build/mpich/bin/python")
)
"""A Python that finds MPICH and plancc: `make mpich` makes one."""
LAUNCHERS = ("threads", "mpirun", "torchrun", "mpich")
FAULTS = {
    # what happens to one rank: whether all launchers can have it
    "nothing": True,
    "killed": False,
    "stopped": False,
    "other epochs": False,
    "other seed": False,
    "other plan": False,
    "damaged plan": True,
    "missing plan": False,
    "terminated": True,
    "full disk": True,
    "NaN features": True,
    "NaN weights": True,
}


class Jobs(Attack):
    """A fault on one rank of a job: it ends in time, and names the rank or the file.

    Without MPICH its cases are "left out".
    """

    name = "jobs"
    cpu, wall = 600.0, 600.0
    memory = 0
    chunk = 5
    quick, few = 2, 0
    timeout, ranks = 6.0, 3

    def prepare(self, folder: Path) -> None:
        self.plan, _, self.other, _ = fresh_plans(folder, ("rp", "medium-grain"))
        content = bytearray(self.plan.read_bytes())
        import h5py

        with h5py.File(self.plan) as file:
            at = (
                file["matrix/value"].id.get_offset()
                or file["matrix/value"].id.get_chunk_info(0).byte_offset
            )
        content[at + 5] ^= 0x55
        self.damaged = folder / "damaged.h5"
        self.damaged.write_bytes(content)
        self.home = folder
        self.start = self._alone()

    def _alone(self) -> float:
        """Seconds of a whole run of one rank, on the machine as busy as it is."""
        words = [*self._words(self.plan, "3", "log.jsonl"), "--ranks", "1"]
        end = Program([str(BIN / "plancc-run"), *words], self.home).wait(300)
        assert end.code == 0, end.err
        return end.seconds

    def _words(self, plan: Path, epochs: str, log: str) -> list[str]:
        return [
            *(str(plan), "--epochs", epochs, "--hidden", "4", "--threads", "1", "--log", log),
            *("--kernel", "torch", "--eval-every", "0", "--timeout", str(self.timeout)),
        ]

    @property
    def limit(self) -> float:
        """Seconds from a fault to the end of its job: what is promised, and for every rank as long
        as a whole run of one rank took when the attack began, or takes when a job seems too slow.

        Ranks compare options and plans once all are set up, and a launcher ends what it started.
        """
        return self.timeout + 5 + self.ranks * self.start

    def case(self, rng: np.random.Generator) -> Case:
        launcher = str(rng.choice(LAUNCHERS))
        faults = [f for f, everywhere in FAULTS.items() if everywhere or launcher != "threads"]
        fault, rank = str(rng.choice(faults)), str(rng.integers(self.ranks))
        after = f"{rng.uniform(0, 3):.2f}"
        how = f"{launcher}: rank {rank} {fault}, {after} s after its start"
        return Case(how, words=(launcher, fault, rank, after))

    def look(self, case: Case, folder: Path) -> str:
        launcher, fault, rank, after = case.words
        if launcher == "mpich" and not MPICH.exists():
            return "left out: no MPICH (make mpich)"
        plan = self.damaged if fault == "damaged plan" else self.plan
        epochs = "3" if fault == "nothing" else "200000"
        log = "/dev/full" if fault == "full disk" else "log.jsonl"
        words = self._words(plan, epochs, log)
        script = str(Path(__file__).with_name("faulty_rank.py"))
        order = {"fault": fault, "rank": int(rank), "after": float(after), "other": str(self.other)}
        command = {
            "threads": [sys.executable, script, *words, "--ranks", str(self.ranks)],
            "mpirun": [
                *(str(BIN / "mpirun"), "-n", str(self.ranks), "--oversubscribe"),
                *(sys.executable, script, *words),
            ],
            "mpich": [
                *(str(MPICH.with_name("mpiexec")), "-n", str(self.ranks), "-print-all-exitcodes"),
                *(str(MPICH), script, *words),
            ],
            "torchrun": [
                *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
                *(f"--nproc-per-node={self.ranks}", "--", script, *words),
            ],
        }[launcher]
        temporary = folder / "temporary"  # of torchrun, which leaves logs there, as of everybody
        temporary.mkdir()
        running = Program(command, folder, PLANCC_FAULT=json.dumps(order), TMPDIR=str(temporary))
        end = running.wait(float(after) + self.limit + self.ranks * self.start + PATIENCE)
        no_leftovers(folder)
        polite_words = [line for line in end.err.splitlines() if "plancc-run" in line]
        if "please report it" in end.err:
            raise Finding("traceback", " ".join(polite_words)[-300:])
        if fault == "nothing":
            if end.code:
                raise Finding("manners", f"exit code {end.code} without a fault: {end.err[-300:]}")
            return "ok"
        (folder / "said.txt").write_text(end.out + end.err)  # kept with a finding
        return self._judged(fault, rank, launcher, folder, end, running)

    def _judged(
        self, fault: str, rank: str, launcher: str, folder: Path, end: End, running: Program
    ) -> str:
        if end.code == 0:
            raise Finding("silent", f"{launcher}: exit code 0 although a rank is {fault}")
        said = " ".join(line for line in end.err.splitlines() if "plancc-run" in line)
        if fault in ("killed", "terminated"):  # the launcher may see it first, and end the job
            said += end.out + end.err  # MPICH speaks on stdout
        name = {
            "damaged plan": r"damaged\.h5",
            "missing plan": r"missing\.h5",
            "full disk": r"/dev/full",
            "terminated": rf"[Rr]ank[\s:]*{rank}\b|@1,{rank}\]|interrupted",
            "stopped": "still waiting for",  # all others say so
        }.get(fault, rf"[Rr]anks?(\(s\))?[\s:]*[\d, and]*\b{rank}\b|@1,{rank}\]")
        if launcher == "mpich" and fault in ("killed", "terminated"):
            name += r"|PID \d+ RUNNING AT"  # it knows no more, and kills all others at once
        if not re.search(name, said):
            raise Finding(
                "unnamed", f"{launcher}, {fault}: {rank} is not named: {(said or end.err)[-300:]}"
            )
        begun = [float(path.read_text()) for path in folder.glob("begun-*.txt")]
        at = folder / "fault.txt"
        began = float(at.read_text()) if at.exists() else max(begun, default=running.started)
        seconds = running.started + end.seconds - began
        if fault == "stopped" and launcher == "torchrun":
            seconds -= 30  # that torchrun waits before it kills
        if seconds > self.limit:  # the machine may have become busier
            self.start = max(self.start, self._alone())
        if seconds > self.limit:
            raise Finding("hang", f"{launcher}, {fault}: {seconds:.0f} s until the end")
        return "named" if seconds <= self.timeout + 5 else "late"
