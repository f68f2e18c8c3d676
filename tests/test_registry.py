"""Third parties add models, partitioners, formats and data sets by entry points."""

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

import plancc
from plancc.errors import BackendError, BackendUnavailable, InputError
from plancc.graph.formats import FORMATS
from plancc.models import MODELS
from plancc.models.graph import GraphModel
from plancc.models.hypergraph import HypergraphModel
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.run import partition
from plancc.registry import Registry
from plancc.report.provenance import read_tried
from plancc.sampling import SAMPLERS
from plancc_cli.group import COMMANDS
from plancc_cli.words import unexpected
from plancc_datasets.dataset import DATASETS, load_dataset

ENTRY_POINTS = """
[plancc.models]
stripes = others:Stripes
scaled = others:Scaled
absent = no_such_module:Model
nothing = others:Nothing
loner = others:Loner
idle = others:Idle
instance = others:INSTANCE
hp = others:Stripes
arrays = others:Arrays
looked-for = others:LookedFor
crossed = others:Crossed
broken = others:Broken
[plancc.partitioners]
dealt = others:DEALT
bare = others:deal
uncut = others:UNCUT
[plancc.formats]
pairs = others:PAIRS
absent = no_such_module:FORMAT
plain = others:read_pairs
lists = others:LISTS
[plancc.samplers]
nobody = others:Loner
[plancc.datasets]
line = others:Line
bent = others:Bent
[plancc.commands]
greet = others:greet
greeting = others:Line
"""

# without "from __future__ import annotations": the types of the fields are types, not strings
MODULE = """
from dataclasses import dataclass, field, replace
from typing import ClassVar

import click
import numpy as np

from plancc.fields import option
from plancc.graph.canonical import build_graph
from plancc.graph.formats import Format
from plancc.models.base import EdgeModel, Model
from plancc.models.hypergraph import HypergraphModel
from plancc.models.problem import Assignment, Hypergraph, WeightedGraph
from plancc.partitioners.adapter import Adapter
from plancc_datasets.dataset import Dataset


class Stripes(Model):
    def build(self, matrix, num_parts, *, balance, seed):
        return Assignment(np.arange(matrix.num_vertices, dtype=np.int32) % num_parts)


@dataclass(frozen=True)
class Scaled(Model):
    \"\"\"Column nets at a price.\"\"\"

    problem: ClassVar[type] = Hypergraph
    searched: ClassVar[bool] = True
    default_objective: ClassVar[str] = "volume"
    minimised: ClassVar[tuple] = ("volume",)

    factor: int = option(3, "cost of a net")

    def build(self, matrix, num_parts, *, balance, seed):
        found = HypergraphModel().build(matrix, num_parts, balance=balance, seed=seed)
        return replace(found, net_costs=np.full(found.num_nets, self.factor))


class Loner:
    def build(self, matrix, num_parts, *, balance, seed):
        return Assignment(np.zeros(matrix.num_vertices, dtype=np.int32))


class Idle(Model):
    pass


INSTANCE = Scaled()


def deal(problem, num_parts, *, epsilon, seed, preset, threads):
    costs = None if problem.net_costs is None else problem.net_costs.max()
    print(f"dealt: nets of cost {costs}")
    return np.arange(problem.num_vertices) % num_parts


class Arrays(Model):
    def build(self, matrix, num_parts, *, balance, seed):
        return np.zeros(matrix.num_vertices)


class LookedFor(Arrays):
    problem: ClassVar[type] = Hypergraph
    searched: ClassVar[bool] = True
    default_objective: ClassVar[str] = "volume"


class Crossed(EdgeModel):
    build = Arrays.build


class Broken(Model):
    def build(self, matrix, num_parts, *, balance, seed):
        return matrix.num_rows  # line @


def uncut(problem, num_parts, **options):
    raise KeyError("uncut")


UNCUT = Adapter("uncut", uncut, (WeightedGraph,), ("only",), ("cut",))


DEALT = Adapter("dealt", deal, (Hypergraph,), ("only",), auto_rank={Hypergraph: 99})


def read_pairs(path, *, pattern, symmetrize, transpose):
    ends = np.loadtxt(path, dtype=np.int64, ndmin=2)
    return build_graph(int(ends.max()) + 1, ends[:, 0], ends[:, 1], None)


PAIRS = Format((".pairs",), read_pairs)
LISTS = Format((".lists",), lambda path, **flags: [(0, 1)])


@dataclass(frozen=True)
class Line:
    \"\"\"A line.\"\"\"

    n: int = field(default=10, metadata={"help": "Vertices."})

    def build(self):
        i = np.arange(self.n - 1)
        return Dataset(build_graph(self.n, i, i + 1, None))


@dataclass(frozen=True)
class Bent:
    def build(self):
        return Line().build().graph


@click.command()
def greet():
    click.echo("good day")
"""
LINES = MODULE.splitlines()


@pytest.fixture
def package(tmp_path):
    """A folder as pip makes it, with the package `others`."""
    folder = tmp_path / "site"
    info = folder / "others-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (folder / "others.py").write_text(MODULE)
    return folder


def test_names_and_errors(package, monkeypatch):
    monkeypatch.syspath_prepend(package)
    models = Registry("model", "plancc.models", {"hp": "plancc.models.hypergraph:HypergraphModel"})
    assert models.names()[:4] == ["hp", "stripes", "scaled", "absent"]
    assert models["hp"].__name__ == "HypergraphModel"  # not theirs
    assert models["stripes"].__name__ == "Stripes"
    with pytest.raises(
        InputError, match="unknown model 'best'; choose from hp, stripes, scaled, absent"
    ):
        models["best"]
    with pytest.raises(BackendUnavailable, match="model 'absent' of package others cannot be lo"):
        models["absent"]
    with pytest.raises(BackendUnavailable, match="model 'nothing' of package others cannot be lo"):
        models["nothing"]


@pytest.fixture
def registered(package, monkeypatch):
    """All registries with the package's entries."""
    monkeypatch.syspath_prepend(package)
    for registry in (FORMATS, MODELS, PARTITIONERS, SAMPLERS, DATASETS, COMMANDS):
        monkeypatch.setattr(registry, "_plugins", None)
    yield
    sys.modules.pop("others", None)


WRONG = [
    (MODELS, "loner", "model 'loner' of package others cannot be used: others:Loner is not a "
     "subclass of plancc.models.base.Model"),
    (MODELS, "instance", "others:INSTANCE is not a subclass of plancc.models.base.Model"),
    (MODELS, "idle", "model 'idle' of package others cannot be used: others:Idle does not define "
     "build"),
    (PARTITIONERS, "bare", "others:deal is not an instance of plancc.partitioners.adapter.Adapter"),
    (FORMATS, "plain", "others:read_pairs is not an instance of plancc.graph.formats.Format"),
    (COMMANDS, "greeting", "others:Line is not an instance of click.Command"),
    (SAMPLERS, "nobody", "others:Loner is not a subclass of plancc.sampling.sampler.Sampler"),
]  # fmt: skip


@pytest.mark.parametrize(("registry", "name", "words"), WRONG)
@pytest.mark.usefixtures("registered")
def test_what_does_not_fit_is_said_when_it_is_used(registry, name, words):
    assert name in registry
    assert name not in registry.loaded()
    with pytest.raises(BackendUnavailable) as caught:
        registry[name]
    assert str(caught.value).endswith(words)


RING = sp.csr_array(np.roll(np.eye(12), 1, axis=1))


@pytest.mark.usefixtures("registered")
def test_what_does_not_fit_disturbs_nobody_else():
    with pytest.raises(BackendUnavailable, match="partitioner 'bare' of package others"):
        plancc.compile(RING, "hp", 3, partitioner="bare")
    with pytest.raises(BackendUnavailable, match="model 'loner' of package others"):
        plancc.compile(RING, "loner", 3)
    with pytest.raises(BackendUnavailable, match="sampler 'nobody' of package others"):
        plancc.compile(RING, "stochastic-hp", 3, sampler="nobody")
    with pytest.raises(InputError, match="no option `factor`; it is for 'scaled'"):
        plancc.compile(RING, "rp", 3, factor=4)
    with pytest.raises(InputError, match=r"pairs \(.pairs\), lists"):
        plancc.read_graph(__file__)
    plan = plancc.compile(RING, "auto", 3, candidates=["stripes", "scaled"], effort="fast")
    assert plan.provenance["chosen_model"] == "scaled"


def line_of(text):
    """The line of the package's module that holds a text."""
    return next(k for k, line in enumerate(LINES, 1) if text in line)


@pytest.mark.usefixtures("registered")
def test_what_a_model_builds_is_its_own_fault():
    """Model, package, what is to be built, file and line; whoever asks it to build."""
    place = rf"\(.*others.py, line {line_of('class Arrays') + 1}\)$"
    for name, expected in (
        ("arrays", "Assignment or Hypergraph or WeightedGraph"),
        ("looked-for", "Hypergraph or WeightedGraph"),
        ("crossed", "Assignment or EdgeProblem"),
    ):
        words = f"^model '{name}' of package others builds a ndarray; it .*: {expected} {place}"
        with pytest.raises(BackendError, match=words):
            plancc.compile(RING, name, 3)
    with pytest.raises(BackendError, match=r"^model 'arrays' of package others builds a ndarray"):
        plancc.compile(RING, "cagnet-1d", 3, blocks="arrays")


@pytest.mark.usefixtures("registered")
def test_what_others_raise_is_not_ours(tmp_path):
    with pytest.raises(AttributeError) as caught:
        plancc.compile(RING, "broken", 3)
    line = f"others.py, line {line_of('# line @')}; PLANCC_TRACEBACK=1 shows the traceback"
    said = unexpected(caught.value)
    assert said.startswith("unexpected AttributeError: 'Graph' object has no attribute 'num_rows'")
    assert f"{line}; please report it)" in said
    (tmp_path / "a.lists").write_text("0 1\n")
    with pytest.raises(
        BackendError, match=r"format 'lists' of package others reads a list, not a "
    ):
        plancc.read_graph(tmp_path / "a.lists")
    with pytest.raises(
        BackendError, match="dataset 'bent' of package others builds a Graph; it must build "
    ):
        load_dataset("bent")
    with pytest.raises(ZeroDivisionError) as caught:
        1 / 0  # noqa: B018
    assert "please report it" in unexpected(caught.value)


@pytest.mark.usefixtures("registered")
def test_the_model_that_suits_a_partitioner_is_named():
    words = "'uncut' cannot partition a hypergraph; use `model` gp, which it suits, or choose from "
    for model in (None, "hp", "medium-grain"):
        with pytest.raises(InputError, match=words):
            plancc.compile(RING, model, 3, partitioner="uncut")
    words = "'dealt' cannot partition a graph; use `model` hp, which it suits, or choose from mtk"
    with pytest.raises(InputError, match=words):
        plancc.compile(RING, "gp", 3, partitioner="dealt")


@pytest.mark.usefixtures("registered")
def test_a_partitioner_of_high_rank_is_what_auto_takes(capsys):
    problem = HypergraphModel().build(plancc.as_graph(RING), 3, balance="nnz", seed=1)
    assert partition(problem, 3).partitioner == "dealt"
    assert capsys.readouterr().out == "dealt: nets of cost None\n"
    graph = GraphModel().build(plancc.as_graph(RING), 3, balance="nnz", seed=1)
    assert partition(graph, 3).partitioner == "metis"  # dealt takes no graphs
    plan = plancc.compile(RING, "hp", 3, preset="only")
    assert plan.provenance["partitioner"] == "dealt"


@pytest.mark.usefixtures("registered")
def test_a_model_is_searched_from_its_own_problem(capsys):
    plan = plancc.compile(RING, "scaled", 3, effort="fast", factor=7)
    plancc.verify(plan)
    assert capsys.readouterr().out == "dealt: nets of cost 7\n"
    steps = [trial["step"] for trial in read_tried(plan.provenance)]
    assert steps == ["dealt seed 1", "sweeps"]
    named = {"partitioner": "plancc", "partitioner_versions": "dealt", "model_factor": "7"}
    assert plan.provenance | named == plan.provenance
    alone = plancc.compile(RING, "scaled", 3, partitioner="dealt")
    assert alone.owner().tolist() == [i % 3 for i in range(12)]
    assert capsys.readouterr().out == "dealt: nets of cost 3\n"


def test_the_command_line_takes_them(package, tmp_path):
    (tmp_path / "ring.pairs").write_text("0 1\n1 2\n2 3\n3 4\n4 0\n")
    code = """
import sys
from plancc_cli.group import command
for line in sys.stdin:
    command.main(line.split(), standalone_mode=False)
"""
    lines = [
        "--help",
        "greet",
        "compile --help all",
        "list models",
        "list models scaled",
        "list partitioners",
        "list samplers",
        "list formats",
        "compile ring.pairs --model stripes -p 2 -o a.h5",
        "compile ring.pairs --model hp --partitioner dealt -p 2 -o b.h5",
        "dataset line --n 7 -o line.mtx",  # whatever the format that cannot be loaded
    ]
    done = subprocess.run(
        [sys.executable, "-c", code],
        input="\n".join(lines),
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(package), *sys.path])},
        **{"capture_output": True, "text": True, "timeout": 120},
    )
    assert done.returncode == 0, done.stderr
    assert "--factor" in done.stdout
    told = " ".join(done.stdout.split())
    assert "Of other packages: greet, greeting Options:" in told
    assert "good day" in told
    for registry, name, _ in WRONG:  # the lists say why they cannot be used
        assert registry is COMMANDS or f"'{name}' of package others cannot be used" in told
    assert "2 parts, model stripes" in done.stdout
    assert "2 parts, model hp by dealt (only)" in done.stdout
    assert "line.mtx: 7 vertices, 6 nonzeros" in done.stdout
