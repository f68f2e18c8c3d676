"""Attack plancc for as long as you like: python -m tests.hostile [ATTACK ...]."""

import argparse
import contextlib
import shutil
import sys
import time
from collections import Counter
from itertools import count

from .attack import KINDS
from .attacks import ATTACKS
from .worker import ROOT, Worker, worker

ROUND = 120.0
"""Seconds of one attack before the next has its turn."""
KEPT = ROOT / "build" / "hostile"


def main() -> int:
    options = parsed()
    if options.list:
        for name, attack in ATTACKS.items():
            print(f"{name:<20}{(attack.__doc__ or '').splitlines()[0]}")
        print("\n" + "\n".join(f"{kind:<20}{what}" for kind, what in KINDS.items()))
        return 0
    counts = {name: Counter[str]() for name in options.attacks}
    with worker() as process:
        if options.case is not None:
            print(process.tried(options.attacks[0], options.case, options.seed))
            keep(process, f"{options.attacks[0]}-{options.seed}-{options.case}")
            return 0
        with contextlib.suppress(KeyboardInterrupt):
            attack_all(process, options, counts)
    for name, outcomes in counts.items():
        said = ", ".join(f"{n:,} {outcome}" for outcome, n in sorted(outcomes.items()))
        print(f"{name}: {outcomes.total():,} cases: {said}")
    return int(any(outcomes.keys() & KINDS.keys() for outcomes in counts.values()))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help="some of --list; all")
    parser.add_argument("--list", action="store_true", help="list the attacks")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers [1]")
    parser.add_argument("--first", type=int, default=0, help="number of the first case [0]")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of all attacks")
    parser.add_argument("--case", type=int, metavar="TRIAL", help="write and try this case only")
    options = parser.parse_args()
    unknown = set(options.attacks) - set(ATTACKS)
    if unknown:
        parser.error(f"no attack {min(unknown)}: {', '.join(ATTACKS)}")
    if options.case is not None and len(options.attacks) != 1:
        parser.error("--case needs the name of one attack")
    options.attacks = options.attacks or list(ATTACKS)
    return options


def attack_all(
    process: Worker, options: argparse.Namespace, counts: dict[str, Counter[str]]
) -> None:
    """The attacks in turn, a round each, until the time is over; prints every finding."""
    end = time.monotonic() + options.seconds
    share = min(ROUND, options.seconds / len(options.attacks))
    trials = {name: count(options.first) for name in options.attacks}
    while True:
        for name in options.attacks:
            begin = time.monotonic()
            while time.monotonic() - begin < share:
                if time.monotonic() > end:
                    return
                trial = next(trials[name])
                found = process.tried(name, trial, options.seed)
                counts[name][found["outcome"]] += 1
                if found["outcome"] in KINDS:
                    print(f"{name} seed {options.seed} trial {trial}: {found}", flush=True)
                    keep(process, f"{name}-{options.seed}-{trial}")


def keep(process: Worker, name: str) -> None:
    """Copy the regular files of the last case: a pipe would be waited for."""
    for path in process.case.rglob("*"):
        if path.is_file() and not path.is_symlink():
            to = KEPT / name / path.relative_to(process.case)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
    print(f"files in {KEPT / name}")


if __name__ == "__main__":
    sys.exit(main())
