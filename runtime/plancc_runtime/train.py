"""Training from a plan: the second way through the house, top to bottom.

    plan.h5 -> this rank's slice -> layout + transport -> layers -> loss -> adjoint -> optimiser

In mini-batches the slice is masked to every batch first; the rest is the same.

Every function here is collective: all ranks call it with the same options.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import pairwise
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from plancc.errors import BackendUnavailable, InputError, PlanccError, PlanError
from plancc.plan.plan import Header, Part
from plancc_runtime.clock import PHASES, Clock
from plancc_runtime.transport.base import Transport

if TYPE_CHECKING:
    from plancc.sampling import Population, Sampler
    from plancc_runtime.data import LocalData
    from plancc_runtime.layouts.row import RowLayout
    from plancc_runtime.nn.gcn import GCN

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
    "steps": 1,
}
BATCH_OPTIONS = ("batch_size", "fanouts", "walk_length", "keep")
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
    sampler, batch_size, fanouts, walk_length, keep : str, int, tuple of int, int, float, or None
        Of mini-batches (`plancc.sampling.chosen_sampler`); all None: full batch.
    steps : int or None
        Mini-batches per epoch; by default as many as ask for every output once.
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
    sampler: str | None = None
    batch_size: int | None = None
    fanouts: tuple[int, ...] | None = None
    walk_length: int | None = None
    keep: float | None = None
    steps: int | None = None

    @property
    def mini_batches(self) -> bool:
        """Whether any option asks for mini-batches."""
        return any(getattr(self, name) is not None for name in ("sampler", *BATCH_OPTIONS))

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
        if self.steps is not None and not self.mini_batches:
            raise InputError(
                f"steps {self.steps}: only mini-batches have steps; give --sampler or --batch-size"
            )


@dataclass(frozen=True)
class Epoch:
    """One epoch over all ranks; loss and accuracy are of its forward pass, before its update.

    Attributes
    ----------
    loss : float
        Mean softmax cross-entropy over the labelled training vertices; with mini-batches, over
        the targets of all its steps, each as its step saw it.
    accuracy : dict of str to float
        Per split that there is ("train", "val", "test"), over its labelled vertices. With
        mini-batches "train" alone, over the same targets as the loss; empty if there were none.
    seconds_max, seconds_mean : dict of str to float
        Per phase ("communication", "spmm", "dense", "allreduce", "other", "total"), over ranks.
    words_sent, messages_sent, bytes_sent : int
        Rows of H and G on the wire, summed over ranks, counted by the transport.
    words_sent_max, messages_sent_max : int
        Of the rank that sends most.
    words_reduced : int
        Words that every rank hands to all-reduces (weight gradients, loss, and of every
        mini-batch the number of targets), counted apart.
    volume_per_step : float or None
        Mean of `Step.volume`; None without mini-batches.
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
    volume_per_step: float | None = None


@dataclass(frozen=True)
class Step:
    """One mini-batch over all ranks.

    Attributes
    ----------
    number : int
        Of the batch: over all epochs, from 0.
    loss : float
        Mean over its targets; 0 if there are none.
    targets : int
        Labelled training vertices whose output counts.
    vertices : int
        That take part in any block.
    volume, messages : int
        Rows moved, and ordered pairs of ranks that talk, in one exchange of every block: summed
        over the blocks, as the transport counted them in the forward pass.
    words_sent : int
        In all exchanges of the step, forward and backward.
    """

    number: int
    loss: float
    targets: int
    vertices: int
    volume: int
    messages: int
    words_sent: int


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
    sampler : str
        Of the mini-batches, with its options; empty for full batch.
    steps_per_epoch : int
        0 for full batch.
    steps : list of Step
        Of all epochs.
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
    sampler: str = ""
    steps_per_epoch: int = 0
    steps: list[Step] = field(default_factory=list)

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
        A plan file, of which every rank reads its slice only, or that slice. Samplers that draw
        from more than the number of vertices need the file.
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
    with transport.agreement():
        drawn = open_sampler(plan, options, header) if options.mini_batches else None
    from plancc_runtime.data import load_data
    from plancc_runtime.layouts.row import RowLayout
    from plancc_runtime.nn.gcn import glorot_weights

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
    learner = _Learner(weights, options, transport, clock)
    measures: list[_Measure] = []
    steps: list[Step] = []
    per_epoch = 0

    with torch.no_grad():
        if drawn is not None:
            sampler, population = drawn
            per_epoch = options.steps or sampler.batches_per_epoch(population)
            measures, steps = _mini_batch_epochs(
                learner, part, data, sampler, population, per_epoch, report
            )
        layout = RowLayout(part, transport, dtype, clock)
        del part  # the layout has a matrix of its own
        _release_free_memory()
        model = learner.model([layout] * options.layers)
        for epoch in range(len(measures), options.epochs + 1):
            training = epoch < options.epochs  # the last round only evaluates
            before = learner.start()
            score = learner.round(model, data, training, f"epoch {epoch}")
            measures.append(learner.measure(before, score, data.split_sizes))
            if training and report is not None:
                report(epoch, float(score[0]))

    *epochs, final = _summarise(measures, transport)
    if drawn is not None:
        epochs = [
            replace(e, volume_per_step=float(np.mean([x.volume for x in taken])))
            for e in epochs
            for taken in [steps[e.epoch * per_epoch : (e.epoch + 1) * per_epoch]]
        ]
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
        sampler="" if drawn is None else str(drawn[0]),
        steps_per_epoch=per_epoch,
        steps=steps,
    )


class _Learner:
    """The weights, and how one pass over the rows of a model changes them."""

    def __init__(
        self, weights: list[Any], options: TrainOptions, transport: Transport, clock: Clock
    ) -> None:
        from plancc_runtime.optim import OPTIMIZERS

        self.weights, self.options, self.transport, self.clock = weights, options, transport, clock
        self._optimizer = OPTIMIZERS[options.optimizer](weights, options.lr)
        self._gradient = weights[0].new_empty(sum(w.numel() for w in weights))

    def model(self, layouts: Sequence[RowLayout]) -> GCN:
        """The model over these layouts, one per layer."""
        from plancc_runtime.nn.gcn import GCN

        return GCN(layouts, self.weights, self.options.activation, self.clock)

    def round(self, model: GCN, data: LocalData, training: bool, where: str) -> np.ndarray:
        """A forward pass and, in training, an update. Collective.

        Returns
        -------
        float64[1 + splits]
            Loss, and rightly classified vertices per split of `data`, over all ranks.
        """
        import torch

        from plancc_runtime.nn.loss import cross_entropy

        transport, clock = self.transport, self.clock
        logits = model.forward(data.features)
        with clock("dense"):
            size = max(data.split_sizes["train"], 1)  # a mini-batch may have nothing to learn
            share, g = cross_entropy(logits, data.labels, data.splits["train"], size)
            score = np.array([share, *_correct(logits, data)], np.float64)
        if training:
            gradients = model.backward(g)
            with clock("dense"):
                torch.cat([x.reshape(-1) for x in gradients], out=self._gradient)
            with clock("allreduce"):
                transport.allreduce_sum(self._gradient)  # Algorithm 2, line 13
        with clock("allreduce"):
            transport.allreduce_sum(score)
        if not np.isfinite(score[0]):  # every rank sees the same sum
            transport.agree(_diverged(score[0], where, self.options.lr))
        if training:
            with clock("dense"):
                pieces = self._gradient.split([w.numel() for w in self.weights])
                pairs = zip(pieces, self.weights, strict=True)
                self._optimizer.step([p.view_as(w) for p, w in pairs])
        return score

    def start(self) -> np.ndarray:
        """Restart the clock; the traffic so far."""
        self.clock.restart()
        return self.transport.traffic.as_array()

    def measure(self, before: np.ndarray, score: np.ndarray, sizes: dict[str, int]) -> _Measure:
        """What happened since `start`, of which `score` came; `sizes` are those of its splits."""
        hits = zip(sizes, score[1:].tolist(), strict=True)
        return _Measure(
            loss=float(score[0]),
            accuracy={split: hit / sizes[split] for split, hit in hits if sizes[split]},
            seconds=self.clock.read(),
            traffic=self.transport.traffic.as_array() - before,
        )


def _mini_batch_epochs(
    learner: _Learner,
    part: Part,
    data: LocalData,
    sampler: Sampler,
    population: Population,
    per_epoch: int,
    report: Callable[[int, float], None] | None,
) -> tuple[list[_Measure], list[Step]]:
    """All epochs in mini-batches: batch s is the same on all ranks. Collective."""
    from plancc_runtime.minibatch import BatchMask, CountedLayout

    options, transport = learner.options, learner.transport
    dtype = learner.weights[0].dtype
    mask = BatchMask(part, transport)
    measures: list[_Measure] = []
    learned: list[tuple[float, int]] = []
    counts: list[list[int]] = []
    for epoch in range(options.epochs):
        before = learner.start()
        total, targets = np.zeros(2), 0  # of loss and of hits, over the targets of all steps
        for number in range(epoch * per_epoch, (epoch + 1) * per_epoch):
            words = transport.traffic.words_sent
            local = mask.local(sampler.batch(population, options.seed, number))
            batch = data.of_batch(local.rows, local.targets, transport)
            layouts = [CountedLayout(p, transport, dtype, learner.clock) for p in local.parts]
            model = learner.model(layouts if len(layouts) > 1 else layouts * options.layers)
            loss, hits = learner.round(model, batch, True, f"step {number}")
            size = batch.split_sizes["train"]
            total += loss * size, hits
            targets += size
            learned.append((float(loss), size))
            words = transport.traffic.words_sent - words
            moved = sum(x.rows_sent for x in layouts), sum(x.messages_sent for x in layouts)
            counts.append([len(local.rows), *moved, words])
        total[0] /= max(targets, 1)
        measures.append(learner.measure(before, total, {"train": targets}))
        if report is not None:
            report(epoch, float(total[0]))
    counted = np.array(counts, np.int64).reshape(-1, 4)
    transport.allreduce_sum(counted)
    pairs = zip(learned, counted.tolist(), strict=True)
    return measures, [Step(number, *mine, *sums) for number, (mine, sums) in enumerate(pairs)]


def open_sampler(
    plan: str | PathLike[str] | Slice, options: TrainOptions, header: Header
) -> tuple[Sampler, Population]:
    """The sampler of mini-batches, and what this rank needs to draw from; not collective.

    What the user does not say is as the plan was compiled for.

    Raises
    ------
    InputError
        If the options do not fit each other, the plan or the model.
    PlanError
        If the plan is damaged.
    """
    from plancc.plan.population import num_training, read_population
    from plancc.plan.reader import PlanFile
    from plancc.sampling import Population, chosen_sampler

    given = {name: getattr(options, name) for name in BATCH_OPTIONS}
    n = header.num_vertices
    if isinstance(plan, tuple):
        sampler = chosen_sampler("", n, None, options.sampler, **given)
        population = Population(n)
    else:
        with PlanFile(plan) as file:
            recorded = str(file.attributes("provenance").get("sampler", ""))
            training = num_training(file)
            sampler = chosen_sampler(recorded, n, training, options.sampler, **given)
            population = read_population(file, sampler)
    sampler.check_layers(options.layers)
    sampler.check(population)
    sampler.batch(population, options.seed, 0)  # what it refuses, it refuses here
    return sampler, population


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
    """One epoch as one rank saw it; loss and accuracy are those of all ranks."""

    loss: float
    accuracy: dict[str, float]
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


def _diverged(loss: float, where: str, lr: float) -> PlanccError:
    return PlanccError(f"the loss of {where} is {loss}: try a smaller --lr than {lr:g}")


def _summarise(measures: list[_Measure], transport: Transport) -> list[Epoch]:
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
        messages, words, num_bytes = traffic_sum[k, :3].tolist()
        messages_max, words_max, _ = traffic_max[k, :3].tolist()
        result.append(
            Epoch(
                epoch=k,
                loss=m.loss,
                accuracy=m.accuracy,
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
