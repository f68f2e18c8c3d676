"""What a network says of every vertex: class, probabilities, embeddings.

Knows outputs and rows; must not know layers, views or options.
"""

from __future__ import annotations

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


def save_predictions(
    path: str | PathLike[str],
    rows: RowsOfRank,
    outputs: Tensor,
    embedding: Tensor | None,
    multi_label: bool,
    ids: Ids | None,
    transport: Transport,
) -> list[int]:
    """Write what the network says of all vertices, and count it. Collective.

    Arrays "class" (`predicted`), "probability" [n, classes] and, where it is given, "embedding"
    [n, width]; in an ``.npy`` the probabilities alone.

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
        if not bool(outputs.isfinite().all()):
            raise PlanccError("the network's outputs are not finite: nothing is predicted")
        tensors = {"class": classes, "probability": probabilities(outputs, multi_label)}
        if embedding is not None:
            tensors["embedding"] = embedding
        if not RowTarget.parse(path).has_ids:
            tensors = {"probability": tensors["probability"]}
        arrays = as_arrays(tensors, len(rows.vertices))
    save_rows(path, rows, arrays, ids, transport)
    counts = np.zeros(outputs.shape[1], np.int64)
    if rows.part is not None and multi_label:
        counts += classes.sum(dim=0).cpu().numpy()
    elif rows.part is not None:
        counts += np.bincount(classes.cpu().numpy(), minlength=len(counts))
    transport.allreduce_sum(counts)
    found: list[int] = counts.tolist()
    return found
