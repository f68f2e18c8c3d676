"""`plancc-run`: train from a plan, under mpirun or alone. Prints; computes nothing.

All ranks end with the same exit code (0 done, 1 failed, 2 wrong usage or input), and one of them
says why, in one sentence.
"""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from plancc.errors import InputError, OutputError, PlanccError
from plancc_cli import options
from plancc_runtime import launch
from plancc_runtime.options import CHOICES, MINIMUM, TrainOptions

if TYPE_CHECKING:
    from plancc_runtime.results import Epoch, TrainResult
    from plancc_runtime.transport.base import Transport

PROGRAM = "plancc-run"
COLUMNS = ("total", "comm", "spmm", "dense", "reduce", "words", "messages")
MOST_ROWS = 20


def _integer(name: str, text: str) -> Callable[[Any], Any]:
    return click.option(
        f"--{name}",
        type=click.IntRange(min=MINIMUM[name]),
        default=getattr(TrainOptions, name),
        show_default=True,
        help=text,
    )


def _choice(name: str, text: str) -> Callable[[Any], Any]:
    return click.option(
        f"--{name}",
        type=click.Choice(CHOICES[name]),
        default=getattr(TrainOptions, name),
        show_default=True,
        help=text,
    )


@click.command(
    epilog="One rank: plancc-run plan.h5. Several: mpirun -n 4 plancc-run plan.h5; a plan runs on "
    "any number of ranks up to its number of parts.",
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.argument("plan", type=click.Path())
@_integer("epochs", "How often the weights see the whole graph.")
@_integer("layers", "Layers of the GCN.")
@_integer("hidden", "Width of the hidden layers.")
@click.option(
    "--lr",
    type=click.FloatRange(min=0, min_open=True),
    default=TrainOptions.lr,
    show_default=True,
    help="Learning rate.",
)
@_choice("optimizer", "How weights follow their gradients.")
@_choice("activation", "Between layers; none after the last.")
@_choice("dtype", "Of features, weights and messages.")
@_integer("seed", "Of the weights and of random data.")
@_integer("features", "Width of random features, for a plan without features.  [default: 64]")
@_integer("classes", "Number of classes, for a plan without labels.  [default: 8]")
@options.sampling(
    "the plan's own, or uniform", "Train in mini-batches, as any of these five options says. "
)
@_integer("steps", "Mini-batches per epoch.  [default: as many as ask for every output once]")
@_integer("threads", "Threads per rank.  [default: this machine's cores, shared by its ranks]")
@click.option("--init", type=click.Path(), help="Initial weights: .npz with W0, W1, ...")
@click.option("--save", type=click.Path(), help="Write the trained weights: .npz with W0, W1, ...")
@click.option("--json", "json_path", type=click.Path(), help="Write every figure as JSON.")
@click.version_option(package_name="plancc", prog_name=PROGRAM)
def command(plan: str, save: str | None, json_path: str | None, **settings: Any) -> None:
    """Train a graph convolutional network from the communication plan PLAN."""
    try:
        transport = launch.open_transport()
    except PlanccError as error:  # the ranks cannot talk to each other
        sys.exit(_say_alone(str(error), error.exit_code))
    sys.exit(_together(transport, lambda: _run(transport, plan, save, json_path, settings)))


def main() -> None:
    """Console entry point."""
    rank, size = launch.announced()
    if rank > 0:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  results and --help come from rank 0
    if size == 1:  # under mpirun, mpirun ends all ranks
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        command.main(prog_name=PROGRAM, standalone_mode=False)
    except PlanccError as error:  # an option's own
        sys.exit(_say_alone(str(error), error.exit_code))
    except click.ClickException as error:
        sentence = f"{error.format_message()} (try {PROGRAM} --help)"
        sys.exit(_say_alone(sentence, error.exit_code))
    except (click.Abort, KeyboardInterrupt):
        sys.exit(_say_alone("interrupted", 1))


def _run(
    transport: Transport,
    plan: str,
    save: str | None,
    json_path: str | None,
    settings: dict[str, Any],
) -> None:
    """Train and print. Collective."""
    from plancc.files import atomic_write, check_target
    from plancc_runtime.train import train
    from plancc_runtime.weights import save_weights

    first = transport.rank == 0
    with transport.agreement():  # before the work, not after it
        train_options = TrainOptions(**settings)
        taken = {os.path.realpath(path) for path in (plan, settings["init"]) if path}
        for path in (save, json_path):
            if first and path:
                if os.path.realpath(path) in taken:
                    raise InputError(f"{path} is read or written already; choose another name")
                taken.add(os.path.realpath(path))
                check_target(path)

    result = train(plan, train_options, transport, _progress() if first else None)

    with transport.agreement():
        if first:
            _write_out(_render(plan, result))
    with transport.agreement():
        if first and json_path:
            with atomic_write(json_path) as temporary:
                text = json.dumps({"plan": plan, **result.to_dict()}, indent=2)
                temporary.write_text(text + "\n", encoding="utf-8")
    with transport.agreement():
        if first and save:
            save_weights(save, result.weights)


def _together(transport: Transport, work: Callable[[], None]) -> int:
    """Do `work` on all ranks; the exit code, the same on all of them. Collective.

    An error that the ranks agreed on is printed by rank 0. Any other is known to one rank only,
    which prints it and ends the job, since the others wait for it.
    """
    code = 1
    try:
        work()
        return 0
    except PlanccError as error:
        code = error.exit_code
        if error is transport.agreed_error:
            if transport.rank == 0:
                _say(str(error))
            transport.gather(None)  # mpirun kills all once one has left: let rank 0 speak first
            return code
        sentence = str(error)
    except KeyboardInterrupt:
        sentence = "interrupted"
    except MemoryError:
        sentence = "out of memory"
    except Exception as error:
        if os.environ.get("PLANCC_TRACEBACK"):
            traceback.print_exc()
        text = " ".join(str(error).split())
        sentence = (
            f"unexpected {type(error).__name__}: {text} (PLANCC_TRACEBACK=1 shows where; please "
            "report it)"
        )
    if transport.size > 1:
        _say(f"rank {transport.rank}: {sentence}")
        transport.abort(code)
    else:
        _say(sentence)
    return code


def _say(sentence: str) -> None:
    print(f"{PROGRAM}: error: {sentence}", file=sys.stderr, flush=True)


def _say_alone(sentence: str, code: int) -> int:
    """Print once although the ranks cannot talk: what they see, they all see alike.

    The launcher kills all ranks once one has left with an error, so the others wait for rank 0.
    """
    rank, _ = launch.announced()
    if rank == 0:
        _say(sentence)
    else:
        time.sleep(3)
    return code


def _progress() -> Callable[[int, float], None]:
    """A line on stderr, at most one every two seconds."""
    last: float | None = None

    def report(epoch: int, loss: float) -> None:
        nonlocal last
        now = time.monotonic()
        if last is None:
            last = now
        elif now - last > 2:
            last = now
            print(f"{PROGRAM}: epoch {epoch}: loss {loss:.6f}", file=sys.stderr, flush=True)

    return report


def _render(plan: str, result: TrainResult) -> str:
    header, options = result.header, result.options
    # Open MPI gives its ranks a terminal of 80 columns even when its own output goes to a file.
    alone = result.num_ranks == 1
    # what this terminal's encoding lacks is escaped: results are never lost for a character
    encoding = sys.stdout.encoding or "utf-8"
    text = io.TextIOWrapper(io.BytesIO(), encoding, errors="backslashreplace", newline="")
    console = Console(file=text, highlight=False, force_terminal=False)
    console.width = max(console.width if alone else 0, 160)
    origin = {False: "from the plan", True: "random"}
    summary = (
        f"{plan}: {header.num_vertices:,} vertices, {header.num_nonzeros:,} nonzeros, "
        f"{header.num_parts} parts; ranks {result.num_ranks}, threads per rank {result.threads}\n"
        f"{options.model.upper()} {' x '.join(map(str, result.dims))}, {options.activation}, "
        f"{options.optimizer}, "
        f"lr {options.lr:g}, {options.dtype}; features {origin[result.random_features]}, "
        f"labels {origin[result.random_labels]}"
    )
    caption = "accuracy per split; times in ms, the slowest rank's; words, messages: all ranks"
    columns: tuple[str, ...] = COLUMNS
    if result.sampler:
        summary += f"\nmini-batches: {_batches(result)}"
        caption += (
            "\nvolume/step: rows moved by one exchange of a mini-batch, the mean of the epoch"
        )
        columns = (*COLUMNS, "volume/step")
    splits = list(result.final.accuracy)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, caption=caption, caption_justify="left")
    for name in ("epoch", "loss", *splits, *columns):
        table.add_column(name, justify="right", no_wrap=True)
    for epoch in _some(result.epochs):
        table.add_row(str(epoch.epoch), *_row(epoch, splits))
    table.add_section()
    table.add_row("final", *_row(result.final, splits))
    console.print(summary, soft_wrap=True, markup=False)
    console.print(table)
    text.seek(0)
    return text.read()


def _batches(result: TrainResult) -> str:
    """ "uniform, batch size 20,000, 17 steps per epoch"."""
    name, *options = result.sampler.split()
    for option in options:
        key, _, value = option.partition("=")
        number = f"{int(value):,}" if value.isdecimal() else value
        name += f", {key.replace('_', ' ')} {number}"
    return f"{name}, {result.steps_per_epoch:,} steps per epoch"


def _some(epochs: list[Epoch]) -> list[Epoch]:
    """All epochs, or about `MOST_ROWS` evenly spaced ones with the last (--json has all)."""
    step = -(-len(epochs) // MOST_ROWS)
    return [epoch for epoch in epochs if (len(epochs) - 1 - epoch.epoch) % max(step, 1) == 0]


def _write_out(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:  # a full disk, or a closed pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        raise OutputError(f"cannot print the results: {error.strerror}") from error


def _row(epoch: Epoch, splits: list[str]) -> list[str]:
    phases = ("total", "communication", "spmm", "dense", "allreduce")
    return [
        f"{epoch.loss:.6f}",
        *(f"{epoch.accuracy[s]:.4f}" if s in epoch.accuracy else "-" for s in splits),
        *(f"{1e3 * epoch.seconds_max[p]:.2f}" for p in phases),
        f"{epoch.words_sent:,}",
        f"{epoch.messages_sent:,}",
        *([] if epoch.volume_per_step is None else [f"{epoch.volume_per_step:,.1f}"]),
    ]


if __name__ == "__main__":
    main()
