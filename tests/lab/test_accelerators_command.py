"""`plancc accelerators`: tables, JSON, and every way to ask for what cannot be had."""

from pathlib import Path

import h5py
import pytest
from cli_helpers import as_json, ok

from plancc_lab.accelerators.design import SHIPPED, accelerator
from plancc_lab.accelerators.model import estimate, gcn_aggregations

OWN = """name = "own"
adders = 2
clock = 3.0
utilisation = 0.5
bandwidth = 1e30
efficiency = 1
overlaps = true
power = 2
memory_energy = 0
[cache]
cache = 1
nonzero_bytes = 4
"""


def figures(*words: object) -> dict:
    return as_json("accelerators", *words)


def test_the_study_of_the_paper() -> None:
    shown = figures()
    assert [each["name"] for each in shown["graphs"]] == [
        *("reddit", "orkut", "twitter", "friendster", "papers100m")
    ]
    assert all([m["machine"] for m in each["machines"]] == [*SHIPPED] for each in shown["graphs"])
    assert len(shown["published"]) == 35
    reddit = shown["graphs"][0]
    assert reddit["dims"] == [602, 128, 128, 41]
    spu, *_, cpu = reddit["machines"]
    assert (spu["published_joules"], cpu["published_joules"]) == (7.6, 146.9)
    assert (cpu["speedup_over_cpu"], spu["speedup_over_cpu"]) == (
        1,
        cpu["seconds"] / spu["seconds"],
    )


def test_other_work_is_not_beside_the_published_figures() -> None:
    for words in (["--mask-density", 1], ["--dims", "602,64,41"]):
        shown = figures("--dataset", "reddit", *words)
        assert shown["published"] == []
        assert all(m["published_joules"] is None for m in shown["graphs"][0]["machines"])
        assert "Figure 12" not in ok("accelerators", "--dataset", "reddit", *words)
    same = figures("--dataset", "reddit", "--dims", "602,128,128,41", "--machine", "hygcn")
    assert len(same["published"]) == 2


def test_a_graph_a_plan_and_a_machine_of_ones_own(graph: Path, plan: Path, tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text(OWN)
    words = ["--machine", own, "--machine", "hygcn", "--dims", "5,4"]
    (of_graph,) = figures(graph, *words)["graphs"]
    entries = int(graph.read_text().splitlines()[1].split()[2])
    assert (of_graph["vertices"], of_graph["nonzeros"]) == (90, entries)
    mine, hygcn = of_graph["machines"]
    assert mine["machine"] == str(own)
    assert mine["seconds"] == pytest.approx(5 * entries / 3)  # 2 x 3 x 0.5 additions a second
    assert mine["joules"] == pytest.approx(2 * mine["seconds"])
    expected = estimate(accelerator("hygcn"), gcn_aggregations(90, entries, (5, 4)))
    assert hygcn["seconds"] == expected.seconds
    (of_plan,) = figures(plan, *words)["graphs"]
    with h5py.File(plan) as file:
        assert of_plan["nonzeros"] == file.attrs["num_nonzeros"]
    assert "own" in ok("accelerators", graph, *words)
