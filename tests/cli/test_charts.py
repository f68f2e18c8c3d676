"""Charts of a report: where lines and ticks stand."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from plancc.report.runs import RunLog, read_log
from plancc_cli.page import charts
from plancc_cli.page.charts import Chart, convergence, epoch_times, measures, steps, ticks
from plancc_cli.tables import short


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


@pytest.mark.parametrize("low", [0.0, -3e4, 0.99, 123456.0])
def test_ticks_are_round_numbers_that_are_told_apart(low):
    for span in np.geomspace(1e-2, 1e9, 100):
        found = np.array(steps(low + span, low))
        assert 3 - (low != 0) <= len(found) <= 6
        assert low - 1e-9 * span <= found[0] <= found[-1] <= low + span * (1 + 1e-9)
        step = found[1] - found[0]
        np.testing.assert_allclose(np.diff(found), step, rtol=1e-6)
        digit = f"{step:.4e}".partition("e")[0]
        assert float(digit) in (1, 2, 5), (low, span, step)
        np.testing.assert_allclose(found / step, np.round(found / step), atol=1e-4)
        texts = [tick.text for tick in ticks(low + span, low)]
        assert len(set(texts)) == len(texts)
        whole = steps(low + span, low, whole=True)
        assert all(value == round(value) for value in whole)


def test_labels_are_short():
    values = [0, 0.25, 7, 950, 12_000, 3_400_000, 5e9]
    assert list(map(short, values)) == ["0", "0.25", "7", "950", "12 k", "3.4 M", "5 G"]


@pytest.mark.parametrize(("low", "high"), [(7, 7), (0, 3), (95, 112), (1234, 98_765)])
def test_a_histogram_has_every_part_in_bars_between_round_numbers(monkeypatch, low, high):
    monkeypatch.setattr(charts, "MOST_BARS", 0)
    values = np.random.default_rng(1).integers(low, high + 1, (2, 300))
    values[0, :2] = low, high
    plans = [
        (a, SimpleNamespace(**{n: v for n, *_ in charts.PART_LOADS}))
        for a, v in zip("AB", values, strict=True)
    ]
    for chart, of_plan in zip(measures(plans)[0][1], values, strict=True):
        counted = 0
        for box in chart.boxes:
            count, first, last = re.fullmatch(
                r"([\d,]+) parts?: ([\d,]+)(?: to ([\d,]+))?", box.title
            ).groups()
            first, last = (int(each.replace(",", "")) for each in (first, last or first))
            assert int(count) == np.count_nonzero((first <= of_plan) & (of_plan <= last))
            assert first % (last - first + 1) == 0
            counted += int(count)
        assert counted == 300
        assert len(chart.boxes) <= charts.BINS + 1
        assert all(0 <= tick.at <= 100 for tick in chart.x_ticks)
        # the mean stands between the ticks as its value between theirs
        at = {float(t.text.replace(" k", "e3")): t.at for t in chart.x_ticks}
        if len(at) > 1:
            scale, foot = np.polyfit(list(at), list(at.values()), 1)
            assert chart.mark == pytest.approx(scale * of_plan.mean() + foot, abs=0.1)


def test_only_a_part_that_has_much_more_is_in_the_strong_colour():
    def kinds(*loads):
        of_plan = SimpleNamespace(**{name: np.array(loads) for name, *_ in charts.PART_LOADS})
        return [box.kind for box in measures([("A", of_plan)])[0][1][0].boxes]

    assert kinds(100, 102, 101) == ["plain"] * 3
    assert kinds(100, 120, 100, 120) == ["plain", "most"] * 2
    assert kinds(0, 0) == ["plain"] * 2


@pytest.mark.parametrize(("seconds", "unit"), [(3.0, "s"), (0.05, "ms"), (4e-5, "us")])
def test_an_axis_of_seconds_names_its_unit_once(tmp_path, seconds, unit):
    chart = epoch_times("A", logged(tmp_path, [1.0, 1.0], seconds=seconds))
    assert chart.y_title == unit
    length = {"s": 1.0, "ms": 1e-3, "us": 1e-6}[unit]
    texts = [float(tick.text) for tick in chart.y_ticks]
    scale = np.polyfit(texts, [tick.at for tick in chart.y_ticks], 1)[0]
    assert scale * seconds / length == pytest.approx(100 / 1.08, abs=0.01)


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
    values = [float(t.text.rstrip(" kG")) * units.get(t.text[-1], 1.0) for t in chart.y_ticks]
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
