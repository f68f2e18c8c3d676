"""Full-batch training from a plan: the second way through the house, top to bottom.

    plan.h5 -> this rank's slice -> layout + transport -> layers -> loss -> adjoint -> optimiser

Every function here is collective: all ranks call it with the same options.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from plancc.errors import BackendUnavailable, InputError, PlanccError, PlanError
from plancc.plan.plan import Header, Part
from plancc_runtime.clock import PHASES, Clock
from plancc_runtime.transport.base import Transport

if TYPE_CHECKING:
    from plancc_runtime.data import LocalData

TIMES = (*PHASES, "other", "total")
CHOICES = {
    "optimizer": ("sgd", "adam"),
    "activation": ("relu", "tanh", "sigmoid", "none"),
    "dtype": ("float32", "float64"),
}
MINIMUM = {
    "epochs": 0,
    "layers": 1,
    "hidden": 1,
    "seed": 0,
    "threads": 1,
    "features": 1,
    "classes": 1,
}
Slice = tuple[Header, Part]


@dataclass(frozen=True)
class TrainOptions:
    """How to train; the fields are the options of `plancc-run`.

    Attributes
    ----------
    activation : str
        Between layers: "relu", "tanh", "sigmoid" or "none".
    seed : int
        Of the initial weights and of random vertex data.
    threads : int or None
        Threads per rank; by default this machine's usable cores, shared among its ranks.
    features, classes : int or None
        Width of random features (64), number of random classes (8), for plans without data.
    init : path or None
        ``.npz`` with the initial weights ``W0``, ``W1``, ...
    """

    epochs: int = 5
    layers: int = 2
    hidden: int = 16
    lr: float = 0.01
    optimizer: str = "sgd"
    activation: str = "relu"
    seed: int = 0
    dtype: str = "float32"
    threads: int | None = None
    features: int | None = None
    classes: int | None = None
    init: str | PathLike[str] | None = None

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                value = getattr(self, name)
                raise InputError(f"{name} {value!r}: choose one of {', '.join(choices)}")
        for name, least in MINIMUM.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} {value}: must be at least {least}")
        if not 0 < self.lr < np.inf:
            raise InputError(f"lr {self.lr}: must be positive")


@dataclass(frozen=True)
class Epoch:
    """One epoch over all ranks; loss and accuracy are of its forward pass, before its update.

    Attributes
    ----------
    loss : float
        Mean softmax cross-entropy over the labelled training vertices.
    accuracy : dict of str to float
        Per split that there is ("train", "val", "test"), over its labelled vertices.
    seconds_max, seconds_mean : dict of str to float
        Per phase ("communication", "spmm", "dense", "allreduce", "other", "total"), over ranks.
    words_sent, messages_sent, bytes_sent : int
        Rows of H and G on the wire, summed over ranks, counted by the transport.
    words_sent_max, messages_sent_max : int
        Of the rank that sends most.
    words_reduced : int
        Words that every rank hands to all-reduces (weight gradients, loss), counted apart.
    """

    epoch: int
    loss: float
    accuracy: dict[str, float]
    seconds_max: dict[str, float]
    seconds_mean: dict[str, float]
    words_sent: int
    messages_sent: int
    bytes_sent: int
    words_sent_max: int
    messages_sent_max: int
    words_reduced: int


@dataclass(frozen=True)
class TrainResult:
    """What a run leaves behind, the same on all ranks.

    Attributes
    ----------
    final : Epoch
        One more forward pass with the trained weights, apart from the epochs; its `epoch` is
        their number.
    dims : list of int
        d_0..d_L.
    split_sizes : dict of str to int
        Labelled vertices per split.
    weights : list of array[d_{k-1}, d_k]
    """

    header: Header
    options: TrainOptions
    num_ranks: int
    threads: int
    dims: list[int]
    split_sizes: dict[str, int]
    random_features: bool
    random_labels: bool
    epochs: list[Epoch]
    final: Epoch
    weights: list[np.ndarray]

    def to_dict(self) -> dict[str, Any]:
        """Everything but the weights, ready for JSON."""
        result = asdict(replace(self, weights=[]))
        del result["weights"]
        return result


def train(
    plan: str | PathLike[str] | Slice,
    options: TrainOptions,
    transport: Transport,
    report: Callable[[int, float], None] | None = None,
) -> TrainResult:
    """Train a GCN from a plan. Collective.

    Parameters
    ----------
    plan : path, or (Header, Part)
        A plan file, of which every rank reads its slice only, or that slice.
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
    from plancc_runtime.data import load_data
    from plancc_runtime.layouts.row import RowLayout
    from plancc_runtime.nn.gcn import GCN, glorot_weights
    from plancc_runtime.nn.loss import cross_entropy
    from plancc_runtime.optim import OPTIMIZERS

    threads = options.threads or transport.cores_per_rank()
    torch.set_num_threads(threads)
    dtype = {"float32": torch.float32, "float64": torch.float64}[options.dtype]
    data = load_data(part, transport, dtype, options.seed, options.features, options.classes)
    hidden = [options.hidden] * (options.layers - 1)
    dims = [data.features.shape[1], *hidden, data.num_classes]
    with transport.agreement():
        if options.init is None:
            initial = glorot_weights(dims, options.seed)
        else:
            initial = read_weights(options.init, dims)
    if not transport.all_equal(b"".join(w.tobytes() for w in initial)):
        transport.agree(InputError(f"{options.init}: not the same weights on all ranks"))
    weights = [torch.tensor(w, dtype=dtype) for w in initial]

    clock = Clock()
    layout = RowLayout(part, transport, dtype, clock)
    del part  # the layout has a matrix of its own
    _release_free_memory()
    model = GCN(layout, weights, options.activation, clock)
    optimizer = OPTIMIZERS[options.optimizer](weights, options.lr)
    gradient = torch.empty(sum(w.numel() for w in weights), dtype=dtype)
    measures: list[_Measure] = []

    with torch.no_grad():
        for epoch in range(options.epochs + 1):
            training = epoch < options.epochs  # the last round only evaluates
            before = transport.traffic.as_array()
            clock.restart()

            logits = model.forward(data.features)
            with clock("dense"):
                share, g = cross_entropy(
                    logits, data.labels, data.splits["train"], data.split_sizes["train"]
                )
                score = np.array([share, *_correct(logits, data)], np.float64)
            if training:
                gradients = model.backward(g)
                with clock("dense"):
                    torch.cat([x.reshape(-1) for x in gradients], out=gradient)
                with clock("allreduce"):
                    transport.allreduce_sum(gradient)  # Algorithm 2, line 13
            with clock("allreduce"):
                transport.allreduce_sum(score)
            if not np.isfinite(score[0]):  # every rank sees the same sum
                transport.agree(_diverged(score[0], epoch, options.lr))
            if training:
                with clock("dense"):
                    pieces = gradient.split([w.numel() for w in weights])
                    optimizer.step([p.view_as(w) for p, w in zip(pieces, weights, strict=True)])

            traffic = transport.traffic.as_array() - before
            measures.append(_Measure(score, clock.read(), traffic))
            if training and report is not None:
                report(epoch, float(score[0]))

    *epochs, final = _summarise(measures, data, transport)
    return TrainResult(
        header=header,
        options=replace(options, init=None if options.init is None else fspath(options.init)),
        num_ranks=transport.size,
        threads=threads,
        dims=dims,
        split_sizes=data.split_sizes,
        random_features=data.random_features,
        random_labels=data.random_labels,
        epochs=epochs,
        final=final,
        weights=[w.numpy() for w in weights],
    )


def open_slice(plan: str | PathLike[str] | Slice, transport: Transport) -> tuple[Header, Part, str]:
    """This rank's slice, and the content hash of the file it is from; not collective.

    Raises
    ------
    InputError, PlanError
        As `plancc.plan.slices.read_rank_slice`, or for another layout than "row".
    """
    if isinstance(plan, tuple):
        header, part, content = *plan, ""
    else:
        from plancc.plan.reader import PlanFile
        from plancc.plan.slices import read_part

        with PlanFile(plan) as file:
            header, content = file.header, file.content_sha256
            part = read_part(file, transport.rank, transport.size)
    if header.layout != "row":
        raise PlanError(f"this version runs plans of layout row, not {header.layout}")
    return header, part, content


def check_slices(part: Part, content: str, transport: Transport) -> None:
    """Whether the slices of all ranks fit together, since a message that does not would hang them.

    Collective.

    Raises
    ------
    PlanError
        If the ranks opened different plans, or one sends what its peer does not expect.
    """
    if not transport.all_equal(content.encode()):
        transport.agree(PlanError("the ranks opened different plans of the same name"))
    sends, expects = np.zeros((2, transport.size), np.int64)
    np.add.at(sends, part.send_peer, np.diff(part.send_ptr))
    np.add.at(expects, part.recv_peer, np.diff(part.recv_ptr))
    arrives = transport.alltoall(sends)
    with transport.agreement():
        for peer in np.flatnonzero(arrives != expects)[:1].tolist():
            raise PlanError(
                f"the plan is damaged: rank {peer} sends {arrives[peer]} rows where "
                f"{expects[peer]} are expected (plancc verify says more)"
            )


def read_weights(path: str | PathLike[str], dims: list[int]) -> list[np.ndarray]:
    """W^1..W^L from an ``.npz`` with arrays W0..W{L-1}; not collective.

    Raises
    ------
    InputError
        If the file cannot be read, or an array is missing, of another shape, or not finite.
    """
    name = fspath(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except Exception as error:  # a .npy, a torn archive: numpy, zipfile, zlib raise what they like
        raise InputError(f"{name}: cannot be read as .npz ({error})") from error
    weights = []
    for k, shape in enumerate(pairwise(dims)):
        if f"W{k}" not in arrays:
            raise InputError(f"{name}: has no array W{k}; {len(dims) - 1} layers need as many")
        weight = arrays[f"W{k}"]
        if weight.shape != shape:
            raise InputError(f"{name}: W{k} has shape {weight.shape}, the model needs {shape}")
        if weight.dtype.kind not in "fiu" or not np.isfinite(weight).all():
            raise InputError(f"{name}: W{k} must hold finite numbers")
        weights.append(weight)
    return weights


def save_weights(path: str | PathLike[str], weights: list[np.ndarray]) -> None:
    """Write W0..W{L-1} as ``.npz``, whole or not at all; for one rank to call.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    from plancc.files import atomic_write

    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **{f"W{k}": w for k, w in enumerate(weights)})  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Measure:
    """One epoch as one rank saw it; `score` (loss, then hits per split) is already summed."""

    score: np.ndarray
    seconds: dict[str, float]
    traffic: np.ndarray


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


def _correct(logits: Any, data: LocalData) -> list[int]:
    """Rightly classified vertices of this rank, per split."""
    right = logits.argmax(dim=1) == data.labels
    return [int(right[rows].sum()) for rows in data.splits.values()]


def _diverged(loss: float, epoch: int, lr: float) -> PlanccError:
    return PlanccError(f"the loss of epoch {epoch} is {loss}: try a smaller --lr than {lr:g}")


def _summarise(measures: list[_Measure], data: LocalData, transport: Transport) -> list[Epoch]:
    """Sums and maxima over ranks, once for all epochs. Collective."""
    seconds_mean = np.array([[m.seconds[t] for t in TIMES] for m in measures])
    seconds_max = seconds_mean.copy()
    traffic_sum = np.array([m.traffic for m in measures])
    traffic_max = traffic_sum.copy()
    transport.allreduce_max(seconds_max)
    transport.allreduce_max(traffic_max)
    transport.allreduce_sum(seconds_mean)
    transport.allreduce_sum(traffic_sum)
    seconds_mean /= transport.size
    result = []
    for k, m in enumerate(measures):
        hits = zip(data.splits, m.score[1:].tolist(), strict=True)
        messages, words, num_bytes = traffic_sum[k, :3].tolist()
        messages_max, words_max, _ = traffic_max[k, :3].tolist()
        result.append(
            Epoch(
                epoch=k,
                loss=float(m.score[0]),
                accuracy={s: h / data.split_sizes[s] for s, h in hits if data.split_sizes[s]},
                seconds_max=dict(zip(TIMES, seconds_max[k].tolist(), strict=True)),
                seconds_mean=dict(zip(TIMES, seconds_mean[k].tolist(), strict=True)),
                words_sent=words,
                messages_sent=messages,
                bytes_sent=num_bytes,
                words_sent_max=words_max,
                messages_sent_max=messages_max,
                words_reduced=int(traffic_max[k, 7]),
            )
        )
    return result
