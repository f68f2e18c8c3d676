"""`plancc simulate --batches`: figures beside those of inspect, and wrong words."""

from pathlib import Path

import numpy as np
import pytest
from cli_helpers import as_json, fails, ok

pytestmark = pytest.mark.usefixtures("opened_once")


def test_a_step_on_mini_batches(plan: Path, machine: Path, graph: Path, tmp_path: Path) -> None:
    drawn = ("--batches", 6, "--batch-size", 20, "--seed", 2)
    found = as_json(
        *("simulate", plan, "--dims", "5,8,4", "--machine", machine, *drawn, "--passes", "order")
    )
    counted = as_json("inspect", plan, *drawn)["batches"]
    volume, columns = counted["per_batch"]["volume"], 5 + 4 + 4  # the input needs no gradient
    figures = found["batches"]
    assert figures["per_batch"]["words"] == [columns * rows for rows in volume]
    assert figures["expected_words"] == pytest.approx(columns * counted["expected_volume"])
    assert figures["words"]["low"] == pytest.approx(columns * counted["volume"]["low"])
    assert found["seconds"] == pytest.approx(np.mean(figures["per_batch"]["seconds"]))
    text = ok("simulate", plan, "--machine", machine, *drawn)
    for said in (
        "the first 6 of seed 2, sampler uniform batch_size=20",
        "predicted time of a step",
    ):
        assert said in text
    assert "; expected words " in text
    assert "halo rows are kept" in text
    edge = tmp_path / "edge.h5"
    ok("compile", graph, "--model", "libra", "-p", 4, "-o", edge)
    for words, sentence in (
        ((plan, "--batch-size", 20), "--batch-size is for mini-batches: give their number by"),
        ((plan, "--draw", "owners"), "--draw is for mini-batches"),
        ((plan, *drawn, "--draw", "owners"), "is for samplers neighbour, walk"),
        ((plan, *drawn, "--boundary-sampling", 0.5), "predicted without --boundary-sampling"),
        ((plan, "--batches", 0), "--batches 0: give 1 to 100,000"),
        ((plan, "--batches", 2, "--sampler", "cluster"), "needs clusters"),
        ((edge, "--batches", 2), "what mini-batches move is for row plans"),
    ):
        assert sentence in fails(tmp_path, "simulate", *words), words
