"""The child process in which a native partitioner runs: ``python -P -m plancc.partitioners.child``.

It reads a pickled job from stdin, and writes a pickled answer to stdout. File descriptor 1 leads to
stderr, so that output of the library cannot mix with the answer.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys

from plancc.errors import PlanccError
from plancc.memory import give_back_at_once
from plancc.processes import die_with_parent


def main() -> int:
    """Run one job from stdin, and write the answer to stdout; return 0, or 1 without an answer."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    give_back_at_once()
    try:
        job = pickle.load(sys.stdin.buffer)
        die_with_parent(job["parent"])
        owner = job["run"](*job["given"], **job["options"])
        reply = {"owner": owner}
    except PlanccError as error:
        reply = {"error": error}
    except MemoryError:
        print("out of memory", file=sys.stderr)
        return 1
    except Exception as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    pickle.dump(reply, answer, protocol=5)
    answer.flush()
    sys.stderr.flush()
    os._exit(0)  # The answer is written: do not wait for a library that crashes while it unloads.


if __name__ == "__main__":
    sys.exit(main())
