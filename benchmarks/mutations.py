"""Whether the tests notice a changed line: ``python -m benchmarks mutations CONTEXTS``.

Random one-line changes of the product, each in a copy of the tree: another operator, another
constant, a statement less. The tests that run the line, the quickest first, must fail. Which
tests run it is read off the data of `make coverage` (CONTEXTS); a line of a kernel, which coverage
cannot see, counts as run where its callers are. Rows go to a file as they come, so that the command
can be resumed; the same seed gives the same changes of the same tree.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = (
    "plancc",
    "runtime/plancc_runtime",
    "cli/plancc_cli",
    "datasets/plancc_datasets",
    "lab/plancc_lab",
)
SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
DELETABLE = (ast.AugAssign, ast.Expr, ast.Raise)
MOST_TESTS = 100
"""Tests of a change at most, the quickest of those that run its line."""
HANG = 20
"""Seconds after which a test counts as failed."""
TIME_OVER = "no time"


@dataclass(frozen=True)
class Mutation:
    """One changed line: `line` of `file` becomes `new`."""

    file: str
    line: int
    old: str
    new: str
    function: str


def _changed(node: ast.AST) -> ast.AST | None:
    """What takes the node's place."""
    if isinstance(node, ast.BinOp | ast.AugAssign | ast.BoolOp) and type(node.op) in SWAPS:
        return SWAPS[type(node.op)]()
    if isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPS:
        return SWAPS[type(node.ops[0])]()
    return None


def _operators(tree: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Statements with one change each: (statement, its new source)."""
    for statement in ast.walk(tree):
        if not isinstance(statement, ast.stmt) or hasattr(statement, "body"):
            continue
        if isinstance(statement, ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # a docstring
        for node in ast.walk(statement):
            swap = _changed(node)
            if swap is not None:
                holder, key = (node, "op") if hasattr(node, "op") else (node.ops, 0)
                old = node.op if key == "op" else node.ops[0]
                setattr(holder, key, swap) if key == "op" else holder.__setitem__(0, swap)
                yield statement, ast.unparse(statement)
                setattr(holder, key, old) if key == "op" else holder.__setitem__(0, old)
            elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
                old = node.value
                node.value = not old if isinstance(old, bool) else old + 1
                yield statement, ast.unparse(statement)
                node.value = old
        if isinstance(statement, DELETABLE):
            yield statement, "pass"


def mutations_of(file: Path) -> list[Mutation]:
    """Every change of one file that is written on one line."""
    source = file.read_text()
    lines = source.splitlines()
    tree = ast.parse(source)
    functions = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)]
    found = []
    for statement, new in _operators(tree):
        number = statement.lineno
        if statement.end_lineno != number or ";" in lines[number - 1]:
            continue
        around = [f for f in functions if f.lineno <= number <= (f.end_lineno or 0)]
        if not around:
            continue  # constants of modules are tuned numbers, whose value no test holds
        old = lines[number - 1]
        indent = old[: len(old) - len(old.lstrip())]
        if old.strip() != ast.get_source_segment(source, statement):
            continue  # a part of a line
        name = max(around, key=lambda f: f.lineno).name
        found.append(Mutation(str(file.relative_to(ROOT)), number, old, indent + new, name))
    return found


def chosen(count: int, seed: int) -> list[Mutation]:
    """`count` changes of the product's lines, every possible one equally likely."""
    files = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
    every = [mutation for file in files for mutation in mutations_of(file)]
    return random.Random(seed).sample(every, count)


class Contexts:
    """Which tests run which lines."""

    def __init__(self, path: Path, seconds: dict[str, float]) -> None:
        from coverage import CoverageData

        self.data = CoverageData(str(path))
        self.data.read()
        self.files = {str(Path(f).relative_to(ROOT)): f for f in self._measured()}
        self.seconds = seconds
        self.sources = {file: (ROOT / file).read_text().splitlines() for file in self.files}

    def _measured(self) -> list[str]:
        return [f for f in self.data.measured_files() if Path(f).is_relative_to(ROOT)]

    def _of_line(self, file: str, line: int) -> set[str]:
        if file not in self.files:
            return set()
        found = self.data.contexts_by_lineno(self.files[file]).get(line, [])
        return {test for context in found for test in _tests(context)}

    def tests(self, mutation: Mutation) -> list[str]:
        """Those that run the line or, of a kernel's line, its callers; the quickest first."""
        found = self._of_line(mutation.file, mutation.line)
        names, asked = {mutation.function}, set()
        while not found and names:
            asked |= names
            callers = set()
            for file, lines in self.sources.items():
                for number, text in enumerate(lines, 1):
                    if any(f"{name}(" in text or f"{name}," in text for name in names):
                        found |= self._of_line(file, number)
                        callers.add(self._function(file, number))
            names = callers - asked - {""}
        return sorted(found, key=lambda test: self.seconds.get(test, 0.1))

    def _function(self, file: str, line: int) -> str:
        for text in reversed(self.sources[file][: line - 1]):
            stripped = text.strip()
            if stripped.startswith("def "):
                return stripped[4:].partition("(")[0]
        return ""


def seconds_of(log: Path | None) -> dict[str, float]:
    """Seconds of tests as pytest lists them: ``1.23s call     tests/...``."""
    found: dict[str, float] = {}
    for line in () if log is None else log.read_text().splitlines():
        words = line.split(maxsplit=2)
        if len(words) == 3 and words[1] in ("setup", "call") and words[0].endswith("s"):
            found[words[2]] = found.get(words[2], 0.0) + float(words[0][:-1])
    return found


def _tests(context: str) -> Iterator[str]:
    """A context is ``test|phase``, with that of a child process before it where there is one."""
    for word in context.split("|"):
        test = word.partition(" (")[0]
        if test.startswith("tests/") and "::" in test:
            yield test


class Tree:
    """A copy of the project in which lines are changed, one at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        leave = shutil.ignore_patterns(".venv", ".git", "build", "__pycache__", "*_cache")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(ROOT, folder, ignore=leave)
        places = (str(folder / part) for part in (".", "cli", "runtime", "datasets", "lab"))
        self.environment = os.environ | {"PYTHONPATH": os.pathsep.join(places)}
        # a kernel fits where its source is: here all of them are new
        words = [sys.executable, "-m", "plancc_cli.main", "warm-up", "--quiet"]
        subprocess.run(words, cwd=folder, env=self.environment, check=True)

    def first_failure(self, tests: list[str], seconds: float) -> str:
        """The first test that fails or hangs; "" if none does, `TIME_OVER` for too little time."""
        words = [sys.executable, "-m", "pytest", "-x", "-p", "no:xdist", f"--timeout={HANG}"]
        try:
            done = subprocess.run(
                [*words, *tests],
                cwd=self.folder,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=seconds,
            )
        except subprocess.TimeoutExpired:
            return TIME_OVER
        failed = re.findall(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
        unknown = set(re.findall(rf"^ERROR: .*{re.escape(str(self.folder))}/(tests/.+)$",
                                 done.stderr + done.stdout, re.MULTILINE))  # fmt: skip
        known = [t for t in tests if not {t, t.partition("[")[0]} & unknown]
        if done.returncode == 4 and len(known) < len(tests):  # ids that hold an address
            return self.first_failure(known, seconds) if known else ""
        return "" if done.returncode in (0, 5) else (failed or ["all of them"])[0]

    def notices(self, mutation: Mutation, tests: list[str], seconds: float) -> str:
        """The test that fails with the change and passes without it; "" if there is none,
        `TIME_OVER` if none has failed when the time was over."""
        path = self.folder / mutation.file
        source = path.read_text()
        lines = source.splitlines(keepends=True)
        assert lines[mutation.line - 1].rstrip("\n") == mutation.old
        lines[mutation.line - 1] = mutation.new + "\n"
        until = time.monotonic() + seconds
        while tests and time.monotonic() < until:
            path.write_text("".join(lines))
            try:
                failed = self.first_failure(tests, until - time.monotonic())
            finally:
                path.write_text(source)
            if not failed or failed not in tests:
                return failed
            if not self.first_failure([failed], seconds):
                return failed
            tests = tests[tests.index(failed) + 1 :]
        return TIME_OVER if tests else ""


def main(words: list[str]) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks mutations", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("contexts", type=Path, help="data of `make coverage`")
    parser.add_argument("--log", type=Path, help="what pytest said there with --durations=0")
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=120, help="of the tests of one change")
    parser.add_argument("--rows", type=Path, default=Path("build/mutations.jsonl"))
    given = parser.parse_args(words)
    contexts = Contexts(given.contexts, seconds_of(given.log))
    given.rows.parent.mkdir(parents=True, exist_ok=True)
    old = given.rows.read_text().splitlines() if given.rows.exists() else []
    rows = {(r["file"], r["line"], r["new"]): r["noticed"] for r in map(json.loads, old)}
    todo = chosen(given.count, given.seed)
    free = [Tree(given.rows.with_suffix("") / str(k)) for k in range(given.jobs)]

    def tried(mutation: Mutation) -> None:
        key = (mutation.file, mutation.line, mutation.new)
        if key in rows:
            return
        tests = contexts.tests(mutation)[:MOST_TESTS]
        tree, start = free.pop(), time.monotonic()
        rows[key] = tree.notices(mutation, tests, given.seconds)
        free.append(tree)
        row = asdict(mutation) | {"noticed": rows[key], "tests": len(tests)}
        with given.rows.open("a") as file:
            file.write(json.dumps(row) + "\n")
        kinds = {TIME_OVER: TIME_OVER, "": "not noticed" if tests else "no test"}
        ended = kinds.get(rows[key], "noticed")
        spent = time.monotonic() - start
        print(f"{ended:11} {spent:5.0f} s  {mutation.file}:{mutation.line}", flush=True)

    with ThreadPoolExecutor(given.jobs) as pool:
        list(pool.map(tried, todo))
    ends = [rows[m.file, m.line, m.new] for m in todo]
    decided = [end for end in ends if end != TIME_OVER]
    print(
        f"{sum(map(bool, decided))} of {len(decided)} noticed, {ends.count(TIME_OVER)} without time"
    )
    return 0
