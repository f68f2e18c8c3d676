"""Epochs of plans: predicted, rehearsed and really measured, and whether the three agree.

    python -m benchmarks epochs-of-plans                 all; goes on where it was interrupted
    python -m benchmarks.epochs_of_plans --graphs finan512 --parts 2,4
    python -m benchmarks.epochs_of_plans --kept --markdown

Of every graph and number of parts the plans of `PLANS`, each compiled as a user does, with one
thread and seed 1, for the default machine and widths. An epoch is

    predicted   as `plancc simulate` does it
    rehearsed   as `plancc rehearse` does it, with as many ranks as there are parts
    measured    of few ranks: processes over MPI on this machine, one thread each. All plans of a
                graph train in turns in the same processes, round by round; the median of all epochs

Few ranks are predicted and rehearsed on this machine as `plancc calibrate` finds it with as many;
many ranks on this machine as it finds it with one, and the network of the default machine. Besides,
plans for most ranks are predicted for the default machine: these are the figures of the first
table. Compile times of the default and of the paper's recipe are taken in pairs.

The plans themselves are kept only until all that is asked of them is known. Times need a machine
that does nothing else; the load before them is in the notes.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from rich.console import Console

import plancc
from benchmarks.inputs import ROOT, SHARED, Inputs, on_ranks
from benchmarks.means import geometric_mean
from benchmarks.replay import sources_hash
from benchmarks.report import Report, show
from benchmarks.tables import Table
from plancc.errors import BackendError
from plancc.predict.machine import Machine
from plancc.predict.machine_files import DEFAULT_MACHINE, find_machine, read_machine
from plancc.predict.passes import DEFAULT_DIMS
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import tables_of
from plancc.threads import usable_cores
from plancc_datasets import load_dataset
from plancc_lab.kept import Kept

GRAPHS = (
    "finan512",
    "email-Enron",
    "cit-HepTh",
    "CoauthorCS",
    "musae-github",
    "soc-Slashdot0902",
    "fb100-Cornell5",
    "dblp-2010",
)
RP, PAPER, DEFAULT, TIME, AUTO = "rp", "hp nnz", "default", "time", "auto"
PLANS: dict[str, dict[str, Any]] = {
    RP: {"model": "rp"},
    PAPER: {"model": "hp", "balance": "nnz", "objective": "volume", "effort": "fast"},
    DEFAULT: {"effort": "fast"},
    TIME: {"objective": "time", "effort": "fast"},
    AUTO: {"model": "auto", "effort": "fast", "budget": 60.0},
}
"""Options of `plancc.compile`; without a budget all models of auto take many minutes."""
OTHERS = RP, PAPER, DEFAULT
"""Plans that do not minimise the time."""
MANY, FEW = (64, 8), (2, 4)
"""Ranks that are rehearsed only, and those that are measured too."""
DIMS = ",".join(map(str, DEFAULT_DIMS))
APART = 1.1
"""Ratio of two epochs from which on their order counts."""
TIMEOUT = 3600

GAIN, WORST, BOUND = 0.79, 0.90, 1.15
BEST, BEST_MEAN = 1.0, 0.95
ORDER_REHEARSED, ORDER_MEASURED, WITHIN = 0.90, 0.85, 0.20
SECONDS, VOLUME = 1.3, 1.1


@dataclass(frozen=True)
class Work:
    """How much is done.

    Attributes:
        many, few: See `MANY`, `FEW`; the first of `many` is that of the tables for the default
            machine.
        effort: Of the calibrations.
        rounds, epochs: Of a measurement.
        rehearsed: Epochs of a rehearsal, which repeats each of them by itself.
        pairs: Of timed compilations of a graph.
    """

    many: tuple[int, ...] = MANY
    few: tuple[int, ...] = FEW
    effort: str = "quick"
    rounds: int = 3
    epochs: int = 4
    rehearsed: int = 1
    pairs: int = 2

    @property
    def parts(self) -> tuple[int, ...]:
        return *self.many, *self.few


QUICK = Work(many=(8,), few=(2,), effort="tiny", rounds=1, epochs=2, pairs=1)


@dataclass
class Bench:
    """Makes and looks up results.

    Attributes:
        folder: Gets plans and machine files.
        plans: Names in `PLANS`.
    """

    graphs: dict[str, Path]
    kept: Kept
    folder: Path
    work: Work = field(default_factory=Work)
    plans: Sequence[str] = tuple(PLANS)
    begin: float = field(default_factory=time.perf_counter)

    def run(self) -> None:
        """Do what is not kept yet, and print a line about each step."""
        for ranks in dict.fromkeys(1 if p in self.work.many else p for p in self.work.parts):
            self._step(("machine", ranks), partial(self._calibrated, ranks))
        for graph in self.graphs:
            for num_parts in self.work.parts:
                at = graph, num_parts
                self._step(("plans", *at), partial(self._made, *at))
                if num_parts in self.work.few:
                    self._step(("measured", *at), partial(self._measured, *at))
                if can_rehearse():
                    self._step(("rehearsed", *at), partial(self._rehearsed, *at))
                for name in self.plans:
                    self._file(*at, name).unlink(missing_ok=True)
            self._step(("pairs", graph), partial(self._paired, graph))

    def _step(self, key: tuple[str | int, ...], work: Callable[[], Any]) -> None:
        if key in self.kept:
            return
        load = os.getloadavg()[0]
        found = work()
        self.kept.put(key, {"found": found, "load": load})
        seconds = time.perf_counter() - self.begin
        print(f"{seconds:.0f} s: {', '.join(map(str, key))}{_told(found)}", flush=True)

    def found(self, *key: str | int) -> Any:
        """What is kept of a step; None if it is not there."""
        return self.kept.step(key, dict)["found"] if key in self.kept else None

    def load(self) -> float:
        """The highest load before a step that took times."""
        keys: list[tuple[str | int, ...]] = [("pairs", graph) for graph in self.graphs]
        for kind, among in (("measured", self.work.few), ("rehearsed", self.work.parts)):
            keys += [(kind, graph, p) for graph in self.graphs for p in among]
        return max((self.kept.step(k, dict)["load"] for k in keys if k in self.kept), default=0.0)

    # -------------------------------------------------------------- the steps

    def _calibrated(self, ranks: int) -> str:
        """The machine file of so many ranks of this machine."""
        return str(_in_processes(ranks, "calibrate", "--effort", self.work.effort))

    def machine(self, num_parts: int) -> Machine:
        """The machine on which so many ranks are rehearsed."""
        many = num_parts in self.work.many
        path = self.folder / f"calibrated-{1 if many else num_parts}.toml"
        path.write_text(self.found("machine", 1 if many else num_parts))
        here = read_machine(path)
        return with_network_of(find_machine(DEFAULT_MACHINE), here) if many else here

    def _file(self, graph: str, num_parts: int, name: str) -> Path:
        words = graph, num_parts, name.replace(" ", "-"), self.kept.sources[:8]
        return self.folder / f"{'-'.join(map(str, words))}.h5"

    def _made(self, graph: str, num_parts: int) -> dict[str, Any]:
        """Write all plans, as many at a time as there are cores; figures of each."""
        machines = {"default": find_machine(DEFAULT_MACHINE), "here": self.machine(num_parts)}
        file = partial(self._file, graph, num_parts)
        jobs = [
            Job(self.graphs[graph], num_parts, name, file(name), machines) for name in self.plans
        ]
        if (cores := len(usable_cores())) == 1:
            return dict(zip(self.plans, map(figures_of, jobs), strict=True))
        with ProcessPoolExecutor(cores, get_context("spawn")) as pool:
            found = [*pool.map(figures_of, jobs[::-1])]  # those that take long first
        return dict(zip(self.plans, found[::-1], strict=True))

    def _files(self, graph: str, num_parts: int) -> dict[str, Path]:
        """By name the files of plans that differ; if one is lost, all are made again."""
        made = self.found("plans", graph, num_parts)
        if not all(self._file(graph, num_parts, name).exists() for name in made):
            made = self._made(graph, num_parts)
            self.kept.put(("plans", graph, num_parts), {"found": made, "load": 0.0})
        files: dict[str, Path] = {}
        contents = set()
        for name, figures in made.items():
            if figures["content"] not in contents:
                contents.add(figures["content"])
                files[name] = self._file(graph, num_parts, name)
        return files

    def _measured(self, graph: str, num_parts: int) -> dict[str, float]:
        """Median seconds of an epoch on this machine."""
        work, files = self.work, self._files(graph, num_parts)
        options = ["--dims", DIMS, "--rounds", work.rounds, "--epochs", work.epochs]
        found = _in_processes(num_parts, "train", *files.values(), *options)
        return {
            name: statistics.median(
                seconds for of_round in found[str(path)] for seconds in of_round
            )
            for name, path in files.items()
        }

    def _rehearsed(self, graph: str, num_parts: int) -> dict[str, float]:
        """Seconds of a rehearsed epoch."""
        files = self._files(graph, num_parts)
        machine = self.folder / f"rehearsal-{num_parts}.toml"
        machine.write_text(toml_of(self.machine(num_parts)))
        options = ["--dims", DIMS, "--machine", machine, "--epochs", self.work.rehearsed]
        found = _in_processes(1, "rehearse", *files.values(), *options)
        return {name: found[str(path)] for name, path in files.items()}

    def _paired(self, graph: str) -> dict[str, list[float]]:
        """Seconds of the compiler for the default and for the paper's recipe, in turns."""
        read, seconds = plancc.read_graph(self.graphs[graph]), {PAPER: [], DEFAULT: []}
        for number in range(self.work.pairs + 1):
            for name, taken in seconds.items():
                start = time.perf_counter()
                _plan(read, self.work.many[0], name)
                if number:  # the first loads the kernels
                    taken.append(time.perf_counter() - start)
        return seconds

    # -------------------------------------------------------------- what was found

    def plans_of(self, graph: str, num_parts: int) -> dict[str, dict[str, Any]]:
        """Figures of the plans; empty where they are not there."""
        return self.found("plans", graph, num_parts) or {}

    def epochs(self, kind: str, graph: str, num_parts: int) -> dict[str, float]:
        """Seconds by plan: "default" or "here" predicted, "rehearsed" or "measured"."""
        made = self.plans_of(graph, num_parts)
        if kind in ("default", "here"):
            return {name: figures["epochs"][kind] for name, figures in made.items()}
        found = self.found(kind, graph, num_parts) or {}
        of_content = {made[name]["content"]: seconds for name, seconds in found.items()}
        return {
            name: of_content[figures["content"]]
            for name, figures in made.items()
            if figures["content"] in of_content
        }


@dataclass(frozen=True)
class Job:
    """A plan to compile.

    Attributes:
        name: In `PLANS`.
        plan: The file to write.
        machines: That it is predicted for.
    """

    graph: Path
    num_parts: int
    name: str
    plan: Path
    machines: Mapping[str, Machine]


def figures_of(job: Job) -> dict[str, Any]:
    """Compile and save a plan: its predicted epochs, and what else is shown of it."""
    plan = _plan(plancc.read_graph(job.graph), job.num_parts, job.name)
    plan.save(job.plan)
    tables, metrics, provenance = tables_of(plan), plan.metrics(), plan.provenance
    return {
        "epochs": {
            name: Predictor(DEFAULT_DIMS, machine).epoch(tables).seconds
            for name, machine in job.machines.items()
        },
        "random": provenance["random_epoch_seconds"],
        "bound": provenance["bound_seconds"],
        "volume": metrics.volume,
        "row_imbalance": metrics.row_imbalance,
        "model": provenance.get("chosen_model", provenance["model"]),
        "content": plan.content_sha256(),
    }


def _plan(graph: Any, num_parts: int, name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", plancc.PlanccWarning)
        return plancc.compile(graph, num_parts=num_parts, **PLANS[name])


def can_rehearse() -> bool:
    """Whether there is a `plancc rehearse`."""
    return find_spec("plancc_lab.rehearse.command") is not None


def with_network_of(network: Machine, computer: Machine) -> Machine:
    """A machine that computes as one does and exchanges messages as another."""
    return replace(
        network,
        multiply_adds=computer.multiply_adds,
        compute=computer.compute,
        spmm=computer.spmm,
        name=f"{computer.name}; network of {network.name}",
    )


def toml_of(machine: Machine) -> str:
    """The machine as a machine file."""
    values = machine.as_dict()
    plain = [f"{key} = {json.dumps(v)}" for key, v in values.items() if not isinstance(v, dict)]
    for name, table in values.items():
        if isinstance(table, dict):
            plain += [f"[{name}]", *(f"{key} = {json.dumps(v)}" for key, v in table.items())]
    return "\n".join(plain) + "\n"


def _in_processes(ranks: int, *arguments: object) -> Any:
    """What `benchmarks.plan_ranks` prints."""
    command = [sys.executable, "-m", "benchmarks.plan_ranks", *map(str, arguments)]
    if ranks > 1:
        return json.loads(on_ranks(ranks, *command, timeout=TIMEOUT))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT)
    if done.returncode:
        raise BackendError(f"{' '.join(command)} ended with code {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout)


def _told(found: Any) -> str:
    """A step's figures in a line; nothing of a machine file."""
    if isinstance(found, str):
        return ""
    words = []
    for name, value in found.items():
        if isinstance(value, dict):
            value = value["epochs"]["here"]
        if isinstance(value, list):
            words.append(f"{name} {statistics.median(value):.2f} s")
        else:
            words.append(f"{name} {1e3 * value:.3g} ms")
    return ": " + ", ".join(words)


# ------------------------------------------------------------------ orders of pairs


@dataclass(frozen=True)
class Orders:
    """Pairs of plans of one graph whose epochs differ, and those predicted in the right order.

    Attributes:
        wrong: The others, in words.
    """

    pairs: int
    wrong: list[str]

    @property
    def share(self) -> float:
        """Share in the right order; NaN of no pairs."""
        return (self.pairs - len(self.wrong)) / self.pairs if self.pairs else math.nan


def orders(bench: Bench, kind: str, parts: Sequence[int]) -> Orders:
    """Predictions against epochs that were rehearsed or measured."""
    pairs, wrong = 0, []
    for graph in bench.graphs:
        for num_parts in parts:
            real = bench.found(kind, graph, num_parts) or {}  # plans that differ
            predicted = bench.epochs("here", graph, num_parts)
            for a, b in combinations(real, 2):
                if max(real[a], real[b]) <= APART * min(real[a], real[b]):
                    continue
                pairs += 1
                if (real[a] - real[b]) * (predicted[a] - predicted[b]) <= 0:
                    over = f"{real[a] / real[b]:.2f}, predicted {predicted[a] / predicted[b]:.2f}"
                    wrong.append(f"{graph}, p = {num_parts}: {a} / {b} {kind} {over}")
    return Orders(pairs, wrong)


# ------------------------------------------------------------------ what is shown


def tables(bench: Bench) -> Iterator[Table]:
    """Predicted epochs for the default machine; then all three kinds of epochs."""
    first = bench.work.many[0]
    table = Table(
        f"p = {first}, {DEFAULT_MACHINE}, {DIMS}: predicted epochs over random's; of some over the "
        f"bound and over the best of {', '.join(OTHERS)}; volume of the default",
        [
            *("graph", *bench.plans, f"{DEFAULT} / bound", f"{TIME} / bound"),
            *(f"{TIME} / best of {len(OTHERS)}", f"volume / {PAPER}"),
        ],
    )
    for graph in bench.graphs:
        made = bench.plans_of(graph, first)
        if made:
            random = made[RP]["random"]
            epochs = {name: figures["epochs"]["default"] for name, figures in made.items()}
            cells = [epochs[name] / random for name in bench.plans]
            cells += [epochs[name] / made[name]["bound"] for name in (DEFAULT, TIME)]
            cells += [_over_best_other(epochs), made[DEFAULT]["volume"] / made[PAPER]["volume"]]
            table.rows.append([graph, *(f"{cell:.3f}" for cell in cells)])
    if table.rows:
        columns = zip(*(map(float, row[1:]) for row in table.rows), strict=True)
        means = (f"{geometric_mean(column):.3f}" for column in columns)
        table.rows.append(["geometric mean", *means])
    yield table
    for num_parts in bench.work.parts:
        kinds = ["rehearsed", "measured"] if num_parts in bench.work.few else ["rehearsed"]
        table = Table(
            f"p = {num_parts}, milliseconds of an epoch: predicted / {' / '.join(kinds)}",
            ["graph", *bench.plans],
        )
        for graph in bench.graphs:
            found = [bench.epochs(kind, graph, num_parts) for kind in ("here", *kinds)]
            cells = (" / ".join(_ms(each.get(name)) for each in found) for name in bench.plans)
            if found[0]:
                table.rows.append([graph, *cells])
        yield table


def _over_best_other(epochs: Mapping[str, float]) -> float:
    """The epoch of objective time over the best of the plans that do not minimise it."""
    return epochs[TIME] / min(epochs[name] for name in OTHERS)


def _ms(seconds: float | None) -> str:
    return "-" if seconds is None else f"{1e3 * seconds:.3g}"


def add_figures(report: Report, bench: Bench) -> None:
    """The figures to reach; those that cannot be told are NaN, and missed."""
    first = bench.work.many[0]
    every = {graph: bench.plans_of(graph, first) for graph in bench.graphs}
    every = {graph: made for graph, made in every.items() if made}

    def of(name: str) -> list[float]:
        return [made[name]["epochs"]["default"] for made in every.values()]

    def over(name: str, under: Sequence[float]) -> list[float]:
        return [a / b for a, b in zip(of(name), under, strict=True)]

    random = [made[RP]["random"] for made in every.values()]
    bounds = [made[RP]["bound"] for made in every.values()]
    others = [_over_best_other(bench.epochs("default", graph, first)) for graph in every]
    add, most = report.add, partial(max, default=math.nan)
    where = f"p = {first}, {DEFAULT_MACHINE}: predicted epoch"
    add(f"{where}, {DEFAULT} / random", geometric_mean(over(DEFAULT, random)), GAIN)
    add("  worst graph", most(over(DEFAULT, random)), WORST)
    add(f"{where}, {TIME} / best other", geometric_mean(others), BEST_MEAN)
    add("  worst graph", most(others), BEST)
    add(f"  over {AUTO}'s, worst graph", most(over(TIME, of(AUTO))), BEST)
    for name in (DEFAULT, TIME):
        add(f"{where}, {name} / bound", geometric_mean(over(name, bounds)), BOUND)
    for kind, parts, target in (
        ("rehearsed", bench.work.many, ORDER_REHEARSED),
        ("measured", bench.work.few, ORDER_MEASURED),
        ("rehearsed", bench.work.few, None),
    ):
        found = orders(bench, kind, parts)
        named = ", ".join(map(str, parts))
        text = f"p = {named}: pairs {kind} > 10% apart in order, of {found.pairs}"
        add(text, found.share, target, ">=")
        report.notes += [f"wrong order: {each}" for each in found.wrong]
    ratios = {
        (graph, p, name): seconds / bench.epochs("measured", graph, p)[name]
        for graph in bench.graphs
        for p in bench.work.few
        for name, seconds in bench.epochs("rehearsed", graph, p).items()
        if bench.epochs("measured", graph, p)
    }
    off = {key: abs(ratio - 1) for key, ratio in ratios.items()}
    add("rehearsed / measured: off by, worst plan", most(off.values()), WITHIN)
    add("  median ratio", statistics.median(ratios.values()) if ratios else math.nan)
    add("  share of plans within 20%", _share(value <= WITHIN for value in off.values()))
    worst = sorted(off, key=lambda key: -off[key])[:5]
    report.notes += [
        f"rehearsed / measured: {', '.join(map(str, k))}: {ratios[k]:.2f}" for k in worst
    ]
    predicted = [
        bench.epochs("here", graph, p)[name] / seconds
        for graph in bench.graphs
        for p in bench.work.few
        for name, seconds in bench.epochs("measured", graph, p).items()
    ]
    add(
        "predicted / measured: median ratio",
        statistics.median(predicted) if predicted else math.nan,
    )
    pairs = [
        bench.found("pairs", graph) for graph in bench.graphs if ("pairs", graph) in bench.kept
    ]
    medians = [{name: statistics.median(s) for name, s in pair.items()} for pair in pairs]
    times = [each[DEFAULT] / each[PAPER] for each in medians]
    add(f"compile, {DEFAULT} / {PAPER}", geometric_mean(times), SECONDS)
    add("  worst graph", most(times))
    volumes = [made[DEFAULT]["volume"] / made[PAPER]["volume"] for made in every.values()]
    add(f"volume, {DEFAULT} / {PAPER}", geometric_mean(volumes), VOLUME)


def _share(values: Iterator[bool]) -> float:
    found = [*values]
    return sum(found) / len(found) if found else math.nan


# ------------------------------------------------------------------ how it is called


def run(inputs: Inputs) -> Report:
    bench, note = bench_of(inputs)
    bench.run()
    return shown(bench, note, markdown=False)


def shown(bench: Bench, note: str, markdown: bool) -> Report:
    """Print the tables; the figures."""
    console = Console(highlight=False)
    console.width = max(console.width, 140)
    console.print()
    for table in tables(bench):
        if markdown:
            print(f"\n{table.markdown()}")
        else:
            table.show(console)
    report = Report([note, f"load before a timed step: at most {bench.load():.1f}"])
    if not can_rehearse():
        report.notes.append("rehearsals: left out, there is no `plancc rehearse`")
    add_figures(report, bench)
    return report


def bench_of(inputs: Inputs, any_sources: bool = False) -> tuple[Bench, str]:
    """The benchmark of these inputs, and a note on its graphs."""
    folder = inputs.results("epochs-of-plans")
    graphs, note = _graphs(inputs)
    kept = Kept(folder / "epochs-of-plans.jsonl", sources_hash(ROOT), any_sources)
    return Bench(graphs, kept, folder, QUICK if inputs.quick else Work()), note


def _graphs(inputs: Inputs) -> tuple[dict[str, Path], str]:
    """Graphs by name, and which these are."""
    found = {name: SHARED / f"{name}.mtx.gz" for name in GRAPHS}
    found = {name: path for name, path in found.items() if path.exists()}
    if found and not inputs.quick:
        return found, f"{len(found)} graphs of {SHARED}"
    generated: dict[str, dict[str, Any]] = {
        "rmat": {"scale": 9 if inputs.quick else 14, "seed": 1},
        "grid": {"rows": 24 if inputs.quick else 128},
    }
    paths = {}
    for name, options in generated.items():
        paths[name] = inputs.folder / f"plans-{name}.mtx"
        plancc.write_graph(load_dataset(name, **options).graph, paths[name])
    return paths, f"generated graphs: {', '.join(paths)}"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.epochs_of_plans", description=__doc__
    )
    parser.add_argument("--graphs", help=f"comma-separated [{', '.join(GRAPHS)}]")
    parser.add_argument("--parts", help="comma-separated numbers of parts [64,8,2,4]")
    parser.add_argument(
        "--kept", action="store_true", help="results of earlier sources count, nothing is run"
    )
    parser.add_argument("--markdown", action="store_true", help="tables for the documentation")
    given = parser.parse_args()
    bench, note = bench_of(Inputs(ROOT / "build", quick=False), given.kept)
    if given.graphs:
        bench.graphs = {name: bench.graphs[name] for name in given.graphs.split(",")}
    if given.parts:
        parts = [*map(int, given.parts.split(","))]
        many, few = (tuple(p for p in among if p in parts) for among in (MANY, FEW))
        bench.work = replace(bench.work, many=many, few=few)
    if not given.kept:
        bench.run()
    console = Console(highlight=False)
    console.width = max(console.width, 100)
    show(console, "epochs-of-plans", shown(bench, note, given.markdown))


if __name__ == "__main__":
    main()
