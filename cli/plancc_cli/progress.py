"""What a long command says on stderr while it works, and the command line that it records."""

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
"""Seconds between two lines."""
QUIET, USUAL, VERBOSE = -1, 0, 1
VERBOSITY = "plancc.verbosity"
"""Key of the context's `meta`."""
COMPILING = (
    "compiling kernels, once after an installation (`plancc warm-up` does it ahead); "
    "not counted in seconds"
)


def command_line() -> str:
    """The command line as it was typed, for the provenance, which is UTF-8."""
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
"""The option ``-q`` of a command that works long."""
verbose = _level_option(
    VERBOSE, "-v", "--verbose", help="Print every step and its seconds, on stderr."
)
"""The option ``-v`` of a command that works in several steps."""


def verbosity(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options ``-q`` and ``-v`` of a command that searches."""
    return quiet(verbose(command))


def verbosity_level() -> int:
    """QUIET, USUAL or VERBOSE, as the command that runs was asked for."""
    return int(click.get_current_context().meta.get(VERBOSITY, USUAL))


class Progress:
    """The stage at work, its seconds, and the best that it has found so far.

    Parameters:
        say: Prints a line for every stage that is done, and for every step of a search.
        budget: Seconds for the search.
    """

    def __init__(self, say: Callable[[str], None] | None, budget: float | None = None) -> None:
        self._say, self._budget = say, budget
        self._stage, self._found = "", ""
        self._begin = self._start = wall_seconds()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """An observer of the compiler."""
        outer = self._stage, self._found, self._start
        inside = f"{self._stage}, {name}" if self._stage else name
        self._stage, self._found, self._start = inside, "", wall_seconds()
        try:
            yield
            if self._say is not None:
                self._say(f"  {self._stage}: {self.seconds():.1f} s")
        finally:
            self._stage, self._found, self._start = outer

    def seconds(self) -> float:
        """Seconds of the stage at work."""
        return wall_seconds() - self._start

    def incumbent(self, who: str, objective: str, trial: Trial) -> None:
        """Take note of a step of a search: it may have found the best so far."""
        from plancc_cli.tables import objective_words

        value = objective_words(objective, trial.value)
        if trial.best:
            self._found = f"{objective} {value} ({trial.step})"
        if self._say is not None:
            self._say(f"    {who}: {trial.step}: {objective} {value}{' *' * trial.best}")

    def note(self, words: str) -> None:
        """Say this of the stage at work."""
        self._found = words

    def line(self) -> str:
        """What is done at this moment; empty between stages."""
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
    """Say on stderr how far the work is, a line every `EVERY` seconds.

    Parameters:
        budget: Seconds for the search.
    """
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
def warnings_on_stderr(program: str = "plancc") -> Iterator[None]:
    """Show the library's warnings, one line each as they come, on stderr, and rank 0's word that
    kernels are compiled."""
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
