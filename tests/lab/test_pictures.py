"""Pictures of plans against dense matrices, and the notebook."""

import base64
import io
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import plancc
from plancc.plan.matrix import matrix_of
from plancc_datasets import load_dataset
from plancc_lab.report.pictures import heaviest_pairs, matrix_pictures, send_tables, volume_density

pytestmark = pytest.mark.filterwarnings("ignore::plancc.errors.PlanccWarning")


@pytest.fixture(scope="module")
def graph():
    return load_dataset("rmat", scale=8, seed=3).graph


@pytest.fixture(scope="module", params=["rp", "libra"])
def plan(request, graph):
    """A row plan, and an edge plan."""
    return plancc.compile(graph, model=request.param, num_parts=7)


def summed(matrix: np.ndarray, step: int) -> np.ndarray:
    """Sums of squares of `step` entries a side, by a loop."""
    side = -(-len(matrix) // step)
    result = np.zeros((side, side))
    for i in range(side):
        for j in range(side):
            result[i, j] = matrix[i * step : (i + 1) * step, j * step : (j + 1) * step].sum()
    return result


def sent(plan) -> np.ndarray:
    """Rows that parts send to parts, message by message."""
    found = np.zeros((plan.num_parts, plan.num_parts))
    for index in range(plan.num_parts):
        part = plan.part(index)
        steps = [(part.expand.send.peer, part.expand.send.row_ptr)]
        if part.fold is not None:
            steps.append((part.fold.send.peer, part.fold.send.row_ptr))
        for peers, ptr in steps:
            for k, peer in enumerate(peers):
                found[index, peer] += ptr[k + 1] - ptr[k]
    return found


@pytest.mark.parametrize(("most", "step"), [(7, 1), (100, 1), (4, 2), (1, 7)])
def test_volume_by_pairs_of_parts(plan, most, step):
    density = volume_density(plan.num_parts, send_tables(plan.exchanges), most)
    assert density.per_pixel == step
    np.testing.assert_array_equal(density.counts, summed(sent(plan), step))
    assert density.counts.sum() == plan.metrics().volume


def test_the_heaviest_pairs(plan):
    volumes = sent(plan)
    found = heaviest_pairs(plan.num_parts, send_tables(plan.exchanges), 5)
    assert [rows for *_, rows in found] == sorted(volumes.ravel(), reverse=True)[:5]
    assert all(volumes[sender, receiver] == rows for sender, receiver, rows in found)


@pytest.mark.parametrize("chunk", [1, 50, 1 << 22])
def test_nonzeros_before_and_after(plan, chunk, monkeypatch):
    monkeypatch.setattr("plancc_lab.report.pictures.CHUNK", chunk)
    pattern = (matrix_of(plan).toarray() != 0).astype(float)
    pictures = matrix_pictures(plan.all_parts, 10)
    step = pictures.before.per_pixel
    assert step == -(-plan.num_vertices // 10)
    np.testing.assert_array_equal(pictures.before.counts, summed(pattern, step))
    order = plan.global_id
    np.testing.assert_array_equal(pictures.after.counts, summed(pattern[order][:, order], step))
    owner = plan.owner()
    assert pictures.inside == (pattern * (owner[:, None] == owner)).sum()
    assert pictures.total == pattern.sum()


class Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def test_a_notebook_shows_who_sends_to_whom(plan, monkeypatch):
    image = pytest.importorskip("matplotlib.image")
    html = plan._repr_html_()
    content = re.search('data:image/png;base64,([^"]*)', html)[1]
    opacity = image.imread(io.BytesIO(base64.b64decode(content)))[..., 3]
    counts = sent(plan)
    np.testing.assert_array_equal(opacity > 0, counts > 0)
    expected = 0.25 + 0.75 * np.log(counts[counts > 0]) / np.log(counts.max())
    np.testing.assert_allclose(opacity[counts > 0], expected, atol=0.006)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "<img" not in plan._repr_html_()  # figures alone, where there is nothing to draw with
    assert f"{plan.metrics().volume:,}" in plan._repr_html_()


def test_a_notebook_shows_a_plan(plan):
    plan.provenance["source_name"] = "<script>alert(1)</script>\u202e&.mtx"
    page = Text()
    page.feed(plan._repr_html_())
    assert not page.open
    assert page.seen.count("img") == 1
    assert "script" not in page.seen
    assert "<script>alert(1)</script>\N{REPLACEMENT CHARACTER}&.mtx" in page.text
    assert f"{plan.metrics().volume:,}" in page.text
    assert f"in {plan.num_parts} parts" in page.text
