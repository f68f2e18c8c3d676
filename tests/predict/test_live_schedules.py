"""Epochs without dead rows: their words are those that the runtime counts."""

from dataclasses import replace

import numpy as np
import pytest
from predict_helpers import rmat, trained

import plancc
from plancc.errors import InputError
from plancc.plan.matrix import graph_of, owners_of
from plancc.predict.machine_files import find_machine
from plancc.predict.predictor import Predictor
from plancc.predict.schedule import DenseProduct, SparseProduct
from plancc.predict.schedules import read_tables, schedule_of, tables_of

PARTS, LAYERS, CLASSES = 4, 2, 3
MACHINE = find_machine("cpu-cluster")


def reachable(plan) -> list[np.ndarray]:
    """Live rows of the input of every layer and of the outputs, by dense products of booleans."""
    matrix = np.zeros((plan.num_vertices, plan.num_vertices), bool)
    graph = graph_of(plan)
    matrix[np.repeat(np.arange(plan.num_vertices), np.diff(graph.indptr)), graph.indices] = True
    data, rows = plan.vertex_data, [np.zeros(plan.num_vertices, bool)]
    rows[0][plan.global_id] = (data.labels >= 0) & data.train_mask
    for _ in range(LAYERS):
        rows.insert(0, rows[0] | (matrix & rows[0][:, None]).any(axis=0))
    return rows


@pytest.mark.parametrize("hidden", [8, 20], ids=["narrower", "wider"])
@pytest.mark.parametrize(
    "passes", [("dead-rows",), ("order", "dead-rows"), ("order", "constant", "dead-rows")]
)
def test_words(plan, hidden, passes):
    predictor = Predictor((12, hidden, CLASSES), MACHINE, passes)
    tables = tables_of(plan, live_layers=LAYERS)
    found = predictor.epoch(tables)
    real = trained(plan, epochs=2, hidden=hidden, layers=LAYERS, passes=passes)
    assert found.words == real[-1].words_sent > 0
    whole = replace(predictor, passes=passes[:-1])
    assert predictor.bound_of(tables) < found.seconds < whole.epoch(tables).seconds
    assert predictor.bound_of(tables) < whole.bound_of(tables)


@pytest.mark.parametrize("passes", [("dead-rows",), ("order", "dead-rows")])
def test_sizes_of_the_products(plan, passes):
    rows, owner = reachable(plan), owners_of(plan).rows
    nonzeros = np.diff(graph_of(plan).indptr)
    expected = [np.bincount(owner, weights=nonzeros * live, minlength=PARTS) for live in rows[1:]]
    sizes = [np.bincount(owner[live], minlength=PARTS) for live in rows]
    found = schedule_of(tables_of(plan, live_layers=LAYERS), (12, 8, CLASSES), passes)
    for place, work in found.operations:
        if isinstance(work, SparseProduct):
            np.testing.assert_array_equal(work.nonzeros, expected[place.layer - 1])
            np.testing.assert_array_equal(work.rows, sizes[place.layer])
        if isinstance(work, DenseProduct):  # inputs are multiplied where that makes them narrower
            of = place.layer - (1 if "order" in passes else 0)
            np.testing.assert_array_equal(work.rows, sizes[of])
    assert 0 < sizes[-1].sum() < sizes[0].sum() < plan.num_vertices


def test_on_merged_parts_and_with_boundary_sampling(plan, tmp_path):
    plan.save(tmp_path / "plan.h5")
    tables = read_tables(tmp_path / "plan.h5", 2, live_layers=LAYERS)
    assert tables.live.inputs.sum() == reachable(plan)[0].sum()
    whole = tables_of(plan, live_layers=LAYERS).live
    assert all(
        merged.expand.rows.sum() <= each.expand.rows.sum()
        for merged, each in zip(tables.live.layers, whole.layers, strict=True)
    )
    passes = ("order", "dead-rows")
    words = [
        Predictor((12, 8, CLASSES), MACHINE, passes, plancc.predict.schedules.Approximation(rate))
        .epoch(tables_of(plan, copies=True, live_layers=LAYERS))
        .words
        for rate in (1.0, 0.3, 0.0)
    ]
    assert words[0] > words[1] > words[2] == 0


def test_where_all_rows_are_wanted_nothing_is_dead(plan):
    unlabelled = plancc.compile(rmat(), "gp", PARTS, partitioner="metis")
    tables = tables_of(unlabelled, live_layers=LAYERS)
    for passes in (("order",), ("order", "dead-rows")):
        found = Predictor((12, 8, CLASSES), MACHINE, passes).epoch(tables)
        assert (
            found.seconds == Predictor((12, 8, CLASSES), MACHINE, ("order",)).epoch(tables).seconds
        )


def test_what_has_no_live_rows_is_refused(plan, tmp_path):
    passes = ("dead-rows",)
    with pytest.raises(InputError, match="live rows of 2 layers; plan has live rows of 0"):
        schedule_of(tables_of(plan), (12, 8, CLASSES), passes)
    with pytest.raises(InputError, match="live rows of 3 layers; plan has live rows of 2"):
        schedule_of(tables_of(plan, live_layers=2), (12, 8, 8, CLASSES), passes)
    plancc.compile(rmat(), "libra", 2).save(tmp_path / "edge.h5")
    with pytest.raises(InputError, match="is an edge plan, but the pass dead-rows needs a row"):
        schedule_of(tmp_path / "edge.h5", (12, 8, CLASSES), passes)
