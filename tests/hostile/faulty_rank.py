"""plancc-run with a fault on one rank: python faulty_rank.py WORDS, with PLANCC_FAULT as JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

FAULT = json.loads(os.environ["PLANCC_FAULT"])
RANK = int(os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("RANK", "0")))
ALONE = "--ranks" in sys.argv


def mine() -> bool:
    return ALONE or FAULT["rank"] == RANK


def later() -> None:
    """The fault of a process, once the imports are done."""
    time.sleep(FAULT["after"])
    Path("fault.txt").write_text(str(time.monotonic()))
    numbers = {"killed": "SIGKILL", "stopped": "SIGSTOP", "terminated": "SIGTERM"}
    os.kill(os.getpid(), signal.Signals[numbers[FAULT["fault"]]])


def main() -> None:
    fault = FAULT["fault"]
    words = sys.argv[1:]
    if mine() and fault == "other epochs":
        words[words.index("--epochs") + 1] = "7"
    if mine() and fault == "other seed":
        words += ["--seed", "5"]
    if mine() and fault == "other plan":
        words[0] = FAULT["other"]
    if mine() and fault == "missing plan":
        words[0] = "missing.h5"
    sys.argv = ["plancc-run", *words]
    from plancc_cli.run import main as run

    Path(f"begun-{RANK}.txt").write_text(str(time.monotonic()))
    if mine() and fault in ("killed", "stopped", "terminated"):
        threading.Thread(target=later, daemon=True).start()
    run()


main()
