"""What is said of edge plans, against loops over messages."""

import json
from itertools import pairwise

import naive
import numpy as np
import plan_helpers
import pytest
import worlds
from cases import turns

from plancc.cost.owners import random_traffic
from plancc.errors import InputError
from plancc.plan.metrics import summarize
from plancc.plan.slices import read_rank_slice
from plancc.predict.memory import row_memory
from plancc.report.batches import batch_reports
from plancc.report.plans import report

PARTS = 6


@pytest.fixture(scope="module")
def case():
    graph = worlds.graph_of(worlds.array("directed"), dtype=np.float32)
    owner = worlds.owners(worlds.N, PARTS)
    return graph, owner, worlds.nonzero_owners(graph, owner, PARTS), PARTS


@pytest.fixture(scope="module")
def path(case, tmp_path_factory):
    path = tmp_path_factory.mktemp("edges") / "plan.h5"
    plan_helpers.edges_lowered(*case).save(path)
    return path


@pytest.fixture(scope="module")
def expected(case):
    graph, owner, nonzero_owner, _ = case
    return naive.NaiveEdgePlan(plan_helpers.owners_of_pairs(graph, nonzero_owner), owner, PARTS)


def sizes(ptr):
    return np.diff(ptr).tolist()


def sent_in_an_epoch(parts, widths):
    """Words and messages that every part sends: both steps forward, both steps back."""
    words, messages = [0] * len(parts), [0] * len(parts)
    for forward, back in widths:
        for m, part in enumerate(parts):
            for width, of_messages in (
                (forward, sizes(part.expand.send.row_ptr) + sizes(part.fold.send.row_ptr)),
                (back, sizes(part.expand.receive.row_ptr) + sizes(part.fold.receive.row_ptr)),
            ):
                words[m] += width * sum(of_messages)
                messages[m] += len(of_messages) * (width > 0)
    return words, messages


@turns(ranks=[None, 4, 2, 1], dims=[[8, 3], [4, 9, 2]])
def test_training(case, path, ranks, dims):
    told = report(path, dims=dims, num_ranks=ranks)
    r = ranks or PARTS
    parts = [read_rank_slice(path, rank, r)[1] for rank in range(r)]
    cost = told.training
    words, messages = sent_in_an_epoch(parts, list(pairwise(dims)))
    assert (cost.words, cost.max_words_sent) == (sum(words), max(words))
    assert (cost.messages, cost.max_messages_sent) == (sum(messages), max(messages))
    assert cost.words == told.metrics.volume * (sum(dims[:-1]) + sum(dims[1:]))
    assert [each.passes for each in cost.passes] == [[], ["order"], ["order", "constant"]]
    with_order = {
        (8, 3): [(3, 3)],
        (4, 9, 2): [(4, 0), (2, 2)],  # nothing goes back through A H^0
    }[tuple(dims)]
    for each, widths in (
        (cost.passes[1], with_order),
        (cost.passes[2], [(0, 0), *with_order[1:]]),  # A H^0 is made once
    ):
        words, messages = sent_in_an_epoch(parts, widths)
        assert (each.words, each.max_words_sent) == (sum(words), max(words))
        assert (each.messages, each.max_messages_sent) == (sum(messages), max(messages))
    assert told.random == summarize(random_traffic(case[0], r))
    assert told.random_training.words == told.random.volume * (sum(dims[:-1]) + sum(dims[1:]))


def test_memory(case, path, expected):
    """Of one layer from 8 to 3 columns, term by term from the tables of every part."""
    told = report(path, dims=[8, 3])
    plan_bytes, matrix, buffers = [], [], []
    for m in range(PARTS):
        part = read_rank_slice(path, m, PARTS)[1]
        own, folded, halo = part.num_rows, part.fold.send.volume, part.num_halo
        masks = len(part.expand.send.row) + len(part.fold.receive.row)
        nonzeros, local = len(part.column), np.arange(own + folded)
        row = np.repeat(local, np.diff(part.row_ptr))
        outside = ((row >= own) | (part.column >= own)).sum()
        copies_of_own = 2 if outside else 1
        plan_bytes.append(8 * nonzeros + 8 * (own + folded) + 12 * own + 8 * own + 4 * masks)
        matrix.append(
            8 * (copies_of_own * (nonzeros - outside) + 2 * outside)
            + 16 * own
            + 16 * (halo + folded)
            + 8 * masks
        )
        moved = len(part.expand.send.row) + halo + folded + len(part.fold.receive.row)
        buffers.append(4 * 8 * moved)  # of H^0 alone, 8 wide
    outside_per_part = [
        sum(case[1][i] != m or case[1][j] != m for i, j in expected.held[m]) for m in range(PARTS)
    ]
    held = row_memory(told.parts, [told.parts], [8, 3], np.array(outside_per_part), symmetric=False)
    assert held.plan.tolist() == plan_bytes
    assert held.matrix.tolist() == matrix
    assert held.halo.tolist() == buffers
    assert held.features.tolist() == [4 * 8 * len(rows) for rows in expected.rows]
    fullest = told.training.max_memory
    assert fullest == held.part_terms(int(held.total.argmax()))


def test_per_part(path, expected):
    shown = json.loads(json.dumps(report(path).as_dict(per_part=True)))
    assert shown["parts"] == expected.per_part()
    assert shown["metrics"] == pytest.approx(expected.printed())


def test_what_is_for_row_plans_is_refused(path):
    with pytest.raises(InputError, match="an edge plan, but boundary sampling needs a row plan"):
        report(path, dims=[4, 3], boundary_sampling=[0.1])
    with pytest.raises(InputError, match="plan, but the cost of mini-batches needs a row plan"):
        batch_reports([path], 3)
