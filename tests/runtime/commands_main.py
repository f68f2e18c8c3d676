"""Several plancc-run commands on the same ranks, one after the other.

mpirun python commands_main.py FOLDER: FOLDER/commands.json holds a list of lists, the arguments of
every rank for every command. Rank r writes what command k printed to k.r.out and k.r.err and its
exit code to k.r.code.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from plancc_cli.run import main
from plancc_runtime.transport.mpi import load_mpi

folder = Path(sys.argv[1])
world = load_mpi().COMM_WORLD
for k, arguments in enumerate(json.loads((folder / "commands.json").read_text())):
    sys.argv[1:] = arguments[world.rank]
    streams = sys.stdout, sys.stderr
    for number, end in ((1, "out"), (2, "err")):
        file = open(folder / f"{k}.{world.rank}.{end}", "wb")  # noqa: SIM115
        os.dup2(file.fileno(), number)
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = stop.code or 0
    for stream in (sys.stdout, sys.stderr, *streams):
        stream.flush()
    sys.stdout, sys.stderr = streams
    (folder / f"{k}.{world.rank}.code").write_text(str(code))
    world.Barrier()
