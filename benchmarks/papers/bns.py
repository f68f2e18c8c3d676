"""Wan et al. 2022 (BNS-GCN): boundary sampling: words, accuracy, time, memory."""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import replace
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

import plancc
from benchmarks.inputs import name_of, on_ranks
from benchmarks.papers.items import (
    Bench,
    Claim,
    Found,
    Item,
    Paper,
    Row,
    Rows,
    least,
    most,
    number,
    points,
    read,
)
from benchmarks.slow_network import SlowNetwork
from benchmarks.training import CLASSES, labelled, trained, training_options
from plancc.plan.plan import Plan
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import Approximation, tables_of
from plancc.report.plans import report as inspected
from plancc_lab.rehearse.command import links_of
from plancc_lab.rehearse.rehearsal import rehearse

PARTS = 8
RATE = 0.1
DENSE = "fb100-Cornell5"
"""The graph that stands for Reddit."""
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "METIS": ("gp", {"partitioner": "metis", "balance": "nnz"}),
    "random": ("rp", {}),
}
COMMON: dict[str, Any] = {"layers": 2, "lr": 0.01, "optimizer": "adam", "parametrization": "paper"}
SETTINGS: dict[str, dict[str, Any]] = {  # of graphs with little that is labelled
    "Cora": {"hidden": 16, "dropout": 0.5, "weight_decay": 5e-4, "scale_features": "rows"},
    "Citeseer": {"hidden": 16, "dropout": 0.5, "weight_decay": 5e-4, "scale_features": "rows"},
}
OTHERS: dict[str, Any] = {"hidden": 64, "dropout": 0.2, "split": (0.3, 0.2, 0.5)}
"""For all other graphs."""
AS_PUBLISHED = ("order", "overlap")
ALL = ("order", "constant", "dead-rows", "overlap")


def _options(path: Path) -> dict[str, Any]:
    return COMMON | SETTINGS.get(name_of(path), OTHERS)


def _compiled(
    path: Path, partition: str, num_parts: int, data: Path | None, clusters: int | None = None
) -> Plan:
    model, options = MODELS[partition]
    graph = read(path, symmetrize=True)
    return plancc.compile(graph, model, num_parts, data=data, clusters=clusters, **options)


def _shares(plan: Plan) -> float:
    """The share of the edges that boundary sampling would drop, were its rate 0."""
    parts = [plan.part(m) for m in range(plan.num_parts)]
    boundary = sum(int((part.column >= part.num_rows).sum()) for part in parts)
    return boundary / (plan.header.num_nonzeros - plan.num_vertices)


def _edges(bench: Bench) -> None:
    epochs, seeds = (10, 1) if bench.quick else (80, 3)
    for path in bench.graphs():
        plan = _compiled(path, "METIS", PARTS, labelled(path))
        drop = 1 - (1 - RATE) * _shares(plan)
        methods: dict[str, dict[str, Any]] = {
            "exact, all passes": {"passes": ALL},
            "exact": {"passes": AS_PUBLISHED},
            "BNS": {"passes": AS_PUBLISHED, "boundary_sampling": RATE},
            "BES": {"passes": AS_PUBLISHED, "boundary_edge_sampling": RATE},
            "DropEdge": {"passes": AS_PUBLISHED, "drop_edge": drop},
        }
        for method, options in methods.items():
            case = {"graph": name_of(path), "p": PARTS, "method": method}
            work = partial(_method, plan, epochs, seeds, _options(path) | options)
            bench.row(case, work)


def _method(plan: Plan, epochs: int, seeds: int, options: dict[str, Any]) -> Row:
    """Words of an epoch and accuracy over seeds, and the time of an epoch on a slow network."""
    results = [trained(plan, epochs=epochs, seed=seed, **options) for seed in range(seeds)]
    accuracy = [result.final.accuracy["test"] for result in results]
    return {
        "words": float(np.mean([e.words_sent for result in results for e in result.epochs])),
        "epoch, s": SlowNetwork().epoch(plan, epochs=10, **options),
        "accuracy": float(np.mean(accuracy)),
        "deviation": float(np.std(accuracy)),
    }


def _over_bns(rows: Rows, figure: str) -> Found:
    return {
        method: rows.ratios(figure, {"method": method}, {"method": "BNS"})
        for method in ("DropEdge", "BES")
    }


def _words(rows: Rows) -> Found:
    """With the passes of this program an exact epoch may move less."""
    bns = {"method": "BNS"}
    return {
        "": rows.ratios("words", bns, {"method": "exact"}),
        "over this program's exact epoch": rows.ratios(
            "words", bns, {"method": "exact, all passes"}
        ),
    }


def _points(rows: Rows, over: Row, under: Row) -> dict[str, float]:
    """Accuracy of one case less that of another, in points, by graph."""
    return {
        graph: 100
        * (rows.get("accuracy", graph=graph, **over) - rows.get("accuracy", graph=graph, **under))
        for graph in rows.values("graph")
    }


TABLE_9 = Item(
    name="edge-sampling",
    setting=f"A GCN of 2 layers runs on {PARTS} METIS parts with sampling rate {RATE} and 3 seeds. "
    f"All methods drop equally many edges. BNS drops boundary rows, BES boundary edges. Ranks are "
    f"threads with simulated network cards of {SlowNetwork()}.",
    graphs=("Cora", "Citeseer", "AmazonPhoto", "fb100-Cornell5"),
    measure=_edges,
    claims=(
        Claim(
            "words, other method / BNS",
            "Table 9",
            {"DropEdge": number(9.5, 9.9), "BES": number(2.6, 6.8)},
            partial(_over_bns, figure="words"),
        ),
        Claim(
            "epoch, other method / BNS",
            "Table 9",
            {"DropEdge": number(1.9, 2.4), "BES": number(1.2, 1.5)},
            partial(_over_bns, figure="epoch, s"),
        ),
        Claim(
            "accuracy of BNS minus exact accuracy, points",
            "Tables 4, 9",
            {"": points(0.06, 0.22)},
            lambda rows: {"": _points(rows, {"method": "BNS"}, {"method": "exact"})},
        ),
        Claim(
            "words, BNS / exact",
            "§3.2",
            {"": number(RATE)},
            _words,
        ),
    ),
)

RATES = (1.0, 0.1, 0.01, 0.0)


def _accuracy(bench: Bench) -> None:
    epochs, seeds = (10, 1) if bench.quick else (100, 3)
    for path in bench.graphs():
        for partition in MODELS:
            plan = _compiled(path, partition, PARTS, labelled(path))
            for rate in RATES[:: 3 if bench.quick else 1]:
                case = {"graph": name_of(path), "partition": partition, "rate": rate}
                bench.row(case, partial(_at_rate, plan, rate, epochs, seeds, _options(path)))


def _at_rate(plan: Plan, rate: float, epochs: int, seeds: int, options: dict[str, Any]) -> Row:
    sampling = {} if rate == 1 else {"boundary_sampling": rate}
    accuracy = [
        trained(plan, epochs=epochs, seed=seed, **options, **sampling).final.accuracy["test"]
        for seed in range(seeds)
    ]
    return {"accuracy": float(np.mean(accuracy)), "deviation": float(np.std(accuracy))}


def _isolated(rows: Rows) -> Found:
    """METIS' parts without any boundary, against the other rates."""
    none = {"partition": "METIS", "rate": 0.0}
    less = {rate: _points(rows, none, none | {"rate": rate}) for rate in RATES[:-1]}
    worst = {graph: max(found[graph] for found in less.values()) for graph in less[1.0]}
    return {"rate 1": less[1.0], "worst other rate": worst}


def _at_random(rows: Rows, rate: float) -> dict[str, float]:
    """Random parts less METIS' at the same rate: the baseline of Table 7."""
    return _points(
        rows, {"partition": "random", "rate": rate}, {"partition": "METIS", "rate": rate}
    )


TABLE_4 = Item(
    name="sampling-rates",
    setting=f"A GCN of 2 layers trains on {PARTS} parts for 100 epochs with 3 seeds.",
    graphs=("Cora", "Citeseer", "AmazonPhoto", "fb100-Cornell5"),
    measure=_accuracy,
    claims=(
        Claim(
            "rate 0 is least accurate: accuracy at rate 0 minus accuracy at another rate, points",
            "Table 4, Figure 7",
            {"rate 1": points(-0.49, 0.02), "worst other rate": most(0)},
            _isolated,
        ),
        Claim(
            "accuracy at rate 0, random parts minus METIS, points",
            "Table 7",
            {"": points(-3.47, -0.31)},
            lambda rows: {"": _at_random(rows, 0.0)},
        ),
        Claim(
            "accuracy, random parts minus METIS, points",
            "Table 7",
            {"rate 0.1": points(-0.20, 0.27), "rate 1": points(0)},
            lambda rows: {"rate 0.1": _at_random(rows, 0.1), "rate 1": _at_random(rows, 1.0)},
        ),
    ),
)

DIMS = (128, 128, 128, CLASSES)
NETWORK = SlowNetwork()


def _throughput(bench: Bench) -> None:
    for path in bench.graphs():
        for partition in MODELS:
            plan = _compiled(path, partition, PARTS, None)
            for rate in RATES[:: 3 if bench.quick else 1]:
                case = {"graph": name_of(path), "partition": partition, "rate": rate}
                bench.row(case, partial(_timed, plan, rate, 4 if bench.quick else 10))
        case = {"graph": name_of(path), "partition": "CAGNET", "rate": 1.0}
        bench.row(case, partial(_broadcasts, path))


def _timed(plan: Plan, rate: float, epochs: int) -> Row:
    """Measured on the slow network, and predicted for it."""
    options: dict[str, Any] = {"features": DIMS[0], "hidden": DIMS[1], "classes": DIMS[-1]}
    if rate < 1:
        options["boundary_sampling"] = rate
    seconds = NETWORK.epoch(
        plan, epochs=epochs, layers=len(DIMS) - 1, passes=AS_PUBLISHED, **options
    )
    return {"epoch, s": seconds, **_predicted(plan, rate), "halo rows": plan.metrics().volume}


def _predicted(plan: Plan, rate: float) -> Row:
    machine = NETWORK.machine(plan.num_parts)
    predictor = Predictor(DIMS, machine, ("order",), Approximation(boundary_sampling=rate))
    found = predictor.epoch(tables_of(plan, copies=True))
    return {"predicted, s": found.seconds, "predicted words": found.words}


def _broadcasts(path: Path) -> Row:
    plan = plancc.compile(read(path, symmetrize=True), "cagnet-1d", PARTS)
    found = Predictor(DIMS, NETWORK.machine(PARTS), ()).epoch(tables_of(plan))
    return {"predicted, s": found.seconds, "predicted words": found.words}


def _speedups(rows: Rows, figure: str, partition: str, rate: float) -> dict[str, float]:
    return rows.ratios(
        figure, {"partition": partition, "rate": 1.0}, {"partition": partition, "rate": rate}
    )


def _faster(rows: Rows) -> Found:
    return {
        "": _speedups(rows, "epoch, s", "METIS", 0.1),
        "predicted": _speedups(rows, "predicted, s", "METIS", 0.1),
        "rate 0.01": _speedups(rows, "epoch, s", "METIS", 0.01),
    }


def _over_broadcasts(rows: Rows) -> Found:
    return {
        f"rate {rate:g}": rows.ratios(
            "predicted, s", {"partition": "CAGNET"}, {"partition": "METIS", "rate": rate}
        )
        for rate in (1.0, 0.01)
    }


def _random_gains(rows: Rows) -> Found:
    gains = {partition: _speedups(rows, "epoch, s", partition, 0.1) for partition in MODELS}
    metis = gains["METIS"]
    more = {graph: value / metis[graph] for graph, value in gains["random"].items()}
    return {"random": gains["random"], "random / METIS": more}


def _cut(rows: Rows) -> Found:
    whole = {"partition": "random", "rate": 1.0}
    return {
        f"rate {rate:g}": rows.ratios("epoch, s", whole | {"rate": rate}, whole)
        for rate in (0.1, 0.01)
    }


TABLE_6 = Item(
    name="sampling-throughput",
    setting=f"A GCN of widths {','.join(map(str, DIMS))} runs on {PARTS} parts. Features travel in "
    f"every epoch. Ranks are threads with simulated network cards of {NETWORK}.",
    graphs=("AmazonPhoto", "fb100-Cornell5", "soc-Slashdot0902"),
    measure=_throughput,
    claims=(
        Claim("epoch, rate 1 / rate 0.1, METIS", "Table 8", {"": number(3.1, 3.4)}, _faster),
        Claim(
            "predicted epoch, CAGNET (paper: c = 2, here: 1D) / BNS",
            "Figure 4",
            {"rate 1": number(1.0, 5.5), "rate 0.01": number(9.2, 13.8)},
            _over_broadcasts,
        ),
        Claim(
            "epoch, rate 1 / rate 0.1: greater for random parts than for METIS",
            "Table 8",
            {"random": number(5.0, 7.3), "random / METIS": least(1)},
            _random_gains,
        ),
        Claim(
            "epoch, given rate / rate 1, random parts",
            "Table 6",
            {"rate 0.1": number(58.7 / 554.1), "rate 0.01": number(6.0 / 554.1)},
            _cut,
        ),
        Claim(
            "throughput, BNS / ROC",
            "Figure 4",
            {"rate 1": number(1.8, 3.7), "rate 0.01": number(8.9, 16.2)},
            missing="ROC is not available",
        ),
    ),
)


def _memory(bench: Bench) -> None:
    for path in bench.graphs():
        num_parts = 2 if bench.quick else PARTS
        plan = _compiled(path, "METIS", num_parts, None)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "plan.h5"
            plan.save(file)
            for rate in RATES[:: 2 if bench.quick else 1]:
                case = {"graph": name_of(path), "p": num_parts, "rate": rate}
                bench.row(case, partial(_held, file, num_parts, rate))


WIDE: dict[str, Any] = {"layers": 4, "hidden": 256, "random_features": 256, "classes": CLASSES}


def _held(file: Path, num_parts: int, rate: float) -> Row:
    options = WIDE | {
        "epochs": 3,
        "threads": 1,
        "passes": AS_PUBLISHED,
        "eval_every": 0,
        "kernel": "numba",
    }
    if rate < 1:
        options |= {"boundary_sampling": rate}
    command = [sys.executable, "-m", "benchmarks.papers.memory_ranks", file, json.dumps(options)]
    peaks = json.loads(on_ranks(num_parts, *command, timeout=500).splitlines()[-1])
    dims = [WIDE["features"], *[WIDE["hidden"]] * (WIDE["layers"] - 1), CLASSES]
    [cost] = inspected(file, dims=dims, boundary_sampling=(rate,)).sampled
    return {
        "fullest rank, MB": max(peaks) / 1e6,
        "mean rank, MB": float(np.mean(peaks)) / 1e6,
        "Eq. 4, MB": cost.max_memory / 1e6,
    }


def _kept(rows: Rows, figure: str, rate: float) -> dict[str, float]:
    """Memory at a rate over that of p = 1, by graph."""
    return rows.ratios(figure, {"rate": rate}, {"rate": 1.0})


def _saved(rows: Rows) -> Found:
    found = _kept(rows, "fullest rank, MB", 0.01)
    return {
        "dense": found.pop(DENSE, nan),
        "sparse": found,
        "by Eq. 4": _kept(rows, "Eq. 4, MB", 0.01),
    }


def _spread(rows: Rows) -> Found:
    """Fullest over mean rank, over that of p = 1."""
    fullest, mean = (_kept(rows, f"{which} rank, MB", 0.01) for which in ("fullest", "mean"))
    return {"": {graph: fullest[graph] / mean[graph] for graph in fullest}}


FIGURE_6 = Item(
    name="boundary-memory",
    setting=f"{PARTS} processes train 4 layers of width 256 on METIS parts. Memory is the peak of "
    "a rank before the exact evaluation, minus its peak before it reads the plan.",
    graphs=("fb100-Cornell5", "AmazonPhoto", "soc-Slashdot0902"),
    measure=_memory,
    claims=(
        Claim(
            "memory, rate 0.01 / rate 1",
            "Figure 6",
            {"dense": number(0.42), "sparse": number(0.73)},
            _saved,
        ),
        Claim(
            "memory, rate 0.1 / rate 1, METIS parts",
            "Table 8",
            {"": number(0.47, 0.83)},
            lambda rows: {"": _kept(rows, "fullest rank, MB", 0.1)},
        ),
        Claim(
            "memory, fullest rank / mean: rate 0.01 / rate 1",
            "Figure 8",
            {"": most(1)},
            _spread,
        ),
    ),
)


def _rehearsed(plan: Plan, epochs: int, **options: Any) -> float:
    """Seconds of a rehearsed epoch: every rank has a core of its own and a card."""
    machine = replace(NETWORK.machine(plan.num_parts), speed=())
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan.h5"
        plan.save(file)
        chosen = training_options(epochs=epochs, **options)
        return rehearse(file, chosen, links_of(machine, plan.num_parts)).seconds


def _attention(bench: Bench) -> None:
    for path in bench.graphs():
        plan = _compiled(path, "METIS", GAT_PARTS, None)
        for rate in RATES[:: 3 if bench.quick else 1]:
            case = {"graph": name_of(path), "rate": rate}
            bench.row(case, partial(_attends, plan, rate))


def _attends(plan: Plan, rate: float) -> Row:
    sampling = {} if rate == 1 else {"boundary_sampling": rate}
    options = {"model": "gat", "layers": 2, "features": DIMS[0], "hidden": 64, "classes": CLASSES}
    return {"epoch, s": _rehearsed(plan, 2, **options, **sampling)}


GAT_PARTS = 10
TABLE_10 = Item(
    name="sampling-attention",
    setting=f"A GAT of widths {DIMS[0]},64,{CLASSES} is rehearsed on {GAT_PARTS} METIS parts with "
    f"simulated network cards of {NETWORK}.",
    graphs=("AmazonPhoto",),
    measure=_attention,
    claims=(
        Claim(
            "epoch of GAT, rate 1 / given rate",
            "Table 10",
            {
                "rate 0.1": number(1.53, 1.83),
                "rate 0.01": number(1.58, 2.06),
                "rate 0": number(1.68, 2.20),
            },
            lambda rows: {
                f"rate {rate:g}": rows.ratios("epoch, s", {"rate": 1.0}, {"rate": rate})
                for rate in RATES[1:]
            },
        ),
    ),
)

METHODS: dict[str, Row] = {
    "BNS": {"boundary_sampling": RATE},
    "GraphSAGE": {"sampler": "neighbour", "fanouts": (5, 10)},
    "ClusterGCN": {"sampler": "cluster"},
    "GraphSAINT": {"sampler": "walk"},
}
EPOCHS = 20, 60
"""Figures of mini-batches, which are three in an epoch or more, and of BNS."""
BATCHES, CLUSTERS = 10, 50
"""A batch has a tenth of the vertices, or of so many clusters."""


def _methods(bench: Bench) -> None:
    seeds = 1 if bench.quick else 2
    for path in bench.graphs():
        for method, options in METHODS.items():
            case = {"graph": name_of(path), "method": method}
            epochs = 4 if bench.quick else EPOCHS[method == "BNS"]
            bench.row(case, partial(_by_method, path, options, epochs, seeds))


def _by_method(path: Path, sampling: Row, epochs: int, seeds: int) -> Row:
    """Boundary sampling on parts; mini-batches, as their authors have them, without any."""
    parts = PARTS if "boundary_sampling" in sampling else 1
    plan = _compiled(path, "METIS", parts, labelled(path), None if parts > 1 else CLUSTERS)
    options = _options(path) | sampling
    if parts == 1:
        options["batch_size"] = plan.num_vertices // BATCHES
    scores = [
        trained(plan, epochs=epochs, seed=seed, **options).final.accuracy["test"]
        for seed in range(seeds)
    ]
    return {
        "epoch, s": _rehearsed(plan, 2, **options),
        "accuracy": float(np.mean(scores)),
        "deviation": float(np.std(scores)),
    }


def _more_accurate(rows: Rows) -> Found:
    return {
        method: _points(rows, {"method": "BNS"}, {"method": method}) for method in [*METHODS][1:]
    }


TABLES_5_11 = Item(
    name="sampling-methods",
    setting=f"A GCN of 2 layers is rehearsed with 2 seeds and simulated network cards of "
    f"{NETWORK}. Boundary sampling at rate {RATE} trains on {PARTS} parts for {EPOCHS[1]} epochs. "
    f"The others train on one rank for {EPOCHS[0]} epochs with mini-batches of a tenth of the "
    f"vertices, fan-outs 5,10, {CLUSTERS} clusters, and walks of 3 steps.",
    graphs=("AmazonPhoto",),
    measure=_methods,
    claims=(
        Claim(
            "epoch, other method / BNS at rate 0.1",
            "Table 11",
            {"GraphSAGE": number(6.20 / 0.198), "ClusterGCN": number(1.35 / 0.198)},
            lambda rows: {
                method: rows.ratios("epoch, s", {"method": method}, {"method": "BNS"})
                for method in [*METHODS][1:]
            },
        ),
        Claim(
            "accuracy, BNS at rate 0.1 minus other method, points",
            "Tables 4, 5",
            {
                "GraphSAGE": points(0.60, 1.93),
                "ClusterGCN": points(0.33, 4.42),
                "GraphSAINT": points(0.02, 0.57),
            },
            _more_accurate,
        ),
    ),
)

PAPER = Paper(
    "Wan et al. 2022",
    "Wan et al.: *BNS-GCN: Efficient Full-Graph Training of Graph Convolutional Networks with "
    "Partition-Parallelism and Random Boundary Node Sampling*, MLSys 2022",
    "[boundary sampling](../use/train.md#sampling-the-boundary)",
    (TABLE_9, TABLE_4, TABLE_6, FIGURE_6, TABLE_10, TABLES_5_11),
)
