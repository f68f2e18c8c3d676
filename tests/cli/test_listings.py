"""`plancc list WHAT` lists what is registered, third parties' entries included."""

import json
import os
import re
import subprocess
import sys

import pytest
from cli_helpers import as_json, fails, ok

from plancc.cost.objectives import OBJECTIVES
from plancc.fields import options_of
from plancc.graph.formats import FORMATS
from plancc.models import MODELS
from plancc.partitioners import PARTITIONERS
from plancc.predict.machine_files import SHIPPED, find_machine, read_machine, shipped_machines
from plancc.sampling import SAMPLERS
from plancc_cli import options

NAMES = {
    "models": MODELS,
    "partitioners": PARTITIONERS,
    "samplers": SAMPLERS,
    "formats": FORMATS,
    "objectives": [*OBJECTIVES, "cut"],
}


@pytest.mark.parametrize(("plural", "registry"), NAMES.items(), ids=NAMES)
def test_a_line_for_every_name(plural, registry, tmp_path):
    names = list(registry)
    lines = ok("list", plural).splitlines()
    assert [line.split()[0] for line in lines] == names
    assert all(len(line.split()) > 1 for line in lines)
    every = as_json("list", plural)
    assert list(every) == names
    for name in names:
        assert ok("list", plural, name).startswith(f"{name}: ")
        assert as_json("list", plural, name) == every[name]
    error = fails(tmp_path, "list", plural, "bogus")
    assert error.startswith(f"unknown {plural[:-1]} 'bogus'; choose from {names[0]}, ")


def test_machines(tmp_path, monkeypatch):
    table = ok("list", "machines")
    for name in shipped_machines():
        assert f"\n{name} " in f"\n{table}"
        path = tmp_path / "mine.toml"
        path.write_text(ok("list", "machines", name))
        assert read_machine(path) == find_machine(name)
    assert as_json("list", "machines", "h100")["node"]["ranks"] == 8
    assert fails(tmp_path, "list", "machines", "bogus").startswith(
        "unknown machine 'bogus'; choose from"
    )
    for file in (path.rename(tmp_path / "mine"), "none.toml"):
        error = fails(tmp_path, "list", "machines", file)
        assert error.startswith(f"unknown machine '{file}'; to read a file, use `plancc simulate")
        assert f"--machine {file}`" in error
    monkeypatch.chdir(tmp_path)
    (tmp_path / "h100").touch()
    assert ok("list", "machines", "h100").startswith(SHIPPED.joinpath("h100.toml").read_text())


ENTRY_POINTS = """
[plancc.models]
striped = others:Striped
absent = no_such_module:Model
taking = others:Taking
shared = others:Shared
[plancc.samplers]
drawing = others:Drawing
"""

MODULE = '''
from dataclasses import dataclass

import numpy as np

from plancc.fields import option
from plancc.models.base import Model
from plancc.models.problem import Assignment
from plancc.sampling.uniform import UniformSampler


@dataclass(frozen=True)
class Striped(Model):
    """Rows in stripes. More\\a of it."""

    stripe_width: int = option(1, "rows of a stripe")

    def build(self, matrix, num_parts, *, balance, seed):
        rows = np.arange(matrix.num_vertices) // self.stripe_width
        return Assignment((rows % num_parts).astype(np.int32))


class Dealt(Model):
    def build(self, matrix, num_parts, *, balance, seed):
        return Assignment(np.arange(matrix.num_vertices, dtype=np.int32) % num_parts)


@dataclass(frozen=True)
class Taking(Dealt):
    """Options with names of the command's."""

    seed: int = option(7, "a seed of its own")
    threads: str = option("", "threads of its own")
    format: str = option("", "a format of its own")
    json: bool = option(False, "JSON of its own")


@dataclass(frozen=True)
class Shared(Dealt):
    """An option of mop, a sampler's and that of mini-batches, in other types."""

    groups: float = option(0.5, "share of the rows")
    keep: int = option(1, "rows to keep")
    batches: int = option(1, "stripes at once")


@dataclass(frozen=True)
class Drawing(UniformSampler):
    """Options with names of the commands'."""

    name = "drawing"
    seed: int = option(7, "a seed of its own")
    batches: str = option("", "batches of its own")
'''


COMPILE = "compile ring.el -p 2 -o plan.h5"
LINES = {
    "listed": "list models",
    "striped": "list models striped",
    "absent": "list models absent",
    "help": "compile --help all",
    "help of inspect": "inspect --help",
    "compiled": f"{COMPILE} --model striped --stripe-width 2 --json",
    "another's option": "compile ring.el --stripe-width 2 -p 2 -o other.h5",
    # other models compile as without the third party's
    "hp": f"{COMPILE} --seed 3 --threads 1 --format edgelist",
    "mini-batches": f"{COMPILE} --model stochastic-hp --batches 4 --sampler uniform --batch-size 2",
    "inspected": "inspect plan.h5 --batches 2 --seed 3 --batch-size 2",
    # an option of one name and several types has that of the model that is chosen
    "shared": f"{COMPILE} --json --model shared --groups 0.3 --keep 2 --batches 5",
    "grouped": f"{COMPILE} --json --model mop --groups 2",
    "edges": f"{COMPILE} --json --model stochastic-hp --batches 4 --sampler edges "
    "--sampler-option keep=0.5",
    "automatic": f"{COMPILE} --model stochastic-hp --batches auto --batch-size 2",
    "no int": f"{COMPILE} --model mop --groups 0.3",
    "no float": f"{COMPILE} --model shared --groups x",
}
REFUSED = ("another's option", "no int", "no float")
PROGRAM = """
import contextlib, io, json, sys
from plancc_cli.group import command
answers = []
for line in sys.stdin:
    error = ""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            command.main(line.split(), prog_name="plancc", standalone_mode=False)
        except Exception as refused:
            error = f"{type(refused).__name__}: {refused}"
    answers.append((out.getvalue(), error))
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What `plancc` says beside a package of a third party, as pip installs it; one process."""
    folder = tmp_path_factory.mktemp("others")
    info = folder / "site" / "others-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (info.parent / "others.py").write_text(MODULE)
    (folder / "ring.el").write_text("0 1\n1 2\n2 3\n3 0\n")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input="\n".join(LINES.values()),
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(info.parent), *sys.path])},
        **{"capture_output": True, "text": True, "timeout": 240},
    )
    assert done.returncode == 0, done.stderr
    assert "is used more than once" not in done.stderr
    answers = dict(zip(LINES, json.loads(done.stdout), strict=True))
    assert not (folder / "other.h5").exists()
    assert [name for name, (_, error) in answers.items() if error] == [*REFUSED]
    return {name: error or out for name, (out, error) in answers.items()}


def test_a_model_of_a_third_party(told: dict[str, str]) -> None:
    assert "\nstriped        Rows in stripes; row plans\n" in told["listed"]
    cannot = "model 'absent' of package others cannot be loaded: "
    assert f"\nabsent         {cannot}" in told["listed"]
    assert cannot in told["absent"]
    assert told["striped"].startswith(
        "striped: Rows in stripes. More\N{REPLACEMENT CHARACTER} of it.\n"
    )
    assert "\n  --stripe-width       rows of a stripe [1]\n" in told["striped"]
    assert "\n  --stripe-width N " in told["help"]
    assert json.loads(told["compiled"])["provenance"]["model_stripe_width"] == "2"
    assert "model 'hp' has no option --stripe-width" in told["another's option"]


def test_options_with_names_of_the_commands(told: dict[str, str]) -> None:
    for name in ("hp", "mini-batches", "help", "help of inspect", "inspected"):
        assert not re.search("(seed|threads|format|JSON|batches) of its own", told[name])


def test_options_of_one_name_and_several_types(told: dict[str, str]) -> None:
    shared, grouped, edges = (
        json.loads(told[name])["provenance"] for name in ("shared", "grouped", "edges")
    )
    assert (shared["model_groups"], shared["model_keep"]) == ("0.3", "2")
    assert grouped["model_groups"] == "2"
    assert "edges" in edges["sampler"]
    assert "keep=0.5" in edges["sampler"]
    assert "--groups '0.3': a whole number is needed" in told["no int"]
    assert "--groups 'x': a number is needed" in told["no float"]


def test_no_option_of_plancc_has_the_name_of_another() -> None:
    of_models = {name for model in MODELS.loaded().values() for name in model.option_fields()}
    of_samplers = {each.name for of in SAMPLERS.loaded().values() for each in options_of(of)}
    assert of_models
    assert {"seed", "stop", "json"} <= options.taken()
    assert not of_models & options.taken()
    assert not of_samplers & {*options.taken(), "batches"}
