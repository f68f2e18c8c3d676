"""`plancc`: the group of all commands, and the one place where errors become exit codes."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import Any

import click
from click.shell_completion import CompletionItem

from plancc.errors import PlanccError
from plancc.processes import ends_with, interrupted, is_stopping
from plancc.registry import check_choice
from plancc.text import docstring, message
from plancc_cli.missing import missing_library
from plancc_cli.words import Interruptible, interruption, name_flags, unexpected, usage_words

PROGRAM = "plancc"
# What click raises for `plancc` alone, since 8.2; its message is the help text.
NO_ARGUMENTS = getattr(click.exceptions, "NoArgsIsHelpError", ())
COMMANDS = {
    "compile": "Compile a graph into a communication plan.",
    "refine": "Look for better owners of a plan's rows.",
    "inspect": "Show what a plan costs, beside a random partition.",
    "compare": "Show several plans side by side.",
    "study": "Compile graphs with several models, and compare the plans.",
    "report": "Write a page about plans: pictures, figures and tables, for a browser.",
    "predict": "Write classes of all vertices, by saved weights.",
    "estimate": "Say what memory a compile takes, from numbers of vertices and nonzeros.",
    "simulate": "Predict the time of an epoch on a machine.",
    "rehearse": "Execute a plan's epochs in virtual time, all ranks on this computer.",
    "calibrate": "Measure this machine, for simulate and rehearse.",
    "verify": "Check every invariant of a plan.",
    "upgrade": "Write an older plan file in the newest format version.",
    "join": "Write a plan that is in pieces as one file.",
    "convert": "Write a graph as a folder of arrays that are mapped into memory.",
    "export": "Write a graph or a plan for other tools.",
    "accelerators": "Model neighbour aggregation on sparse accelerators.",
    "dataset": "Write a built-in graph or a generated one.",
    "models": "List the models, or explain one.",
    "partitioners": "List the partitioners, or explain one.",
    "samplers": "List the samplers of mini-batches, or explain one.",
    "formats": "List the graph formats.",
    "machines": "List the machines of simulate, or show one.",
    "objectives": "List the objectives of a search.",
    "doctor": "Check this installation: libraries, MPI, threads, memory, GPU.",
    "warm-up": "Compile all kernels ahead, for images and clusters.",
    "completion": "Print the completion script of a shell.",
}
"""Commands and what they do; each is ``plancc_cli.<name>.command`` but those of `LISTINGS`."""
LISTINGS = ("models", "partitioners", "samplers", "formats", "machines", "objectives")
"""Commands in ``plancc_cli.registries``, by their names."""


class LazyGroup(Interruptible, click.Group):
    """Imports a command's module when it is asked for, so that ``plancc --help`` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if ctx.resilient_parsing and cmd_name not in COMMANDS:  # completion of a mistyped line
            return None
        check_choice("command", cmd_name, COMMANDS)
        if cmd_name in LISTINGS:
            module, name = "plancc_cli.registries", cmd_name
        else:
            module, name = f"plancc_cli.{cmd_name.replace('-', '_')}", "command"
        command: click.Command = getattr(import_module(module), name)
        command.help = command.help or docstring(None)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(name, help=words)
            for name, words in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        with interruption():
            from plancc_cli.progress import warnings_on_stderr

            try:
                with warnings_on_stderr():
                    return super().invoke(ctx)
            except PlanccError as error:
                if ctx.invoked_subcommand in COMMANDS:
                    name_flags(error, self.get_command(ctx, ctx.invoked_subcommand))
                raise


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="plancc", prog_name=PROGRAM)
def command() -> None:
    """Compile sparse graphs into communication plans for distributed GNN training.

    \b
        plancc compile graph.mtx --model hp -p 4 -o plan.h5
        plancc inspect plan.h5
        mpirun -n 4 plancc-run plan.h5 --epochs 5
    """


def run() -> None:
    """Do what the command line says: one sentence on stderr and exit code 0, 1 or 2."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # nobody supervises us
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        command.main(prog_name=PROGRAM, standalone_mode=False)
        sys.stdout.flush()
    except PlanccError as error:
        sys.exit(_say(str(error), error.exit_code))
    except NO_ARGUMENTS as error:
        click.echo(error.format_message(), err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        program = context.command_path if context else PROGRAM
        sys.exit(_say(f"{usage_words(error)} (see {program} --help)", error.exit_code))
    except (click.Abort, KeyboardInterrupt):
        if sys.stderr.isatty():
            click.echo(err=True)  # after the terminal's ^C
        sys.exit(_say(interrupted(), 1))
    except BrokenPipeError:  # whoever read our output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:  # ours name their file; this is stdout, or the system
        sys.exit(_say(f"{error.filename or 'output'}: {error.strerror or error}", 1))
    except MemoryError:
        sys.exit(_say("out of memory", 1))
    except Exception as error:
        if is_stopping():  # a compiler that was interrupted fails later, in other words
            sys.exit(_say(interrupted(), 1))
        if os.environ.get("PLANCC_TRACEBACK"):
            raise
        sys.exit(_say(missing_library(error) or unexpected(error), 1))


def _say(sentence: str, code: int) -> int:
    ends_with(code)
    click.echo(f"{PROGRAM}: error: {message(sentence)}", err=True)
    return code
