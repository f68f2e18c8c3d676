"""What `predict` does inside the ranks: calibrate, then train from every plan.

    mpirun -n RANKS python -m benchmarks.predict_ranks row.h5 edge.h5 --layers 3 --hidden 32 ...

Rank 0 prints JSON: the machine file, and by plan what an epoch took and moved.
"""

from __future__ import annotations

import argparse
import json
import statistics

from plancc_lab.calibrate.command import machine_file
from plancc_lab.calibrate.measure import QUICK, Effort, calibrate
from plancc_runtime.launch import open_transport
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.base import Transport

WARM_UP, EPOCHS = 3, 15
TINY = Effort(
    rows=(512, 4096),
    nonzeros_per_row=(1, 8, 32),
    widths=(4, 32),
    networks=((16, 4), (500, 16), (500, 64)),
    epochs=4,
    samples=1,
    seconds=0.001,
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("plans", nargs="+")
    for name in ("layers", "hidden", "classes"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    transport = open_transport()
    how = TrainOptions(
        layers=given.layers,
        hidden=given.hidden,
        random_features=given.hidden,
        classes=given.classes,
        optimizer="sgd",  # as `plancc.predict` has it
        epochs=WARM_UP + EPOCHS,
        eval_every=0,
        threads=1,
    )
    machine = machine_file(calibrate(transport, TINY if given.quick else QUICK, 1))
    found = {plan: _epochs(plan, how, transport) for plan in given.plans}
    if transport.rank == 0:
        print(json.dumps({"machine": machine, "plans": found}))


def _epochs(plan: str, how: TrainOptions, transport: Transport) -> dict[str, float]:
    """Medians of the slowest rank's seconds; words and messages of all ranks. Collective."""
    epochs = train(plan, how, transport).epochs[WARM_UP:]
    phases = epochs[0].seconds_max
    return {
        **{phase: statistics.median(e.seconds_max[phase] for e in epochs) for phase in phases},
        "words": epochs[0].words_sent,
        "messages": epochs[0].messages_sent,
    }


if __name__ == "__main__":
    main()
