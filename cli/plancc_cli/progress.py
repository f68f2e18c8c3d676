"""Progress of long commands on stderr, and the command line that a plan's provenance records."""

from __future__ import annotations

import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import click

from plancc.clock import announcing, compilation, wall_seconds
from plancc.text import message as fit_to_show
from plancc.text import printable
from plancc_cli.words import in_flags

if TYPE_CHECKING:
    from plancc.search.record import Trial

EVERY = 10.0
"""Seconds between two lines of progress."""
WORDS = {"price": "estimate candidates", "lower": "write tables"}
"""Plain words for stages of the compiler, by name."""
QUIET, USUAL, VERBOSE = -1, 0, 1
VERBOSITY = "plancc.verbosity"
"""Key of the level in the context's `meta`."""
COMPILING = (
    "compiling kernels, once after an installation (`plancc warm-up` does it ahead); "
    "not counted in seconds"
)


def command_line() -> str:
    """Return the command line as it was typed, in UTF-8, for a plan's provenance."""
    line = shlex.join(["plancc", *sys.argv[1:]])
    return line.encode("utf-8", "backslashreplace").decode()


def _set_verbosity(
    level: int, context: click.Context, parameter: click.Parameter, given: bool
) -> None:
    if given:
        context.meta[VERBOSITY] = level
        if level == QUIET:
            compilation().announce = None


def _level_option(level: int, *flags: str, help: str) -> Callable[..., Any]:
    settings: Any = {"is_flag": True, "expose_value": False, "help": help}
    return click.option(*flags, callback=partial(_set_verbosity, level), **settings)


quiet = _level_option(
    QUIET, "-q", "--quiet", help="Print no progress; results and warnings are still printed."
)
"""The option ``-q`` of commands that may take long."""
verbose = _level_option(
    VERBOSE, "-v", "--verbose", help="Print every step and its seconds, on stderr."
)
"""The option ``-v`` of commands that work in several steps."""


def verbosity(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options ``-q`` and ``-v`` to a command that searches."""
    return quiet(verbose(command))


def verbosity_level() -> int:
    """Return the level of verbosity that the command line asks for: QUIET, USUAL or VERBOSE."""
    return int(click.get_current_context().meta.get(VERBOSITY, USUAL))


class Progress:
    """The present stage of a command, its seconds, and the best result of its search so far.

    `say` prints a line for every finished stage and every step of a search. If it is None, no line
    is printed.
    """

    def __init__(self, say: Callable[[str], None] | None, budget: float | None = None) -> None:
        self._say, self._budget = say, budget
        self._stage, self._found = "", ""
        self._begin = self._start = wall_seconds()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Context manager of the stage `name`; the compiler takes this method as its observer."""
        outer = self._stage, self._found, self._start
        words = WORDS.get(name, name)
        inside = f"{self._stage}, {words}" if self._stage else words
        self._stage, self._found, self._start = inside, "", wall_seconds()
        try:
            yield
            if self._say is not None:
                self._say(f"  {self._stage}: {self.seconds():.1f} s")
        finally:
            self._stage, self._found, self._start = outer

    def seconds(self) -> float:
        """Return how many seconds ago the present stage began."""
        return wall_seconds() - self._start

    def incumbent(self, who: str, objective: str, trial: Trial) -> None:
        """Print a step of a search and its value; the progress line shows the best value so far."""
        from plancc_cli.tables import objective_words

        value = objective_words(objective, trial.value)
        if trial.best:
            self._found = f"{objective} {value} ({trial.step})"
        if self._say is not None:
            self._say(f"    {who}: {trial.step}: {objective} {value}{' *' * trial.best}")

    def note(self, words: str) -> None:
        """Set the phrase that ends the `line` about the present stage."""
        self._found = words

    def line(self) -> str:
        """Return a line about the present stage; "" between stages."""
        if not self._stage:
            return ""
        compiler = compilation()
        if compiler.at_work:
            seconds = compiler.seconds()
            return f"{self._stage}: compiling kernel {compiler.count}, {seconds:.0f} s so far"
        seconds = wall_seconds() - self._begin  # one clock for the whole command
        left = ""
        if self._budget is not None:
            left = f", {max(0.0, self._budget - seconds):.0f} s left"
        found = f": {self._found}" if self._found else ""
        return f"{self._stage}, {seconds:.0f} s{left}{found}"


@contextmanager
def progress(budget: float | None = None) -> Iterator[Progress]:
    """Context manager: every `EVERY` seconds, print a line on stderr about the work in progress."""
    level, done = verbosity_level(), Event()

    def say(line: str) -> None:
        click.echo(printable(line), err=True)

    shown = Progress(say if level == VERBOSE else None, budget)
    if level == QUIET:
        yield shown
        return

    def work() -> None:
        begin = time.monotonic()
        while not done.wait(EVERY):
            line = shown.line()
            if line:
                say(f"{time.monotonic() - begin:.0f} s: {line}")

    thread = Thread(target=work, daemon=True, name="progress")
    thread.start()
    try:
        yield shown
    finally:
        done.set()
        thread.join()


@contextmanager
def warn_on_stderr(program: str = "plancc") -> Iterator[None]:
    """Context manager that shows warnings on stderr at once, and a notice if kernels compile."""
    from plancc.errors import PlanccWarning

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if issubclass(category, PlanccWarning):
            context = click.get_current_context(silent=True)  # threads have none
            words = in_flags(str(message), context.command) if context else str(message)
            click.echo(f"{program}: warning: {fit_to_show(words)}", err=True)

    def announce() -> None:
        from plancc_runtime.launch import announced

        if announced()[0] == 0:
            click.echo(f"{program}: {COMPILING}", err=True)

    with announcing(announce), warnings.catch_warnings():
        warnings.simplefilter("always", PlanccWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield
