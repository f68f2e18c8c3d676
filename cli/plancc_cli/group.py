"""`plancc`: the group of all commands; errors become exit codes here."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import click

from plancc.errors import InputError, PlanccError
from plancc.registry import Registry
from plancc.text import message
from plancc_cli.missing import missing_library
from plancc_cli.run import started_by_launcher
from plancc_cli.signals import ends_with, interrupted, stopped
from plancc_cli.words import Interruptible, interruption, name_flags, unexpected, usage_words

PROGRAM = "plancc"
# The exception of click 8.2 and later for `plancc` without arguments; its message is the help text.
NO_ARGUMENTS = getattr(click.exceptions, "NoArgsIsHelpError", ())
SECTIONS = {
    "Make a plan": {
        "compile": "Compile a graph into a communication plan.",
        "refine": "Refine the owners of a plan's rows.",
        "patch": "Make the plan of a changed graph; few rows change their owner.",
        "study": "Compile graphs with several models, and compare the plans.",
    },
    "Look at it": {
        "inspect": "Show what a plan costs, beside a random partition.",
        "compare": "Compare several plans.",
        "report": "Write a page of pictures, figures and tables for a browser.",
        "verify": "Check every invariant of a plan.",
    },
    "Run it, or predict its time": {
        "predict": "Predict classes of vertices with saved weights.",
        "simulate": "Predict the time of an epoch on a machine.",
        "rehearse": "Execute the epochs of all ranks here, in virtual time.",
        "calibrate": "Measure this machine, for simulate and rehearse.",
        "accelerators": "Model neighbour aggregation on sparse accelerators.",
    },
    "Data in and out": {
        "dataset": "Write a built-in graph or a generated one.",
        "convert": "Write a graph as a folder of arrays that are mapped into memory.",
        "export": "Write a graph or a plan for other tools.",
        "partition": "Partition the hypergraph of an .hgr file.",
    },
    "Others": {
        "doctor": "Check libraries, MPI and GPU.",
        "warm-up": "Compile kernels ahead of time, for images and clusters.",
        "list": "List models, partitioners, samplers, formats, machines, objectives.",
    },
}
"""Commands with their short helps, by section."""
WORDS = {name: words for each in SECTIONS.values() for name, words in each.items()}
TRAIN = "Train from a plan: mpirun -n 4 plancc-run plan.h5"
ON_RANKS = ("compile", "predict", "calibrate", "warm-up")
"""Commands that a launcher may start on several ranks; the others run on one process."""
LAB = (
    *("accelerators", "calibrate", "inspect", "partition"),
    *("rehearse", "report", "simulate", "study"),
)
"""Commands of the lab, each in a folder of its name."""
LISTED = ("models", "partitioners", "samplers", "formats", "machines", "objectives")
"""Kinds of entries that `plancc list` lists."""
LAST = "Others"
"""The section that the help shows in one line."""
COMMANDS = Registry(
    "command",
    "plancc.commands",
    {name: f"plancc_cli.{name.replace('-', '_')}:command" for name in WORDS}
    | {name: f"plancc_lab.{name}.command:command" for name in LAB},
    instance_of="click:Command",
)


class LazyGroup(Interruptible, click.Group):
    """The group of all commands, which imports the module of a command only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if ctx.resilient_parsing and cmd_name not in COMMANDS:  # completion of a mistyped line
            return None
        if cmd_name in LISTED:
            raise InputError(f"unknown command '{cmd_name}' (did you mean list {cmd_name}?)")
        command: click.Command = COMMANDS[cmd_name]
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, WORDS)) + 2
        formatter.write("\n")
        for title, commands in SECTIONS.items():
            if title == LAST:
                formatter.write(f"{title}: {', '.join(commands)}\n")
                break
            formatter.write(f"{title}:\n")
            shown = [("plancc-run", TRAIN)] if "simulate" in commands else []
            for name, words in [*shown, *commands.items()]:
                formatter.write(f"  {name:{widest}}{words}\n")
        if others := [name for name in COMMANDS if name not in WORDS]:
            formatter.write(f"Of other packages: {', '.join(others)}\n")
        formatter.write("Options: --version; --help, also of a command: plancc inspect --help\n")

    def invoke(self, ctx: click.Context) -> Any:
        with interruption():
            from plancc_cli.progress import warn_on_stderr

            try:
                with warn_on_stderr():
                    return super().invoke(ctx)
            except PlanccError as error:
                if (name := ctx.invoked_subcommand or "") in COMMANDS:
                    name_flags(error, self.get_command(ctx, name))
                raise


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    subcommand_metavar="COMMAND ...",
    options_metavar="",
)
@click.version_option(package_name="plancc", prog_name=PROGRAM)
def command() -> None:
    """Compile sparse graphs into communication plans for distributed GNN training."""
    name = click.get_current_context().invoked_subcommand
    if name not in ON_RANKS and started_by_launcher():
        raise InputError(f"`{name}` runs in one process; start it without a launcher (mpirun)")


def run() -> None:
    """Run the command line; an error is one sentence on stderr and exit code 1 or 2."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # in a process of somebody else's
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
        if stopped.is_set():  # a compiler that was interrupted fails later, in other words
            sys.exit(_say(interrupted(), 1))
        if os.environ.get("PLANCC_TRACEBACK"):
            raise
        sys.exit(_say(missing_library(error) or unexpected(error), 1))


def _say(sentence: str, code: int) -> int:
    ends_with(code)
    if started_by_launcher():
        from plancc_cli.ranks import said_alone

        sentence = said_alone(sentence)
    click.echo(f"{PROGRAM}: error: {message(sentence)}", err=True)
    return code
