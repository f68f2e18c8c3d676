"""Epochs after which a search has paid: provenance and predicted epochs by hand."""

import json
import math

import pytest
import worlds

import plancc
from plancc.report.payback import Spending, search_seconds


@pytest.mark.parametrize(
    ("provenance", "seconds"),
    [
        ({"partitioner": "plancc", "search_seconds": 5.0}, 5.0),
        ({"partitioner": "plancc"}, None),
        ({"model": "rp"}, 0.0),
        ({"model": "file", "model_part": "x", "search_seconds": 1.0}, None),
        ({"search_seconds": "soon"}, None),
        ({"search_seconds": math.inf}, None),
        ({"search_seconds": -1.0}, None),
    ],
)
def test_seconds_of_the_search(provenance: dict[str, object], seconds: float | None) -> None:
    assert search_seconds(provenance) == seconds


@pytest.mark.parametrize(
    "options", [{"effort": "fast"}, {"objective": "messages", "partitioner": "builtin"}]
)
def test_a_refinement_adds_its_seconds(options: dict[str, str]) -> None:
    plan = plancc.compile(worlds.graph("hubs"), num_parts=4, **options)
    better = plancc.refine(plancc.refine(plan), "messages")
    first = plan.provenance["search_seconds"]
    assert first >= sum(step["seconds"] for step in json.loads(plan.provenance["tried"])) > 0
    last = sum(step["seconds"] for step in json.loads(better.provenance["tried"]))
    assert first < better.provenance["search_seconds"] - last < first + 600


def test_epochs_until_a_search_pays() -> None:
    plan, quick = Spending(10.0, 0.25), Spending(2.0, 0.5)
    assert plan.pays_over(quick) == 32  # 8 seconds more, a quarter less an epoch
    assert quick.pays_over(plan) == "never"
    assert plan.pays_over(plan) == "never"
    assert Spending(1.0, 0.25).pays_over(quick) == 0
    assert Spending(None, 0.25).pays_over(quick) is None
    assert Spending(None, 0.5).pays_over(quick) == "never"  # whatever it took
    assert plan.pays_over(Spending(0.0, None)) is None
    assert Spending(1e308, 0.25).pays_over(Spending(0.0, math.nextafter(0.25, 1))) == "never"
