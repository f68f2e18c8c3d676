"""Which default trains fast: predicted epochs of plans by what their parts share evenly.

    python -m benchmarks defaults                     all; the results are kept, so that it goes on
    python -m benchmarks.defaults --graphs email-Enron --parts 64
    python -m benchmarks.defaults --kept --markdown   tables of what was measured, whenever

Plans of model hp, one thread, seed 1, compiled as a user does. One search serves all machines and
widths, unless what it minimises or balances depends on them; parts are numbered for every machine.
The time is the one prediction (`plancc.predict.predictor`), and that of a random partition is that
of `plancc compile`. Volumes and compile times are over those of the paper's recipe, balance nnz and
objective volume, at the same effort; compile times are CPU time.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from rich.console import Console

import plancc
from benchmarks.inputs import ROOT, SHARED, Inputs
from benchmarks.means import geometric_mean
from benchmarks.replay import sources_hash
from benchmarks.report import Report
from benchmarks.tables import Table
from plancc.graph.graph import Graph
from plancc.graph.normalize import normalize
from plancc.graph.owners import Owners
from plancc.options import SearchOptions
from plancc.owners.numbering import with_better_numbers
from plancc.predict.machine import Machine
from plancc.predict.machine_files import find_machine
from plancc_datasets import load_dataset
from plancc_lab.kept import Kept

GRAPHS = (
    "email-Enron",
    "cit-HepTh",
    "CoauthorCS",
    "wiki-Vote",
    "AmazonPhoto",
    "musae-github",
    "delaunay_n15",
    "finan512",
    "USA-road.NY",
    "soc-Slashdot0902",
    "fb100-Cornell5",
    "dblp-2010",
)
PARTS = (64, 8, 256)
LEAST_ROWS = 10
"""Rows per part below which a graph is left out."""
MACHINES = ("cpu-cluster", "summit", "h100", "small-cpu")
DIMS = ("128,128,16", "50,50,50", "602,128,41", "1433,16,7")
Place = tuple[str, str]
"""A machine and widths."""
PLACES: tuple[Place, ...] = tuple(product(MACHINES, DIMS))
HOME = PLACES[0]
"""The machine and the widths that searches are for which serve all."""


@dataclass(frozen=True)
class Way:
    """Options that make a plan.

    Attributes:
        settings: Options of `plancc.compile`; the model is hp, unless they say otherwise.
        places: Machines and widths that get a search.
        of_machine, of_dims: Whether a search depends on the machine, on the widths; else one serves
            all.
    """

    settings: dict[str, Any]
    places: tuple[Place, ...] = (HOME,)
    of_machine: bool = False
    of_dims: bool = False
    efforts: tuple[str, ...] = ("fast",)
    parts: tuple[int, ...] = PARTS

    def place(self, place: Place) -> Place | None:
        """The place whose search serves `place`; None: there is none."""
        machine, dims = place
        home_machine, home_dims = HOME
        served = machine if self.of_machine else home_machine, dims if self.of_dims else home_dims
        return served if served in self.places else None


PAPER, DEFAULT = "nnz", "nnz:0.1,rows"
"""Names of the paper's recipe and of the default."""
BOTH = "fast", "balanced"
WAYS = {
    PAPER: Way({"balance": "nnz", "objective": "volume"}, efforts=BOTH),
    "nnz,rows": Way({"balance": "nnz,rows"}),
    "nnz:0.03,rows": Way({"balance": "nnz:0.03,rows"}),
    DEFAULT: Way({"balance": DEFAULT}, efforts=BOTH),
    "nnz:0.05,rows": Way({"balance": "nnz:0.05,rows"}),
    "nnz:0.2,rows": Way({"balance": "nnz:0.2,rows"}),
    "nnz:0.3,rows": Way({"balance": "nnz:0.3,rows"}),
    "nnz:0.05,rows:0.03": Way({"balance": "nnz:0.05,rows:0.03"}),
    "rows": Way({"balance": "rows"}),
    "work": Way({"balance": "work"}, tuple((HOME[0], dims) for dims in DIMS), of_dims=True),
    "time, hp": Way(
        {"objective": "time"},
        tuple(place for place in PLACES if HOME[0] in place or HOME[1] in place),
        of_machine=True,
        of_dims=True,
        parts=(64,),
    ),
    "time": Way({"objective": "time", "model": None}, of_machine=True, of_dims=True, parts=(64,)),
}
QUICK_WAYS = (PAPER, DEFAULT, "work", "time, hp", "time")
QUICK_PARTS = (64, 8)

GAIN, WORST, VOLUME, SECONDS = 0.79, 0.9, 1.1, 1.3
"""What the default is to reach: epochs over random's at p = 64, and figures over the paper's."""


@dataclass(frozen=True)
class Cell:
    """A plan or, without a way, the random partition: of a graph, for so many parts."""

    graph: str
    num_parts: int
    way: str = ""
    effort: str = ""
    place: Place = HOME

    @property
    def key(self) -> tuple[str | int, ...]:
        return (self.graph, self.num_parts, self.way, self.effort, *self.place)


@dataclass
class Bench:
    """Makes and looks up results."""

    graphs: dict[str, Path]
    parts: Sequence[int]
    ways: dict[str, Way]
    kept: Kept
    _read: dict[str, tuple[Graph, Graph]] = field(default_factory=dict)

    def cells(self) -> Iterator[Cell]:
        """All that is to be done, quick graphs and the first number of parts first."""
        for num_parts, graph in product(self.parts, self.graphs):
            yield Cell(graph, num_parts)
            for name, way in self.ways.items():
                for effort, place in product(way.efforts, way.places):
                    if num_parts in way.parts:
                        yield Cell(graph, num_parts, name, effort, place)

    def run(self) -> None:
        """Do what is not kept yet, and print a line for each."""
        missing = [cell for cell in self.cells() if cell.key not in self.kept]
        if not missing:
            return
        warm_up(self.ways)
        begin = time.perf_counter()
        for number, cell in enumerate(missing, 1):
            found = self.kept.step(cell.key, partial(self.measured, cell))
            print(f"{number}/{len(missing)}, {time.perf_counter() - begin:.0f} s: ", end="")
            print(self.line(cell, found), flush=True)

    def line(self, cell: Cell, found: dict[str, Any]) -> str:
        """What was found of a cell, in words."""
        name = f"{cell.graph}, p = {cell.num_parts}"
        if not found:
            return f"{name}: left out, fewer than {LEAST_ROWS} rows per part"
        if not cell.way:
            return f"{name}: random"
        random = self.found(Cell(cell.graph, cell.num_parts))["epochs"]
        served = [place for place in PLACES if self.ways[cell.way].place(place) == cell.place]
        ratios = (f"{found['epochs'][_key(place)] / random[_key(place)]:.3f}" for place in served)
        return (
            f"{name}, {cell.way}, {cell.effort}, {' '.join(cell.place)}: over random "
            f"{' '.join(ratios)}; volume {found['volume']:,}, {found['cpu_seconds']:.1f} s"
        )

    def found(self, cell: Cell) -> dict[str, Any]:
        """What is kept of a cell; empty where it is left out or not there."""
        if cell.key not in self.kept:
            return {}
        return dict(self.kept.step(cell.key, dict))

    def measured(self, cell: Cell) -> dict[str, Any]:
        """Volume, imbalances, seconds of the compiler and predicted epochs by place."""
        graph, matrix = self.graph(cell.graph)
        if matrix.num_vertices < LEAST_ROWS * cell.num_parts:
            return {}
        if not cell.way:
            return random_epochs(matrix, cell.num_parts)
        machine, dims = find_machine(cell.place[0]), cell.place[1]
        if not self.ways[cell.way].of_machine:  # parts are numbered below, for every machine
            machine = replace(machine, node=replace(machine.node, ranks=1))
        begin, before = time.perf_counter(), os.times()
        plan = _plan(graph, cell, machine, dims, self.ways[cell.way].settings)
        spent = sum(os.times()[:4]) - sum(before[:4])  # of the partitioner's process too
        seconds, figures = time.perf_counter() - begin, plan.metrics()
        if self.ways[cell.way].of_machine:
            epochs = {_key(cell.place): plan.provenance["epoch_seconds"]}
        else:
            served = [p for p in PLACES if self.ways[cell.way].place(p) == cell.place]
            owners = Owners(plan.owner())
            epochs = {_key(p): _numbered(matrix, owners, cell.num_parts, p) for p in served}
        return {
            "epochs": epochs,
            "volume": figures.volume,
            "nonzero_imbalance": figures.nonzero_imbalance,
            "row_imbalance": figures.row_imbalance,
            "cpu_seconds": spent,
            "seconds": seconds,
        }

    def graph(self, name: str) -> tuple[Graph, Graph]:
        """A graph and its normalised matrix; the last one is kept."""
        if name not in self._read:
            self._read.clear()
            graph = plancc.read_graph(self.graphs[name])
            self._read[name] = graph, normalize(graph)
        return self._read[name]

    # -------------------------------------------------------------- ratios

    def epochs(self, way: str, effort: str, num_parts: int, place: Place) -> dict[str, float]:
        """Predicted epochs over random's by graph, of those that have both."""
        served = self.ways[way].place(place)
        if served is None:
            return {}
        found = {}
        for graph in self.graphs:
            ours = self.found(Cell(graph, num_parts, way, effort, served))
            random = self.found(Cell(graph, num_parts))
            if ours and random:
                found[graph] = ours["epochs"][_key(place)] / random["epochs"][_key(place)]
        return found

    def over_paper(self, way: str, effort: str, num_parts: int, what: str) -> dict[str, float]:
        """A figure over that of the paper's recipe at the same effort, by graph."""
        found = {}
        for graph in self.graphs:
            ours = self.found(Cell(graph, num_parts, way, effort))
            papers = self.found(Cell(graph, num_parts, PAPER, effort))
            if ours and papers:
                found[graph] = ours[what] / papers[what]
        return found


def _key(place: Place) -> str:
    return " ".join(place)


def _options(place: Place) -> SearchOptions:
    machine, dims = place
    return SearchOptions(machine=machine, dims=tuple(map(int, dims.split(","))), seed=1)


def _numbered(matrix: Graph, owners: Owners, num_parts: int, place: Place) -> float:
    """The predicted epoch of owners whose parts the compiler would number for this machine."""
    options = _options(place)
    numbered = with_better_numbers(matrix, owners, num_parts, options)
    return options.predictor.of_owners(matrix, numbered, num_parts).seconds


def _plan(graph: Graph, cell: Cell, machine: Machine, dims: str, settings: dict[str, Any]) -> Any:
    """The plan of a cell, compiled without a word."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plancc.PlanccWarning)
        widths = tuple(map(int, dims.split(",")))
        asked = {"model": "hp", "effort": cell.effort, "machine": machine, "dims": widths}
        return plancc.compile(graph, num_parts=cell.num_parts, **(asked | settings))


def random_epochs(matrix: Graph, num_parts: int) -> dict[str, Any]:
    """Predicted epochs of the random partition, and the bounds, by place."""
    epochs, bounds = {}, {}
    for place in PLACES:
        predictor = _options(place).predictor
        epochs[_key(place)] = predictor.of_random(matrix, num_parts).seconds
        sizes = matrix.num_vertices, matrix.num_nonzeros
        bounds[_key(place)] = predictor.bound(*sizes, num_parts)
    return {"epochs": epochs, "bounds": bounds}


def warm_up(ways: dict[str, Way]) -> None:
    """Compile a small graph in every way, so that numba's time does not count."""
    graph = load_dataset("rmat", scale=11, edge_factor=8, seed=1).graph
    for way, effort in product(ways.values(), BOTH):
        _plan(graph, Cell("", 64, "", effort), *HOME, way.settings)


# ------------------------------------------------------------------ what it shows


def tables(bench: Bench) -> Iterator[Table]:
    """Means and worst graphs by place, per number of parts and effort; then graph by graph."""
    for effort, num_parts in product(BOTH, sorted(bench.parts)):
        names = [name for name in bench.ways if _has(bench, name, effort, num_parts)]
        if not names:
            continue
        table = Table(
            f"p = {num_parts}, effort {effort}: epochs over random's, geometric mean / worst graph",
            ["machine", "dims", *names],
            left=2,
        )
        for place in PLACES:
            ratios = [[*bench.epochs(name, effort, num_parts, place).values()] for name in names]
            table.rows.append([*place, *(_mean_and_worst(each) for each in ratios)])
        for title, what in (("volume", "volume"), ("compile time", "cpu_seconds")):
            ratios = [[*bench.over_paper(name, effort, num_parts, what).values()] for name in names]
            cells = (_mean_and_worst(each) for each in ratios)
            table.rows.append([f"{title} over {PAPER}", "", *cells])
        yield table
    yield from _by_graph(bench)
    yield _overall(bench)


def _by_graph(bench: Bench) -> Iterator[Table]:
    """Epochs on the home machine, graph by graph."""
    if 64 not in bench.parts:
        return
    table = Table(
        f"p = 64, effort fast, {HOME[0]}, {HOME[1]}: epochs over random's",
        ["graph", *bench.ways, "bound"],
    )
    columns = [bench.epochs(name, "fast", 64, HOME) for name in bench.ways]
    for graph in bench.graphs:
        random = bench.found(Cell(graph, 64))
        if random:
            bound = random["bounds"][_key(HOME)] / random["epochs"][_key(HOME)]
            cells = [_digits(each.get(graph)) for each in columns]
            table.rows.append([graph, *cells, _digits(bound)])
    means = [_digits(geometric_mean([*each.values()])) for each in columns]
    table.rows.append(["geometric mean", *means, ""])
    yield table


def _overall(bench: Bench) -> Table:
    """All graphs, numbers of parts and places of one effort together."""
    table = Table(
        "All graphs, machines, dims and p, effort fast",
        [
            *("way", "epoch over random's", "worst", "slower than random", "over the best way"),
            *(f"volume over {PAPER}", f"compile time over {PAPER}"),
        ],
    )
    cases = [*product(bench.parts, PLACES)]
    every = {
        name: {
            (graph, *case): ratio
            for case in cases
            for graph, ratio in bench.epochs(name, "fast", *case).items()
        }
        for name, way in bench.ways.items()
        if set(bench.parts) <= set(way.parts)
    }
    for name, ratios in every.items():
        if not ratios:
            continue
        best = [min(other.get(case, ratio) for other in every.values())
                for case, ratio in ratios.items()]  # fmt: skip
        behind = [ratio / least for ratio, least in zip(ratios.values(), best, strict=True)]
        slower = sum(ratio > 1 for ratio in ratios.values()) / len(ratios)
        of_paper = [
            geometric_mean(
                [
                    ratio
                    for num_parts in bench.parts
                    for ratio in bench.over_paper(name, "fast", num_parts, what).values()
                ]
            )
            for what in ("volume", "cpu_seconds")
        ]
        table.rows.append(
            [
                *(name, _digits(geometric_mean([*ratios.values()])), _digits(max(ratios.values()))),
                *(f"{slower:.0%}", _digits(geometric_mean(behind))),
                *map(_digits, of_paper),
            ]
        )
    return table


def _has(bench: Bench, name: str, effort: str, num_parts: int) -> bool:
    way = bench.ways[name]
    return effort in way.efforts and any(
        bench.epochs(name, effort, num_parts, place) for place in way.places
    )


def _mean_and_worst(ratios: list[float]) -> str:
    return f"{geometric_mean(ratios):.3f} / {max(ratios):.3f}" if ratios else "-"


def _digits(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


# ------------------------------------------------------------------ how it is called


def run(inputs: Inputs) -> Report:
    bench, note = bench_of(inputs)
    bench.run()
    console = Console(highlight=False)
    console.width = max(console.width, 160)
    console.print()
    for table in tables(bench):
        table.show(console)
    what = f"of {DEFAULT}: geometric means; epochs are predicted for {HOME[0]}, dims {HOME[1]}"
    report = Report([note, what])
    for effort in BOTH:
        ratios = bench.epochs(DEFAULT, effort, 64, HOME)
        where = f"p = 64, {effort}"
        report.add(f"{where}: epoch / random's", geometric_mean([*ratios.values()]), GAIN)
        report.add(f"{where}: epoch / random's, worst graph", max(ratios.values()), WORST)
        for title, what, target in (
            ("volume", "volume", VOLUME),
            ("compile time", "cpu_seconds", SECONDS),
        ):
            mean = geometric_mean([*bench.over_paper(DEFAULT, effort, 64, what).values()])
            report.add(f"{where}: {title} / {PAPER}", mean, target)
    return report


def bench_of(inputs: Inputs, any_sources: bool = False) -> tuple[Bench, str]:
    """The benchmark of these inputs, and a note on its graphs."""
    graphs, note = _graphs(inputs)
    names = QUICK_WAYS if inputs.quick else WAYS
    kept = Kept(
        inputs.results("defaults") / "defaults.jsonl",
        sources_hash(ROOT, ("plancc",)),
        any_sources,
    )
    parts = QUICK_PARTS if inputs.quick else PARTS
    return Bench(graphs, parts, {name: WAYS[name] for name in names}, kept), note


def _graphs(inputs: Inputs) -> tuple[dict[str, Path], str]:
    """Graphs by name, and which these are."""
    found = {name: SHARED / f"{name}.mtx.gz" for name in GRAPHS}
    found = {name: path for name, path in found.items() if path.exists()}
    if found and not inputs.quick:
        return found, f"{len(found)} graphs of {SHARED}"
    generated: dict[str, dict[str, Any]] = {
        "rmat": {"scale": 10, "seed": 1},
        "grid": {"rows": 32, "cols": 32},
    }
    paths = {}
    for name, options in generated.items():
        paths[name] = inputs.folder / f"defaults-{name}.mtx"
        plancc.write_graph(load_dataset(name, **options).graph, paths[name])
    return paths, f"generated graphs: {', '.join(paths)}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.defaults", description=__doc__)
    parser.add_argument("--graphs", help=f"comma-separated [{', '.join(GRAPHS)}]")
    parser.add_argument("--parts", help="comma-separated numbers [8,64,256]")
    parser.add_argument("--ways", help=f"comma-separated by ';' [{'; '.join(WAYS)}]")
    parser.add_argument(
        "--kept", action="store_true", help="results of earlier sources count, nothing is run"
    )
    parser.add_argument("--markdown", action="store_true", help="tables for the documentation")
    given = parser.parse_args()
    bench, _ = bench_of(Inputs(ROOT / "build" / "defaults", quick=False), given.kept)
    if given.graphs:
        bench.graphs = {name: bench.graphs[name] for name in given.graphs.split(",")}
    if given.parts:
        bench.parts = [*map(int, given.parts.split(","))]
    if given.ways:
        bench.ways = {name: bench.ways[name] for name in given.ways.split(";")}
    if not given.kept:
        bench.run()
    console = Console(highlight=False, width=200)
    for table in tables(bench):
        if given.markdown:
            print(f"\n{table.markdown()}")
        else:
            table.show(console)


if __name__ == "__main__":
    main()
