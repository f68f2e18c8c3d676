"""Pipelines of feature plans: messages as the runtime counts them, seconds as drawn by hand."""

import numpy as np
import pytest
from predict_helpers import rmat, trained

import plancc
from plancc.errors import InputError
from plancc.plan.matrix import graph_of
from plancc.plan.stages import MOST_STAGES
from plancc.predict.machine import Machine
from plancc.predict.pipelines import Pipeline
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import tables_of

DIMS = (12, 8, 4)
PATH = (600, np.array([np.arange(599), np.arange(1, 600)]))  # bandwidth 1


def pipelined(plan, stages):
    machine = Machine(latency=1e-6, bandwidth=1e8, multiply_adds=1e7)
    pipeline = stages and Pipeline.of(graph_of(plan), stages)
    return Predictor(DIMS, machine, ("order",), pipeline=pipeline).epoch(tables_of(plan))


@pytest.mark.parametrize("stages", [2, 3])
def test_words_and_messages(stages, tmp_path):
    plan = plancc.compile(rmat(8, 4), "mop", 2)
    found = pipelined(plan, stages)
    plan.save(tmp_path / "plan.h5")
    widths = dict(zip(("random_features", "hidden", "classes"), DIMS, strict=True))
    how = widths | {"passes": ("order",)}
    real = trained(tmp_path / "plan.h5", epochs=2, pipeline=str(stages), **how)[-1]
    assert found.words == real.words_sent
    assert found.messages == real.messages_sent == stages * pipelined(plan, None).messages


def test_what_is_hidden():
    plan = plancc.compile(PATH, "mop", 2)
    plain, piped = pipelined(plan, None), pipelined(plan, 6)
    assert piped.seconds < plain.seconds
    assert piped.of_step("multiply") == pytest.approx(plain.of_step("multiply"))
    assert piped.of_step("dense") == plain.of_step("dense")
    assert 0 < piped.of_step("collectives")[0] < plain.of_step("collectives")[0]


def of(needs, moved, product, update):
    return Pipeline(needs).seconds(*(np.array([float(each)]) for each in (moved, product, update)))


def test_seconds_as_drawn():
    # card: in 0, in 1, back 0, back 1; products in the second and third second
    assert of((0, 1), 4, 2, 0) == 4
    assert of((1, 1), 4, 2, 0) == 5  # the first product waits for both
    assert of((0, 1), 4, 2, 2) == 5  # and one update more at the end
    assert of((0,), 4, 2, 3) == 9  # one batch: nothing overlaps
    assert of((0, 1, 2), 0, 6, 3) == 9  # one rank computes one thing at a time
    assert of((0, 1, 2, 3), 8, 0, 0) == 8  # and its card carries one batch at a time


def test_batches_of_a_path_need_the_next_one_and_of_a_star_all():
    path = graph_of(plancc.compile(PATH, "mop", 2))
    assert Pipeline.of(path, 4).needs == (1, 2, 3, 3)
    assert Pipeline.of(path).stages == 3  # ceil(2n / (n - 1))
    star = (40, np.array([np.zeros(39, int), np.arange(1, 40)]))
    assert Pipeline.of(graph_of(plancc.compile(star, "mop", 2))).stages == 2


@pytest.mark.parametrize("stages", [1, MOST_STAGES + 1])
def test_wrong_numbers_of_stages(stages):
    with pytest.raises(InputError, match=f"`pipeline` {stages}: give auto, or 2 to {MOST_STAGES}"):
        Pipeline.of(graph_of(plancc.compile(PATH, "mop", 2)), stages)


def test_other_plans_have_no_pipeline():
    for model in ("rp", "cagnet-2d"):
        with pytest.raises(InputError, match="`pipeline` needs a feature plan with one group"):
            pipelined(plancc.compile(PATH, model, 4), 2)
