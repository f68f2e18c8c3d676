"""Attack plancc for as long as you like: python -m tests.hostile [ATTACK ...]."""

import argparse
import json
import signal
import sys
import tempfile
import time
from pathlib import Path

from .attack import KINDS
from .attacks import ATTACKS
from .campaign import ROOT, Campaign, Record, Workers

ROUND = 120.0
"""Seconds of one attack before the next has its turn."""


def main() -> int:
    options = parsed()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if options.list:
        for name, attack in ATTACKS.items():
            print(f"{name:<20}{(attack.__doc__ or '').splitlines()[0]}")
        print("\n" + "\n".join(f"{kind:<20}{what}" for kind, what in KINDS.items()))
        return 0
    if options.table:
        print(table(options.folder, options.attacks))
        return 0
    if options.case is not None:
        return one_case(options.attacks[0], options.seed, options.case, options.folder)
    try:
        attack_all(options)
    except KeyboardInterrupt:
        print("stopped; run it again to go on", file=sys.stderr)
    print(table(options.folder, options.attacks))
    records = [Campaign(ATTACKS[a], options.seed, options.folder).record for a in options.attacks]
    return 1 if any(record.findings for record in records) else 0


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("attacks", nargs="*", metavar="ATTACK", help="some of --list; all")
    parser.add_argument("--list", action="store_true", help="list the attacks")
    parser.add_argument("--seed", type=int, default=1, help="of the random numbers [1]")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of all attacks")
    parser.add_argument("--trials", type=int, help="more cases of each attack")
    parser.add_argument("--processes", type=int, default=2, help="workers at a time [2]")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "hostile")
    parser.add_argument("--again", action="store_true", help="forget the records")
    parser.add_argument("--table", action="store_true", help="print the counts so far, as Markdown")
    parser.add_argument("--case", type=int, metavar="TRIAL", help="write and try this case only")
    options = parser.parse_args()
    unknown = set(options.attacks) - set(ATTACKS)
    if unknown:
        parser.error(f"no attack {min(unknown)}: {', '.join(ATTACKS)}")
    options.attacks = options.attacks or list(ATTACKS)
    if options.case is not None and len(options.attacks) != 1:
        parser.error("--case needs the name of one attack")
    return options


def attack_all(options: argparse.Namespace) -> None:
    """The attacks in turn, a round each, until the time is over."""
    if options.again:
        for name in options.attacks:
            (options.folder / f"{name}-{options.seed}.json").unlink(missing_ok=True)
    end = time.monotonic() + options.seconds
    share = ROUND if options.trials is None else float("inf")
    if options.seconds < float("inf"):
        share = min(share, options.seconds / len(options.attacks))
    while True:
        for name in options.attacks:
            campaign = Campaign(ATTACKS[name], options.seed, options.folder)
            seconds = min(share, end - time.monotonic())
            if seconds <= 0:
                return
            with Workers() as workers:
                limits = {"trials": options.trials, "seconds": seconds}
                record = campaign.run(**limits, workers=workers, processes=options.processes)
            print(f"{name}: {said(record)}", flush=True)
        if options.trials is not None:
            return


def said(record: Record) -> str:
    """The counts of a record in a line."""
    counts = ", ".join(f"{n:,} {outcome}" for outcome, n in sorted(record.outcomes.items()))
    return f"{record.trials:,} cases in {record.seconds:,.0f} s: {counts}"


def table(folder: Path, attacks: list[str]) -> str:
    """The records of some attacks as a Markdown table; findings below it."""
    records = []
    for path in sorted(folder.glob("*-*.json")):
        record = Record(**json.loads(path.read_text()))
        if record.attack in attacks:
            records.append(record)
    lines = ["| attack | seed | cases | seconds | ok | refused | other | findings |"]
    lines.append("| --- " * 8 + "|")
    for record in records:
        bad = {k: n for k, n in record.outcomes.items() if k in KINDS}
        good = {k: n for k, n in record.outcomes.items() if k not in KINDS}
        ok, refused = good.pop("ok", 0), good.pop("refused", 0)
        other = ", ".join(f"{n:,} {k}" for k, n in sorted(good.items()))
        wrong = ", ".join(f"{n:,} {k}" for k, n in sorted(bad.items())) or "0"
        lines.append(
            f"| `{record.attack}` | {record.seed} | {record.trials:,} | {record.seconds:,.0f} "
            f"| {ok:,} | {refused:,} | {other} | {wrong} |"
        )
    for record in records:
        for what, found in sorted(record.findings.items(), key=lambda item: -item[1]["times"]):
            lines.append(f"- {record.attack}: {found['times']} x {what} ({found['cases']})")
    return "\n".join(lines)


def one_case(name: str, seed: int, trial: int, folder: Path) -> int:
    """Write a case's files into a folder and try it in this process."""
    from .worker import ready, tried

    with tempfile.TemporaryDirectory() as home:
        for each in ("case", "tmp"):
            (Path(home) / each).mkdir()
        attack = ready(ATTACKS[name], Path(home) / "base")
        case = attack.case(attack.numbers(seed, trial))
        kept = folder / "cases" / f"{name}-{seed}-{trial}"
        for file, content in case.files.items():
            (kept / file).parent.mkdir(parents=True, exist_ok=True)
            (kept / file).write_bytes(content)
        print(case.how, *case.words, f"files in {kept}", sep="\n", flush=True)
        outcome = tried(attack, lambda: case, Path(home))
    print(outcome)
    return int(outcome["outcome"] in KINDS)


if __name__ == "__main__":
    sys.exit(main())
