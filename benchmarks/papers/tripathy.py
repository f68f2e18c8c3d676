"""Tripathy et al. 2020 (CAGNET): replication, 2D against 3D, what partitioning is worth.

Epochs are predicted from the sizes of the paper's graphs, which are not at hand.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import Any

import plancc
from benchmarks.inputs import name_of
from benchmarks.papers.items import (
    NO_EFFECT,
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
    read,
)
from benchmarks.scaling import HIDDEN, OF_TABLE_III, summit_parts

MACHINES = {6: "summit", 1: "summit-1gpu"}
"""By GPUs on a node."""
GPUS = (16, 36, 64, 100)
COPIES = (1, 2, 4)
ONE_NODE = 4
"""GPUs of the paper's runs on a single node."""
BARS = ("dbcast", "sbcast", "reduce", "local")


def _bars(name: str, machine: str, gpus: int, way: int | str, hidden: int) -> Row:
    parts = summit_parts(name, machine, gpus, way, hidden)
    if parts is None:
        return {"fits": False}
    return {"fits": True, "epoch": sum(parts.values())} | {bar: parts[bar] for bar in BARS}


def _replication(bench: Bench) -> None:
    for name in list(OF_TABLE_III)[: 1 if bench.quick else None]:
        for per_node, machine in MACHINES.items():
            for gpus in GPUS:
                for way in (*COPIES, "cagnet-2d") if per_node == 6 else COPIES:
                    case = {
                        "graph": name,
                        "GPUs of a node": per_node,
                        "GPUs": gpus,
                        "way": str(way),
                    }
                    bench.row(case, partial(_bars, name, machine, gpus, way, HIDDEN))
    for way in COPIES[:2]:
        case = {"graph": "Reddit", **SIX, "GPUs": ONE_NODE, "way": str(way)}
        bench.row(case, partial(_bars, "Reddit", MACHINES[6], ONE_NODE, way, HIDDEN))


SIX = {"GPUs of a node": 6}


def _of_2_copies(rows: Rows, graphs: tuple[str, ...], per_node: int) -> Found:
    """dbcast of c = 2 over c = 1, of every number of GPUs where both fit."""
    on = {"GPUs of a node": per_node}
    found = rows.ratios("dbcast", on | {"way": "2"}, on | {"way": "1"}, "graph", "GPUs")
    return {"": {case: v for case, v in found.items() if case.startswith(graphs)}}


def _reddit(rows: Rows) -> Found:
    of = rows.where(graph="Reddit", **SIX)
    found = of.ratios("dbcast", {"way": "2"}, {"way": "1"}, "GPUs")
    steps = {over: found.get(over, nan) / found.get(under, nan) for under, over in pairwise(GPUS)}
    return {"ratio / ratio with fewer GPUs": steps, "100 GPUs": found.get(GPUS[-1], nan)}


def _memory(rows: Rows) -> Found:
    """Whether it fits in 16 GB, as 1 or 0."""
    return {
        "": {
            f"{graph} with c = {way} on {gpus}": rows.get(
                "fits", graph=graph, GPUs=gpus, way=way, **SIX
            )
            for graph, way, gpus in (
                ("Amazon", "4", 16),
                ("Protein", "4", 36),
                ("Protein", "1", 16),
            )
        }
    }


def _two_d(rows: Rows) -> Found:
    """2D over the best of 1D and 1.5D."""
    found = {}
    for row in rows.where(way="cagnet-2d", fits=True, **SIX):
        case = {"graph": row["graph"], "GPUs": row["GPUs"]}
        others = [each["epoch"] for each in rows.where(**case, **SIX, fits=True)]
        others.remove(row["epoch"])
        found[", ".join(map(str, case.values()))] = row["epoch"] / min(others, default=nan)
    return {"": found}


def _of_2d(rows: Rows, figure: str, over: int, under: int) -> dict[str, float]:
    """By graph: the figure of 2D with more GPUs over that with fewer."""
    way = SIX | {"way": "cagnet-2d"}
    return rows.ratios(figure, way | {"GPUs": over}, way | {"GPUs": under})


def _beyond_36(rows: Rows) -> Found:
    found: dict[str, dict[str, float]] = {"Reddit": {}, "Amazon, Protein": {}}
    for gpus in (64, 100):
        for graph, value in _of_2d(rows, "epoch", gpus, 36).items():
            label = "Reddit" if graph == "Reddit" else "Amazon, Protein"
            found[label][f"{graph} on {gpus} GPUs"] = value
    return found


def _dense(rows: Rows) -> Found:
    found = _of_2d(rows, "dbcast", 100, 36)
    return {"": {graph: value for graph, value in found.items() if graph != "Reddit"}}


def _per_second(rows: Rows) -> Found:
    epochs = rows.where(graph="Reddit", GPUs=ONE_NODE, **SIX)
    found = {f"c = {row['way']}": 1 / row["epoch"] for row in epochs}
    return {"best": max(found.values(), default=nan), "all": found}


FIGURES_1_2 = Item(
    name="replication",
    setting="Epochs of three layers of hidden width 16 are predicted for `summit` (6 GPUs per "
    "node) and `summit-1gpu`, from the sizes in Table III of the paper.",
    measure=_replication,
    claims=(
        Claim(
            "6 GPUs per node: broadcast time of Amazon and Protein, c = 2 / c = 1",
            "Figure 1",
            {"": number(0.9, 1)},
            partial(_of_2_copies, graphs=("Amazon", "Protein"), per_node=6),
        ),
        Claim(
            "1 GPU per node: broadcast time of Amazon and Protein, c = 2 / c = 1",
            "Figure 2",
            {"": number(0.5)},
            partial(_of_2_copies, graphs=("Amazon", "Protein"), per_node=1),
        ),
        Claim(
            "broadcast time of Reddit, c = 2 / c = 1: falls with more GPUs",
            "Figure 1, §VI-A",
            {"ratio / ratio with fewer GPUs": most(1), "100 GPUs": most(0.5)},
            _reddit,
        ),
        Claim(
            "1 if it fits, else 0: Amazon, c = 4, 16 GPUs; Protein, c = 4, 36 GPUs; c = 1, 16 GPUs",
            "Figure 1, §V-C",
            {"": most(0)},
            _memory,
        ),
        Claim(
            "epoch, 2D / best of 1D and 1.5D",
            "Figure 1, §VI-B",
            {"": least(1)},
            _two_d,
            note="2D here moves half the dense words of the paper's analysis",
        ),
        Claim(
            "2D gains up to 36 GPUs: epoch, 36 GPUs / 16 GPUs",
            "§VI-B",
            {"": most(1 / NO_EFFECT)},
            lambda rows: {"": _of_2d(rows, "epoch", 36, 16)},
            note="Protein does not fit on 16 GPUs",
        ),
        Claim(
            "2D stops gaining: epoch, 64 or 100 GPUs / 36 GPUs",
            "§VI-B",
            {"Reddit": least(1), "Amazon, Protein": number(1)},
            _beyond_36,
        ),
        Claim("dense broadcast time of 2D, 100 GPUs / 36 GPUs", "§VI-B", {"": most(1)}, _dense),
        Claim(
            f"epochs per second on Reddit, one node, {ONE_NODE} GPUs",
            "§VI-A",
            {"best": least(20)},
            _per_second,
        ),
    ),
)

PAIRS = ((25, 27), (64, 64), (121, 125))
"""GPUs of 2D and of 3D that are compared."""


def _three_d(bench: Bench) -> None:
    for name in ("Amazon", "Protein"):
        for pair in PAIRS:
            for way, gpus in zip(("cagnet-2d", "cagnet-3d"), pair, strict=True):
                case = {"graph": name, "GPUs": gpus, "way": way}
                bench.row(case, partial(_bars, name, MACHINES[6], gpus, way, 64))


def _over_2d(rows: Rows, graph: str) -> list[float]:
    """The epoch of 3D over that of 2D, of every pair."""
    of = {"graph": graph}
    return [
        rows.get("epoch", **of, GPUs=three, way="cagnet-3d")
        / rows.get("epoch", **of, GPUs=two, way="cagnet-2d")
        for two, three in PAIRS
    ]


def _amazon(rows: Rows) -> Found:
    first, middle, last = _over_2d(rows, "Amazon")
    return {"27 / 25 GPUs": first, "125 / 121 GPUs": last, "64": middle}


def _protein(rows: Rows) -> Found:
    found = zip(("27 / 25", "64 GPUs", "125 / 121 GPUs"), _over_2d(rows, "Protein"), strict=True)
    return {"": {p: value for p, value in found if value == value}}  # 2D does not fit on 25


def _steps_of_3d(rows: Rows) -> Found:
    way = {"way": "cagnet-3d"}
    return {
        f"{over} / {under} GPUs": rows.ratios("epoch", way | {"GPUs": over}, way | {"GPUs": under})
        for under, over in ((27, 64), (64, 125))
    }


def _communication(rows: Rows) -> Found:
    """3D's share of what it took at 27 GPUs over 2D's of what it took at 25, on Amazon."""

    def moved(way: str, gpus: int) -> float:
        case = {"graph": "Amazon", "way": way, "GPUs": gpus}
        return sum(rows.get(bar, **case) for bar in BARS[:3])

    three = moved("cagnet-3d", 125) / moved("cagnet-3d", 27)
    return {"": three / (moved("cagnet-2d", 121) / moved("cagnet-2d", 25))}


FIGURE_3 = Item(
    name="three-dimensions",
    setting="Epochs of 3 layers of hidden width 64 are predicted for `summit` (graphs: Table III).",
    measure=_three_d,
    claims=(
        Claim(
            "Amazon: epoch, 3D / 2D",
            "Figure 3",
            {"27 / 25 GPUs": least(1), "125 / 121 GPUs": number(1)},
            _amazon,
        ),
        Claim(
            "Protein: epoch, 3D / 2D",
            "Figure 3",
            {"": most(1)},
            _protein,
        ),
        Claim(
            "3D gains up to 125 GPUs: epoch, more GPUs / fewer GPUs",
            "Figure 3",
            {"64 / 27 GPUs": most(1), "125 / 64 GPUs": most(1)},
            _steps_of_3d,
        ),
        Claim(
            "Amazon: communication time scales better with 3D than with 2D: growth, 3D / 2D",
            "§VI-C",
            {"": number(0.90, 0.95)},
            _communication,
        ),
    ),
)

PARTS = 64


def _metis(bench: Bench) -> None:
    for path in bench.graphs():
        for model in ("rp", "gp", "hp"):
            case = {"graph": name_of(path), "p": PARTS, "model": model}
            bench.row(case, partial(_received, path, model))


def _received(path: Path, model: str) -> Row:
    by_model: dict[str, dict[str, Any]] = {
        "rp": {},
        "gp": {"partitioner": "metis"},
        "hp": {"effort": "fast"},
    }
    graph = read(path, symmetrize=True)
    plan = plancc.compile(graph, model, PARTS, **by_model[model])
    found = plan.metrics()
    return {
        "total": found.volume,
        "busiest sends": found.max_sent,
        "busiest receives": found.max_received,
    }


def _shares(rows: Rows) -> Found:
    total, busiest = (
        rows.ratios(figure, {"model": "gp"}, {"model": "rp"})
        for figure in ("total", "busiest receives")
    )
    return {
        "total": total,
        "busiest": busiest,
        "busiest / total": {graph: busiest[graph] / total[graph] for graph in total},
    }


METIS = Item(
    name="busiest-process",
    setting="The rows that 64 parts (or the busiest part) receive with METIS are divided by the "
    "same number with random blocks. fb100-Cornell5 (85 nonzeros per row) stands for Reddit (492).",
    graphs=("fb100-Cornell5", "AmazonPhoto", "facebook_combined", "soc-Slashdot0902"),
    measure=_metis,
    claims=(
        Claim(
            "METIS lowers the total more than the busiest process's volume: METIS / random blocks",
            "§IV-A.6",
            {"total": number(0.28), "busiest": number(0.71), "busiest / total": least(1)},
            _shares,
        ),
    ),
)

PAPER = Paper(
    "Tripathy et al. 2020",
    "Tripathy, Yelick, Buluc: *Reducing Communication in Graph Neural Network Training* (CAGNET), "
    "SC20",
    "[process grids](../use/grids.md)",
    (FIGURES_1_2, FIGURE_3, METIS),
)
