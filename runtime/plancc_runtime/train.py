"""Training from a plan: the second way through the house, on one page.

    plan.h5 -> this rank's slice -> graphs + transport -> layers -> loss -> adjoint -> optimiser

In mini-batches the slice is masked to every batch first; the rest is the same.

`train` is collective: all ranks call it with the same options.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

from plancc.errors import InputError
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
    plan: str | PathLike[str] | Slice,
    options: TrainOptions,
    transport: Transport,
    report: Callable[[Measure], None] | None = None,
) -> TrainResult:
    """Train a network from a plan. Collective.

    Parameters:
        plan: A plan file (every rank reads its slice only), or that slice. Samplers that draw from
            more than the number of vertices need the file.
        report: Called on every rank after every epoch with its measure.

    Raises:
        InputError, PlanError, OutputError, BackendUnavailable: On all ranks, also if only one of
            them failed; the sentence names the ranks.
    """
    return trained(plan, options, transport, report)[1]()


def trained(
    plan: str | PathLike[str] | Slice,
    options: TrainOptions,
    transport: Transport,
    report: Callable[[Measure], None] | None = None,
    begin: Callable[[RunOutline], None] | None = None,
    stop: Callable[[], str] = str,
) -> tuple[TrainResult, Callable[[], TrainResult]]:
    """Train a network, and leave its predictions to the caller. Collective.

    Parameters and errors are those of `train`; `begin` is called on every rank before the first
    epoch. In a run with checkpoints `stop` is called on every rank before every epoch: when it
    returns a text on any of them, which says who wants the run to stop, all save a checkpoint and
    raise `Stopped`.

    Returns:
        TrainResult: Before predictions are written, so that it survives their failure.
        callable: Writes the predictions, if the options ask for them, and returns the result with
            their counts; collective, and raises as `train`.
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


def check_model(
    plan: str | PathLike[str], options: TrainOptions, transport: Transport
) -> Agreement:
    """How far a class of the user's on all ranks is from the same on one. Collective.

    The network and its features are those that `train` begins with, in float64; nothing is trained
    or written.

    Raises:
        InputError, PlanError, BackendUnavailable: As of `train`; for a built-in model; if something
            in the class cannot be exact on several ranks.
    """
    with transport.agreement():
        need_torch("a network")
        if not is_own(options.model):
            raise InputError("`check_model`: is for a class of your own: `model` FILE:CLASS")
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
    plan: str | PathLike[str] | Slice,
    options: TrainOptions,
    transport: Transport,
    kind: type[Run] | None = None,
) -> Run:
    """A run, or one of a kind of its own, that is ready for its first epoch. Collective.

    Parameters and errors are those of `train`.
    """
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
    """`prepared`, from a plan that `slices.open_plan` opened. Collective; needs torch.

    Parameters:
        task: What is learnt, if not what plan and options say.
    """
    from plancc_runtime.run import Run

    check_same_options(options, transport)
    # refuses before the first kernel is called
    run = (kind or Run)(opened, options, transport, task)
    del opened  # its vertex data are the run's now
    try:
        run.prepare()
    except BaseException:
        run.close()
        raise
    return run
