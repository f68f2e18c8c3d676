"""From HeteroData to predictions in a table, in two commands."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from cases import long
from cli_helpers import ok, plancc, plancc_run
from torch_geometric.data import HeteroData

from plancc import train

COUNTS = {"author": 40, "paper": 60, "venue": 9}
RELATIONS = (("author", "writes", "paper"), ("paper", "cites", "paper"), ("paper", "in", "venue"))


def hetero_data() -> HeteroData:
    random, data = np.random.default_rng(0), HeteroData()
    for width, (name, count) in enumerate(COUNTS.items(), 3):
        data[name].x = torch.from_numpy(random.standard_normal((count, width), np.float32))
    data["paper"].y = torch.from_numpy(random.integers(0, 3, COUNTS["paper"]))
    for relation in RELATIONS:
        ends = [random.integers(0, COUNTS[relation[k]], 150) for k in (0, 2)]
        data[relation].edge_index = torch.from_numpy(np.unique(ends, axis=1))
    return data


def table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


NAMES = [f"paper, {k}" for k in range(COUNTS["paper"])]


@pytest.mark.parametrize("names", [pytest.param(None, marks=long), NAMES])
def test_from_hetero_data_to_predictions_in_a_table_in_two_commands(tmp_path, names):
    """Types may have ids, of which each has some of another's."""
    data, ids = hetero_data(), names or [str(k) for k in range(COUNTS["paper"])]
    if names is not None:
        data["author"].n_id, data["paper"].n_id = names[-COUNTS["author"] :], names
    torch.save(data, tmp_path / "hetero.pt")
    plan, out, again = (tmp_path / name for name in ("plan.h5", "p.csv", "again.csv"))
    weights = tmp_path / "weights.npz"
    assert plancc("compile", tmp_path / "hetero.pt", "-p", 2, "-o", plan).code == 0
    options = ("--model", "rgcn", "--epochs", 5, "--predict", out, "--save", weights)
    done = plancc_run(plan, *options)
    assert done.code == 0, done.err
    assert "predictions for 60 vertices" in done.out
    rows = table(out)
    assert [row["id"] for row in rows] == ids
    assert [int(row["label"]) for row in rows] == data["paper"].y.tolist()
    assert "predictions for 60 vertices" in ok(
        *("predict", plan, "--weights", weights, "-o", again, "--ranks", 1), warned=True
    )
    assert again.read_text() == out.read_text()
    ok(
        "predict",
        plan,
        "--weights",
        weights,
        "-o",
        again,
        "--ids",
        f'"{ids[7]}","{ids[3]}"',
        "--ranks",
        1,
        warned=True,
    )
    asked = table(again)
    assert [row["id"] for row in asked] == [ids[7], ids[3]]
    for row, number in zip(asked, (7, 3), strict=True):
        assert float(row.pop("probability_0")) == pytest.approx(
            float(rows[number]["probability_0"]), abs=1e-6
        )
    trained = train(plan, model="rgcn", epochs=5)
    given = trained.ids.tolist()
    assert [each.decode() if names else str(each) for each in given] == ids
    np.testing.assert_allclose(
        trained.probabilities[:, 0], [float(row["probability_0"]) for row in rows], atol=1e-5
    )
    other = tmp_path / "other.h5"
    data["author"].x = data["author"].x[:, :2]
    torch.save(data, tmp_path / "other.pt")
    assert plancc("compile", tmp_path / "other.pt", "-p", 1, "-o", other).code == 0
    users = HeteroData({"user": {"x": torch.ones(3, 2)}, "item": {"x": torch.ones(3, 2)}})
    users["user", "rates", "item"].edge_index = torch.tensor([[0, 1, 2], [0, 1, 2]])
    torch.save(users, tmp_path / "users.pt")
    assert plancc("compile", tmp_path / "users.pt", "-p", 1, "-o", tmp_path / "users.h5").code == 0
    how = ("--weights", weights, "-o", again, "--ranks", 1)
    for words, error in (
        ((other,), f"or widths of features than the network of {weights}"),
        ((tmp_path / "users.h5",), "users.h5: the plan has other types, relations or widths"),
        ((plan, "--ids", "60"), "--ids 60: no vertex of"),
    ):
        done = plancc("predict", *words, *how)
        assert done.code == 2
        assert error in done.err


def test_widths_are_those_of_the_widest_type_and_of_the_labels(tmp_path):
    torch.save(hetero_data(), tmp_path / "hetero.pt")
    plan = tmp_path / "plan.h5"
    assert "dims 5,128,3" in ok("compile", tmp_path / "hetero.pt", "-p", 2, "-o", plan, warned=True)
    assert "dims 5,128,3" in ok("inspect", plan)
    assert "loss" in ok("rehearse", plan, "--model", "sage", "--machine", "cpu-cluster")


def test_a_converted_folder_of_types_gives_the_same_plan(tmp_path):
    data = hetero_data()
    ends = data["paper", "cites", "paper"].edge_index
    data["paper", 'is "like"', "paper"].edge_index = ends
    data["paper", 'is "like"', "paper"].edge_weight = torch.rand(ends.shape[1]) + 1
    data["paper"].train_mask = torch.arange(60) % 3 > 0
    torch.save(data, tmp_path / "hetero.pt")
    ok("convert", tmp_path / "hetero.pt", "-o", tmp_path / "folder", warned=True)
    hashes = [
        content_of(ok("compile", tmp_path / name, "-p", 3, "-o", tmp_path / "p.h5", warned=True))
        for name in ("hetero.pt", "folder")
    ]
    assert hashes[0] == hashes[1]


def content_of(said: str) -> str:
    [line] = [line for line in said.splitlines() if line.startswith("content ")]
    return line


def test_batches_of_types_are_drawn_by_relation_from_the_command_line(tmp_path):
    torch.save(hetero_data(), tmp_path / "hetero.pt")
    plan, out = tmp_path / "plan.h5", tmp_path / "papers.csv"
    assert plancc("compile", tmp_path / "hetero.pt", "-p", 2, "-o", plan).code == 0
    how = ("--model", "rgcn", "--sampler", "neighbour", "--fanouts", "3,2", "--epochs", 2)
    done = plancc_run(
        *(plan, *how, "--relation-fanouts", "cites=1,1", "--ranks", 2),
        *("--relation-fanouts", "author:writes:paper=2,2", "--predict", out),
    )
    assert done.code == 0, done.err
    assert "fanouts 3,2" in done.out
    assert len(table(out)) == 60
    for words, error in (
        (("cites",), "--relation-fanouts 'cites': give NAME=F1,F2,..."),
        (("cites=1,1", "--relation-fanouts", "cites=2,2"), "cites is given twice"),
        (("edits=1,1",), "relation 'edits' is unknown"),
        (("cites=1",), "--relation-fanouts cites: 1 has 1 number"),
    ):
        done = plancc_run(plan, *how, "--relation-fanouts", *words)
        assert done.code == 2
        assert error in done.err, done.err
    for command, words in (
        ("inspect", ("--batches", 2, "--sampler", "neighbour", "--fanouts", "3,2")),
        ("simulate", ("--model", "rgcn", "--batches", 2)),
    ):
        assert plancc(command, plan, *words).code == 2


@pytest.mark.parametrize("model", ["rgcn", *(pytest.param(m, marks=long) for m in ("sage", "gat"))])
def test_the_order_of_types_and_relations_means_nothing(tmp_path, model):
    """Weights predict the same from a plan whose types and relations stand the other way round."""
    data, turned = hetero_data(), HeteroData()
    data["author"].x = data["author"].x[:, :1].repeat(1, 4)  # as wide as papers
    for name in reversed(COUNTS):
        turned[name].update(data[name])
    for relation in reversed(RELATIONS):
        turned[relation].edge_index = data[relation].edge_index
    weights, found = tmp_path / "weights.npz", []
    for name, each in (("data", data), ("turned", turned)):
        torch.save(each, tmp_path / f"{name}.pt")
        plan, out = tmp_path / f"{name}.h5", tmp_path / f"{name}.csv"
        ok("compile", tmp_path / f"{name}.pt", "-p", 1, "-o", plan, warned=True)
        if each is data:
            words = ("--model", model, "--norm", "batch", "--epochs", 2, "--save", weights)
            assert plancc_run(plan, *words).code == 0
        ok("predict", plan, "--weights", weights, "-o", out, "--ranks", 1, warned=True)
        found.append(
            {r["id"]: [float(r[f"probability_{k}"]) for k in range(3)] for r in table(out)}
        )
    for number, shares in found[0].items():
        assert shares == pytest.approx(found[1][number], abs=1e-5)
