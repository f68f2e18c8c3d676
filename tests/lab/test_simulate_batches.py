"""`plancc simulate --batches`: figures beside those of inspect."""

from pathlib import Path

import numpy as np
import pytest
from cli_helpers import as_json

pytestmark = pytest.mark.usefixtures("opened_once")


def test_a_step_on_mini_batches(plan: Path, machine: Path) -> None:
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
