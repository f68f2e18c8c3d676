"""Epochs after which a search has paid: provenance and predicted epochs by hand."""

import json
import math

import pytest
import worlds

import plancc
from plancc.report.payback import Spending, search_seconds
from plancc.study import Row, Study
from plancc_cli.render_study import print_study


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


def test_a_study(capsys: pytest.CaptureFixture[str]) -> None:
    """Over random, which takes no search, and over the baseline of the same parts and seed."""

    def row(label: str, seed: int, search: float, epoch: float) -> Row:
        figures = {"search_seconds": search, "epoch_seconds": epoch, "random_epoch_seconds": 1.0}
        return Row("g", 9, 9, label, "hp", label, 4, seed, figures)

    rows = [
        *(row("hp", 1, 10.0, 0.5), row("metis", 1, 1.0, 0.75)),
        *(row("hp", 2, 9.3, 0.5), row("metis", 2, 9.5, 1.0)),
    ]
    study = Study(rows, ["hp", "metis"], [4], [1, 2], "metis", [8, 4], "simple")
    found = [(each["pays_random"], each["pays_baseline"]) for each in study.as_dict()["rows"]]
    assert found == [(20, 36), (4, None), (pytest.approx(18.6), 0), ("never", None)]
    print_study(study, columns=["seed", "pays_random", "pays_baseline"])
    said = capsys.readouterr().out
    assert [line.split()[1:] for line in said.splitlines()[3:7]] == [
        *(["20", "36"], ["4", "-"], ["19", "0"], ["never", "-"])
    ]
    print_study(study, columns=["model", "pays_random", "pays_baseline"])  # means of both seeds
    rows_of_means = capsys.readouterr().out.splitlines()[3:5]
    assert [line.split()[1:] for line in rows_of_means] == [["20", "12"], ["42", "-"]]
    assert "pays: epochs until the search has paid, over random and metis" in said
    alone = Study(rows[:1], ["hp"], [4], [1], None, [8, 4], "simple")
    assert alone.pays(rows[0]) == {"pays_random": 20, "pays_baseline": None}
