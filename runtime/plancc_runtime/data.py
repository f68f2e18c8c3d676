"""Features, labels and masks of a rank's vertices: read from the plan, or random.

Random data depend only on seed, vertex and column, not on the number of ranks or the partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from plancc.errors import InputError
from plancc.graph.mapped import MappedRows
from plancc.plan.format import too_many_classes
from plancc.plan.parts import Part
from plancc.sampling.counter import mix
from plancc.sampling.splits import random_split
from plancc.text import shown
from plancc_runtime.metrics import BALANCED
from plancc_runtime.options import TrainOptions
from plancc_runtime.targets import Numbers, Target, kind_of
from plancc_runtime.transport.base import Transport

if TYPE_CHECKING:
    from plancc_runtime.layouts.batch_seeds import Seeds

CPU = torch.device("cpu")
DEFAULT_FEATURES = 64
DEFAULT_CLASSES = 8
SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class LocalData:
    """Training data of one rank, in local row order.

    Attributes:
        features (Tensor[num_rows, num_features]): Features; only this rank's columns if a process
            grid splits columns. With `features_on_disk`, a mapped file with its own dtype.
        num_features: Number of feature columns over all ranks that share these rows.
        first_column: Index of this rank's first feature column among all feature columns.
        labels (int64[num_rows], bool or float[num_rows, num_classes]): Labels or targets of all
            rows.
        num_classes: Number of classes, or of real numbers to predict per vertex.
        splits (dict of str to int64[m]): Local labelled rows of every split; "train" always exists.
        split_sizes: For every split, the number of its labelled vertices on all ranks.
        totals: Divisor of every split's mean loss: the sum of the weights of its vertices on all
            ranks, or 1 if the split is empty.
        replaced_masks: Splits whose masks in the plan were replaced by random masks.
        row_type (int64[num_rows] or None): Vertex type of every row, if the plan has types.
        seeds: Seed vertices of a mini-batch, if the task draws them.
    """

    features: Tensor
    num_features: int
    first_column: int
    labels: Tensor
    num_classes: int
    splits: dict[str, Tensor]
    split_sizes: dict[str, int]
    target: Target
    totals: Mapping[str, float]
    random_features: bool
    random_labels: bool = False
    replaced_masks: list[str] = field(default_factory=list)
    row_type: Tensor | None = None
    seeds: Seeds | None = None

    @property
    def where(self) -> Any:
        """Argument `where` of `Network.standardized`: `row_type` or, if None, `first_column`."""
        return self.first_column if self.row_type is None else self.row_type

    @cached_property
    def _training(self) -> npt.NDArray[np.bool_]:
        """bool[num_rows]: whether each row belongs to a training vertex."""
        training = np.zeros(len(self.labels), dtype=np.bool_)
        training[self.splits["train"].cpu().numpy()] = True
        return training

    def batch_data(
        self,
        rows: npt.NDArray[np.int64],
        targets: npt.NDArray[np.bool_],
        transport: Transport,
        size: int | None = None,
        seeds: Seeds | None = None,
    ) -> LocalData:
        """Return the data of a mini-batch, with features of all own rows. Collective.

        The only split is "train": training vertices among the local `rows` that `targets`, bool[m],
        marks. `size` is their number on all ranks; if it is None, the ranks count them. If `seeds`
        are given, ``seeds.size`` is used instead.
        """
        chosen, device = np.flatnonzero(targets), self.labels.device
        labels = self.labels.index_select(0, torch.from_numpy(rows).to(device))
        where = torch.from_numpy(chosen[self._training[rows[chosen]]]).to(device)
        if seeds is not None:
            size = seeds.size
        elif size is None:
            found = np.array([len(where)], np.int64)
            transport.allreduce_sum(found)
            size = int(found[0])
        totals: Mapping[str, float] = {"train": max(size if seeds is None else seeds.total, 1)}
        if self.target.weights is not None:
            totals = _totals(self.target, labels, {"train": where}, transport)
        return replace(
            self,
            labels=labels,
            splits={"train": where},
            split_sizes={"train": size},
            totals=totals,
            seeds=seeds,
        )


def load_data(
    part: Part,
    transport: Transport,
    dtype: torch.dtype,
    options: TrainOptions,
    device: torch.device = CPU,
    plan: str = "the plan",
    learnt: slice | None = None,
) -> LocalData:
    """Return the vertex data of this rank's rows. Collective.

    Without a train mask, all labelled vertices train. Masks drawn by `split` replace the plan's.
    Training may use only vertices with numbers in the range `learnt` (None: all vertices). Raise
    InputError if an option contradicts the plan's data, or no training vertex has a label.
    """
    data, split = part.vertex_data, options.split
    labels, classes, num_vertices = _labels(part, options, transport)
    kind, width = kind_of(labels), width_of(part, options)
    known = kind.known(labels)
    if learnt is not None:
        known &= (part.global_id >= learnt.start) & (part.global_id < learnt.stop)
    masks = {s: getattr(data, f"{s}_mask") for s in SPLITS}
    given = [s for s, mask in masks.items() if mask is not None]
    if split is not None:
        masks = dict(zip(SPLITS, random_split(part.global_id, split, options.seed), strict=True))
    elif data.train_mask is None:
        masks["train"] = known
    rows = {s: np.flatnonzero(m & known) for s, m in masks.items() if m is not None}
    sizes = np.array([len(rows.get(s, ())) for s in SPLITS], np.int64)
    transport.allreduce_sum(sizes)
    with transport.agreement():  # every rank sees the same reason
        _check_data(part, options, width, classes, num_vertices, plan)
        if sizes[0] == 0:
            raise InputError(f"{plan}: {_no_training(split is not None, given)}")
        check_kind(options, kind, plan)

    there = torch.from_numpy(labels).to(device)
    splits = {s: torch.from_numpy(r).to(device) for s, r in rows.items()}
    split_sizes = {s: int(n) for s, n in zip(SPLITS, sizes, strict=True) if s in rows}
    target = kind(options.loss)
    totals: Mapping[str, float] = {s: max(n, 1) for s, n in split_sizes.items()}
    if kind is Numbers:
        target = replace(target, centre=_mean(there[splits["train"]], transport))
    if options.class_weights is not None:
        weights = _weights(options, there[splits["train"]], classes, kind, transport)
        target = replace(target, weights=weights.to(device, dtype))
        totals = _totals(target, there, splits, transport)
    random = data.targets is None and data.labels is None
    return LocalData(
        features=features_of(part, options, width, dtype).to(device),
        num_features=width,
        first_column=_own_columns(part, width).start,
        labels=there,
        num_classes=options.classes or (DEFAULT_CLASSES if random else classes),
        splits=splits,
        split_sizes=split_sizes,
        target=target,
        totals=totals,
        replaced_masks=given if split is not None else [],
        random_features=data.features is None,
        random_labels=random,
    )


def _labels(
    part: Part, options: TrainOptions, transport: Transport
) -> tuple[npt.NDArray[Any], int, int]:
    """Return the rank's labels or targets, or random classes, and two numbers. Collective.

    The two are the number of classes (or columns of targets), and the number of the graph's
    vertices (0 for targets).
    """
    data = part.vertex_data
    if data.targets is not None:
        return data.targets, data.targets.shape[1], 0
    labels = data.labels
    if labels is None:
        labels = random_labels(part.global_id, options.classes or DEFAULT_CLASSES, options.seed)
    classes, vertices = transport.largest(labels.max(initial=-1), part.global_id.max(initial=-1))
    return labels.astype(np.int64), classes + 1, vertices + 1


def _check_data(
    part: Part, options: TrainOptions, width: int, classes: int, num_vertices: int, plan: str
) -> None:
    """Raise InputError if an option contradicts the plan's data, or if labels are too large."""
    data, wanted = part.vertex_data, options.classes
    if options.features_on_disk and not isinstance(data.features, MappedRows):
        raise InputError(
            f"`features_on_disk`: {plan} is not a file with features; compile with features"
        )
    if data.features is not None and options.random_features not in (None, width):
        raise InputError(
            f"`random_features` {options.random_features}: the plan has features of width "
            f"{width}; leave the option out"
        )
    if data.targets is not None and wanted not in (None, classes):
        raise InputError(f"`classes` {wanted}: the plan has {classes} targets; drop `classes`")
    limited = wanted is None and data.targets is None
    if limited and (why := too_many_classes(classes, num_vertices)):
        raise InputError(
            f"{plan}: {why}; number the classes from 0, or give `classes` if the labels are right"
        )
    if wanted is not None and classes > wanted:
        raise InputError(
            f"`classes` {wanted}: the plan has labels up to {classes - 1}; give at least {classes} "
            "classes"
        )
    if options.split is not None and data.train_mask is not None and options.mini_batches:
        raise InputError(
            f"`split` {','.join(map(str, options.split))}: mini-batches are drawn from the "
            "plan's own train mask; leave the option out, or train without mini-batches"
        )


def width_of(part: Part, options: TrainOptions) -> int:
    """Return the number of columns of the plan's features, or of random features if it has none."""
    features = part.vertex_data.features
    return (options.random_features or DEFAULT_FEATURES) if features is None else features.shape[1]


def features_of(part: Part, options: TrainOptions, width: int, dtype: torch.dtype) -> Tensor:
    """Return this rank's columns of the features, or random features, on the CPU."""
    features, columns = part.vertex_data.features, _own_columns(part, width)
    if options.features_on_disk and isinstance(features, MappedRows) and features.order is None:
        return torch.from_numpy(np.asarray(_Exposed(features.source)))
    # normalising needs whole rows
    needed = slice(None) if options.normalize_features else columns
    if features is None:
        features = random_features(part.global_id, width, options.seed, needed)
    else:
        features = features[:, needed]
    dense = torch.from_numpy(np.ascontiguousarray(features)).to(dtype)
    if options.normalize_features:
        dense = functional.normalize(dense, p=1, dim=1)[:, columns].contiguous()
    return dense


class _Exposed:
    """A mapped array that claims to be writable, because torch warns of read-only arrays."""

    def __init__(self, array: npt.NDArray[Any]) -> None:
        address = array.__array_interface__["data"][0]
        self.__array_interface__ = array.__array_interface__ | {"data": (address, False)}
        self._array = array  # keeps the memory alive


def check_kind(options: TrainOptions, kind: type[Target], plan: str) -> None:
    """Raise InputError for options that do not suit this kind of targets."""
    asked = {
        "loss": (options.loss, kind.losses),
        "metric": (options.metric, ("loss", *kind.metrics)),
    }
    for name, (value, able) in asked.items():
        if value not in able:
            raise InputError(
                f"`{name}` {value}: {plan} has {kind.words}; `{name}` may be {', '.join(able)}"
            )
    if options.class_weights is not None and kind is Numbers:
        raise InputError(f"`class_weights`: {plan} has {kind.words}; leave the option out")


def _mean(numbers: Tensor, transport: Transport) -> Tensor:
    """Return the mean of the rows of all ranks: float64[columns]. Collective."""
    sums = np.append(numbers.double().sum(dim=0).cpu().numpy(), float(len(numbers)))
    transport.allreduce_sum(sums)
    return torch.from_numpy(sums[:-1] / max(sums[-1], 1)).to(numbers.device)


def _weights(
    options: TrainOptions, labels: Tensor, classes: int, kind: type[Target], transport: Transport
) -> Tensor:
    """Return the weight of each class's vertices in the loss, float64[num_classes]. Collective.

    A balanced weight is n / (k c) for a class with c of the n training vertices, where k is the
    number of classes with vertices (King and Zeng 2001). It is 1 for a class without vertices.
    """
    classes = options.classes or classes
    weights = torch.ones(classes, dtype=torch.float64)
    if options.class_weights == BALANCED:
        own = kind.class_counts(labels, classes)
        assert own is not None
        counts = np.append(own.cpu().numpy().astype(np.float64), float(len(labels)))
        transport.allreduce_sum(counts)
        found, size = torch.from_numpy(counts[:-1]), float(counts[-1])
        there = found > 0
        weights[there] = size / (there.sum() * found[there])
        return weights
    with transport.agreement():
        weights = torch.from_numpy(read_class_weights(options.class_weights or "", classes))
    return weights


def read_class_weights(path: str, classes: int) -> npt.NDArray[np.float64]:
    """Return the class weights in a text or .npy file, float64[classes]; InputError if invalid."""
    try:
        found = np.load(path) if path.endswith(".npy") else np.loadtxt(path, np.float64, ndmin=1)
        weights = np.asarray(found, np.float64)
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path}: is not a list of class weights: {shown(error)}") from error
    if weights.shape != (classes,):
        raise InputError(
            f"{path}: holds {weights.size} class weights of shape {weights.shape}, but there are "
            f"{classes} classes; give one weight per class"
        )
    wrong = ~(np.isfinite(weights) & (weights >= 0))
    if wrong.any():
        place = int(np.argmax(wrong))
        raise InputError(f"{path}: the weight of class {place} is {weights[place]}; give 0 or more")
    return weights


def _totals(
    target: Target, labels: Tensor, splits: dict[str, Tensor], transport: Transport
) -> dict[str, float]:
    """Return, for each split, the sum of the weights of its vertices; 1 if the split is empty.

    Collective.
    """
    sums = np.array([target.total(labels[rows]) for rows in splits.values()], np.float64)
    transport.allreduce_sum(sums)
    return {split: each or 1.0 for split, each in zip(splits, sums.tolist(), strict=True)}


def _no_training(drawn: bool, given: Sequence[str]) -> str:
    """Return why no training vertex has a label, and what to do.

    `drawn`: whether `split` drew the masks. `given`: splits that have a mask in the plan.
    """
    if drawn:
        return "no vertex that `split` draws for training has a label"
    if "train" in given:
        return (
            "no vertex of the train mask has a label; give `split` shares of the labelled "
            "vertices, such as 0.6,0.2,0.2, or compile the graph with another mask"
        )
    return "no vertex has a label"


def _own_columns(part: Part, width: int) -> slice:
    """Return this rank's columns of a dense matrix of `width` columns."""
    if part.grid is None or not part.grid.grid.splits_columns:
        return slice(0, width)
    grid = part.grid.grid
    return slice(*grid.slice_of_columns(width, grid.position(part.grid.rank).column))


def random_features(
    vertex: npt.NDArray[np.integer], width: int, seed: int, columns: slice = slice(None)
) -> npt.NDArray[np.float32]:
    """Return `columns` of random features [len(vertex), width], uniform in [-1, 1), float32."""
    stream = mix.in_python(vertex.astype(np.uint64) + mix.in_python(np.uint64(seed)))
    column = np.arange(width, dtype=np.uint64)[columns]
    result = np.empty((len(vertex), len(column)), np.float32)
    # a few rows at a time, so that the 64-bit numbers stay in the cache
    step = max(1, 2**17 // max(1, len(column)))
    for first in range(0, len(vertex), step):
        bits = mix.in_python(stream[first : first + step, None] + column) >> np.uint64(40)
        result[first : first + step] = bits
    result *= np.float32(2.0**-23)
    result -= np.float32(1)
    return result


def random_labels(
    vertex: npt.NDArray[np.integer], num_classes: int, seed: int
) -> npt.NDArray[np.int32]:
    """Return random classes, uniform in 0..num_classes - 1: int32[len(vertex)].

    The classes are independent of `random_features`.
    """
    bits = mix.in_python(vertex.astype(np.uint64) + mix.in_python(~np.uint64(seed)))
    return (bits % np.uint64(num_classes)).astype(np.int32)
