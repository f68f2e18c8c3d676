"""The package of docs/extending.md, as it stands there: it takes part, and passes its checks."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "extending.md").read_text()


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A folder with the package as pip installs it, and its tests."""
    folder = tmp_path_factory.mktemp("site")
    for name, text in re.findall(r"```python\n# (\S+)\n(.*?)```", PAGE, re.S):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    info = folder / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    points = "".join(re.findall(r"```toml\n(.*?)```", PAGE, re.S))
    points = re.sub(r'\[project.entry-points."(.*?)"\]', r"[\1]", points).replace('"', "")
    (info / "entry_points.txt").write_text(points)
    return folder


def run(package, *command, **options):
    """The standard output of a Python command."""
    done = subprocess.run(
        [sys.executable, *command],
        env=os.environ | {"PYTHONPATH": str(package)},
        capture_output=True,
        text=True,
        timeout=300,
        cwd=package,
        **options,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_checks_pass(package):
    told = run(package, "-m", "pytest", "-p", "no:cacheprovider", "-rs", "test_mine.py")
    assert re.search(r" \d\d passed", told)
    assert "skipped" not in told


CODE = """
import sys
from plancc_cli.main import command
for line in sys.stdin:
    command.main(line.split(), standalone_mode=False)
"""


def test_they_take_part(package):
    (package / "ring.txt").write_text("".join(f"{k} {(k + 1) % 20}\n" for k in range(20)))
    lines = [
        "compile ring.txt --model capped-hp --most-pins 7 -p 4 --effort fast -o a.h5",
        "compile ring.txt --model gp --partitioner ordered -p 4 -o b.h5",
        "models capped-hp",
        "partitioners",
    ]
    told = run(package, "-c", CODE, input="\n".join(lines))
    assert "model capped-hp" in told
    assert "model gp by ordered" in told
    assert "most pins of a net" in told


def test_the_layer_trains(package):
    (package / "path.txt").write_text("".join(f"{k} {k + 1}\n" for k in range(19)))
    run(package, "-c", CODE, input="compile path.txt --model rp -p 2 -o c.h5")
    words = ["--model", "scaled", "--model-option", "scale=0.5", "--ranks", "2", "--epochs", "2"]
    assert "SCALED" in run(package, "-m", "plancc_cli.run", "c.h5", *words)
