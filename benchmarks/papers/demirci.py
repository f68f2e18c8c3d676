"""Demirci et al. 2022: row plans, their models, scaling, mini-batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

import plancc
from benchmarks.inputs import name_of
from benchmarks.papers import single_node
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
    points,
    read,
)
from benchmarks.training import accuracy, labelled, split_of
from plancc.cost.batches import batch_figures
from plancc.models.stochastic import hoeffding_nets
from plancc.owners.request import Assigner
from plancc.plan.matrix import graph_of, owners_of
from plancc.predict.machine_files import find_machine
from plancc.predict.predictor import Predictor
from plancc.predict.schedules import Tables, tables_of
from plancc.predict.sizes import (
    Boundary,
    Sizes,
    even_tables,
    random_boundary,
    tables_of_sizes,
)
from plancc.sampling import Population, make_sampler
from plancc_lab.contenders import Contender

PARTS = 512
CLUSTER = "cpu-cluster"
WIDTHS = (128, 128, 128)
MODELS = {
    "rp": ("rp", {}),
    "hp": ("hp", {"effort": "fast", "balance": "nnz"}),
    "gp, nonzeros balanced": ("gp", {"partitioner": "metis", "balance": "nnz"}),
    "gp, rows balanced": ("gp", {"partitioner": "metis", "balance": "rows"}),
}
FIGURES = ("average volume", "maximum volume", "average messages", "maximum messages", "epoch")


def _compiled(path: Path, model: str, num_parts: int, **options: Any) -> plancc.Plan:
    return plancc.compile(read(path), model, num_parts, **options)


def _epoch(plan: plancc.Plan, dims: tuple[int, ...]) -> float:
    """Seconds on the cluster, without passes, as the paper executes it."""
    return Predictor(dims, find_machine(CLUSTER), ()).epoch(tables_of(plan)).seconds


def _models(bench: Bench) -> None:
    num_parts = 32 if bench.quick else PARTS
    for path in bench.graphs():
        for label, (model, options) in MODELS.items():
            case = {"graph": name_of(path), "p": num_parts, "model": label}
            bench.row(case, partial(_model, path, model, num_parts, options))


def _model(path: Path, model: str, num_parts: int, options: Row) -> Row:
    plan = _compiled(path, model, num_parts, **options)
    found = plan.metrics()
    values = (
        found.average_volume,
        float(found.max_sent),
        found.average_messages,
        float(found.max_messages_sent),
        _epoch(plan, WIDTHS),
    )
    return dict(zip(FIGURES, values, strict=True))


GP, GP_ROWS = "gp, nonzeros balanced", "gp, rows balanced"
BESIDE = "GP with rows balanced"
MEANS = {
    "average volume": (0.13, 0.15, 0.87),
    "maximum volume": (0.21, 0.56, 0.37),
    "average messages": (0.29, 0.35, 0.83),
    "maximum messages": (0.48, 0.52, 0.92),
    "epoch": (0.47, 0.98, 0.48),
}
"""HP and GP over RP, and HP over GP: the last rows of Table 2."""


def _mean(rows: Rows, figure: str, over: str, under: str = "rp") -> float:
    return geometric_mean([*rows.ratios(figure, {"model": over}, {"model": under}).values()])


def _over_rp(rows: Rows, figure: str) -> Found:
    labels = {"HP": "hp", "GP": GP, BESIDE: GP_ROWS}
    return {label: _mean(rows, figure, model) for label, model in labels.items()}


def _hp_over_gp(rows: Rows, figure: str) -> Found:
    return {
        "": _mean(rows, figure, "hp", GP),
        BESIDE: _mean(rows, figure, "hp", GP_ROWS),
    }


def _means() -> list[Claim]:
    claims = []
    for figure, (hp, gp, both) in MEANS.items():
        said = f"predicted {figure}" if figure == "epoch" else figure
        claims += [
            Claim(
                f"{said}, model / RP",
                "Table 2",
                {"HP": number(hp), "GP": number(gp)},
                partial(_over_rp, figure=figure),
            ),
            Claim(
                f"{said}, HP / GP",
                "Table 2, §5",
                {"": number(both)},
                partial(_hp_over_gp, figure=figure),
            ),
        ]
    return claims


def _of_graphs(rows: Rows, figure: str, labels: Mapping[str, tuple[str, str]]) -> Found:
    """A figure over RP's by label: of a model on a graph."""
    return {
        label: rows.get(figure, model=model, graph=graph)
        / rows.get(figure, model="rp", graph=graph)
        for label, (model, graph) in labels.items()
    }


SLASHDOT = "soc-Slashdot0902"
TABLE_2 = Item(
    name="partition-models",
    setting=f"Figures are geometric means over graphs, for {PARTS} parts. Epochs are predicted for "
    f"`{CLUSTER}` and widths {','.join(map(str, WIDTHS))}. The paper uses soc-Slashdot0902 too; "
    "cit-HepTh, dblp-2010, email-Enron and USA-road.NY stand for its other graphs. HP uses effort "
    "`fast`. GP is METIS, which balances nonzeros.",
    graphs=(SLASHDOT, "cit-HepTh", "email-Enron", "dblp-2010", "USA-road.NY"),
    measure=_models,
    claims=(
        *_means(),
        Claim(
            "maximum volume on soc-Slashdot0902, model / RP",
            "Table 2",
            {"HP": number(0.69), "GP": number(4.38)},
            partial(
                _of_graphs,
                figure="maximum volume",
                labels={
                    "HP": ("hp", SLASHDOT),
                    "GP": (GP, SLASHDOT),
                    BESIDE: (GP_ROWS, SLASHDOT),
                },
            ),
            note="a GP that balances rows would explain the published figure",
        ),
        Claim(
            "GP is slower than RP: predicted epoch, GP / RP",
            "Table 2",
            {"soc-Slashdot0902": number(2.02), "com-Youtube": number(1.45)},
            partial(
                _of_graphs,
                figure="epoch",
                labels={
                    "soc-Slashdot0902": (GP, SLASHDOT),
                    "com-Youtube": (GP, "email-Enron"),
                    f"soc-Slashdot0902, {BESIDE}": (GP_ROWS, SLASHDOT),
                    f"com-Youtube, {BESIDE}": (GP_ROWS, "email-Enron"),
                },
            ),
            note="the third graph, flickr (published: 11.13), is not available",
        ),
    ),
)


RANKS = (16, 32, 64, 128, 256, 512)
COPAPERS = Sizes(540_486, 30_491_458 + 540_486)
"""coPapersDBLP with its diagonal (Table 1)."""
SCALED: dict[str, Row] = {
    "rp": {},
    "hp": {"effort": "fast"},
    "cagnet-1d": {},
    "gp": {"partitioner": "metis", "balance": "nnz,rows"},
}
OVER_RP = {"hp": (0.07, 0.42), "gp": (0.07, 0.57)}
"""Rows and messages over RP's, 512 ranks (Table 2)."""


def _scaling(bench: Bench) -> None:
    ranks = RANKS[:2] if bench.quick else RANKS
    for model in () if bench.chosen else SCALED:
        for num_parts in ranks:
            case = {"graph": "size of coPapersDBLP", "p": num_parts, "model": model}
            bench.row(case, partial(_of_sizes, model, num_parts))
    for path in bench.graphs():
        graph = read(path)
        for num_parts in ranks:
            for model in SCALED:
                case = {"graph": name_of(path), "p": num_parts, "model": model}
                bench.row(case, partial(_split, graph, model, num_parts))


def _of_sizes(model: str, num_parts: int) -> Row:
    """A graph of the paper's size: RP as of a random matrix, HP and GP with shares of it."""
    request = Contender.parse(model)
    assigner = Assigner.of(request.model, num_parts, request.options)
    boundary = None
    if model in OVER_RP:
        rows, peers = OVER_RP[model]
        halo = rows * random_boundary(COPAPERS.vertices, COPAPERS.nonzeros, num_parts)
        boundary = Boundary(((num_parts, halo, max(1.0, peers * (num_parts - 1))),))
    tables = tables_of_sizes(COPAPERS, model, num_parts, assigner.grid, boundary)
    sent = tables.expand.step
    return _split_of(tables, float(sent.sent.mean()), float(sent.messages_sent.mean()))


def _split(graph: plancc.Graph, model: str, num_parts: int) -> Row:
    plan = plancc.compile(graph, model, num_parts, **SCALED[model])
    found = plan.metrics()
    return _split_of(tables_of(plan), found.average_volume, found.average_messages)


def _split_of(tables: Tables, volume: float, messages: float) -> Row:
    found = Predictor(WIDTHS, find_machine(CLUSTER), ()).epoch(tables)
    reduced, _ = found.of_step("all-reduce")
    return {
        "epoch": found.seconds,
        "communication": found.communication - reduced,
        "computation": found.seconds - found.communication,
        "messages": messages,
        "volume": volume,
    }


def _ends(rows: Rows) -> tuple[Row, Row]:
    """The fewest ranks, and the most."""
    ranks = rows.values("p")
    return {"p": min(ranks)}, {"p": max(ranks)}


def _change(rows: Rows) -> Found:
    first, last = _ends(rows)
    return {
        label: rows.ratios("communication", last | {"model": model}, first | {"model": model})
        for label, model in (("HP", "hp"), ("GP", "gp"), ("RP", "rp"), ("CAGNET", "cagnet-1d"))
    }


def _over(rows: Rows, figure: str, over: str, under: str, at: int = -1) -> dict[Any, float]:
    """By graph, at the fewest ranks (0) or the most (-1)."""
    p = _ends(rows)[at]
    return rows.ratios(figure, p | {"model": over}, p | {"model": under})


def _everywhere(rows: Rows, over: str, under: str) -> dict[Any, float]:
    """Epochs by graph and number of ranks."""
    return rows.ratios("epoch", {"model": over}, {"model": under}, "graph", "p")


def _rp_over_hp(rows: Rows) -> Found:
    return {
        "": {
            f"{graph}, p = {_ends(rows)[at]['p']}": value
            for at in (0, -1)
            for graph, value in _over(rows, "communication", "rp", "hp", at).items()
        },
        "rows": _over(rows, "volume", "rp", "hp"),
        "messages": _over(rows, "messages", "rp", "hp"),
    }


def _strong(rows: Rows) -> Found:
    first, last = _ends(rows)
    hp = {"model": "hp"}
    return {"": rows.ratios("epoch", first | hp, last | hp)}


FIGURE_4A = Item(
    name="broadcasts-against-messages",
    setting=f"Times are predicted for `{CLUSTER}` and widths {','.join(map(str, WIDTHS))}. "
    "For coPapersDBLP, RP moves 14 times the rows of HP, in 2.4 times the messages. Published "
    "times grow like the messages, but predicted times like the volume.",
    graphs=("soc-Slashdot0902", "fb100-Cornell5", "dblp-2010"),
    measure=_scaling,
    claims=(
        Claim(
            "communication time, 512 ranks / 16 ranks",
            "Figure 4a",
            {"HP": most(1), "GP": most(1), "RP": most(1), "CAGNET": least(1)},
            _change,
        ),
        Claim(
            "epoch on 512 ranks, CAGNET / HP",
            "Figure 4a",
            {"": number(12)},
            lambda rows: {"": _over(rows, "epoch", "cagnet-1d", "hp")},
        ),
        Claim(
            "communication time on 512 ranks, CAGNET / HP",
            "Figure 4a",
            {"": number(8.3)},
            lambda rows: {"": _over(rows, "communication", "cagnet-1d", "hp")},
        ),
        Claim(
            "epoch on 16 to 512 ranks, CAGNET / HP and CAGNET / GP",
            "Figure 4a",
            {"HP": least(1), "GP": least(1)},
            lambda rows: {
                label: _everywhere(rows, "cagnet-1d", model)
                for label, model in (("HP", "hp"), ("GP", "gp"))
            },
        ),
        Claim(
            "epoch on 16 ranks, RP / CAGNET",
            "Figure 4a",
            {"": least(1)},
            lambda rows: {"": _over(rows, "epoch", "rp", "cagnet-1d", 0)},
        ),
        Claim(
            "communication time on 16 and 512 ranks, RP / HP",
            "Figure 4a",
            {"": number(2.4, 3)},
            _rp_over_hp,
        ),
        Claim(
            "communication time on 512 ranks, GP / HP",
            "Figure 4a",
            {"": number(1.7)},
            lambda rows: {"": _over(rows, "communication", "gp", "hp")},
        ),
        Claim(
            "communication time, RP / GP",
            "Figure 4a",
            {"16 ranks": number(2.7), "512 ranks": number(1.8)},
            lambda rows: {
                "16 ranks": _over(rows, "communication", "rp", "gp", 0),
                "512 ranks": _over(rows, "communication", "rp", "gp"),
            },
        ),
        Claim(
            "epoch of HP, 16 ranks / 512 ranks",
            "Figure 3",
            {"": number(32)},
            _strong,
        ),
        Claim(
            "epoch on 16 to 512 ranks, HP / RP and HP / GP",
            "Figure 3",
            {"RP": most(1), "GP": most(1.05)},
            lambda rows: {
                label: _everywhere(rows, "hp", model)
                for label, model in (("RP", "rp"), ("GP", "gp"))
            },
        ),
    ),
)

LAYERS = (2, 3, 4, 5, 6, 7, 8)
DIMENSIONS = (50, 100)


def _depth(bench: Bench) -> None:
    for path in bench.graphs():
        graph = read(path)
        num_parts = 32 if bench.quick else PARTS
        compiled = cache(partial(plancc.compile, graph, "hp", num_parts, effort="fast"))
        for width in DIMENSIONS:
            for layers in LAYERS:
                case = {"graph": name_of(path), "p": num_parts, "d": width, "layers": layers}
                dims = (width,) * (layers + 1)
                bench.row(case, partial(_speedup, compiled, dims))


def _speedup(compiled: Callable[[], plancc.Plan], dims: tuple[int, ...]) -> Row:
    plan = compiled()
    one = even_tables("one rank", plan.num_vertices, plan.header.num_nonzeros, 1)
    alone = Predictor(dims, find_machine(CLUSTER), ()).epoch(one).seconds
    epoch = _epoch(plan, dims)
    return {"epoch": epoch, "speed-up": alone / epoch}


def _with_depth(rows: Rows) -> Found:
    found = {
        d: rows.ratios("speed-up", {"d": d, "layers": 8}, {"d": d, "layers": 3}) for d in DIMENSIONS
    }
    return {"width 50": found[50], "width 100": found[100]}


def _with_width(rows: Rows) -> Found:
    return {"": rows.ratios("speed-up", {"d": 100, "layers": 8}, {"d": 50, "layers": 8})}


FIGURE_4B = Item(
    name="depth-and-width",
    setting=f"Speed-ups of HP over one rank are predicted for `{CLUSTER}` and 512 ranks. The paper "
    "compares with DGL.",
    graphs=("USA-road.NY", "USA-road.NE"),
    measure=_depth,
    claims=(
        Claim(
            "speed-up with 8 layers / speed-up with 3 layers",
            "Figure 4b",
            {"width 50": least(1), "width 100": number(40 / 28)},
            _with_depth,
        ),
        Claim(
            "speed-up with 8 layers, width 100 / width 50",
            "Figure 4b",
            {"": number(17 / 40)},
            _with_width,
        ),
    ),
)


ACCURACY_RANKS = (1, 3, 9, 27)


def _few_epochs(bench: Bench) -> None:
    for path in bench.graphs():
        for num_parts in ACCURACY_RANKS[:2] if bench.quick else ACCURACY_RANKS:
            for seed in range(1 if bench.quick else 3):
                case = {"graph": name_of(path), "p": num_parts, "seed": seed}
                bench.row(case, partial(_after_30, path, num_parts, seed))


def _after_30(path: Path, num_parts: int, seed: int) -> Row:
    plan = plancc.compile(
        read(path, symmetrize=True),
        "hp",
        num_parts,
        effort="fast",
        data=labelled(path),
    )
    options = {"layers": 2, "hidden": 16, "epochs": 30, "lr": 0.01, "optimizer": "adam"}
    options |= {"scale_features": "rows", "split": split_of(path)}
    return {"test accuracy": accuracy(plan, seed=seed, **options)}


def _same_accuracy(rows: Rows) -> Found:
    spread = max(
        max(each["test accuracy"] for each in of_seed) - min(e["test accuracy"] for e in of_seed)
        for graph in rows.values("graph")
        for seed in rows.values("seed")
        if len(of_seed := rows.where(graph=graph, seed=seed))
    )
    return {
        "difference": 100 * spread,
        "mean minus 75%": 100 * float(np.mean([row["test accuracy"] for row in rows])) - 75,
    }


FIGURE_4C = Item(
    name="few-epochs",
    setting="A GCN of 2 layers and hidden width 16 trains for 30 epochs. Ranks are threads.",
    graphs=("Cora",),
    measure=_few_epochs,
    claims=(
        Claim(
            "accuracy on Cora, points: largest difference between 1 to 27 ranks; mean minus 75%",
            "Figure 4c",
            {
                "difference": points(0),
                "mean minus 75%": points(-2.5, 2.5),
            },
            _same_accuracy,
        ),
    ),
)

BATCH_SHARE = 20_000 / 334_863
"""The share of com-Amazon's vertices that a batch of the paper has."""
BATCHES = 1000
RECIPE = 30
"""Batches that the recipe draws its nets from."""
BATCH_PARTS = (9, 27)


def _stochastic(bench: Bench) -> None:
    for path in bench.graphs():
        for num_parts in BATCH_PARTS[:1] if bench.quick else BATCH_PARTS:
            case = {"graph": name_of(path), "p": num_parts}
            bench.row(case, partial(_volumes, path, num_parts, 50 if bench.quick else BATCHES))


def _volumes(path: Path, num_parts: int, batches: int) -> Row:
    graph = read(path)
    size = max(1, round(BATCH_SHARE * graph.num_vertices))
    ways: dict[str, tuple[str, dict[str, Any]]] = {
        "hp": ("hp", {"effort": "fast"}),
        "hp by Mt-KaHyPar": ("hp", {"partitioner": "mtkahypar"}),
        "exact": ("stochastic-hp", {"effort": "fast", "batch_size": size}),
        "recipe": (
            "stochastic-hp",
            {"partitioner": "mtkahypar", "batches": RECIPE, "batch_size": size},
        ),
    }
    plans = {
        name: plancc.compile(graph, model, num_parts, **options)
        for name, (model, options) in ways.items()
    }
    matrix = graph_of(plans["hp"])
    sampler = make_sampler("uniform", graph.num_vertices, batch_size=size)
    owners = [(owners_of(plan).rows, num_parts) for plan in plans.values()]
    found = batch_figures(
        sampler,
        Population(matrix.num_vertices, matrix.indptr, matrix.indices),
        owners,
        range(batches),
        seed=7,
        threads=2,
    )
    volumes = {name: float(each.volume.mean()) for name, each in zip(plans, found, strict=True)}
    return {f"rows of a batch, {name}": value for name, value in volumes.items()} | {
        "nets by Eq. 14": hoeffding_nets(num_parts, 0.1, 0.5),
    }


def _rows_over(rows: Rows, over: str, under: str) -> dict[str, float]:
    """Rows of a batch by one way over those by another, by graph and p."""
    return {
        f"{row['graph']}, {row['p']}": row[f"rows of a batch, {over}"]
        / row[f"rows of a batch, {under}"]
        for row in rows
    }


def _over_shp(rows: Rows) -> Found:
    return {
        "": geometric_mean([*_rows_over(rows, "hp by Mt-KaHyPar", "recipe").values()]),
        "over the exact model": geometric_mean([*_rows_over(rows, "hp", "exact").values()]),
    }


FIGURE_5 = Item(
    name="stochastic-model",
    setting=f"Rows are counted on {BATCHES:,} new uniform mini-batches of 6% of the vertices. "
    "SHP is `stochastic-hp`. Here, Algorithm 3 uses Mt-KaHyPar.",
    graphs=("dblp-2010", "soc-Slashdot0902", "CoauthorCS", "cit-HepTh"),
    measure=_stochastic,
    claims=(
        Claim(
            "rows moved per mini-batch, HP / SHP (Algorithm 3)",
            "Figure 5",
            {"": number(1.10)},
            _over_shp,
        ),
        Claim(
            "the sample of Eq. 14 suffices: rows per mini-batch, sampled model / exact model",
            "§4.3.3",
            {"": number(1)},
            lambda rows: {
                "": _rows_over(rows, "recipe", "exact"),
                "nets": {f"p = {row['p']}": row["nets by Eq. 14"] for row in rows},
            },
            note="the search overfits its sample",
        ),
    ),
)


def _against_dgl(bench: Bench) -> None:
    single_node.measure(bench)
    for path in bench.graphs():
        for label, model in (("HP", "hp"), ("GP", GP)):
            num_parts = 32 if bench.quick else PARTS
            case = {"graph": name_of(path), "p": num_parts, "model": label}
            bench.row(case, partial(_predicted, path, model, num_parts))


def _predicted(path: Path, model: str, num_parts: int) -> Row:
    name, options = MODELS[model]
    plan = plancc.compile(read(path, symmetrize=True), name, num_parts, **options)
    return {"predicted, s": _epoch(plan, single_node.DIMS)}


def _over_dgl(rows: Rows) -> Found:
    dgl = {row["graph"]: row["DGL, s"] for row in rows if "DGL, s" in row}
    found: dict[str, float | dict[str, float]] = {
        label: geometric_mean(
            [dgl.get(row["graph"], nan) / row["predicted, s"] for row in rows.where(model=label)]
        )
        for label in ("HP", "GP")
    }
    ours = {row["graph"]: row["DGL, s"] / row["plancc, s"] for row in rows if "DGL, s" in row}
    return {**found, "plancc's one rank over DGL": ours}


TABLE_2_DGL = Item(
    name="speed-up-over-dgl",
    setting=f"The epoch of DGL 2.1.0 on one core (paper: 16 cores) is divided by the predicted "
    f"epoch on `{CLUSTER}`. The GCN has widths {','.join(map(str, single_node.DIMS))}.",
    graphs=("soc-Slashdot0902", "USA-road.NY"),
    measure=_against_dgl,
    claims=(
        Claim(
            "epoch, DGL on one node / 512 ranks",
            "Table 2",
            {"HP": number(10.60), "GP": number(5.04)},
            _over_dgl,
        ),
    ),
)

PAPERS100M = Sizes(111_059_956, 1_615_685_872 + 111_059_956)
REDDIT = Sizes(232_965, 114_615_892 + 232_965)
HP_PAPERS100M = 1.2 / 13
"""Volume of HP over RP's on 27 ranks (Table 3)."""


def _elsewhere(bench: Bench) -> None:
    for width in (1, 2, 5):
        bench.row({"d": width}, partial(_billion, width))
    bench.row({"graph": "Reddit"}, _reddit)


def _billion(width: int) -> Row:
    """Epochs of RP and HP by sizes, with the paper's share of the volume."""
    rows = random_boundary(PAPERS100M.vertices, PAPERS100M.nonzeros, 27)
    return {
        name: _on_gpus(PAPERS100M, model, 27, [width] * 3, Boundary(((27, share * rows, None),)))
        for name, model, share in (("RP", "rp", 1.0), ("HP", "hp", HP_PAPERS100M))
    }


def _reddit() -> Row:
    widths = [602, 16, 16, 41]
    return {
        "RP": _on_gpus(REDDIT, "rp", 3, widths),
        "CAGNET": _on_gpus(REDDIT, "cagnet-1d", 4, widths),
    }


def _on_gpus(
    sizes: Sizes, model: str, ranks: int, widths: list[int], boundary: Boundary | None = None
) -> float:
    """Predicted seconds of an epoch on `h100`, without passes."""
    request = Contender.parse(model)
    assigner = Assigner.of(request.model, ranks, request.options)
    tables = tables_of_sizes(sizes, model, assigner.num_parts, assigner.grid, boundary)
    return Predictor(widths, find_machine("h100"), ()).epoch(tables).seconds


OTHERS = Item(
    name="other-machines",
    setting="Epochs are predicted for `h100` from published sizes and volumes.",
    measure=_elsewhere,
    claims=(
        Claim(
            "papers100M on 27 GPUs, RP / HP",
            "Table 3",
            {
                "volume": number(13 / 1.2),
                "time at width 1": number(34.70 / 24.46),
                "time at width 2": number(42.88 / 25.00),
                "time at width 5": number(65.14 / 29.73),
            },
            lambda rows: {
                "time, predicted": {
                    f"d = {row['d']}": row["RP"] / row["HP"] for row in rows if "d" in row
                }
            },
            missing="the graph (1.6 billion edges) is not available",
        ),
        Claim(
            "Reddit, seconds per epoch",
            "Table 4",
            {"HP": number(0.67), "CAGNET": number(0.11)},
            lambda rows: {
                "predicted": {
                    "RP on 3": rows.get("RP", graph="Reddit"),
                    "CAGNET on 4": rows.get("CAGNET", graph="Reddit"),
                }
            },
            missing="no GPUs are available",
        ),
        Claim(
            "time, 15 GPUs / 512 CPUs",
            "§5",
            {"amazon0601": number(1.02 / 0.94), "roadNet-CA": number(1.28 / 0.67)},
            missing="neither GPUs nor these graphs are available",
        ),
    ),
)

PAPER = Paper(
    "Demirci et al. 2022",
    "Demirci, Haldar, Ferhatosmanoglu: *Scalable Graph Convolutional Network Training on "
    "Distributed-Memory Systems*, PVLDB 2022",
    "row plans, models `hp`, `gp`, `stochastic-hp`, `rp`",
    (TABLE_2, TABLE_2_DGL, FIGURE_4A, FIGURE_4B, FIGURE_4C, FIGURE_5, OTHERS),
)
