"""The versions of torch_geometric that the adapter is for, and the table of its layers."""

import json
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

pytest.importorskip("torch_geometric")

from convolutions import CASES, EXACT_WITH, REFUSED, of_class
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[3]
TABLE = ROOT / "docs" / "results" / "own-model-layers.json"


def test_the_installed_version_is_one_that_the_project_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [wanted] = map(Requirement, project["optional-dependencies"]["pyg"])
    version = metadata.version("torch_geometric")
    assert version in wanted.specifier, "run tests/runtime/pyg, then widen the range"


def test_the_table_of_layers_is_that_of_the_cases(request):
    exact = {of_class(name): "exact" for name in CASES}
    table = exact | EXACT_WITH | {name: f"refused: {reason}" for name, reason in REFUSED.items()}
    text = json.dumps(dict(sorted(table.items())), indent=1) + "\n"
    if request.config.option.golden:
        TABLE.write_text(text)
    assert TABLE.read_text() == text, "pytest --golden writes it"
