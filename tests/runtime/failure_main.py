"""A job of which the last rank fails: python failure_main.py TRANSPORT FAULT SECONDS

Rank 0 waits for a message from it, rank 1 has one for it, rank 2 meets it in a collective call,
rank 3 wants a broadcast from it.
"""

import ctypes
import os
import signal
import sys
import time

import numpy as np

from plancc.errors import PlanccError, PlanError
from plancc_runtime import launch
from plancc_runtime.transport.base import say
from plancc_runtime.transport.watchdog import Watchdog

LONG = 4_000_000  # words: no network keeps so many for later


def fail(fault):
    if fault == "sleeps":
        time.sleep(600)
    if fault == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "stops":
        sys.stdout.write(f"late {os.getpid()} {time.time()}\n")
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGSTOP)
    if fault == "holds the lock":
        ctypes.PyDLL(None).sleep(600)
    if fault == "raises":
        raise PlanError("something is damaged")


def main() -> None:
    name, fault, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    if fault == "starts late" and launch.announced()[0] == 1:
        time.sleep(600)
    # on a loaded machine ranks start late
    transport = launch.open_transport(name, timeout=seconds if fault == "starts late" else 200)
    transport.timeout = seconds
    if fault == "device":
        watched = Watchdog(transport)
        watched.later(lambda: True, lambda: "nothing")
        watched.later(lambda: False, lambda: "a device")
        time.sleep(600)
    last = transport.size - 1
    if fault == "nothing":
        main.exchange = transport.exchange([(last - transport.rank, np.ones(1))], [])
        sys.stdout.write(f"rank {transport.rank} of {transport.size} is done\n")
        return
    group = transport.subgroup([3, last] if last > 3 and transport.rank >= 3 else [transport.rank])
    transport.gather(None)
    if fault == "stays":
        transport.close()
        time.sleep(600 * last if transport.rank == last else 0)
        return
    if fault in ("stops", "holds the lock"):
        if transport.rank == last:
            fail(fault)
        transport.allreduce_sum(np.ones(3))
    start = time.monotonic()
    try:
        if transport.rank == last:
            fail(fault)
        elif transport.rank < 2:
            mine = [(last, np.ones(LONG))]
            exchange = transport.exchange(*(([], mine), (mine, []))[transport.rank])
            exchange.start()
            for k in range(transport.rank):
                exchange.send(k)
            exchange.finish()
        elif transport.rank == 2:
            transport.allreduce_sum(np.ones(3))
        else:
            group.broadcast(np.ones(3), 1)
    except PlanccError as error:
        waited = time.monotonic() - start
        say(f"rank {transport.rank}: {error}, after {waited:.1f} s")
        transport.abort(error.exit_code)


main()
