"""Save a plan under circumstances that cannot be had inside pytest; run by test_writing.py.

python write_failures.py (limit|interrupt) PATH NUMBER
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(sys.path[0]))  # where sealing.py is


import plan_helpers

from plancc.errors import OutputError


def limit(path: str, size: int) -> None:
    """A file may have `size` bytes at most: what a full disk or a quota does."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    plan = plan_helpers.rich_plan(n=400)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    try:
        plan.save(path)
        print("saved")
    except OutputError as error:
        print(error)
    left = [
        f for f in os.listdir("/proc/self/fd") if ".tmp" in os.path.realpath(f"/proc/self/fd/{f}")
    ]
    print(f"open: {left}")


def interrupt(path: str, microseconds: int) -> None:
    """Ctrl-C some time after the save began."""
    plan = plan_helpers.rich_plan(n=1500)
    timer = threading.Timer(microseconds / 1e6, os.kill, (os.getpid(), signal.SIGINT))
    try:
        timer.start()
        plan.save(path, compress=True)
        timer.join()
        signal.pause()
    except KeyboardInterrupt:
        print("saved" if os.path.exists(path) else "nothing")


if __name__ == "__main__":
    {"limit": limit, "interrupt": interrupt}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
