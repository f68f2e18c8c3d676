"""Training from a plan: the second way through the house, top to bottom.

    plan.h5 -> this rank's slice -> graphs + transport -> layers -> loss -> adjoint -> optimiser

In mini-batches the slice is masked to every batch first; the rest is the same.

Every function here is collective: all ranks call it with the same options.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from plancc.errors import BackendUnavailable, InputError
from plancc_runtime.clock import Clock
from plancc_runtime.options import TrainOptions
from plancc_runtime.results import Measure, Step, TrainResult, summarise
from plancc_runtime.slices import Slice, check_slices, open_slice
from plancc_runtime.transport.base import Transport

if TYPE_CHECKING:
    from plancc_runtime.data import LocalData
    from plancc_runtime.nn.network import Network


def train(
    plan: str | PathLike[str] | Slice,
    options: TrainOptions,
    transport: Transport,
    report: Callable[[int, float], None] | None = None,
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
        Called on every rank after every epoch with its number (from 0) and loss.

    Raises
    ------
    InputError, PlanError, BackendUnavailable
        On all ranks, also if only one of them failed; the sentence names the ranks.
    """
    with transport.agreement():
        header, part, content = open_slice(plan, transport)
    check_slices(part, content, transport)
    with transport.agreement():
        torch = _import_torch()
    with transport.agreement():
        drawn = None
        if options.mini_batches:
            from plancc_runtime.steps import MiniBatches, open_sampler

            drawn = open_sampler(plan, options, header)
    from plancc_runtime.data import load_data
    from plancc_runtime.execution import Execution
    from plancc_runtime.learner import Learner

    threads = options.threads or transport.cores_per_rank()
    torch.set_num_threads(threads)
    dtype = {"float32": torch.float32, "float64": torch.float64}[options.dtype]
    data = load_data(part, transport, dtype, options.seed, options.features, options.classes)
    network = make_network(options, data, transport, dtype)
    clock = Clock()
    learner = Learner(network, options, transport, clock)
    training = Execution(part, header, data, options, transport, dtype, clock)
    measures: list[Measure] = []
    steps: list[Step] = []
    per_epoch = 0
    if drawn is not None:
        sampler, population = drawn
        per_epoch = options.steps or sampler.batches_per_epoch(population)
        batches = MiniBatches(learner, training, data, sampler, population, per_epoch)
    del part
    _release_free_memory()
    for epoch in range(options.epochs):
        own_pass = options.eval_every > 0 and epoch % options.eval_every == 0
        accuracy: dict[str, float] = {}
        if own_pass and not training.evaluates:
            accuracy = learner.evaluate(training.whole(network), data)
        before = learner.start()
        if drawn is not None:
            loss, hits = batches.epoch(epoch, steps)
        else:
            loss, hits = learner.update(
                training.view(network, epoch), data, epoch, f"epoch {epoch}"
            )
        if (own_pass and training.evaluates) or "train" not in accuracy:
            accuracy = {**hits, **accuracy}
        measures.append(learner.measure(before, loss, accuracy))
        if report is not None:
            report(epoch, loss)
    before = learner.start()
    loss, accuracy = learner.final(training.whole(network), data, f"epoch {options.epochs}")
    measures.append(learner.measure(before, loss, accuracy))

    if steps:
        counted = np.array([[s.vertices, s.volume, s.messages, s.words_sent] for s in steps])
        transport.allreduce_sum(counted)
        fields = ("vertices", "volume", "messages", "words_sent")
        steps = [
            replace(s, **dict(zip(fields, sums, strict=True)))
            for s, sums in zip(steps, counted.tolist(), strict=True)
        ]
    *epochs, final = summarise(measures, transport)
    if drawn is not None:
        epochs = [
            replace(e, volume_per_step=float(np.mean([x.volume for x in taken])))
            for e in epochs
            for taken in [steps[e.epoch * per_epoch : (e.epoch + 1) * per_epoch]]
        ]
    return TrainResult(
        header=header,
        options=replace(options, init=None if options.init is None else fspath(options.init)),
        num_ranks=transport.size,
        threads=threads,
        dims=network.dims,
        split_sizes=data.split_sizes,
        random_features=data.random_features,
        random_labels=data.random_labels,
        epochs=epochs,
        final=final,
        weights={k: w.detach().cpu().numpy() for k, w in network.state_dict().items()},
        sampler="" if drawn is None else str(drawn[0]),
        steps_per_epoch=per_epoch,
        steps=steps,
    )


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
            [data.features.shape[1], *hidden, data.num_classes],
            NetworkOptions(
                model=options.model,
                conv=ConvOptions(
                    heads=options.heads,
                    aggregator=options.aggregator,
                    bias=options.bias,
                    order="auto" if "order" in options.passes else "paper",
                ),
                activation=options.activation,
                norm=options.norm,
                residual=options.residual,
                dropout=options.dropout,
                input_dropout=options.first_dropout,
            ),
            options.seed,
            dtype,
        )
        if options.init is not None:
            state = network.state_dict()
            shapes = {name: tuple(value.shape) for name, value in state.items()}
            given = read_weights(options.init, shapes)
            network.load_state_dict({k: torch.from_numpy(w) for k, w in given.items()})
    state = network.state_dict()
    if not transport.all_equal(b"".join(w.numpy().tobytes() for w in state.values())):
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
