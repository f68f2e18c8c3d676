"""The options of `plancc-run` and of other commands that train, and parsers of their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import click
from click.core import ParameterSource

from plancc.errors import InputError
from plancc.sampling import SAMPLERS
from plancc_cli import options
from plancc_cli.signals import SIGNALS
from plancc_runtime import launch
from plancc_runtime.nn import MODELS, is_own
from plancc_runtime.options import FULL, OF_MODELS, PASSES, TrainOptions


def _parse_passes(context: click.Context, parameter: click.Parameter, text: str) -> tuple[str, ...]:
    return {"all": PASSES, "none": ()}.get(text, tuple(text.split(",")))


def _parse_batch_size(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> int | str | None:
    try:
        return text if text in (None, FULL) else int(text)
    except ValueError:
        raise InputError(f"--batch-size '{text}': give a number of vertices, or {FULL}") from None


class ModelName(options.NameIn):
    """The type of --model: a name in `MODELS`, or ``FILE:CLASS``; the file is not imported yet."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not is_own(value):
            return super().convert(value, param, ctx)
        from plancc_runtime.nn.own_class import check_name

        check_name(value)
        return value


def _parse_resume(context: click.Context, parameter: click.Parameter, how: str | None) -> Any:
    if how not in (None, "always", "if-any"):
        cure = f"put the plan before --resume, or write --resume=always {how}"
        raise InputError(f"--resume '{how}': choose always or if-any; {cure}")
    return {None: False, "always": True}.get(how, how)


READERS: dict[str, dict[str, Any]] = {
    "model": {"type": ModelName("model", MODELS)},
    "model_options": options.NAMED,
    "sampler_options": options.NAMED,
    "relation_fanouts": options.pairs("NAME=F1,F2,...", divide=str.rpartition),
    "split": options.shares("three shares, such as 0.6,0.2,0.2"),
    "sampler": {"type": options.NameIn("sampler", SAMPLERS)},
    "batch_size": {"callback": _parse_batch_size},
    "passes": {"default": "all", "callback": _parse_passes},
    "feature_cache": {"type": options.size},
    "resume": {
        **{"metavar": "[always|if-any]", "callback": _parse_resume, "default": None},
        **{"is_flag": False, "flag_value": "always"},
        "help": "Resume from the last checkpoint and its options; if-any: start anew without one.",
    },
}
"""For some parameters, settings of their options, such as the function that parses the value."""
FIELDS = {each.name: each for each in fields(TrainOptions)}
OF_RUN = {
    "ranks": click.Option(
        ["--ranks"], type=click.IntRange(min=1), help="Number of ranks, as threads of this process."
    ),
    "transport_name": click.Option(
        ["--transport", "transport_name"],
        type=click.Choice(launch.TRANSPORTS),
        default="auto",
        show_default=True,
        help="Transport of messages; auto: torch under torchrun, else MPI.",
    ),
    "timeout": click.Option(
        ["--timeout"],
        type=click.FloatRange(min=0),
        default=launch.TIMEOUT,
        show_default=True,
        help="Seconds that a rank waits for other ranks before the job fails; 0: no limit.",
    ),
    "signals": click.Option(
        ["--signal", "signals"],
        type=click.Choice(SIGNALS, case_sensitive=False),
        multiple=True,
        help="With --checkpoint: another signal that, like TERM and Ctrl-C, lets the run save a "
        "checkpoint after this epoch and end with exit code 75; may be repeated.",
    ),
    "check_model": click.Option(
        ["--check-model"],
        is_flag=True,
        help="Train nothing, but compare your own class on one rank and on all ranks, in float64 "
        "on a piece of the graph; exit code 1 if results differ by more than 1e-9.",
    ),
    "save": click.Option(["--save"], type=click.Path(), help="Write the trained weights (.npz)."),
    "json_path": click.Option(
        ["--json", "json_path"], type=click.Path(), help="Write all results as JSON."
    ),
}
"""Options of the job, which are not fields of `TrainOptions`."""
SECTIONS = options.sections_of(FIELDS.values())
JOB, RESULTS = (
    ("ranks", "transport_name", "timeout"),
    ("signals", "check_model", "save", "json_path"),
)
SECTIONS["Execution"] = (*JOB, *SECTIONS["Execution"])
SECTIONS["Checkpoints and results"] += RESULTS


def run_option(name: str, **settings: Any) -> click.Option:
    """Return the command-line option `name`.

    `settings` replace the settings of the field `name` of `TrainOptions`.
    """
    if name in OF_RUN:
        return OF_RUN[name]
    return options.field_option(FIELDS[name], **READERS.get(name, {}) | settings)


def refuse_twice(given: Mapping[str, Any]) -> None:
    """Raise InputError if --model-option and a flag give the same option of the model."""
    source = click.get_current_context().get_parameter_source
    for name in given["model_options"] or {}:
        if name in OF_MODELS and source(name) not in (None, ParameterSource.DEFAULT):
            flag = options.flag_of(name)
            raise InputError(f"{flag} and --model-option {name} exclude each other; give one")
