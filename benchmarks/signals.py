"""Ctrl-C, SIGTERM and SIGHUP at random moments of commands: seconds to the end, and what is left.

Commands, moments and checks are those of the attack `signals` (`tests/hostile/signals.py`): from
the moment that a command answers signals on, with kernels that are kept.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

from benchmarks.inputs import Inputs
from benchmarks.report import Report
from tests.hostile.attack import Case, Finding
from tests.hostile.signals import COMMANDS, Signals

LONGEST = {name: 6.0 for name in COMMANDS if name.startswith("compile")}
LONGEST |= {"convert": 3.0, "patch": 2.0, "refine": 6.0, "run": 6.0, "run-ranks": 6.0}
"""Commands, and the latest moment in seconds: most work longer than that."""
NUMBERS = ("SIGTERM", "SIGINT", "group", "SIGHUP")
MOST = 2.0
"""Seconds in which a command is to be gone."""


def run(inputs: Inputs) -> Report:
    """Moments with the seed 1, a command after another."""
    moments, attack, chance = 6 if inputs.quick else 200, Signals(), random.Random(1)
    attack.scale = 10 if inputs.quick else 15
    attack.prepare(inputs.folder)
    report, seconds, findings = Report(), [], 0
    for k in range(moments):
        name = list(LONGEST)[k % len(LONGEST)]
        moment, number = f"{chance.uniform(0, LONGEST[name]):.3f}", chance.choice(NUMBERS)
        folder = Path(tempfile.mkdtemp(dir=inputs.folder))
        try:
            if attack.look(Case("a signal", words=(name, number, moment, "kept")), folder) != (
                "ended before"
            ):
                seconds.append(attack.seconds)
        except Finding as finding:
            findings += 1
            report.notes.append(f"{name}, {number} after {moment} s: {finding}")
        shutil.rmtree(folder)
    report.notes.insert(0, f"{moments} moments, of which {len(seconds)} before the command's end")
    report.add("seconds to the end: most", max(seconds), MOST, unit="s")
    report.add("seconds to the end: median", sorted(seconds)[len(seconds) // 2], unit="s")
    report.add("files or processes left, other words than one sentence", findings, 0, "=")
    return report
