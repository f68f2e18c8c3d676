"""Where an epoch's time goes, and how long it would take at this machine's rates: a roofline.

Every operation of an epoch is timed, with the bytes and flops that it takes at least. At best it
takes the longer of bytes over the rate of copying and flops over that of dense products (Williams,
Waterman and Patterson 2009). The *bound* is the sum of these times over what has flops: products
with matrices, sparse ones included. All else could be fused into them.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from plancc_runtime.clock import Clock
from plancc_runtime.data import LocalData
from plancc_runtime.execution.protocol import Execution
from plancc_runtime.learner import Learner
from plancc_runtime.operations import Cost, listen
from plancc_runtime.results import Profile, ProfiledOperation
from plancc_runtime.transport.base import Transport

ROUNDS = 5
"""Epochs that are timed as they are, and as many that are profiled, in turn; medians count."""
COPIED_BYTES = 1 << 28
"""Size of the array whose copying is timed: no cache holds it."""
PRODUCT_SIZE = {"cpu": 2048, "cuda": 8192}
"""Rows and columns of the dense product that is timed."""
SAMPLES = 5

R = TypeVar("R")
Key = tuple[str, str]


@dataclass
class _Spent:
    calls: int = 0
    seconds: float = 0.0
    num_bytes: int = 0
    flops: int = 0

    def add(self, seconds: float, cost: Cost) -> None:
        self.calls += 1
        self.seconds += seconds
        self.num_bytes += cost.num_bytes
        self.flops += cost.flops


class Recorder(TorchDispatchMode):
    """Times every operation of this thread, by the stage of the epoch that it belongs to.

    Parameters:
        clock: Says the stage.
        device: What is waited for after every operation.
    """

    def __init__(self, clock: Clock, device: torch.device) -> None:
        super().__init__()
        self._clock, self._device = clock, device
        self._within = False
        self.spent: dict[Key, _Spent] = defaultdict(_Spent)

    def __enter__(self) -> Recorder:
        listen(self)
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        listen(None)
        super().__exit__(*error)

    def timed(self, name: str, function: Callable[[], R], cost: Callable[[R], Cost]) -> R:
        """As of `operations.Listener`; operations within an operation belong to it."""
        if self._within:
            return function()
        self._within = True
        try:
            begin = time.perf_counter()
            result = function()
            if self._device.type == "cuda":
                torch.cuda.synchronize(self._device)
            seconds = time.perf_counter() - begin
            self.spent[self._clock.stage, name].add(seconds, cost(result))
        finally:
            self._within = False
        return result

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func.is_view:
            return func(*args, **kwargs)
        return self.timed(
            _name_of(func),
            lambda: func(*args, **kwargs),
            lambda result: _cost_of(func, result, args, kwargs),
        )


WORDS = {"mm": "dense product", "addmm": "dense product", "bmm": "dense product"}
"""What operations of torch are called, where not by their own name."""
SELECTING = ("index_select", "index", "gather", "embedding")
"""Operations that read as much as they write."""
ONLY_WRITE = ("copy_", "zero_", "fill_", "index_copy_")
"""Operations in place that do not read what they overwrite."""
MAKING = (
    "empty",
    "empty_strided",
    "empty_like",
    "new_empty",
    "set_",
    "detach",
    "_local_scalar_dense",
)
"""Operations that move nothing."""


@cache
def _name_of(func: Any) -> str:
    name = func._schema.name.split("::")[-1]
    return WORDS.get(name, name.strip("_"))


def _cost_of(func: Any, result: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Cost:
    """Bytes and flops of an operation of torch, from the shapes of its operands."""
    from torch.utils.flop_counter import flop_registry

    name = func._schema.name.split("::")[-1]
    if name in MAKING:
        return Cost(0)
    read: dict[int, int] = {}
    for value in _tensors([*args, *kwargs.values()]):
        read[id(value)] = value.numel() * value.element_size()
    written = {id(value): value.numel() * value.element_size() for value in _tensors([result])}
    num_bytes = sum(written.values())
    if name in SELECTING:
        num_bytes *= 2
    else:
        # what is written only is an operand too: `out`, or an array that is overwritten
        num_bytes += sum(size for key, size in read.items() if key not in written)
        if name.endswith("_") and name not in ONLY_WRITE:
            num_bytes += sum(size for key, size in read.items() if key in written)
    count = flop_registry.get(func._overloadpacket)
    return Cost(num_bytes, 0 if count is None else int(count(*args, **kwargs, out_val=result)))


def _tensors(values: Sequence[Any]) -> list[Tensor]:
    found = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += _tensors(value)
    return found


def profile(
    execution: Execution, learner: Learner, data: LocalData, number: int, transport: Transport
) -> Profile:
    """Profile epochs of a prepared run; weights and optimiser stay as they are. Collective.

    Parameters:
        execution: Prepared.
        data: What `Execution.prepare` returned.
        number: Number of the first epoch, from which samples are drawn.

    Returns:
        Of the rank whose operations take longest; the same on all ranks.
    """
    device = next(learner.network.parameters()).device
    bandwidth, rate = copy_bandwidth(device, transport), product_rate(device, transport)
    plain, rounds = [], []
    state = learner.state()
    with execution.epochs():
        for k in range(ROUNDS):
            before = learner.start()
            execution.epoch(learner, data, number + 2 * k, False, _no_rate)
            plain.append(learner.measure(before).seconds["total"])
            before, recorder = learner.start(), Recorder(learner.clock, device)
            with _recording(learner, recorder):
                execution.epoch(learner, data, number + 2 * k + 1, False, _no_rate)
            rounds.append((learner.measure(before).seconds, recorder.spent))
    learner.restore(state)
    rounds.sort(key=lambda each: each[0]["total"])
    phases, operations = rounds[ROUNDS // 2]
    batches = [(name, execution.steps_per_epoch, phases[name]) for name in ("draw", "mask")]
    timed: list[list[Any]] = [
        [stage, name, each.calls, each.seconds, each.num_bytes, each.flops]
        for (stage, name), each in operations.items()
    ]
    timed += [["batch", *each, 0, 0] for each in batches if each[2]]
    own = {
        "operations": timed,
        "wait": phases["wait"] + phases["allreduce"],
        "profiled": phases["total"],
    }
    times = [sum(each[3] for each in timed)]
    slowest = int(np.argmax(transport.gather(times)))
    shown = transport.gather(own if transport.rank == slowest else None)[slowest]
    epoch = np.array([np.median(plain)])
    transport.allreduce_max(epoch)
    found = []
    for stage, name, calls, seconds, num_bytes, flops in shown["operations"]:
        best = max(num_bytes / bandwidth, flops / rate)
        found.append(ProfiledOperation(stage, name, calls, seconds, num_bytes, flops, best))
    return Profile(
        rank=slowest,
        epoch=float(epoch[0]),
        profiled=shown["profiled"],
        wait=shown["wait"],
        copy_bandwidth=bandwidth,
        product_rate=rate,
        operations=found,
        bound=sum(each.best for each in found if each.flops),
    )


def _no_rate(scores: Any) -> float:
    """A learning rate that leaves the weights as they are."""
    return 0.0


@contextmanager
def _recording(learner: Learner, recorder: Recorder) -> Iterator[None]:
    """Let the recorder hear of all operations within the block, and of their stages."""
    network, clock = learner.network, learner.clock
    entered, network.entered = network.entered, clock.enter
    try:
        with clock.recording(), recorder:
            yield
    finally:
        network.entered = entered


def copy_bandwidth(device: torch.device, transport: Transport) -> float:
    """Bytes per second, read and written, of copying on all ranks at once. Collective."""
    source = torch.zeros(COPIED_BYTES // 8, dtype=torch.float32, device=device)
    target = torch.ones_like(source)
    seconds = _best_time(lambda: target.copy_(source), device, transport)
    return COPIED_BYTES / seconds


def product_rate(device: torch.device, transport: Transport) -> float:
    """Flops per second of a dense float32 product on all ranks at once. Collective."""
    size = PRODUCT_SIZE.get(device.type, PRODUCT_SIZE["cpu"])
    x = torch.ones(size, size, device=device)
    out = torch.empty_like(x)
    seconds = _best_time(lambda: torch.mm(x, x, out=out), device, transport)
    return 2 * size**3 / seconds


def _best_time(run: Callable[[], Any], device: torch.device, transport: Transport) -> float:
    """Seconds of the slowest rank in the best of some samples, made by all ranks at once."""
    samples = np.empty(SAMPLES)
    run()
    for k in range(SAMPLES):
        transport.gather(0)  # all begin together
        begin = time.perf_counter()
        run()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        samples[k] = time.perf_counter() - begin
    transport.allreduce_max(samples)
    return float(samples.min())
