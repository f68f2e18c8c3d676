"""Md et al. 2021 (DistGNN): vertex cuts, late sums, full batch against sampling, blocking."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import nan
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import plancc
from benchmarks.distgnn import ALGORITHMS, DELAY, HIDDEN, NETWORK, Copies
from benchmarks.inputs import name_of
from benchmarks.papers import single_node
from benchmarks.papers.cache_reuse import reuse
from benchmarks.papers.items import (
    NO_EFFECT,
    POINTS,
    Bench,
    Claim,
    Found,
    Item,
    Paper,
    Published,
    Row,
    Rows,
    least,
    most,
    number,
    read,
)
from benchmarks.slow_network import SlowNetwork
from benchmarks.training import CLASSES, labelled, trained
from plancc.graph.canonical import build_graph, to_scipy
from plancc.graph.graph import Graph
from plancc.predict.machine import Compute, Node
from plancc.predict.machine_files import find_machine
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import Approximation, tables_of
from plancc.predict.sizes import even_tables
from plancc.sampling import Population, make_sampler

PARTS = (2, 4, 8, 16, 32, 64, 128)
REDDIT = {2: 1.75, 4: 2.94, 8: 4.66, 16: 6.93}
PRODUCTS = {2: 1.49, 4: 2.16, 8: 2.98, 16: 3.90}


def _factors(bench: Bench) -> None:
    for path in bench.graphs():
        graph = read(path, symmetrize=True)
        for num_parts in PARTS[:3] if bench.quick else PARTS:
            case = {"graph": name_of(path), "p": num_parts}
            bench.row(case, partial(_replicated, graph, num_parts))


def _replicated(graph: Graph, num_parts: int) -> Row:
    plan = plancc.compile(graph, "libra", num_parts, seed=1)
    copies = Copies.of(plan)
    return {
        "per vertex": graph.num_nonzeros / graph.num_vertices,
        "replication factor": copies.replication_factor,
        "imbalance": plan.metrics().nonzero_imbalance,
    }


DENSE, MIDDLE = "fb100-Cornell5", "AmazonPhoto"
"""What stands for Reddit and for OGBN-Products."""


def _copies(rows: Rows) -> Found:
    dense, middle = (
        {f"{of}, {p} parts": rows.get("replication factor", graph=own, p=p) for p in (2, 4, 8, 16)}
        for of, own in (("Reddit", DENSE), ("Products", MIDDLE))
    )
    grows = {
        graph: min(b / a for a, b in pairwise(each["replication factor"] for each in of))
        for graph in rows.values("graph")
        if len(of := rows.where(graph=graph)) > 1
    }
    return {**dense, **middle, "factor with twice the parts / factor": grows}


TABLE_4 = Item(
    name="replication-factors",
    setting="The factor is the mean number of copies of a vertex with `libra`. Reddit has 492 "
    "neighbours per vertex, OGBN-Products 51, fb100-Cornell5 85.",
    graphs=("fb100-Cornell5", "AmazonPhoto", "soc-Slashdot0902", "dblp-2010"),
    measure=_factors,
    claims=(
        Claim(
            f"replication factor ({DENSE} stands for Reddit, {MIDDLE} for Products)",
            "Table 4",
            {
                **{f"Reddit, {p} parts": number(value) for p, value in REDDIT.items()},
                **{f"Products, {p} parts": number(value) for p, value in PRODUCTS.items()},
                "factor with twice the parts / factor": least(1),
            },
            _copies,
        ),
        Claim(
            "Libra's imbalance of edges",
            "§6.3",
            {"": most(0.05)},
            lambda rows: {"": max((row["imbalance"] for row in rows), default=nan)},
        ),
    ),
)

CARD = SlowNetwork()
DIMS = (128, 128, 128, CLASSES)
RANKS = (2, 4, 8)
PASSES = ("overlap",)


def _late(bench: Bench) -> None:
    for path in bench.graphs():
        for num_parts in RANKS[-1:] if bench.quick else RANKS:
            plan = plancc.compile(read(path, symmetrize=True), "libra", num_parts, seed=1)
            for algorithm, fold in ALGORITHMS.items():
                case = {"graph": name_of(path), "p": num_parts, "algorithm": algorithm}
                bench.row(case, partial(_epochs, plan, fold, 4 * DELAY))


def _epochs(plan: plancc.Plan, fold: dict[str, Any], epochs: int) -> Row:
    """Measured with the slow network, late epochs; and predicted for it, and for a cluster."""
    seconds = CARD.epoch(
        plan,
        epochs=epochs,
        layers=len(DIMS) - 1,
        random_features=DIMS[0],
        hidden=DIMS[1],
        classes=DIMS[-1],
        passes=PASSES,
        **fold,
    )
    return {"epoch, s": seconds, **_predicted(plan, fold)}


def _predicted(plan: plancc.Plan, fold: dict[str, Any]) -> Row:
    machine, left_out = CARD.machine(plan.num_parts), Approximation(**fold)
    found = Predictor(DIMS, machine, (), left_out).epoch(tables_of(plan, copies=True))
    return {"predicted, s": found.seconds, "predicted words": found.words}


def _over_sync(rows: Rows, figure: str, algorithm: str) -> dict[str, float]:
    """cd-0's over an algorithm's, at the most ranks, by graph."""
    last = {"p": max(rows.values("p"))}
    return rows.ratios(figure, last | {"algorithm": "cd-0"}, last | {"algorithm": algorithm})


def _speed_ups(rows: Rows) -> Found:
    late = f"cd-{DELAY}"
    measured, predicted = (
        {name: _over_sync(rows, figure, name) for name in (late, "0c")}
        for figure in ("epoch, s", "predicted, s")
    )
    return {
        **measured,
        "cd-5 / 0c": {graph: measured["0c"][graph] / v for graph, v in measured[late].items()},
        **{f"{name}, predicted": found for name, found in predicted.items()},
    }


def _growth(rows: Rows) -> Found:
    sync = {"algorithm": "cd-0"}
    first, last = min(rows.values("p")), max(rows.values("p"))
    return {"": rows.ratios("predicted words", sync | {"p": last}, sync | {"p": first})}


FIGURE_5 = Item(
    name="delayed-sums",
    setting=f"A GCN of widths {','.join(map(str, DIMS))} runs on vertex cuts by `libra`. Ranks are "
    f"threads with simulated network cards of {CARD}. Variant 0c omits sums.",
    graphs=("AmazonPhoto", "fb100-Cornell5", "soc-Slashdot0902"),
    measure=_late,
    claims=(
        Claim(
            "epoch on the most sockets, cd-0 / other",
            "Figure 5",
            {
                f"cd-{DELAY}": number(9.9 / 6.3, 83.16 / 27.43),
                "0c": number(75.4 / 37.9, 123.13 / 27.43),
                "cd-5 / 0c": least(1),
            },
            _speed_ups,
        ),
        Claim(
            "words of cd-0 grow: 8 ranks / 2 ranks",
            "Figure 6",
            {"": least(NO_EFFECT)},
            _growth,
        ),
    ),
)

SOCKET = replace(
    find_machine("cpu-cluster"),
    name="socket of 48 cores",
    multiply_adds=48 * 1.5e9,
    bandwidth=1.25e10,
    node=Node(ranks=2, injection=2.5e10),
    compute=Compute(dense=48 * 2e10, stream=48 * 5.8e9, overhead=5e-6),
)
"""The paper's cluster: two Xeon 9242 of 48 cores on a node, HDR InfiniBand of 200 Gbit/s; a rank
has the rates of 48 ranks of `cpu-cluster`."""
MANY_SOCKETS: dict[str, tuple[str, int, tuple[int, ...]]] = {
    "Reddit": (DENSE, 16, (602, 16, 41)),
    "Proteins": ("soc-Slashdot0902", 64, (128, 256, 256, 256)),
}
"""What stands for a data set, its sockets and widths."""
OF_PAPERS = (128, 256, 256, 172)
"""Widths of OGBN-Papers."""


def _sockets(bench: Bench) -> None:
    for path in bench.graphs():
        for label, (graph, sockets, dims) in MANY_SOCKETS.items():
            if name_of(path) != graph and not bench.chosen:
                continue
            bench.row(
                {"graph": name_of(path), "as": label, "p": sockets},
                partial(_on_sockets, path, sockets, dims),
            )


def _on_sockets(path: Path, sockets: int, dims: tuple[int, ...]) -> Row:
    """Predicted speed-ups over one socket, and bytes of the fullest part."""
    plan = plancc.compile(read(path, symmetrize=True), "libra", sockets, seed=1)
    one = even_tables("one socket", plan.num_vertices, plan.header.num_nonzeros, 1)
    alone = Predictor(dims, SOCKET, ()).epoch(one).seconds
    copies = Copies.of(plan)
    found: Row = {"replication factor": copies.replication_factor}
    for name, fold in ALGORITHMS.items():
        predictor = Predictor(dims, SOCKET, (), Approximation(**fold))
        epoch = predictor.epoch(tables_of(plan, copies=True))
        found[name] = alone / epoch.seconds
        memory = copies.memory(plan, fold["fold"], list(OF_PAPERS)).max()
        found[f"{name}, MB"] = float(memory) / 1e6
    return found


def _scaling(rows: Rows, label: str) -> Found:
    return {name: rows.get(name, **{"as": label}) for name in ALGORITHMS}


def _memory(rows: Rows) -> Found:
    pairs = (("cd-0", "0c"), (f"cd-{DELAY}", "cd-0"))
    return {
        f"{over} / {under}": {
            row["graph"]: row[f"{over}, MB"] / row[f"{under}, MB"] for row in rows
        }
        for over, under in pairs
    }


def _three(*figures: float) -> dict[str, Published]:
    return {name: number(each) for name, each in zip(ALGORITHMS, figures, strict=True)}


SCALING = Item(
    name="many-sockets",
    setting="Epochs of GraphSAGE are predicted for nodes with two sockets of 48 cores, and a "
    f"network of 200 Gbit/s. Memory is that of the fullest part. {DENSE} stands for Reddit "
    "(replication factor 6.93 on 16 parts), and soc-Slashdot0902 for Proteins (2.37 on 64 parts).",
    graphs=tuple(dict.fromkeys(graph for graph, _, _ in MANY_SOCKETS.values())),
    measure=_sockets,
    claims=(
        Claim(
            "predicted epoch of Reddit, one socket / 16 sockets",
            "Figure 5",
            _three(0.98, 2.08, 2.91),
            partial(_scaling, label="Reddit"),
        ),
        Claim(
            "predicted epoch of Proteins, one socket / 64 sockets",
            "Figure 5",
            _three(37.9, 59.8, 75.4),
            partial(_scaling, label="Proteins"),
        ),
        Claim(
            "epoch of OGBN-Products, one socket / 64 sockets",
            "Figure 5",
            _three(6.3, 9.9, 16.1),
            missing="no available graph has a replication factor of 5.7 on 64 parts and enough "
            "work for 64 sockets",
        ),
        Claim(
            "epoch of OGBN-Papers, one socket / 128 sockets",
            "Figure 5",
            _three(27.43, 83.16, 123.13),
            missing="the graph (1.6 billion edges) is not available",
        ),
        Claim(
            "counted memory: 0c needs least, cd-5 most",
            "Table 6",
            {
                "cd-0 / 0c": number(124 / 112, 78 / 70),
                f"cd-{DELAY} / cd-0": number(120 / 78, 196 / 124),
            },
            _memory,
            note="here cd-0 keeps no copies of split vertices",
        ),
    ),
)

SETTINGS: dict[str, dict[str, Any]] = {  # beside `NETWORK`
    "Cora": {"scale_features": "rows", "epochs": 200},
    "Citeseer": {"scale_features": "rows", "epochs": 200},
}
OTHERS: dict[str, Any] = {"split": (0.6, 0.2, 0.2), "epochs": 100, "hidden": 64}
SOCKETS = (1, 2, 4, 8, 16)


def _accuracy(bench: Bench) -> None:
    seeds = range(1 if bench.quick else 3)
    for path in bench.graphs():
        for num_parts in SOCKETS[:3:2] if bench.quick else SOCKETS:
            graph = read(path, symmetrize=True)
            plan = plancc.compile(graph, "libra", num_parts, data=labelled(path), seed=1)
            for algorithm, fold in ALGORITHMS.items():
                if num_parts == 1 and algorithm != "cd-0":
                    continue  # the same
                options = NETWORK | SETTINGS.get(name_of(path), OTHERS) | fold
                if bench.quick:
                    options["epochs"] = 20
                case = {"graph": name_of(path), "p": num_parts, "algorithm": algorithm}
                bench.row(case, partial(_scores, plan, options, seeds))


def _scores(plan: plancc.Plan, options: dict[str, Any], seeds: range) -> Row:
    found = [trained(plan, seed=s, **options).final.accuracy["test"] for s in seeds]
    return {"accuracy": float(np.mean(found)), "deviation": float(np.std(found))}


def _within(rows: Rows) -> Found:
    return {
        "": {
            f"{row['graph']}, {row['p']}, {row['algorithm']}": 100
            * (row["accuracy"] - rows.get("accuracy", graph=row["graph"], p=1))
            for row in rows
            if row["p"] > 1
        }
    }


TABLE_5 = Item(
    name="delayed-accuracy",
    setting=f"GraphSAGE (aggregator gcn) has 2 layers of hidden width {HIDDEN} or 64. All 3 seeds "
    "use the same learning rate. The paper tunes each run.",
    graphs=("Cora", "Citeseer", "AmazonPhoto"),
    measure=_accuracy,
    claims=(
        Claim(
            "accuracy minus accuracy on one socket, points",
            "Table 5",
            {"": least(-1)},
            _within,
        ),
    ),
)

DELAYS = (1, DELAY, 10)
LATE_SOCKETS = 8


def _delays(bench: Bench) -> None:
    seeds = range(1 if bench.quick else 3)
    for path in bench.graphs():
        graph = read(path, symmetrize=True)
        plan = plancc.compile(graph, "libra", LATE_SOCKETS, data=labelled(path), seed=1)
        for delay in DELAYS:
            options = NETWORK | SETTINGS.get(name_of(path), OTHERS)
            options |= {"fold": "delayed", "delay": delay}
            if bench.quick:
                options["epochs"] = 20
            case = {"graph": name_of(path), "p": LATE_SOCKETS, "r": delay}
            bench.row(case, partial(_scores, plan, options, seeds))


def _less(rows: Rows, over: int, under: int) -> Found:
    """Accuracy with one delay less that with another, in points."""
    return {
        "": {
            graph: 100
            * (
                rows.get("accuracy", graph=graph, r=over)
                - rows.get("accuracy", graph=graph, r=under)
            )
            for graph in rows.values("graph")
        }
    }


DELAYS_6_3 = Item(
    name="delays",
    setting=f"The networks of `delayed-accuracy` train on {LATE_SOCKETS} `libra` parts.",
    graphs=("Cora", "AmazonPhoto"),
    measure=_delays,
    claims=(
        Claim(
            "accuracy of cd-10 minus accuracy of cd-5, points",
            "§6.3",
            {"": most(0)},
            partial(_less, over=10, under=DELAY),
        ),
        Claim(
            "accuracy of cd-1 minus accuracy of cd-5, points",
            "§6.3",
            {"": most(POINTS)},
            partial(_less, over=1, under=DELAY),
        ),
    ),
)

FANOUTS = (5, 10, 15)
"""Nearest the input first, as in Table 7."""
FEATURES, WIDTH = 100, 256
FEW, MANY = 0.08, 0.5
"""Shares of the vertices that are trained on; the first is that of Products."""


def _work(bench: Bench) -> None:
    for path in bench.graphs():
        graph = read(path, symmetrize=True)
        for share in (FEW, MANY):
            bench.row({"graph": name_of(path), "trained on": share}, partial(_works, graph, share))


def _works(graph: Graph, share: float) -> Row:
    """Multiply-adds of the aggregations of an epoch, and its time, on one rank."""
    rng = np.random.default_rng(1)
    mask = rng.random(graph.num_vertices) < share
    size = max(1, round(mask.sum() / 99))  # as many batches as in Table 7
    widths = (FEATURES, WIDTH, WIDTH)
    population = Population(graph.num_vertices, graph.indptr, graph.indices, train_mask=mask)
    sampler = make_sampler("neighbour", graph.num_vertices, batch_size=size, fanouts=FANOUTS)
    batches = range(0, 99, 9)
    sampled = np.mean(
        [
            sum(len(batch.block(layer).columns) * width for layer, width in enumerate(widths))
            for batch in (sampler.batch(population, 1, number) for number in batches)
        ]
    )
    full = graph.num_nonzeros * sum(widths)
    work = {"full over sampled work": full / (99 * float(sampled))}
    if share > FEW:
        return work
    labels = rng.integers(CLASSES, size=graph.num_vertices, dtype=np.int32)
    features = rng.standard_normal((graph.num_vertices, FEATURES), dtype=np.float32)
    data = plancc.VertexData(features=features, labels=labels, train_mask=mask)
    plan = plancc.compile(graph, "rp", 1, data=data)
    options = {"model": "sage", "aggregator": "gcn", "layers": 3, "hidden": WIDTH, "passes": ()}
    seconds = {
        "full batch, s": _epoch(plan, epochs=4, **options),
        "sampling, s": _epoch(
            plan, epochs=2, **options, sampler="neighbour", batch_size=size, fanouts=FANOUTS
        ),
    }
    return {
        **work,
        **seconds,
        "sampling over full, s": seconds["sampling, s"] / seconds["full batch, s"],
    }


def _epoch(plan: plancc.Plan, **options: Any) -> float:
    found = trained(plan, **options)
    return float(np.median([each.seconds_max["total"] for each in found.epochs[1:]]))


def _of_few(rows: Rows, figure: str) -> dict[str, float]:
    return {row["graph"]: row[figure] for row in rows.where(**{"trained on": FEW})}


def _more_work(rows: Rows) -> Found:
    many = rows.where(**{"trained on": MANY})
    return {
        "": _of_few(rows, "full over sampled work"),
        "50% trained on": {row["graph"]: row["full over sampled work"] for row in many},
    }


TABLES_7_9 = Item(
    name="full-batch-work",
    setting="On one rank, a full-batch epoch aggregates layers of widths 100, 256, 256; a sampled "
    "epoch trains 8% of vertices in 99 mini-batches (fan-outs 15,10,5). A mini-batch step "
    "takes 1.4 times DGL's time.",
    graphs=("fb100-Cornell5", "AmazonPhoto", "soc-Slashdot0902", "dblp-2010"),
    measure=_work,
    claims=(
        Claim(
            "work on one socket, full batch / sampling",
            "Tables 7, 8",
            {"": number(77.19 / 19.98)},
            _more_work,
        ),
        Claim(
            "time on one socket, sampling / full batch",
            "Table 9",
            {"": number(20 / 11)},
            lambda rows: {"": _of_few(rows, "sampling over full, s")},
        ),
        Claim(
            "on 16 sockets: work, full batch / sampling; time, sampling / full batch",
            "Tables 7 to 9",
            {
                "work": number(18.80 / 1.41),
                "time": number(1.5 / 1.9),
            },
            missing="DistDGL and 16 sockets are not available",
        ),
    ),
)

COLUMNS = 128
BLOCKS = (1, 2, 4, 8, 16, 32)


def _blocking(bench: Bench) -> None:
    degrees = (8, 32) if bench.quick else (8, 16, 32, 64, 128)
    num_vertices = 1 << (13 if bench.quick else 17)
    for degree in () if bench.chosen else degrees:
        case = {"graph": f"random, {degree} per row"}
        bench.row(case, partial(_random_blocked, num_vertices, degree))
    for path in bench.graphs():
        bench.row({"graph": name_of(path)}, partial(_blocked, read(path, symmetrize=True)))


def _random_blocked(num_vertices: int, degree: int) -> Row:
    rng = np.random.default_rng(1)
    ends = rng.integers(num_vertices, size=(2, num_vertices * degree))
    return _blocked(build_graph(num_vertices, ends[0], ends[1]))


def _blocked(graph: Graph) -> Row:
    """Seconds of a product with all numbers of blocks, the least of five each."""
    import torch

    from plancc_runtime.kernels import numba_spmm

    torch.set_num_threads(1)
    cpu = torch.device("cpu")
    matrix = to_scipy(graph).tocsr().astype(np.float32)
    x = torch.randn(graph.num_vertices, COLUMNS)
    out = torch.empty_like(x)
    seconds = {}
    chosen = numba_spmm.NumbaMatrix(matrix, torch.float32, cpu).num_column_blocks(COLUMNS)
    for count in BLOCKS:
        with mock.patch.object(numba_spmm, "best_count", lambda *_, count=count: count):
            product = numba_spmm.NumbaMatrix(matrix, torch.float32, cpu)
            product.multiply(x, out)
        assert product.num_column_blocks(COLUMNS) == count
        spent = []
        for _ in range(5):
            begin = time.perf_counter()
            product.multiply(x, out)
            spent.append(time.perf_counter() - begin)
        seconds[count] = min(spent)
    best = min(seconds, key=seconds.__getitem__)
    return {
        "per row": graph.num_nonzeros / graph.num_vertices,
        "one block, s": seconds[1],
        "best number": best,
        "speed-up": seconds[1] / seconds[best],
        "chosen here": chosen,
    }


def _by_density(rows: Rows) -> Found:
    dense = {row["graph"]: row["speed-up"] for row in rows if row["per row"] > PER_ROW}
    sparse = {row["graph"]: row["speed-up"] for row in rows if row["per row"] <= PER_ROW}
    return {"dense": dense, "sparse": sparse}


PER_ROW = 51
"""Nonzeros per row of OGBN-Products, where blocking has no effect."""

BLOCKING = Item(
    name="blocking",
    setting=f"One core multiplies A by {COLUMNS} columns. A is cut into 1, 2, 4, ..., {BLOCKS[-1]} "
    "blocks of columns. The best number of blocks is compared with one block.",
    graphs=("fb100-Cornell5", "dblp-2010", "soc-Slashdot0902"),
    measure=_blocking,
    claims=(
        Claim(
            f"speed-up by blocking: for dense graphs only, not with {PER_ROW} nonzeros per row",
            "Figure 4, Algorithm 2",
            {"dense": least(NO_EFFECT), "sparse": number(1)},
            _by_density,
        ),
    ),
)

SHARE_IN_CACHE = {"dense": 38.5e6 / (232_965 * 602 * 4), "sparse": 38.5e6 / (2_449_029 * 100 * 4)}
"""Vertices of Reddit and of OGBN-Products: the cache of a Xeon 8280 over their features."""
REUSE_BLOCKS = (1, 2, 4, 8, 16, 32, 64)


def _reuse(bench: Bench) -> None:
    for path in bench.graphs():
        graph = read(path, symmetrize=True)
        kind = "dense" if graph.num_nonzeros > PER_ROW * graph.num_vertices else "sparse"
        rows = max(1, round(SHARE_IN_CACHE[kind] * graph.num_vertices))
        for blocks in REUSE_BLOCKS:
            case = {"graph": name_of(path), "kind": kind, "blocks": blocks}
            bench.row(case, partial(_reused, graph, blocks, rows))


def _reused(graph: Graph, blocks: int, rows: int) -> Row:
    return {"reuse": reuse(graph, blocks, rows)}


def _best_reuse(rows: Rows) -> Found:
    """The best number of blocks over one."""
    found: dict[str, dict[str, float]] = {"dense": {}, "sparse": {}}
    best: dict[str, dict[str, float]] = {"dense": {}, "sparse": {}}
    for row in rows.where(blocks=1):
        of = rows.where(graph=row["graph"])
        top = max(of, key=lambda each: each["reuse"])
        found[row["kind"]][row["graph"]] = top["reuse"] / row["reuse"]
        best[row["kind"]][row["graph"]] = top["blocks"]
    return {**found, "best number, dense": best["dense"], "best number, sparse": best["sparse"]}


REUSE = Item(
    name="cache-reuse",
    setting="Reuse is (rows read) / (rows loaded into an LRU cache). This cache holds the same "
    "fraction of the graph's rows as the cache of a Xeon 8280 holds of the rows of Reddit (for "
    "dense graphs) or OGBN-Products (for sparse graphs).",
    graphs=("fb100-Cornell5", "dblp-2010", "soc-Slashdot0902"),
    measure=_reuse,
    claims=(
        Claim(
            "cache reuse, best number of blocks / one block; best number of blocks",
            "Table 3",
            {
                "dense": number(27.0 / 3.1),
                "sparse": number(1),
                "best number, dense": number(16),
                "best number, sparse": number(1),
            },
            _best_reuse,
        ),
    ),
)

FIGURE_2 = Item(
    name="over-dgl",
    setting="The shortest epochs of plancc and DGL on one core are compared, for a GCN of widths "
    f"{','.join(map(str, single_node.DIMS))}. DGL 2.1.0 contains the paper's kernels.",
    graphs=("fb100-Cornell5", "AmazonPhoto"),
    measure=single_node.measure,
    claims=(
        Claim(
            "greatest speed-up of one socket over DGL 0.5.3 (here 2.1.0)",
            "Figure 2",
            {"": number(3.66)},
            lambda rows: {
                "": max((row["DGL, s"] / row["plancc, s"] for row in rows), default=nan),
                "by graph": {row["graph"]: row["DGL, s"] / row["plancc, s"] for row in rows},
            },
        ),
    ),
)

PAPER = Paper(
    "Md et al. 2021",
    "Md et al.: *DistGNN: Scalable Distributed Training for Large-Scale Graph Neural Networks*, "
    "SC21",
    "model `libra`, [late and missing partial sums](../use/edges.md#late-and-missing-sums-distgnn)",
    (
        TABLE_4,
        FIGURE_5,
        SCALING,
        TABLE_5,
        DELAYS_6_3,
        TABLES_7_9,
        BLOCKING,
        REUSE,
        FIGURE_2,
    ),
)
