"""Ctrl-C before and after a program answers signals itself.

Imports next to nothing, since a signal may come meanwhile.
"""

import _signal  # type: ignore[import-not-found]  # `signal` makes its enumerations first
import os
import sys


def let_kill(script: str = "") -> None:
    """Let Ctrl-C end the process as it ends one without Python: no traceback of half an import.

    With the name of a console script, in that script only: whoever else imports us has handlers.
    """
    if not script or os.path.basename(sys.argv[0]) == script:
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
