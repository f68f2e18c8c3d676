"""The package of docs/reference/extending.md, as it stands: it takes part, passes its checks."""

import configparser
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder with the package as pip installs it, and its tests."""
    folder = tmp_path_factory.mktemp("site")
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "extending.md").read_text()
    for name, text in re.findall(r"```python\n# (\S+)\n(.*?)```", page, re.S):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    info = folder / "mine-1.0.dist-info"
    info.mkdir()
    (toml,) = re.findall(r"```toml\n(.*?)```", page, re.S)
    project = tomllib.loads(toml)["project"]
    header = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(header)
    points = configparser.ConfigParser(delimiters="=")
    points.read_dict(project["entry-points"])
    with (info / "entry_points.txt").open("w") as file:
        points.write(file)
    return folder


CODE = """
import sys
import pytest
from plancc_cli.group import command
from plancc_cli.run_command import command as run
failed = pytest.main(["-p", "no:cacheprovider", "-rs", "test_mine.py", "test_gathered.py"])
for program, *words in map(str.split, sys.stdin):
    {"plancc": command, "plancc-run": run}[program].main(words, standalone_mode=False)
sys.exit(failed)
"""
LINES = """
plancc compile ring.txt --model capped-hp --most-pins 7 -p 4 --effort fast -o a.h5
plancc compile ring.txt --model gp --partitioner ordered -p 2 -o b.h5
plancc list models capped-hp
plancc list partitioners
plancc simulate b.h5 --model scaled --model-option scale=0.5
plancc-run b.h5 --model scaled --model-option scale=0.5 --ranks 2 --epochs 2
"""


@pytest.fixture(scope="module")
def told(package):
    """What one process says that runs the package's tests, and then these commands."""
    (package / "ring.txt").write_text("".join(f"{k} {(k + 1) % 20}\n" for k in range(20)))
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        input=LINES.strip(),
        env=os.environ | {"PYTHONPATH": str(package)},
        **{"capture_output": True, "text": True, "timeout": 300, "cwd": package},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_checks_pass(told):
    assert re.search(r" \d\d passed", told)
    assert "skipped" not in told


@pytest.mark.parametrize(
    "words",
    ["model capped-hp", "model gp by ordered", "most pins of a net", "a scaled of", "SCALED"],
)
def test_they_take_part(words, told):
    """Model and partitioner in plans and listings; the layer is predicted, and trains."""
    assert words in told
