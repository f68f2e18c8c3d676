"""How to train: the options of `plancc-run`, checked. Knows no torch, no plan."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from os import PathLike, fspath
from typing import Any

import numpy as np

from plancc.errors import InputError
from plancc.fields import checked
from plancc.registry import check_choice
from plancc.threads import check_threads
from plancc_runtime.layouts.sampling import Sampling
from plancc_runtime.nn import MODELS
from plancc_runtime.rowfiles import RowTarget
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.messages import name_ranks

PASSES = ("order", "constant", "dead-rows", "overlap")
CHOICES = {
    "parametrization": ("pyg", "paper"),
    "aggregator": ("mean", "sum", "max", "gcn"),
    "norm": ("none", "layer", "batch"),
    "optimizer": ("sgd", "adam", "adamw"),
    "schedule": ("none", "step", "cosine", "plateau"),
    "activation": ("relu", "tanh", "sigmoid", "none"),
    "dtype": ("float32", "float64", "bfloat16"),
    "wire": ("fp32", "bf16", "fp16", "int8"),
    "exchange": ("auto", "flat", "nodes"),
    "row_order": ("auto", "none", "rcm", "degree"),
    "aggregate_on": ("device", "cpu"),
    "fold": ("sync", "none", "delayed"),
}
MINIMUM = {
    "epochs": 0,
    "layers": 1,
    "hidden": 1,
    "heads": 1,
    "seed": 0,
    "features": 1,
    "classes": 1,
    "steps": 1,
    "eval_every": 0,
    "patience": 1,
    "every": 1,
    "keep_last": 1,
    "delay": 1,
    "embeddings": 1,
}
MOST = {name: 2**31 - 1 for name in MINIMUM if name != "epochs"} | {
    "layers": 10_000,
    "seed": 2**64 - 1,
    "delay": 1000,
}
"""Largest values of the options of `MINIMUM`, but for epochs: sizes of arrays and lists, keys,
numbers of exchanges."""
LARGEST_RATE = float(np.finfo(np.float32).max)
PATHS = ("init", "checkpoint", "log", "trace", "predict")
RATES = ("dropout", "input_dropout", "attention_dropout", "momentum")
RATES_KEPT = ("boundary_sampling", "drop_edge", "boundary_edge_sampling")
MODEL_OPTIONS = ("heads", "attention_dropout", "aggregator")
"""Options that some models have."""
OWN_MOMENTUM = ("adam", "adamw")
"""Optimisers whose momentum is no option."""
WATCHFUL = ("plateau",)
"""Schedules that follow the validation loss."""
DELAY = 5
"""Default delay of the delayed fold, in epochs: cd-5 of Md et al. 2021."""
BATCH_OPTIONS = ("batch_size", "fanouts", "walk_length", "keep")
FULL = "full"
"""The `batch_size` of an explicit full batch."""
OF_A_RANK = ("threads", "device")
"""Options that every rank may have its own of."""
PATHS_OF_A_RANK = ("init", "log", "trace")
"""Files that may have other names on other ranks; all ranks give one, or none does."""
MOST_DIFFERENCES = 3
"""Options that differ between ranks and are named in one sentence."""
MOST_VALUES = 4
"""Values of such an option that are named."""
MOST_STAGES = 1000
"""Largest number of stages of a pipeline; its batches are a message each."""


@dataclass(frozen=True)
class TrainOptions:
    """How to train; the fields are the options of `plancc-run`.

    Attributes
    ----------
    model : str
        A name in `plancc_runtime.nn.MODELS`: "gcn", "sage", "gin" or "gat".
    hidden : int
        Width of the hidden layers (of all heads together).
    heads : int
        Number of heads of attention.
    attention_dropout : float
        Rate in [0, 1) at which training drops weights of attention.
    aggregator : str
        Aggregator of GraphSAGE.
    model_options : mapping of str to value or text, or None
        Other options that the model declares (`nn.conv.ConvOptions`), by name.
    parametrization : str
        Which parameters the layers have and how they are drawn (`nn.conv.ConvOptions`): as PyTorch
        Geometric's layers ("pyg"), or as the model's paper has it ("paper").
    bias : bool or None
        None: as the parametrization has it.
    activation : str
        Between layers: "relu", "tanh", "sigmoid" or "none".
    norm : str
        Between layers: "none", "layer" or "batch".
    dropout : float
        Rate in [0, 1), of the input of every layer.
    input_dropout : float or None
        Rate of the first layer's; None: as `dropout`.
    normalize_features : bool
        Whether every row of features is divided by the sum of its magnitudes.
    standardize_features : bool
        Whether every column of features is shifted and scaled to mean 0 and variance 1 over all
        vertices, after `normalize_features`. The network keeps mean and scale.
    split : three floats or None
        Shares of training, validation and test vertices, drawn in place of the plan's masks.
    optimizer, schedule : str
        `plancc_runtime.optim.OPTIMIZERS`, `learning_rate`.
    weight_decay : float
        An L2 penalty (for "adamw": decoupled).
    momentum : float
        Of "sgd", in [0, 1).
    clip_norm : float or None
        Largest norm of all gradients together, which are scaled down to it; None: no limit.
    patience : int or None
        Evaluations without a better validation loss before training stops, and goes back to the
        weights that had the best; None: never.
    eval_every : int
        Epochs between two evaluations of all splits; 0: only at the end.
    seed : int
        Seed of the initial weights, dropout, sampling and random vertex data.
    dtype : str
        Type of all numbers; "bfloat16": of features, activations and halo rows, while weights, sums
        and the optimiser's state are of float32.
    threads : int or None
        Threads per rank, 1..1024; by default this machine's usable cores, shared among its ranks.
    features, classes : int or None
        Width of random features (64), number of random classes (8), for plans without data.
    init : path or None
        ``.npz`` with initial weights.
    passes : tuple of str
        Names in `PASSES`: how communication is avoided, exactly.
    feature_cache : int or None
        Bytes that a rank may take for the features of its halo rows, with mini-batches and the pass
        "constant"; None: a quarter of the machine's memory that is left, shared by its ranks.
    wire : str
        How halo rows travel; all but "fp32" are lossy.
    exchange : str
        Of a plan with hops between nodes. "auto": rows travel in hops where ranks are on nodes as
        the plan says. "flat": from rank to rank. "nodes": in hops wherever the ranks are.
    device : str
        "cpu", "cuda" (one for every rank of a machine, in turn) or "cuda:NUMBER".
    kernel : str
        Kernel of local products: "auto", or a name in `plancc_runtime.kernels.spmm.KERNELS`.
    row_order : str
        Order of a rank's rows, for the cache. "auto": "rcm" with a pipeline, else "none".
    pipeline : str
        Pipeline of a feature plan (Wan et al. 2025): "off", "auto" (as many stages as its bandwidth
        asks for) or a number of stages.
    aggregate_on : str
        Where a feature plan makes its sparse products: on the "device" that updates rows, or on
        the "cpu".
    boundary_sampling, drop_edge, boundary_edge_sampling : float or None
        Share that is *kept* of the boundary rows, of all edges, of the boundary edges, in every
        epoch (Wan et al. 2022).
    fold : str
        Fold of an edge plan in training (Md et al. 2021). "sync": partial sums reach their rows
        before the layer goes on (cd-0). "none": every rank computes with copies of its vertices and
        its own nonzeros alone (0c). "delayed": partial sums arrive some epochs later (cd-r).
    delay : int or None
        Epochs, r; for the delayed fold, which by default has `DELAY`.
    sampler, batch_size, fanouts, walk_length, keep : str, int, tuple of int, int, float, or None
        How mini-batches are drawn (`plancc.sampling.chosen_sampler`); all None: full batch.
        `batch_size` "full" says the same, so that no remark follows on a plan for mini-batches.
    sampler_options : mapping of str to value or text, or None
        Further options of a registered sampler.
    steps : int or None
        Mini-batches per epoch; by default enough to cover every target once.
    checkpoint : path or None
        Folder for checkpoints.
    every : int or None
        Epochs between two of them; None: only at the end.
    keep_last : int
        Number of checkpoints that are kept: the last, and those before it.
    resume : bool
        Whether to go on from the last checkpoint in `checkpoint`.
    log, trace : path or None
        A line of JSON per epoch; a timeline of every rank.
    recompute : bool
        Whether training passes compute activations again in their backward pass, in place of
        keeping them (`nn.recompute`).
    profile : bool
        Whether some epochs more are profiled after training, which leave the weights as they are.
    predict : path or None
        File for the class and the probabilities of every vertex, by the weights that the run ends
        with; its extension is one of `rowfiles.FORMATS`.
    embeddings : int or None
        Layer, from 1, whose outputs are written beside the predictions.
    """

    model: str = "gcn"
    epochs: int = 100
    layers: int = 2
    hidden: int = 16
    heads: int = 1
    attention_dropout: float = 0.0
    aggregator: str = "mean"
    parametrization: str = "pyg"
    bias: bool | None = None
    activation: str = "relu"
    norm: str = "none"
    residual: bool = False
    dropout: float = 0.0
    input_dropout: float | None = None
    normalize_features: bool = False
    standardize_features: bool = False
    split: tuple[float, ...] | None = None
    lr: float = 0.01
    optimizer: str = "adam"
    weight_decay: float = 0.0
    momentum: float = 0.0
    clip_norm: float | None = None
    schedule: str = "none"
    patience: int | None = None
    eval_every: int = 10
    seed: int = 0
    dtype: str = "float32"
    threads: int | None = None
    features: int | None = None
    classes: int | None = None
    init: str | PathLike[str] | None = None
    passes: tuple[str, ...] = PASSES
    feature_cache: int | None = None
    wire: str = "fp32"
    exchange: str = "auto"
    device: str = "cpu"
    kernel: str = "auto"
    row_order: str = "auto"
    pipeline: str = "off"
    aggregate_on: str = "device"
    boundary_sampling: float | None = None
    drop_edge: float | None = None
    boundary_edge_sampling: float | None = None
    fold: str = "sync"
    delay: int | None = None
    sampler: str | None = None
    batch_size: int | str | None = None
    fanouts: tuple[int, ...] | None = None
    walk_length: int | None = None
    keep: float | None = None
    sampler_options: Mapping[str, Any] | None = None
    steps: int | None = None
    checkpoint: str | PathLike[str] | None = None
    every: int | None = None
    keep_last: int = 2
    resume: bool = False
    log: str | PathLike[str] | None = None
    trace: str | PathLike[str] | None = None
    profile: bool = False
    recompute: bool = False
    predict: str | PathLike[str] | None = None
    embeddings: int | None = None
    model_options: Mapping[str, Any] | None = None

    @property
    def sampling(self) -> Sampling:
        """What an epoch keeps."""
        return Sampling(
            seed=self.seed,
            boundary=self.boundary_sampling,
            boundary_edges=self.boundary_edge_sampling,
            edges=self.drop_edge,
        )

    def conv_options(self, declared: Collection[str]) -> dict[str, Any]:
        """The options of a model that declares these, as far as they are not its defaults."""
        given = {
            "order": self.product_order,
            "parametrization": self.parametrization,
            "bias": self.bias,
            **self._model_options(),
        }
        extra = self.model_options or {}
        return {k: v for k, v in given.items() if k in declared} | dict(extra)

    def _model_options(self) -> dict[str, Any]:
        """Those of `MODEL_OPTIONS` that are not the default."""
        return {
            name: getattr(self, name)
            for name in MODEL_OPTIONS
            if getattr(self, name) != getattr(TrainOptions, name)
        }

    @property
    def mini_batches(self) -> bool:
        """Whether any option asks for mini-batches."""
        return bool(self._of_batches()) and self.batch_size != FULL

    def _no_batches(self) -> str:
        """What to do for mini-batches."""
        if self.batch_size == FULL:
            return f"`batch_size` {FULL} leaves them out"
        return "give `sampler` or `batch_size`"

    def _of_batches(self) -> list[str]:
        """Options of the sampler that are given."""
        names = ("sampler", *BATCH_OPTIONS, "sampler_options")
        return [name for name in names if getattr(self, name) is not None]

    @property
    def product_order(self) -> str:
        """How layers order the product A H W (`plancc.plan.convolutions.ORDERS`)."""
        if self.fold == "delayed":
            return "aggregate-first"
        return "auto" if "order" in self.passes else "paper"

    @property
    def row_wire(self) -> str:
        """How halo rows travel: as `wire` has it, but for rows of bfloat16, which lose nothing."""
        return "bf16" if (self.dtype, self.wire) == ("bfloat16", "fp32") else self.wire

    @property
    def first_dropout(self) -> float:
        """Rate of the first layer's input."""
        return self.dropout if self.input_dropout is None else self.input_dropout

    def with_plain_paths(self) -> TrainOptions:
        """The same, with every path as text."""
        given = {name: getattr(self, name) for name in PATHS}
        return replace(self, **{n: fspath(p) for n, p in given.items() if p is not None})

    def __post_init__(self) -> None:
        for each in fields(self):
            if (value := getattr(self, each.name)) is not None:
                checked(each, value)
        for name, choices in CHOICES.items():
            if getattr(self, name) not in choices:
                value = getattr(self, name)
                raise InputError(f"`{name}` {value!r}: choose one of {', '.join(choices)}")
        for name in self.passes:
            check_choice("pass", name, PASSES)
        for name, least in MINIMUM.items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise self._wrong(name, f"must be at least {least}")
            if value is not None and value > MOST.get(name, value):
                raise self._wrong(name, f"must be at most {MOST[name]}")
        check_threads(self.threads)
        if not 0 < self.lr <= LARGEST_RATE:
            raise self._wrong("lr", f"must be a positive number up to {LARGEST_RATE:.1e}")
        if not 0 <= self.weight_decay <= LARGEST_RATE:
            raise self._wrong("weight_decay", f"must be a number from 0 to {LARGEST_RATE:.1e}")
        if self.clip_norm is not None and not 0 < self.clip_norm <= LARGEST_RATE:
            raise self._wrong("clip_norm", f"must be a positive number up to {LARGEST_RATE:.1e}")
        for name in RATES:
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise self._wrong(name, "must be at least 0 and below 1")
        for name in RATES_KEPT:
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise self._wrong(name, "must be between 0 and 1")
            if value is not None and self.mini_batches:
                why = "is for the full batch; mini-batches have samplers of their own"
                raise self._wrong(name, why)
        if self.split is not None and not (
            len(self.split) == 3 and min(self.split) >= 0 and 0 < sum(self.split) <= 1 + 1e-9
        ):
            raise self._wrong(
                "split",
                "give the shares of training, validation and test vertices, at most 1 together, "
                "such as 0.6,0.2,0.2",
            )
        self._check_what_goes_together()

    def _check_what_goes_together(self) -> None:
        watches = {"patience": self.patience is not None, "schedule": self.schedule in WATCHFUL}
        for name, watching in watches.items():
            if watching and not self.eval_every:
                raise self._wrong(name, "needs evaluations; give `eval_every` too")
        if self.momentum and self.optimizer in OWN_MOMENTUM:
            why = f"{self.optimizer} has a momentum of its own; give `optimizer` sgd"
            raise self._wrong("momentum", why)
        for name in ("every", "keep_last", "resume"):
            given = getattr(self, name) != getattr(TrainOptions, name)
            if given and self.checkpoint is None:
                raise InputError(f"`{name}`: give `checkpoint`, the folder, too")
        self._check_model_options()
        self._check_predictions()
        if self.pipeline not in ("off", "auto") and not (
            self.pipeline.isdecimal() and 2 <= int(self.pipeline) <= MOST_STAGES
        ):
            raise self._wrong("pipeline", f"give off, auto, or 2 to {MOST_STAGES} stages")
        if self.keep is not None and self.keep >= 2:
            raise self._wrong(
                "keep", "is a share of nonzeros; `keep_last` is the number of checkpoints"
            )
        if self.batch_size == FULL and (
            others := [n for n in self._of_batches() if n != "batch_size"]
        ):
            raise self._wrong("batch_size", f"excludes `{others[0]}`; give one of them")
        if isinstance(self.batch_size, str) and self.batch_size != FULL:
            value = repr(self.batch_size)
            raise InputError(f"`batch_size` {value}: give a number of vertices, or {FULL}")
        if self.feature_cache is not None and not self.mini_batches:
            raise self._wrong("feature_cache", f"only mini-batches have one; {self._no_batches()}")
        if self.steps is not None and not self.mini_batches:
            raise self._wrong("steps", f"only mini-batches have steps; {self._no_batches()}")
        if self.recompute and self.product_order == "paper":
            raise InputError("`recompute`: needs the pass order, which `passes` leaves out")
        if self.delay is not None and self.fold != "delayed":
            raise self._wrong("delay", f"only fold delayed has one, not fold {self.fold}")
        if self.fold == "sync":
            return
        for name, choice in (("aggregator", "max"), ("norm", "batch")):
            if getattr(self, name) == choice:
                raise self._wrong("fold", f"does not go with {name} {choice}")

    def _check_predictions(self) -> None:
        layer = self.embeddings
        if self.predict is None:
            if layer is not None:
                raise self._wrong("embeddings", "give `predict`, the file, too")
            return
        target = RowTarget.parse(self.predict)
        if layer is not None and layer > self.layers:
            raise self._wrong("embeddings", f"the network has layers 1 to {self.layers}")
        if layer is not None and not target.has_ids:
            raise self._wrong("embeddings", "an .npy holds the probabilities alone; choose .npz")

    def _check_model_options(self) -> None:
        given = {**self._model_options(), **(self.model_options or {})}
        if not given:
            return
        try:
            declared = MODELS[self.model].option_names()
        except ImportError:  # no torch: `train` says so
            return
        for name in given.keys() - set(declared):
            raise InputError(
                f"`{name}` {given[name]}: model {self.model} has no such option; it has "
                f"{', '.join(declared)}"
            )

    def _wrong(self, name: str, why: str) -> InputError:
        value = getattr(self, name)
        text = ",".join(map(str, value)) if isinstance(value, tuple) else value
        return InputError(f"`{name}` {text}: {why}")


def check_same_options(options: TrainOptions, transport: Transport) -> None:
    """Check that all ranks have the same options, but for those that are a rank's own. Collective.

    Raises
    ------
    InputError
        On all ranks; it says which ranks have which values.
    """
    plain = options.with_plain_paths()
    own = {
        name: "given" if name in PATHS_OF_A_RANK and value is not None else value
        for name, value in ((name, getattr(plain, name)) for name in OPTION_NAMES)
        if name not in OF_A_RANK
    }
    texts = {name: _as_text(value) for name, value in own.items()}
    found = transport.ranks_by_value(json.dumps(texts))
    if len(found) == 1:
        return
    every = [(json.loads(text), ranks) for text, ranks in found.items()]
    sentences = []
    for name in texts:
        ranks_of: dict[str, list[int]] = {}
        for theirs, ranks in every:
            ranks_of.setdefault(str(theirs.get(name)), []).extend(ranks)
        if len(ranks_of) > 1:
            most_first = sorted(ranks_of.items(), key=lambda item: -len(item[1]))
            values = [f"{value} on {name_ranks(ranks)}" for value, ranks in most_first]
            sentences.append(f"`{name}` is {', '.join(values[:MOST_VALUES])}")
    said = "; ".join(sentences[:MOST_DIFFERENCES])
    if len(sentences) > MOST_DIFFERENCES:
        said += f"; and {len(sentences) - MOST_DIFFERENCES} more differ"
    transport.agree(InputError(f"the ranks have other options: {said}; give all ranks the same"))


def _as_text(value: Any) -> str:
    """The value of an option, for comparison and for messages."""
    if value is None:
        return "not given"
    if isinstance(value, tuple):
        return ",".join(map(str, value)) or "none"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={value[name]}" for name in sorted(value)) or "none"
    return str(value)


OPTION_NAMES = tuple(field.name for field in fields(TrainOptions))
