"""`python -OO` leaves docstrings out, of which helps are made: a sentence stands in their place."""

import subprocess
import sys

from plancc.models import MODELS
from plancc.text import NO_DOCSTRINGS, docstring

CODE = """
import click
from plancc_cli import dataset, group, registries, run_command
from plancc.models.block import BlockModel
context = click.Context(group.command)
for name in ("verify", "compare"):
    print(group.command.get_command(context, name).help)
print(dataset.command.get_command(context, "karate").help)
for program in (group.command, run_command.command):
    program.make_context("plancc", ["x"], resilient_parsing=True)
    print(program.help)
print(registries._about(BlockModel))
"""


def test_helps_say_what_they_lack() -> None:
    done = subprocess.run([sys.executable, "-OO", "-c", CODE], capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [NO_DOCSTRINGS] * 6


def test_with_docstrings() -> None:
    assert all(docstring(model)[-1:] == "." for model in (MODELS[name] for name in ("hp", "rp")))
    assert docstring(None) == ""
    assert docstring(type("Silent", (), {"__doc__": "Silent(a: int = 1)"})) == ""
