"""Command line of the benchmarks. The exit code is 0 whatever the figures are.

`replay OLD_COMMIT` stands apart: it compares two trees, and its exit code says whether they differ.
So do `papers [ITEM ...]` and `choices [NAME ...]`, which keep their rows, and `mutations CONTEXTS`,
whether the tests notice changed lines.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from rich.console import Console

from benchmarks.inputs import Inputs
from benchmarks.report import Report, show
from plancc.threads import usable_cores

NAMES = (
    "lowering",
    "compile",
    "memory",
    "ranks",
    "nodes",
    "relays",
    "slow-link",
    "words",
    "patch",
    "refinement",
    "quality",
    "effort",
    "ablation",
    "edges",
    "libra",
    "auto",
    "minibatches",
    "minibatch-steps",
    "minibatch-ranks",
    "features-on-disk",
    "kernels",
    "boundary",
    "bfloat16",
    "distgnn",
    "epochs",
    "sage",
    "predict",
    "pipeline",
    "collectives",
    "accelerators",
    "papers",
    "scaling",
    "simulate",
    "defaults",
    "choices",
    "extremes",
    "epochs-of-plans",
    "relations",
    "typed-volume",
    "page",
    "start",
    "signals",
    "against-pyg",
    "own-models",
    "links",
    "house",
)


APART = ("replay", "papers", "choices", "mutations")
"""Those that have options of their own; `make bench` leaves out `replay`, which needs a commit, and
`mutations`, which needs the data of `make coverage`."""


def main() -> None:
    if sys.argv[1:2] and sys.argv[1] in APART:
        sys.exit(import_module(f"benchmarks.{sys.argv[1]}").main(sys.argv[2:]))
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    names = f"{', '.join(NAMES)}; default all. {', '.join(APART)} have options of their own"
    parser.add_argument("names", nargs="*", metavar="NAME", help=names)
    parser.add_argument("--quick", action="store_true", help="small graphs: shows that all works")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write every figure as JSON")
    parser.add_argument(
        "--folder", type=Path, help="keep the graphs here and use them again [a temporary one]"
    )
    options = parser.parse_args()
    for name in options.names:
        if name not in NAMES:
            parser.error(f"unknown benchmark '{name}': choose from {', '.join(NAMES)}")

    console = Console(highlight=False)
    console.width = max(console.width, 100)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    console.print(
        f"{platform.processor() or platform.machine()}, {len(usable_cores())} cores, ", end=""
    )
    console.print(f"load {load:.1f} at the start (other work on the machine distorts times)")
    reports: dict[str, Report] = {}
    with tempfile.TemporaryDirectory(prefix="plancc-bench-") as temporary:
        folder = (options.folder or Path(temporary)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        inputs = Inputs(folder, options.quick, kept=options.folder is not None)
        for name in options.names or NAMES:
            with console.status(name):
                reports[name] = import_module(f"benchmarks.{name.replace('-', '_')}").run(inputs)
            show(console, name, reports[name])
    missed = [
        f"{name}: {figure.name}"
        for name, report in reports.items()
        for figure in report.figures
        if figure.reached is False
    ]
    console.print(f"\n{len(missed)} targets missed" + "".join(f"\n  {each}" for each in missed))
    if options.json:
        text = json.dumps({name: report.as_dict() for name, report in reports.items()}, indent=2)
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
