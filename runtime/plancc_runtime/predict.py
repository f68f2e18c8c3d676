"""Predictions of a saved network for the vertices of a plan, without training.

`predict` is collective: all ranks call it with the same arguments.
"""

from __future__ import annotations

from dataclasses import replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.plan.parts import Part
from plancc.plan.values import Header
from plancc_runtime.launch import need_torch
from plancc_runtime.options import MODEL_OPTIONS, TrainOptions
from plancc_runtime.remarks import WITH_LABELS
from plancc_runtime.slices import open_plan, read_ids
from plancc_runtime.train import run_of
from plancc_runtime.transport.base import Transport

if TYPE_CHECKING:
    from plancc_runtime.saved import Description


def predict(
    plan: str | PathLike[str],
    weights: str | PathLike[str],
    path: str | PathLike[str],
    transport: Transport,
    embeddings: int | None = None,
    **execution: Any,
) -> tuple[Header, list[int]]:
    """Write what saved weights say of every vertex of a plan. Collective.

    Parameters
    ----------
    plan : path
        With features as wide as in training; of any layout.
    weights : path
        A file that says which network it holds (`plancc_runtime.saved`).
    path : path
        As of `TrainOptions.predict`.
    transport : Transport
    embeddings : int, optional
        As of `TrainOptions`.
    execution
        Other fields of `TrainOptions` that change no result: threads, device, dtype, kernel.

    Returns
    -------
    Header
        The plan's.
    list of int
        How many vertices are predicted to be of every class; empty of numbers.

    Raises
    ------
    InputError, PlanError, OutputError, BackendUnavailable
        On all ranks; no file is half-written.
    """
    with transport.agreement():
        need_torch("a network")
    from plancc_runtime.saved import Description
    from plancc_runtime.targets import TARGETS

    opened = open_plan(plan, transport)
    with transport.agreement():
        description = Description.read(weights)
        if description.random_labels:
            raise InputError(
                f"{fspath(weights)}: these weights were trained on random labels, which predict "
                f"nothing; {WITH_LABELS}, and train again"
            )
        settings = {"init": weights, "predict": path, "embeddings": embeddings, **execution}
        options = options_of(description, fspath(weights), settings)
        _check_widths(fspath(plan), opened.rows, description.dims)
    _check_targets(fspath(plan), opened.rows, description, transport)
    data = opened.rows.vertex_data
    known = np.zeros(opened.rows.num_rows, np.int32)  # nothing is learnt from labels here
    rows = replace(opened.rows, vertex_data=type(data)(features=data.features, labels=known))
    run = run_of(replace(opened, rows=rows), options, transport)
    with transport.agreement():
        ids = read_ids(plan, opened.content, transport)
        assert options.predict is not None
    beside = _known(opened.rows, run.rows.vertices)
    kind = TARGETS[description.target]
    return opened.header, run.predict(options.predict, embeddings, ids, kind, beside)


def _known(part: Part, vertices: npt.NDArray[np.integer]) -> dict[str, np.ndarray]:
    """Labels and splits of these vertices, which are all of the part's, in another order."""
    import torch

    from plancc_runtime.data import SPLITS
    from plancc_runtime.predictions import known_of
    from plancc_runtime.targets import kind_of

    data, order = part.vertex_data, np.argsort(part.global_id)
    order = order[np.searchsorted(part.global_id, vertices, sorter=order)]
    classes = data.labels if data.targets is None else data.targets
    if classes is None:
        return {}
    labels = torch.from_numpy(classes[order])
    there = torch.from_numpy(kind_of(labels).known(classes[order]))
    splits = {SPLITS[0]: torch.nonzero(there)[:, 0]}  # without masks all train
    for split in SPLITS:
        mask = getattr(data, f"{split}_mask")
        if mask is not None:
            splits[split] = torch.nonzero(torch.from_numpy(mask[order]) & there)[:, 0]
    return known_of(labels, splits)


def options_of(description: Description, name: str, settings: dict[str, Any]) -> TrainOptions:
    """Options of a run whose network is the described one; `name` is the file's.

    Raises
    ------
    InputError
        If no options make such a network.
    """
    dims, network = description.dims, description.options
    hidden = set(dims[1:-1])
    if len(hidden) > 1:
        widths = " x ".join(map(str, dims))
        raise InputError(
            f"{name}: a network of {widths}; its hidden layers must have one width here "
            "(plancc_runtime.load_network takes any)"
        )
    return TrainOptions(
        model=network.model,
        epochs=0,
        layers=len(dims) - 1,
        hidden=min(hidden, default=TrainOptions.hidden),
        activation=network.activation,
        norm=network.norm,
        residual=network.residual,
        normalize_features=description.normalize_features,
        standardize_features=network.standardize_features,
        classes=dims[-1],
        passes=("order", "overlap"),
        model_options=network.conv,
        **{name: network.conv[name] for name in MODEL_OPTIONS if name in network.conv},
        **settings,
    )


def _check_widths(name: str, part: Part, dims: tuple[int, ...]) -> None:
    """Raise InputError if the plan's features do not fit the network."""
    features = part.vertex_data.features
    if features is None:
        raise InputError(
            f"{name}: the plan has no features, and the network takes {dims[0]} of every vertex; "
            "compile it with vertex data"
        )
    if features.shape[1] != dims[0]:
        raise InputError(
            f"{name}: the plan has features of width {features.shape[1]}, and the network takes "
            f"{dims[0]}"
        )


def _check_targets(name: str, part: Part, description: Description, transport: Transport) -> None:
    """Raise InputError if the plan's labels do not fit the network. Collective."""
    from plancc_runtime.targets import Numbers, kind_of

    classes = description.dims[-1]
    data, found = part.vertex_data, np.zeros(1, np.int64)
    if data.targets is not None:
        found[0] = data.targets.shape[1]
    elif data.labels is not None:
        found[0] = data.labels.max(initial=-1) + 1
    transport.allreduce_max(found)
    real = data.targets is not None and kind_of(data.targets) is Numbers
    with transport.agreement():
        if found[0] and real != (description.target == Numbers.name):
            words = ("classes", "real numbers")
            raise InputError(
                f"{name}: the plan has {words[real]}, and the network predicts {words[not real]}"
            )
        if found[0] > classes or (data.targets is not None and found[0] != classes):
            raise InputError(
                f"{name}: the plan has labels of {found[0]} classes, and the network has {classes}"
            )
