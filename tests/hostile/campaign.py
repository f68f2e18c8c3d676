"""Runs attacks: starts workers, ends those that hang, counts how cases end, keeps what was found.

The record of an attack and a seed is a file of JSON; a campaign that is started again goes on where
the record ends. Every finding's files are kept beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from .attack import KINDS, Attack
from .worker import keep

ROOT = Path(__file__).parents[2]
KEPT = 3
"""Cases kept of the same finding."""
START = 600.0
"""Seconds that a worker may take until its first case: imports, kernels, plans to be damaged."""


@dataclass
class Record:
    """What is known of an attack with one seed.

    Attributes:
        next: The first trial that nobody has begun; those that a campaign left when it was ended
            are not made up for.
        seeds: Whether the kept seeds were tried.
        outcomes: How many cases ended so.
        findings: Kind and words of a finding: how often, and the folders of the first cases.
        seconds: Of work, over all processes.
    """

    attack: str
    seed: int
    next: int = 0
    seeds: bool = False
    outcomes: dict[str, int] = field(default_factory=dict)
    findings: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def trials(self) -> int:
        return sum(self.outcomes.values())

    def write(self, path: Path) -> None:
        temporary = path.with_suffix(".new")
        temporary.write_text(json.dumps(asdict(self), indent=1))
        temporary.replace(path)


class Worker:
    """A process that tries cases, and who watches it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        self.log = (home / "stderr.txt").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.worker", str(home)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            start_new_session=True,
            env=os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"},
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.prepared: set[str] = set()
        threading.Thread(target=self._listen, args=(self.process.stdout,), daemon=True).start()

    def _listen(self, stream: IO[str]) -> None:
        for line in stream:
            self.lines.put(line)
        self.lines.put(None)

    def order(self, attack: type[Attack], **words: Any) -> None:
        assert self.process.stdin is not None
        self.attack, self.wall = attack, attack.wall if attack.name in self.prepared else START
        self.prepared.add(attack.name)
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps({"attack": attack.name, **words}) + "\n")
            self.process.stdin.flush()

    def next(self) -> dict[str, Any] | str:
        """What the worker says next; "hang" or "crash" if it does not."""
        try:
            line = self.lines.get(timeout=self.wall)
        except queue.Empty:
            return "hang"
        self.wall = self.attack.wall
        if line is None:
            code = self.process.wait()
            return "hang" if code == -signal.SIGXCPU else "crash"
        found: dict[str, Any] = json.loads(line)
        return found

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()

    def why(self) -> str:
        """How the process ended, and its last words."""
        words = (self.home / "stderr.txt").read_text(errors="replace").strip().splitlines()
        return f"exit code {self.process.returncode}; {words[-1][:200] if words else 'no word'}"


class Workers:
    """Worker processes by their numbers, started when they are first asked for.

    One that crashed, or was ended, is replaced when it is asked for again.
    """

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="plancc-hostile-"))
        self.alive: dict[int, Worker] = {}

    def __getitem__(self, number: int) -> Worker:
        if number not in self.alive:
            self.alive[number] = Worker(self.folder / str(number))
        return self.alive[number]

    def end(self, number: int) -> None:
        if number in self.alive:
            self.alive.pop(number).end()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for number in list(self.alive):
            self.end(number)
        shutil.rmtree(self.folder, ignore_errors=True)


class Campaign:
    """Tries cases of one attack until a number or a time is reached.

    Parameters:
        folder: Of the records; findings are kept in its folder ``findings``.
        say: Gets a line for every new finding.
    """

    def __init__(
        self, attack: type[Attack], seed: int, folder: Path, say: Callable[[str], None] = print
    ) -> None:
        self.attack, self.seed, self.folder, self.say = attack, seed, folder, say
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"{attack.name}-{seed}.json"
        known = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.record = Record(**{"attack": attack.name, "seed": seed, **known})
        self.lock = threading.Lock()
        self.last: int | None = None
        self.deadline = float("inf")
        self.stopped = False
        self.seeds: dict[str, str] = {}
        """How each of the kept seeds ended."""
        self.found: set[str] = set()
        """What new cases found."""

    def run(
        self, *, trials: int | None, seconds: float, workers: Workers, processes: int = 1
    ) -> Record:
        """Go on from the record for so many more trials, or seconds.

        `workers` may have served other campaigns.
        """
        self.deadline = time.monotonic() + seconds
        self.last = None if trials is None else self.record.next + trials
        self.workers = workers
        threads = [threading.Thread(target=self._guarded, args=(k,)) for k in range(processes)]
        self.problem: BaseException | None = None
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.5)
        except KeyboardInterrupt:
            self.deadline, self.stopped = 0.0, True
            for worker in list(workers.alive.values()):
                worker.end()
            for thread in threads:
                thread.join()
            raise
        if self.problem is not None:
            raise self.problem
        return self.record

    def _guarded(self, number: int) -> None:
        try:
            self._drive(number)
        except BaseException as error:
            self.problem, self.deadline = error, 0.0

    def _drive(self, number: int) -> None:
        """What the worker of a number does; the first one tries the seeds before."""
        began = time.monotonic()
        try:
            if number == 0 and not self.record.seeds:
                self._orders(number, None)
            while not self.stopped and (trials := self._trials()):
                self._orders(number, trials)
        finally:
            with self.lock:
                self.record.seconds += time.monotonic() - began
                self.record.write(self.path)

    def _trials(self) -> range:
        """The next ones; none if it is enough."""
        with self.lock:
            if time.monotonic() > self.deadline:
                return range(0)
            first = self.record.next
            last = first + self.attack.chunk
            last = last if self.last is None else min(last, self.last)
            self.record.next = max(first, last)
            return range(first, last)

    def _orders(self, number: int, trials: range | None) -> None:
        """Have a worker try these cases, or the seeds."""
        tried, begun = 0, None
        while True:
            worker = self.workers[number]
            if trials is None:
                worker.order(self.attack, seeds=True, first=tried)
            else:
                first = trials.start + tried
                worker.order(self.attack, seed=self.seed, first=first, last=trials.stop)
            while True:
                said = worker.next()
                if isinstance(said, str):  # a crash or a hang
                    self.workers.end(number)
                    if self.stopped:
                        return
                    if begun is None:
                        raise RuntimeError(f"{self.attack.name}: no case begun: {worker.why()}")
                    told = worker.home / "how"
                    how = told.read_text()[:200] if told.exists() else "before its first case"
                    what = worker.why() if said == "crash" else f"no end: {how}"
                    self._note(worker.home, begun, {"outcome": said, "what": what, "how": how})
                elif "begin" in said:
                    begun = said["begin"]
                    continue
                elif "end" in said:
                    self._note(worker.home, begun, said)
                else:  # done
                    with self.lock:
                        self.record.seeds |= trials is None
                        self.record.write(self.path)
                    return
                tried += 1
                if trials is not None and time.monotonic() > self.deadline:
                    self.workers.end(number)
                    return
                if isinstance(said, str):
                    begun = None
                    break

    def _note(self, home: Path, trial: int | str, end: dict[str, Any]) -> None:
        outcome = end["outcome"]
        with self.lock:
            if isinstance(trial, str):
                self.seeds[trial] = f"{outcome}: {end['what']}" if "what" in end else outcome
            outcomes = self.record.outcomes
            outcomes[outcome] = outcomes.get(outcome, 0) + 1
            if outcome not in KINDS:
                return
            key = f"{outcome}: {alike(end['what'])}"
            if not isinstance(trial, str):
                self.found.add(key)
            found = self.record.findings.setdefault(key, {"times": 0, "cases": []})
            found["times"] += 1
            if len(found["cases"]) < KEPT:
                kept = self.folder / "findings" / f"{self.attack.name}-{self.seed}-{trial}"
                shutil.rmtree(kept, ignore_errors=True)
                kept.mkdir(parents=True)
                found_at = home / "found" / str(trial)
                keep(found_at if found_at.exists() else home / "case", kept)
                (kept / "how.txt").write_text(ascii(end["how"]))
                found["cases"].append(kept.name)
            if found["times"] == 1:
                self.say(f"{self.attack.name} seed {self.seed} trial {trial}: {key}")
            self.record.write(self.path)


def alike(what: str) -> str:
    """Words of a finding without what differs from case to case: folders, numbers, quotations."""
    what = re.sub(r"(/[\w.-]+)+/", "", what)
    return re.sub(r"'[^']*'", "'..'", re.sub(r"\d+", "#", what))[:300]
