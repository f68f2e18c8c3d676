"""Write predictions to a file: classes and probabilities, real numbers, and embeddings."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from plancc.errors import PlanccError
from plancc.files import StrPath
from plancc.plan.parts import Part
from plancc_runtime.data import SPLITS
from plancc_runtime.gathering import Ids, RowsOfRank, named_arrays, save_rows
from plancc_runtime.targets import Target, kind_of
from plancc_runtime.transport.base import Transport


def check_finite(outputs: Tensor) -> None:
    """Raise PlanccError if an output is not finite."""
    if not bool(outputs.isfinite().all()):
        raise PlanccError("the network's outputs are not finite, so no predictions are written")


def known_of(labels: Tensor | None, splits: Mapping[str, Tensor]) -> dict[str, np.ndarray]:
    """Return columns of known labels and splits, by name, for a file of predictions.

    The column "split" has the name of each row's split, or "". Without labels, the dict is empty.
    """
    if labels is None:
        return {}
    split = np.full(len(labels), "", "U5")
    for name, rows in splits.items():
        split[rows.cpu().numpy()] = name
    return {**kind_of(labels).known_column(labels), "split": split}


def known_in(part: Part, vertices: npt.NDArray[np.integer]) -> dict[str, np.ndarray]:
    """Return the known labels and splits of these vertices, in the form that `known_of` returns."""
    data, order = part.vertex_data, np.argsort(part.global_id)
    order = order[np.searchsorted(part.global_id, vertices, sorter=order)]
    classes = data.labels if data.targets is None else data.targets
    if classes is None:
        return {}
    labels = torch.from_numpy(classes[order])
    there = torch.from_numpy(kind_of(labels).known(classes[order]))
    splits = {SPLITS[0]: torch.nonzero(there)[:, 0]}  # without masks all vertices train
    for split in SPLITS:
        mask = getattr(data, f"{split}_mask")
        if mask is not None:
            splits[split] = torch.nonzero(torch.from_numpy(mask[order]) & there)[:, 0]
    return known_of(labels, splits)


def save_predictions(
    path: StrPath,
    rows: RowsOfRank,
    outputs: Tensor,
    embedding: Tensor | None,
    kind: type[Target],
    ids: Ids | None,
    transport: Transport,
    known: Mapping[str, np.ndarray],
) -> list[int]:
    """Write a network's predictions; return how many vertices have each class. Collective.

    The list is empty if the network predicts real numbers. `outputs` is Tensor[num_rows, classes],
    `embedding` Tensor[num_rows, width]; for `known` see `known_of`.
    """
    tensors = kind.predictions(outputs)
    first = next(iter(tensors))
    of_class = kind.class_counts(tensors[first], outputs.shape[1])
    with transport.agreement():
        check_finite(outputs)
        if embedding is not None:
            tensors["embedding"] = embedding
        arrays = named_arrays(tensors, len(rows.vertices))
        arrays = {first: arrays.pop(first), **known, **arrays}
    save_rows(path, rows, arrays, ids, transport)
    if of_class is None:
        return []
    counts: np.ndarray = of_class.cpu().numpy() * rows.contributes
    transport.allreduce_sum(counts)
    found: list[int] = counts.tolist()
    return found
