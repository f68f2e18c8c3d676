"""The entry point of `plancc-run`, which handles signals before it begins the slow imports."""

from __future__ import annotations

import os
import sys

from plancc_cli import interrupts

RANKS = (
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "MV2_COMM_WORLD_SIZE",
    "PALS_SIZE",
    "SLURM_STEP_NUM_TASKS",
    "WORLD_SIZE",
)
"""Environment variables in which launchers give the number of ranks, as in `plancc_runtime.launch`.
That module is not imported here, since its import takes long."""


def under_launcher() -> bool:
    """Return whether an environment variable in `RANKS` says that there are several ranks."""
    return any(os.environ.get(name, "1") not in ("", "1") for name in RANKS)


def started_by_launcher() -> bool:
    """Return whether a launcher has started this process as one of several ranks.

    Other programs set a launcher's variables too, so `under_launcher` is not enough.
    """
    if not under_launcher():
        return False
    from plancc_runtime.launch import announced

    return announced()[1] > 1


def main() -> None:
    """Run `plancc-run`, and end the process with the exit code.

    Ranks of a launcher do not handle signals: the launcher ends them.
    """
    interrupts.let_kill()
    from plancc_cli.signals import answering, begin_command, open_streams

    if under_launcher():
        begin_command(answers=False)
        open_streams()
        try:
            interrupts.let_raise()
            _work()
        except KeyboardInterrupt:  # during the imports
            sys.exit("plancc-run: error: interrupted")
    else:
        answering("plancc-run", _work)


def _work() -> None:
    import gc

    from plancc_cli.missing import imports_of

    gc.disable()  # until all is imported: collections would look at torch's objects again and again
    try:
        with imports_of("plancc-run"):
            from plancc_cli.run_command import run

        run()
    finally:
        gc.enable()


if __name__ == "__main__":
    main()
