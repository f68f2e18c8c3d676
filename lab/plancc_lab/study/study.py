"""A study: plans of several graphs, contenders (models with options) and numbers of parts.

    graphs x contenders x numbers of parts -> compile -> rows -> ratios to a baseline

The row of a plan is written to a file as soon as the plan is compiled, so that an interrupted study
can be resumed.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import Any

from plancc.clock import wall_seconds
from plancc.cost.objectives import OBJECTIVES
from plancc.errors import InputError, PlanccError, PlanccWarning, warn
from plancc.files import StrPath, check_target, open_file, sha256_of
from plancc.graph.formats import READING, read_graph
from plancc.graph.graph import Graph
from plancc.graph.textfile import check_readable
from plancc.models import MODELS
from plancc.models.weights import DEFAULT_BALANCE
from plancc.options import SearchOptions
from plancc.owners.task import Observer
from plancc.partitioners.options import AUTO
from plancc.pipeline import compile
from plancc.plan.plan import Plan
from plancc.predict.machine import Machine
from plancc.registry import check_choice
from plancc.report.epochs import EpochTimes
from plancc.report.payback import Payoff, Spending, search_seconds
from plancc.version import __version__
from plancc_lab.contenders import Contender
from plancc_lab.kept import Kept

RATIOS = ("volume", "max_volume", "messages", "epoch_seconds", "seconds")
"""Figures that have a ratio to the baseline."""
PAYS = ("pays_random", "pays_baseline")
"""Columns with the number of epochs after which a search has saved the time that it took.

It saves time against a random partition, and against the baseline."""
Key = list[str | int]
"""All values on which a row depends."""


@dataclass(frozen=True)
class Row:
    """Figures of one plan of a study.

    `epoch_seconds`, `random_epoch_seconds` and `bound_seconds` are predicted: for the plan, for a
    random partition, and for even work without exchange. `search_seconds` and `seconds` are
    wall-clock times of search and compilation.

    Attributes:
        graph: Name of the graph's file.
        vertices, nonzeros: Sizes of the graph after reading, before it is normalised.
        figures: Figures by name, including `plancc.plan.metrics.Metrics.figures`; None if unknown.
        why: Reason why the compilation failed; "" if there are figures.
    """

    graph: str
    vertices: int
    nonzeros: int
    label: str
    model: str
    partitioner: str
    parts: int
    seed: int
    figures: dict[str, float | None] = field(default_factory=dict)
    sha256: str = ""
    notes: list[str] = field(default_factory=list)
    why: str = ""

    @classmethod
    def from_kept(cls, values: Any, key: Key) -> Row | None:
        """Return the row that a file kept for `key`; None if somebody has edited its line."""
        if isinstance(values, dict) and values.get("check") == _check_of(values, key):
            return cls(**{name: value for name, value in values.items() if name != "check"})
        return None

    @property
    def spending(self) -> Spending:
        """The seconds that the search took, and the seconds of a predicted epoch."""
        return Spending(self.figures.get("search_seconds"), self.figures.get("epoch_seconds"))

    def kept(self, key: Key) -> dict[str, Any]:
        """Return the values to write to the study's file, with a hash that reveals edits."""
        return asdict(self) | {"check": _check_of(asdict(self), key)}

    def as_dict(self) -> dict[str, Any]:
        """Return the row as one flat mapping, for JSON and CSV."""
        flat = asdict(self)
        return (
            {name: flat[name] for name in list(flat)[:8]}
            | self.figures
            | {"sha256": self.sha256, "notes": "; ".join(self.notes), "why": self.why}
        )


def _check_of(values: Mapping[str, Any], key: Key) -> str:
    """Return a hash of the values of a row and of its key."""
    named = {name: value for name, value in values.items() if name != "check"}
    return hashlib.sha256(json.dumps([key, named], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Study:
    """The rows of a study; a row has the figures of one graph, contender, number of parts and seed.

    A contender is a model with options.

    Attributes:
        labels, parts, seeds: Labels of the contenders, numbers of parts, and seeds.
        baseline: Label of the contender to which all others are compared by ratios; None if there
            are no ratios.
        dims: Widths of the layers of predicted epochs.
        machine: Name of the machine of predicted epochs.
        balance: Balance of row plans, unless a contender sets another balance.
        num_kept: Number of rows that were kept from an earlier study.
    """

    rows: list[Row]
    labels: list[str]
    parts: list[int]
    seeds: list[int]
    baseline: str | None
    dims: list[int]
    machine: str
    balance: str = DEFAULT_BALANCE
    num_kept: int = 0

    @property
    def graphs(self) -> list[str]:
        """Names of the graphs, in the order of the study."""
        return list(dict.fromkeys(row.graph for row in self.rows))

    def ratio(self, row: Row, name: str) -> float | None:
        """Return a figure divided by the figure of the baseline for the same graph, parts and seed.

        Return None if one of the two figures is missing, or if the figure of the baseline is 0.
        """
        base = self._baselines.get((row.graph, row.parts, row.seed))
        value, beside = row.figures.get(name), base and base.figures.get(name)
        return value / beside if value is not None and beside else None

    @cached_property
    def _baselines(self) -> dict[tuple[str, int, int], Row]:
        rows = (row for row in self.rows if row.label == self.baseline)
        return {(row.graph, row.parts, row.seed): row for row in rows}

    def pays(self, row: Row) -> dict[str, Payoff]:
        """Return, for each name in `PAYS`, after how many epochs the search of `row` pays off.

        It pays off when shorter epochs have saved the time that the search took, compared with a
        random partition ("pays_random") or with the baseline ("pays_baseline").
        """
        random = Spending(0.0, row.figures.get("random_epoch_seconds"))
        base = self._baselines.get((row.graph, row.parts, row.seed), row)
        over = None if base is row else row.spending.pays_over(base.spending)
        return dict(zip(PAYS, (row.spending.pays_over(random), over), strict=True))

    def mean_ratio(self, label: str, parts: int, name: str) -> float | None:
        """Return the geometric mean of a contender's ratios to the baseline, in the figure `name`.

        The mean is over all graphs and seeds with `parts` parts. Return None if a ratio is unknown.
        """
        rows = [row for row in self.rows if (row.label, row.parts) == (label, parts)]
        ratios = [self.ratio(row, name) for row in rows]
        known = [value for value in ratios if value is not None]
        if not known or len(known) < len(ratios):
            return None
        return math.prod(known) ** (1 / len(known))

    def over_seeds(self, of: Callable[[list[float]], float] = fmean) -> Study:
        """Return the study with one row in place of the rows that differ only in the seed.

        If a figure is missing for one of the seeds, it is missing in the new row.

        Parameters:
            of: Function that combines the figures of all seeds into one figure.
        """
        groups: dict[tuple[str, int, str], list[Row]] = {}
        for row in self.rows:
            groups.setdefault((row.graph, row.parts, row.label), []).append(row)
        rows = []
        for first, *others in groups.values():
            each = {n: [v, *(r.figures.get(n) for r in others)] for n, v in first.figures.items()}
            known = {n: [v for v in values if v is not None] for n, values in each.items()}
            complete: dict[str, float | None] = {
                n: of(v) for n, v in known.items() if len(v) > len(others)
            }
            rows.append(replace(first, figures=complete))
        return replace(self, rows=rows)

    def as_dict(self) -> dict[str, Any]:
        """Return the study as a dict that can be written as JSON."""
        rows = []
        for row in self.rows:
            flat = row.as_dict() | self.pays(row)
            if self.baseline is not None:
                flat |= {f"{name}_ratio": self.ratio(row, name) for name in RATIOS}
            rows.append(flat)
        given = {name: getattr(self, name) for name in ("labels", "parts", "seeds", "baseline")}
        given |= {name: getattr(self, name) for name in ("dims", "machine", "balance")}
        return given | {"rows": rows}


def study(
    graphs: Sequence[StrPath],
    contenders: Sequence[Contender],
    parts: Sequence[int],
    *,
    seeds: Sequence[int] = (1,),
    baseline: str | None = None,
    settings: Mapping[str, Any] | None = None,
    results: StrPath | None = None,
    observer: Observer | None = None,
) -> Study:
    """Compile every graph with every contender (model or partitioner) for every number of parts.

    Parameters:
        baseline: Label of the contender to which all other contenders are compared by ratios.
        settings: Keywords of `plancc.read_graph` and `plancc.compile`, for all contenders that
            accept these keywords.
        results: File of JSON lines that keeps the rows; kept rows are not computed again. Rows of
            another version of plancc, or with other options, are ignored. If a row was edited, the
            study warns and computes the row again.
        observer: Function that takes the name of a row, and returns a context manager in which the
            row is computed.

    Returns:
        A row for every plan, sorted by graph, parts, contender and seed. If a compilation failed,
            its row has the reason.

    Raises:
        InputError: If a graph cannot be read, if two graphs have the same name, if no model has the
            objective in `settings`, or if `results` is not a file of a study.
    """
    labels = [each.label for each in contenders]
    if baseline is not None:
        check_choice("baseline", baseline, labels)
    names = [os.path.basename(os.path.abspath(path)) for path in graphs]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"graph '{name}' is given twice; rename one of the graphs")
    given = dict(settings or {})
    if given.get("objective") is not None:
        own = [name for model in MODELS.loaded().values() for name in model.own_objectives]
        check_choice("objective", given["objective"], dict.fromkeys([*own, *OBJECTIVES]))
    reading = {name: given.pop(name) for name in READING if name in given}
    cases = _Cases(given, reading, observer or (lambda _: nullcontext()))
    kept = None if results is None else open_kept(results)
    rows = []
    for path in graphs:
        source = _GraphFile(path, cases.reading)
        for num_parts, each, seed in product(parts, contenders, seeds):
            contender = each.at(source.name, num_parts)
            with cases.observer(f"{source.name}, {each.label}, p = {num_parts}"):
                found = cases.kept_row(kept, source, contender, num_parts, seed)
            rows.append(replace(found, graph=source.name, label=each.label))
    search = SearchOptions(dims=cases.settings.get("dims"), machine=cases.settings.get("machine"))
    dims, machine = search.predictor.dims, search.predictor.machine.title
    balance = str(cases.settings.get("balance") or DEFAULT_BALANCE)
    of = list(parts), list(seeds), baseline, list(dims), machine, balance, cases.num_kept
    return Study(rows, labels, *of)


def open_kept(path: StrPath) -> Kept:
    """Return the rows of a study that a file keeps; InputError if it is no file of a study."""
    name = os.fspath(path)
    check_target(path)
    if os.path.exists(path):
        with open_file(path) as file:
            first = file.readline(2**20)
        try:
            known = not first or "key" in json.loads(first)
        except (ValueError, TypeError, RecursionError):
            known = False
        if not known:
            raise InputError(f"{name}: is not a file of a study; choose another name (`results`)")
    return Kept(Path(path), __version__)


class _GraphFile:
    """The file of a graph, which is read at its first use."""

    def __init__(self, path: StrPath, reading: Mapping[str, Any]) -> None:
        self.path, self.name = path, os.path.basename(os.path.abspath(path))
        self._reading = reading
        if not os.path.isdir(path):
            check_readable(path)

    @cached_property
    def sha256(self) -> str:
        """The hash of the file; if `path` is a folder, of the folder's files that are read."""
        return self.graph.source.sha256 if os.path.isdir(self.path) else sha256_of(self.path)

    @cached_property
    def graph(self) -> Graph:
        return read_graph(self.path, **self._reading)


@dataclass
class _Cases:
    """The settings with which a study compiles the plan of every row of its table.

    `num_kept` is the number of table rows that were taken from an earlier run of the study.
    """

    settings: dict[str, Any]
    reading: dict[str, Any]
    observer: Observer
    num_kept: int = 0

    def key(self, source: _GraphFile, contender: Contender, num_parts: int, seed: int) -> Key:
        """Return the key of a row of the study: all values on which the row depends."""
        settings = {
            name: value.to_json() if isinstance(value, Machine) else value
            for name, value in contender.settings(self.settings).items()
        }
        part = settings.get("part")
        if isinstance(part, str) and os.path.isfile(part):
            settings["part"] = sha256_of(part)
        words = json.dumps([contender.model, settings, self.reading], sort_keys=True, default=str)
        return [source.sha256, words, num_parts, seed]

    def kept_row(
        self, kept: Kept | None, source: _GraphFile, contender: Contender, num_parts: int, seed: int
    ) -> Row:
        """Return the row in `kept`; else make a new row and, if its plan did not fail, keep it."""
        key = self.key(source, contender, num_parts, seed)
        if kept is not None and key in kept:
            known = Row.from_kept(kept[key], key)
            if known is not None:
                self.num_kept += 1
                return known
            where = f"{kept.path}, line {kept.line(key)}"
            said = f"{where}: the row was edited; it is measured again"
            warn(said)
        found = self.row(source, contender, num_parts, seed)
        if kept is not None and not found.why:
            kept.put(key, found.kept(key))
        return found

    def row(self, source: _GraphFile, contender: Contender, num_parts: int, seed: int) -> Row:
        """Compile one plan; return its row of the study, with its figures or why it failed."""
        graph = source.graph
        settings = contender.settings(self.settings)
        row = Row(
            source.name,
            graph.num_vertices,
            graph.num_nonzeros,
            contender.label,
            contender.model,
            str(settings.get("partitioner", AUTO)),
            num_parts,
            seed,
        )
        begin = wall_seconds()
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", PlanccWarning)
                plan = compile(graph, contender.model, num_parts, seed=seed, **settings)
        except (PlanccError, MemoryError) as error:
            return replace(row, why=str(error) or "out of memory")
        except Exception as error:  # a third party's model failed; the study continues
            return replace(row, why=f"unexpected {type(error).__name__}: {error}")
        seconds = wall_seconds() - begin
        notes = [str(each.message) for each in said if issubclass(each.category, PlanccWarning)]
        return replace(
            row,
            partitioner=str(plan.provenance.get("partitioner") or "none"),
            figures=_figures(plan) | {"seconds": seconds},
            sha256=plan.content_sha256(),
            notes=notes,
        )


def _figures(plan: Plan) -> dict[str, float | None]:
    times, baseline = EpochTimes.of_plan(plan), plan.baseline
    return {
        **plan.metrics().figures(),
        "random_volume": None if baseline is None else baseline.volume,
        "epoch_seconds": times.seconds,
        "random_epoch_seconds": times.random,
        "bound_seconds": times.bound,
        "search_seconds": search_seconds(plan.provenance),
    }
