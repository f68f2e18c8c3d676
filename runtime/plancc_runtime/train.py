"""Training from a plan: the stages in order. All functions are collective.

    plan.h5 -> this rank's slice -> graphs + transport -> layers -> loss -> adjoint -> optimiser

With mini-batches, the graphs have only the rows of one mini-batch; all else is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from plancc.errors import InputError
from plancc.files import StrPath
from plancc_runtime.launch import need_torch
from plancc_runtime.nn import is_own
from plancc_runtime.options import TrainOptions, check_same_options
from plancc_runtime.results import Measure, RunOutline, TrainResult
from plancc_runtime.slices import Opened, Slice, open_plan, read_ids
from plancc_runtime.transport.base import Transport

if TYPE_CHECKING:
    from plancc_runtime.pyg.check import Agreement
    from plancc_runtime.run import Run
    from plancc_runtime.tasks.base import LearningTask


def train(
    plan: StrPath | Slice,
    options: TrainOptions,
    transport: Transport,
    report: Callable[[Measure], None] | None = None,
) -> TrainResult:
    """Train a network from a plan. Collective.

    Parameters:
        plan: A plan file (every rank reads its own slice), or this rank's slice. It must be the
            file if the sampler needs anything of the graph besides the number of vertices.
        report: Function that is called with an epoch's measure, on every rank after every epoch.

    Raises:
        InputError, PlanError, OutputError, BackendUnavailable: On all ranks, even if only one rank
            failed; the error names the ranks that failed.
    """
    return trained(plan, options, transport, report)[1]()


def trained(
    plan: StrPath | Slice,
    options: TrainOptions,
    transport: Transport,
    report: Callable[[Measure], None] | None = None,
    begin: Callable[[RunOutline], None] | None = None,
    stop: Callable[[], str] = str,
) -> tuple[TrainResult, Callable[[], TrainResult]]:
    """Train a network; return the result, and a function that writes predictions. Collective.

    Writing is separate, so that the result is not lost if writing fails. The function is
    collective, raises the errors of `train`, and returns the result with counts of predictions.

    Parameters:
        plan, options, transport, report: See `train`.
        begin: Called with the run's outline, on every rank before the first epoch.
        stop: Called on every rank before every epoch of a run with checkpoints. A string other than
            "", on any rank, stops the run: all ranks save a checkpoint and raise `Stopped` with
            this reason.
    """
    run, ids = prepared(plan, options, transport), None
    if options.predict is not None:
        with transport.agreement():
            ids = read_ids(plan, run.content, transport)
    if begin is not None:
        begin(run.outline())
    run.loop(report, stop)
    result = run.finish()

    def write() -> TrainResult:
        if options.predict is None:
            return result
        counts = run.outputs.save(options.predict, options.embeddings, ids)
        return replace(result, predicted=counts)

    return result, write


def check_model(plan: StrPath, options: TrainOptions, transport: Transport) -> Agreement:
    """Compare the outputs of a user's class on all ranks with its outputs on one rank. Collective.

    The network is compared before training, with the features that `train` would use, in float64.
    """
    with transport.agreement():
        need_torch("a network")
        if not is_own(options.model):
            raise InputError("`check_model`: needs a class of your own; give `model` FILE:CLASS")
    import torch

    from plancc_runtime.graph import open_graph
    from plancc_runtime.pyg.own_network import check_own
    from plancc_runtime.run import Run

    kept = {"checkpoint": None, "every": None, "keep_last": 2, "resume": False}
    written = dict.fromkeys(("log", "predict"))
    changes: dict[str, Any] = {"dtype": "float64", **kept, **written}
    options = replace(options, **changes)
    run = Run(open_plan(plan, transport), options, transport)
    graph = open_graph(plan, transport, torch.float64)
    return check_own(run.network, graph, run.features)


def prepared(
    plan: StrPath | Slice,
    options: TrainOptions,
    transport: Transport,
    kind: type[Run] | None = None,
) -> Run:
    """Return a run that is ready for its first epoch; see `train`. Collective."""
    with transport.agreement():
        need_torch("training")
    opened = open_plan(plan, transport, options.features_on_disk)
    return run_of(opened, options, transport, kind)


def run_of(
    opened: Opened,
    options: TrainOptions,
    transport: Transport,
    kind: type[Run] | None = None,
    task: LearningTask | None = None,
) -> Run:
    """Return a run, as `prepared` does, for a plan that is open. Collective; needs torch."""
    from plancc_runtime.run import Run

    check_same_options(options, transport)
    # the constructor raises all errors of options before the first kernel is called
    run = (kind or Run)(opened, options, transport, task)
    del opened  # the run holds its vertex data now
    try:
        run.prepare()
    except BaseException:
        run.close()
        raise
    return run
