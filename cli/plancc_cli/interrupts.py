"""How Ctrl-C ends a program before the program installs its own signal handlers.

A signal may come during an import, so this module imports almost nothing.
"""

import _signal  # type: ignore[import-not-found]  # `signal` makes its enumerations first


def let_kill() -> None:
    """Let Ctrl-C end the process at once, without a Python traceback from an unfinished import."""
    _replace(_signal.default_int_handler, _signal.SIG_DFL)


def let_raise() -> None:
    """Let Ctrl-C raise KeyboardInterrupt again."""
    _replace(_signal.SIG_DFL, _signal.default_int_handler)


def _replace(old: object, new: object) -> None:
    if _signal.getsignal(_signal.SIGINT) == old:
        try:  # noqa: SIM105  contextlib takes its time
            _signal.signal(_signal.SIGINT, new)
        except ValueError:  # somebody else's program calls us in a thread
            pass
