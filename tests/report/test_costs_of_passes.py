"""Words, messages and memory of training by the passes, against sets and loops over messages."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import plan_helpers
import pytest
from predict_helpers import widths_of

import plancc
from plancc.cost.owners import traffic
from plancc.errors import InputError
from plancc.graph.owners import Owners
from plancc.plan.metrics import Traffic
from plancc.predict.memory import row_memory
from plancc.predict.schedules import live_tables, schedule_of, tables_of_owners, training_vertices
from plancc.predict.schedules.row import traffic_of
from plancc.report.passes import added_passes, equation_4, sampled_costs
from plancc.report.plans import report

N, PARTS = 50, 4
DIMS = [[5, 3], [3, 5], [602, 128, 41], [4, 9, 9, 2], [7, 7, 7]]


def a_case(seed: int = 0):
    """A directed matrix with a diagonal, owners, and a few wanted vertices."""
    rng = np.random.default_rng(seed)
    array = plan_helpers.random_array(rng, N, 0.06)
    np.fill_diagonal(array, 1)
    owner = rng.integers(0, PARTS, N).astype(np.int32)
    return array, owner, rng.random(N) < 0.1


def messages_of_layers(array, owner, wanted, layers) -> list[dict[tuple[int, int], set[int]]]:
    """(sender, receiver) -> rows, of every layer, going back from the wanted rows."""
    found = []
    rows = set(np.flatnonzero(wanted).tolist())
    for _ in range(layers):
        travel: dict[tuple[int, int], set[int]] = {}
        inputs = set(rows)
        for i in rows:
            for j in np.flatnonzero(array[i]).tolist():
                inputs.add(j)
                if owner[i] != owner[j]:
                    travel.setdefault((int(owner[j]), int(owner[i])), set()).add(j)
        found.insert(0, travel)
        rows = inputs
    return found


def cost_of(layers, dims, passes) -> tuple[list[int], list[int]]:
    """Words and messages of every part: each message of each layer, there and back."""
    words, messages = [0] * PARTS, [0] * PARTS
    for k, travel in enumerate(layers):
        for (sender, receiver), rows in travel.items():
            for width, rank in zip(widths_of(dims, passes)[k], (sender, receiver), strict=True):
                words[rank] += len(rows) * width
                messages[rank] += width > 0
    return words, messages


@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("passes", [("order", "constant", "dead-rows"), ("dead-rows", "constant")])
def test_words_and_messages_with_passes(dims, passes):
    array, owner, wanted = a_case()
    graph = plan_helpers.graph_of(array)
    parts = traffic(graph, Owners(owner), PARTS)
    tables = replace(
        tables_of_owners(graph, Owners(owner), PARTS),
        live=live_tables(graph, owner, PARTS, len(dims) - 1, wanted),
    )
    costs = added_passes(passes, lambda done: schedule_of(tables, dims, done).counts())
    assert [cost.passes for cost in costs] == [list(passes[:k]) for k in range(len(passes) + 1)]
    for cost in costs:
        chosen = wanted if "dead-rows" in cost.passes else np.ones(N, bool)
        layers = messages_of_layers(array, owner, chosen, len(dims) - 1)
        words, messages = cost_of(layers, dims, cost.passes)
        assert (cost.words, cost.max_words_sent) == (sum(words), max(words))
        assert (cost.messages, cost.max_messages_sent) == (sum(messages), max(messages))
        assert cost.saved == pytest.approx(1 - sum(words) / costs[0].words)
    volume = int(parts.sent.sum())
    assert costs[0].words == volume * sum(a + b for a, b in pairwise(dims))


def live_traffic(graph, owner, num_parts, num_layers, wanted):
    live = live_tables(graph, owner, num_parts, num_layers, wanted)
    return [traffic_of(layer) for layer in live.layers]


def test_rows_that_live_by_hand():
    """A path 0 - 1 - 2 - 3 - 4, a part each, of which the end is wanted."""
    path = np.eye(5) + np.eye(5, k=1) + np.eye(5, k=-1)
    owner = np.arange(5, dtype=np.int32)
    wanted = owner == 0
    first, second, third = live_traffic(plan_helpers.graph_of(path), owner, 5, 3, wanted)
    assert third.rows.tolist() == [1, 0, 0, 0, 0]
    assert third.sent.tolist() == [0, 1, 0, 0, 0]
    assert second.rows.tolist() == [1, 1, 0, 0, 0]
    assert second.sent.tolist() == [1, 1, 1, 0, 0]
    assert second.nonzeros.tolist() == [2, 3, 0, 0, 0]
    assert first.rows.tolist() == [1, 1, 1, 0, 0]
    assert first.sent.tolist() == [1, 2, 1, 1, 0]
    whole = live_traffic(plan_helpers.graph_of(path), owner, 5, 2, None)
    assert [each.sent.tolist() for each in whole] == [[1, 2, 2, 2, 1]] * 2


def test_training_vertices_are_those_with_label_and_mask():
    rng = np.random.default_rng(1)
    graph = plan_helpers.graph_of(abs(plan_helpers.random_array(rng, 20, 0.2)))
    data = plan_helpers.data_of(20)
    plan = plancc.compile(graph, model="rp", num_parts=3, data=data)
    np.testing.assert_array_equal(training_vertices(plan), data.train_mask & (data.labels >= 0))
    assert training_vertices(plancc.compile(graph, model="rp", num_parts=3)) is None


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_boundary_sampling_costs_what_draws_cost_on_average(rate):
    array, owner, wanted = a_case(2)
    graph = plan_helpers.graph_of(array)
    parts = traffic(graph, Owners(owner), PARTS)
    dims = [6, 6, 7, 2]  # nothing in the first layer; 6, then 2, forward and back
    live = [each.expand.rows for each in live_tables(graph, owner, PARTS, 3, wanted).layers]
    (cost,) = sampled_costs(parts, live, dims, [rate])
    layers = messages_of_layers(array, owner, wanted, 3)[1:]
    rng = np.random.default_rng(3)
    expected, words, messages = 0.0, np.zeros(4000), np.zeros(4000)
    for columns, layer in zip((12, 4), layers, strict=True):
        sizes = [len(rows) for rows in layer.values()]
        drawn = np.array([[rng.binomial(size, rate) for size in sizes] for _ in range(4000)])
        expected += columns * rate * sum(sizes)
        words += columns * drawn.sum(axis=1)
        messages += 2 * (drawn > 0).sum(axis=1)
    tolerance = 5 / np.sqrt(4000)
    assert cost.words == pytest.approx(expected)
    assert abs(cost.words - words.mean()) <= tolerance * words.std()
    assert abs(cost.messages - messages.mean()) <= tolerance * messages.std()
    assert cost.saved == pytest.approx(1 - rate)


def test_equation_4():
    """(3 n_in + n_bd) d words per layer, of which sampling keeps p n_bd."""
    parts = Traffic(
        *(np.array(two) for two in ([10, 20], [90, 80], [7, 8], [30, 5], [1, 1], [1, 1]))
    )
    assert equation_4(parts, [8, 4, 2]).tolist() == [4 * 60 * 12, 4 * 65 * 12]
    assert equation_4(parts, [8, 4, 2], 0.1).tolist() == [4 * 33 * 12, 4 * 60.5 * 12]
    (cost,) = sampled_costs(parts, [np.zeros(0, np.int64)] * 2, [8, 4, 2], [0.1])
    assert (cost.max_memory, cost.mean_memory) == (4 * 60.5 * 12, 4 * 46.75 * 12)


def test_memory_of_one_part_by_hand():
    """100 rows, 500 nonzeros, a symmetric matrix, all rows wanted; layers 8 -> 4 -> 4 -> 2."""
    parts = Traffic(*(np.array([x]) for x in (100, 500, 0, 0, 0, 0)))
    held = row_memory(parts, [parts] * 3, [8, 4, 4, 2], np.array([0]), symmetric=True)
    assert held.plan[0] == 500 * 8 + 100 * (8 + 4 + 8 + 8)
    assert held.matrix[0] == 8 * 100  # row pointers; the nonzeros are those of the plan
    assert held.halo[0] == 0
    assert held.features[0] == 4 * 100 * 8
    # at the second layer's activation: H^1, A H^1, H^2, and the gradients of H^2 and of Z^2
    # and six arrays as wide as the output
    assert held.activations[0] == 4 * 100 * (5 * 4 + 6 * 2)
    assert held.part_terms(0)["total"] == held.total[0] == sum(held.part_terms(0).values()) / 2
    again = row_memory(
        parts, [parts] * 3, [8, 4, 4, 2], np.array([0]), symmetric=True, recompute=True
    )
    # at the third layer's loss: A (H^1 W) and six arrays as wide as the output
    assert again.activations[0] == max(4 * 100 * (4 + 6 * 2), 4 * 100 * 8)
    assert (again.plan, again.matrix, again.features) == (held.plan, held.matrix, held.features)
    directed = row_memory(parts, [parts] * 3, [8, 4, 4, 2], np.array([0]), symmetric=False)
    assert directed.matrix[0] == held.matrix[0] + 500 * 8 + 8 * 100  # the transpose
    wide = row_memory(parts, [parts] * 3, [900, 4, 4, 2], np.array([0]), symmetric=True)
    assert wide.features[0] == wide.activations[0] == 4 * 100 * 900  # H^0 beside A H^0


def test_memory_grows_with_the_halo_and_with_live_rows():
    array, owner, wanted = a_case()
    graph = plan_helpers.graph_of(array)
    parts = traffic(graph, Owners(owner), PARTS)
    halo = np.array([(array[owner == m][:, owner != m] != 0).sum() for m in range(PARTS)])
    dims = [16, 8, 4]
    whole = row_memory(parts, [parts] * 2, dims, halo, symmetric=False)
    assert whole.halo.tolist() == (4 * (16 + 4) * (parts.sent + parts.received)).tolist()
    live = live_traffic(graph, owner, PARTS, 2, wanted)
    fewer = row_memory(parts, live, dims, halo, symmetric=False)
    assert (fewer.matrix > whole.matrix).all()  # beside the graph for evaluations
    assert (fewer.features > whole.features).all()
    assert (fewer.activations <= whole.activations).all()


def test_report_has_passes_and_rates(tmp_path):
    rng = np.random.default_rng(5)
    graph = plan_helpers.graph_of(abs(plan_helpers.random_array(rng, 40, 0.1)))
    plan = plancc.compile(graph, model="block", num_parts=6, data=plan_helpers.data_of(40))
    path = tmp_path / "plan.h5"
    plan.save(path)
    dims = [3, 8, 4]
    for ranks in (6, 4):
        shown = report(path, dims=dims, num_ranks=ranks, boundary_sampling=[1, 0.5])
        assert shown.training.passes[0].words == shown.training.words
        words = [cost.words for cost in shown.training.passes]
        assert words == sorted(words, reverse=True)
        whole, half = shown.sampled
        assert whole.words == shown.training.passes[-1].words == 2 * half.words
        as_json = json.loads(json.dumps(shown.as_dict()))
        assert [each["rate"] for each in as_json["boundary_sampling"]] == [1, 0.5]
        assert [each["words"] for each in as_json["training"]["passes"]] == words
    assert report(path, dims=dims).sampled == []
    with pytest.raises(InputError, match="dims"):
        report(path, boundary_sampling=[0.5])
