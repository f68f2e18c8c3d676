"""How long models take for graphs of extreme shapes: stars, cliques, one full row, empty graphs.

    python -m benchmarks extremes                     all; the results are kept, so that it goes on
    python -m benchmarks.extremes --shapes star --models fine-grain,libra --parts 256
    python -m benchmarks.extremes --kept --markdown   the table of what was measured, whenever

Every plan is compiled by a process of its own, with one thread, within a time limit. Seconds are
CPU time of `plancc.compile` and its children, without the compilation of kernels; memory is the
most that the process, or one of its children, held. A plan is `within` if it took at most 3 times
the seconds of model rp and 10 more.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

import plancc
from benchmarks.generated import SHAPES, extreme
from benchmarks.inputs import ROOT, Inputs
from benchmarks.replay import sources_hash
from benchmarks.report import Report
from benchmarks.tables import Table
from plancc.clock import compilation
from plancc.errors import PlanccError
from plancc.models import MODELS
from plancc_lab.kept import Kept

VERTICES = 200_000
CLIQUE = 2_000
"""Vertices of the clique, whose nonzeros are their square."""
SMALL = 256
"""Vertices of the graphs that are cut into as many parts."""
QUICK = 300
PARTS = (256, 2, 1)
BASELINE = "rp"
EFFORTS = ("balanced", "fast")
TIMES, MORE = 3, 10.0
"""A model may take so many times the seconds of the baseline, and so many seconds more."""
LIMIT = 150
"""Seconds of CPU time after which a process is ended."""
WAITING = 6
"""Factor by which it may take longer on the wall."""
COMPILED = 0.2
"""Seconds of compilation above which a plan is compiled again."""
BARE = {"normalize": "none", "self_loops": False}
"""Settings for graphs that are not to get a diagonal."""
SETTINGS: dict[str, dict[str, Any]] = {"empty": BARE, "loops": BARE}


@dataclass(frozen=True)
class Cell:
    """One plan: a shape and its number of vertices, a model, an effort ("" where none is)."""

    shape: str
    vertices: int
    num_parts: int
    model: str
    effort: str = ""

    @property
    def key(self) -> tuple[str | int, ...]:
        return (self.shape, self.vertices, self.num_parts, self.model, self.effort)

    @property
    def name(self) -> str:
        effort = f", {self.effort}" if self.effort else ""
        return f"{self.shape}, n = {self.vertices:,}, p = {self.num_parts}: {self.model}{effort}"

    def measured(self) -> dict[str, Any]:
        """Compile the plan in this process: seconds, volume, or the sentence that declines."""
        graph = extreme(self.shape, self.vertices)
        settings = dict(SETTINGS.get(self.shape, {}))
        if self.effort:
            settings["effort"] = self.effort
        compiling, found = compilation(), dict[str, Any]()
        before = compiling.seconds()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            begin = sum(os.times()[:4]) - compiling.seconds()
            try:
                plan = plancc.compile(graph, self.model, self.num_parts, **settings)
            except PlanccError as error:
                found["declined"] = str(error)
            found["seconds"] = sum(os.times()[:4]) - compiling.seconds() - begin
        if "declined" not in found:
            figures = plan.metrics()
            found |= {"volume": figures.volume, "messages": figures.messages}
        found["warnings"] = [f"{each.category.__name__}: {each.message}" for each in told]
        own, children = (
            resource.getrusage(who).ru_maxrss
            for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        found["compiling"] = compiling.seconds() - before
        return found | {"memory": max(own, children) * 1024}


def cells(
    vertices: int,
    shapes: Sequence[str],
    parts: Sequence[int],
    models: Sequence[str],
    efforts: Sequence[str] = EFFORTS,
) -> Iterator[Cell]:
    """All plans; without `parts` those of `PARTS`, and at the end of as many parts as vertices."""

    def of(shape: str, vertices: int, num_parts: int) -> Iterator[Cell]:
        yield Cell(shape, vertices, num_parts, BASELINE)
        for model in models:
            for effort in efforts if searched(model) else ("",):
                if model != BASELINE:
                    yield Cell(shape, vertices, num_parts, model, effort)

    for num_parts in parts or PARTS:
        for shape in shapes:
            most = min(CLIQUE, vertices) if shape == "clique" else vertices
            yield from of(shape, most, min(num_parts, most))
    for shape in shapes if not parts else ():
        yield from of(shape, SMALL, SMALL)


def searched(model: str) -> bool:
    """Whether the model has efforts."""
    return bool(MODELS[model].searched) or model == "auto"


@dataclass(frozen=True)
class Bench:
    """Makes and looks up results."""

    cells: list[Cell]
    kept: Kept

    def run(self) -> None:
        """Do what is not kept yet, and print a line for each."""
        missing = [cell for cell in self.cells if cell.key not in self.kept]
        for number, cell in enumerate(missing, 1):
            found = self.kept.step(cell.key, partial(in_own_process, cell))
            print(f"{number}/{len(missing)} {cell.name}: {self.line(cell, found)}", flush=True)

    def line(self, cell: Cell, found: dict[str, Any]) -> str:
        """What was found, in words."""
        if "failed" in found:
            return f"FAILED {found['failed']}"
        words = f"{found['seconds']:.2f} s, {found['memory'] / 2**20:,.0f} MiB"
        words += f", volume {found['volume']:,}" if "volume" in found else ", declined"
        return words + ("" if self.within(cell) else " TOO LONG")

    def within(self, cell: Cell) -> bool | None:
        """Whether a plan was made in time or declined; None: neither is known."""
        baseline = Cell(cell.shape, cell.vertices, cell.num_parts, BASELINE).key
        if cell.key not in self.kept or baseline not in self.kept:
            return None
        found, least = self.kept[cell.key], self.kept[baseline]
        if "failed" in found or "failed" in least:
            return False
        return bool(found["seconds"] <= TIMES * least["seconds"] + MORE)

    def table(self) -> Table:
        """The slowest plan of every shape and number of parts, and what is too long or declined."""
        head = ["shape", "vertices", "parts", BASELINE, "slowest", "model", "memory", "too long"]
        table = Table("Seconds of models", [*head, "declined"], left=1)
        for shape, vertices, num_parts in dict.fromkeys(cell.key[:3] for cell in self.cells):
            mine = [c for c in self.cells if c.key[:3] == (shape, vertices, num_parts)]
            mine = [cell for cell in mine if cell.key in self.kept]
            found = {cell: self.kept[cell.key] for cell in mine}
            made = {cell: each for cell, each in found.items() if "volume" in each}
            if not made:
                continue
            slowest = max(made, key=lambda cell: made[cell]["seconds"])
            memory = max(each["memory"] for each in made.values())
            base = next((made[c]["seconds"] for c in made if c.model == BASELINE), float("nan"))
            late = sum(self.within(cell) is False for cell in mine)
            declined = ", ".join(dict.fromkeys(c.model for c in mine if "declined" in found[c]))
            row = [str(shape), f"{vertices:,}", str(num_parts), f"{base:.2f}"]
            row += [f"{made[slowest]['seconds']:.2f}", f"{slowest.model} {slowest.effort}".strip()]
            table.rows.append([*row, f"{memory / 2**20:,.0f} MiB", str(late), declined])
        return table


def in_own_process(cell: Cell) -> dict[str, Any]:
    """What `Cell.measured` returns; "failed" with the reason where it does not return.

    Where kernels were compiled it is done again: those seconds are of the wall, not of the CPU.
    """
    found = _in_own_process(cell)
    return _in_own_process(cell) if found.get("compiling", 0) > COMPILED else found


def _in_own_process(cell: Cell) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.extremes", "--cell", json.dumps(asdict(cell))]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=WAITING * LIMIT
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"not ended after {WAITING * LIMIT} s"}
    if done.returncode == -signal.SIGXCPU:
        return {"failed": f"not ended after {LIMIT} s of CPU time"}
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no word"]
        return {"failed": f"exit code {done.returncode}: {last[0]}"}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def bench_of(inputs: Inputs, any_sources: bool, *what: Any) -> Bench:
    """The benchmark of some shapes, numbers of parts, models and efforts (`cells`)."""
    path = inputs.results("extremes") / "extremes.jsonl"
    kept = Kept(path, sources_hash(ROOT, ("plancc",)), any_sources)
    vertices = QUICK if inputs.quick else VERTICES
    return Bench([*cells(vertices, *what)], kept)


def all_models() -> tuple[str, ...]:
    """All but the one that reads its owners."""
    return tuple(name for name in MODELS if name != "file")


def run(inputs: Inputs) -> Report:
    bench = bench_of(inputs, False, SHAPES, (), all_models())
    bench.run()
    console = Console(highlight=False)
    console.width = max(console.width, 160)
    bench.table().show(console)
    report = Report([f"{len(bench.cells)} plans; every row is kept in {bench.kept.path}"])
    late = sum(bench.within(cell) is False for cell in bench.cells)
    report.add(f"plans that took more than {TIMES} x {BASELINE} + {MORE:.0f} s", late, 0)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.extremes", description=__doc__)
    parser.add_argument("--shapes", help=f"comma-separated [{','.join(SHAPES)}]")
    parser.add_argument("--models", help="comma-separated [all]")
    parser.add_argument("--parts", help=f"comma-separated [{','.join(map(str, PARTS))},n]")
    parser.add_argument("--efforts", help=f"comma-separated [{','.join(EFFORTS)}]")
    parser.add_argument("--quick", action="store_true", help="small graphs")
    parser.add_argument("--kept", action="store_true", help="show what is kept, of any sources")
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    parser.add_argument("--folder", type=Path, help="where the results are kept [build/extremes]")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.cell:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
        print(json.dumps(Cell(**json.loads(given.cell)).measured()))
        return
    folder = given.folder or ROOT / "build" / "extremes"
    folder.mkdir(parents=True, exist_ok=True)
    bench = bench_of(
        Inputs(folder, given.quick, kept=True),
        given.kept,
        given.shapes.split(",") if given.shapes else SHAPES,
        [*map(int, given.parts.split(","))] if given.parts else (),
        given.models.split(",") if given.models else all_models(),
        given.efforts.split(",") if given.efforts else EFFORTS,
    )
    if not given.kept:
        bench.run()
    table = bench.table()
    if given.markdown:
        print(table.markdown())
        return
    console = Console(highlight=False)
    console.width = max(console.width, 160)
    table.show(console)


if __name__ == "__main__":
    main()
