"""What each pass of the search is worth: the same search with the pass replaced by nothing.

    python -m benchmarks ablation                       its results are kept, so that it goes on
    python -m benchmarks.ablation --settings fast,best --passes "ejection chains" --seeds 1,2
    python -m benchmarks.ablation --kept --markdown     the table of what was measured, whenever

A setting is a model, an objective, an effort, a balance, graphs and numbers of parts. Every search
has one thread and no budget. Where a search never calls a pass, the search without the pass is not
made: both are the same. The value is that of the objective: rows moved, rows of the busiest part,
messages, seconds of a predicted epoch, expected rows of a mini-batch. CPU seconds are those of
finding the owners, partitioners' processes included, compilation of kernels not.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from rich.console import Console

import plancc
from benchmarks.inputs import ROOT, SHARED, Inputs
from benchmarks.means import geometric_mean, kind_of
from benchmarks.methods import _timed
from benchmarks.replay import sources_hash
from benchmarks.report import Report
from benchmarks.tables import Table
from plancc.clock import compilation
from plancc.graph.graph import Graph
from plancc.graph.normalize import normalize
from plancc.models.medium_grain import lighter_columns
from plancc.owners.find import find_owners
from plancc.owners.request import Request
from plancc.owners.task import Unowned
from plancc.passes.flows import _unevenness
from plancc.passes.multilevel import Sweeps
from plancc.passes.presets import CUTS
from plancc.passes.refine import Merit, Refined, _Rounds
from plancc.search import edges, effort, rows
from plancc.search.edges import EdgeJob
from plancc.search.expectation import SampledExpectation
from plancc.search.presets import IMPROVED
from plancc.search.rows import RowJob
from plancc.search.starts import tightest
from plancc_lab.kept import Kept

SOME = ("Cora", "wiki-Vote", "4elt", "power")
GRAPHS = (
    *SOME,
    "facebook_combined",
    "AmazonPhoto",
    "CoauthorCS",
    "bcspwr10",
    "delaunay_n15",
    "finan512",
    "USA-road.NY",
)
PARTS = (2, 8, 64)
MATTERS = 0.005
"""Share by which a pass must lower a geometric mean to stay."""
COMPILED = 0.05
"""Seconds of compilation above which a search is made again for its time."""


@dataclass(frozen=True)
class Setting:
    """What is searched for, and on what."""

    model: str = "hp"
    effort: str = "balanced"
    objective: str | None = None
    balance: str | None = None
    options: dict[str, Any] = field(default_factory=dict)
    graphs: Sequence[str] = SOME
    parts: Sequence[int] = PARTS

    def measured(self, matrix: Graph, num_parts: int, seed: int, without: str) -> dict[str, Any]:
        """Make one search: value, volume, overload, CPU seconds, and the passes that it called."""
        asked = {"effort": self.effort, "objective": self.objective, "balance": self.balance}
        request = Request.of(self.model, num_parts, {**self.options, **asked, "seed": seed})
        called: set[str] = set()
        with warnings.catch_warnings(), _noted(called), _left_out(without):
            warnings.simplefilter("ignore")
            before = compilation().seconds()
            unowned = Unowned(matrix, request.task, request.balance)
            found = _timed(find_owners, unowned)
            compiling = compilation().seconds() - before
        if compiling > COMPILED:
            return self.measured(matrix, num_parts, seed, without)
        tried = json.loads(found.result.how["tried"])
        called.update(
            name for each in tried if (name := STARTS + each["step"].split()[0]) in PASSES
        )
        best = [each for each in tried if each["best"]][-1]
        figures = {name: best[name] for name in ("value", "volume", "overload")}
        return figures | {"seconds": found.cpu_seconds, "called": sorted(called)}


SETTINGS = {
    "balanced": Setting(graphs=GRAPHS, parts=(*PARTS, 512)),
    "fast": Setting(effort="fast", graphs=GRAPHS, parts=(*PARTS, 512)),
    "balanced-nnz": Setting(balance="nnz", graphs=GRAPHS, parts=(*PARTS, 512)),
    "balanced-tight": Setting(balance="nnz,rows", graphs=GRAPHS, parts=(*PARTS, 512)),
    "medium-grain": Setting("medium-grain", graphs=GRAPHS),
    "fine-grain": Setting("fine-grain"),
    "stochastic-hp": Setting("stochastic-hp", options={"sampler": "neighbour", "fanouts": (10, 5)}),
    "max-volume": Setting(objective="max-volume", graphs=GRAPHS),
    "messages": Setting(objective="messages"),
    "time": Setting(objective="time"),
    "best": Setting(effort="best", graphs=("Cora", "4elt", "power")),
}


@dataclass(frozen=True)
class Pass:
    """A pass, and what takes its place.

    Attributes:
        owner, attribute: Where its function is found.
        nothing: Called in its place, with the function and its arguments.
        when: Whether a call of the function, with these arguments, is the pass.
    """

    owner: Any
    attribute: str
    nothing: Callable[..., Any]
    when: Callable[..., bool] = lambda *args, **options: True

    @contextmanager
    def replaced(self, instead: Callable[..., Any]) -> Iterator[None]:
        """Calls that are the pass go to `instead`, with the function and its arguments."""
        function = getattr(self.owner, self.attribute)

        def replacement(*args: Any, **options: Any) -> Any:
            if self.when(*args, **options):
                return instead(function, *args, **options)
            return function(*args, **options)

        with mock.patch.object(self.owner, self.attribute, replacement):
            yield


def _returns(value: Any) -> Callable[..., Any]:
    return lambda function, *args, **options: value


def _same(function: Any, job: RowJob, given: Any, *args: Any, **options: Any) -> Any:
    """The member that a step is given, or that of the owners that it is given."""
    return given if hasattr(given, "owners") else job.member(given)


def _v_cycle(*names: str) -> Pass:
    """V-cycles of a search whose step has one of these names."""

    def is_one(job: Any, owner: Any, rng: Any, step: str, *args: Any, **options: Any) -> bool:
        return step.split(",")[0].split(" ")[0] in names

    return Pass(RowJob, "cycle", _same, is_one)


def _is_even(nets: Any) -> bool:
    """Whether minimum cuts between parts are tried."""
    return _unevenness(nets) <= CUTS.max_unevenness


def _is_improved(problem: Any) -> bool:
    """Whether a library's V-cycle is worth its process, with one balance."""
    return problem.vertex_weights.ndim == 1 and len(problem.pins) >= IMPROVED[0]


def _starts_by(name: str) -> Pass:
    def others(function: Any, *args: Any) -> Iterator[Any]:
        return (each for each in function(*args) if each.adapter.name != name)

    return Pass(rows, "beginnings", others, lambda *args: True)


def _split_once(function: Any, *args: Any, **options: Any) -> Any:
    once = {name: replace(how, splits=1) for name, how in edges.EDGE_EFFORTS.items()}
    with mock.patch.dict(edges.EDGE_EFFORTS, once):
        return function(*args, **options)


STARTS = "starts by "
PASSES: dict[str, Pass] = {
    "ejection chains": Pass(Sweeps, "eject", _returns(None)),
    "minimum cuts": Pass(Sweeps, "cut", _returns(0),
                         lambda sweeps, nets, *args, **options: _is_even(nets)),
    "minimum cuts after sweeps": Pass(RowJob, "minimum_cuts", _same,
                                      lambda job, *args: _is_even(job.nets)),
    "exchanges": Pass(Sweeps, "trade", _returns(0),
                      lambda sweeps, nets, state: sweeps.limits.overload(state.sums) > 0),
    "V-cycles after starts": Pass(RowJob, "cycles", _same),
    "combination of starts": _v_cycle("combined"),
    "V-cycle within the limit": Pass(RowJob, "tighten", _same),
    "balancing V-cycle": _v_cycle("balancing"),
    "V-cycle of a library": Pass(rows, "improver", _returns(None), _is_improved),
    "all starts but the first": Pass(effort, "_turns", lambda f, job: (f(job)[0], 0)),
    "start by the tightest limit": Pass(
        RowJob, "_start_by_tightest", _returns(None),
        lambda job, how, seed: tightest(job.degrees, job.limits) is not None),
    **{STARTS + name: _starts_by(name) for name in ("builtin", "kaminpar", "metis", "kahypar",
                                                    "mtkahypar")},
    "localised searches": Pass(Sweeps, "search", _returns(0)),
    "polishing": Pass(Sweeps, "polish", _returns(0)),
    "memetic steps": Pass(effort, "evolve", lambda f, job, found: sorted(found)),
    "partitioners at their highest": Pass(effort, "_strong", _returns([])),
    "traffic rounds": Pass(_Rounds, "push", _returns(0)),
    "shaving": Pass(_Rounds, "shave", _returns(None)),
    "recovering the volume": Pass(_Rounds, "recover", _returns(None)),
    "holding the value": Pass(
        _Rounds, "_hold", lambda f, self, value, times: self.options._merit(self.run)),
    "start from the fitted cut": Pass(effort, "_start_from_cut", _returns(None)),
    "starts beside": Pass(RowJob, "start", _returns(None),
                          lambda *args, needed=True, **options: not needed),
    "expected volume": Pass(RowJob, "refine_objective", _returns([]),
                            lambda job, *args, **options: job.expectation is not None),
    "combination by expected volume": Pass(
        RowJob, "refine_for", lambda f, job, owners, *args, **options: job.measure(owners),
        lambda job, owners, seed, cycles, other=None: other is not None),
    "growing samples": Pass(SampledExpectation, "grow", _returns(False)),
    "prior of samples": Pass(SampledExpectation, "_smoothed",
                             lambda f, self: self._sample.hypergraph),
    "single nonzeros": Pass(edges.RefineEdges, "refine", lambda f, self, owners, *args: (
        Refined(owners, Merit(0, 0, 0), Merit(0, 0, 0)))),
    "rounds of single nonzeros": Pass(
        edges.RefineEdges, "refine", lambda f, self, *args: f(replace(self, rounds=0), *args)),
    "splits by vertex covers": Pass(
        edges, "resplit", lambda f, owner, matrix, context: lighter_columns(matrix)),
    "splits after the first": Pass(EdgeJob, "split", _split_once),
    "V-cycles of splits": Pass(edges, "RefineVolume", lambda f, cycles: f(cycles=0)),
    "combination of edge plans": Pass(EdgeJob, "_combine_until_end", _returns(None)),
}  # fmt: skip


@contextmanager
def _noted(called: set[str]) -> Iterator[None]:
    """Note the passes that are called; starts by their steps."""

    def noting(name: str, function: Any, *args: Any, **options: Any) -> Any:
        called.add(name)
        return function(*args, **options)

    with ExitStack() as stack:
        for name, each in PASSES.items():
            if not name.startswith(STARTS):
                stack.enter_context(each.replaced(partial(noting, name)))
        yield


@contextmanager
def _left_out(names: str) -> Iterator[None]:
    """Replace passes by nothing; several are joined by " + "."""
    with ExitStack() as stack:
        for name in filter(None, names.split(" + ")):
            stack.enter_context(PASSES[name].replaced(PASSES[name].nothing))
        yield


@dataclass(frozen=True)
class Bench:
    """Makes and looks up results; "" is the search with all passes."""

    kept: Kept
    settings: Sequence[str]
    passes: Sequence[str]
    graphs: Sequence[str]
    parts: Sequence[int]
    seeds: Sequence[int]

    def cases(self, setting: str) -> Iterator[tuple[int, str, int]]:
        """Seed, graph and number of parts of every search."""
        for seed in self.seeds:
            for graph in SETTINGS[setting].graphs:
                for num_parts in SETTINGS[setting].parts:
                    if graph in self.graphs and num_parts in self.parts:
                        yield seed, graph, num_parts

    def run(self) -> None:
        """Do what is not kept yet, and print a line for each."""
        matrices: dict[str, Graph] = {}
        for setting in self.settings:
            for seed, graph, num_parts in self.cases(setting):
                for name in ("", *self.passes):
                    if self.value(setting, name, seed, graph, num_parts) is not None:
                        continue
                    if graph not in matrices:
                        matrices[graph] = normalize(plancc.read_graph(SHARED / f"{graph}.mtx.gz"))
                    made = partial(SETTINGS[setting].measured, matrices[graph], num_parts, seed)
                    key = (setting, name, seed, graph, num_parts)
                    found = self.kept.step(key, partial(made, name))
                    print(
                        *key,
                        *(found[word] for word in ("value", "overload", "seconds")),
                        flush=True,
                    )

    def value(
        self, setting: str, name: str, seed: int, graph: str, num_parts: int
    ) -> dict[str, Any] | None:
        """What is kept of a search; without a pass that is never called, the whole search's."""
        whole = (setting, "", seed, graph, num_parts)
        if name and whole in self.kept:
            called = self.kept[whole]["called"]
            if not any(each in called for each in name.split(" + ")):
                return dict(self.kept[whole])
        key = (setting, name, seed, graph, num_parts)
        return dict(self.kept[key]) if key in self.kept else None

    def table(self) -> Table:
        """Geometric means over the whole search, by the number of parts, and the worst kind."""
        columns = [
            *map(str, sorted(self.parts)),
            "worst kind",
            "CPU",
            "called",
            "unbalanced",
            "pays",
        ]
        table = Table(
            "Values without a pass over those with it", ["setting", "without", *columns], 2
        )
        for setting in self.settings:
            for name in self.passes:
                row = self._row(setting, name)
                if row:
                    table.rows.append([setting, name, *row])
        return table

    def _row(self, setting: str, name: str) -> list[str]:
        """A pass in the table; CPU is the mean where it is called; empty where it never is."""
        ratios: dict[tuple[str, Any], list[float]] = {}
        called = unbalanced = 0
        for seed, graph, num_parts in self.cases(setting):
            whole = self.value(setting, "", seed, graph, num_parts)
            found = self.value(setting, name, seed, graph, num_parts)
            if whole is None or found is None:
                continue
            value = (found["value"] + 1e-12) / (whole["value"] + 1e-12)
            ratios.setdefault(("parts", num_parts), []).append(value)
            ratios.setdefault(("kind", kind_of(graph)), []).append(value)
            if found != whole:
                called += 1
                ratios.setdefault(("CPU", ""), []).append(found["seconds"] / whole["seconds"])
            unbalanced += found["overload"] > whole["overload"] + 1e-9
        if not called:
            return []
        means = {key: geometric_mean(values) for key, values in ratios.items()}
        spent = means.pop(("CPU", ""))
        kinds = {kind: mean for (what, kind), mean in means.items() if what == "kind"}
        worst = max(kinds, key=lambda kind: kinds[kind])
        by_parts = [means.get(("parts", num_parts)) for num_parts in sorted(self.parts)]
        shown = ["" if mean is None else f"{mean:.3f}" for mean in by_parts]
        shown += [f"{kinds[worst]:.3f} ({worst})", f"{spent:.2f}", str(called)]
        return [*shown, str(unbalanced), "yes" if max(means.values()) > 1 + MATTERS else "no"]


def bench_of(inputs: Inputs, any_sources: bool, *what: Sequence[Any]) -> Bench:
    """The benchmark of some settings, passes, graphs, numbers of parts and seeds."""
    path = inputs.results("ablation") / "ablation.jsonl"
    return Bench(Kept(path, sources_hash(ROOT, ("plancc",)), any_sources), *what)


def run(inputs: Inputs) -> Report:
    """Every setting and pass; quick: two small graphs with 8 parts."""
    graphs, parts = (("Cora", "power"), (8,)) if inputs.quick else (GRAPHS, (*PARTS, 512))
    bench = bench_of(inputs, False, tuple(SETTINGS), tuple(PASSES), graphs, parts, (1,))
    bench.run()
    console = Console(highlight=False, width=160)
    bench.table().show(console)
    return Report([f"every row is kept in {bench.kept.path}"])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ablation", description=__doc__)
    parser.add_argument("--settings", default=",".join(SETTINGS), help="comma-separated [all]")
    parser.add_argument(
        "--passes", default=",".join(PASSES), help="comma-separated; A + B: both [all]"
    )
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--parts", default="2,8,64,512")
    parser.add_argument("--seeds", default="1")
    parser.add_argument("--kept", action="store_true", help="show what is kept, of any sources")
    parser.add_argument("--markdown", action="store_true", help="the table as Markdown")
    parser.add_argument("--folder", type=Path, help="where the results are kept [build/ablation]")
    given = parser.parse_args()
    folder = given.folder or ROOT / "build" / "ablation"
    folder.mkdir(parents=True, exist_ok=True)
    numbers = [[*map(int, text.split(","))] for text in (given.parts, given.seeds)]
    names = [text.split(",") for text in (given.settings, given.passes, given.graphs)]
    bench = bench_of(Inputs(folder, False, kept=True), given.kept, *names, *numbers)
    if not given.kept:
        bench.run()
    table = bench.table()
    if given.markdown:
        print(table.markdown())
    else:
        table.show(Console(highlight=False, width=160))


if __name__ == "__main__":
    main()
