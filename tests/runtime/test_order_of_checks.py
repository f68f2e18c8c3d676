"""What can be refused is refused before the first kernel is called."""

import os
import shutil
from dataclasses import replace
from glob import glob

import h5py
import pytest
import worlds
from runs import file_of, on_ranks

import plancc_runtime
from plancc.errors import InputError, PlanccError
from plancc.graph.vertexdata import VertexData
from plancc.kernel import LazyKernel
from plancc_runtime.options import TrainOptions
from plancc_runtime.slices import open_plan
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks
from plancc_runtime.transport.single import SingleTransport
from plancc_runtime.weights import save_weights

LAYOUTS = {"edge": 4, "1d 2": 2, "2d 2x2": 4, "2d 1x3": 3, "2d 1x1": 1}
LAYOUTS |= {"feature 1x3": 3, "feature 2x2": 4}
"""Their ranks."""


class KernelCalled(Exception):
    """A kernel was called."""


@pytest.fixture
def no_kernels(monkeypatch):
    """Every kernel raises, unless it is called in Python."""

    def called(*arguments, **named):
        raise KernelCalled

    monkeypatch.setattr(LazyKernel, "__call__", called)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a plan, a checkpoint, a plan without validation vertices, and weights."""
    folder = tmp_path_factory.mktemp("checks")
    for layout in LAYOUTS:
        file_of("directed", layout)
    plan = worlds.plan("directed", "row", 4)
    plan.save(folder / "plan.h5")
    no_val = replace(plan.vertex_data, val_mask=None)
    replace(plan, vertex_data=no_val).save(folder / "no_val.h5")
    replace(plan, vertex_data=VertexData()).save(folder / "bare.h5")
    options = TrainOptions(epochs=1, threads=1, checkpoint=folder / "run")
    result = train(folder / "plan.h5", options, SingleTransport())
    save_weights(folder / "weights.npz", result.weights, result.network)
    return folder


REFUSED = {
    "kernel": ("plan.h5", {"kernel": "x"}, "unknown kernel 'x'"),
    "fold": ("plan.h5", {"fold": "none"}, "needs an edge plan"),
    "size": ("plan.h5", {"batch_size": 0}, "`batch_size` 0"),
    "fan-outs": ("plan.h5", {"sampler": "neighbour", "fanouts": (3,)}, "has 1 number"),
    "fan-out": ("plan.h5", {"sampler": "neighbour", "fanouts": (3, 0)}, "`fanouts` 3,0"),
    "no fan-outs": ("plan.h5", {"sampler": "neighbour"}, "sampler 'neighbour' needs `fanouts`"),
    "walk": (
        "plan.h5",
        {"sampler": "walk", "sampler_options": {"walk_length": 0}},
        "`walk_length` 0",
    ),
    "keep": ("plan.h5", {"sampler": "edges", "sampler_options": {"keep": 0.0}}, "`keep` 0.0"),
    "mask": ("bare.h5", {"sampler": "train"}, "has no train_mask"),
    "clusters": ("bare.h5", {"sampler": "cluster"}, "has no clusters"),
    "exchange": ("plan.h5", {"exchange": "nodes"}, "the plan has no hops"),
    "random_features": ("plan.h5", {"random_features": 3}, "has features of width 7"),
    "classes": ("plan.h5", {"classes": 2}, "has labels up to"),
    "split": ("plan.h5", {"split": (0.5, 0.2, 0.3), "batch_size": 9}, "the plan's own train mask"),
    "patience": ("no_val.h5", {"patience": 2}, "no validation vertex has a label"),
    "predict": ("bare.h5", {"predict": "x.csv"}, "x.csv: .*bare.h5 has no labels, .* of `data`"),
    "device": ("plan.h5", {"device": "cuda:99"}, "`device` cuda:99"),
    "init": ("plan.h5", {"init": "weights.npz", "hidden": 5}, "has shape"),
    "checkpoint": ("plan.h5", {"checkpoint": "run"}, "holds a checkpoint of an earlier run"),
    "resume": ("plan.h5", {"checkpoint": "none", "resume": True}, "there is no checkpoint"),
    "resumed": (
        "plan.h5",
        {"checkpoint": "run", "resume": True, "hidden": 5},
        "was made with hidden 16",
    ),
    "plateau": ("no_val.h5", {"schedule": "plateau"}, "plateau needs a validation loss, but"),
    "relays": ("plan.h5", {"exchange": "relays"}, "the plan has no relays"),
    "delay": ("plan.h5", {"fold": "delayed"}, "`fold` delayed needs an edge plan"),
    "aggregate": (
        "plan.h5",
        {"aggregate_on": "cpu"},
        "`aggregate_on` cpu needs .* layout .feature",
    ),
}
MAX, GAT, SAMPLED = {"model": "sage", "aggregator": "max"}, {"model": "gat"}, "boundary_sampling"
NARROW = {"dtype": "bfloat16"}
ROW = "needs a row plan"
OF_LAYOUTS = {
    "edge": [
        (GAT, f"^`model` gat {ROW}.* edge plan"),
        (GAT | {"fold": "none"}, f"^`model` gat {ROW}"),
        ({SAMPLED: 0.5}, f"^`{SAMPLED}` 0.5 {ROW}.* edge plan"),
        ({"boundary_edge_sampling": 0.25}, f"^`boundary_edge_sampling` 0.25 {ROW}"),
        ({"drop_edge": 0.9}, f"^`drop_edge` 0.9 {ROW}"),
        ({"sampler": "uniform", "batch_size": 8}, f"^`sampler` uniform {ROW}"),
        ({"batch_size": 8}, f"^`batch_size` 8 {ROW}"),
        (NARROW, f"^`dtype` bfloat16 {ROW}, but"),
    ],
    "1d 2": [(NARROW, f"^`dtype` bfloat16 {ROW}, but")],
    "2d 2x2": [
        ({"pipeline": "3"}, "`pipeline` 3 needs a plan of layout 'feature'"),
        ({"recompute": True}, "`recompute` needs a row plan or an edge plan"),
    ],
    "2d 1x3": [
        (GAT, "`model` gat: attention needs all neighbours of a row"),
        (MAX, f"`aggregator` max {ROW}"),
        ({"norm": "layer"}, f"`norm` layer {ROW}"),
        ({"passes": ("overlap",)}, f"`passes` overlap, without order {ROW}"),
        ({"wire": "bf16"}, f"`wire` bf16 {ROW}"),
        ({"row_order": "rcm"}, "`row_order` rcm: rows of grid '2d 1x3' cannot be"),
        ({SAMPLED: 0.5}, f"`{SAMPLED}` 0.5 {ROW}"),
        ({"batch_size": 8}, f"`batch_size` 8 {ROW}"),
        ({"fold": "none"}, "`fold` none needs an edge plan"),
        ({"hidden": 2}, "splits columns over 3 ranks, but a layer is 2 wide"),
    ],
    "feature 1x3": [
        (GAT, "`model` gat: attention weighs whole rows"),
        (MAX | {"pipeline": "auto"}, "`aggregator` max"),
        ({"wire": "bf16"}, "`wire` bf16 has no effect: .* one group"),
        (NARROW, f"^`dtype` bfloat16 {ROW}, but"),
    ],
    "feature 2x2": [({"pipeline": "auto"}, "`pipeline` auto needs a plan with one group of ranks")],
}
REFUSED |= {
    f"{layout}: {given}": (layout, given, words)
    for layout, cases in OF_LAYOUTS.items()
    for given, words in cases
}


@pytest.mark.parametrize("case", REFUSED)
def test_runs(case, folder, no_kernels):
    name, given, words = REFUSED[case]
    plan = folder / name if name.endswith(".h5") else file_of("directed", name)
    paths = {key: folder / given[key] for key in ("init", "checkpoint") if key in given}
    options = TrainOptions(threads=1, **{**given, **paths})
    with pytest.raises(InputError, match=words) as raised:
        on_ranks(LAYOUTS.get(name, 2), lambda transport: train(plan, options, transport))
    assert "\n" not in str(raised.value)
    assert "rank 0" not in str(raised.value)  # no rank is special


def test_ranks_that_differ(folder, no_kernels):
    def seeds(transport):
        options = TrainOptions(threads=1, seed=transport.rank)
        train(folder / "plan.h5", options, transport)

    with pytest.raises(InputError, match="different options: `seed` is"):
        run_ranks(2, seeds)
    names = ("plan.h5", "bare.h5")
    with pytest.raises(PlanccError, match="opened different plans"):
        run_ranks(2, lambda t: train(folder / names[t.rank], TrainOptions(threads=1), t))
    for plan, ranks, words in (
        (folder / "plan.h5", 5, "5 ranks for a plan of 4 parts"),
        (file_of("directed", "2d 2x2"), 3, "grid '2d 2x2', which runs on exactly 4 ranks"),
    ):
        with pytest.raises(InputError, match=words):
            run_ranks(ranks, lambda t, plan=plan: train(plan, TrainOptions(threads=1), t))


def test_a_plan_that_is_refused_is_closed(folder, tmp_path):
    shutil.copy(folder / "plan.h5", tmp_path)
    with h5py.File(tmp_path / "plan.h5", "r+") as file:
        file["rows/global_id"][0] += 1
    with pytest.raises(PlanccError) as raised:  # holds the frames, and their open files
        open_plan(tmp_path / "plan.h5", SingleTransport())
    left = [os.path.realpath(each) for each in glob("/proc/self/fd/*")]
    assert raised.value.__traceback__ is not None
    assert str(tmp_path / "plan.h5") not in left


def test_the_library(folder, no_kernels):
    with pytest.raises(InputError, match="the library needs a row plan"):
        plancc_runtime.open(file_of("directed", "2d 1x1"), SingleTransport())


def test_the_kernels_are_found(folder, no_kernels):
    """What is not refused meets one."""
    with pytest.raises(KernelCalled):
        train(folder / "plan.h5", TrainOptions(threads=1), SingleTransport())
