"""What `boundary-memory` measures inside the ranks: the growth of their memory while they train.

    mpirun -n RANKS python -m benchmarks.papers.memory_ranks plan.h5 OPTIONS-AS-JSON

Rank 0 prints one JSON list: of every rank, the bytes by which its peak, until the last epoch ends,
is above what it held when its libraries and kernels were loaded.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

import numpy as np


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main(plan: str, options: dict[str, Any]) -> None:
    import plancc
    from plancc_runtime.launch import open_transport
    from plancc_runtime.options import TrainOptions
    from plancc_runtime.train import train
    from plancc_runtime.transport.single import SingleTransport

    transport = open_transport()
    few = plancc.compile((4, np.array([[0, 1, 2], [1, 2, 3]])), "rp", 1)
    small = TrainOptions(**(options | {"epochs": 1, "split": None}))
    train((few.header, few.part(0)), small, SingleTransport())  # loads libraries and kernels
    before, peaks = _peak(), []
    # the exact evaluation at the end needs the whole boundary, whatever the rate
    train(plan, TrainOptions(**options), transport, lambda _: peaks.append(_peak()))
    found = transport.gather(peaks[-1] - before)
    if found is not None:
        print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]))
