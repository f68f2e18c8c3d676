"""Automatic choices of `plancc compile` and `plancc-run`, each forced to every way.

    python -m benchmarks choices                        what is measured is kept, so that it goes on
    python -m benchmarks choices order social,road 1x2  some choices, settings and ranks x threads
    python -m benchmarks choices --kept                 rows of earlier sources count too

The ways of a choice take turns in one group of processes (`benchmarks.choices_ranks`). A ratio is
the median over the rounds of the chosen way's seconds over another's; "CPU" is the same of the CPU
time of all ranks, which tells more on a busy machine, but counts waiting for messages too. The
table's end has the choices that are furthest from the best way.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

import plancc
from benchmarks.generated import web
from benchmarks.inputs import ROOT, SHARED, Inputs, environment, launched
from benchmarks.replay import sources_hash
from benchmarks.report import Report
from benchmarks.tables import Table
from plancc.graph.graph import Graph
from plancc_datasets import load_dataset
from plancc_lab.kept import Kept
from plancc_runtime.options import PASSES

PLACES = ((1, 2), (1, 1), (4, 1), (2, 1))
"""Ranks, and threads of each; every choice is made in the first or the third."""
MOST = 1.05
"""The target: the chosen way over the best one."""


# ------------------------------------------------------------------ choices


@dataclass(frozen=True)
class Way:
    """What forces a way of a choice; nothing: the automatic one.

    Attributes:
        train, compile: Options of `TrainOptions`, of `plancc.compile`.
        patches: Values of names in the runtime, while the run is made and trains.
    """

    train: Mapping[str, Any] = field(default_factory=dict)
    compile: Mapping[str, Any] = field(default_factory=dict)
    patches: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """A choice, and the ways that it is between.

    Attributes:
        rule: Where it is made.
        ways: By name; the first is the automatic one.
        state: What tells the ways apart after the first epochs, so that the automatic one is known
            by the name of the other that is the same. None: the first has a name of its own.
        base: Options of `TrainOptions`.
        compile: Options of `plancc.compile`, where a way has no other.
        ranks, threads: The least of both.
    """

    rule: str
    ways: Mapping[str, Way]
    state: Callable[[Any], Any] | None = None
    base: Mapping[str, Any] = field(default_factory=dict)
    compile: Mapping[str, Any] = field(default_factory=dict)
    ranks: int = 1
    threads: int = 1

    def is_made(self, ranks: int, threads: int) -> bool:
        """Return whether the choice exists on this number of ranks, and threads of each."""
        return self.ranks <= ranks and self.threads <= threads


def _forced(first: str, kind: str, values: Mapping[str, Mapping[str, Any]]) -> dict[str, Way]:
    """The automatic way by its name, and ways by values of a field of `Way`."""
    return {first: Way()} | {name: Way(**{kind: value}) for name, value in values.items()}


def _options(first: str, kind: str, option: str, *values: Any) -> dict[str, Way]:
    """The same for values of one option."""
    return _forced(first, kind, {str(value): {option: value} for value in values})


def _on_all_threads(execution: Any) -> None:
    """Make batches on a thread of their own, and leave no core to it."""
    execution._thread, execution._ahead = ThreadPoolExecutor(1), True


def _ahead(run: Any) -> tuple[Any, ...]:
    made = run._execution
    return made._ahead, made._thread is not None, made._threads


def _orders(run: Any) -> list[str]:
    products = [vars(conv).get("_linear") or conv._aggregate for conv in run.network.convs]
    return [each._order for each in products]


def _without(name: str) -> tuple[str, ...]:
    return tuple(each for each in PASSES if each != name)


def _content(run: Any) -> str:
    return str(run.content)


ALWAYS, NEVER = 0, 1 << 62
"""Values of a constant from which on something is worth it."""
ORDERS = "aggregate-first", "project-first"
LAYOUTS = "hp", "medium-grain", "libra", "cagnet-1d", "cagnet-2d", "mop"
START, TRY = (f"execution.mini_batches.MiniBatches.{each}" for each in ("_start_thread", "_try"))
WORKS = "kernels.numba_spmm.THREAD_WORK", "kernels.tall.THREAD_WORK"
LEAST, LARGEST = "kernels.dense.LEAST_WORK", "kernels.dense.MOST_WEIGHTS"
GROUPS = "layouts.halo.GROUP_ROWS", "layouts.matrices.GROUP_NONZEROS"
BLOCKS, REUSED = "kernels.numba_spmm.best_count", "workspace.LEAST_BYTES"
FULL: dict[str, Any] = {"model": "gcn", "layers": 3}
BATCHES: dict[str, Any] = {
    **{"model": "sage", "layers": 2, "sampler": "neighbour", "batch_size": 1024},
    **{"fanouts": (5, 10), "steps": 20},  # choices are made in the first 32
}
OF_BOTH = {
    "order": Choice(
        "nn/conv.py LinearAggregation, plan/convolutions.py in_order",
        _forced("by layer", "train", {each: {"model_options": {"order": each}} for each in ORDERS}),
        _orders),
    "threads": Choice("run.py, transport/base.py cores_per_rank",
        _options("auto", "train", "threads", 1, 2), lambda run: run._threads, threads=2),
    "threads of kernels": Choice("kernels/numba_spmm.py, kernels/tall.py THREAD_WORK",
        _forced("by work", "patches", {"one": dict.fromkeys(WORKS, NEVER),
                                       "all": dict.fromkeys(WORKS, 1)}), threads=2),
    "dense products": Choice("kernels/dense.py LEAST_WORK, MOST_WEIGHTS",
        _forced("by size", "patches", {"torch": {LEAST: NEVER},
                                       "compiled": {LEAST: ALWAYS, LARGEST: NEVER}})),
    "kernel": Choice("kernels/spmm.py usual_kernel",
        _options("numba", "train", "kernel", "torch")),
    "passes": Choice("options.py PASSES",
        _forced("all", "train", {f"no {each}": {"passes": _without(each)} for each in PASSES[1:]})),
    "recompute": Choice("options.py", _options("kept", "train", "recompute", True)),
    "memory again": Choice("workspace.py LEAST_BYTES",
        _forced("by size", "patches", {"always": {REUSED: ALWAYS}, "never": {REUSED: NEVER}})),
}  # fmt: skip
"""Those of the full batch and of mini-batches."""
CHOICES: dict[str, Choice] = {
    "drawing ahead": Choice("execution/mini_batches.py TURNS",
        {"auto": Way(), "in turn": Way({"passes": _without("overlap")})}
        | _forced("auto", "patches", {
            "in pauses": dict.fromkeys((START, TRY), lambda *_: None),
            "beside, all threads": {START: _on_all_threads}}),
        _ahead, BATCHES),
    "draw": Choice("layouts/draws.py PER_NONZERO, PER_MESSAGE, PER_WORD",
        _options("auto", "train", "draw", "owners", "everywhere"),
        lambda run: run._drawn_by.partition(":")[0], BATCHES, ranks=2),
    "feature cache": Choice("execution/mini_batches.py SHARE_OF_OWN, LEAST_CACHE",
        _forced("an eighth", "train", {"none": {"feature_cache": 0},
                                       "all": {"feature_cache": NEVER}}), base=BATCHES, ranks=2),
    **{f"{name} in batches": replace(each, base=BATCHES) for name, each in OF_BOTH.items()},
    **{name: replace(each, base=FULL) for name, each in OF_BOTH.items()},
    "row order": Choice("layouts/order.py in_order",
        _options("none", "train", "row_order", "rcm", "degree"), base=FULL),
    "column blocks": Choice("kernels/column_blocks.py best_count",
        _forced("by estimate", "patches", {
            str(each): {BLOCKS: lambda *_, count=each: count} for each in (1, 4, 16)}), base=FULL),
    "wire": Choice("options.py", _options("fp32", "train", "wire", "bf16"), base=FULL, ranks=2),
    "groups of messages": Choice("layouts/halo.py GROUP_ROWS, layouts/matrices.py GROUP_NONZEROS",
        _forced("by size", "patches", {"each alone": dict.fromkeys(GROUPS, 1),
                                       "together": dict.fromkeys(GROUPS, NEVER)}),
        base=FULL, ranks=4),
    "exchange": Choice("nodes.py fits", _options("flat", "train", "exchange", "nodes"),
        base=FULL, compile={"topology": "2x2", "exchange": "nodes"}, ranks=4),
    "pipeline": Choice("layouts/pipeline.py, plan/stages.py wanted_stages",
        _options("off", "train", "pipeline", "auto", "2", "4"),
        base=FULL, compile={"model": "mop"}, ranks=2),
    "layout": Choice("owners/choice.py, owners/prices.py",
        _options("auto", "compile", "model", *LAYOUTS), _content,
        FULL, compile={"model": "auto"}, ranks=4),
    "balance": Choice("models/weights.py DEFAULT_BALANCE",
        _options("auto", "compile", "balance", "nnz", "rows", "nnz:0.1,rows"), _content,
        FULL, ranks=2),
    "objective": Choice("options.py for_search",
        _options("auto", "compile", "objective", "volume", "time", "max-volume"), _content,
        FULL, ranks=2),
}  # fmt: skip


# ------------------------------------------------------------------ settings


@dataclass(frozen=True)
class Setting:
    """A graph of the shared ones, or else a generated one, and what is trained on it.

    Attributes:
        file: Name of the shared graph; "": always the generated one.
        generated: Makes a graph that is like it, of 2^scale vertices.
        widths: Of features, hidden layers and classes.
        train: Share of training vertices.
    """

    file: str
    generated: Callable[[int], Graph]
    widths: tuple[int, int, int]
    train: float

    def graph(self, quick: bool) -> Graph:
        path = SHARED / f"{self.file}.mtx.gz"
        if quick or not path.is_file():
            return self.generated(8 if quick else 16)
        return plancc.read_graph(path, symmetrize=True)

    @property
    def options(self) -> dict[str, Any]:
        """Options of training."""
        features, hidden, classes = self.widths
        rest = (1 - self.train) / 2
        split = (self.train, rest, rest)
        return {"random_features": features, "hidden": hidden, "classes": classes, "split": split}


def _grid(scale: int) -> Graph:
    return load_dataset("grid", rows=1 << scale // 2, cols=1 << (scale + 1) // 2).graph


def _rmat(scale: int) -> Graph:
    return load_dataset("rmat", scale=scale, edge_factor=8, seed=1).graph


SETTINGS = {
    "social": Setting("soc-Slashdot0902", _rmat, (128, 128, 16), 0.6),
    "road": Setting("USA-road.NY", _grid, (64, 64, 16), 0.6),
    "web": Setting("", lambda scale: web(1 << scale, links=10), (128, 128, 16), 0.3),
    "mesh": Setting("delaunay_n15", _grid, (64, 256, 8), 0.05),
    "many features": Setting("AmazonPhoto", _rmat, (745, 128, 8), 0.6),
    "few": Setting("dblp-2010", _rmat, (8, 16, 4), 0.6),
}


# ------------------------------------------------------------------ measuring


@dataclass(frozen=True)
class Cell:
    """A choice in a setting, on ranks of some threads."""

    choice: str
    setting: str
    ranks: int
    threads: int

    @property
    def key(self) -> tuple[str | int, ...]:
        return self.choice, self.setting, self.ranks, self.threads

    @property
    def name(self) -> str:
        return f"{self.choice}, {self.setting}, {self.ranks}x{self.threads}"


@dataclass
class Bench:
    """Measures what is not kept yet."""

    inputs: Inputs
    kept: Kept

    def run(self, cells: Sequence[Cell]) -> None:
        """Measure in a group of processes for each setting and place; a line for each cell."""
        missing = [cell for cell in cells if cell.key not in self.kept]
        for setting, place in dict.fromkeys((c.setting, (c.ranks, c.threads)) for c in missing):
            some = [c for c in missing if (c.setting, (c.ranks, c.threads)) == (setting, place)]
            for cell, found in zip(some, self._measured(some), strict=True):
                self.kept.put(cell.key, found)
                print(line(cell, found), flush=True)

    def _measured(self, cells: Sequence[Cell]) -> Iterator[dict[str, Any]]:
        """Figures of cells of the same setting and place, as they come."""
        ranks, threads = cells[0].ranks, cells[0].threads
        setting = SETTINGS[cells[0].setting]
        asked = [
            {
                "choice": cell.choice,
                "options": setting.options,
                "plans": {
                    name: str(self._plan(cell, {**CHOICES[cell.choice].compile, **way.compile}))
                    for name, way in CHOICES[cell.choice].ways.items()
                },
            }
            for cell in cells
        ]
        file = self.inputs.folder / "choices.json"
        file.write_text(json.dumps({"cells": asked, "quick": self.inputs.quick, "cores": threads}))
        command = [sys.executable, "-m", "benchmarks.choices_ranks", str(file)]
        given = environment() | {"OMPI_MCA_mpi_yield_when_idle": "1"}
        given.pop("OMP_NUM_THREADS", None)  # as a user has it
        with subprocess.Popen(
            command if ranks == 1 else [*launched(ranks), "--bind-to", "none", *command],
            cwd=ROOT,
            env=given,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            yield from map(json.loads, process.stdout)

    def _plan(self, cell: Cell, options: Mapping[str, Any]) -> Path:
        """Return a plan for the cell, which is compiled once."""
        small = "-quick" * self.inputs.quick
        stem = f"choices-{cell.setting.replace(' ', '-')}{small}"
        graph = self.inputs.folder / f"{stem}.mtx"
        if not graph.exists():
            plancc.write_graph(SETTINGS[cell.setting].graph(self.inputs.quick), graph)
        words = "".join(f"-{name}-{value}" for name, value in options.items())
        path = graph.with_name(f"{stem}-{cell.ranks}{words.replace(':', '_')}.h5")
        if not path.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", plancc.PlanccWarning)
                asked = {"model": "hp", "num_parts": cell.ranks, **options}
                if "model" not in options:  # those that assign parts have none
                    asked["effort"] = "fast"
                plancc.compile(graph, **asked).save(path)
        return path


def line(cell: Cell, found: Mapping[str, Any]) -> str:
    """A row in words."""
    if "failed" in found:
        return f"{cell.name}: {found['failed']}"
    ways = ", ".join(f"{name} {_ms(each)}" for name, each in found["seconds"].items())
    behind, best = furthest(found)
    return (
        f"{cell.name}: {ways} ms; chosen: {found['chosen']}, over the best ({best}) {behind:.3f}, "
        f"CPU {over(found, 'cpu', best):.3f}, slower in {_lost(found, best)} rounds"
    )


def over(found: Mapping[str, Any], what: str, other: str) -> float:
    """Median over the rounds of the chosen way's "seconds" or "cpu" over another way's."""
    ours, theirs = found[what][found["chosen"]], found[what][other]
    return median(a / b for a, b in zip(ours, theirs, strict=True))


def furthest(found: Mapping[str, Any]) -> tuple[float, str]:
    """The chosen way over the best one, which is it itself or another, and which."""
    return max((over(found, "seconds", name), name) for name in found["seconds"])


def _lost(found: Mapping[str, Any], other: str) -> str:
    """In how many of the rounds the other way was quicker."""
    ours, theirs = found["seconds"][found["chosen"]], found["seconds"][other]
    return f"{sum(a > b for a, b in zip(ours, theirs, strict=True))}/{len(ours)}"


def _ms(seconds: Sequence[float]) -> str:
    return f"{1e3 * median(seconds):.4g}"


def table(rows: Sequence[tuple[Cell, Mapping[str, Any]]]) -> Table:
    """All rows, those furthest from the best way last."""
    shown = Table(
        "Automatic choices: milliseconds of an epoch, or a compile; chosen over best",
        [
            "choice",
            "setting",
            "ranks",
            "threads",
            "chosen",
            "ms",
            "best",
            "ms",
            "over",
            "CPU",
            "slower",
        ],
        left=2,
    )
    whole = [(cell, found) for cell, found in rows if "failed" not in found]
    for cell, found in sorted(whole, key=lambda row: furthest(row[1])[0]):
        behind, best = furthest(found)
        chosen, seconds = found["chosen"], found["seconds"]
        shown.rows.append(
            [
                *(*map(str, cell.key), chosen, _ms(seconds[chosen]), best, _ms(seconds[best])),
                *(f"{behind:.3f}", f"{over(found, 'cpu', best):.3f}", _lost(found, best)),
            ]
        )
    return shown


# ------------------------------------------------------------------ how it is called


def cells_of(named: Sequence[str], quick: bool) -> list[Cell]:
    """The cells of what is named: choices, settings and places; all of what is not.

    If `quick`, the first of each choice.
    """
    places = {f"{ranks}x{threads}": (ranks, threads) for ranks, threads in PLACES}
    kinds: list[Sequence[str]] = [[*SETTINGS], [*places], [*CHOICES]]
    chosen = [[each for each in named if each in kind] or kind for kind in kinds]
    cells = [
        Cell(choice, setting, *places[place])
        for setting, place, choice in product(*chosen)
        if CHOICES[choice].is_made(*places[place])
    ]
    return list({cell.choice: cell for cell in reversed(cells)}.values()) if quick else cells


def run(inputs: Inputs, named: Sequence[str] = (), any_sources: bool = False) -> Report:
    kept = Kept(
        inputs.results("choices") / f"choices{'-quick' * inputs.quick}.jsonl",
        sources_hash(ROOT, ("plancc", "runtime")),
        any_sources,
    )
    cells = cells_of(named, inputs.quick)
    Bench(inputs, kept).run(cells)
    rows = [(cell, kept[cell.key]) for cell in cells if cell.key in kept]
    shown = table(rows)
    shown.show(Console(highlight=False, width=160))
    report = Report([f"{len(rows)} of {len(cells)} rows; {len(rows) - len(shown.rows)} failed"])
    for cell, found in rows:
        if "failed" not in found and furthest(found)[0] > MOST:
            report.notes.append(f"{cell.name}: {CHOICES[cell.choice].rule}")
    ratios = [furthest(found)[0] for _, found in rows if "failed" not in found]
    if ratios:
        report.add("worst choice over the best way", max(ratios), MOST)
    return report


def main(arguments: Sequence[str]) -> int:
    """The command line."""
    known = (*CHOICES, *SETTINGS, *(f"{ranks}x{threads}" for ranks, threads in PLACES))
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks choices", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", metavar="NAME,...", help=f"{'; '.join(known)} [all]")
    parser.add_argument("--quick", action="store_true", help="small graphs: shows that all works")
    parser.add_argument("--kept", action="store_true", help="rows of earlier sources count too")
    parser.add_argument("--folder", type=Path, help="where graphs, plans and rows are kept")
    given = parser.parse_args(arguments)
    names = [name for words in given.names for name in words.split(",")]
    for name in names:
        if name not in known:
            parser.error(f"unknown name '{name}': choose from {'; '.join(known)}")
    with tempfile.TemporaryDirectory(prefix="plancc-bench-") as temporary:
        folder = (given.folder or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        run(Inputs(folder, given.quick, kept=given.folder is not None), names, given.kept)
    return 0
