"""Epochs of plancc-run against other ways to train the same network on the same cores.

A GCN of three layers, full batch, float32, the input as wide as the hidden layers, 8 classes, all
vertices are training vertices, SGD; from the same features and weights, so that the losses must
be the same. Every side trains in a process of its own, one after the other, round by round: a
figure is a ratio of medians over rounds, of the median of the epochs of a round; beside it that of
the quickest epochs. A rival that takes more than twice the time of the quickest in the first round
is left out of the others.

Beside it: plancc's exchange over a bare one, in turns on the same ranks, and the memory that a rank
needs over what `plancc inspect` says of the plan.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import plancc
from benchmarks.inputs import BIN, SHARED, Inputs, on_ranks, train
from benchmarks.report import Report
from benchmarks.rivals import Rival, rivals
from benchmarks.rivals import run as run_rival
from benchmarks.rivals.harness import LAYERS, WARM_UP
from benchmarks.rivals.problem import write_problem
from plancc.graph.formats import write_graph
from plancc.graph.graph import Graph
from plancc.report.plans import report as inspected
from plancc_datasets import load_dataset

FILES = ("soc-Slashdot0902", "dblp-2010")
WIDTHS = (32, 128)
CLASSES = 8
LR = 0.1
CORES = 2
ROUNDS, EPOCHS = 5, 6
COMPARED = 5  # losses
SLOW = 2.0
AGAINST_TORCH, AGAINST_DGL, TWO_RANKS = 0.75, 0.75, 0.9
EXCHANGE, MEMORY, LOSS = 1.3, 0.15, 1e-3


@dataclass
class Side:
    """One way to train, and what its rounds took."""

    name: str
    train: Callable[[], tuple[list[float], list[float]]]  # seconds of epochs, losses
    seconds: list[float] = field(default_factory=list)  # of a round: median of its epochs
    least: list[float] = field(default_factory=list)  # and minimum
    losses: list[float] = field(default_factory=list)

    def play(self) -> None:
        seconds, self.losses = self.train()
        self.seconds.append(statistics.median(seconds))
        self.least.append(min(seconds))


@dataclass(frozen=True)
class Case:
    """A graph and a width, with what is trained on: the same for all sides."""

    label: str
    hidden: int
    problem: Path
    plans: dict[int, Path]  # by ranks


def run(inputs: Inputs) -> Report:
    report = Report(
        [
            f"GCN of {LAYERS} layers, {CORES} cores; rounds in turns, {EPOCHS} epochs in each",
            "exchange: of packed rows; expand: packed before",
            "environments of rivals are made where --folder is given, without --quick",
        ]
    )
    found = rivals(inputs.folder, make=inputs.kept and not inputs.quick)
    for rival in found:
        if not rival.available:
            report.notes.append(f"{rival.name}: left out, {rival.why_not}")
    sides = [rival for rival in found if rival.available]
    for case in _cases(inputs, report):
        _epochs(case, sides, 1 if inputs.quick else ROUNDS, report)
        for ranks in (2,) if inputs.quick else case.plans:
            _inside(case, ranks, inputs, report)
    return report


def _cases(inputs: Inputs, report: Report) -> Iterator[Case]:
    for name, graph in _graphs(inputs, report):
        owners = plancc.compile(graph, model="hp", num_parts=2, effort="fast", threads=CORES)
        owner = owners.owner()
        for hidden in (16,) if inputs.quick else WIDTHS:
            problem = inputs.folder / f"epochs-{name}-{hidden}.npz"
            write_problem(problem, graph, hidden, CLASSES)
            plans = {ranks: problem.with_name(f"{problem.stem}-{ranks}.h5") for ranks in (1, 2)}
            for ranks, path in plans.items():
                part = owner if ranks == 2 else 0 * owner
                plancc.compile(graph, model="file", num_parts=ranks, part=part, data=problem).save(
                    path
                )
            yield Case(f"{name}, hidden {hidden}", hidden, problem, plans)
            for path in (problem, *plans.values()):
                path.unlink()


def _graphs(inputs: Inputs, report: Report) -> Iterator[tuple[str, Graph]]:
    for name in () if inputs.quick else FILES:
        path = SHARED / f"{name}.mtx.gz"
        if path.is_file():
            yield name, plancc.read_graph(path, symmetrize=True)
        else:
            report.notes.append(f"{name}: skipped, {SHARED} lacks it")
    scale = 10 if inputs.quick else 17
    path = inputs.folder / f"rmat-{scale}.mtx"
    if not path.exists():
        write_graph(load_dataset("rmat", scale=scale, edge_factor=16, seed=1).graph, path)
    yield path.stem, plancc.read_graph(path, symmetrize=True)


def _epochs(case: Case, others: list[Rival], rounds: int, report: Report) -> None:
    one = Side("one rank", partial(_plancc, case, 1))
    two = Side("two ranks", partial(_plancc, case, 2))
    against = {rival.name: Side(rival.name, partial(_rival, rival, case)) for rival in others}
    play([*against.values()], [one, two], rounds)
    sides = [*against.values(), one, two]
    dgl = against.pop("dgl", None)
    fastest = min(against.values(), key=lambda side: statistics.median(side.seconds))
    for side in against.values():
        target = AGAINST_TORCH if side is fastest else None
        _add_ratio(report, case, one, side, target)
    if dgl is not None:
        _add_ratio(report, case, one, dgl, AGAINST_DGL)
        _add_ratio(report, case, two, dgl, TWO_RANKS)
    _add_ratio(report, case, two, one, None)
    difference = max(
        abs(theirs - ours)
        for side in sides
        for theirs, ours in zip(side.losses[:COMPARED], one.losses[:COMPARED], strict=True)
    )
    report.add(f"{case.label}: losses differ by", difference, LOSS)
    medians = (f"{side.name} {statistics.median(side.seconds):.4f} s" for side in sides)
    report.notes.append(f"{case.label}: {', '.join(medians)}")


def play(others: list[Side], ours: list[Side], rounds: int) -> None:
    """All sides in turns; after the first round only those of the others that are not slow."""
    playing = others
    for _ in range(rounds):
        for side in (*playing, *ours):
            side.play()
        quickest = min(side.seconds[0] for side in others)
        playing = [side for side in others if side.seconds[0] <= SLOW * quickest]


def _add_ratio(report: Report, case: Case, over: Side, under: Side, target: float | None) -> None:
    """Medians of the rounds that both were in, and the quickest epoch of each."""
    name, rounds = f"{case.label}: {over.name} / {under.name}", len(under.seconds)
    ratio = statistics.median(over.seconds[:rounds]) / statistics.median(under.seconds)
    report.add(f"{name}, medians", ratio, target)
    report.add(f"{name}, minima", min(over.least[:rounds]) / min(under.least), target)


def _rival(rival: Rival, case: Case) -> tuple[list[float], list[float]]:
    found = run_rival(rival, case.problem, case.hidden, EPOCHS, CORES, lr=LR)
    return found["seconds"], found["losses"]


def _plancc(case: Case, ranks: int) -> tuple[list[float], list[float]]:
    plan = case.plans[ranks]
    options = {
        "--layers": LAYERS,
        "--hidden": case.hidden,
        "--epochs": WARM_UP + EPOCHS,
        "--optimizer": "sgd",
        "--lr": LR,
        "--parametrization": "paper",  # the rivals start from the same weights, without biases
        "--eval-every": 0,
        "--threads": CORES // ranks,
    }
    words = [word for pair in options.items() for word in pair]
    if ranks == 1:  # mpirun would bind the rank to one core
        result = plan.with_suffix(".json")
        command = [BIN / "plancc-run", plan, "--json", result, *words]
        subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=300)
        found = json.loads(result.read_text())
    else:
        found = train(plan, ranks, *words)
    epochs = found["epochs"]
    seconds = [epoch["seconds_max"]["total"] for epoch in epochs[WARM_UP:]]
    return seconds, [epoch["loss"] for epoch in epochs]


def _inside(case: Case, ranks: int, inputs: Inputs, report: Report) -> None:
    """Exchange and memory of ranks."""
    tiny = inputs.folder / f"tiny-{ranks}.h5"
    if not tiny.exists():
        graph = load_dataset("grid", rows=20, cols=20).graph
        plancc.compile(graph, model="block", num_parts=ranks).save(tiny)
    command = [sys.executable, "-m", "benchmarks.epoch_ranks", case.plans[ranks]]
    options = ["--width", case.hidden, "--first", tiny, "--rounds", 20 if inputs.quick else 200]
    found = json.loads(on_ranks(ranks, *command, *options))
    for name, target in (("exchange", EXCHANGE), ("expand", None)):
        if name in found:
            ratio = statistics.median(found[name]) / statistics.median(found["bare"])
            report.add(f"{case.label}: {name} / Isend, Irecv", ratio, target)
    if "grown" in found:
        dims = [case.hidden] * LAYERS + [CLASSES]
        training = inspected(case.plans[ranks], dims=dims).training
        assert training is not None
        ratio = max(found["grown"]) / training.max_memory["total"]
        label = f"{case.label}: peak memory, {ranks} rank{'s' if ranks > 1 else ''}"
        report.add(f"{label}, measured / predicted", ratio)
        report.add(f"{label}, off by", abs(ratio - 1), MEMORY)
