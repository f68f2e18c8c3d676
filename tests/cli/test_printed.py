"""What every command prints for people, and its JSON, on small graphs: golden/COMMAND.txt.

Numbers of the JSON are held by other tests, against plans counted anew. Where an output is meant
to change, `pytest tests/cli/test_printed.py --golden` writes the files, and fails: read their diff.
"""

import re
import shlex
import shutil
from pathlib import Path

import pytest
from cli_helpers import in_process
from refusals import _refused_in

from plancc_cli.main import main

__all__ = ["_refused_in"]

GOLDEN = Path(__file__).with_name("golden")
LINES = {
    "accelerators": ["", "g.mtx --dims 5,4 --machine hygcn"],
    "compare": [
        "p.h5 bare.h5 edge.h5 2d.h5",
        "p.h5 bare.h5 --baseline bare.h5",
        "p.h5 bare.h5 one.h5 --batches 20 --batch-size 40",
    ],
    "compile": [
        "g.mtx -p 4 --model block -o new.h5",
        "g.mtx -p 4 --model rcm --data v.npz --normalize none --no-self-loops -o new.h5",
        "g.mtx -p 4 --model rp --normalize row --no-self-loops -q -o new.h5",
        "g.mtx -p 4 --model cagnet-2d --blocks block -o new.h5",
        "g.mtx -p 1 --model block --normalize none -o new.h5",
        "typed -p 2 --model block -o new.h5",
        "g.mtx -p 2 --model block --json -o new.h5",
    ],
    "convert": ["g.mtx -o folder --data v.npz", "e.el -o e --json --pattern"],
    "dataset": ["karate -o karate.mtx", "grid --rows 5 --cols 7 -o grid.mtx"],
    "export": ["p.h5 -o p.part.7", "g.mtx --self-loops -o g.hgr", "p.h5 --to hypre -o hypre"],
    "inspect": [
        "p.h5",
        "-v p.h5 --dims 5,16,8,4 --boundary-sampling 1,0.1 --per-part",
        "-v p.h5 --ranks 4 --topology 2x2 --machine h100",
        "p.h5 --batches 20 --batch-size 30 --seed 4",
        "p.h5 --batches 1 --sampler neighbour --batch-size 20 --fanouts 3,2",
        "-v edge.h5 --dims 7,3,5 --per-part",
        "-v 2d.h5",
        "-v mop.h5",
        "typed.h5",
        "links.h5",
        "one.h5",
        "-v tried.h5",
        "-v timed.h5",
        "p.h5 --json",
    ],
    "list": [
        *("models", "models stochastic-hp", "models rp", "partitioners", "objectives"),
        *("samplers", "samplers neighbour", "formats", "formats mtx", "machines", "machines h100"),
    ],
    "patch": ["pattern.h5 --add added.txt --max-moves 5% -o new.h5"],
    "predict": ["data.h5 --weights w.npz --ids 1,2", "data.h5 --weights w.npz -o new.csv"],
    "refine": ["bare.h5 -o new.h5", "new.h5 --objective messages --cycles 0 -o newer.h5"],
    "simulate": [
        "p.h5 --per-rank --passes none --machine machine.toml",
        "edge.h5 --fold delayed --delay 2",
        "2d.h5 --machine h100",
        "mop.h5 --dims 8,4,8 --pipeline 3",
        "p.h5 --model gat --heads 2",
        "p.h5 --model sage --aggregator max --boundary-sampling 0.5",
        "p.h5 --batches 3 --batch-size 20",
        "g.mtx --sweep p=2,4 --models rp,cagnet-1d,cagnet-2d,libra --dims 8,6,4",
        "p.h5 --json",
    ],
    "verify": ["p.h5 --against g.mtx", "edge.h5", "2d.h5 --against g.mtx"],
}
"""Lines by command; partitions are by models that no partitioner's version changes."""


HIDDEN = {
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d[:\d.+Z-]*": "TIME",
    r"(?<=, )[\d.]+ m?s$": "SECONDS",
    r'^(  "seconds": )[\d.e-]+': r"\1SECONDS",
    r'(plancc.version"?:? *"?)\d[\w.+-]*': r"\1VERSION",
    r"(?<=,)0\.\d{5,}(?=$|,0\.)": "PROBABILITY",
}
"""What differs between runs and machines, and what stands in its place."""


def printed(command: str) -> str:
    """All lines of a command with what they print, but for times, versions and the machine."""
    text = ""
    for line in LINES[command]:
        done = in_process(main, "plancc", command, *shlex.split(line))
        assert done.code == 0, done.err
        text += f"$ plancc {command} {line}".rstrip() + f"\n{done.err}{done.out}\n"
    for pattern, shown in HIDDEN.items():
        text = re.sub(pattern, shown, text, flags=re.M)
    text = re.sub(r"\d+\.\d{7,}(e-?\d+)?", lambda found: f"{float(found[0]):.6g}", text)
    return "".join(line.rstrip() + "\n" for line in text.splitlines())


@pytest.fixture(scope="module")
def folder(_refused_in: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of refused commands, of which some write."""
    made = tmp_path_factory.mktemp("golden") / "folder"
    shutil.copytree(_refused_in, made, ignore=shutil.ignore_patterns("pipe"))
    return made


@pytest.mark.parametrize("command", LINES)
def test_what_a_command_prints(command, folder, request, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "120")
    path, text = GOLDEN / f"{command}.txt", printed(command)
    if request.config.option.golden:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        pytest.fail(f"{path} was written: read what has changed")
    assert text == path.read_text()
