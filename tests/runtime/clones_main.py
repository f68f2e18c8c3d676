"""What every rank of test_clones does: mpirun python clones_main.py TASKS.pkl ANSWERS.pkl"""

from __future__ import annotations

import pickle
import sys
import traceback

from plancc_runtime.launch import open_transport
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train

transport = open_transport(timeout=60)
try:
    with open(sys.argv[1], "rb") as file:
        tasks = pickle.load(file)
    part = tasks["parts"][transport.rank]
    result = train((tasks["header"], part), TrainOptions(**tasks["options"]), transport)
    if transport.rank == 0:
        with open(sys.argv[2], "wb") as file:
            pickle.dump(([epoch.loss for epoch in result.epochs], result.weights), file)
except BaseException:
    traceback.print_exc()
    transport.abort(1)
