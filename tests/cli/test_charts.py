"""Charts of a report: where lines and ticks stand."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from plancc.report.runs import RunLog, read_log
from plancc_cli.page.charts import Chart, convergence, epoch_times, steps


def logged(folder: Path, losses: list[float], seconds: float = 1.0) -> RunLog:
    path = folder / "run.jsonl"
    figures = {"seconds_mean": {"spmm": seconds}, "seconds_max": {"total": seconds}}
    lines = [
        json.dumps({"epoch": number, "loss": loss, **figures}) for number, loss in enumerate(losses)
    ]
    path.write_text("\n".join(lines))
    return read_log(path)


def curve(log: RunLog) -> tuple[Chart, np.ndarray]:
    """The chart of the loss, and the points of its line: (x, y from above) in percent."""
    ((title, chart),) = convergence([("A", log)])
    assert title == "Loss"
    points = [point.split(",") for point in chart.lines[0].points.split()]
    return chart, np.array(points, float)


@pytest.mark.parametrize("smallest", [5e-324, 1e-322, 1e-320, 2.3e-308, 1e-307])
def test_the_smallest_numbers_have_a_chart(tmp_path, smallest):
    found = steps(smallest)
    assert found == sorted(set(found))
    assert found[0] == 0 <= found[-1] <= smallest * (1 + 1e-9)
    log = logged(tmp_path, [smallest, 0.0], seconds=smallest)
    chart, points = curve(log)
    assert points[0, 1] < 10 < 90 < points[1, 1]
    assert chart.y_ticks[0].at == 0
    assert epoch_times("A", log).boxes


@pytest.mark.parametrize("losses", [[-1.0, -3.0, -10.0], [4.0, 1.0, -2.0], [-7.5, 0.0, 5.0]])
def test_a_negative_loss_stands_below_zero(tmp_path, losses):
    chart, points = curve(logged(tmp_path, losses))
    places = {float(tick.text): tick.at for tick in chart.y_ticks}
    assert 0 in places
    assert min(places) < 0
    assert len(places) >= 3
    assert all(0 <= at <= 100 for at in places.values())
    values, at = np.array(sorted(places.items())).T
    from_below = 100 - points[:, 1]
    scale, foot = np.polyfit(values, at, 1)  # of the axis, by its ticks
    assert scale > 0
    np.testing.assert_allclose(from_below, scale * np.array(losses) + foot, atol=0.02)


@pytest.mark.parametrize(
    "losses",
    [[2.183, 2.182, 2.18], [1234.5, 1234.6], [-2.18, -2.181, -2.19], [3e9, 2.9e9], [2e-9, 1.9e-9]],
)
def test_a_loss_that_changes_little_fills_its_chart(tmp_path, losses):
    chart, points = curve(logged(tmp_path, losses))
    assert np.ptp(points[:, 1]) > 80
    units = {"k": 1e3, "G": 1e9}
    values = [float(t.text.rstrip("kG")) * units.get(t.text[-1], 1.0) for t in chart.y_ticks]
    assert len(set(values)) == len(values) >= 2
    scale, foot = np.polyfit(values, [tick.at for tick in chart.y_ticks], 1)
    from_below = 100 - points[:, 1]
    np.testing.assert_allclose(from_below, scale * np.array(losses) + foot, atol=0.3)
    assert chart.note.endswith("; the axis does not begin at 0")


@pytest.mark.parametrize("losses", [[2.0, 1.0], [2.0, 2.0], [2.0, 2.0 + 1e-9], [1e-322, 1.1e-322]])
def test_other_losses_are_seen_from_zero(tmp_path, losses):
    chart, _ = curve(logged(tmp_path, losses))
    assert chart.y_ticks[0].text == "0"
    assert "axis" not in chart.note


def test_one_epoch_alone_is_a_dot(tmp_path):
    path = tmp_path / "run.jsonl"
    figures = {"seconds_mean": {}, "seconds_max": {"total": 1.0}}
    accuracy = {"train": 0.5, "val": 0.25}
    lines = [{"epoch": k, "loss": 2.0 - k, "accuracy": accuracy if k == 1 else {}} for k in (0, 1)]
    path.write_text("\n".join(json.dumps(line | figures) for line in lines))
    (_, loss), (_, scores) = convergence([("A", read_log(path))])
    assert [line.dot for line in loss.lines] == [False]
    assert [(line.points, line.dot) for line in scores.lines] == [
        ("100.00,50.00 100.00,50.00", True),
        ("100.00,75.00 100.00,75.00", True),
    ]
