"""Links from a graph file to embeddings, by the commands."""

from __future__ import annotations

import json

import numpy as np
import pytest
import worlds
from cli_helpers import ok, plancc, plancc_run

from plancc.errors import InputError
from plancc_runtime.predict import predict, score_links
from plancc_runtime.transport.local import run_ranks
from plancc_runtime.transport.single import SingleTransport


def test_links_by_the_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    worlds.write_mtx(tmp_path / "graph.mtx", worlds.array("undirected"))
    data = worlds.data()
    np.savez("graph.npz", features=data.features)
    compile_ = ("compile", "graph.mtx", "--data", "graph.npz", "-p", 3, "-o", "plan.h5")
    ok(*compile_, "--link-split", "0.2,0.2", "--disjoint-train-ratio", 0.5)
    inspected = ok("inspect", "--verbose", "plan.h5")
    of_plan = json.loads(ok("inspect", "plan.h5", "--json"))["links"]
    sizes = ", ".join(f"{of_plan[split]} {split}" for split in ("train", "val", "test"))
    assert sizes in inspected
    assert f"their targets: {of_plan['rows']} rows in" in inspected
    options = ("--epochs", 3, "--hidden", 6, "--decoder", "mlp", "--metric", "mrr")
    files = ("--save", "w.npz", "--predict", "z.npz")
    said = plancc_run("plan.h5", "--ranks", 2, *options, *files).out
    assert f"links {sizes}, decoder mlp, negatives 1" in said
    assert "test: MRR " in said
    ok("predict", "plan.h5", "--weights", "w.npz", "-o", "again.npz")
    first, again = (np.load(name)["embedding"] for name in ("z.npz", "again.npz"))
    assert first.shape == (worlds.N, 6)
    np.testing.assert_allclose(first, again, rtol=1e-5, atol=1e-7)

    (tmp_path / "ask.csv").write_text("3,5\n40,0\n3,3\n")
    scoring = ("predict", "plan.h5", "--weights", "w.npz", "--links")
    run_ranks(3, lambda t: score_links("plan.h5", "w.npz", "ask.csv", "scores.npz", t))
    found, w = np.load("scores.npz"), np.load("w.npz")
    hidden = first[[3, 40, 3]] * first[[5, 0, 3]] @ w["decoder.hidden.weight"].T
    hidden = np.maximum(hidden + w["decoder.hidden.bias"], 0)
    expected = (hidden @ w["decoder.last.weight"].T + w["decoder.last.bias"])[:, 0]
    np.testing.assert_allclose(found["score"], expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found["probability"], 1 / (1 + np.exp(-expected)), rtol=1e-5)
    assert found["source"].tolist() == [3, 40, 3]
    assert found["target"].tolist() == [5, 0, 3]
    assert plancc(*scoring, "ask.csv").out.splitlines()[0] == "id,source,target,score,probability"

    def refused(words):
        with pytest.raises(InputError, match=words):
            score_links("plan.h5", "w.npz", "ask.csv", "x.csv", SingleTransport())

    for text, words in {
        "3 x\n": "ask.csv, line 1: '3 x' is no link: give two ids",
        "3,77\n": "`ids` 77: no vertex of",
        "": "ask.csv: there is no link",
    }.items():
        (tmp_path / "ask.csv").write_text(text)
        refused(words)
    ok(*compile_)
    refused("scores of links need weights trained on links, and a plan with links")
    with pytest.raises(InputError, match="these weights tell links: give a plan with links"):
        predict("plan.h5", "w.npz", "x.csv", SingleTransport())
