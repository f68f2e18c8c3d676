"""Links from a graph file to embeddings, by the commands."""

import json

import numpy as np
import pytest
import worlds
from cli_helpers import as_json, fails, ok, plancc, plancc_run

from plancc.errors import InputError
from plancc_runtime.predict import predict, score_links
from plancc_runtime.transport.local import run_ranks
from plancc_runtime.transport.single import SingleTransport

SPLIT = ("--link-split", "0.2,0.2", "--disjoint-train-ratio", 0.5, "--symmetrize")


def test_files_of_links_are_named_and_not_overwritten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    worlds.write_mtx(tmp_path / "graph.mtx", worlds.array("directed"))
    np.savetxt("times.csv", np.arange(np.count_nonzero(worlds.array("directed"))))
    compile_ = ("compile", "graph.mtx", "-p", 2, "--link-split", "0.2,0.2", "-o")
    ok(*compile_, "plan.h5", "--link-times", "times.csv")
    assert as_json("inspect", "plan.h5")["provenance"]["link_times"] == "times.csv"
    (tmp_path / "times.h5").write_text("1")
    said = fails(tmp_path, *compile_, "times.h5", "--link-times", "times.h5")
    assert "is used twice" in said


def test_links_by_the_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    worlds.write_mtx(tmp_path / "graph.mtx", worlds.array("undirected"))
    data = worlds.data()
    np.savez("graph.npz", features=data.features, labels=data.labels, train_mask=data.train_mask)
    compile_ = ("compile", "graph.mtx", "--data", "graph.npz", "-p", 3, "-o", "plan.h5")
    ok(*compile_, *SPLIT)
    inspected = ok("inspect", "--verbose", "plan.h5")
    of_plan = as_json("inspect", "plan.h5")["links"]
    sizes = ", ".join(f"{of_plan[split]} {split}" for split in ("train", "val", "test"))
    assert sizes in inspected
    assert "links not counted: predicted epoch" in inspected
    assert f"their targets: {of_plan['rows']} rows in" in inspected
    options = ("--epochs", 3, "--hidden", 6, "--decoder", "mlp", "--metric", "mrr")
    files = ("--save", "w.npz", "--predict", "z.npz")
    said = plancc_run("plan.h5", "--ranks", 2, *options, *files).out
    assert f"links {sizes}, decoder mlp, negatives 1" in said
    assert "test: MRR " in said
    assert "(plancc predict plan.h5 --weights w.npz --links pairs.csv)" in said
    ok("predict", "plan.h5", "--weights", "w.npz", "-o", "again.npz")
    of_run, of_predict = np.load("z.npz"), np.load("again.npz")
    for known in ("label", "split"):
        assert of_run[known].tolist() == of_predict[known].tolist()
    assert of_run["label"].tolist() == data.labels.tolist()
    first, again = of_run["embedding"], of_predict["embedding"]
    assert first.shape == (worlds.N, 6)
    np.testing.assert_allclose(first, again, rtol=1e-5, atol=1e-7)

    (tmp_path / "ask.csv").write_text("3,5\n40,0\n3,3\n", encoding="utf-8-sig")  # as Excel does
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

    assert "cannot hold links" in plancc("export", "plan.h5", "--to", "hypre", "-o", "hypre").err

    def refused(words):
        with pytest.raises(InputError, match=words):
            score_links("plan.h5", "w.npz", "ask.csv", "x.csv", SingleTransport())

    for text, words in {
        "3 x\n": "ask.csv, line 1: '3 x' is not a link; give two ids",
        "3,5\n3,77\n": "ask.csv, line 2: id 77: no vertex of",
        "": "ask.csv: the file has no link",
        "PK\0": "ask.csv: is not text: `links` expects a text file with two ids a line",
    }.items():
        (tmp_path / "ask.csv").write_text(text)
        refused(words)
    ok(*compile_)
    said = plancc_run("plan.h5", "--task", "links").err
    assert "compile it with --link-split or --links" in said
    refused("plan.h5: the plan has no links; compile the graph with links")
    with pytest.raises(InputError, match="these weights predict links; use a plan with links"):
        predict("plan.h5", "w.npz", "x.csv", SingleTransport())


def test_predictions_and_rehearsals_count_the_words_of_links(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    worlds.write_mtx(tmp_path / "graph.mtx", worlds.array("undirected"))
    data = worlds.data()
    np.savez("graph.npz", features=data.features, labels=data.labels)
    ok(*("compile", "graph.mtx", "--data", "graph.npz", "-p", 3, "-o", "first.h5"), *SPLIT)
    ok("refine", "first.h5", "--objective", "volume", "--seed", 8, "-o", "plan.h5")
    told = as_json("inspect", "plan.h5")["provenance"]
    assert {name: told[name] for name in ("link_split", "disjoint_train_ratio", "link_seed")} == {
        "link_split": "0.2,0.2",
        "disjoint_train_ratio": 0.5,
        "link_seed": 1,
    }
    options = ("--negatives", 2, "--decoder", "mlp", "--seed", 5)
    more = ("--hidden", 6, *options, "--eval-every", 0, "--epochs", 1, "--json", "run.json")
    said = plancc_run("plan.h5", "--ranks", 3, *more).out
    [epoch] = json.loads((tmp_path / "run.json").read_text())["epochs"]
    assert f"; {epoch['words_sent']:,} words per epoch with the negatives of epoch 0, " in said
    passes = ("--passes", "order,constant,dead-rows")
    dims = f"{data.features.shape[1]},6,6"
    found = as_json("simulate", "plan.h5", "--dims", dims, *passes, *options)
    assert (found["words"], found["messages"]) == (epoch["words_sent"], epoch["messages_sent"])
    assert found["bound_seconds"] < found["seconds"]
    rehearsed = ("rehearse", "plan.h5", *options, "--json", "--epochs", 1)
    both = [json.loads(ok(*rehearsed, *words)) for words in (("--dims", dims), ("--hidden", 6))]
    for each in both:
        assert each["loss"] == [pytest.approx(epoch["loss"])]
        assert each["predicted_seconds"] == found["seconds"]
        assert each["words"] == epoch["words_sent"]
    usual = ok("simulate", "plan.h5")
    assert "a GCN of 7 x 128 x 128" in usual
    assert "note: negatives as in epoch 0" in usual
    assert "links" not in ok("simulate", "plan.h5", "--task", "vertices")
    refused = fails(tmp_path, "simulate", "plan.h5", "--task", "vertices", "--seed", 1)
    assert "--seed 1: nothing is random without links or --split" in refused
    refused = fails(tmp_path, "simulate", "plan.h5", *passes, "--split", "0.6,0.2,0.2")
    assert "--split is only for the task 'vertices'" in refused
