"""plancc-run with a fault on one rank: python faulty_rank.py WORDS, with PLANCC_FAULT as JSON."""

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path

RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK")
"""Variables of Open MPI, MPICH and torchrun."""
FAULT = json.loads(os.environ["PLANCC_FAULT"])
RANK = int(next((os.environ[name] for name in RANKS if name in os.environ), "0"))
ALONE = "--ranks" in sys.argv


def mine() -> bool:
    return ALONE or FAULT["rank"] == RANK


def later() -> None:
    """The fault of a process, once the imports are done."""
    time.sleep(FAULT["after"])
    Path("fault.txt").write_text(str(time.monotonic()))
    numbers = {"killed": "SIGKILL", "stopped": "SIGSTOP", "terminated": "SIGTERM"}
    os.kill(os.getpid(), signal.Signals[numbers[FAULT["fault"]]])


def spoil() -> None:
    """Let a number that is not finite appear on one rank, in the first pass after a while."""
    from plancc_runtime.learner import Learner

    whole, begin = Learner.gradients, time.monotonic()

    def gradients(learner, view, data, *words):
        late = time.monotonic() - begin > FAULT["after"]
        if late and learner.transport.rank == FAULT["rank"] and not Path("fault.txt").exists():
            Path("fault.txt").write_text(str(time.monotonic()))
            wrong = {
                "NaN features": [data.features, view.x, view.fixed],
                "NaN weights": [next(learner.network.parameters()).data],
            }[FAULT["fault"]]
            for tensor in wrong:
                if tensor is not None:
                    tensor[:] = float("nan")
        return whole(learner, view, data, *words)

    Learner.gradients = gradients


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

    if fault in ("NaN features", "NaN weights"):
        spoil()
    Path(f"begun-{RANK}.txt").write_text(str(time.monotonic()))
    if mine() and fault in ("killed", "stopped", "terminated"):
        threading.Thread(target=later, daemon=True).start()
    run()


main()
