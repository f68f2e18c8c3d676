"""Words and messages on the wire, counted by the transport of a run, against `plancc inspect`."""

from __future__ import annotations

from benchmarks.inputs import BIN, Inputs, plancc_json, train
from benchmarks.report import Report
from plancc.graph.formats import write_graph
from plancc_datasets import load_dataset

RANKS = 4
MODELS = ("hp", "rp", "gp")


def run(inputs: Inputs) -> Report:
    if not (BIN / "plancc-run").exists():
        return Report(["skipped: plancc-run is not installed"])
    report = Report([f"mpirun -n {RANKS} plancc-run, a plan of {RANKS} parts, one epoch"])
    scale = 10 if inputs.quick else 13
    for name, options in (("rmat", {"scale": scale, "seed": 1}), ("grid", {"rows": 60})):
        graph = inputs.folder / f"{name}-words.mtx"
        write_graph(load_dataset(name, **options).graph, graph)
        for model in MODELS:
            plan = inputs.folder / f"{name}-{model}.h5"
            plancc_json("compile", graph, "--model", model, "-p", RANKS, "-o", plan)
            result = train(plan, RANKS, "--epochs", 2, "--hidden", 24)
            epoch = result["epochs"][-1]
            dims = ",".join(map(str, result["dims"]))
            said = plancc_json("inspect", plan, "--dims", dims)["training"]["passes"][-1]
            for what in ("words", "messages"):
                counted, expected = epoch[f"{what}_sent"], said[what]
                report.add(f"{name}, {model}: {what} per epoch", counted, expected, "=")
    return report
