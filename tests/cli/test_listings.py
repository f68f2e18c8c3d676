"""`plancc models` and its like list what is registered, third parties' entries included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_helpers import fails, ok

from plancc.cost.objectives import OBJECTIVES
from plancc.graph.formats import FORMATS
from plancc.models import MODELS
from plancc.partitioners import PARTITIONERS
from plancc.predict.machine_files import shipped_machines
from plancc.sampling import SAMPLERS

NAMES = {
    "models": MODELS,
    "partitioners": PARTITIONERS,
    "samplers": SAMPLERS,
    "formats": FORMATS,
    "machines": shipped_machines(),
    "objectives": [*OBJECTIVES, "cut"],
}


@pytest.mark.parametrize(("plural", "registry"), NAMES.items(), ids=NAMES)
def test_a_line_for_every_name(plural, registry, tmp_path):
    names = list(registry)
    lines = ok(plural).splitlines()
    assert [line.split()[0] for line in lines] == names
    assert all(len(line.split()) > 1 for line in lines)
    every = json.loads(ok(plural, "--json"))
    assert list(every) == names
    for name in names:
        assert ok(plural, name).startswith(f"{name}: ")
        assert json.loads(ok(plural, name, "--json")) == every[name]
    error = fails(tmp_path, plural, "bogus")
    assert error.startswith(f"unknown {plural[:-1]} 'bogus': choose from {names[0]}, ")


def test_what_a_line_says():
    lines = {line.split()[0]: line for line in ok("models").splitlines()}
    assert lines["gp"].endswith("row plans; metis, kaminpar, builtin")
    assert lines["mop"].endswith("feature plans")
    assert ".mtx: read and written" in ok("formats")
    assert ".npz: read; " in ok("formats")


def test_options_of_one():
    page = ok("models", "stochastic-hp")
    assert "  --theta              error of the expected connectivity [0.1]\n" in page
    assert "  --fanouts" in page
    assert "  searched: yes\n" in page
    assert json.loads(ok("samplers", "neighbour", "--json"))["options"]["--fanouts"].endswith(
        "[required]"
    )
    assert "Options" not in ok("models", "rp")


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
    """Rows in stripes. More of it."""

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
    """An option of hub-split, a sampler's and that of mini-batches, in other types."""

    threshold: float = option(0.5, "share of the rows")
    keep: int = option(1, "rows to keep")
    batches: int = option(1, "stripes at once")


@dataclass(frozen=True)
class Drawing(UniformSampler):
    """Options with names of the commands'."""

    name = "drawing"
    seed: int = option(7, "a seed of its own")
    batches: str = option("", "batches of its own")
'''


@pytest.fixture
def others(tmp_path):
    """Run `plancc` beside a package of a third party, as pip installs it."""
    info = tmp_path / "site" / "others-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    (info.parent / "others.py").write_text(MODULE)
    (tmp_path / "ring.el").write_text("0 1\n1 2\n2 3\n3 0\n")

    def run(*lines: str) -> list[tuple[str, str]]:
        """What every line prints, and its error; one process."""
        code = (
            "import contextlib, io, json, sys\nfrom plancc_cli.main import command\n"
            "answers = []\n"
            "for line in sys.stdin:\n"
            "    error = ''\n"
            "    with contextlib.redirect_stdout(io.StringIO()) as out:\n"
            "        try:\n"
            "            command.main(line.split(), prog_name='plancc', standalone_mode=False)\n"
            "        except Exception as refused:\n"
            "            error = f'{type(refused).__name__}: {refused}'\n"
            "    answers.append((out.getvalue(), error))\n"
            "print(json.dumps(answers))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            input="\n".join(lines),
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(info.parent)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        assert "is used more than once" not in done.stderr
        return [(out, error) for out, error in json.loads(done.stdout)]

    return run


def test_a_model_of_a_third_party(others, tmp_path: Path):
    *told, (_, refused) = others(
        "models",
        "models striped",
        "models absent",
        "--help",
        "compile --help",
        "compile ring.el --model striped --stripe-width 2 -p 2 -o plan.h5 --json",
        "compile ring.el --stripe-width 2 -p 2 -o other.h5",
    )
    assert not any(error for _, error in told)
    listed, striped, absent, _, help_of_compile, compiled = (out for out, _ in told)
    assert "\nstriped        Rows in stripes; row plans\n" in listed
    cannot = "model 'absent' of package others cannot be loaded: "
    assert f"\nabsent         {cannot}" in listed
    assert cannot in absent
    assert striped.startswith("striped: Rows in stripes. More of it.\n")
    assert "\n  --stripe-width       rows of a stripe [1]\n" in striped
    assert "\n    striped: --stripe-width\n" in help_of_compile
    assert json.loads(compiled)["provenance"]["model_stripe_width"] == "2"
    assert "model 'hp' has no option --stripe-width" in refused
    assert not (tmp_path / "other.h5").exists()


def test_options_with_names_of_the_commands(others):
    """Other models compile as without the third party's; its own is refused in a sentence."""
    words = "compile ring.el -p 2 --seed 3 --threads 1 --format edgelist -o plan.h5"
    answers = others(
        words,
        f"{words} --model stochastic-hp --batches 4 --sampler uniform --batch-size 2",
        "compile --help",
        "inspect --help",
        "inspect plan.h5 --batches 2 --seed 3 --batch-size 2",
        "compile ring.el -p 2 --model taking -o no.h5",
        "compile ring.el -p 2 --model stochastic-hp --sampler drawing -o no.h5",
        "inspect plan.h5 --batches 2 --sampler drawing",
    )
    for out, error in answers[:5]:
        assert not error
        assert "of its own" not in out
    refused = [error for _, error in answers[5:]]
    for error, what in zip(
        refused, ("model 'taking'", "sampler 'drawing'", "sampler 'drawing'"), strict=True
    ):
        assert error.startswith(f"BackendUnavailable: {what}")
        assert ": its option 'seed' has the name of one of plancc's own" in error


def test_options_of_one_name_and_several_types(others):
    """The type is that of the model that is chosen."""
    words = "compile ring.el -p 2 -o plan.h5 --json"
    *told, (_, first), (_, second) = others(
        f"{words} --model shared --threshold 0.3 --keep 2 --batches 5",
        f"{words} --model hub-split --threshold 3",
        f"{words} --model stochastic-hp --sampler edges --keep 0.5 --batches 4",
        f"{words} --model stochastic-hp --batches auto --batch-size 2",
        f"{words} --model hub-split --threshold 0.3",
        f"{words} --model shared --threshold x",
    )
    assert not any(error for _, error in told)
    shared, hubs, edges, _ = (json.loads(out)["provenance"] for out, _ in told)
    assert (shared["model_threshold"], shared["model_keep"]) == ("0.3", "2")
    assert hubs["model_threshold"] == "3"
    assert "edges" in edges["sampler"]
    assert "keep=0.5" in edges["sampler"]
    assert "--threshold '0.3': a value of type int is needed" in first
    assert "--threshold 'x': a value of type float is needed" in second
