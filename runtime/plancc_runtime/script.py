"""`plancc.train`: training from a script or a notebook, with its results as arrays."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, PlanccWarning
from plancc.files import scratch_folder
from plancc.plan.plan import Plan
from plancc.registry import check_choice
from plancc_runtime.gathering import Source, blocks, gather_rows
from plancc_runtime.launch import TIMEOUT, open_transport
from plancc_runtime.options import TrainOptions
from plancc_runtime.results import Epoch, Measure, TrainResult
from plancc_runtime.slices import read_ids
from plancc_runtime.train import prepared
from plancc_runtime.transport.base import Transport

SPLITS = ("train", "val", "test")


@dataclass(frozen=True, eq=False)
class Trained:
    """What training from a plan gives.

    Attributes
    ----------
    history : dict of str to float64[epochs]
        A column for each figure: "epoch", "loss", "val_loss", "train", "val", "test" (accuracies),
        "seconds", "words", "messages"; NaN where an epoch was not evaluated.
    loss : float
        Training loss of the final weights.
    accuracy : dict of str to float
        Of the final weights, by split.
    weights : dict of str to array
        Every parameter of the network, by its name.
    predictions : int32[n], uint8[n, classes] or None
        Class of every vertex, in the source's order; where a vertex may be of several classes,
        which ones. On rank 0; None on the others, as `probabilities` and `ids`. Of a plan without
        labels there are neither predictions nor probabilities.
    probabilities : float32[n, classes] or None
    ids : int64[n] or None
        The source's ids of the vertices.
    result : TrainResult
        All figures of the run.
    """

    history: dict[str, npt.NDArray[np.float64]]
    loss: float
    accuracy: dict[str, float]
    weights: dict[str, np.ndarray]
    predictions: np.ndarray | None
    probabilities: np.ndarray | None
    ids: npt.NDArray[np.int64] | None
    result: TrainResult

    def save(self, path: str | PathLike[str]) -> None:
        """Write the weights as `plancc-run --save` does (.npz)."""
        from plancc_runtime.weights import save_weights

        save_weights(path, self.weights, self.result.network)


def train(
    plan: Plan | str | PathLike[str],
    *,
    transport: Transport | str = "auto",
    timeout: float | None = TIMEOUT,
    report: Callable[[Measure], None] | None = None,
    **options: Any,
) -> Trained:
    """Train a network from a plan, as `plancc-run` does. Collective.

    One process trains alone, whatever the number of parts (a plan of a process grid needs as many
    ranks as it has); a script that mpirun, srun or torchrun starts trains on all its ranks.

        plan = plancc.compile("data.pt", num_parts=4)
        trained = plancc.train(plan, model="sage", epochs=50)
        trained.accuracy["test"], trained.predictions

    Parameters
    ----------
    plan : Plan or path
        Several ranks need the path of a file.
    transport : Transport or str
        A name as of ``plancc-run --transport``.
    timeout : float, optional
        Seconds that a rank waits for others; None: no limit.
    report : callable, optional
        Called on every rank after every epoch with its measure.
    **options
        Those of `plancc-run` by their names with underscores (`TrainOptions`): model, hidden,
        epochs, lr, sampler, batch_size, fanouts, split, checkpoint, ...

    Raises
    ------
    InputError
        An unknown option, or a value out of range; a plan in memory on several ranks; predictions
        from a plan without labels.
    PlanError, OutputError, BackendUnavailable
        On all ranks, also if only one of them failed.

    Warns
    -----
    PlanccWarning
        On rank 0, of what `plancc-run` warns of: random labels or features, for instance.
    """
    names = [field.name for field in fields(TrainOptions)]
    for name in options:
        check_choice("option of training", name, names)
    chosen = TrainOptions(**options)
    if isinstance(transport, str):
        transport = open_transport(transport, timeout)
    if isinstance(plan, Plan) and transport.size > 1:
        raise InputError(
            f"{transport.size} ranks need a plan file: give the path to which plan.save wrote it"
        )
    with _file_of(plan) as path:
        run = prepared(path, chosen, transport)
        outline = run.outline()
        _warn(outline.remarks, transport)
        run.loop(report)
        result = run.finish()
        _warn(result.remarks[len(outline.remarks) :], transport)
        with transport.agreement():
            ids = read_ids(path, run.content, transport)
        arrays = () if result.random_labels else run.outputs(result.multi_label)
        n = result.header.num_vertices
        shares = None if ids is None else (ids.vertex, ids.original)
        if chosen.predict is not None:
            run.predict(chosen.predict, chosen.embeddings, ids, result.multi_label)
        found = [gather_rows(run.rows, each, transport, False) for each in arrays] or [None, None]
        original = _gathered_ids(shares, n, transport)
    return Trained(
        history=_history(result.epochs),
        loss=result.final.loss,
        accuracy=result.final.accuracy,
        weights=result.weights,
        predictions=found[0],
        probabilities=found[1],
        ids=original,
        result=result,
    )


def _warn(sentences: Sequence[str], transport: Transport) -> None:
    """Warn the caller of `train`, once for all ranks."""
    for sentence in sentences if transport.rank == 0 else ():
        warnings.warn(sentence, PlanccWarning, stacklevel=3)


@contextmanager
def _file_of(plan: Plan | str | PathLike[str]) -> Iterator[str | PathLike[str]]:
    """The file of a plan; of one in memory a temporary file."""
    if not isinstance(plan, Plan):
        yield plan
        return
    with scratch_folder() as folder:
        path = os.path.join(folder, "plan.h5")
        plan.save(path)
        yield path


def _gathered_ids(
    shares: tuple[npt.NDArray[np.integer], npt.NDArray[np.int64]] | None,
    n: int,
    transport: Transport,
) -> npt.NDArray[np.int64] | None:
    """Ids of all vertices, on rank 0. Collective."""
    if shares is None:
        return np.arange(n) if transport.rank == 0 else None
    found = np.empty(n, np.int64) if transport.rank == 0 else None
    for start, stop, block in blocks([Source(shares[0], {"id": shares[1]})], n, transport):
        if found is not None and block is not None:
            found[start:stop] = block["id"]
    return found


def _history(epochs: list[Epoch]) -> dict[str, npt.NDArray[np.float64]]:
    """Columns of the epochs' figures."""

    def column(values: list[float | None]) -> npt.NDArray[np.float64]:
        return np.array([np.nan if value is None else value for value in values], np.float64)

    return {
        "epoch": column([each.epoch for each in epochs]),
        "loss": column([each.loss for each in epochs]),
        "val_loss": column([each.val_loss for each in epochs]),
        **{split: column([each.accuracy.get(split) for each in epochs]) for split in SPLITS},
        "seconds": column([each.seconds_max["total"] for each in epochs]),
        "words": column([each.words_sent for each in epochs]),
        "messages": column([each.messages_sent for each in epochs]),
    }
