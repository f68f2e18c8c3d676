"""Links from a graph file to embeddings, by the commands."""

from __future__ import annotations

import json

import numpy as np
import worlds
from cli_helpers import ok, plancc_run


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
