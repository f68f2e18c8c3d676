"""Training from a plan: the second way through the house, top to bottom.

    plan.h5 -> this rank's slice -> graphs + transport -> layers -> loss -> adjoint -> optimiser

In mini-batches the slice is masked to every batch first; the rest is the same.

`train` is collective: all ranks call it with the same options.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from plancc.errors import BackendUnavailable, InputError
from plancc.registry import check_choice
from plancc_runtime.clock import Clock
from plancc_runtime.logs import RunLog
from plancc_runtime.options import TrainOptions
from plancc_runtime.results import (
    Measure,
    Scores,
    Step,
    TrainResult,
    spent_by_all,
    summarise,
)
from plancc_runtime.slices import Slice, check_slices, open_slice
from plancc_runtime.trace import Trace
from plancc_runtime.transport.base import Transport

if TYPE_CHECKING:
    from plancc.plan.values import Header
    from plancc_runtime.data import LocalData
    from plancc_runtime.execution.full_batch import Execution
    from plancc_runtime.execution.grids import GridExecution
    from plancc_runtime.learner import Learner
    from plancc_runtime.nn.network import Network


def train(
    plan: str | PathLike[str] | Slice,
    options: TrainOptions,
    transport: Transport,
    report: Callable[[Measure], None] | None = None,
) -> TrainResult:
    """Train a network from a plan. Collective.

    Parameters
    ----------
    plan : path, or (Header, Part)
        A plan file, of which every rank reads its slice only, or that slice. Samplers that draw
        from more than the number of vertices need the file.
    options : TrainOptions
    transport : Transport
    report : callable, optional
        Called on every rank after every epoch with its measure.

    Raises
    ------
    InputError, PlanError, OutputError, BackendUnavailable
        On all ranks, also if only one of them failed; the sentence names the ranks.
    """
    with transport.agreement():
        header, part, content = open_slice(plan, transport)
    check_slices(part, content, transport)
    with transport.agreement():
        torch = _import_torch()
        from plancc_runtime.kernels.spmm import KERNELS

        if options.kernel != "auto":
            check_choice("kernel", options.kernel, KERNELS)
        from plancc_runtime.execution.full_batch import Execution, check_layout
        from plancc_runtime.execution.grids import GridExecution

        check_layout(header, options)
    with transport.agreement():
        drawn = None
        if options.mini_batches:
            from plancc_runtime.execution.mini_batches import MiniBatches, open_sampler

            drawn = open_sampler(plan, options, header)
    from plancc_runtime.data import load_data
    from plancc_runtime.devices import own_device
    from plancc_runtime.layouts.order import in_order
    from plancc_runtime.layouts.pipeline import pipelining
    from plancc_runtime.learner import Learner
    from plancc_runtime.optim import Validation, learning_rate

    threads = options.threads or transport.cores_per_rank()
    torch.set_num_threads(threads)
    with transport.agreement():
        device = own_device(options.device, transport)
    dtype = {"float32": torch.float32, "float64": torch.float64}[options.dtype]
    part = in_order(part, options, transport)
    pipelined = pipelining(part.grid, options.pipeline)
    data = load_data(
        *(part, transport, dtype, options.seed, options.features, options.classes),
        split=options.split,
        normalize_features=options.normalize_features,
        device=device,
    )
    with transport.agreement():
        check_widths(header, options, data)
    network = make_network(options, data, transport, dtype)
    clock = Clock()
    trace = Trace(clock, transport) if options.trace is not None else None
    learner = Learner(network, options, transport, clock)
    with transport.agreement():
        validated = _is_validated(options, data)
    best, first, kernel = Validation(), 0, options.kernel
    if options.checkpoint is not None:
        from plancc_runtime.checkpoint import Checkpoints

        checkpoints = Checkpoints(options, content, transport)
        if options.resume:
            first, best = checkpoints.load(learner)
            if options.kernel == "auto" and checkpoints.kernels:
                kernel = checkpoints.kernels[transport.rank]
    log = None
    with transport.agreement():
        if options.log is not None and transport.rank == 0:
            log = RunLog(options.log, first)

    before = learner.start()
    with _span(trace, "setup"):
        chosen = replace(options, kernel=kernel)
        kind = Execution if part.grid is None else GridExecution
        training: Execution | GridExecution = kind(
            part, header, data, chosen, transport, dtype, clock
        )
        if options.checkpoint is not None:
            checkpoints.kernels = transport.gather(training.kernel)
        per_epoch = 0
        if drawn is not None:
            assert isinstance(training, Execution)
            sampler, population = drawn
            per_epoch = options.steps or sampler.batches_per_epoch(population)
            batches = MiniBatches(learner, training, data, sampler, population, per_epoch)
        del part
        data = training.prepare(network)
    _release_free_memory()
    setup = learner.measure(before)

    measures: list[Measure] = []
    steps: list[Step] = []
    done = first
    with training.epochs():
        for epoch in range(first, options.epochs):
            if options.patience is not None and best.since >= options.patience:
                break
            where, scores, evaluating = f"epoch {epoch}", Scores(), None
            evaluated = options.eval_every > 0 and epoch % options.eval_every == 0
            if evaluated and not training.evaluates:
                before = learner.start()
                with _span(trace, f"evaluation {epoch}"):
                    scores = learner.evaluate(training.whole(), data, where)
                evaluating = learner.measure(before)
                if validated:
                    best.see(scores.loss["val"], epoch, network)
            before = learner.start()
            volume = None
            with _span(trace, where):
                if drawn is not None:
                    rate = learning_rate(options, epoch, best.drops)
                    loss, accuracy, taken = batches.epoch(epoch, rate)
                    scores = scores if evaluated else Scores(accuracy=accuracy)
                    volume = float(np.mean([step.volume for step in taken]))
                    steps += taken
                else:
                    loss, outputs = learner.gradients(training.view(epoch), data, epoch, where)
                    if evaluated and training.evaluates:
                        scores = learner.scores(outputs, training.whole(), data, where)
                        if validated:
                            best.see(scores.loss["val"], epoch, network)
                    del outputs  # the next epoch uses their memory
                    rate = learning_rate(options, epoch, best.drops)
                    learner.update(rate)
            done = epoch + 1
            measure = Measure(
                epoch, loss, rate, scores, learner.measure(before), evaluating, volume
            )
            measures.append(measure)
            if options.log is not None:
                [row] = summarise([measure], transport)
                with transport.agreement():
                    if log is not None:
                        log.write(row)
            if options.checkpoint is not None and options.every and done % options.every == 0:
                checkpoints.save(learner, done, best)
            if report is not None:
                report(measure)
    if options.checkpoint is not None and (not options.every or done % options.every):
        checkpoints.save(learner, done, best)

    final = _final_pass(learner, training, data, done, trace)
    best_epoch = None
    if options.patience is not None:
        best.see(final.scores.loss["val"], done, network)
        best_epoch = best.epoch
        if best_epoch != done:
            assert best.weights is not None
            network.load_state_dict(best.weights)
            final = _final_pass(learner, training, data, done, trace)
    if trace is not None and options.trace is not None:
        trace.write(options.trace)
    if log is not None:
        log.close()
    copies = 1 if header.grid is None else header.grid.copies  # that count every vertex
    *epochs, last = summarise([*measures, final], transport)
    return TrainResult(
        header=header,
        options=options.with_plain_paths(),
        num_ranks=transport.size,
        threads=threads,
        dims=network.dims,
        split_sizes={split: size // copies for split, size in data.split_sizes.items()},
        random_features=data.random_features,
        random_labels=data.random_labels,
        multi_label=data.multi_label,
        kernel=training.kernel,
        setup=spent_by_all(setup, transport),
        passes_off=training.off,
        figures=training.figures(network),
        epochs=epochs,
        final=last,
        best_epoch=best_epoch,
        weights={k: w.detach().cpu().numpy() for k, w in network.state_dict().items()},
        sampler="" if drawn is None else str(drawn[0]),
        steps_per_epoch=per_epoch,
        steps=steps,
        pipelining=pipelined,
    )


def _final_pass(
    learner: Learner,
    training: Execution | GridExecution,
    data: LocalData,
    done: int,
    trace: Trace | None,
) -> Measure:
    """Scores of the weights as they are. Collective."""
    before = learner.start()
    with _span(trace, "final"):
        scores = learner.evaluate(training.whole(), data, f"epoch {done}")
    return Measure(done, scores.loss["train"], 0.0, scores, learner.measure(before))


def check_widths(header: Header, options: TrainOptions, data: LocalData) -> None:
    """Whether every layer has columns for all ranks that share its rows; not collective.

    Raises
    ------
    InputError
        If the grid of the plan has more process columns than a layer is wide.
    """
    if header.grid is not None:
        hidden = [options.hidden] * (options.layers > 1)
        for width in (data.num_features, *hidden, data.num_classes):
            header.grid.check_width(width)


def _is_validated(options: TrainOptions, data: LocalData) -> bool:
    """Whether the best validation loss is kept.

    Raises
    ------
    InputError
        If an option needs one, and there are no validation vertices.
    """
    there = data.split_sizes.get("val", 0) > 0
    if options.patience is not None and not there:
        raise InputError(f"patience {options.patience}: no validation vertex has a label")
    if options.schedule == "plateau" and not there:
        raise InputError("schedule plateau: no validation vertex has a label")
    wanted = (
        options.patience is not None
        or options.schedule == "plateau"
        or options.checkpoint is not None
    )
    return there and wanted


def _span(trace: Trace | None, name: str) -> AbstractContextManager[None]:
    """A stretch of the timeline, if there is one."""
    return nullcontext() if trace is None else trace.span(name)


def make_network(
    options: TrainOptions, data: LocalData, transport: Transport, dtype: Any
) -> Network:
    """The network of these options, the same on all ranks. Collective.

    Raises
    ------
    InputError
        If the model cannot be made so, or the initial weights do not fit it.
    """
    import torch

    from plancc_runtime.nn.conv import ConvOptions
    from plancc_runtime.nn.network import Network, NetworkOptions
    from plancc_runtime.weights import read_weights

    hidden = [options.hidden] * (options.layers - 1)
    with transport.agreement():
        network = Network(
            [data.num_features, *hidden, data.num_classes],
            NetworkOptions(
                model=options.model,
                conv=ConvOptions(
                    heads=options.heads,
                    aggregator=options.aggregator,
                    bias=options.bias,
                    order=options.product_order,
                ),
                activation=options.activation,
                norm=options.norm,
                residual=options.residual,
                dropout=options.dropout,
                input_dropout=options.first_dropout,
            ),
            options.seed,
            dtype,
        ).to(data.features.device)
        if options.init is not None:
            state = network.state_dict()
            shapes = {name: tuple(value.shape) for name, value in state.items()}
            given = read_weights(options.init, shapes)
            network.load_state_dict({k: torch.from_numpy(w) for k, w in given.items()})
    state = network.state_dict()
    if not transport.all_equal(b"".join(w.cpu().numpy().tobytes() for w in state.values())):
        transport.agree(InputError(f"{options.init}: not the same weights on all ranks"))
    return network


def _release_free_memory() -> None:
    """Give the system back what reading and building left behind; glibc would keep it."""
    with suppress(OSError, AttributeError):  # another libc
        ctypes.CDLL(None).malloc_trim(0)


def _import_torch() -> Any:
    try:
        import torch
    except ImportError as error:
        raise BackendUnavailable(
            "training needs torch; install it with: pip install 'plancc[run]'"
        ) from error
    return torch
