"""Figures of plans and owners, against sets and dictionaries."""

import json

import naive
import numpy as np
import plan_helpers
import pytest
from hypothesis import given

from plancc.cost.owners import random_traffic, traffic
from plancc.graph.owners import Owners
from plancc.plan.metrics import Metrics, Traffic, imbalance, summarize
from plancc.plan.slices import read_rank_slice
from plancc.report.plans import PART_FIGURES, report


def same(found: Traffic, expected: Traffic):
    assert found.fold is expected.fold is None
    assert found.copies is expected.copies is None
    for name in PART_FIGURES:
        array = getattr(expected, name)
        assert getattr(found, name).dtype == np.int64, name
        np.testing.assert_array_equal(getattr(found, name), array, err_msg=name)


def naive_traffic(pattern, owner, num_parts) -> Traffic:
    of = naive.NaivePlan(pattern, owner, num_parts).per_part()
    names = ("rows", "nonzeros", "sent", "received", "messages_sent", "messages_received")
    return Traffic(**{name: np.array(of[name]) for name in names})


@given(case=plan_helpers.cases() | plan_helpers.cases(max_vertices=200, densities=(0.01, 0.1)))
def test_traffic_of_owners_and_of_the_plan(case):
    graph, owner, num_parts = case
    expected = naive_traffic(naive.pattern_of(graph), owner, num_parts)
    same(traffic(graph, Owners(owner), num_parts), expected)
    same(plan_helpers.lowered(*case).traffic(), expected)
    figures = naive.NaivePlan(naive.pattern_of(graph), owner, num_parts).figures()
    metrics = summarize(expected)
    assert metrics.as_dict() == pytest.approx(figures, rel=1e-12)
    assert Metrics.from_dict(metrics.as_dict()) == metrics


def test_metrics_of_a_plan_by_hand():
    """Two parts, three rows; part 1 needs both rows of part 0, part 0 none."""
    array = np.array([[1.0, 1, 0], [0, 1, 0], [1, 1, 1]])
    plan = plan_helpers.lowered(plan_helpers.graph_of(array), np.array([0, 0, 1], np.int32), 2)
    assert plan.metrics() == Metrics(
        volume=2,
        average_volume=1.0,
        max_sent=2,
        max_received=2,
        max_exchanged=2,
        messages=1,
        average_messages=0.5,
        max_messages_sent=1,
        max_messages_received=1,
        nonzero_imbalance=0.0,
        row_imbalance=pytest.approx(1 / 3),
        boundary_ratio=pytest.approx(2 / 3),
        max_boundary_ratio=2.0,
        fold_volume=0,
        fold_messages=0,
        replication_factor=pytest.approx(5 / 3),
    )


def test_imbalance():
    assert imbalance(np.array([3, 3, 3])) == 0
    assert imbalance(np.array([6, 0, 0])) == 2
    assert imbalance(np.array([0, 0])) == 0


def test_metrics_from_incomplete_values():
    values = summarize(naive_traffic({(0, 0), (1, 0)}, [0, 1], 2)).as_dict()
    assert Metrics.from_dict({f"x_{k}": v for k, v in values.items()}, prefix="x_") is not None
    for wrong in (None, "1", [1]):
        assert Metrics.from_dict(values | {"volume": wrong}) is None
    values.pop("messages")
    assert Metrics.from_dict(values) is None


@pytest.mark.parametrize(("n", "num_parts"), [(1, 1), (7, 3), (50, 7), (64, 64)])
def test_the_random_baseline_is_even_and_fixed(n, num_parts):
    rng = np.random.default_rng(n)
    graph = plan_helpers.graph_of(plan_helpers.random_array(rng, n, 0.2))
    first = random_traffic(graph, num_parts)
    assert first.rows.sum() == n
    assert first.rows.max() - first.rows.min() <= (n % num_parts > 0)
    same(random_traffic(graph, num_parts), first)
    assert first.sent.sum() == first.received.sum()
    assert first.nonzeros.sum() == graph.num_nonzeros


def test_the_random_baseline_is_random():
    """On a path, contiguous blocks would send two rows per border, a random partition most rows."""
    n = 400
    path = np.eye(n) + np.eye(n, k=1) + np.eye(n, k=-1)
    volume = summarize(random_traffic(plan_helpers.graph_of(path), 8)).volume
    assert 500 < volume < 800  # expected about 2 n 7/8 = 700


def words_of_an_epoch(parts, dims):
    """Count every word that a part sends in Algorithms 1 and 2, message by message."""
    words, messages = [0] * len(parts), [0] * len(parts)
    for k in range(1, len(dims)):
        for m, part in enumerate(parts):
            for peer in part.expand.send.peer.tolist():
                words[m] += len(part.send_mask(peer)) * dims[k - 1]
                messages[m] += 1
            for peer in part.expand.receive.peer.tolist():
                words[m] += len(part.expand.receive.message(peer)) * dims[k]
                messages[m] += 1
    return words, messages


def test_report(tmp_path):
    import plancc

    rng = np.random.default_rng(3)
    graph = plan_helpers.graph_of(abs(plan_helpers.random_array(rng, 40, 0.1)))
    plan = plancc.compile(graph, model="block", num_parts=6, data=plan_helpers.data_of(40))
    path = tmp_path / "plan.h5"
    digest = plan.save(path)
    plain = report(path)
    assert plain.metrics == plan.metrics()
    assert plain.random == plan.baseline
    assert plain.header == plan.header
    assert plain.content_sha256 == digest
    masks = ["train_mask", "val_mask", "test_mask"]
    assert plain.vertex_data == ["features", "labels", *masks, "clusters"]
    assert plain.training is plain.random_training is None
    same(plain.parts, plan.traffic())

    dims = [3, 8, 4]
    full = report(path, dims=dims)
    words, messages = words_of_an_epoch([plan.part(m) for m in range(6)], dims)
    assert (full.training.words, full.training.max_words_sent) == (sum(words), max(words))
    assert (full.training.messages, full.training.max_messages_sent) == (
        sum(messages),
        max(messages),
    )
    memory_of = full.training.max_memory
    assert memory_of["total"] == sum(v for k, v in memory_of.items() if k != "total")
    assert full.random == plan.baseline
    assert full.random_training.words == plan.baseline.volume * (3 + 2 * 8 + 4)

    merged = report(path, dims=dims, num_ranks=4)
    parts = [read_rank_slice(path, rank, 4)[1] for rank in range(4)]
    assert merged.training.words == sum(words_of_an_epoch(parts, dims)[0])
    assert merged.random == summarize(random_traffic(graph_with_loops(graph), 4))

    shown = json.loads(json.dumps(full.as_dict(per_part=True)))
    assert shown["metrics"]["volume"] == plan.metrics().volume
    assert sum(shown["parts"]["sent"]) == plan.metrics().volume
    assert "parts" not in full.as_dict()


def graph_with_loops(graph):
    array = naive.dense_of(graph)
    np.fill_diagonal(array, 1)
    return plan_helpers.graph_of(array)
