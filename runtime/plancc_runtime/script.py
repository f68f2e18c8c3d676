"""`plancc.train`: training that is called in a script or a notebook, with results as arrays."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, PlanccWarning
from plancc.fields import taking
from plancc.files import StrPath, scratch_folder
from plancc.plan.plan import Plan
from plancc.plan.rank_parts import check_num_ranks
from plancc.plan.reader import PlanFile
from plancc.registry import nearest
from plancc.text import shown
from plancc_runtime.gathering import RowsOfRank, gather_rows
from plancc_runtime.launch import TIMEOUT, check_no_launcher, need_torch, open_transport
from plancc_runtime.metrics import METRICS, Metric
from plancc_runtime.options import OPTION_NAMES, TrainOptions, refuse_twice
from plancc_runtime.results import Measure, TrainResult, scores_of
from plancc_runtime.slices import read_ids
from plancc_runtime.train import prepared
from plancc_runtime.transport.base import Transport

SPLITS = ("train", "val", "test")
ELSEWHERE = {"save": "trained.save(path)", "json": "trained.result.to_dict()"}
"""Options of `plancc-run` that `plancc.train` lacks; for each the expression that replaces it."""


@dataclass(frozen=True, eq=False, repr=False)
class Trained:
    """The result of training from a plan.

    Attributes:
        history (dict of str to float64[epochs]): One array for each figure: "epoch", "loss",
            "val_loss", "seconds", "words", "messages"; the score of each split: "train", "val",
            "test"; and other metrics such as "test_r2" or "val_mrr". The score is the accuracy; for
            link prediction it is ROC-AUC, and for targets that are real numbers RMSE. In epochs
            that were not evaluated (`eval_every`), metrics are NaN. The exception is "train" with
            mini-batches: it is then the accuracy over all mini-batches of the epoch, computed in
            every step before the update.
        loss: Training loss of the final weights.
        scores: Scores of the final weights, by metric and split: "accuracy", "f1_micro", ...; for
            link prediction "auc", "ap", "mrr", "hits_10", ...; for real numbers "rmse", "mae",
            "r2".
        accuracy: ``scores["accuracy"]``; empty for link prediction and for real numbers.
        weights (dict of str to array): Every parameter and buffer of the network, by its name.
        predictions (int32[n], uint8[n, classes], float32[n], float32[n, targets] or None): For
            every vertex, in the source's order: its predicted class (int32), whether it is in each
            class (uint8), or its predicted numbers (float32). None if the plan has no labels. Only
            rank 0 has predictions, probabilities and ids; they are None on other ranks. If the plan
            has vertex types, these three arrays have only the vertices of the predicted type.
        probabilities: float32[n, classes]; None if the targets are real numbers, or if the plan has
            no labels.
        ids (int64[n], bytes[n] or None): The source's ids of the vertices.
        result: All figures of the run.
    """

    history: dict[str, npt.NDArray[np.float64]]
    loss: float
    scores: dict[str, dict[str, float]]
    weights: dict[str, np.ndarray]
    predictions: np.ndarray | None
    probabilities: np.ndarray | None
    ids: npt.NDArray[Any] | None
    result: TrainResult

    @property
    def accuracy(self) -> dict[str, float]:
        """Accuracy of the final weights, by split."""
        return self.scores.get("accuracy", {})

    def __repr__(self) -> str:
        """Return one line: the model, its training, and its scores."""
        run, metric = self.result, _metric(self.result)
        scores = [
            f"{split} {value:{metric.form}}"
            for split, value in getattr(run.final, metric.fields[-1]).items()
        ]
        return (
            f"Trained(model {run.options.model}, epochs {run.final.epoch}, ranks {run.num_ranks}, "
            f"loss {self.loss:.4f}, {metric.title} {', '.join(scores)})"
        )

    def save(self, path: StrPath) -> None:
        """Write the weights in the format of `plancc-run --save` (.npz)."""
        from plancc_runtime.weights import save_weights

        save_weights(path, self.weights, self.result.network)


@taking(TrainOptions)
def train(
    plan: Plan | StrPath,
    *,
    ranks: int | None = None,
    transport: Transport | str = "auto",
    timeout: float | None = TIMEOUT,
    report: Callable[[Measure], None] | None = None,
    **options: Any,
) -> Trained:
    """Train a network from a plan, as `plancc-run` does. Collective.

    Without a launcher, this process trains alone, whatever the number of parts. If `ranks` is
    given, that many threads of this process train as ranks. If mpirun, srun or torchrun starts the
    script, all its ranks train. A plan of a process grid needs as many ranks as the grid. The
    options are the fields of `TrainOptions`.

        plan = plancc.compile("data.pt", num_parts=4)
        trained = plancc.train(plan, model="sage", epochs=50)
        trained.accuracy["test"], trained.predictions
        plancc.train(plan, model=Net, model_options={"hidden": 64})  # a class of your own

    Parameters:
        plan: A plan, or the path of its file. If a launcher started several ranks, it must be the
            path.
        ranks: Number of ranks that run as threads of this process; rank 0's result is returned. By
            default there are no such threads.
        transport: How ranks exchange messages; takes the values of ``plancc-run --transport``.
        timeout: Longest time that a rank waits for other ranks, in seconds; None for no limit.
        report: Function that is called with an epoch's measure, on every rank after every epoch;
            if `ranks` is given, only on rank 0.
        **options

    Raises:
        InputError: If an option is unknown or its value is out of range, if several ranks get a
            plan in memory, or if predictions are wanted and the plan has no labels.
        PlanError, OutputError, BackendUnavailable: On all ranks, even if only one rank failed.

    Warns:
        PlanccWarning: On rank 0: the warnings of `plancc-run`, for instance of random labels or
            features.
    """
    if not isinstance(plan, Plan | str | PathLike):
        raise InputError(
            f"an object of type {type(plan).__name__} is not a plan or the path of a plan; "
            "compile the data first: plancc.train(plancc.compile(data, num_parts=4), ...)"
        )
    for name in options:
        if name not in OPTION_NAMES:
            raise InputError(_unknown(name))
    if not isinstance(options.get("model", ""), str):
        from plancc_runtime.nn.own_class import name_of

        options["model"] = name_of(options["model"])
    chosen = TrainOptions(**options)
    refuse_twice(options)  # an option with its default as value counts too
    caller = sys._getframe(1)

    def warn(sentence: str) -> None:
        where = caller.f_code.co_filename, caller.f_lineno
        warnings.warn_explicit(sentence, PlanccWarning, *where)

    if ranks is None:
        if isinstance(transport, str):
            transport = open_transport(transport, timeout)
        if isinstance(plan, Plan) and transport.size > 1:
            raise InputError(
                f"{transport.size} ranks need a plan file; give the path to which plan.save wrote "
                "the plan"
            )
        with _file_of(plan) as path:
            return _train(path, chosen, transport, report, warn)
    if ranks < 1:
        raise InputError(f"`ranks` {ranks}: at least 1 is needed")
    check_no_launcher(ranks, transport)
    need_torch("training")
    from plancc_runtime.transport.local import run_ranks

    with _file_of(plan) as path:
        with PlanFile(path) as file:
            check_num_ranks(file.path, file.header, ranks)

        def work(thread: Transport) -> Trained:
            return _train(path, chosen, thread, None if thread.rank else report, warn)

        return run_ranks(ranks, work, timeout)[0]


def _train(
    path: StrPath,
    chosen: TrainOptions,
    transport: Transport,
    report: Callable[[Measure], None] | None,
    warn: Callable[[str], None],
) -> Trained:
    """Train from the plan file `path`, as `train` does; rank 0 calls `warn`. Collective."""
    run = prepared(path, chosen, transport)
    told = run.outline().remarks
    for sentence in told if transport.rank == 0 else ():
        warn(sentence)
    run.loop(report)
    result = run.finish()
    for sentence in result.remarks[len(told) :] if transport.rank == 0 else ():
        warn(sentence)
    with transport.agreement():
        ids = read_ids(path, run.content, transport)
    arrays = {} if result.random_labels else run.outputs.predictions()
    if chosen.predict is not None:
        run.outputs.save(chosen.predict, chosen.embeddings, ids)
    rows, ids = run.outputs.learnt(ids)
    n = rows.num_vertices
    found = {k: gather_rows(rows, each, transport, False) for k, each in arrays.items()}
    original = np.arange(n) if transport.rank == 0 else None
    if ids is not None:
        of_rank = RowsOfRank(ids.vertex, n)
        original = gather_rows(of_rank, ids.original, transport, False)
    return Trained(
        history=_history(result),
        loss=result.final.loss,
        scores=scores_of(result.final),
        weights=result.weights,
        predictions=next(iter(found.values()), None),
        probabilities=found.get("probability"),
        ids=original,
        result=result,
    )


def _unknown(name: str) -> str:
    """Return the error message for the unknown option `name`; it suggests a similar option."""
    said = f"unknown option of training '{shown(name)}'"
    if name in ELSEWHERE:
        return f"{said}; call {ELSEWHERE[name]} on what plancc.train returns"
    near = nearest(shown(name), [*OPTION_NAMES, "ranks", "transport", "timeout", "report"])
    return f"{said}{f' (did you mean {near}?)' if near else ''}: help(plancc.train) says which"


@contextmanager
def _file_of(plan: Plan | StrPath) -> Iterator[StrPath]:
    """Yield the path of a plan's file. A plan in memory is saved to a temporary file."""
    if not isinstance(plan, Plan):
        yield plan
        return
    with scratch_folder() as folder:
        path = os.path.join(folder, "plan.h5")
        plan.save(path)
        yield path


def _metric(result: TrainResult) -> Metric:
    """Return the metric of the columns "train", "val" and "test" of `Trained.history`."""
    from plancc_runtime.targets import TARGETS

    return METRICS[TARGETS[result.target].metrics[0]]


def _history(result: TrainResult) -> dict[str, npt.NDArray[np.float64]]:
    """Return `Trained.history`: one array per figure, with a value for each epoch of the run."""
    epochs, score = result.epochs, _metric(result).fields[-1]

    def column(values: list[float | None]) -> npt.NDArray[np.float64]:
        return np.array([np.nan if value is None else value for value in values], np.float64)

    return {
        "epoch": column([each.epoch for each in epochs]),
        "loss": column([each.loss for each in epochs]),
        "val_loss": column([each.val_loss for each in epochs]),
        **{split: column([getattr(each, score).get(split) for each in epochs]) for split in SPLITS},
        **{
            f"{split}_{name}": column([getattr(each, name).get(split) for each in epochs])
            for name, by_split in scores_of(result.final).items()
            for split in by_split
            if name != score
        },
        "seconds": column([each.seconds_max["total"] for each in epochs]),
        "words": column([each.words_sent for each in epochs]),
        "messages": column([each.messages_sent for each in epochs]),
    }
