"""What torch's profiler sees of epochs after a run: a table of operations, and their timeline."""

from __future__ import annotations

from contextlib import nullcontext
from os import PathLike
from typing import Any

import numpy as np
from torch.profiler import ProfilerActivity, record_function
from torch.profiler import profile as recorded

from plancc.files import atomic_write, scratch_folder
from plancc_runtime.data import LocalData
from plancc_runtime.execution.protocol import Execution
from plancc_runtime.learner import Learner
from plancc_runtime.transport.base import Transport

EPOCHS = 3
"""Epochs that are profiled, after one by which the rank is chosen."""
ROWS = 25
"""Operations in the table."""


def profile(
    execution: Execution,
    learner: Learner,
    data: LocalData,
    number: int,
    path: str | PathLike[str],
    transport: Transport,
) -> str:
    """Profile epochs of a prepared run; weights and optimiser stay as they are. Collective.

    The rank that waits least for others is profiled. The phases of an epoch, such as "wait" and
    "spmm", stand around the operations of torch; kernels of plancc are in the phases' own times.

    Parameters:
        execution: Prepared.
        data: What `Execution.prepare` returned.
        number: Number of the first epoch, from which samples are drawn.
        path: The timeline, for Perfetto and chrome://tracing.

    Returns:
        The table of `torch.profiler`, and a line that says whose it is; the same on all ranks.

    Raises:
        OutputError: On all ranks, if the file cannot be written.
    """
    activities = [ProfilerActivity.CPU]
    if next(learner.network.parameters()).device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    state, clock = learner.state(), learner.clock
    with execution.epochs():
        before = learner.start()
        execution.epoch(learner, data, number, False, _no_rate)
        seconds = learner.measure(before).seconds
        own = seconds["total"] - seconds["wait"] - seconds["allreduce"]
        chosen = int(np.argmax(transport.gather(own)))
        is_chosen, unmarked = transport.rank == chosen, clock.mark
        with recorded(activities=activities) if is_chosen else nullcontext() as recorder:
            clock.mark = record_function if is_chosen else unmarked
            try:
                for k in range(EPOCHS):
                    execution.epoch(learner, data, number + 1 + k, False, _no_rate)
            finally:
                clock.mark = unmarked
    learner.restore(state)
    table = timeline = ""
    with transport.agreement():
        if recorder is not None:
            table = recorder.key_averages().table(sort_by="self_cpu_time_total", row_limit=ROWS)
            with scratch_folder() as folder:
                recorder.export_chrome_trace(str(folder / "timeline.json"))
                timeline = (folder / "timeline.json").read_text(encoding="utf-8")
    table, timeline = transport.gather((table, timeline))[chosen]
    with transport.agreement():
        if transport.rank == 0:
            with atomic_write(path) as temporary:
                temporary.write_text(timeline, encoding="utf-8")
    return f"{EPOCHS} epochs of rank {chosen}, which waits least for others\n{table}"


def _no_rate(scores: Any) -> float:
    """A learning rate that leaves the weights as they are."""
    return 0.0
