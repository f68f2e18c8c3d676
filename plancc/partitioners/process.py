"""`run_in_child`: start a child process in which a native partitioner runs, and get its answer."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plancc.errors import BackendError, PlanccError
from plancc.files import scratch_folder
from plancc.partitioners import OTHERWISE
from plancc.partitioners.adapter import Adapter
from plancc.processes import fate, search_path
from plancc.registry import place_of

STOPPED = "was stopped after"
"""Phrase in the message about a partitioner that exceeded its time limit."""
ASK_SECONDS = 0.5
"""Seconds between two calls of `stop`."""
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def _last_words(path: Path) -> str:
    """Return the end of a child process's output, up to 600 characters, for error messages."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 4000))
        lines = _COLOURS.sub("", file.read().decode("utf-8", "replace")).splitlines()
    words = " | ".join(line.strip() for line in lines if line.strip())
    return f": ...{words[-600:]}" if len(words) > 600 else f": {words}" if words else ""


def _answer(
    child: subprocess.Popen[bytes], time_limit: float, stop: Callable[[], bool] | None
) -> bytes:
    """Return the child's output; raise InterruptedError if `stop` returns true."""
    end = time.monotonic() + time_limit
    while True:
        left = max(end - time.monotonic(), 0.0)
        try:
            return child.communicate(timeout=left if stop is None else min(left, ASK_SECONDS))[0]
        except subprocess.TimeoutExpired:
            if time.monotonic() >= end:
                raise
            if stop is not None and stop():
                raise InterruptedError from None


def advice(run: Callable[..., object]) -> str:
    """Return the end of an error message about an adapter whose function `run` has failed."""
    return OTHERWISE if run.__module__.startswith("plancc.") else f"look at {place_of(run)}"


def run_in_child(
    adapter: Adapter,
    problem: Any,
    num_parts: int,
    options: dict[str, Any],
    time_limit: float,
    stop: Callable[[], bool] | None = None,
) -> Any:
    """Run ``adapter.run`` in a child process; return its answer unchecked.

    The child is killed after `time_limit` seconds, or once `stop` returns true. Failures of the
    child raise BackendError.
    """
    command = [sys.executable, "-P", "-m", "plancc.partitioners.child"]
    with scratch_folder() as folder:
        log, task = folder / "stderr.txt", folder / "job.pickle"
        given: tuple[Any, ...] = (problem, num_parts)
        if adapter.prepare is not None:
            given, options = (), adapter.prepare(problem, num_parts, options, folder)
        job = {"parent": os.getpid(), "run": adapter.run, "given": given, "options": options}
        # A file, not a pipe: after a time-out, communicate() does not send the rest.
        with task.open("wb") as file:
            pickle.dump(job, file, protocol=5)
        del job, given, options, problem  # the child reads them from the file
        with (
            log.open("wb") as stderr,
            task.open("rb") as stdin,
            subprocess.Popen(
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=folder,
                env=os.environ | {"PYTHONPATH": search_path()},
            ) as child,
        ):
            try:
                answer = _answer(child, time_limit, stop)
            except subprocess.TimeoutExpired:
                told = f"{STOPPED} {time_limit:.3g} s without a partition{_last_words(log)}"
                raise BackendError(f"{adapter.name} {told}; {advice(adapter.run)}") from None
            except InterruptedError:
                raise BackendError(f"{adapter.name} was stopped") from None
            finally:
                child.kill()
        if child.returncode != 0:
            told = f"{fate(child.returncode)}{_last_words(log)}"
            raise BackendError(f"{adapter.name} {told}; {advice(adapter.run)}")
        try:
            reply = pickle.loads(answer)
        except Exception:
            told = f"ended without an answer{_last_words(log)}"
            raise BackendError(f"{adapter.name} {told}; {advice(adapter.run)}") from None
    if isinstance(reply.get("error"), PlanccError):
        raise reply["error"]
    return reply.get("owner")
