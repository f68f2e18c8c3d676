"""Wan et al. 2025 (MixGCN): feature-parallel plans, pipelines, accelerators, masked products."""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import plancc
from benchmarks.inputs import name_of, on_ranks
from benchmarks.papers.items import (
    REFUTED,
    REPRODUCED,
    SHAPE,
    Bench,
    Claim,
    Finding,
    Item,
    Paper,
    Row,
    Rows,
    geometric_mean,
    listed,
    read,
)
from benchmarks.papers.masked_products import METHODS, compared
from plancc.accelerators.published import comparisons
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
from plancc.sweep import Request

RANKS = (1, 4, 8, 16, 64)
DIMS = (128, 128, 128, 128)
LABELS = {"mop": "mop", "gp": "gp", "1D": "cagnet-1d"}


def _volume(bench: Bench) -> None:
    for path in bench.graphs():
        graph = read(path, symmetrize=True)
        for num_parts in RANKS[:3] if bench.quick else RANKS:
            for model in LABELS:
                case = {"graph": name_of(path), "p": num_parts, "model": model}
                bench.row(case, partial(_split, graph, LABELS[model], num_parts))


def _split(graph: Graph, model: str, num_parts: int) -> Row:
    options: dict[str, Any] = {"partitioner": "metis"} if model == "gp" else {}
    plan = plancc.compile(graph, model, num_parts, **options)
    found = Predictor(DIMS, find_machine("h100"), ()).epoch(tables_of(plan))
    work = found.of_rank["multiply"] + found.of_rank["dense"]
    return {
        "words": found.words,
        "balance": float(work.max() / work.mean()),
        "memory": found.memory["total"],
    }


def _change(rows: Rows, figure: str, last: int, first: int) -> dict[str, float]:
    """The figure at `last` ranks over that at `first`, by model."""
    return {
        model: geometric_mean(
            [*rows.ratios(figure, _case(model, last), _case(model, first)).values()]
        )
        for model in LABELS
    }


def _case(model: str, num_parts: int) -> Row:
    return {"model": model, "p": num_parts}


def _ends(rows: Rows) -> tuple[int, int]:
    found = [p for p in rows.values("p") if p > 1]
    return min(found), max(found)


def _constant(rows: Rows) -> Finding:
    first, last = _ends(rows)
    change = _change(rows, "words", last, first)
    here = f"p = {last} over {first}: {listed(change)}"
    good = change["mop"] < 1.5 and change["1D"] > 2 * change["mop"]
    return Finding(here, REPRODUCED if good and change["gp"] > change["mop"] else REFUTED)


def _less_than_parts(rows: Rows) -> Finding:
    """Where mop moves less than gp: it has a point from which on it does."""
    ratios = {
        p: geometric_mean([*rows.ratios("words", _case("mop", p), _case("gp", p)).values()])
        for p in rows.values("p")
        if p > 1
    }
    each = {
        graph: rows.where(graph=graph).ratios("words", {"model": "mop"}, {"model": "gp"}, "p")
        for graph in rows.values("graph")
    }
    less = sum(value < 1 for found in each.values() for value in found.values())
    total = sum(len(found) for found in each.values())
    here = "mop over gp, by p: " + listed(ratios) + f"; less in {less} of {total} cases"
    return Finding(here, REPRODUCED if less == total else SHAPE if less else REFUTED)


def _balance(rows: Rows) -> Finding:
    last = max(rows.values("p"))
    found = {
        model: max(row["balance"] for row in rows.where(model=model, p=last)) for model in LABELS
    }
    here = f"busiest over mean, p = {last}, worst graph: {listed(found)}"
    return Finding(here, REPRODUCED if found["mop"] < 1.1 < found["gp"] else REFUTED)


def _memory(rows: Rows) -> Finding:
    last = max(rows.values("p"))
    change = _change(rows, "memory", 1, last)
    here = f"predicted, 1 rank over the fullest of {last}: {listed(change, '.1f')}"
    good = change["mop"] == max(change.values())
    verdict = REPRODUCED if good and change["mop"] > 0.7 * last else SHAPE if good else REFUTED
    return Finding(f"{here}; the matrix is whole on every rank of mop", verdict)


FIGURES_9_11 = Item(
    name="constant-volume",
    setting="Words of one epoch without passes, GCN of 3 layers, all widths 128. `gp` (METIS) "
    "stands for DistDGL and PipeGCN, 1D for CAGNET and Sancus.",
    graphs=("soc-Slashdot0902", "fb100-Cornell5", "dblp-2010"),
    columns=("graph", "p", "model", "words", "balance", "memory"),
    measure=_volume,
    claims=(
        Claim(
            "volume of MoP does not grow with the ranks, that of partitions does",
            "Figure 10, Prop. 3.4",
            "constant",
            _constant,
        ),
        Claim("MoP moves less than partitions", "Figure 10", "at all p", _less_than_parts),
        Claim("MoP's work is balanced, METIS' is not", "Figure 11", "1.0", _balance),
        Claim("memory of MoP falls linearly", "Figure 9", "linear", _memory),
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
        request = Request.parse(model)
        assigner = Assigner.of(request.model, gpus, request.options)
        sizes = Sizes(vertices, edges)
        tables = tables_of_sizes(sizes, model, assigner.num_parts, assigner.grid)
        seconds[model] = Predictor(dims, find_machine("h100"), ()).epoch(tables).seconds
    return {"epoch of mop": seconds["mop"], "over 1D": seconds["cagnet-1d"] / seconds["mop"]}


def _ten(rows: Rows) -> Finding:
    best = max(rows, key=lambda row: row["over 1D"])
    last = {row["graph"]: row["over 1D"] for row in rows.where(GPUs=max(GPUS))}
    here = f"{max(GPUS)} GPUs: {listed(last)}; at most {best['over 1D']:.2f}"
    verdict = REPRODUCED if best["over 1D"] > 8 else SHAPE if best["over 1D"] > 1.5 else REFUTED
    return Finding(here, verdict)


FIGURE_7 = Item(
    name="over-cagnet",
    setting="Epochs predicted on `h100` (8 GPUs a node) from the sizes of Table 2, both with the "
    "same computation; the paper's CAGNET is another implementation, and MixGCN-CPU aggregates on "
    "CPUs. DistDGL, PipeGCN and Sancus are not at hand.",
    columns=("graph", "GPUs", "epoch of mop", "over 1D"),
    measure=_over_cagnet,
    claims=(Claim("throughput over CAGNET, 32 GPUs", "Figure 7", "up to 10.4", _ten),),
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


def _hundred(rows: Rows) -> Finding:
    found = {row["graph"]: row["METIS over RCM"] for row in rows}
    best = max(found.values())
    verdict = REPRODUCED if best >= 60 else SHAPE if min(found.values()) > 1 else REFUTED
    return Finding(listed(found, ".1f"), verdict)


TABLE_5 = Item(
    name="rcm-against-metis",
    setting="Seconds of METIS (64 parts) and of RCM on the same symmetrised graph in memory, "
    "without reading or writing; the least of three.",
    graphs=("soc-Slashdot0902", "fb100-Cornell5", "dblp-2010", "USA-road.NE"),
    columns=("graph", "METIS, s", "RCM, s", "METIS over RCM", "stages before", "stages after"),
    measure=_order,
    claims=(Claim("RCM is faster than METIS", "Table 5", "68 to 155 times", _hundred),),
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


def _reordering(rows: Rows) -> Finding:
    found = {row["graph"]: row["reordering of pipeline"] for row in rows}
    best = max(found.values())
    plain = {row["graph"]: row["reordering, no pipeline"] for row in rows}
    here = f"{listed(found)} (without a pipeline, by the cache: {listed(plain)})"
    verdict = REPRODUCED if min(found.values()) > 0.98 and best > 1.05 else REFUTED
    return Finding(here, verdict)


def _pays(rows: Rows) -> Finding:
    found = {
        row["graph"]: row["pipeline, reordered"] / row["reordering, no pipeline"] for row in rows
    }
    verdict = (
        REPRODUCED
        if min(found.values()) > 1.02
        else SHAPE
        if max(found.values()) > 1.02
        else REFUTED
    )
    return Finding(f"reordered rows, with over without: {listed(found)}", verdict)


TABLE_4 = Item(
    name="pipeline",
    setting="Two processes, a core each; all-to-alls take the time of a card of 1 Gbit/s, which "
    "needs "
    f"no core. GCN of 3 layers, hidden {HIDDEN}; the paper has 32 GPUs.",
    graphs=("soc-Slashdot0902", "dblp-2010"),
    columns=(
        "graph",
        "plain, s",
        "reordering, no pipeline",
        "pipeline",
        "pipeline, reordered",
        "reordering of pipeline",
        "stages",
    ),
    measure=_pipeline,
    claims=(
        Claim("reordering speeds up the pipeline", "Table 4", "1.01 to 1.18", _reordering),
        Claim("the pipeline hides communication", "Section 3.2.2", "-", _pays),
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


def _apart(figure: str, most: float) -> Callable[[Rows], Finding]:
    def judge(rows: Rows) -> Finding:
        chosen = rows.where(figure=figure)
        inside = sum(row["apart"] <= 1.1 for row in chosen)
        worst = max(chosen, key=lambda row: row["apart"])
        here = (
            f"{inside} of {len(chosen)} within 10%; the farthest by {worst['apart']:.2f}: "
            f"{worst['data set']} {worst['over or of']}"
        )
        # some of the figures are fitted: never more than the shape
        return Finding(here, SHAPE if worst["apart"] <= most else REFUTED)

    return judge


FIGURE_12 = Item(
    name="accelerators",
    setting="The model of docs/accelerators.md, seven fitted numbers for 35 figures: a "
    "utilisation per machine, three powers or efficiencies. Reddit's speed-ups and the greatest "
    "of the CPU are fitted; per-graph speed-ups over the CPU are inferred from Table 3 by constant "
    "power, only their range is published.",
    columns=("data set", "figure", "over or of", "model", "published", "apart"),
    measure=_accelerators,
    claims=(
        Claim(
            "speed-ups over CPU, HyGCN, AWB-GCN",
            "Figure 12",
            "3.77 to 21.6, 1.32 to 1.80, 1.05 to 1.66",
            _apart("speed-up", 1.3),
        ),
        Claim(
            "energies (those of the CPU a thousand times smaller than printed)",
            "Table 3",
            "-",
            _apart("energy", 2.9),
        ),
        Claim(
            "MixGCN-SPU over the baseline accelerators",
            "Section 1 against Figure 12",
            "up to 3.4 in one place, 1.80 and 1.66 in the other",
            Finding("the paper contradicts itself; the model is fitted to Figure 12", REFUTED),
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


def _skips(kind: str) -> Callable[[Rows], Finding]:
    def judge(rows: Rows) -> Finding:
        best = {
            density: geometric_mean(
                [
                    max(row[method] for method in METHODS[1:])
                    for row in rows.where(mask=kind, density=density)
                ]
            )
            for density in DENSITIES
            if len(rows.where(mask=kind, density=density))
        }
        here = "speed-up of the better of two ways to skip, by density: " + listed(best)
        pays = [density for density, value in best.items() if value > 1.05]
        said = f"; pays up to {max(pays)}" if pays else "; does not pay"
        verdict = REPRODUCED if len(pays) == len(best) else SHAPE if pays else REFUTED
        return Finding(here + said, verdict)

    return judge


S_SPMM = Item(
    name="masked-products",
    setting=f"(A H) masked, {WIDTH} columns of float32, one core. Multiply then mask, against "
    "skipping tiles "
    "of 16 columns that are masked in a row, and against gathering single columns. Masks of "
    "dropout and ReLU mask single elements; masks of whole tiles are what a tile could gain at "
    "best. "
    "The kernels are of this benchmark, the runtime multiplies first.",
    graphs=("fb100-Cornell5", "dblp-2010", "soc-Slashdot0902"),
    columns=("graph", "mask", "density", *METHODS),
    measure=_masked,
    claims=(
        Claim(
            "fusing the mask into the product saves work (on the accelerator)",
            "Section 3.2.1, Eq. 4",
            "proportional to density",
            _skips("elements"),
        ),
        Claim("the same, were whole tiles masked", "-", "-", _skips("tiles")),
    ),
)

NOT_BUILT = Item(
    name="not-built",
    setting="*A in slices that ranks fetch in turn* (Section 5.2.1, beside groups) is not here; "
    "`cagnet-2d --grid 1xP` stores and moves A so. A rank receives all of A in every product. In "
    "the setting of constant-volume the slices of A are, over all words of `mop`, 0.25 to 2.7 at "
    "P = 4, 1.7 to 11.7 at 16 and 19 to 59 at 64, and each is laid out for one product. At P = 64 "
    "(soc-Slashdot0902, fb100-Cornell5, dblp-2010) `--groups 16 --blocks hp` moves 2.14, 4.33 and "
    "0.91 of the words of `mop` in 0.55, 0.27 and 0.60 of its memory; slices would move 23.6, 59.9 "
    "and 20.0 in at best 0.35, 0.09 and 0.53. Nor is *a pipeline across layers* (Figure 5). Were "
    "batches free, it would take 0.80 to 0.89 of a forward pass where messages and computation "
    "take equally long, 0.93 to 1.00 where messages take twice as long or more, and 0.89 to 0.98 "
    "where computation does: a greedy schedule of three layers on one card and one core, with the "
    "dependencies of soc-Slashdot0902 and dblp-2010 in RCM order, 3 to 16 stages. Batches within "
    "layers cost up to 26% in shared memory ([feature parallelism](feature-parallel.md)), and what "
    "stands between two layers would have to work by batches too.",
    claims=(),
)

PAPER = Paper(
    "Wan et al. 2025",
    "Wan, Tao, Du, Zhao, Lin: *MixGCN: Scalable GCN Training by Mixture of Parallelism and "
    "Mixture of Accelerators*",
    "[feature-parallel plans](feature-parallel.md), [accelerators](accelerators.md)",
    (FIGURES_9_11, FIGURE_7, TABLE_5, TABLE_4, FIGURE_12, S_SPMM, NOT_BUILT),
)
