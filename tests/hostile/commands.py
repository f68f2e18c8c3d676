"""Commands in this process, as a user would type them, and the manners that they must have."""

import io
import os
import re
import signal
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from .attack import Finding

LONGEST = 2000
"""Characters of one line on stderr, the folder's name left out."""


def run_command(folder: Path, *words: str, hungry: bool = False) -> str:
    """`plancc WORDS` or, where the first word is "plancc-run", that: "ok" or "refused".

    Parameters:
        folder: Left out where it stands in what is said.
        words: str.
        hungry: Its options may ask for more memory than there is.

    Raises:
        Finding: For what no command may do: an exit code other than 0, 1 and 2, an unexpected
            exception, control characters on either stream, a failure without a sentence or with
            several.
    """
    program = words[0] if words[0].startswith("plancc") else "plancc"
    code, out, err = _in_process(_main_of(program), [program, *words[words[0] == program :]])
    line = " ".join(words)[:120]
    if code not in (0, 1, 2):
        raise Finding("manners", f"{line}: exit code {code}")
    if "please report it" in err or "Traceback (" in err:
        raise Finding("traceback", f"{err.strip().replace(str(folder), '')[-300:]}")
    if "out of memory" in err and not hungry:
        raise Finding("memory", f"{line}: {err.strip()[-200:]}")
    for name, text in (("stdout", out), ("stderr", err)):
        if wrong := _control(text):
            raise Finding("manners", f"{words[0]}: {name} holds {wrong!a}")
    errors = [each for each in err.splitlines() if re.match(rf"{program}[a-z ]*: error: ", each)]
    if code and len(errors) != 1:
        raise Finding("manners", f"{line}: exit code {code} with {len(errors)} errors")
    if code == 0 and errors:
        raise Finding("manners", f"{line}: exit code 0 and an error")
    longest = max((len(each.replace(str(folder), "")) for each in err.splitlines()), default=0)
    if longest > LONGEST:
        raise Finding("manners", f"{line}: a line of {longest} characters on stderr")
    return "refused" if code else "ok"


def _control(text: str) -> str:
    """The first control character but line ends and tabs; "" if there is none."""
    found = re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", text)
    return found[0] if found else ""


def _main_of(program: str) -> Callable[[], None]:
    if program == "plancc":
        from plancc_cli.main import main
    else:
        from plancc_cli.run import main
    return main


def _in_process(main: Callable[[], None], argv: list[str]) -> tuple[object, str, str]:
    out, err = io.StringIO(), io.StringIO()
    handlers = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)}
    code: object = 0
    try:
        with (
            patch.object(sys, "argv", argv),
            patch.object(os, "_exit", sys.exit),
            redirect_stdout(out),
            redirect_stderr(err),
        ):
            main()
    except SystemExit as stop:
        code = 0 if stop.code is None else stop.code
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return code, out.getvalue(), err.getvalue()
