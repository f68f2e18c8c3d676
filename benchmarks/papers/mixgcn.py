"""Wan et al. 2025 (MixGCN): feature-parallel plans, pipelines, accelerators, masked products."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from functools import partial
from math import nan
from pathlib import Path
from typing import Any

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
    geometric_mean,
    least,
    most,
    number,
    read,
)
from benchmarks.papers.masked_products import METHODS, compared
from plancc.graph.canonical import to_scipy
from plancc.graph.graph import Graph
from plancc.models.rcm import RcmModel
from plancc.owners.request import Assigner
from plancc.plan.grid import Grid
from plancc.plan.grid_slices import with_grid
from plancc.predict.machine_files import find_machine
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import tables_of
from plancc.predict.sizes import Sizes, tables_of_sizes
from plancc_lab.accelerators.design import CPU
from plancc_lab.accelerators.published import SPEEDUPS, SPU, comparisons
from plancc_lab.contenders import Contender

RANKS = (1, 4, 8, 16, 64)
GPUS_OF_NODE = 8
DIMS = (128, 128, 128, 128)
LABELS = {"mop": "mop", "gp": "gp", "1D": "cagnet-1d"}
OPTIONS: dict[str, dict[str, Any]] = {"gp": {"partitioner": "metis"}}


def _volume(bench: Bench) -> None:
    for path in bench.graphs():
        graph = read(path, symmetrize=True)
        for num_parts in RANKS[:3] if bench.quick else RANKS:
            for model in LABELS:
                case = {"graph": name_of(path), "p": num_parts, "model": model}
                bench.row(case, partial(_split, graph, LABELS[model], num_parts))


def _split(graph: Graph, model: str, num_parts: int) -> Row:
    plan = plancc.compile(graph, model, num_parts, **OPTIONS.get(model, {}))
    found = Predictor(DIMS, find_machine("h100"), ()).epoch(tables_of(plan))
    work = found.of_rank["multiply"] + found.of_rank["dense"]
    return {
        "words": found.words,
        "balance": float(work.max() / work.mean()),
        "memory": found.memory["total"],
    }


def _words(rows: Rows) -> Found:
    """Words at the most ranks over those at 8, one node, by graph."""
    return {
        label: rows.ratios(
            "words", {"model": model, "p": RANKS[-1]}, {"model": model, "p": GPUS_OF_NODE}
        )
        for label, model in (("MoP", "mop"), ("METIS", "gp"), ("1D", "1D"))
    }


def _mop_over_gp(rows: Rows, figure: str) -> dict[str, float]:
    found = rows.ratios(figure, {"model": "mop"}, {"model": "gp"}, "graph", "p")
    return {case: value for case, value in found.items() if not case.endswith(", 1")}


def _balance(rows: Rows) -> Found:
    """The worst graph's, at the most ranks."""
    return {
        label: max((row["balance"] for row in rows.where(model=model, p=RANKS[-1])), default=nan)
        for label, model in (("MoP", "mop"), ("1D", "1D"), ("METIS", "gp"))
    }


def _memory(rows: Rows) -> Found:
    one, many = {"p": 1}, {"p": RANKS[-1]}
    found = {
        model: rows.ratios("memory", one | {"model": model}, many | {"model": model})
        for model in ("mop", "gp")
    }
    return {
        "1 rank / 64 ranks": found["mop"],
        "MoP / METIS": _mop_over_gp(rows, "memory"),
        "METIS, 1 rank over 64": found["gp"],
    }


FIGURES_9_11 = Item(
    name="constant-volume",
    setting="The GCN has 3 layers of width 128. MoP is `mop`. METIS stands for DistDGL and "
    "PipeGCN. 1D stands for CAGNET and Sancus.",
    graphs=("soc-Slashdot0902", "fb100-Cornell5", "dblp-2010"),
    measure=_volume,
    claims=(
        Claim(
            "the volume of MoP is constant, others grow: 64 ranks / 8 ranks",
            "Figure 10, Prop. 3.4",
            {"MoP": number(1, 9 / 8), "METIS": least(9 / 8), "1D": least(9 / 8)},
            _words,
        ),
        Claim(
            "words on 4 to 64 ranks, MoP / METIS",
            "Figure 10",
            {"": most(1)},
            lambda rows: {"": _mop_over_gp(rows, "words")},
        ),
        Claim(
            "work on 64 ranks, busiest rank / mean",
            "Figure 11",
            {"MoP": most(1.05), "1D": most(1.05), "METIS": least(1.05)},
            _balance,
        ),
        Claim(
            "MoP needs least memory, which falls linearly: predicted for the fullest rank",
            "Figure 9",
            {"1 rank / 64 ranks": number(64), "MoP / METIS": most(1)},
            _memory,
            note="every rank of MoP holds the whole matrix",
        ),
    ),
)

SIZES = {  # Table 2: vertices, edges, features, classes
    "Reddit": (232_965, 114_615_892, 602, 41),
    "Orkut": (3_072_441, 117_185_083, 320, 20),
    "Twitter": (41_652_230, 1_468_365_182, 52, 16),
    "Friendster": (65_608_366, 1_806_067_135, 128, 64),
    "papers100M": (111_059_956, 1_615_685_872, 128, 172),
}
GPUS = (8, 16, 32)


def _over_cagnet(bench: Bench) -> None:
    for name in list(SIZES)[: 1 if bench.quick else None]:
        for gpus in GPUS:
            bench.row({"graph": name, "GPUs": gpus}, partial(_faster, name, gpus))


def _faster(name: str, gpus: int) -> Row:
    vertices, edges, features, classes = SIZES[name]
    dims = (features, 128, 128, classes)
    seconds = {}
    for model in ("mop", "cagnet-1d"):
        request = Contender.parse(model)
        assigner = Assigner.of(request.model, gpus, request.options)
        sizes = Sizes(vertices, edges)
        tables = tables_of_sizes(sizes, model, assigner.num_parts, assigner.grid)
        seconds[model] = Predictor(dims, find_machine("h100"), ()).epoch(tables).seconds
    return {"epoch of mop": seconds["mop"], "over 1D": seconds["cagnet-1d"] / seconds["mop"]}


def _over_1d(rows: Rows) -> Found:
    last = {row["graph"]: row["over 1D"] for row in rows.where(GPUs=max(GPUS))}
    return {"": max((row["over 1D"] for row in rows), default=nan), "32 GPUs": last}


def _with_workers(rows: Rows) -> Found:
    return {"": rows.ratios("epoch of mop", {"GPUs": max(GPUS)}, {"GPUs": min(GPUS)})}


FIGURE_7 = Item(
    name="over-cagnet",
    setting="Epochs are predicted for `h100` from the sizes in Table 2 of the paper, whose "
    "MixGCN-CPU aggregates on CPUs.",
    measure=_over_cagnet,
    claims=(
        Claim("greatest throughput, MoP / CAGNET", "Figure 7", {"": number(10.4)}, _over_1d),
        Claim(
            "epoch, 32 GPUs / 8 GPUs",
            "Figure 8",
            {"": most(1)},
            _with_workers,
        ),
    ),
)


def _over_parts(bench: Bench) -> None:
    for path in bench.graphs():
        bench.row({"graph": name_of(path), "GPUs": max(GPUS)}, partial(_parts, path))


def _parts(path: Path) -> Row:
    """The predicted epoch of METIS' parts over that of MoP, and its exchanges alone left out."""
    graph = read(path, symmetrize=True)
    predictor = Predictor(DIMS, find_machine("h100"), ())
    found = {
        model: predictor.epoch(
            tables_of(plancc.compile(graph, model, max(GPUS), **OPTIONS.get(model, {})))
        )
        for model in ("mop", "gp", "cagnet-1d")
    }
    mop = found["mop"].seconds
    return {
        "METIS over MoP": found["gp"].seconds / mop,
        "METIS, no exchange, over MoP": (found["gp"].seconds - found["gp"].communication) / mop,
        "1D over MoP": found["cagnet-1d"].seconds / mop,
    }


def _others(rows: Rows) -> Found:
    columns = ("METIS over MoP", "METIS, no exchange, over MoP", "1D over MoP")
    return {
        f"predicted, {column}": {row["graph"]: row[column] for row in rows} for column in columns
    }


FIGURE_7_PARTS = Item(
    name="over-partitions",
    setting=f"Epochs are predicted for {max(GPUS)} GPUs of `h100` and widths of 128.",
    graphs=("soc-Slashdot0902", "fb100-Cornell5", "dblp-2010"),
    measure=_over_parts,
    claims=(
        Claim(
            "greatest throughput, MixGCN-CPU / systems that partition",
            "Figure 7",
            {"DistDGL": number(4.2), "PipeGCN": number(1.9), "Sancus": number(5.5)},
            _others,
            missing="these systems are not built",
        ),
    ),
)


METIS_PARTS = 64


def _order(bench: Bench) -> None:
    for path in bench.graphs():
        bench.row({"graph": name_of(path)}, partial(_ordered, path))


def _ordered(path: Path) -> Row:
    """Seconds of METIS with 64 parts and of RCM, the least of three; and what RCM brings."""
    graph = read(path, symmetrize=True)
    seconds = {}
    for name, work in (("METIS", partial(_metis, graph)), ("RCM", partial(_rcm, graph))):
        spent = []
        for _ in range(3):
            begin = time.perf_counter()
            work()
            spent.append(time.perf_counter() - begin)
        seconds[name] = min(spent)
    notes = _rcm(graph)
    return {
        "METIS, s": seconds["METIS"],
        "RCM, s": seconds["RCM"],
        "METIS over RCM": seconds["METIS"] / seconds["RCM"],
        "stages before": notes["stages_before"],
        "stages after": notes["stages_after"],
    }


def _metis(graph: Graph) -> None:
    import pymetis

    matrix = to_scipy(graph).tocsr()
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    pymetis.part_graph(METIS_PARTS, xadj=matrix.indptr, adjncy=matrix.indices)


def _rcm(graph: Graph) -> Row:
    """What the model notes; its seconds are those of RCM and of cutting two blocks."""
    return dict(RcmModel().build(graph, 2, balance="rows", seed=1).notes)


def _column(rows: Rows, column: str) -> Found:
    return {"": {row["graph"]: row[column] for row in rows}}


TABLE_5 = Item(
    name="rcm-against-metis",
    setting="METIS (64 parts) and RCM run three times on symmetric graphs; the best time counts.",
    graphs=("soc-Slashdot0902", "fb100-Cornell5", "dblp-2010", "USA-road.NE"),
    measure=_order,
    claims=(
        Claim(
            "time, METIS / RCM",
            "Table 5",
            {"": number(68, 155)},
            partial(_column, column="METIS over RCM"),
        ),
        Claim(
            "stages of the pipeline after reordering",
            "Table 4, Prop. 3.5",
            {"": number(4, 19)},
            partial(_column, column="stages after"),
        ),
    ),
)

HIDDEN, NETWORK = 64, 125e6


def _pipeline(bench: Bench) -> None:
    for path in bench.graphs():
        case = {"graph": name_of(path), "ranks": 2}
        bench.row(case, partial(_pipelined, path, 3 if bench.quick else 12))


def _pipelined(path: Path, rounds: int) -> Row:
    """Medians of epochs in turns, on two processes between which a card of 1 Gbit/s stands."""
    whole = plancc.compile(read(path, symmetrize=True), "block", 1)
    with tempfile.TemporaryDirectory() as folder:
        plan = Path(folder) / "plan.h5"
        with_grid(whole, Grid("feature", 1, 2)).save(plan)
        command = [sys.executable, "-m", "benchmarks.pipeline_ranks", plan, "--hidden", HIDDEN]
        told = on_ranks(2, *command, "--rounds", rounds, "--bandwidth", NETWORK)
    found = json.loads(told)
    seconds = {name: statistics.median(found[name]["seconds"]) for name in found}
    return {
        "plain, s": seconds["plain"],
        "reordering, no pipeline": seconds["plain"] / seconds["rcm"],
        "pipeline": seconds["plain"] / seconds["pipeline"],
        "pipeline, reordered": seconds["plain"] / seconds["pipeline, rcm"],
        "reordering of pipeline": seconds["pipeline"] / seconds["pipeline, rcm"],
        "stages": found["pipeline, rcm"]["pipeline"]["stages"],
    }


def _pays(rows: Rows) -> Found:
    return {
        "": {
            row["graph"]: row["pipeline, reordered"] / row["reordering, no pipeline"]
            for row in rows
        }
    }


def _reordering(rows: Rows) -> Found:
    return {
        **_column(rows, "reordering of pipeline"),
        "without a pipeline, by the cache": {
            r["graph"]: r["reordering, no pipeline"] for r in rows
        },
    }


TABLE_4 = Item(
    name="pipeline",
    setting=f"Two processes (paper: 32 GPUs) exchange data at 1 Gbit/s. The GCN has 3 "
    f"layers of hidden width {HIDDEN}.",
    graphs=("soc-Slashdot0902", "dblp-2010"),
    measure=_pipeline,
    claims=(
        Claim(
            "reordering speeds up the pipeline", "Table 4", {"": number(1.01, 1.18)}, _reordering
        ),
        Claim(
            "epoch with reordered rows, no pipeline / pipeline",
            "§3.2.2",
            {"": least(1)},
            _pays,
        ),
    ),
)


def _accelerators(bench: Bench) -> None:
    for each in comparisons():
        case = {"data set": each.dataset, "figure": each.figure, "over or of": each.machine}
        published = _published(each.low, each.high)
        row = {"model": each.value, "published": published, "apart": each.factor}
        bench.row(case, row.copy)


def _published(low: float, high: float) -> str:
    return f"{low:,.4g}" if high == low else f"{low:,.4g} to {high:,.4g}"


def _modelled(rows: Rows, figure: str, machine: str) -> dict[str, float]:
    """By data set."""
    chosen = rows.where(**{"figure": figure, "over or of": machine})
    return {row["data set"]: row["model"] for row in chosen}


MACHINES = {"CPU": CPU, "HyGCN": "hygcn", "AWB-GCN": "awb-gcn"}


def _speed_ups(rows: Rows) -> Found:
    return {label: _modelled(rows, "speed-up", name) for label, name in MACHINES.items()}


def _energies(rows: Rows) -> Found:
    ours = _modelled(rows, "energy", SPU)
    return {
        label: max((v / ours[k] for k, v in _modelled(rows, "energy", name).items()), default=nan)
        for label, name in MACHINES.items()
        if name != CPU
    }


def _greatest(rows: Rows) -> Found:
    found = [v for name in ("HyGCN", "AWB-GCN") for v in _speed_ups(rows)[name].values()]
    return {"": max(found, default=nan)}


FIGURE_12 = Item(
    name="accelerators",
    setting="The [model](accelerators.md) has seven numbers that are fitted to 35 figures. Figures "
    "of single graphs are inferred from Table 3 of the paper.",
    measure=_accelerators,
    claims=(
        Claim(
            "speed-up of MixGCN-SPU over three machines, modelled",
            "Figure 12",
            {label: number(*SPEEDUPS[name]) for label, name in MACHINES.items()},
            _speed_ups,
            fitted=True,
        ),
        Claim(
            "greatest energy, others / MixGCN-SPU, modelled",
            "§4.4.1, Table 3",
            {"HyGCN": number(3.5), "AWB-GCN": number(5.5)},
            _energies,
            note="Table 3 of the paper has 4.6 for HyGCN",
            fitted=True,
        ),
        Claim(
            "greatest speed-up of MixGCN-SPU over other accelerators, modelled",
            "§1",
            {"": number(3.4)},
            _greatest,
            note="Figure 12 of the paper has 1.80 and 1.66",
            fitted=True,
        ),
    ),
)

DENSITIES = (0.1, 0.3, 0.5, 0.7, 0.9)
WIDTH = 128


def _masked(bench: Bench) -> None:
    for path in bench.graphs():
        graph = read(path, symmetrize=True)
        for density in DENSITIES[:2] if bench.quick else DENSITIES:
            for kind in ("elements", "tiles"):
                case = {"graph": name_of(path), "mask": kind, "density": density}
                bench.row(case, partial(compared, graph, WIDTH, density, kind == "tiles"))


def _skipped(rows: Rows) -> Found:
    return {
        f"density {density:g}": geometric_mean(
            [
                max(row[method] for method in METHODS[1:])
                for row in rows.where(mask="elements", density=density)
            ]
        )
        for density in DENSITIES
    }


S_SPMM = Item(
    name="masked-products",
    setting=f"One core computes A H with {WIDTH} columns; a mask drops some outputs. The speed-up "
    "is the time of the full product, divided by the time if dropped outputs are skipped (one by "
    "one, or in tiles).",
    graphs=("fb100-Cornell5", "dblp-2010", "soc-Slashdot0902"),
    measure=_masked,
    claims=(
        Claim(
            "skipping masked outputs saves work: best speed-up by density of the mask",
            "§3.2.1, Eq. 4",
            {f"density {density:g}": number(1 / density) for density in DENSITIES},
            _skipped,
        ),
    ),
)

NOT_BUILT = Item(
    name="not-built",
    setting="Two proposals of the paper are not built. Ranks that fetch blocks of A (§5.2.1) would "
    "move 19..59 times the words of `mop` on 64 ranks. A pipeline across layers (Figure 5) "
    "would shorten a forward pass by at most 20%.",
    claims=(),
)

PAPER = Paper(
    "Wan et al. 2025",
    "Wan, Tao, Du, Zhao, Lin: *MixGCN: Scalable GCN Training by Mixture of Parallelism and "
    "Mixture of Accelerators*",
    "[feature-parallel plans](../use/grids.md#feature-parallelism), "
    "[accelerators](accelerators.md)",
    (
        FIGURES_9_11,
        FIGURE_7,
        FIGURE_7_PARTS,
        TABLE_5,
        TABLE_4,
        FIGURE_12,
        S_SPMM,
        NOT_BUILT,
    ),
)
