"""Does a change keep what users can measure? One corpus at an old commit and in the present tree.

    python -m benchmarks replay OLD_COMMIT
    python -m benchmarks replay OLD_COMMIT --quick --only run/
    python -m benchmarks replay OLD_COMMIT --new COMMIT          while the present tree is edited

A commit is checked out into a temporary work tree. Each tree runs all cases (`replay_cases`)
in a process of its own (`replay_corpus`, the present one for both), on one thread. What comes out
is compared value by value, floats by all their bits but for predicted ones:

    plans      content hashes of plans, kinds of errors
    figures    metrics, provenance, losses, counted words, weights, classes
    predicted  words and seconds of predicted epochs: equal to 12 digits
    texts      warnings, messages, printed tables: listed only, since wording may change

Results are kept by commit, of the present tree by the contents of its sources, and used again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from benchmarks.replay_cases import GRAPHS, PLANS, corpus

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"
PACKAGES = ("plancc", "runtime", "cli", "datasets", "lab")
PREDICTED, TEXTS = "predicted", "texts"
FAILING = ("plans", "figures", PREDICTED)
"""Sections in which a difference makes the exit code 1."""
TOLERANCE = 1e-12
"""Relative difference of predicted numbers that counts as none: sums may have another order."""
MOST_LINES = 20
"""Number of differences printed per section."""
MOST_CHARACTERS = 60
"""Longest value printed, in characters."""


@dataclass(frozen=True)
class Difference:
    """One value that is not the same; "missing" stands for none."""

    case: str
    key: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.case}: {self.key}: {self.old} -> {self.new}"


@dataclass
class Comparison:
    """What differs, by section.

    Attributes:
        cases, values: That were compared.
    """

    cases: int = 0
    values: int = 0
    sections: dict[str, list[Difference]] = field(
        default_factory=lambda: {name: [] for name in (*FAILING, TEXTS)}
    )

    @property
    def failed(self) -> bool:
        return any(self.sections[name] for name in FAILING)


def compare(old: dict[str, Any], new: dict[str, Any]) -> Comparison:
    """Compare the outcomes of two trees, by the names of the cases.

    Parameters:
        old, new: For every case a value for every key of every section. A case that one tree lacks
            differs in "plans".
    """
    found = Comparison()
    for case in [*old, *(name for name in new if name not in old)]:
        found.cases += 1
        if case not in old or case not in new:
            sides = ["missing" if case not in side else "there" for side in (old, new)]
            found.sections["plans"].append(Difference(case, "case", *sides))
            continue
        for section, differences in found.sections.items():
            before, after = old[case].get(section, {}), new[case].get(section, {})
            for key in [*before, *(key for key in after if key not in before)]:
                found.values += 1
                sides = [
                    _shown(side[key]) if key in side else "missing" for side in (before, after)
                ]
                if sides[0] != sides[1] and not (section == PREDICTED and _close(*sides)):
                    differences.append(Difference(case, key, *_around(*sides)))
    return found


def _close(old: str, new: str) -> bool:
    """Whether two numbers, shown, are the same but for rounding."""
    try:
        return math.isclose(*(float(each.strip('"')) for each in (old, new)), rel_tol=TOLERANCE)
    except ValueError:
        return False


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _around(old: str, new: str) -> tuple[str, str]:
    """Two texts from a little before the place where they begin to differ."""
    pairs = enumerate(zip(old, new, strict=False))
    place = next((k for k, (a, b) in pairs if a != b), min(len(old), len(new)))
    start = max(place - MOST_CHARACTERS // 3, 0)
    return _piece(old, start), _piece(new, start)


def _piece(text: str, start: int) -> str:
    """Some characters of a long text, all of a short one."""
    if len(text) <= MOST_CHARACTERS:
        return text
    end = start + MOST_CHARACTERS
    return f"{'...' * (start > 0)}{text[start:end]}{'...' * (end < len(text))}"


def lines_of(found: Comparison) -> Iterator[str]:
    """What to print of a comparison; one line if nothing differs."""
    for name, differences in found.sections.items():
        if not differences:
            continue
        cases = len({each.case for each in differences})
        yield f"{name} that differ: {len(differences)}, in {cases} of {found.cases} cases"
        for each in differences[:MOST_LINES]:
            yield f"  {each}"
        if len(differences) > MOST_LINES:
            yield f"  ... and {len(differences) - MOST_LINES} more"
    if not found.failed:
        texts = len(found.sections[TEXTS])
        yield (
            f"no difference: {found.cases:,} cases, {found.values:,} values; "
            f"texts that differ: {texts}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 nothing differs, 1 something does, 2 a tree could not be run."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks replay",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", metavar="OLD_COMMIT", help="what the present tree is compared with")
    parser.add_argument("--new", metavar="COMMIT", help="compare this one, not the present tree")
    parser.add_argument("--quick", action="store_true", help="fewer parts, seeds and graphs")
    parser.add_argument("--only", metavar="TEXT", default="", help="cases with TEXT in the name")
    parser.add_argument("--again", action="store_true", help="use no kept results")
    parser.add_argument(
        "--cold",
        action="store_true",
        help="compile all kernels of the present tree anew, as those of a commit are",
    )
    parser.add_argument(
        "--folder",
        type=Path,
        default=ROOT / "build" / "replay",
        help="keep the results here [build/replay]",
    )
    options = parser.parse_args(arguments)

    commits = [
        each and _git("rev-parse", "--verify", f"{each}^{{commit}}")
        for each in (options.old, options.new)
    ]
    cases = [
        each for each in corpus(options.quick, SHARED.exists()) if options.only in each["name"]
    ]
    if not cases:
        parser.error(f"--only {options.only}: no case has this in its name")
    options.folder.mkdir(parents=True, exist_ok=True)
    place = _place()
    cases = [{**case, "key": _key(case, place)} for case in cases]

    old, new = (
        _outcomes(commit, cases, options.folder, options.again, options.cold) for commit in commits
    )
    found = compare(old, new)
    for line in lines_of(found):
        print(line)
    return int(found.failed)


def _outcomes(
    commit: str | None,
    cases: list[dict[str, Any]],
    folder: Path,
    again: bool,
    cold: bool,
) -> dict[str, Any]:
    """Results of a commit, or of the present tree (None); runs the cases that have none kept."""
    if commit is not None:
        kept = Kept(folder / f"{commit}.jsonl")
        missing = cases if again else kept.missing(cases)
        if missing:
            with work_tree(commit) as tree:
                run(tree, missing, kept.path, commit[:7])
        return kept.outcomes(cases)
    sources = sources_hash(ROOT)
    kept = Kept(folder / f"present-{sources[:12]}{'-cold' if cold else ''}.jsonl")
    missing = cases if again else kept.missing(cases)
    if missing:
        run(ROOT, missing, kept.path, "present", cold)
        if sources_hash(ROOT) != sources:
            kept.path.unlink()
            print(
                "the present tree changed while it ran: run again, or --new",
                file=sys.stderr,
            )
            raise SystemExit(2)
    return kept.outcomes(cases)


@dataclass(frozen=True)
class Kept:
    """The results of one tree in a file, a line of JSON for every case that has run."""

    path: Path

    def _lines(self) -> dict[str, dict[str, Any]]:
        """By the keys of the cases, the last of a key; a line cut short does not count."""
        found = {}
        for line in self.path.read_text().splitlines() if self.path.exists() else ():
            try:
                result = json.loads(line)
            except ValueError:
                continue
            found[result["key"]] = result
        return found

    def missing(self, cases: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        """Cases that have no result yet."""
        there = self._lines()
        return [case for case in cases if case["key"] not in there]

    def outcomes(self, cases: Iterable[dict[str, Any]]) -> dict[str, Any]:
        """Outcomes by the names of the cases."""
        there = self._lines()
        return {c["name"]: there[c["key"]]["outcome"] for c in cases if c["key"] in there}


def run(
    tree: Path,
    cases: Sequence[dict[str, Any]],
    results: Path,
    label: str,
    cold: bool = False,
) -> None:
    """Run cases with the packages of `tree`, in a process of its own; adds to `results`."""
    print(f"{label}: {len(cases)} cases", flush=True)
    if results.exists() and not results.read_bytes().endswith(b"\n"):  # of a run cut short
        with results.open("a") as file:
            file.write("\n")
    begin, used = time.monotonic(), _processor_seconds()
    with tempfile.TemporaryDirectory(prefix="plancc-replay-") as folder:
        job = Path(folder, "cases.json")
        job.write_text(json.dumps({"plans": PLANS, "graphs": GRAPHS, "cases": cases}))
        work = Path(folder, "work")
        work.mkdir()
        packages = [tree, *(tree / name for name in PACKAGES[1:])]
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PLANCC_", "OMPI_", "PMI", "SLURM_", "NUMBA_"))
        }
        environment |= {
            "PYTHONPATH": os.pathsep.join(map(str, packages)),
            "SOURCE_DATE_EPOCH": "1700000000",
            "COLUMNS": "120",
            "NO_COLOR": "1",
            **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"),
        }
        if cold:
            environment["NUMBA_CACHE_DIR"] = str(Path(folder, "kernels"))
        script = Path(__file__).with_name("replay_corpus.py")
        command = [sys.executable, "-P", script, tree, job, results.resolve(), SHARED]
        done = subprocess.run(
            list(map(str, command)), cwd=work, env=environment, stdin=subprocess.DEVNULL
        )
    if done.returncode:
        print(f"{label}: ended with code {done.returncode}", file=sys.stderr)
        raise SystemExit(2)
    wall, used = time.monotonic() - begin, _processor_seconds() - used
    print(f"{label}: {wall:.0f} s, {used:.0f} s of them computing", flush=True)


def _processor_seconds() -> float:
    """CPU seconds of all processes that this one started and that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def work_tree(commit: str) -> Iterator[Path]:
    """The files of a commit in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="plancc-tree-") as folder:
        tree = Path(folder, "tree")
        _git("worktree", "add", "--detach", "--force", str(tree), commit)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def sources_hash(tree: Path, packages: Sequence[str] = PACKAGES) -> str:
    """Hash of the names and contents of all files of the packages."""
    found = hashlib.sha256()
    for package in packages:
        for path in sorted((tree / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(f"{path.relative_to(tree)}\0".encode())
                found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _key(case: dict[str, Any], place: str) -> str:
    """Under which the result of a case is kept: what it is, what runs it, and where."""
    used = [PLANS.get(name) for name in (*case.get("plans", ()), case.get("plan", ""))]
    graphs = [
        case.get("graph", ""),
        *case.get("inputs", ()),
        *(p["graph"] for p in used if p),
    ]
    made = [GRAPHS.get(name) for name in graphs]
    text = json.dumps([case, used, made, place], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _place() -> str:
    """The script that runs cases, the installed libraries and the processor: other ones may round
    otherwise."""
    script = Path(__file__).with_name("replay_corpus.py").read_bytes()
    installed = sorted(
        f"{each.name} {each.version}" for each in distributions() if each.name != "plancc"
    )
    processor = platform.processor()
    cpus = Path("/proc/cpuinfo")
    if cpus.exists():
        lines = cpus.read_text().splitlines()
        processor += "".join(line for line in lines if line.startswith(("model name", "flags")))
    text = "\n".join([platform.python_version(), processor, *installed])
    return hashlib.sha256(script + text.encode()).hexdigest()


def _git(*words: str) -> str:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"git {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
