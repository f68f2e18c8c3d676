"""Reading in a child process, for files that may crash or occupy a native library.

HDF5 keeps most of its structures without checksums. One damaged byte there can crash HDF5, or make
it loop for ever without heeding signals. `ask` starts ``python -P -m MODULE PATH SECONDS PARENT
REQUEST``. It returns the child's reply, or raises an error of one sentence if the child fails in
any way. The module's ``main()`` calls `answer`.
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
"""CPU seconds that a child may use on any machine; usually it needs a tenth of this time."""


def ask(module: str, path: str, seconds_per_byte: float, request: Any = None) -> dict[str, Any]:
    """Return the reply of the child process `module` about a file.

    Parameters:
        module: Full name of a module whose ``main()`` calls `answer`.
        path: The file that it reads.
        seconds_per_byte: CPU time that the child may use for every byte of the file, besides
            `CPU_SECONDS`.
        request (JSON value): Further input of the child.

    Raises:
        InputError: With the child's own sentence, or with a sentence about how the child ended.
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
    """Run the work of a child process within the CPU time on its command line, and end the process.

    Parameters:
        work: Function ``work(path, request)`` that returns the reply, a dict for JSON; not empty.
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
