"""The options of training and their checks; `plancc-run` has the same options."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from os import fspath
from typing import Any

import numpy as np

from plancc.errors import InputError
from plancc.fields import check_options, described, kind_of, like, option
from plancc.files import StrPath
from plancc.plan.convolutions import CONVOLUTIONS, ConvOptions, GATOptions, SAGEOptions, of_model
from plancc.registry import check_choice
from plancc.sampling import SAMPLERS
from plancc.threads import MOST_THREADS
from plancc_runtime.layouts.sampling import Sampling
from plancc_runtime.metrics import BALANCED, LOSSES, METRICS
from plancc_runtime.nn import MODELS, is_own
from plancc_runtime.rowfiles import check_name
from plancc_runtime.transport.base import Transport

PASSES = ("order", "constant", "dead-rows", "overlap")
LARGEST_RATE = float(np.finfo(np.float32).max)
MOST = 2**31 - 1
"""Largest size of an array or a list."""
OWN_MOMENTUM = ("adam", "adamw")
"""Optimisers that have a momentum of their own, so that `momentum` does not apply."""
WATCHFUL = ("plateau",)
"""Schedules that depend on the validation loss."""
DELAY = 5
"""Default delay of the delayed fold, in epochs: cd-5 of Md et al. 2021."""
RATES_KEPT = ("boundary_sampling", "drop_edge", "boundary_edge_sampling")
"""Options for the share of rows or edges that an epoch keeps (Wan et al. 2022)."""
DRAWS = ("auto", "owners", "everywhere")
BATCH_OPTIONS = ("batch_size", "fanouts")
ONLY_BATCHES = {
    "feature_cache": "only mini-batches have a feature cache",
    "relation_fanouts": "only mini-batches have fan-outs",
    "features_on_disk": "a full batch reads all features in each epoch",
    "exclude_links": "is only for mini-batches",
    "steps": "only mini-batches have steps",
    "draw": "only mini-batches are drawn",
}
"""Options that are only for mini-batches; for each the reason, as a phrase for errors."""
FULL = "full"
"""The `batch_size` that asks for the full batch."""
OF_A_RANK = ("threads", "device")
"""Options whose values may differ between ranks."""
PATHS_OF_A_RANK = ("init", "log")
"""Options with paths that may differ between ranks; each is given on all ranks or on none."""
GIVEN = "given"
"""Value that replaces a path in `PATHS_OF_A_RANK` when the options of ranks are compared."""
MOST_STAGES = 1000
"""Largest number of stages of a pipeline; every stage sends a message."""

of_data = partial(option, section="Data")
of_training = partial(option, section="Training")
of_batches = partial(option, section="Mini-batches")
of_messages = partial(option, section="Communication")
of_execution = partial(option, section="Execution", free=True)
of_results = partial(option, section="Checkpoints and results", free=True)
# Free options may change when a run resumes: they change no step, or only the rounding of steps.
count = {"at_least": 1, "at_most": MOST}
rate = {"at_least": 0, "below": 1, "metavar": "P"}
share = {"at_least": 0, "at_most": 1, "metavar": "P"}


@described
@dataclass(frozen=True)
class TrainOptions:
    """Options of training; the fields are the options of `plancc-run`.

    Raises:
        InputError: If an option is out of range, is not an option of the model, or cannot be
            combined with another option.
    """

    model: str = of_model(
        "gcn",
        f"kind of layer: {', '.join(MODELS)}; or FILE:CLASS, a class of your own",
        more="Give it as ``my_net.py:Net``; `plancc.train` accepts the class itself too.",
        metavar="NAME|FILE:CLASS",
    )
    layers: int = of_model(2, "number of layers", at_least=1, at_most=10_000)
    hidden: int = of_model(16, "width of hidden layers", more="The width of all heads.", **count)
    heads: int = like(GATOptions, "heads")
    attention_dropout: float = like(GATOptions, "attention_dropout")
    aggregator: str = like(SAGEOptions, "aggregator")
    activation: str = of_model(
        "relu", "activation between layers", choices=("relu", "tanh", "sigmoid", "none")
    )
    norm: str = of_model(
        "none",
        "normalisation between layers; batch norm uses the rows of all ranks",
        choices=("none", "layer", "batch"),
    )
    residual: bool = of_model(False, "add the input of every layer but the last to its output")
    parametrization: str = like(ConvOptions, "parametrization")
    decoder: str = of_model(
        "dot",
        "For links: score of a link, from the outputs of its two ends (`hidden` numbers each). "
        "dot: scalar product. distmult: weighted scalar product. mlp: a hidden layer on the "
        "element-wise product",
        choices=("dot", "distmult", "mlp"),
    )
    bias: bool | None = like(ConvOptions, "bias")
    model_options: Mapping[str, Any] | None = of_model(
        None,
        "another option of the model, or of your own class's constructor; may be repeated",
        more="A mapping of names to values; a value may also be given as a string.",
        metavar="NAME=VALUE",
    )
    dropout: float = of_model(0.0, "dropout of every layer's input", **rate)
    input_dropout: float | None = of_model(
        None, "dropout of the first layer's input", otherwise="as `dropout`", **rate
    )
    init: StrPath | None = of_model(
        None, "initial weights: an .npz file that `save` has written", free=True
    )

    scale_features: str = of_data(
        "none",
        "scaling of features. rows: divide every row by the sum of its absolute values. columns: "
        "give every column mean 0 and variance 1 over all vertices",
        more="The saved network contains the columns' means and scales.",
        choices=("none", "rows", "columns", "rows,columns"),
    )
    target: str | None = of_data(
        None,
        "for a plan with vertex types: the type to predict",
        otherwise="the type that has labels",
        metavar="TYPE",
    )
    split: tuple[float, ...] | None = of_data(
        None,
        "shares of a random training, validation and test split: 0.6,0.2,0.2",
        otherwise="the plan's masks",
        metavar="P,P,P",
    )
    task: str = of_data(
        "auto",
        "predict labels of vertices, or links between vertices; auto: links if the plan has some",
        choices=("auto", "vertices", "links"),
    )
    negatives: int = of_data(
        1, "For links: negative pairs drawn in every epoch for each training link", **count
    )
    random_features: int | None = of_data(
        None, "width of random features, for a plan without features", otherwise="64", **count
    )
    classes: int | None = of_data(
        None,
        "number of classes, if labels are random or not all classes occur",
        otherwise="as in the labels; 8 if they are random",
        **count,
    )
    seed: int = of_data(
        1, "random seed of weights, dropout, samples and data", at_least=0, at_most=2**64 - 1
    )
    dtype: str = of_data(
        "float32",
        "number format of features, weights, messages; bfloat16 keeps weights and sums in float32",
        more="The state of the optimiser is then float32 too.",
        choices=("float32", "float64", "bfloat16"),
    )

    epochs: int = of_training(100, "number of epochs", at_least=0, at_most=MOST, free=True)
    loss: str = of_training(
        "auto", "loss of real targets; auto: mse, or cross-entropy for classes", choices=LOSSES
    )
    class_weights: str | None = of_training(
        None,
        f"weight in the loss of each class's vertices: {BALANCED}, or a file of numbers",
        otherwise="1 for all classes",
        more="See `plancc_runtime.data`.",
        metavar=f"{BALANCED}|FILE",
    )
    metric: str = of_training(
        "loss",
        "validation metric that `patience`, schedule plateau and the best checkpoint follow; it is "
        "printed too",
        more="f1 is the macro F1. See `plancc_runtime.metrics.METRICS`.",
        choices=tuple(METRICS),
    )
    optimizer: str = of_training(
        "adam",
        "optimiser",
        more="One of `plancc_runtime.optim.OPTIMIZERS`.",
        choices=("sgd", "adam", "adamw"),
    )
    lr: float = of_training(0.01, "learning rate", above=0, at_most=LARGEST_RATE)
    weight_decay: float = of_training(
        0.0, "L2 penalty; decoupled for adamw", at_least=0, at_most=LARGEST_RATE
    )
    momentum: float = of_training(0.0, "For sgd: momentum", **rate)
    clip_norm: float | None = of_training(
        None,
        "largest norm of all gradients together; larger gradients are scaled down to it",
        metavar="NORM",
        above=0,
        at_most=LARGEST_RATE,
    )
    schedule: str = of_training(
        "none",
        "learning-rate schedule. step: divide by 10 after 1/2 and 3/4 of the epochs. cosine: down "
        "to 0. plateau: halve after 5 evaluations without a better validation loss",
        choices=("none", "step", "cosine", "plateau"),
    )
    patience: int | None = of_training(
        None,
        "stop after this many evaluations without a better validation loss; keep the best weights",
        **count,
        free=True,
    )
    eval_every: int = of_training(
        10, "epochs between evaluations; 0: only at the end", at_least=0, at_most=MOST, free=True
    )

    sampler: str | None = of_batches(
        None,
        f"train in mini-batches drawn by {', '.join(SAMPLERS)}",
        otherwise="full batch; with `batch_size` the plan's sampler, or uniform",
        metavar="NAME",
    )
    batch_size: int | str | None = of_batches(
        None,
        f"number of vertices, or links, of a mini-batch; {FULL}: full batch",
        otherwise="full batch; with `sampler` the plan's size, or 6% of drawable vertices",
        more=f"{FULL} also silences the remark that a plan is for mini-batches.",
        metavar=f"NUMBER|{FULL}",
    )
    fanouts: tuple[int, ...] | None = of_batches(
        None,
        "For neighbour: neighbours drawn per vertex, for each layer, the output layer first",
        metavar="F1,F2,...",
    )
    relation_fanouts: Mapping[str, Any] | None = of_batches(
        None,
        "For neighbour on a plan with types: `fanouts` of one relation, given by its name or by "
        "SOURCE:NAME:DESTINATION; may be repeated",
        otherwise="`fanouts`",
        metavar="NAME=F1,F2,...",
    )
    sampler_options: Mapping[str, Any] | None = of_batches(
        None, "another option of the sampler (keep=0.1); may be repeated", metavar="NAME=VALUE"
    )
    steps: int | None = of_batches(
        None, "mini-batches per epoch", otherwise="enough to cover all training data", **count
    )

    draw: str = of_batches(
        "auto",
        "who draws a mini-batch. owners: every rank draws neighbours of its own rows, with sampler "
        "neighbour or walk. everywhere: every rank draws the whole batch. auto: the quicker way",
        choices=DRAWS,
    )

    exclude_links: bool = of_batches(
        False, "For links: leave the links of a mini-batch out of its graph, in both directions"
    )
    features_on_disk: bool = of_batches(
        False,
        "do not load features, but map the plan's file into memory: rows that are read often stay "
        "in memory, as far as there is room",
    )

    passes: tuple[str, ...] = of_messages(
        PASSES,
        "exact passes that save communication: all, none, or some of " + ", ".join(PASSES),
        otherwise="all",
        free=True,
        metavar="NAME,...",
    )
    feature_cache: int | None = of_messages(
        None,
        "memory per rank to cache features of halo rows (2G), for mini-batches",
        otherwise="an eighth of the size of own features, at least 16M",
        more="In bytes.",
    )
    wire: str = of_messages(
        "fp32",
        "number format of halo rows in messages; only fp32 is exact",
        choices=("fp32", "bf16"),
    )
    exchange: str = of_messages(
        "auto",
        "how rows are sent. flat: directly from rank to rank. nodes (node-aware) and relays: only "
        "if the plan was compiled for them. auto: as compiled, but node-aware only if the ranks "
        "are on nodes as the plan's topology says",
        choices=("auto", "flat", "nodes", "relays"),
    )
    boundary_sampling: float | None = of_messages(
        None, "share of boundary rows kept in an epoch (BNS-GCN)", **share
    )
    drop_edge: float | None = of_messages(
        None, "share of edges kept in an epoch (DropEdge)", **share
    )
    boundary_edge_sampling: float | None = of_messages(
        None, "share of edges to other ranks kept in an epoch", **share
    )
    fold: str = of_messages(
        "sync",
        "fold of an edge plan in training. sync: exact. none: no exchange of partial sums (0c of "
        "DistGNN). delayed: partial sums arrive later (cd-r)",
        choices=("sync", "none", "delayed"),
    )
    delay: int | None = of_messages(
        None, "delay of the delayed fold in epochs", otherwise=str(DELAY), at_least=1, at_most=1000
    )

    threads: int | None = of_execution(
        None,
        "threads per rank",
        otherwise="the machine's cores / its ranks",
        at_least=1,
        at_most=MOST_THREADS,
    )
    recompute: bool = of_execution(
        False,
        "compute activations again in the backward pass: less memory, more time",
        more="See `plancc_runtime.nn.recompute`.",
        free=False,
    )
    device: str = of_execution(
        "cpu", "device: cpu, cuda (shares the machine's GPUs among ranks), or cuda:NUMBER"
    )
    kernel: str = of_execution(
        "auto",
        "kernel of local products: numba, torch, or auto: numba on CPUs, else torch",
        more="A name in `plancc_runtime.kernels.spmm.KERNELS`.",
        metavar="NAME",
    )
    row_order: str = of_execution(
        "auto",
        "order of a rank's rows. auto: rcm with a pipeline, else none",
        choices=("auto", "none", "rcm", "degree"),
    )
    pipeline: str = of_execution(
        "off",
        "for feature plans: number of stages of a pipeline, in which products, messages and "
        "updates overlap. auto: chosen from the bandwidth of the matrix",
        more="After Wan et al. (2025).",
        metavar="off|auto|STAGES",
    )
    aggregate_on: str = of_execution(
        "device", "device of a feature plan's sparse products", choices=("device", "cpu")
    )

    checkpoint: StrPath | None = of_results(
        None, "folder for checkpoints: the last, and the best by validation loss"
    )
    every: int | None = of_results(
        None, "epochs between checkpoints", otherwise="only at the end", **count
    )
    keep_last: int = of_results(
        2, "number of checkpoints to keep; `resume` skips a damaged checkpoint", **count
    )
    resume: bool = of_results(False, "resume from the last checkpoint, with its options")
    log: StrPath | None = of_results(None, "log file: a line of JSON per epoch")
    predict: StrPath | None = of_results(
        None,
        "write predictions of all vertices: .csv or .npz",
        more="They are predicted with the final weights.",
    )
    embeddings: int | None = of_results(
        None,
        "With `predict`: write the outputs of this layer (1: the first) too",
        metavar="LAYER",
        **count,
    )

    @property
    def sampling(self) -> Sampling:
        """Shares of halo rows and of edges that an epoch keeps, and the seed that selects them."""
        return Sampling(
            seed=self.seed,
            boundary=self.boundary_sampling,
            boundary_edges=self.boundary_edge_sampling,
            edges=self.drop_edge,
        )

    def conv_options(self, declared: Collection[str]) -> dict[str, Any]:
        """Return the options of the model by name, including those in `model_options`.

        `declared` has the names of the options that the model declares.
        """
        given = {
            "order": self.product_order,
            "parametrization": self.parametrization,
            "bias": self.bias,
            **self.chosen(MODEL_OPTIONS),
        }
        extra = self.model_options or {}
        return {k: v for k, v in given.items() if k in declared} | dict(extra)

    def chosen(self, names: Iterable[str]) -> dict[str, Any]:
        """Return, by name, the options among `names` whose values differ from the defaults."""
        given = {name: getattr(self, name) for name in names}
        return {k: value for k, value in given.items() if value != getattr(TrainOptions, k)}

    @property
    def mini_batches(self) -> bool:
        """Whether any option asks for mini-batches."""
        return bool(self._batch_settings()) and self.batch_size != FULL

    def _no_batches(self) -> str:
        """Return, for messages, what the user must do to get mini-batches."""
        if self.batch_size == FULL:
            return f"`batch_size` {FULL} leaves them out"
        return "give `sampler` or `batch_size`"

    def _batch_settings(self) -> list[str]:
        """Return the names of the given options that make the run train in mini-batches."""
        return [*self.chosen(("sampler", *BATCH_OPTIONS, "sampler_options"))]

    @property
    def product_order(self) -> str:
        """Order of the product A H W in layers (`plancc.plan.convolutions.ORDERS`)."""
        if self.fold == "delayed":
            return "aggregate-first"
        return "auto" if "order" in self.passes else "paper"

    @property
    def row_wire(self) -> str:
        """Number format of halo rows in messages: bf16 if `dtype` is bfloat16, else `wire`."""
        return "bf16" if (self.dtype, self.wire) == ("bfloat16", "fp32") else self.wire

    @property
    def normalize_features(self) -> bool:
        """Whether each row of features is divided by the sum of its absolute values."""
        return "rows" in self.scale_features

    @property
    def standardize_features(self) -> bool:
        """Whether columns of features get mean 0 and variance 1, after `normalize_features`."""
        return "columns" in self.scale_features

    @property
    def first_dropout(self) -> float:
        """Dropout rate of the first layer's input."""
        return self.dropout if self.input_dropout is None else self.input_dropout

    def with_plain_paths(self) -> TrainOptions:
        """Return the options with every path as a string."""
        given = {name: getattr(self, name) for name in PATHS}
        return replace(self, **{n: fspath(p) for n, p in given.items() if p is not None})

    def __post_init__(self) -> None:
        check_options(self)
        for name in self.passes:
            check_choice("pass", name, PASSES)
        for name in self.chosen(RATES_KEPT):
            if self.mini_batches:
                why = "is only for the full batch; mini-batches have samplers of their own"
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
            why = f"{self.optimizer} has a momentum already; give `optimizer` sgd"
            raise self._wrong("momentum", why)
        for name in self.chosen(("every", "keep_last", "resume")):
            if self.checkpoint is None:
                raise InputError(f"`{name}`: needs a folder of checkpoints; give `checkpoint` too")
        self._check_model_options()
        self._check_predictions()
        if self.pipeline not in ("off", "auto") and not (
            self.pipeline.isdecimal() and 2 <= int(self.pipeline) <= MOST_STAGES
        ):
            raise self._wrong("pipeline", f"give off, auto, or 2 to {MOST_STAGES} stages")
        if self.batch_size == FULL and (
            others := [n for n in self._batch_settings() if n != "batch_size"]
        ):
            raise self._wrong("batch_size", f"excludes `{others[0]}`; give one of them")
        if isinstance(self.batch_size, str) and self.batch_size != FULL:
            value = repr(self.batch_size)
            raise InputError(f"`batch_size` {value}: give a number of vertices, or {FULL}")
        for name in () if self.mini_batches else self.chosen(ONLY_BATCHES):
            raise self._wrong(name, f"{ONLY_BATCHES[name]}; {self._no_batches()}")
        self._check_on_disk()
        if self.recompute and self.product_order == "paper" and not is_own(self.model):
            raise InputError("`recompute`: needs the pass 'order'; add it to `passes`")
        if self.delay is not None and self.fold != "delayed":
            raise self._wrong("delay", f"fold {self.fold} has no delay; give `fold` delayed")
        if self.fold == "sync":
            return
        if self.fold == "delayed" and self.checkpoint is not None:
            why = "keeps sums in flight between epochs, which no checkpoint holds"
            raise self._wrong("fold", f"{why}; leave `checkpoint` out")
        for name, choice in (("aggregator", "max"), ("norm", "batch")):
            if getattr(self, name) == choice:
                raise self._wrong("fold", f"does not suit {name} {choice}; choose another fold")

    def _check_on_disk(self) -> None:
        if not self.features_on_disk:
            return
        of_rows = ("scale_features", "row_order", "device")
        for name in self.chosen(of_rows):
            why = "where the CPU reads features as the plan has them"
            raise self._wrong(name, f"does not suit `features_on_disk`, {why}")
        if self.dtype == "bfloat16":
            raise self._wrong(
                "dtype",
                "does not suit `features_on_disk`; compile the graph with features of float16",
            )

    def _check_predictions(self) -> None:
        layer = self.embeddings
        if self.predict is None:
            if layer is not None:
                raise self._wrong("embeddings", "needs a file of predictions; give `predict` too")
            return
        check_name(self.predict)
        if layer is not None and layer > self.layers:
            raise self._wrong("embeddings", f"the network has layers 1 to {self.layers}")

    def _check_model_options(self) -> None:
        if is_own(self.model):
            from plancc_runtime.nn.own_class import check_training

            check_training(self)
            object.__setattr__(self, "passes", ())  # passes are for built-in models
            return
        refuse_twice(self.chosen(OF_MODELS) | {"model_options": self.model_options})
        given = {**self.chosen(MODEL_OPTIONS), **(self.model_options or {})}
        if not given:
            return
        try:
            declared = MODELS[self.model].option_names()
        except ImportError:  # torch is missing, which `train` reports
            return
        for name in given.keys() - set(declared):
            named = name in (self.model_options or {})
            what = f"`model_options` {name}={given[name]}" if named else f"`{name}` {given[name]}"
            raise InputError(
                f"{what}: model {self.model} has no such option; it has {', '.join(declared)}"
            )

    def setting(self, name: str) -> str:
        """Return an option with its value, for errors; of flags and mappings, only the name."""
        value = getattr(self, name)
        text = ",".join(map(str, value)) if isinstance(value, tuple) else value
        alone = value is True or isinstance(value, Mapping)
        return f"`{name}`" + f" {text}" * (not alone)

    def _wrong(self, name: str, why: str) -> InputError:
        return InputError(f"{self.setting(name)}: {why}")


def refuse_twice(given: Mapping[str, Any]) -> None:
    """Raise InputError if a field and `model_options` give one option two different values."""
    extra = given.get("model_options") or {}
    for name in (each for each in OF_MODELS if each in extra and given.get(each) is not None):
        own, other = given[name], extra[name]
        if str(own).lower() != str(other).lower():  # numbers and truth values may be strings
            raise InputError(f"`{name}` {own} and `model_options` {name}={other} differ; give one")


def check_same_options(options: TrainOptions, transport: Transport) -> None:
    """Raise InputError on all ranks if options that are not in `OF_A_RANK` differ. Collective."""
    plain = options.with_plain_paths()
    own = {
        name: GIVEN if name in PATHS_OF_A_RANK and value is not None else value
        for name, value in ((name, getattr(plain, name)) for name in OPTION_NAMES)
        if name not in OF_A_RANK
    }
    transport.check_alike(own)


OPTION_NAMES = tuple(field.name for field in fields(TrainOptions))
_OF_LAYERS = {field.name for kind in CONVOLUTIONS.values() for field in fields(kind)}
OF_MODELS = tuple(name for name in OPTION_NAMES if name in _OF_LAYERS)
"""Options of models that are fields of `TrainOptions`; `model_options` may also contain them."""
MODEL_OPTIONS = tuple(name for name in OF_MODELS if not hasattr(ConvOptions, name))
"""Options in `OF_MODELS` that only some models have."""
PATHS = tuple(field.name for field in fields(TrainOptions) if kind_of(field) == "StrPath")
