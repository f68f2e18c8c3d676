"""What a network says of every vertex: class, probabilities, embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

import numpy as np
from torch import Tensor

from plancc.errors import PlanccError
from plancc_runtime.gathering import Ids, RowsOfRank, as_arrays, save_rows
from plancc_runtime.rowfiles import RowTarget
from plancc_runtime.saved import probabilities
from plancc_runtime.transport.base import Transport


def predicted(outputs: Tensor, multi_label: bool) -> Tensor:
    """Classes, int32[n], or where a vertex may be of several which ones, uint8[n, classes].

    A class of several is predicted where its probability is above 0.5.
    """
    if multi_label:
        return (outputs > 0).byte()
    return outputs.argmax(dim=1).int()


def check_finite(outputs: Tensor) -> None:
    """PlanccError if an output is not finite."""
    if not bool(outputs.isfinite().all()):
        raise PlanccError("the network's outputs are not finite: nothing is predicted")


def known_of(labels: Tensor | None, splits: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """What is known of every row: "label", int32[n] with -1 for unknown, and "split", as text.

    Without labels, or with several of a vertex, there is no label; "" is no split.

    Parameters
    ----------
    labels : int[n] or bool[n, classes], or None
    splits : dict of str to int64[m]
        Rows of each split.
    """
    if labels is None:
        return {}
    split = np.full(len(labels), "", "U5")
    for name, rows in splits.items():
        split[rows.cpu().numpy()] = name
    single = {"label": labels.cpu().numpy().astype(np.int32)} if labels.ndim == 1 else {}
    return {**single, "split": split}


def save_predictions(
    path: str | PathLike[str],
    rows: RowsOfRank,
    outputs: Tensor,
    embedding: Tensor | None,
    multi_label: bool,
    ids: Ids | None,
    transport: Transport,
    known: Mapping[str, np.ndarray],
) -> list[int]:
    """Write what the network says of all vertices, and count it. Collective.

    Arrays "class" (`predicted`), those that are `known` beside it, "probability" [n, classes] and,
    where it is given, "embedding" [n, width]; in an ``.npy`` the probabilities alone.

    Parameters
    ----------
    path : path
        As of `gathering.save_rows`.
    rows : RowsOfRank
    outputs : Tensor[num_rows, classes]
        Before softmax or sigmoid.
    embedding : Tensor[num_rows, width] or None
    multi_label : bool
    ids : Ids or None
    transport : Transport
    known : dict of str to array
        As of `known_of`.

    Returns
    -------
    list of int
        How many vertices are predicted to be of every class.

    Raises
    ------
    PlanccError
        On all ranks: as of `save_rows`, or if an output is not finite.
    """
    classes = predicted(outputs, multi_label)
    with transport.agreement():
        check_finite(outputs)
        tensors = {"class": classes, "probability": probabilities(outputs, multi_label)}
        if embedding is not None:
            tensors["embedding"] = embedding
        arrays = as_arrays(tensors, len(rows.vertices))
        arrays = {"class": arrays.pop("class"), **known, **arrays}
        if not RowTarget.parse(path).has_ids:
            arrays = {"probability": arrays["probability"]}
    save_rows(path, rows, arrays, ids, transport)
    counts = np.zeros(outputs.shape[1], np.int64)
    if rows.part is not None and multi_label:
        counts += classes.sum(dim=0).cpu().numpy()
    elif rows.part is not None:
        counts += np.bincount(classes.cpu().numpy(), minlength=len(counts))
    transport.allreduce_sum(counts)
    found: list[int] = counts.tolist()
    return found
