"""What plans move on fresh mini-batches, and what drawing batches and building their model costs.

    python -m benchmarks.minibatches --json FILE --markdown FILE      everything; hours
    python -m benchmarks.minibatches --graphs 4elt -p 3 --shares 0.06 --batches 100
    python -m benchmarks minibatches                                  the promised figures

Graphs are read and normalised as `plancc compile` does by default. All methods of a cell see the
batches, which no compiler has seen. What runs numba code is called once untimed before.

    sizes      all methods, by batch size; stochastic-hp is made for exactly that size
    recipe     Demirci et al. 2022's: the nets of a few batches, partitioned by Mt-KaHyPar
    samplers   stochastic-hp for samplers without known probabilities
    drawing    seconds to draw batches, vertices and nonzeros
    building   seconds and memory of the model, without any partitioner
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import plancc
from benchmarks.comparison import environment
from benchmarks.inputs import SHARED, Inputs
from benchmarks.minibatch_methods import (
    HP,
    HP_ALONE,
    OURS,
    PAPER_SHARE,
    RECIPE_BATCHES,
    RIVALS,
    Bench,
    Draw,
    Options,
    Owner,
    model_of,
    small_matrix,
)
from benchmarks.minibatch_results import (
    BATCH_SEED,
    STUDIES,
    Results,
    better,
    cell_table,
    markdown,
    mean_over,
    of_the_mean,
    over,
    summaries,
)
from benchmarks.refinement import ENVIRONMENT, status_bytes
from benchmarks.report import Report
from plancc.cost.batches import batch_figures, estimate, expected_volume, ratio
from plancc.errors import PlanccError
from plancc.files import atomic_write, check_target
from plancc.graph.formats import write_graph
from plancc.graph.graph import Graph
from plancc.graph.normalize import normalize
from plancc.models.limits import part_weights
from plancc.models.problem import Hypergraph
from plancc.plan.metrics import imbalance
from plancc.search.expectation import expectation_of
from plancc_datasets import load_dataset

GRAPHS = ("dblp-2010", "soc-Slashdot0902", "USA-road.NY")
"""All that is not by batch size is measured on the first one."""
PARTS = (3, 9, 27)
SHARES = (0.01, PAPER_SHARE, 0.25, 0.6)
PAPER_SIZE = 20_000
"""Vertices of a batch in Demirci et al. 2022."""
RECIPE_PARTS, RECIPE_SHOWN = (9, 27), 100
"""Numbers of parts, and fresh batches that the recipe's plans are seen on."""
SAMPLERS = (Draw("neighbour", 1024, (10, 5)), Draw("walk"), Draw("cluster"))
SAMPLER_PARTS = (9,)
DRAWN = 10
"""Times the batches of a cell: so many are drawn for the clock."""
BUILDS: dict[str, tuple[Draw, float]] = {
    "exact": (Draw("uniform", PAPER_SIZE), 0.1),
    "fitted": (Draw("uniform", PAPER_SIZE), 0.1),
    "first sample": (Draw("neighbour", 1024, (10, 10)), 0.1),
    "largest sample": (Draw("neighbour", 1024, (10, 10)), 1e-4),
}
"""Name of a model, sampler and theta; a tiny theta asks for the largest sample at once. "fitted" is
what a named partitioner gets, the others are what the search works on."""
BUILDING_PARTS = 27


# ---------------------------------------------------------------------------- what is measured


@dataclass(frozen=True)
class Cell:
    """Methods on the same batches of one graph."""

    study: str
    graph: str
    num_parts: int
    draw: Draw
    methods: tuple[str, ...]
    batches: int

    @property
    def key(self) -> str:
        return f"{self.study}: {self.graph}, p = {self.num_parts}, {self.draw}"

    def measure(self, bench: Bench) -> dict[str, Any]:
        matrix, options = bench.matrix(self.graph), bench.options
        sampler = self.draw.sampler(matrix.num_vertices)
        rows: dict[str, dict[str, Any]] = {}
        owners: dict[str, Owner] = {}
        for name in self.methods:
            try:
                found = bench.owners(self.graph, self.num_parts, name, self.draw)
            except PlanccError as error:
                rows[name] = {"failed": str(error)}
            else:
                owners[name] = found.owner
                load = part_weights(found.owner, matrix.row_nonzeros(), self.num_parts)
                rows[name] = {"seconds": found.seconds, "notes": found.notes,
                              "imbalance": imbalance(load)}  # fmt: skip
        population = bench.population(self.graph, sampler)
        with bench.observer(f"{self.key}: {self.batches} batches"):
            figures = batch_figures(
                sampler,
                population,
                [(owner, self.num_parts) for owner in owners.values()],
                range(self.batches),
                seed=BATCH_SEED,
                threads=options.threads,
            )
        volumes = {name: each.volume for name, each in zip(owners, figures, strict=True)}
        most_pins = 1 + int(np.bincount(matrix.indices, minlength=1).max())
        inclusion = sampler.inclusion(population, most_pins)
        for name, volume in volumes.items():
            row = rows[name]
            row |= asdict(estimate(volume))
            row["expected"] = None if inclusion is None else expected_volume(
                inclusion, matrix.indptr, matrix.indices, owners[name], self.num_parts
            )  # fmt: skip
            row["over"] = {
                base: None if (found_ratio := ratio(volume, other)) is None else asdict(found_ratio)
                for base, other in volumes.items()
                if base != name
            }
        return {
            "study": self.study,
            "graph": self.graph,
            "num_parts": self.num_parts,
            "draw": str(self.draw),
            "size": self.draw.size,
            "sampler": str(sampler),
            "batches": self.batches,
            "rows": rows,
        }


@dataclass(frozen=True)
class Drawing:
    """Drawing batches one after the other, on as many threads as the options say."""

    graph: str
    number: int

    @property
    def key(self) -> str:
        return f"drawing: {self.graph}, {self.number}"

    def measure(self, bench: Bench) -> dict[str, Any]:
        sampler = Draw("uniform", PAPER_SIZE).sampler(bench.matrix(self.graph).num_vertices)
        population = bench.population(self.graph, sampler)

        def draw(number: int) -> int:
            return len(sampler.batch(population, BATCH_SEED, number).block(0).columns)

        draw(0)
        start = time.perf_counter()
        with bench.observer(self.key), ThreadPoolExecutor(bench.options.threads) as pool:
            nonzeros = sum(pool.map(draw, range(self.number)))
        return {
            "study": "drawing",
            "graph": self.graph,
            "sampler": str(sampler),
            "batches": self.number,
            "nonzeros": nonzeros / self.number,
            "seconds": time.perf_counter() - start,
        }


@dataclass(frozen=True)
class Building:
    """One of `BUILDS`, in a process of its own."""

    graph: str
    name: str

    @property
    def key(self) -> str:
        return f"building: {self.graph}, {self.name}"

    def measure(self, bench: Bench) -> dict[str, Any]:
        child = "import sys; from benchmarks.minibatches import build; build(*sys.argv[1:])"
        with bench.observer(self.key):
            done = subprocess.run(
                [sys.executable, "-c", child, str(bench.graphs[self.graph].resolve()), self.name],
                check=True,
                capture_output=True,
                text=True,
                cwd=Path(__file__).parents[1],
                env=os.environ | ENVIRONMENT,
            )
        measured = {"study": "building", "graph": self.graph, "model": self.name}
        return measured | json.loads(done.stdout)


def build(path: str, name: str) -> None:
    """Build one model, timed, and print what it took as JSON; in a process of its own."""
    _build(small_matrix(), name)
    matrix = normalize(plancc.read_graph(path))
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
    held = status_bytes("VmRSS")
    start = time.perf_counter()
    sampler, problem = _build(matrix, name)
    seconds = time.perf_counter() - start
    peak = status_bytes("VmHWM")
    figures = {
        "sampler": sampler,
        "seconds": seconds,
        "pins_per_nonzero": len(problem.pins) / matrix.num_nonzeros,
        "bytes_per_nonzero": None
        if held is None or peak is None
        else (peak - held) / matrix.num_nonzeros,
    }
    print(json.dumps(figures))


def _build(matrix: Graph, name: str) -> tuple[str, Hypergraph]:
    """The sampler in words, and the hypergraph."""
    draw, theta = BUILDS[name]
    sampler, parts = draw.sampler(matrix.num_vertices), BUILDING_PARTS
    model = model_of(sampler, theta=theta)
    if name == "fitted":
        return str(sampler), model.build(matrix, parts, balance="nnz", seed=1)
    expectation = expectation_of(model, matrix, matrix.row_nonzeros(), parts, 1)
    return str(sampler), expectation.problem


Step = Cell | Drawing | Building


def steps_of(
    graphs: Sequence[str],
    parts: Sequence[int],
    shares: Sequence[float],
    batches: int,
    studies: Sequence[str] = STUDIES,
) -> list[Step]:
    """All steps, graph by graph; only `sizes` on others than the first graph."""
    sizes = ("rp", *RIVALS, OURS)
    recipe = ("rp", HP_ALONE, *(f"{k} batches" for k in RECIPE_BATCHES), OURS)
    steps: list[Step] = []
    for graph in graphs:
        first = graph == graphs[0]
        for p in parts:
            steps += [Cell("sizes", graph, p, Draw(size=each), sizes, batches) for each in shares]
            if first and p in RECIPE_PARTS:
                draw = Draw(size=PAPER_SIZE)
                steps.append(Cell("recipe", graph, p, draw, recipe, min(batches, RECIPE_SHOWN)))
            if first and p in SAMPLER_PARTS:
                methods = (*RIVALS, OURS)
                steps += [Cell("samplers", graph, p, draw, methods, batches) for draw in SAMPLERS]
        if first:
            steps.append(Drawing(graph, DRAWN * batches))
            steps += [Building(graph, name) for name in BUILDS]
    return [step for step in steps if step.key.split(":")[0] in studies]


def measure(
    results: Results,
    bench: Bench,
    steps: Sequence[Step],
    on_step: Callable[[dict[str, Any]], None] = lambda found: None,
) -> None:
    """Fill `results` with the steps that it does not hold yet; cells with a failure are redone."""
    for step in steps:
        found = results.found.get(step.key)
        if found is None or any("failed" in row for row in found.get("rows", {}).values()):
            results.found[step.key] = found = step.measure(bench)
        on_step(found)


# ---------------------------------------------------------------------------- the promised figures


def run(inputs: Inputs) -> Report:
    """The targets: the mean over hp, never above hp and gp, the closed form, seconds, memory."""
    if inputs.quick:
        path = inputs.folder / "rmat-minibatches.mtx"
        write_graph(load_dataset("rmat", scale=11, edge_factor=8, seed=1).graph, path)
        graphs, missing = {path.stem: path}, []
        steps = steps_of([*graphs], (9,), (PAPER_SHARE,), 50)
    else:
        graphs, missing = _named(GRAPHS)
        steps = steps_of([*graphs], PARTS, SHARES, Options.batches)
    results = Results(Options(batches=50 if inputs.quick else Options.batches))
    kept = inputs.folder / "minibatches.json"
    measure(results, Bench(graphs, results.options), steps, lambda found: results.write(kept))

    names = ", ".join(graphs) or "no graph"
    report = Report([f"{names}; geometric means; every figure with --folder: {kept.name} in it"])
    report.notes.append("least: lower end of the paired 95% interval, in the worst cell")
    report.notes += [f"{name}: skipped, {SHARED} lacks it" for name in missing]
    add_figures(report, results)
    return report


def add_figures(report: Report, results: Results) -> None:
    """Figures beside their targets; NaN, and missed, where there is nothing to measure."""
    sizes, samplers = results.of("sizes"), results.of("samplers")
    cells = [cell for cell in of_the_mean(sizes) if cell["size"] == PAPER_SHARE]
    what = f"{100 * PAPER_SHARE:g}%: stochastic-hp / {{}}, mean of {len(cells)}"
    report.add(what.format(HP), mean_over(cells, HP), 0.85)
    report.add(what.format(HP_ALONE), mean_over(cells, HP_ALONE))
    for name, cells in (("by size", sizes), ("by sampler", samplers)):
        found = [(over(cell["rows"], OURS, better(cell["rows"])), cell) for cell in cells]
        lows = [(each["low"], cell) for each, cell in found if each and each["low"] is not None]
        low, worst = max(lows, key=lambda each: each[0], default=(math.nan, None))
        report.add(f"{name}: stochastic-hp / best of hp, gp: least, worst", low, 1.0)
        if worst is not None:
            where = f"{worst['graph']}, p = {worst['num_parts']}, {worst['draw']}"
            report.notes.append(f"{name}, most over the best of hp and gp: {where}")
    off = [
        abs(row["mean"] - row["expected"]) / (row["high"] - row["mean"])
        for cell in sizes
        for row in cell["rows"].values()
        if row.get("expected") is not None and (row["high"] or 0) > row["mean"]
    ]
    worst_off = max(off, default=math.nan)
    report.add("closed form - mean, in half intervals, worst", worst_off, 2.0)
    outside = sum(each > 1 for each in off) / len(off) if off else math.nan
    report.add(f"  outside the interval, share of {len(off)}", outside)
    for each in results.of("drawing"):
        what = f"drawing {each['batches']:,} batches"
        report.add(what, each["seconds"], 60.0, unit="s")
    for each in results.of("building"):
        target = 10.0 if each["model"] in ("exact", "fitted") else None
        report.add(f"building, {each['model']}", each["seconds"], target, unit="s")
        if each["bytes_per_nonzero"] is not None:
            report.add("  memory per nonzero", each["bytes_per_nonzero"], unit="bytes")


def _named(names: Sequence[str]) -> tuple[dict[str, Path], list[str]]:
    """Files by name, and names that are missing; a name is a path, or one in `SHARED`."""
    graphs, missing = {}, []
    for name in names:
        path = Path(name) if Path(name).is_file() else SHARED / f"{name}.mtx.gz"
        if path.is_file():
            graphs[path.name.removesuffix(".gz").removesuffix(".mtx")] = path
        else:
            missing.append(name)
    return graphs, missing


# ---------------------------------------------------------------------------- the measurement


def main(arguments: Sequence[str] | None = None) -> None:
    parser = _parser()
    given = parser.parse_args(arguments)
    graphs, missing = _named(given.graphs)
    options = Options(given.batches, given.epsilon, given.seed, given.threads)
    if given.batches < 2:
        parser.error(f"--batches {given.batches}: at least 2 are needed for an interval")
    if unknown := [name for name in given.studies if name not in STUDIES]:
        parser.error(f"--studies {unknown[0]}: choose from {', '.join(STUDIES)}")
    results = _start(parser, given, options)
    folder = None if given.json is None else given.json.with_suffix(".owners")

    console = Console(highlight=False)
    console.width = max(console.width, 190)  # tables are not to lose digits
    for name in missing:
        console.print(f"{name}: skipped, no such file, and {SHARED} lacks it", soft_wrap=True)
    bench = Bench(graphs, options, folder, given.resume, console.status)
    steps = steps_of([*graphs], given.parts, given.shares, given.batches, given.studies)

    def on_step(found: dict[str, Any]) -> None:
        if "rows" in found:
            cell_table(found).show(console)
        if given.json:
            results.write(given.json)

    try:
        measure(results, bench, steps, on_step)
    except KeyboardInterrupt:
        again = "; the same command with --resume goes on" if given.json else ""
        console.print(f"interrupted{again}")
        sys.exit(130)
    for table in summaries(results):
        table.show(console)
    if given.markdown:
        with atomic_write(given.markdown) as temporary:
            temporary.write_text(markdown(results))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.minibatches",
        description="Rows that plans move on fresh mini-batches.",
    )
    add = parser.add_argument
    add("--graphs", type=_list(str), default=list(GRAPHS), metavar="NAME,...", help="files, or "
        f"names in the shared data folder [{','.join(GRAPHS)}]")  # fmt: skip
    add("-p", "--parts", type=_list(int), default=list(PARTS), metavar="P,...")
    add("--shares", type=_list(float), default=list(SHARES), metavar="S,...", help="batch sizes, "
        "as shares of the vertices")  # fmt: skip
    add("--batches", type=int, default=Options.batches, help="fresh ones, that plans are seen on")
    add("--studies", type=_list(str), default=list(STUDIES), metavar="NAME,...",
        help=f"what to measure [{','.join(STUDIES)}]")  # fmt: skip
    add("--epsilon", type=float, default=Options.epsilon)
    add("--seed", type=int, default=Options.seed)
    add("--threads", type=int, default=Options.threads)
    add("--json", type=Path, metavar="FILE", help="all figures, written after each step; owners "
        "are kept in FILE's name with .owners")  # fmt: skip
    add("--resume", action="store_true", help="keep what the JSON file has, do the rest")
    add("--markdown", type=Path, metavar="FILE", help="write all tables as Markdown")
    return parser


def _list(kind: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    def parsed(text: str) -> list[Any]:
        return [kind(word) for word in text.split(",")]

    parsed.__name__ = f"list of {kind.__name__}"  # in argparse's errors
    return parsed


def _start(parser: argparse.ArgumentParser, given: argparse.Namespace, options: Options) -> Results:
    """Nothing yet, or with ``--resume`` what is in the JSON file."""
    try:
        for path in (given.json, given.markdown):
            if path is not None:
                check_target(path)
    except PlanccError as error:
        parser.error(str(error))
    if given.resume and given.json is None:
        parser.error("--resume needs --json FILE")
    if not given.resume or not given.json.exists():
        return Results(options)
    try:
        results = Results.read(given.json)
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        parser.error(f"{given.json} was not written by this benchmark ({error})")
    if results.options != options:
        parser.error(f"{given.json} was made with other options: {results.options}")
    if results.environment != environment():
        parser.error(f"{given.json} was made elsewhere or otherwise: {results.environment}")
    return results


if __name__ == "__main__":
    main()
