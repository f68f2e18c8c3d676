"""Runs that are killed again and again, and resumed, until they end: with the same bits?

    python -m tests.hostile.killed_runs FOLDER RANKS SEED

trains in FOLDER in children that die by SIGKILL, and prints JSON: how often, and what is wrong.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .attack import Attack, Case, Finding

if TYPE_CHECKING:
    from plancc_runtime.options import TrainOptions

ROOT = Path(__file__).parents[2]
PLAN = ROOT / "tests" / "golden" / "plan-1.6.h5"
EPOCHS = 10
KILLS = 3
"""Kills of one case."""
CALLS = 1 << 30
"""More calls than a run makes."""
ENDS = {"last.safetensors", "last-1.safetensors", "best.safetensors"}
"""What a run that has ended leaves in its folder."""


class KilledRuns(Attack):
    """Runs with checkpoints that are killed at random moments, and resumed."""

    name = "killed-runs"
    cpu, wall, memory = 60.0, 900.0, 0
    quick, few = 1, 0

    def case(self, rng: np.random.Generator) -> Case:
        ranks, seed = int(rng.integers(1, 3)), int(rng.integers(1 << 30))
        return Case(f"{ranks} ranks, kills of seed {seed}", words=(str(ranks), str(seed)))

    def look(self, case: Case, folder: Path) -> str:
        words = [sys.executable, "-m", "tests.hostile.killed_runs", str(folder), *case.words]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=self.wall)
        if done.returncode:
            raise Finding("traceback", done.stderr[-300:])
        told = json.loads(done.stdout.splitlines()[-1])
        if told["wrong"]:
            raise Finding("silent", told["wrong"])
        return f"killed {told['kills']} times"


def main(folder: Path, ranks: int, seed: int) -> None:
    _ready(ranks)
    rng = np.random.default_rng(seed)
    begin = time.monotonic()
    wrong, kills = _ended(_train(folder / "whole", ranks, False)), 0
    seconds = time.monotonic() - begin
    while not wrong and kills < KILLS:  # a run may end before it is killed
        shutil.rmtree(folder / "killed", ignore_errors=True)
        wrong, more = _killed_until_it_ends(folder / "killed", ranks, seconds, rng)
        kills += more
        wrong = wrong or _difference(folder)
    print(json.dumps({"kills": kills, "wrong": wrong}))


def _ready(ranks: int) -> None:
    """Load libraries and kernels before children are made, which share them."""
    from plancc_runtime.train import train
    from plancc_runtime.transport.local import run_ranks

    run_ranks(ranks, lambda t: train(PLAN, _options(epochs=1), t))


def _options(**more: Any) -> TrainOptions:
    from plancc_runtime.options import TrainOptions

    words = {"eval_every": 3, "dropout": 0.4, "optimizer": "adam", "threads": 1, "kernel": "numba"}
    return TrainOptions(**{**words, **more})


def _killed_until_it_ends(
    checkpoint: Path, ranks: int, seconds: float, rng: np.random.Generator
) -> tuple[str, int]:
    """What a run said that failed by itself ("": none), and how often it was killed."""
    kills = 0
    while True:
        resume = any(checkpoint.glob("last*"))
        at_call = int(rng.integers(1, 5 * EPOCHS)) if rng.random() < 0.5 else None
        if kills >= 2 * KILLS:
            at_call = CALLS
        child = _train(checkpoint, ranks, resume, at_call)
        if at_call is None:
            time.sleep(seconds * rng.random())
            os.kill(child, signal.SIGKILL)
        said = _ended(child)
        if said != "killed":
            return said, kills
        kills += 1
        if any(checkpoint.glob("last*")) and not (checkpoint / "last.safetensors").exists():
            return "last.safetensors is missing, and an earlier one is there", kills


def _difference(folder: Path) -> str:
    """How a killed run differs from one that was not; "": not at all."""
    one, other = (np.load(folder / f"{name}.npz") for name in ("whole", "killed"))
    if any(one[name].tobytes() != other[name].tobytes() for name in one.files):
        return "other weights than those of a run that was not killed"
    names = set(os.listdir(folder / "killed"))
    return "" if names == ENDS else f"left in the folder: {sorted(names)}"


def _train(checkpoint: Path, ranks: int, resume: bool, at_call: int | None = None) -> int:
    """Number of a child that trains, and dies at this call that changes a folder."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        from plancc_runtime.train import train
        from plancc_runtime.transport.local import run_ranks

        if at_call is not None:
            _die_at(at_call)
        options = _options(epochs=EPOCHS, checkpoint=checkpoint, every=1, resume=resume)
        weights = run_ranks(ranks, lambda t: train(PLAN, options, t))[0].weights
        np.savez(checkpoint.with_suffix(".npz"), **weights)
        code = 0
    except BaseException as error:
        checkpoint.with_suffix(".txt").write_text(f"{type(error).__name__}: {error}")
    finally:
        os._exit(code)


def _die_at(number: int) -> None:
    """Kill this process before the call of this number that writes, renames or removes."""
    lock, left = threading.Lock(), [number]

    def counted(real):
        def call(*words, **named):
            with lock:
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
            return real(*words, **named)

        return call

    for name in ("open", "write", "fsync", "link", "replace", "unlink"):
        setattr(os, name, counted(getattr(os, name)))


def _ended(child: int) -> str:
    """How a child ended: "", "killed", or what it said."""
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "killed" if os.WTERMSIG(status) == signal.SIGKILL else f"signal {status}"
    if os.WEXITSTATUS(status) == 0:
        return ""
    [*_, last] = sorted(Path(sys.argv[1]).glob("*.txt"), key=lambda path: path.stat().st_mtime)
    return last.read_text()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
