"""Save a plan under circumstances that cannot be had inside pytest; run by test_writing.py.

python write_failures.py (limit|interrupt) PATH NUMBER...
"""

import os
import resource
import signal
import sys
import threading

sys.path.insert(0, os.path.dirname(sys.path[0]))  # where sealing.py is


import plan_helpers

from plancc.errors import OutputError


def limit(path: str, *sizes: int) -> None:
    """A file may have so many bytes at most, one limit after the other: a full disk, or a quota.

    Prints how each save ends, the temporary files that are open, and the links to the file.
    """
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    plan = plan_helpers.rich_plan(n=400)
    for size in sizes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, sizes[-1]))
        try:
            plan.save(path)
            print("saved")
        except OutputError as error:
            print(error)
        files = (os.path.realpath(f"/proc/self/fd/{f}") for f in os.listdir("/proc/self/fd"))
        print([file for file in files if ".tmp" in file], os.stat(path).st_nlink)


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
    {"limit": limit, "interrupt": interrupt}[sys.argv[1]](sys.argv[2], *map(int, sys.argv[3:]))
