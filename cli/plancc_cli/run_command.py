"""The command `plancc-run`: trains from a plan, under mpirun or on one rank, and prints the run.

All ranks end with the same exit code: 0 done, 1 failed, 2 wrong usage or input, 75 stopped by a
signal after saving a checkpoint.
"""

from __future__ import annotations

import gc
import io
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from rich.console import Console

from plancc.errors import InputError, OutputError, PlanccError, why_not_written
from plancc_cli import options
from plancc_cli.progress import EVERY, QUIET, VERBOSE, verbosity, verbosity_level, warn_on_stderr
from plancc_cli.ranks import RankJob, checked_header, told
from plancc_cli.render_run import EpochTable
from plancc_cli.run_options import SECTIONS, refuse_twice, run_option
from plancc_cli.signals import StopSignals, end_now
from plancc_cli.tables import console, count_of, line_width, say
from plancc_cli.words import in_flags, predictions_line, usage_words
from plancc_runtime import launch
from plancc_runtime.nn import is_own
from plancc_runtime.options import DELAY, TrainOptions
from plancc_runtime.transport.base import say as say_on_stderr

if TYPE_CHECKING:
    from plancc_runtime.results import Measure, RunOutline, TrainResult
    from plancc_runtime.transport.base import Transport

PROGRAM = "plancc-run"
ANY_WIDTH = 10_000
"""Width in characters of lines that are not broken."""
COMMON = (
    *("model", "layers", "hidden", "heads", "dropout"),
    *("epochs", "lr", "weight_decay", "patience", "seed", "split"),
    *("sampler", "batch_size", "fanouts"),
    *("ranks", "threads", "device"),
    *("checkpoint", "resume", "log", "predict", "save"),
)
"""Options that people use first."""


@click.command(
    cls=options.Sections,
    sections=SECTIONS,
    common=COMMON,
    epilog="Several ranks, up to the plan's number of parts: --ranks 4, mpirun -n 4 plancc-run, or "
    "torchrun --no-python --nproc-per-node 4 -- plancc-run.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.argument("plan", type=click.Path())
@options.with_options(run_option(name) for names in SECTIONS.values() for name in names)
@verbosity
@click.version_option(package_name="plancc", prog_name=PROGRAM)
def command(
    plan: str,
    save: str | None,
    json_path: str | None,
    check_model: bool,
    ranks: int | None,
    transport_name: str,
    timeout: float,
    signals: tuple[str, ...],
    **settings: Any,
) -> None:
    """Train a graph neural network from the communication plan PLAN."""

    refuse_twice(settings)
    level = verbosity_level()  # threads do not know the context
    if settings["resume"] == "if-any":
        if settings["checkpoint"] is None or settings["every"] is None:
            cure = "give --checkpoint FOLDER and --every EPOCHS too, so that checkpoints exist"
            raise InputError(f"--resume if-any: {cure}")
        settings["resume"] = any(Path(settings["checkpoint"]).glob("last*.safetensors"))
    checked_header(plan, ranks)
    if settings["resume"] and settings["checkpoint"] is not None:
        settings = resumed_settings(settings)

    if signals and settings["checkpoint"] is None:
        raise InputError(f"--signal {signals[0]} needs --checkpoint; give a folder with it")
    job = RankJob(PROGRAM, command)

    def end() -> None:
        if launch.announced()[1] == 1:
            end_now(PROGRAM)
        os._exit(job.say_alone(*told(KeyboardInterrupt())))

    def heard(name: str) -> None:
        if launch.announced()[0] == 0:
            job.say(f"{name}: a checkpoint is saved at the end of this epoch", is_error=False)

    saves = settings["checkpoint"] is not None
    # a shell has its background jobs ignore Ctrl-C
    ctrl_c = [] if signal.getsignal(signal.SIGINT) is signal.SIG_IGN else ["INT"]
    with StopSignals([*ctrl_c, *signals], end, heard) if saves else nullcontext(str) as stop:

        def work(transport: Transport) -> None:
            if check_model:
                _check(transport, plan, settings)
                return
            _run(transport, plan, save, json_path, level, settings, stop)

        code = job.run(ranks, transport_name, timeout, work)
    sys.exit(code)


def resumed_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the checkpoint's options; options on the command line replace them."""
    launch.need_torch(PROGRAM)
    from plancc_runtime.checkpoint import resumed_options

    context = click.get_current_context()
    given = {
        name: value
        for name, value in settings.items()
        if context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }
    return settings | resumed_options(settings["checkpoint"], given)


def run() -> None:
    """Run the command line, and raise SystemExit with the exit code if it is not 0."""
    job = RankJob(PROGRAM, command)
    rank, size = launch.announced()
    if rank > 0:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  results and --help come from rank 0
    # under mpirun, mpirun ends all ranks
    if size == 1 and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with warn_on_stderr(PROGRAM):
            command.main(prog_name=PROGRAM, standalone_mode=False)
    except PlanccError as error:  # an option's own
        sys.exit(job.say_alone(str(error), error.exit_code))
    except click.ClickException as error:
        sentence = f"{usage_words(error)} (try {PROGRAM} --help)"
        sys.exit(job.say_alone(sentence, error.exit_code))
    except (click.Abort, KeyboardInterrupt):
        sys.exit(job.say_alone(*told(KeyboardInterrupt())))


def _run(
    transport: Transport,
    plan: str,
    save: str | None,
    json_path: str | None,
    level: int,
    settings: dict[str, Any],
    stop: Callable[[], str],
) -> None:
    """Train, and print on rank 0. Collective."""
    from plancc_runtime.train import trained
    from plancc_runtime.weights import save_weights

    gc.freeze()  # imported objects need not be collected
    gc.enable()
    first = transport.rank == 0
    with transport.agreement():  # errors of names of files come before the work
        train_options = TrainOptions(**settings)
        taken = [plan, settings["init"], settings["class_weights"]]
        written = (save, json_path, settings["log"], settings["predict"])
        for path in written:
            if first and path:
                options.check_output(path, *taken)
                taken.append(path)
        if save and os.path.splitext(save)[1] != ".npz":
            raise InputError(f"--save {save}: the file of weights needs a name that ends in .npz")

    printed = _Printed(transport, plan, level)
    result, predict = trained(plan, train_options, transport, printed.report, printed.begin, stop)
    printed.end(result)
    with transport.agreement():
        if first and json_path:
            _write_json(json_path, plan, result)
    with transport.agreement():
        if first and save:
            save_weights(save, result.weights, result.network)
            wanted = "--links pairs.csv" if result.network["decoder"] else "-o classes.csv"
            again = f" (plancc predict {plan} --weights {save} {wanted})"
            line = f"{save}: the weights{again * (not result.random_labels)}"
            _write_out(lambda out: say(line, out))
    result = predict()  # last: if it fails, nothing is lost
    with transport.agreement():
        if first and result.predicted is not None:
            path, counts = str(result.options.predict), result.predicted
            line = predictions_line(path, result.num_learnt, counts)
            _write_out(lambda out: say(line, out))
            if json_path:
                _write_json(json_path, plan, result)


class _Printed:
    """Prints a run on stdout, and its progress on stderr. All ranks call it, and rank 0 prints.

    With level `QUIET` no progress is printed, with `VERBOSE` a line for every epoch.
    """

    def __init__(self, transport: Transport, plan: str, level: int) -> None:
        self._transport, self._plan = transport, plan
        self._every = {QUIET: math.inf, VERBOSE: 0.0}.get(level, EVERY)
        self._last = self._begun = time.monotonic()
        self._first: tuple[int, float] | None = None

    def begin(self, outline: RunOutline) -> None:
        """Print the outline of the run."""
        self._table, self._epochs = EpochTable(outline), outline.options.epochs
        self._told = len(outline.remarks)
        self._print(lambda out: _print_outline(self._plan, outline, out), outline.remarks)

    def report(self, measure: Measure) -> None:
        """Print an epoch's row if the table shows it, and progress every `_every` seconds."""
        from plancc_runtime.results import summarise

        if self._table.shows(measure.epoch):
            [epoch] = summarise([measure], self._transport)
            self._print(partial(self._table.print_row, epoch))
        if self._transport.rank:
            return
        now = time.monotonic()
        self._first = self._first or (measure.epoch, now)
        if now - self._last < self._every:
            return
        self._last = now
        done, seconds = measure.epoch - self._first[0], now - self._first[1]
        remain = seconds / max(1, done) * (self._epochs - measure.epoch - 1)
        left = f", {remain:.0f} s left" * (done > 0)
        said = f"epoch {measure.epoch}: loss {measure.loss:.6f}{left}"
        say_on_stderr(f"{PROGRAM}: {now - self._begun:.0f} s: {said}")

    def end(self, result: TrainResult) -> None:
        """Print what follows the rows of the epochs, such as the final scores, and new remarks."""
        self._print(lambda out: self._table.print_end(result, out), result.remarks[self._told :])

    def _print(self, print_to: Callable[[Console], None], remarks: Sequence[str] = ()) -> None:
        with self._transport.agreement():
            if self._transport.rank == 0:
                _write_out(print_to)
                for sentence in remarks:
                    say_on_stderr(f"{PROGRAM}: warning: {in_flags(sentence, command)}")


def _check(transport: Transport, plan: str, settings: dict[str, Any]) -> None:
    """Compare the results of a user's class on all ranks and on one rank. Collective.

    Rank 0 prints the differences; PlanccError is raised if one is greater than 1e-9.
    """
    from plancc_runtime.train import check_model

    with transport.agreement():
        train_options = TrainOptions(**settings)
    found = check_model(plan, train_options, transport)
    name, ranks = train_options.model, count_of(transport.size, "rank")
    if transport.rank == 0:
        parts = {"outputs": found.outputs}
        parts |= {f"gradient of {each}": far for each, far in found.gradients.items()}
        lines = [
            f"{name} on {ranks} and on one, {found.vertices:,} vertices, {found.edges:,} edges, "
            "float64: largest differences over the largest value",
            *(f"{far:9.1e}  {part}" for part, far in parts.items()),
        ]
        lines += ["equal to 1e-9"] * found.exact

        def show(out: Console) -> None:
            for line in lines:
                say(line, out)

        _write_out(show)
    if not found.exact:
        where = f", first in layer '{found.first_layer}'" * bool(found.first_layer)
        transport.agree(PlanccError(f"`model` {name}: results on {ranks} and 1 rank differ{where}"))


def _write_json(path: str, plan: str, result: TrainResult) -> None:
    from plancc.files import atomic_write

    with atomic_write(path) as temporary:
        text = json.dumps({"plan": plan, **result.to_dict()}, indent=2)
        temporary.write_text(text + "\n", encoding="utf-8")


def _print_outline(plan: str, outline: RunOutline, out: Console) -> None:
    """Print the network, the task and the execution of a run."""
    for line in (
        *_where_it_resumes(outline),
        _sizes(plan, outline),
        _network(outline),
        _execution(outline),
        *_notes(outline),
    ):
        say(in_flags(line, command), out)


def _where_it_resumes(outline: RunOutline) -> Iterator[str]:
    options = outline.options
    if outline.resumed_from:
        more = "epochs" if outline.first_epoch >= options.epochs else "patience"
        yield (
            f"resumed from {outline.resumed_from}, epoch {outline.first_epoch} of {options.epochs}"
            + f": nothing is left to do; a larger `{more}` continues" * outline.ended
        )


def _sizes(plan: str, outline: RunOutline) -> str:
    header = outline.header
    grid = "" if header.grid is None else f" ({header.grid})"
    return (
        f"{plan}: {header.num_vertices:,} vertices, {header.num_nonzeros:,} nonzeros, "
        f"{count_of(header.num_parts, 'part')}, layout {header.layout}{grid}; "
        f"ranks {outline.num_ranks}, threads per rank {outline.threads}"
    )


def _learns_links(outline: RunOutline) -> bool:
    return outline.target == "link"


def _network(outline: RunOutline) -> str:
    options, origin = outline.options, {False: "from the plan", True: "random"}
    learnt = f"labels {origin[outline.random_labels]}"
    if _learns_links(outline):
        sizes = ", ".join(f"{size:,} {split}" for split, size in outline.split_sizes.items())
        learnt = f"links {sizes}, decoder {options.decoder}, negatives {options.negatives}"
    dropout = f"{options.first_dropout:g} and {options.dropout:g}"
    ways = {
        options.activation: True,
        options.optimizer: True,
        f"lr {options.lr:g}": True,
        f"schedule {options.schedule}": options.schedule != "none",
        f"momentum {options.momentum:g}": options.momentum,
        f"clip norm {options.clip_norm or 0:g}": options.clip_norm is not None,
        f"weight decay {options.weight_decay:g}": options.weight_decay,
        f"dropout {dropout}": options.dropout or options.first_dropout,
        f"attention dropout {options.attention_dropout:g}": options.attention_dropout,
        f"norm {options.norm}": options.norm != "none",
    }
    own = is_own(options.model)
    ways[options.activation] = not own
    model = options.model if own else options.model.upper()
    if options.model_options and own:
        given = ", ".join(f"{name} {value}" for name, value in options.model_options.items())
        model += f" ({given})"
    return (
        f"{model} {' x '.join(map(str, outline.dims))}, "
        f"{', '.join(way for way, taken in ways.items() if taken)}, "
        f"{options.dtype}; features {origin[outline.random_features]}, {learnt}"
    )


def _execution(outline: RunOutline) -> str:
    """Return a line on how the run executes: passes, kernel, words sent, and exchange of rows."""
    header, options, figures = outline.header, outline.options, outline.figures
    on = [name for name in options.passes if name not in outline.passes_off]
    line = f"passes: {', '.join(on) or 'none'}; kernel {outline.kernel}"
    if is_own(options.model):  # which calls none of these
        line = "all rows in every epoch, words as they are sent"
    line += " on the CPU" * (options.aggregate_on == "cpu")
    if figures is not None and figures.plain:
        mean = " on average" * options.sampling.active
        mean += " with the negatives of epoch 0" * _learns_links(outline)
        line += f"; {figures.planned:,} words per epoch{mean}, without passes {figures.plain:,}"
        if figures.reduced:
            line += f"; sums over copies of rows reduce {figures.reduced:,} more"
    if options.row_wire != "fp32":
        line += f"; rows travel as {options.row_wire}"
    if outline.exchange == "nodes":
        line += f"; rows cross once from node to node, on nodes x ranks {header.topology}"
    elif outline.exchange == "relays":
        line += "; rows travel over relays"
    if options.fold != "sync":
        late = f" by {options.delay or DELAY} epochs" * (options.fold == "delayed")
        line += f"; fold {options.fold}{late}"
    setup = outline.setup
    return f"{line}; set-up {1e3 * setup.seconds:.0f} ms, {setup.words_sent:,} numbers sent"


def _notes(outline: RunOutline) -> Iterator[str]:
    """Yield sentences about what is unusual in the run, and about what was left out."""
    topology, sizes = outline.header.topology, outline.split_sizes
    travel = outline.exchange, outline.options.exchange
    if topology is not None and travel == ("flat", "auto"):
        why = f"the plan expects nodes x ranks {topology}, but the ranks are elsewhere"
        yield f"node-aware exchange is not used: {why}"
    for name, why in outline.passes_off.items():
        yield f"pass {name} is off: {why}"
    if outline.pipelining is not None:
        cut = outline.pipelining
        fits = "at least" if cut.granularity >= 1 / cut.stages else "below"
        yield (
            f"pipeline: {cut.stages} stages; bandwidth {cut.bandwidth:,} of {cut.num_rows:,} rows, "
            f"granularity {cut.granularity:.3f}, {fits} 1/{cut.stages}"
        )
    if outline.sampler:
        yield f"mini-batches: {_batches(outline)}"
    if outline.replaced_masks:
        yield f"`split` replaces the plan's masks ({', '.join(outline.replaced_masks)})"
    if not (outline.random_labels or _learns_links(outline)) and set(sizes) == {"train"}:
        why = "the plan has no test mask; `split` 0.6,0.2,0.2 draws masks"
        yield f"{sizes['train']:,} vertices train, but none is tested: {why}"


def _batches(outline: RunOutline) -> str:
    """Return a phrase such as "uniform, batch size 20,000, 17 steps per epoch"."""
    name, *options = outline.sampler.split()
    for option in options:
        key, _, value = option.partition("=")
        number = f"{int(value):,}" if value.isdecimal() else value
        name += f", {key.replace('_', ' ')} {number}"
    by, _, why = outline.drawn_by.partition(": ")
    who = "each rank samples its own rows" if by == "owners" else "every rank samples all rows"
    steps = count_of(outline.steps_per_epoch, "step per epoch")
    return f"{name}, {steps}" + f"; {who} ({why})" * bool(why)


def _write_out(print_to: Callable[[Console], None]) -> None:
    # what this terminal's encoding lacks is escaped: results are never lost for a character
    encoding = sys.stdout.encoding or "utf-8"
    text = io.TextIOWrapper(io.BytesIO(), encoding, errors="backslashreplace", newline="")
    print_to(console(text, line_width() or ANY_WIDTH))
    text.seek(0)
    try:
        sys.stdout.write(text.read())
        sys.stdout.flush()
    except OSError as error:  # a full disk, or a closed pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        raise OutputError(f"cannot print the results: {why_not_written(error)}") from error
