"""What a long command says on stderr while it works, and what it notes of its own call."""

from __future__ import annotations

import shlex
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from plancc_cli.words import in_flags

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from plancc.search import Trial


def command_line() -> str:
    """The command line as it was typed, for the provenance, which is UTF-8."""
    line = shlex.join(["plancc", *sys.argv[1:]])
    return line.encode("utf-8", "backslashreplace").decode()


class Progress:
    """The stage at work and the best that it has found so far, where stderr is a terminal."""

    def __init__(self, console: Console, status: Status) -> None:
        self._console, self._status = console, status
        self._start = time.perf_counter()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """An observer of the compiler."""
        self._start = time.perf_counter()
        self._status.update(f"{name} ...")
        yield
        if self._console.is_terminal:
            seconds = time.perf_counter() - self._start
            self._console.print(f"  {name}: {seconds:.1f} s", style="dim")

    def incumbent(self, who: str, objective: str, trial: Trial) -> None:
        """Show a step of a search if it found the best so far."""
        from plancc_cli.tables import objective_words

        if trial.best:
            seconds = time.perf_counter() - self._start
            found = f"{objective} {objective_words(objective, trial.value)} ({trial.step})"
            self._status.update(f"{who}: {seconds:.1f} s, {found}")


@contextmanager
def progress() -> Iterator[Progress]:
    """Show progress and the compiler's warnings, one line each as they come, on stderr."""
    from rich.console import Console

    console = Console(stderr=True)
    with console.status("") as status, _warnings_on_stderr():
        yield Progress(console, status)


@contextmanager
def _warnings_on_stderr() -> Iterator[None]:
    from plancc.pipeline import PlanccWarning

    def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
        if issubclass(category, PlanccWarning):
            command = click.get_current_context().command
            click.echo(f"plancc: warning: {in_flags(str(message), command)}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", PlanccWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield
