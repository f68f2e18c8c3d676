"""Read files in a child process, because a damaged file may crash a native library or block it.

One damaged byte can crash HDF5, or make HDF5 loop for ever and ignore signals. `ask` starts
``python -P -m MODULE PATH SECONDS PARENT REQUEST``, whose ``main()`` calls `answer`.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from plancc.errors import InputError, PlanccError
from plancc.processes import die_with_parent, fate, search_path
from plancc.text import shown

CPU_SECONDS = 4
"""CPU seconds that a child may use for a file of any size; usually it needs a tenth of them."""


def ask(module: str, path: str, seconds_per_byte: float, request: Any = None) -> dict[str, Any]:
    """Start `module` in a child process that reads a file; return the child's reply.

    The ``main()`` of `module` calls `answer`. The child may use `CPU_SECONDS` of CPU time, plus
    `seconds_per_byte` for every byte of the file. A crash, a timeout or a missing reply raises
    InputError.
    """
    seconds = int(CPU_SECONDS + os.path.getsize(path) * seconds_per_byte)
    words = [path, str(seconds), str(os.getpid()), json.dumps(request)]
    child = subprocess.run(
        [sys.executable, "-P", "-m", module, *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        env=os.environ | {"PYTHONPATH": search_path()},
    )
    if child.returncode == -signal.SIGXCPU:
        raise InputError(f"{path}: the file is damaged: HDF5 does not finish reading it")
    try:
        reply: dict[str, Any] = json.loads(child.stdout) if child.returncode == 0 else {}
    except ValueError:
        reply = {}
    if not reply:
        last = child.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        raise InputError(
            f"{path}: the file is damaged: the process that reads it {fate(child.returncode)}"
            + (f": {shown(last)}" if last else "")
        )
    if "error" in reply:
        raise InputError(reply["error"])
    return reply


def _limit_cpu(seconds: int) -> None:
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    if hard != resource.RLIM_INFINITY:
        seconds = min(seconds, hard)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, hard))


def answer(work: Callable[[str, Any], dict[str, Any]]) -> None:
    """Do the work of a child process, print the reply, and end the process.

    ``work(path, request)`` returns the reply: a dict that is not empty, for JSON.
    """
    path, seconds, parent, request = sys.argv[1:]
    die_with_parent(int(parent))
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _limit_cpu(int(seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        reply = work(path, json.loads(request))
    except PlanccError as error:
        reply = {"error": str(error)}
    except OSError as error:
        reply = {"error": f"{path}: {error}"}
    except MemoryError:
        reply = {"error": f"{path}: not enough memory to read it"}
    json.dump(reply, sys.stdout, default=str)
    sys.stdout.flush()
    os._exit(0)  # does not wait for a library that crashes while it unloads
