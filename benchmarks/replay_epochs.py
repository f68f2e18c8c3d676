"""Cases of `benchmarks.replay` for the runtime: layouts, numbers of ranks and kinds of batch.

Each place (a plan on some ranks) meets each kind of batch. Models, passes and other options take
turns, so that each pair of them stands in some case. Axes are options under the words that name
them in a case; `plan` and `ranks` say where it runs, the others are those of `plancc.train`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, combinations
from random import Random
from typing import Any

Case = dict[str, Any]
Options = dict[str, Any]
Axis = dict[str, Options]

FAST = {"effort": "fast"}
HOPS = {"topology": "1x2+1x4+1x2", "exchange": "nodes"}
LAYOUTS: dict[str, tuple[str, str, int, Options]] = {
    "rows": ("one-way", "hp", 8, FAST | {"clusters": 12, "normalize": "row"}),
    "hops": ("one-way", "hp", 8, HOPS | FAST | {"clusters": 12}),
    "edges": ("one-way", "medium-grain", 8, FAST),
    "edges-hops": ("sbm", "fine-grain", 8, HOPS | FAST),
    **{f"1d-{p}": ("sbm", "cagnet-1d", p, {}) for p in (1, 3, 8)},
    **{
        f"1d-needed-{p}": ("one-way", "cagnet-1d", p, {"sparse": True, "clusters": 12})
        for p in (1, 3, 8)
    },
    **{
        f"1.5d-{p}-{c}": ("one-way", "cagnet-1.5d", p, {"replication": c})
        for p, c in ((1, 1), (3, 3), (6, 2), (8, 2))
    },
    **{
        f"1.5d-needed-{p}-{c}": ("sbm", "cagnet-1.5d", p, {"replication": c, "sparse": True})
        for p, c in ((1, 1), (3, 1), (6, 2), (8, 2), (8, 4))
    },
    **{
        f"2d-{grid}": ("one-way", "cagnet-2d", p, {"grid": grid})
        for p, grid in ((1, "1x1"), (3, "1x3"), (3, "3x1"), (8, "4x2"))
    },
    "2d-2x4": ("sbm", "cagnet-2d", 8, {"grid": "2x4"}),
    **{
        f"3d-{grid}": ("one-way", "cagnet-3d", p, {"grid": grid})
        for p, grid in ((1, "1x1x1"), (3, "1x3x1"), (3, "1x1x3"), (8, "2x2x2"))
    },
    **{
        f"feature-{groups}x{p // groups}": ("sbm", "mop", p, {"groups": groups})
        for p, groups in ((1, 1), (3, 1), (3, 3), (8, 1), (8, 2))
    },
    "large": ("rmat-13", "rp", 8, {}),
    "large-hops": ("rmat-13", "rp", 8, HOPS),
    "large-edges": ("rmat-13", "libra", 8, {}),
}
"""Plans by name: graph, model, parts and settings of `plancc.compile`."""


def _places(plan: str, *ranks: int, **options: Any) -> Axis:
    """A plan on several numbers of ranks."""
    words = "-".join([plan, *options.values()])
    return {f"{words}/r{each}": {"plan": plan, "ranks": each, **options} for each in ranks}


def _own_ranks(*layouts: str) -> Axis:
    """Grid plans of these layouts on the ranks that they are for."""
    found: Axis = {}
    for name, (_, _, parts, _) in LAYOUTS.items():
        if name.startswith(layouts):
            found |= _places(name, parts)
    return found


ROW_PLACES = {
    **_places("rows", 1, 3, 8),
    **_places("hops", 4, 8, exchange="nodes"),
    **_places("1d-needed-3", 3),
}
EDGE_PLACES = {
    **_places("edges", 1, 3, 8),
    **_places("edges-hops", 4, 8, exchange="nodes"),
}
BATCHES: Axis = {
    "full": {},
    "boundary": {"boundary_sampling": 0.4},
    "boundary-edges": {"boundary_edge_sampling": 0.5},
    "drop-edge": {"drop_edge": 0.6},
    "boundary-drop": {"boundary_sampling": 0.6, "drop_edge": 0.7},
    "uniform": {"sampler": "uniform", "batch_size": 60, "steps": 2},
    "train": {"sampler": "train", "batch_size": 30, "feature_cache": 0, "steps": 2},
    "neighbour": {
        **{"sampler": "neighbour", "batch_size": 16, "fanouts": [3, 2, 2]},
        **{"feature_cache": 1500, "steps": 2},
    },
    "walk": {
        "sampler": "walk",
        "batch_size": 10,
        "sampler_options": {"walk_length": 2},
        "steps": 2,
    },
    "cluster": {"sampler": "cluster", "batch_size": 90},
    "edges": {"sampler": "edges", "sampler_options": {"keep": 0.4}, "steps": 2},
}
FOLDS: Axis = {
    "full": {},
    "fold-none": {"fold": "none"},
    "delayed": {"fold": "delayed", "delay": 1, "epochs": 4},
    "delayed-2": {"fold": "delayed", "delay": 2, "epochs": 5},
}
PIPELINES: Axis = {
    "full": {},
    "two-stages": {"pipeline": "2"},
    "five-stages": {"pipeline": "5", "aggregate_on": "cpu"},
    "pipeline": {"pipeline": "auto"},
}
MODELS: Axis = {
    "gcn": {},
    "sage": {"model": "sage"},
    "sage-gcn": {"model": "sage", "aggregator": "gcn", "parametrization": "paper"},
    "gin": {"model": "gin", "activation": "tanh"},
}
ROW_MODELS: Axis = {
    "gcn-paper": {"parametrization": "paper"},
    "sage-max": {"model": "sage", "aggregator": "max"},
    "gat": {"model": "gat", "heads": 2, "attention_dropout": 0.2},
}
PASSES: Axis = {
    "": {},
    "order": {"passes": ["order"]},
    "no-overlap": {"passes": ["order", "constant", "dead-rows"]},
}
FEWER_PASSES: Axis = {
    "no-passes": {"passes": []},
    "dead-rows": {"passes": ["dead-rows"]},
    "constant": {"passes": ["constant", "overlap"]},
}
"""Without "order", which grids need."""
LAYERS: Axis = {f"{number}-layers": {"layers": number} for number in (2, 3)}
"""One layer sends nothing back: `FEW` has it."""
NETWORKS: Axis = {
    "": {},
    "dropout": {"dropout": 0.3, "optimizer": "adam", "scale_features": "rows"},
    "first-dropout": {"input_dropout": 0.3, "momentum": 0.5},
    "norm-batch": {"norm": "batch", "weight_decay": 0.01},
    "norm-layer": {"norm": "layer", "residual": True},
}
RECOMPUTED: Axis = {"recompute": {"recompute": True, "dropout": 0.3}}
NUMBERS: Axis = {"": {}, "double": {"dtype": "float64"}, "torch": {"kernel": "torch"}}
WIRES: Axis = {"bf16": {"wire": "bf16"}, "rcm": {"row_order": "rcm"}}
HALVES: Axis = {"bfloat16": {"dtype": "bfloat16"}}
RUN: Options = {
    **{"epochs": 2, "eval_every": 2, "hidden": 8, "lr": 0.1},
    **{"optimizer": "sgd", "kernel": "numba"},
}
"""Options of every run, unless a case says otherwise."""

ROW_AXES = [
    *(ROW_PLACES, BATCHES, MODELS | ROW_MODELS, PASSES | FEWER_PASSES, LAYERS),
    *(NETWORKS | RECOMPUTED, NUMBERS | WIRES | HALVES),
]
EDGE_AXES = [
    *(EDGE_PLACES, FOLDS, MODELS | {"sage-max": ROW_MODELS["sage-max"]}, PASSES | FEWER_PASSES),
    *(LAYERS, NETWORKS | RECOMPUTED, NUMBERS | WIRES),
]
GRID_AXES = [_own_ranks("1", "2", "3"), {"full": {}}, MODELS, PASSES, LAYERS, NETWORKS, NUMBERS]
FEATURE_AXES = [
    *(_own_ranks("feature"), PIPELINES, MODELS, PASSES, LAYERS, NETWORKS, NUMBERS | WIRES),
]

RESUMED: Axis = {
    "rows/r3": ROW_PLACES["rows/r3"] | BATCHES["uniform"] | NETWORKS["dropout"],
    "hops-nodes/r8": ROW_PLACES["hops-nodes/r8"] | BATCHES["boundary-drop"],
    "edges/r3": EDGE_PLACES["edges/r3"] | FOLDS["fold-none"] | NETWORKS["dropout"],
    "2d-3x1/r3": {"plan": "2d-3x1", "ranks": 3} | NETWORKS["norm-batch"],
    "feature-1x3/r3": {"plan": "feature-1x3", "ranks": 3} | PIPELINES["two-stages"],
}
WIDE: Options = {"ranks": 8, "random_features": 6, "classes": 4}
LARGE: Axis = {
    "large/r8/full/gcn": {"plan": "large"},
    "large/r8/full/gat": {"plan": "large"} | ROW_MODELS["gat"] | PASSES["no-overlap"],
    "large/r8/boundary-drop/bf16": {"plan": "large"} | BATCHES["boundary-drop"] | WIRES["bf16"],
    "large/r8/uniform/sage": {"plan": "large", "batch_size": 5000, "steps": 2} | MODELS["sage"],
    "large-hops/r8/full/gin": {"plan": "large-hops", "exchange": "nodes"} | MODELS["gin"],
    "large-edges/r8/full/gin": {"plan": "large-edges"} | MODELS["gin"],
    "large-edges/r8/full/no-overlap": {"plan": "large-edges"} | PASSES["no-overlap"],
    "large-edges/r8/delayed": {"plan": "large-edges"} | FOLDS["delayed"],
}
"""So many rows and nonzeros that messages are packed, multiplied and added in several groups."""
FEW: Axis = {
    "rows/r3/1-layer": {"plan": "rows", "ranks": 3, "layers": 1},
    "rows/r3/boundary/1-layer": {"plan": "rows", "ranks": 3, "layers": 1} | BATCHES["boundary"],
    "rows/r3/uniform/1-layer": {"plan": "rows", "ranks": 3, "layers": 1} | BATCHES["uniform"],
    "hops-nodes/r8/1-layer": {"plan": "hops", "ranks": 8, "exchange": "nodes", "layers": 1},
    "edges/r3/1-layer": {"plan": "edges", "ranks": 3, "layers": 1},
    "edges/r3/delayed/1-layer": {"plan": "edges", "ranks": 3, "layers": 1} | FOLDS["delayed"],
    "1.5d-3-3/r3/1-layer": {"plan": "1.5d-3-3", "ranks": 3, "layers": 1},
    "3d-1x1x3/r3/1-layer": {"plan": "3d-1x1x3", "ranks": 3, "layers": 1},
    "feature-1x3/r3/1-layer": {"plan": "feature-1x3", "ranks": 3, "layers": 1},
}
FLAT: Axis = {
    "hops/r1": {"plan": "hops", "ranks": 1} | BATCHES["boundary"],
    "hops/r3": {"plan": "hops", "ranks": 3} | BATCHES["uniform"] | PASSES["order"],
    "hops-flat/r8": {"plan": "hops", "ranks": 8, "exchange": "flat"} | ROW_MODELS["gat"],
    "edges-hops/r1": {"plan": "edges-hops", "ranks": 1} | RECOMPUTED["recompute"],
    "edges-hops/r3": {"plan": "edges-hops", "ranks": 3} | FOLDS["delayed"] | MODELS["gin"],
    "edges-hops-flat/r8": {"plan": "edges-hops", "ranks": 8, "exchange": "flat"} | MODELS["sage"],
}
"""Plans with hops where rows travel without them."""
REFUSED: Axis = {
    "rows/r9": {"plan": "rows", "ranks": 9},
    "hops-nodes/r3": {"plan": "hops", "ranks": 3, "exchange": "nodes"},
    "edges/r3": EDGE_PLACES["edges/r3"] | BATCHES["boundary"],
    "edges/r3/gat": EDGE_PLACES["edges/r3"] | ROW_MODELS["gat"],
    "1d-3/r1": {"plan": "1d-3", "ranks": 1},
    "1.5d-3-3/r3": {"plan": "1.5d-3-3", "ranks": 3} | BATCHES["uniform"],
    "2d-2x4/r8": {"plan": "2d-2x4", "ranks": 8} | NETWORKS["norm-batch"],
    "3d-1x1x1/r1": {"plan": "3d-1x1x1", "ranks": 1} | FEWER_PASSES["no-passes"],
    "feature-2x4/r8": {"plan": "feature-2x4", "ranks": 8} | PIPELINES["two-stages"],
}
"""By place, with what does not go there."""

MACHINES: Axis = {
    **{name: {"machine": name} for name in ("cpu-cluster", "summit", "h100")},
}
WIDTHS: Axis = {dims: {"dims": dims} for dims in ("32,8,4", "12,8", "6,10,24,8")}
DOUBLE = {"": {}, "double": NUMBERS["double"]}
SUMS = {name: MODELS[name] for name in ("gcn", "sage")}
MAXIMUM = {"sage-max": ROW_MODELS["sage-max"]}
WAYS: Axis = {"": {}} | {f"passes-{name}": {"passes": name} for name in ("none", "order")}
DEAD_ROWS: Axis = {"dead-rows": {"passes": "order,constant,dead-rows"}}
STAGES = {name: PIPELINES[name] for name in ("full", "two-stages", "pipeline")}
COMMON = [WIDTHS, MACHINES, DOUBLE]
SIMULATED: list[list[Axis]] = [
    [
        *(ROW_PLACES, {"full": {}, "boundary": BATCHES["boundary"]}, SUMS | MAXIMUM),
        *(WAYS | DEAD_ROWS, *COMMON),
    ],
    [ROW_PLACES, {"full": {}}, {"gat": {"model": "gat", "heads": 2}}, WAYS | DEAD_ROWS, *COMMON],
    [
        *(EDGE_PLACES, {name: FOLDS[name] for name in ("full", "fold-none")}, SUMS, WAYS),
        *COMMON,
    ],
    [EDGE_PLACES, {"delayed": {"fold": "delayed", "delay": 2}}, SUMS, WAYS, *COMMON],
    [GRID_AXES[0], {"full": {}}, SUMS, WAYS, *COMMON],
    [FEATURE_AXES[0], STAGES, SUMS, WAYS, *COMMON],
]
"""Axes of predictions, whose options are those of `plancc simulate`."""


def _excluded(o: Options) -> bool:
    """Whether these options do not go together."""
    columns = o["plan"] in ("2d-1x3", "2d-4x2", "2d-2x4", "3d-1x3x1", "3d-2x2x2")
    one_by_one = o.get("aggregator") == "max" or o.get("model") == "gat"
    return (
        (o.get("recompute", False) and "order" not in o.get("passes", ["order"]))
        or ("fold" in o and (o.get("aggregator") == "max" or o.get("norm") == "batch"))
        or (one_by_one and o.get("dtype") == "bfloat16")
        or (columns and "norm" in o)
        or ("pipeline" in o and o["plan"] in ("feature-3x1", "feature-2x4"))
        or (o["plan"] == "1d-needed-3" and o.get("sampler") in ("neighbour", "walk"))
        or ("wire" in o and o["plan"].startswith("feature-1x"))
    )


def covering(
    axes: list[Axis], excluded: Callable[[Options], bool], tries: int = 50
) -> Iterator[tuple[str, Options]]:
    """Names and options of few cases that have every pair of values of two axes.

    The next case has the first pair that is missing. Of several random choices of the other values
    it takes the one with most missing pairs (Cohen et al. 1997, AETG).
    """
    draw = Random(1)
    places = list(combinations(range(len(axes)), 2))
    missing = {(i, a, j, b): None for i, j in places for a in axes[i] for b in axes[j]}
    while missing:
        i, a, j, b = next(iter(missing))
        del missing[i, a, j, b]
        most, chosen = -1, None
        for _ in range(tries):
            row = [draw.choice(list(axis)) for axis in axes]
            row[i], row[j] = a, b
            options: Options = {}
            for axis, word in zip(axes, row, strict=True):
                options |= axis[word]
            pairs = [(i, row[i], j, row[j]) for i, j in places]
            new = sum(pair in missing for pair in pairs)
            if new > most and not excluded(options):
                most, chosen = new, ("/".join(filter(None, row)), options, pairs)
        if chosen is not None:
            name, options, pairs = chosen
            for pair in pairs:
                missing.pop(pair, None)
            yield name, options


def epoch_cases(quick: bool) -> Iterator[Case]:
    """Epochs and predictions of all places."""
    for axes in (ROW_AXES, EDGE_AXES, GRID_AXES, FEATURE_AXES):
        cases = list(covering(axes, _excluded))
        for name, options in cases[::4] if quick else cases:
            yield _epochs(name, options)
    for place, options in RESUMED.items():
        kept = RUN | options | {"checkpoint": place.replace("/", "-"), "every": 1}
        yield _epochs(f"{place}/resumed", kept, kept | {"epochs": 5, "resume": True})
    for name, options in LARGE.items():
        yield _epochs(name, WIDE | options)
    for name, options in FEW.items():
        yield _epochs(name, options)
    for place, options in FLAT.items():
        yield _epochs(f"{place}/without-hops", options)
    for place, options in REFUSED.items():
        yield _epochs(f"{place}/refused", options)
    predicted: dict[str, Case] = {}
    for axes in SIMULATED:
        for name, options in covering(axes, _excluded):
            place, plan = "/".join(name.split("/")[:2]), options["plan"]
            case = {"name": f"predicted/{place}", "kind": "command", "plans": [plan]}
            predicted.setdefault(place, case | {"commands": []})
            predicted[place]["commands"].append(_simulate(**options))
    yield from predicted.values()


def _epochs(name: str, *runs: Options) -> Case:
    """A case of kind "epochs": runs of one plan, one after the other."""
    every = []
    for options in runs:
        given = RUN | options
        if "fanouts" in given:
            given["fanouts"] = given["fanouts"][: given.get("layers", 2)]
        plan, ranks = given.pop("plan"), given.pop("ranks")
        every.append(given)
    where: Case = {"plans": [plan], "ranks": ranks}
    return {"name": f"epochs/{name}", "kind": "epochs", **where, "runs": every}


def _simulate(plan: str, **options: Any) -> list[str]:
    """The words of `plancc simulate`."""
    options.pop("exchange", None)
    pairs = [(f"--{name.replace('_', '-')}", str(value)) for name, value in options.items()]
    return ["simulate", f"{plan}.h5", "--json", "--per-rank", *chain.from_iterable(pairs)]
