"""Plans of extreme graphs through every command: a result or one sentence, and finite figures."""

import json
import warnings
from itertools import chain

import pytest
from cases import some
from cli_helpers import plancc, plancc_run

from benchmarks.generated import extreme
from plancc.graph.formats import write_graph

pytestmark = pytest.mark.usefixtures("opened_once")

BARE = ("--normalize", "none", "--no-self-loops")
CASES = {
    "star": ("star", 6, 6, "hp", ()),
    "star-edges": ("star", 9, 3, "medium-grain", ()),
    "one": ("empty", 1, 1, "hp", BARE),
    "one-loop": ("loops", 1, 1, "fine-grain", ()),
    "empty": ("empty", 6, 6, "hp", BARE),
    "empty-edges": ("empty", 5, 2, "fine-grain", BARE),
    "empty-grid": ("empty", 8, 4, "cagnet-2d", BARE),
    "loops": ("loops", 6, 3, "medium-grain", BARE),
    "clique": ("clique", 6, 6, "gp", ()),
    "row": ("row", 7, 7, "libra", ()),
}
QUICK = ("empty", "empty-edges", "empty-grid")
"""Of every layout one, in which nothing moves and parts have no nonzeros."""
ROW_PLANS = (
    ("inspect", None, "--batches", 3),
    ("rehearse", None, "--epochs", 1, "--hidden", 3, "--ranks", 1),
)
"""Commands for plans of rows only; None is the plan."""


def numbers(value):
    """All numbers of a JSON value."""
    if isinstance(value, dict):
        return list(chain.from_iterable(map(numbers, value.values())))
    if isinstance(value, list):
        return list(chain.from_iterable(map(numbers, value)))
    return [value] if isinstance(value, int | float) else []


def no_constant(name):
    raise AssertionError(f"{name} in JSON")


def figures(*words):
    """What a command prints as JSON, without nan or inf."""
    done = plancc(*words, "--json")
    assert done.code == 0, (words, done.err)
    return json.loads(done.out, parse_constant=no_constant)


@some(lambda name: name in QUICK, name=CASES)
def test_every_command(name, tmp_path):
    shape, vertices, parts, model, settings = CASES[name]
    graph, plan, better = tmp_path / "graph.mtx", tmp_path / "plan.h5", tmp_path / "better.h5"
    write_graph(extreme(shape, vertices), graph)
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)  # divisions
        figures("compile", graph, "-p", parts, "--model", model, *settings, "-o", plan)
        for command in (
            ("inspect", plan, "--dims", "4,3,2"),
            ("compare", plan, plan),
            ("simulate", plan, "--dims", "4,3,2"),
            ("rehearse", plan, "--epochs", 1, "--hidden", 3),
            *(ROW_PLANS if model in ("hp", "gp") else ()),
        ):
            found = figures(*(plan if word is None else word for word in command))
            assert numbers(found)
        assert plancc("inspect", plan).code == 0
        assert plancc("verify", plan).code == 0
        refined = plancc("refine", plan, "--objective", "max-volume", "-o", better)
        assert refined.code == 0 or refined.error
        run = plancc_run(
            plan, "--ranks", parts, "--epochs", 2, "--hidden", 3, "--json", tmp_path / "run.json"
        )
        assert run.code == 0, run.err
        run = json.loads((tmp_path / "run.json").read_text(), parse_constant=no_constant)
        assert numbers(run)
