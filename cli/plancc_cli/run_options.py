"""The options of `plancc-run` and of commands that train as it does: helps, flags and types."""

from __future__ import annotations

from typing import Any

import click

from plancc.errors import InputError
from plancc.sampling import SAMPLERS
from plancc_cli import options
from plancc_cli.generated import Several
from plancc_cli.stopping import SIGNALS
from plancc_runtime import launch
from plancc_runtime.nn import MODELS
from plancc_runtime.options import (
    CHOICES,
    FULL,
    MINIMUM,
    PASSES,
    PATHS,
    RATES,
    RATES_KEPT,
    TrainOptions,
)

HELP = {
    "Model": {
        "model": f"{', '.join(MODELS)}.",
        "layers": "Number of layers.",
        "hidden": "Width of the hidden layers.",
        "heads": "For gat: attention heads; each has 1/heads of the width of a layer.",
        "attention_dropout": "For gat: dropout of the weights of attention.",
        "aggregator": "For sage: aggregator.",
        "activation": "Activation between layers.",
        "norm": "Normalisation between layers; batch: over the rows of all ranks.",
        "residual": "Add the input of every layer but the last to its output.",
        "parametrization": "Parameters of the layers and how they are drawn. pyg: as in PyTorch "
        "Geometric's layers of the same name. paper: as in the model's paper.",
        "bias": "Bias of the layers.  [default: as --parametrization has it]",
        "model_options": "Another option of the model; may be repeated.",
        "dropout": "Dropout of every layer's input.",
        "input_dropout": "Dropout of the first layer's input.  [default: as --dropout]",
        "init": "Initial weights: an .npz file as --save writes it.",
    },
    "Data": {
        "normalize_features": "Divide every row of features by its sum of magnitudes.",
        "standardize_features": "Give every column of features mean 0 and variance 1.",
        "split": "Random training, validation and test shares: 0.6,0.2,0.2.  [default: the plan's "
        "masks]",
        "features": "Width of random features, for a plan without features.  [default: 64]",
        "classes": "Classes of random labels, for a plan without labels.  [default: 8]",
        "seed": "Random seed of weights, dropout, samples and data.",
        "dtype": "Type of features, weights and messages; bfloat16: weights and sums are float32.",
    },
    "Training": {
        "epochs": "Number of epochs.",
        "optimizer": "Optimiser.",
        "lr": "Learning rate.",
        "weight_decay": "L2 penalty; decoupled for adamw.",
        "momentum": "For sgd: momentum.",
        "clip_norm": "Largest norm of all gradients together; larger ones are scaled down to it.",
        "schedule": "Learning-rate schedule. step: divide by 10 after 1/2 and 3/4 of the epochs. "
        "cosine: down to 0. plateau: halve after 5 evaluations without a better validation loss.",
        "patience": "Stop after this many evaluations without a better validation loss; keep the "
        "best weights.",
        "eval_every": "Epochs between evaluations; 0: only at the end.",
    },
    "Mini-batches": {
        "sampler": f"Train in mini-batches drawn by {', '.join(SAMPLERS)}.  "
        "[default: full batch; with --batch-size the plan's own, or uniform]",
        "batch_size": "Vertices of a mini-batch; full: full batch.  [default: full batch; with "
        "--sampler the plan's own, or 6% of those that may be drawn]",
        "fanouts": "For neighbour: columns sampled per row, by layer, the output layer first.",
        "walk_length": "For walk: steps of every walk.  [default: 3]",
        "keep": "For edges: share of nonzeros that are kept.",
        "sampler_options": "Another option of the sampler; may be repeated.",
        "steps": "Mini-batches per epoch.  [default: enough to cover every target once]",
    },
    "Communication": {
        "passes": f"Exact passes that save communication: all, none, or some of "
        f"{', '.join(PASSES)}.",
        "feature_cache": "Memory per rank to cache features of halo rows (2G), for mini-batches.  "
        "[default: a quarter of what is left]",
        "wire": "Number format of halo rows in messages; only fp32 is exact.",
        "exchange": "For plans with a topology: rows in hops between nodes (nodes), or straight "
        "from rank to rank (flat). auto: in hops if the ranks are on nodes as the plan says.",
        "boundary_sampling": "Share of boundary rows kept in an epoch (BNS-GCN).",
        "drop_edge": "Share of edges kept in an epoch (DropEdge).",
        "boundary_edge_sampling": "Share of edges to other ranks kept in an epoch.",
        "fold": "Fold of an edge plan in training. sync: exact. none: no exchange of partial sums "
        "(0c of DistGNN). delayed: partial sums arrive later (cd-r).",
        "delay": "Delay of the delayed fold in epochs.  [default: 5]",
    },
    "Execution": {
        "ranks": "Ranks, as threads of this process.",
        "transport_name": "Transport of messages; auto: torch under torchrun, else MPI.",
        "timeout": "Seconds that a rank waits for others before the job fails; 0: no limit.",
        "threads": "Threads per rank.  [default: the machine's cores / its ranks]",
        "recompute": "Compute activations again in the backward pass: less memory, more time.",
        "device": "Device: cpu, cuda (the machine's GPUs in turn), or cuda:NUMBER.",
        "kernel": "Kernel of local products: auto (measured), numba or torch.",
        "row_order": "Order of a rank's rows. auto: rcm with a pipeline, else none.",
        "pipeline": "Stages of a feature plan's pipeline of products, messages and updates. auto: "
        "chosen by the matrix bandwidth.",
        "aggregate_on": "Device of a feature plan's sparse products.",
    },
    "Checkpoints and results": {
        "checkpoint": "Folder for checkpoints: the last, and the best by validation loss.",
        "every": "Epochs between checkpoints.  [default: only at the end]",
        "keep_last": "Number of checkpoints to keep; --resume passes over a damaged one.",
        "resume": "Resume from the last checkpoint, with its options.",
        "signals": "With --checkpoint: another signal that, like TERM and Ctrl-C, lets the run "
        "save a checkpoint after this epoch and end with exit code 75; may be repeated.",
        "log": "Log file: a line of JSON per epoch.",
        "trace": "Timeline of all ranks, for Perfetto or chrome://tracing.",
        "profile": "Profile epochs after training: the time of every operation, and what it would "
        "be at the machine's rates.",
        "f1": "Print F1 (micro/macro) in place of accuracy.",
        "predict": "Write class and probabilities of every vertex: .csv, .npz, .npy, .parquet; "
        "out-{part}.npz: a file per rank.",
        "embeddings": "With --predict: write the outputs of this layer (1: the first) too.",
        "save": "Write the trained weights (.npz).",
        "json_path": "Write all results as JSON.",
    },
}
"""Help texts by section and parameter; `run_option` knows the rest."""


def run_option(name: str, text: str) -> click.Option:
    """The option of a parameter; the default is that of `TrainOptions`."""
    default = getattr(TrainOptions, name, None)
    settings: dict[str, Any] = {"default": default}
    if name in SETTINGS:
        settings |= SETTINGS[name]
    elif name in CHOICES:
        settings["type"] = click.Choice(CHOICES[name])
    elif name in MINIMUM:
        settings["type"] = click.IntRange(min=MINIMUM[name])
    elif name in (*RATES, *RATES_KEPT):
        settings |= {"type": click.FloatRange(0, 1, max_open=name in RATES), "metavar": "P"}
    elif name in PATHS:
        settings["type"] = click.Path()
    elif default is False:
        settings["is_flag"] = True
    shown = settings["default"] is not None and settings["default"] is not False
    flag = FLAGS.get(name, f"--{name.replace('_', '-')}")
    return click.Option([flag, name], show_default=shown, help=text, **settings)


def _parse_passes(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    return {"all": PASSES, "none": ()}.get(text, tuple(text.split(",")))


def _parse_batch_size(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> int | str | None:
    try:
        return text if text in (None, FULL) else int(text)
    except ValueError:
        raise InputError(f"--batch-size '{text}': give a number of vertices, or {FULL}") from None


def _parse_split(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(float(share) for share in text.split(","))
    except ValueError:
        raise InputError(f"--split '{text}': give three shares, such as 0.6,0.2,0.2") from None


FLAGS = {
    "bias": "--bias/--no-bias",
    "model_options": "--model-option",
    "sampler_options": "--sampler-option",
    "signals": "--signal",
    "transport_name": "--transport",
    "json_path": "--json",
}
"""Flags that are not the parameter's name."""
SETTINGS: dict[str, dict[str, Any]] = {
    "model": {"type": options.NameIn("model", MODELS), "metavar": "NAME"},
    "model_options": options.NAMED,
    "sampler_options": options.NAMED,
    "split": {"metavar": "P,P,P", "callback": _parse_split},
    "lr": {"type": click.FloatRange(min=0, min_open=True)},
    "weight_decay": {"type": click.FloatRange(min=0)},
    "clip_norm": {"type": click.FloatRange(min=0, min_open=True), "metavar": "NORM"},
    "sampler": {"type": options.NameIn("sampler", SAMPLERS), "metavar": "NAME"},
    "batch_size": {"metavar": f"NUMBER|{FULL}", "callback": _parse_batch_size},
    "fanouts": {
        "type": Several(TrainOptions.__dataclass_fields__["fanouts"]),
        "metavar": "F1,F2,...",
    },
    "walk_length": {"type": int},
    "keep": {"type": float, "metavar": "P"},
    "passes": {"default": "all", "metavar": "NAME,...", "callback": _parse_passes},
    "feature_cache": {"type": options.MEMORY},
    "kernel": {"metavar": "NAME"},
    "embeddings": {"type": click.IntRange(min=1), "metavar": "LAYER"},
    "pipeline": {"metavar": "off|auto|STAGES"},
    "signals": {"type": click.Choice(SIGNALS, case_sensitive=False), "multiple": True},
    "f1": {"is_flag": True, "default": False},
    "ranks": {"type": click.IntRange(min=1)},
    "threads": {"type": options.THREADS},
    "transport_name": {"type": click.Choice(launch.TRANSPORTS), "default": "auto"},
    "timeout": {"type": click.FloatRange(min=0), "default": launch.TIMEOUT},
    "save": {"type": click.Path()},
    "json_path": {"type": click.Path()},
}
"""Settings of parameters that no list of `plancc_runtime.options` has."""
