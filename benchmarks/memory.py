"""Peak memory of `plancc compile`, in a process of its own.

VmHWM is asked, not ru_maxrss, which a new process inherits from the one that started it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.inputs import Inputs
from benchmarks.report import Report
from plancc.graph.formats import write_graph
from plancc_datasets import load_dataset

NUM_PARTS = 256

_CHILD = """
import sys
from plancc_cli.main import command
command.main(sys.argv[1:], prog_name="plancc", standalone_mode=False)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(status["VmHWM"].split()[0], file=sys.stderr)
"""


def run(inputs: Inputs) -> Report:
    if not Path("/proc/self/status").exists():
        return Report(["skipped: this system has no /proc/self/status"])
    tiny = inputs.folder / "tiny.mtx"
    write_graph(load_dataset("grid", rows=20, cols=20).graph, tiny)
    own = _peak_bytes(inputs, tiny, 4)
    peak = _peak_bytes(inputs, inputs.rmat_file, NUM_PARTS)
    report = Report([f"{inputs.rmat_name}, plancc compile --model rp -p {NUM_PARTS}"])
    report.add("interpreter that compiled a tiny graph", own / 1e6, unit="MB")
    report.add("peak", peak / 1e6, unit="MB")
    per_nonzero = (peak - own) / inputs.rmat.num_nonzeros
    report.add("above the interpreter's own, per nonzero", per_nonzero, 60.0, unit="bytes")
    return report


def _peak_bytes(inputs: Inputs, graph: Path, num_parts: int) -> int:
    arguments = ["compile", graph, "--model", "rp", "-p", num_parts, "-o", inputs.folder / "m.h5"]
    command = [sys.executable, "-c", _CHILD, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return 1024 * int(done.stderr.split()[-1])
