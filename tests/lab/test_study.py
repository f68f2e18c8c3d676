"""Studies: rows against plans compiled one by one, kept rows, contenders, ratios."""

import json
import math
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import plancc
from plancc.errors import InputError, PlanccWarning
from plancc.graph.convert import as_graph
from plancc.graph.formats import write_graph
from plancc.graph.partvector import write_part_vector
from plancc.models.weights import DEFAULT_BALANCE
from plancc_lab.contenders import Contender, parse_contenders
from plancc_lab.study.render import print_study
from plancc_lab.study.study import Row, Study, study


@pytest.fixture(scope="module")
def graphs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("graphs")
    found = []
    for name, seed in (("one", 1), ("two", 2)):
        rng = np.random.default_rng(seed)
        edges = rng.integers(0, 60, (2, 240))
        path = folder / f"{name}.mtx"
        write_graph(as_graph((60, edges)), path)
        found.append(path)
    return found


CONTENDERS = "hp:effort=fast,rp,metis,cagnet-1d"


def test_rows_are_those_of_compile(graphs: list[Path]) -> None:
    found = study(graphs, parse_contenders(CONTENDERS), [2, 4])
    assert [(r.graph, r.parts, r.label) for r in found.rows] == [
        (path.name, parts, label)
        for path in graphs
        for parts in (2, 4)
        for label in ("hp:effort=fast", "rp", "metis", "cagnet-1d")
    ]
    shared = {"balance": DEFAULT_BALANCE}
    alone = {
        "hp:effort=fast": {"model": "hp", "effort": "fast", **shared},
        "rp": {"model": "rp", **shared},
        "metis": {"model": "gp", "partitioner": "metis", **shared},
        "cagnet-1d": {"model": "cagnet-1d", **shared},
    }
    for row in found.rows[4:8]:
        plan = plancc.compile(graphs[0], num_parts=4, **alone[row.label])
        assert row.sha256 == plan.content_sha256()
        metrics = plan.metrics()
        for name in ("volume", "max_volume", "messages", "row_imbalance", "replication_factor"):
            assert row.figures[name] == getattr(metrics, name)
        assert row.figures["epoch_seconds"] == plan.provenance["epoch_seconds"]
        assert row.figures["random_volume"] == plan.baseline.volume
        assert row.figures["seconds"] > 0


def test_ratios_and_their_mean(graphs: list[Path]) -> None:
    found = study(graphs, parse_contenders("hp", "metis"), [4], seeds=[1, 2], baseline="metis")
    rows = {(row.graph, row.label, row.seed): row.figures["volume"] for row in found.rows}
    assert len(rows) == 8
    ratios = [
        rows[name.name, "hp", seed] / rows[name.name, "metis", seed]
        for name in graphs
        for seed in (1, 2)
    ]
    assert found.mean_ratio("hp", 4, "volume") == pytest.approx(math.prod(ratios) ** 0.25)
    assert found.mean_ratio("metis", 4, "volume") == 1
    flat = found.as_dict()["rows"]
    assert [row["volume_ratio"] for row in flat if row["label"] == "hp"] == pytest.approx(ratios)


def test_a_study_goes_on(graphs: list[Path], tmp_path: Path) -> None:
    keep, contenders = tmp_path / "kept.jsonl", parse_contenders("hp:effort=fast,rp")
    with pytest.raises(KeyboardInterrupt):
        study(graphs, contenders, [2, 4], results=keep, observer=_interrupted_after(3))
    lines = keep.read_text().splitlines()
    assert len(lines) == 3
    keep.write_text("\n".join(lines) + '\n{"cut')  # killed in the middle of a line
    found = study(graphs, contenders, [2, 4], results=keep)
    assert [json.dumps(row.figures) for row in found.rows[:3]] == [
        json.dumps(json.loads(line)["result"]["figures"]) for line in lines
    ]
    again = study(graphs, contenders, [4, 2], results=keep)
    key = {(row.graph, row.label, row.parts): row for row in found.rows}
    assert all(row == key[row.graph, row.label, row.parts] for row in again.rows)
    other = study(graphs, contenders, [2], settings={"epsilon": 0.2}, results=keep)
    assert other.rows[0] != found.rows[0]  # other options are other rows


def _interrupted_after(number: int):
    left = [number]

    @contextmanager
    def observer(name: str):
        if left[0] == 0:
            raise KeyboardInterrupt
        left[0] -= 1
        yield

    return observer


def test_a_row_that_fails_says_why(graphs: list[Path], tmp_path: Path) -> None:
    keep = tmp_path / "kept.jsonl"
    found = study(graphs[:1], parse_contenders("rp,cagnet-2d"), [2], results=keep)
    assert found.rows[0].figures
    assert not found.rows[1].figures
    assert "perfect square" in found.rows[1].why
    assert len(keep.read_text().splitlines()) == 1  # a failure is tried again
    assert found.as_dict()["rows"][1]["why"] == found.rows[1].why


def test_part_vectors_take_part(graphs: list[Path], tmp_path: Path) -> None:
    owners = np.arange(60) % 4
    write_part_vector(owners, tmp_path / "one.part.4")
    label = f"mine=file:part={tmp_path}/{{graph}}.part.{{p}}"
    keep = tmp_path / "kept.jsonl"
    (row,) = study(graphs[:1], parse_contenders(label), [4], results=keep).rows
    plan = plancc.compile(graphs[0], "file", 4, part=owners)
    assert (row.label, row.sha256) == ("mine", plan.content_sha256())
    write_part_vector(np.arange(60) // 15, tmp_path / "one.part.4")  # the same name, other parts
    (other,) = study(graphs[:1], parse_contenders(label), [4], results=keep).rows
    assert other.sha256 != row.sha256


def test_contenders() -> None:
    assert Contender.parse("hp:epsilon=1e-3").search == {"epsilon": 1e-3}
    assert Contender.parse("metis:time-limit=3").search["time_limit"] == 3
    each = Contender.parse("best=hp:effort=best:budget=2.5")
    assert (each.label, each.model, each.search) == (
        "best",
        "hp",
        {"effort": "best", "budget": 2.5},
    )
    assert Contender.parse("metis").search == {"partitioner": "metis"}
    assert Contender.parse("metis").model == "gp"
    assert Contender.parse("mtkahypar").model == "hp"
    assert Contender.parse("hp:budget=10m:balance=nnz:0.05:effort=best").search == {
        "budget": 600.0,
        "balance": "nnz:0.05",
        "effort": "best",
    }
    assert Contender.parse("metis:budget=2").search["budget"] == 2  # if all have an objective
    grid = Contender.parse("cagnet-1.5d:replication=4")
    assert (grid.label, grid.options) == ("cagnet-1.5d:replication=4", {"replication": 4})
    common = {"effort": "best", "objective": "time", "balance": "nnz"}
    assert Contender.parse("rp").settings(common) == {"balance": "nnz"}
    assert Contender.parse("hp").settings(common) == common
    assert "effort" not in Contender.parse("gp").settings(common)  # searched on request only
    assert Contender.parse("fine-grain").settings(common) == {"effort": "best", "objective": "time"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "name at least one"),
        ("hp,hp", "'hp' is given twice"),
        ("nothing", "unknown model or partitioner 'nothing'"),
        ("hp:efort=fast", r"unknown option of 'hp' 'efort'.*effort"),
        ("metis:preset=zz", "unknown preset 'zz'"),
        ("cagnet-1.5d:replication=a", "replication 'a': a whole number is needed"),
        ("x=file:part={graph}.part.{q}", "{q} must be {graph} or {p}"),
        ("hp:partitioner=nothing", "unknown partitioner 'nothing'"),
        ("hp:epsilon=abc", "epsilon 'abc': a number is needed"),
        ("hp:effort=much", "unknown effort 'much'"),
        ("hp:balance=much", "much"),
        ("hp:budget=ten", "budget 'ten': give a number of seconds"),
        (
            "rp,hp:effort=fast:effort=best",
            "`models` 'hp:effort=fast:effort=best': effort is given tw",
        ),
        ("metis:partitioner=kaminpar", "partitioner kaminpar and metis both name a partitioner"),
        ("hp:effort", "effort: give a value, as effort=VALUE"),
        ("hp:effort=fast:zz", "unknown effort 'fast:zz'"),
        ("cagnet-1.5d:replication", "replication: give a value"),
        ("hp:objective=foo", "unknown objective 'foo'"),
        ("rp:objective=volume", "model 'rp' has no option objective"),
        ("cagnet-1d:blocks=hp:objective=cut", "objective 'cut' is only for gp"),
        ("hp:preset=foo", "unknown preset 'foo'"),
    ],
)
def test_wrong_contenders(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_contenders(text)


def test_wrong_baseline() -> None:
    with pytest.raises(InputError, match=r"unknown baseline 'mien'.*mine"):
        parse_contenders("rp,mine=hp", "mien")
    with pytest.raises(InputError, match="`baseline` 'hp:effort=x': unknown effort 'x'"):
        parse_contenders("rp", "hp:effort=x")


def test_lines_of_others_do_not_count(graphs: list[Path], tmp_path: Path) -> None:
    keep, rp = tmp_path / "kept.jsonl", parse_contenders("rp")
    (first,) = study(graphs[:1], rp, [2], results=keep).rows
    line = json.loads(keep.read_text())
    text = '{"key": 1}\n{"key": [[1]], "sources": "x", "result": 1}\n'
    text += f'{{"sources": "0.1.0", "key": {"[" * 10**5}\n'
    odd = b'{"sources": "0.1.0", "key": ["a\xff"], "result": 1}\n'
    ours = json.dumps(line | {"result": {"none": "of ours"}})
    keep.write_bytes(text.encode() + odd + ours.encode())
    with pytest.warns(PlanccWarning, match=r"kept\.jsonl, line 5: the row was edited; .*again"):
        (second,) = study(graphs[:1], rp, [2], results=keep).rows
    assert second.sha256 == first.sha256
    assert study(graphs[:1], rp, [2], results=keep).rows == [second]


@pytest.mark.parametrize(
    ("name", "value"),
    [("volume", 31), ("seconds", math.nan), ("messages", [1]), ("vertices", "34"), ("seed", 2)],
)
def test_an_edited_row_is_measured_again(name, value, graphs, tmp_path):
    keep, rp = tmp_path / "kept.jsonl", parse_contenders("rp")
    (first,) = study(graphs[:1], rp, [2], results=keep).rows
    line = json.loads(keep.read_text())
    of = line["result"]["figures"] if name in first.figures else line["result"]
    of[name] = value
    keep.write_text(f"{json.dumps(line)}\n")
    with pytest.warns(PlanccWarning, match=r"kept.jsonl, line 1: .*; it is measured again"):
        (second,) = study(graphs[:1], rp, [2], results=keep).rows
    assert replace(second, figures=first.figures) == first
    assert second.figures | {"seconds": 0} == first.figures | {"seconds": 0}


def test_an_error_of_a_third_party_is_a_row(graphs, monkeypatch):
    from plancc.models.random import RandomModel

    def build(*args: object, **options: object) -> None:
        raise ZeroDivisionError("of theirs")

    monkeypatch.setattr(RandomModel, "build", build)
    rows = study(graphs[:1], parse_contenders("rp,block"), [2]).rows
    assert rows[0].why == "unexpected ZeroDivisionError: of theirs"
    assert rows[1].figures


def test_epochs_until_plans_of_a_study_pay(capsys: pytest.CaptureFixture[str]) -> None:
    """Over random, which takes no search, and over the baseline of the same parts and seed."""

    def row(label: str, seed: int, search: float, epoch: float) -> Row:
        figures = {"search_seconds": search, "epoch_seconds": epoch, "random_epoch_seconds": 1.0}
        return Row("g", 9, 9, label, "hp", label, 4, seed, figures)

    rows = [
        *(row("hp", 1, 10.0, 0.5), row("metis", 1, 1.0, 0.75)),
        *(row("hp", 2, 9.3, 0.5), row("metis", 2, 9.5, 1.0)),
    ]
    every = Study(rows, ["hp", "metis"], [4], [1, 2], "metis", [8, 4], "simple")
    found = [(each["pays_random"], each["pays_baseline"]) for each in every.as_dict()["rows"]]
    assert found == [(20, 36), (4, None), (pytest.approx(18.6), 0), ("never", None)]
    print_study(every, columns=["seed", "pays_random", "pays_baseline"])
    said = capsys.readouterr().out
    assert [line.split()[1:] for line in said.splitlines()[3:7]] == [
        *(["20", "36"], ["4", "-"], ["19", "0"], ["never", "-"])
    ]
    print_study(every, columns=["model", "pays_random", "pays_baseline"])  # means of both seeds
    rows_of_means = capsys.readouterr().out.splitlines()[3:5]
    assert [line.split()[1:] for line in rows_of_means] == [["20", "12"], ["42", "-"]]
    assert "pays: epochs that repay the search, against random and metis" in said
    alone = Study(rows[:1], ["hp"], [4], [1], None, [8, 4], "simple")
    assert alone.pays(rows[0]) == {"pays_random": 20, "pays_baseline": None}
