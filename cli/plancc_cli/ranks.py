"""Running a command on several ranks: one error message, and the same exit code on all ranks."""

from __future__ import annotations

import math
import os
import sys
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from plancc.errors import InputError, PlanccError, Stopped
from plancc.text import message, printable
from plancc_cli import signals
from plancc_cli.missing import missing_library
from plancc_cli.words import in_flags, unexpected
from plancc_runtime import launch
from plancc_runtime.transport.base import is_lack_of_memory

if TYPE_CHECKING:
    from plancc.plan.values import Header
    from plancc_runtime.transport.base import Transport

ALONE = 3
"""Seconds that a rank waits for rank 0 before the rank prints its own error."""


class RankJob:
    """A command that runs on several ranks, which are threads or processes of a launcher."""

    def __init__(self, program: str, command: click.Command) -> None:
        self.program, self.command = program, command

    def run(
        self,
        ranks: int | None,
        transport_name: str,
        timeout: float,
        work: Callable[[Transport], None],
    ) -> int:
        """Call ``work(transport)`` on all ranks, and return the exit code.

        A launcher has started the ranks, or `ranks` threads are used. A timeout of 0 is no limit.
        """
        try:
            if math.isnan(timeout):
                raise InputError(f"--timeout {timeout}: give seconds, or 0 for no limit")
            if ranks is not None:
                launch.check_no_launcher(ranks, transport_name)
                launch.need_torch(self.program)
                return self.in_threads(ranks, timeout, work)
            transport = launch.open_transport(transport_name, timeout, self.say)
        except PlanccError as error:  # the ranks cannot talk to each other
            return self.say_alone(str(error), error.exit_code)
        return self.together(transport, lambda: work(transport))

    def together(self, transport: Transport, work: Callable[[], None]) -> int:
        """Do `work` on all ranks, and return the exit code, the same on all ranks. Collective.

        Rank 0 prints an error that all ranks raised. A rank with another error prints it and ends
        the job, because the other ranks wait.
        """
        try:
            work()
            transport.close()
            return 0
        except (Exception, KeyboardInterrupt) as error:
            sentence, code = told(error)
            failure = error
            if error is transport.agreed_error:
                if transport.rank == 0:
                    self.say(sentence, not isinstance(error, Stopped), error)
                transport.gather(None)  # mpirun kills all when one ends: let rank 0 print first
                transport.close()
                return code
        if transport.size > 1:
            if transport.rank and isinstance(failure, InputError):
                time.sleep(ALONE)  # if rank 0 fails too, it ends the job in this time
            self.say(f"rank {transport.rank}: {sentence}", error=failure)
            transport.abort(code)
        else:
            signals.ends_with(code)
            self.say(sentence, error=failure)
        return code

    def in_threads(self, ranks: int, timeout: float, work: Callable[[Transport], None]) -> int:
        """Do `work` on one thread for each rank; then end this process with the exit code."""
        from plancc_runtime.transport.local import run_ranks

        try:
            run_ranks(ranks, work, timeout)
            sys.stdout.flush()
            sys.stderr.flush()
            # threads that torch keeps per rank thread do not always survive a normal exit
            os._exit(0)
        except (Exception, KeyboardInterrupt) as error:
            sentence, code = told(error)
            signals.ends_with(code)
            self.say(sentence, not isinstance(error, Stopped), error)
        sys.stdout.flush()
        signals.clean_up()
        os._exit(code)  # other ranks may still compute, and nothing ends a thread

    def say(self, sentence: str, is_error: bool = True, error: BaseException | None = None) -> None:
        """Print a sentence on stderr, after "error: " if `is_error`, and then the error's notes."""
        text = message(in_flags(sentence, self.command))
        said = [f"{self.program}: {'error: ' * is_error}{text}"]
        if isinstance(error, PlanccError):
            notes = "\n".join(getattr(error, "__notes__", ()))
            said += map(printable, notes.splitlines())
        sys.stderr.write("\n".join(said) + "\n")
        sys.stderr.flush()

    def say_alone(self, sentence: str, code: int) -> int:
        """Print an error of a rank that cannot reach the other ranks, and return `code`."""
        signals.ends_with(code)
        self.say(said_alone(sentence))
        return code


def said_alone(sentence: str) -> str:
    """Return the sentence about an error, for a rank that cannot reach the other ranks.

    Ranks except 0 first wait `ALONE` seconds: if all ranks have this error, rank 0 prints it, and
    the launcher kills the others. A rank that survives adds its number.
    """
    rank, _ = launch.announced()
    if rank == 0:
        return sentence
    time.sleep(ALONE)
    return f"rank {rank}: {sentence}"


def checked_header(plan: str, ranks: int | None) -> Header | None:
    """Return the header of a plan, before torch is loaded; None if a launcher started the ranks.

    Under a launcher, all ranks open the plan together. Raises PlanError for an invalid plan, and
    InputError if there are more `ranks` than parts.
    """
    if launch.announced()[1] > 1:
        return None
    from plancc.plan.rank_parts import check_num_ranks
    from plancc.plan.reader import PlanFile

    with PlanFile(plan) as file:
        if ranks is not None:
            check_num_ranks(plan, file.header, ranks)
        return file.header


def told(error: BaseException) -> tuple[str, int]:
    """Return a sentence that describes an error, and the exit code of the program."""
    # native code that was interrupted fails with another message
    if isinstance(error, KeyboardInterrupt) or signals.stopped.is_set():
        # what other ranks have written is not known here
        return signals.interrupted().removesuffix("; nothing was written"), 1
    if isinstance(error, PlanccError):
        return str(error), error.exit_code
    if is_lack_of_memory(error):
        return "out of memory", 1
    if os.environ.get("PLANCC_TRACEBACK"):
        traceback.print_exception(error)
    missing = missing_library(error)
    if missing is not None:
        return missing, 1
    return unexpected(error), 1
