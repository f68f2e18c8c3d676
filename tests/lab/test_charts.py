"""Charts of a report: where bars and lines stand in the drawings."""

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from plancc_lab.report.runs import RunLog, read_log

pytest.importorskip("matplotlib")

from plancc_lab.report import charts
from plancc_lab.report.charts import Chart, convergence, epoch_times, measures

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(autouse=True)
def _style():
    with charts.style():
        yield


def logged(folder: Path, losses: list[float], seconds: float = 1.0) -> RunLog:
    path = folder / "run.jsonl"
    figures = {"seconds_mean": {"spmm": seconds}, "seconds_max": {"total": seconds}}
    lines = [
        json.dumps({"epoch": number, "loss": loss, **figures}) for number, loss in enumerate(losses)
    ]
    path.write_text("\n".join(lines))
    return read_log(path)


def drawn(chart: Chart) -> tuple[dict[str, tuple[np.ndarray, ET.Element]], list[tuple[str, float]]]:
    """Points and path of everything that has a title, and the texts with their y."""
    root = ET.fromstring(chart.svg.replace("xlink:", ""))
    shapes = {}
    for group in root.iter("g"):
        if (title := group.find("title")) is not None:
            path = group.find("path")
            points = np.array(re.findall(r"-?[\d.]+", path.get("d")), float).reshape(-1, 2)
            shapes[title.text] = points, path
    return shapes, [(text.text, float(text.get("y", "nan"))) for text in root.iter("text")]


def curve(log: RunLog) -> tuple[Chart, np.ndarray, dict[float, float]]:
    """The chart of the loss, the heights of its line, and those of the ticks by their values."""
    ((title, chart),) = convergence([("A", log)])
    assert title == "Loss"
    shapes, texts = drawn(chart)
    units, ticks = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}, {}
    for text, y in texts[[text for text, _ in texts].index("epoch") + 1 : -1]:  # the legend's
        number, _, unit = text.partition(" ")
        ticks[float(number) * units[unit]] = y
    return chart, shapes["train"][0][:, 1], ticks


@pytest.mark.parametrize(("low", "high"), [(7, 7), (0, 3), (95, 112), (1234, 98_765)])
def test_a_histogram_has_every_part_in_bars_between_round_numbers(monkeypatch, low, high):
    monkeypatch.setattr(charts, "MOST_BARS", 0)
    values = np.random.default_rng(1).integers(low, high + 1, 300)
    values[:2] = low, high
    loads = SimpleNamespace(**{name: values for name, *_ in charts.PART_LOADS})
    shapes, _ = drawn(measures([("A", loads)])[0][1])
    counted = 0
    assert len(shapes) <= charts.BINS + 2
    for title, (points, _) in shapes.items():
        match = re.fullmatch(r"([\d,]+) parts?: ([\d,]+)(?: to ([\d,]+))?", title)
        count, first, last = (int(x.replace(",", "")) if x else None for x in match.groups())
        last = first if last is None else last
        assert count == np.count_nonzero((first <= values) & (values <= last))
        assert first % (last - first + 1) == 0
        assert (np.ptp(points[:, 1]) > 0) == (count > 0)
        counted += count
    assert counted == 300


@pytest.mark.parametrize(("seconds", "unit"), [(3.0, "s"), (0.05, "ms"), (4e-5, "us")])
def test_an_axis_of_seconds_names_its_unit_once(tmp_path, seconds, unit):
    chart = epoch_times("A", logged(tmp_path, [1.0, 1.0], seconds=seconds))
    _, texts = drawn(chart)
    assert [text for text, _ in texts].count(unit) == 1
    shown = float(f"{seconds / {'s': 1, 'ms': 1e-3, 'us': 1e-6}[unit]:g}")
    assert max(float(t) for t, _ in texts if re.fullmatch(r"[\d.]+", t)) in (shown, shown * 0.8)
    digits = {"s": "3.000 s", "ms": "50.00 ms", "us": "40.00 us"}[unit]
    assert f"epoch 1: spmm {digits} of {digits}" in chart.svg


@pytest.mark.parametrize("losses", [[-1.0, -3.0, -10.0], [4.0, 1.0, -2.0], [-7.5, 0.0, 5.0]])
def test_a_negative_loss_stands_below_zero(tmp_path, losses):
    _, heights, ticks = curve(logged(tmp_path, losses))
    assert 0 in ticks
    assert min(ticks) < 0
    assert len(ticks) >= 3
    scale, foot = np.polyfit(list(ticks), list(ticks.values()), 1)  # of the axis, by its ticks
    assert scale < 0
    assert np.ptp(heights - scale * np.array(losses) - foot) < 0.1


@pytest.mark.parametrize(
    "losses",
    [[2.183, 2.182, 2.18], [1234.5, 1234.6], [-2.18, -2.181, -2.19], [3e9, 2.9e9], [2e-9, 1.9e-9]],
)
def test_a_loss_that_changes_little_fills_its_chart(tmp_path, losses):
    chart, heights, ticks = curve(logged(tmp_path, losses))
    assert np.ptp(heights) > 80  # points of some 120
    assert len(ticks) >= 2
    scale, foot = np.polyfit(list(ticks), list(ticks.values()), 1)
    assert np.ptp(heights - scale * np.array(losses) - foot) < 0.5
    assert chart.note.endswith("; the axis does not begin at 0")
