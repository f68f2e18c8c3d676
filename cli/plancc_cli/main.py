"""`plancc`: the group of all commands, and the one place where errors become exit codes."""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module

import click

from plancc.errors import PlanccError

PROGRAM = "plancc"
COMMANDS = {
    "compile": "plancc_cli.compile",
    "inspect": "plancc_cli.inspect",
    "compare": "plancc_cli.compare",
    "verify": "plancc_cli.verify",
    "export": "plancc_cli.export",
    "dataset": "plancc_cli.dataset",
}


class LazyGroup(click.Group):
    """Imports a command's module when it is asked for, so that ``plancc --help`` is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(COMMANDS[cmd_name]).command
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="plancc", prog_name=PROGRAM)
def command() -> None:
    """Compile sparse graphs into communication plans for distributed GNN training.

    \b
        plancc compile graph.mtx --model hp -p 4 -o plan.h5
        plancc inspect plan.h5
        mpirun -n 4 plancc-run plan.h5 --epochs 5
    """


def main() -> None:
    """Console entry point: one sentence on stderr and exit code 0 (done), 1 (failed), 2 (usage)."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        command.main(prog_name=PROGRAM, standalone_mode=False)
    except PlanccError as error:
        sys.exit(_say(str(error), error.exit_code))
    except click.ClickException as error:
        sys.exit(_say(f"{error.format_message()} (see {PROGRAM} --help)", error.exit_code))
    except (click.Abort, KeyboardInterrupt):
        sys.exit(_say("interrupted; nothing was written", 1))
    except BrokenPipeError:  # whoever read our output is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except MemoryError:
        sys.exit(_say("out of memory", 1))
    except Exception as error:
        if os.environ.get("PLANCC_TRACEBACK"):
            raise
        text = " ".join(str(error).split())
        sys.exit(
            _say(
                f"unexpected {type(error).__name__}: {text} (PLANCC_TRACEBACK=1 shows where; "
                "please report it)",
                1,
            )
        )


def _say(sentence: str, code: int) -> int:
    click.echo(f"{PROGRAM}: error: {sentence}", err=True)
    return code


if __name__ == "__main__":
    main()
