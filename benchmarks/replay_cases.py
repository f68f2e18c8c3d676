"""The corpus of `benchmarks.replay`: cases as plain values.

A case has a name, a kind (a method of `benchmarks.replay_corpus.Corpus`) and what that needs.
Models, objectives and samplers are listed here by hand, so that one that is lost is a difference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.replay_epochs import LAYOUTS, epoch_cases

Case = dict[str, Any]

GRAPHS: dict[str, dict[str, Any]] = {
    "karate": {"dataset": "karate"},
    "sbm": {"dataset": "sbm", "options": {"blocks": 4, "size": 64, "p_in": 0.1, "seed": 3}},
    "rmat": {"dataset": "rmat", "options": {"scale": 8, "edge_factor": 6, "seed": 2}},
    "grid": {"dataset": "grid", "options": {"rows": 16, "cols": 20, "points": 9}},
    "geometric": {
        "dataset": "geometric",
        "options": {"num_vertices": 300, "seed": 4},
        "bare": True,
    },
    "one-way": {"dataset": "sbm", "options": {"blocks": 3, "size": 70}, "one_way": True},
    "digits": {"dataset": "digits"},
    "rmat-11": {"dataset": "rmat", "options": {"scale": 11, "edge_factor": 8, "seed": 5}},
    "rmat-13": {"dataset": "rmat", "options": {"scale": 13, "edge_factor": 32, "seed": 6}},
    "mesh": {"dataset": "grid", "options": {"rows": 50, "cols": 60}},
    "wiki-Vote": {"file": "wiki-Vote.mtx.gz"},
    "Cora": {"file": "Cora.mtx.gz", "data": "Cora.npz"},
    "AmazonPhoto": {"file": "AmazonPhoto.mtx.gz", "data": "AmazonPhoto.npz"},
}
"""How graphs are made: a data set of plancc, two edges of three of one, a file that is shared."""
SMALL = ("sbm", "rmat", "grid", "geometric", "one-way")
LARGER = ("digits", "rmat-11", "mesh")
SHARED = ("wiki-Vote", "Cora", "AmazonPhoto")

ROW_SEARCHED = ("hp", "gp")
EDGE_SEARCHED = ("medium-grain", "fine-grain")
ASSIGNED = ("libra", "rcm", "block", "rp", "file")
GRIDS = ("cagnet-1d", "cagnet-1.5d", "cagnet-2d", "cagnet-3d", "mop")
MODELS = (*ROW_SEARCHED, "stochastic-hp", *EDGE_SEARCHED, "auto", *ASSIGNED, *GRIDS)
OBJECTIVES = ("volume", "max-volume", "messages", "time")
DIMS: dict[str, list[int]] = {"sbm": [32, 8, 4], "digits": [64, 8, 10]}
"""Widths of the layers, by graph: those that its features and its labels ask for."""
ANY_DIMS = [12, 8, 4]
"""Widths for graphs without features."""

SAMPLERS: dict[str, dict[str, Any]] = {
    "uniform": {"batch_size": 40},
    "train": {"batch_size": 12},
    "neighbour": {"batch_size": 16, "fanouts": [4, 3]},
    "walk": {"batch_size": 10, "walk_length": 2},
    "cluster": {"batch_size": 40},
    "edges": {"keep": 0.4},
}
PARTITIONERS = (
    *(("metis", "kway", "gp"), ("metis", "recursive", "gp"), ("builtin", None, "gp")),
    *(("kaminpar", "default", "gp"), ("kaminpar", "fast", "gp"), ("builtin", None, "hp")),
    *(("mtkahypar", "deterministic", "hp"), ("mtkahypar", "deterministic-quality", "hp")),
    *(("mtkahypar", "deterministic", model) for model in ("medium-grain", "fine-grain")),
    *(("builtin", None, model) for model in ("medium-grain", "stochastic-hp")),
    *(("kahypar", "default", "hp"), ("kahypar", "default", "medium-grain")),
)
"""Partitioner, preset, model; the deterministic ones."""
MACHINES = ("cpu-cluster", "summit", "h100", "small-cpu", "summit-1gpu")

PLANS: dict[str, Case] = {}
"""Named plans, which other cases read; by `_plan`."""


def _plan(name: str, graph: str, model: str, parts: int, **settings: Any) -> None:
    PLANS[name] = _compiled(name, graph, model, parts, 1, **settings)


def _compiled(
    name: str, graph: str, model: str, parts: int, seed: int, **settings: Any
) -> dict[str, Any]:
    """A case of kind "compile"; rows are balanced as they were before this had another default."""
    count = settings.pop("part_count", parts)
    settings |= {"model": model, "num_parts": parts, "seed": seed}
    if {model, settings.get("blocks")} & {*ROW_SEARCHED} and "partitioner" not in settings:
        of_time = settings.get("objective") == "time" and "dims" in settings
        settings.setdefault("balance", "work" if of_time else "nnz")
    case: Case = {"name": name, "kind": "compile", "graph": graph, "settings": settings}
    if model == "file" or settings.get("blocks") == "file":
        case |= {"part_step": 7, "part_count": count}
    return case


_plan("row", "sbm", "hp", 4)
_plan("row-directed", "rmat", "hp", 3, normalize="row")
_plan("row-digits", "digits", "gp", 5)
_plan("row-double", "sbm", "rp", 3, value_dtype="float64")
_plan("row-nodes", "sbm", "hp", 4, topology="2x2", dims=DIMS["sbm"])
_plan("row-clusters", "sbm", "stochastic-hp", 4, clusters=12, sampler="uniform", batch_size=40)
_plan("edge", "sbm", "medium-grain", 4)
_plan("edge-directed", "rmat", "medium-grain", 3)
_plan("edge-digits", "digits", "libra", 4)
_plan("edge-even", "rmat", "libra", 4)
_plan("grid-1d", "sbm", "cagnet-1d", 4)
_plan("grid-1d-sparse", "rmat", "cagnet-1d", 4, sparse=True, blocks="hp", effort="fast")
_plan("grid-1.5d", "sbm", "cagnet-1.5d", 4)
_plan("grid-1.5d-sparse", "rmat", "cagnet-1.5d", 4, sparse=True)
_plan("grid-2d", "sbm", "cagnet-2d", 4)
_plan("grid-3d", "sbm", "cagnet-3d", 8)
_plan("mop", "sbm", "mop", 4)
_plan("mop-groups", "rmat", "mop", 4, groups=2, blocks="hp")

NAMED = tuple(PLANS)
"""Plans for all commands; those of `LAYOUTS` are for epochs."""
for _name, (_graph, _model, _number, _settings) in LAYOUTS.items():
    _plan(_name, _graph, _model, _number, **_settings)

PROCESS_GRIDS = ("grid-1d", "grid-1d-sparse", "grid-1.5d", "grid-1.5d-sparse", "grid-2d", "grid-3d")
FEATURE = ("mop", "mop-groups")


def corpus(quick: bool, shared: bool) -> list[Case]:
    """All cases, in the order in which they run.

    Parameters:
        quick: Fewer parts, seeds and graphs; every model, objective and layout all the same.
        shared: Whether the shared real graphs are there.
    """
    cases = [
        *_model_cases(quick),
        *_objective_cases(quick),
        *_option_cases(quick),
        *_refined_cases(quick),
        *(_shared_cases(quick) if shared else ()),
        *({"name": f"saved/{name}", "kind": "saved", "plan": name} for name in PLANS),
        *_run_cases(quick),
        *_library_cases(quick),
        *_prediction_cases(quick),
        *_file_cases(quick),
        *epoch_cases(quick),
    ]
    names = [case["name"] for case in cases]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise ValueError(f"two cases of one name: {', '.join(sorted(twice))}")
    return cases


def _compile(graph: str, model: str, parts: int, seed: int = 1, **settings: Any) -> Case:
    """A case of kind "compile" whose name says what it does."""
    words = [f"{name}={_word(value)}" for name, value in settings.items()]
    name = "/".join(["plan", graph, model, f"p{parts}", f"s{seed}", *words])
    return _compiled(name, graph, model, parts, seed, **settings)


def _word(value: Any) -> str:
    """A setting on a command line."""
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _words(options: dict[str, Any]) -> str:
    """Options of a sampler on a command line."""
    flags = {"batch_size": "--batch-size ", "fanouts": "--fanouts "}
    named = ((flags.get(k, f"--sampler-option {k}="), _word(v)) for k, v in options.items())
    return " ".join(flag + value for flag, value in named)


def _parts(model: str, parts: int) -> int:
    """A number of ranks near `parts` that the model can arrange."""
    near = {
        "cagnet-1.5d": {2: 4, 7: 8},
        "cagnet-2d": {2: 4, 7: 9},
        "cagnet-3d": {2: 1, 4: 8, 7: 27},
    }
    return near.get(model, {}).get(parts, parts)


def _model_cases(quick: bool) -> Iterator[Case]:
    """Every model on every small graph, three numbers of parts, two seeds."""
    for which, graph in enumerate(SMALL):
        for model in MODELS:
            rounds = [(4, 1), (7, 2), (2, 5)]
            for parts, seed in rounds[which % 2 : which % 2 + 1] if quick else rounds:
                if not (quick and which > 1 and model in ("auto", *EDGE_SEARCHED, *GRIDS)):
                    yield _compile(graph, model, _parts(model, parts), seed)
    for graph in LARGER[1:2] if quick else LARGER:
        yield _compile(graph, "libra", 6)
        for model in ("hp", "gp", *EDGE_SEARCHED):
            yield _compile(graph, model, 6, effort="fast")
    for model in ("hp", "gp", "stochastic-hp", *EDGE_SEARCHED):
        yield _compile("karate", model, 3, effort="best")
    if not quick:
        yield _compile("rmat-11", "hp", 12, 2)
        yield _compile("mesh", "medium-grain", 12, 2)
        yield _compile("digits", "hp", 12, 2, objective="max-volume")


def _objective_cases(quick: bool) -> Iterator[Case]:
    """Every objective of every model that has any; the efforts."""
    given: dict[str, Any]
    searched = (*ROW_SEARCHED, *EDGE_SEARCHED, "auto")
    for model in searched:
        for objective in OBJECTIVES:
            for graph in ("sbm",) if quick else ("sbm", "rmat"):
                for effort in ("fast",) if quick else ("fast", "balanced"):
                    given = {"objective": objective, "effort": effort}
                    if objective == "time":
                        given["dims"] = DIMS.get(graph, ANY_DIMS)
                    if objective == "time" and model != "auto" and effort == "balanced":
                        given["balance"] = "nnz"
                    yield _compile(graph, model, 5, **given)
    for graph in ("sbm", "one-way"):
        yield _compile(graph, "gp", 4, objective="cut")
        yield _compile(graph, "gp", 4, objective="volume", partitioner="metis")
        yield _compile(graph, "gp", 4, objective="cut", partitioner="builtin")
    for model in ("cagnet-1d", "cagnet-2d", "mop"):
        for blocks in ("hp", "gp", "rp", "block", "file", "rcm"):
            given = {"groups": 2} if model == "mop" else {}
            if blocks == "file" and model != "cagnet-1d":
                given["part_count"] = 2
            yield _compile("rmat", model, 4, blocks=blocks, **given)
    for objective in OBJECTIVES[:3]:
        yield _compile("sbm", "cagnet-1d", 4, blocks="hp", objective=objective, sparse=True)
    yield _compile("sbm", "cagnet-1.5d", 16, replication=4)
    yield _compile("sbm", "cagnet-1.5d", 9, sparse=True, replication=3, blocks="hp")
    yield _compile("sbm", "cagnet-2d", 6, grid="2x3")
    yield _compile("sbm", "cagnet-3d", 12, grid="2x3x2")
    yield _compile("rmat", "auto", 4, candidates="hp,libra,rp", effort="fast")


def _option_cases(quick: bool) -> Iterator[Case]:
    """Samplers, partitioners, balances, normalisations, topologies and what is refused."""
    given: dict[str, Any]
    for sampler, options in SAMPLERS.items():
        given = {"sampler": sampler, **options, "effort": "fast"}
        if sampler == "cluster":
            given["clusters"] = 12
        yield _compile("sbm", "stochastic-hp", 4, **given)
        if not quick and sampler not in ("train", "cluster"):
            yield _compile("rmat", "stochastic-hp", 3, 2, **given | {"effort": "balanced"})
    yield _compile("rmat", "stochastic-hp", 4, batches=30, theta=0.2, delta=0.3, effort="fast")
    yield _compile("sbm", "stochastic-hp", 4, balance="batch", effort="fast")
    for partitioner, preset, model in PARTITIONERS:
        for graph in ("sbm",) if quick else ("sbm", "one-way"):
            given = {} if preset is None else {"preset": preset}
            yield _compile(graph, model, 4, partitioner=partitioner, **given)
    yield _compile("sbm", "hp", 4, partitioner="builtin", objective="max-volume")
    yield _compile("sbm", "gp", 4, partitioner="metis", balance="nnz,rows", objective="cut")
    for balance in ("nnz", "rows", "nnz,rows", "work", "train", "rows,train"):
        for model in ("hp", "gp") if quick else ("hp", "gp", "rp", "block", "rcm"):
            given = {"dims": DIMS["sbm"]} if balance == "work" else {}
            if model in (*ROW_SEARCHED, *EDGE_SEARCHED):
                given["effort"] = "fast"
            yield _compile("sbm", model, 4, 3, balance=balance, **given)
    for normalize in ("sym", "row", "none"):
        for loops in (True, False):
            for model in ("hp", "libra"):
                given = {"normalize": normalize, "self_loops": loops, "value_dtype": "float64"}
                yield _compile("one-way", model, 3, **given)
    for topology in ("2x2", "4x1", "1x4"):
        yield _compile("rmat", "hp", 4, topology=topology)
        yield _compile("grid", "gp", 4, topology=topology, effort="fast")
        yield _compile("grid", "rp", 4, topology=topology)
    for epsilon in (0.0, 0.2):
        yield _compile("geometric", "hp", 4, epsilon=epsilon)
        yield _compile("geometric", "medium-grain", 4, epsilon=epsilon)
    yield _compile("sbm", "hp", 3, clusters=8)
    yield _compile("karate", "hp", 34)
    yield _compile("karate", "rp", 1)
    yield _compile("karate", "hp", 35)
    yield _compile("karate", "nothing", 3)
    yield _compile("karate", "hp", 3, objective="nothing")
    yield _compile("karate", "libra", 3, objective="volume")
    yield _compile("karate", "hp", 3, objective="time")
    yield _compile("karate", "medium-grain", 4, topology="2x2")
    yield _compile("karate", "medium-grain", 4, balance="rows")
    yield _compile("karate", "hp", 3, epsilon=-1.0)
    yield _compile("karate", "cagnet-2d", 5)


def _refined_cases(quick: bool) -> Iterator[Case]:
    """`plancc.refine` for every objective, from several plans."""
    more_plans = () if quick else ("row-nodes", "row-clusters", "row-double", "grid-2d")
    for plan in ("row", "row-directed", "grid-1d-sparse", "mop-groups", *more_plans):
        for objective in OBJECTIVES:
            dims = DIMS.get(PLANS[plan]["graph"], ANY_DIMS)
            settings: dict[str, Any] = {"dims": dims} if objective == "time" else {}
            given: Case = {"kind": "refine", "plan": plan, "objective": objective}
            yield {"name": f"refine/{plan}/{objective}", **given, "settings": settings}
            if plan in ("row", "row-directed"):
                name = f"refine/{plan}/{objective}/part"
                settings = settings | {"cycles": 1, "epsilon": 0.1, "seed": 4}
                yield {"name": name, **given, "settings": settings, "part_step": 3}
    others: tuple[tuple[str, Case], ...] = (
        ("extra", {"max_extra_volume": 0.2}),
        ("rows", {"balance": "nnz,rows"}),
        ("train", {"balance": "train"}),
    )
    for name, more in others:
        given = {"kind": "refine", "plan": "row", "objective": "messages", "settings": more}
        yield {"name": f"refine/row/{name}", **given}
    given = {"kind": "refine", "objective": "volume", "settings": {}}
    yield {"name": "refine/edge", "plan": "edge", **given}


def _shared_cases(quick: bool) -> Iterator[Case]:
    """Real graphs, where they are."""
    for graph in SHARED[1:2] if quick else SHARED:
        for model in ("hp", "libra", "rcm") if quick else ("hp", "gp", "libra", "rcm", "cagnet-2d"):
            effort: Case = {"effort": "fast"} if model in ROW_SEARCHED else {}
            yield _compile(graph, model, 16, **effort)
    if not quick:
        for model in ("hp", "medium-grain"):
            yield _compile("Cora", model, 8)
        yield _compile("Cora", "hp", 8, objective="max-volume")
        yield _compile("Cora", "stochastic-hp", 8, batch_size=300)
        yield _compile("wiki-Vote", "medium-grain", 8, effort="fast")


RUN = ("--epochs", "3", "--eval-every", "2", "--hidden", "6", "--lr", "0.1", "--threads", "1")
RUN += ("--optimizer", "sgd", "--seed", "0")


def _run(plan: str, words: str, ranks: int | None = None, kernel: str = "numba") -> Case:
    """A case of kind "run"; its losses and words are compared."""
    ranks = ranks or PLANS[plan]["settings"]["num_parts"]
    every = [f"{plan}.h5", "--ranks", str(ranks), *RUN, "--kernel", kernel, *words.split()]
    name = "/".join(["run", plan, f"r{ranks}", words.replace("--", "").replace(" ", "=") or "gcn"])
    if kernel != "numba":
        name += f"/{kernel}"
    return {"name": name, "kind": "run", "plans": [plan], "commands": [every]}


def _run_cases(quick: bool) -> Iterator[Case]:
    """Losses, counted words and weights of three epochs."""
    for plan in ("row", "edge", *PROCESS_GRIDS, *FEATURE):
        yield _run(plan, "--model gcn")
        for model in ("sage", "gin"):
            if not quick or plan in ("row", "edge", "grid-2d", "mop"):
                yield _run(plan, f"--model {model}")
    for plan in ("row", "row-directed", "edge", "grid-2d", "mop"):  # but for rows it is refused
        yield _run(plan, "--model gat")
    for plan in ("row-directed", "edge-directed", "edge-even"):
        yield _run(plan, "--model gcn")
        yield _run(plan, "--model sage")
    for words in ROW_RUNS[::2] if quick else ROW_RUNS:
        yield _run("row", words)
    for sampler, options in SAMPLERS.items():
        for model in ("gcn",) if quick else ("gcn", "gat"):
            yield _run("row-clusters", f"--sampler {sampler} {_words(options)} --model {model}")
    for words in EDGE_RUNS[:4] if quick else EDGE_RUNS:
        yield _run("edge", words)
    for plan in ("grid-1d", "grid-1d-sparse", "grid-1.5d", "grid-2d", "grid-3d", "mop"):
        yield _run(plan, "--passes order --layers 3")
        if not quick:
            yield _run(plan, "--dtype float64 --optimizer adam --dropout 0.3")
            yield _run(plan, "--norm layer --residual")  # refused where columns are split
    for words in FEATURE_RUNS[:2] if quick else FEATURE_RUNS:
        yield _run("mop", words)
    yield _run("mop-groups", "--row-order rcm --layers 3")
    yield _run("mop-groups", "--pipeline 3")
    yield _run("row-directed", "--split 0.5,0.2,0.3 --metric f1")
    for plan, ranks in (("row", 1), ("row", 3), ("edge", 1), ("edge", 3)):
        yield _run(plan, "--optimizer adam --dropout 0.4", ranks)
    for plan in ("row", "edge") if quick else ("row", "edge", "grid-2d", "mop", "row-directed"):
        yield _run(plan, "", kernel="torch")
    yield _run("row-digits", "--layers 3 --optimizer adam")
    yield _run("row-double", "--dtype float64 --model gat --heads 2")
    if not quick:
        yield _run("edge-digits", "--layers 3 --fold delayed --delay 1")
        yield _run("row-digits", "--model sage --batch-size 200", 2)
    first = _run("row", "--checkpoint kept --every 1 --dropout 0.2 --epochs 2")
    again = _run("row", "--checkpoint kept --resume --dropout 0.2 --epochs 5")
    first["commands"] += again["commands"]
    yield first | {"name": "run/row/resumed"}
    yield _run("row", "", 5)
    yield _run("grid-2d", "", 2)
    yield _run("edge", "--batch-size 10")


ROW_RUNS = (
    *("--passes none", "--passes order", "--passes constant", "--passes dead-rows"),
    *("--passes overlap", "--passes order,dead-rows --layers 3", "--passes none --layers 1"),
    *("--boundary-sampling 0.3", "--boundary-sampling 0.5 --model sage --passes none"),
    *("--drop-edge 0.5", "--boundary-edge-sampling 0.5", "--boundary-sampling 0 --drop-edge 0.7"),
    *("--wire bf16", "--wire bf16 --model gat --heads 2"),
    *("--model sage --aggregator max", "--model sage --aggregator sum", "--row-order rcm"),
    *("--norm batch --dropout 0.3", "--model sage --aggregator gcn", "--norm layer --residual"),
    *("--optimizer adam --weight-decay 0.01", "--optimizer adamw --schedule cosine"),
    *("--schedule step --activation tanh", "--schedule plateau --patience 1 --epochs 6"),
    *("--dtype float64", "--scale-features rows --input-dropout 0.5"),
    *("--row-order degree --model gin", "--batch-size 50 --steps 2", "--no-bias --seed 9"),
    *("--parametrization pyg --model gat", "--parametrization pyg --model sage"),
    *("--parametrization pyg", "--parametrization pyg --model gin --scale-features columns"),
)
EDGE_RUNS = (
    *("--fold none", "--fold delayed --delay 2", "--passes none", "--fold delayed --model sage"),
    *("--wire bf16", "--norm batch --dropout 0.3", "--model sage --aggregator max"),
    *("--layers 3 --optimizer adam", "--fold none --model gin", "--dtype float64"),
    *("--fold delayed --delay 1 --epochs 6 --lr 0.01", "--passes order,overlap --residual"),
)
FEATURE_RUNS = (
    *("--pipeline 3", "--pipeline auto --model sage", "--pipeline 4 --aggregate-on cpu"),
    *("--row-order degree", "--row-order rcm --layers 3"),
)


def _library_cases(quick: bool) -> Iterator[Case]:
    """`plancc_runtime.open` on one rank and on two."""
    for plan in ("row", "row-directed", "edge", "edge-directed", "edge-even"):
        for ranks in (1, 2):
            if not quick or (ranks == 2 and plan in ("row", "edge")):
                given = {"kind": "library", "plans": [plan], "ranks": ranks, "dtype": "float32"}
                yield {"name": f"library/{plan}/r{ranks}", **given}
    given = {"kind": "library", "plans": ["row-double"], "ranks": 1, "dtype": "float64"}
    yield {"name": "library/row-double/r1", **given}


def _commands(name: str, *commands: str, **more: Any) -> Case:
    """A case of kind "command"."""
    return {
        "name": name,
        "kind": "command",
        "commands": [command.split() for command in commands],
        **more,
    }


def _dims(graph: str) -> str:
    """Widths that suit a graph, as an option of a command."""
    return f"--dims {_word(DIMS.get(graph, ANY_DIMS))}"


def _prediction_cases(quick: bool) -> Iterator[Case]:
    """`plancc inspect`, `compare`, `simulate` and its sweeps."""
    for plan in NAMED:
        file, dims = f"{plan}.h5", _dims(PLANS[plan]["graph"])
        inspected = [
            f"inspect {file} --json --per-part",
            f"inspect {file} {dims} --json",
            f"inspect {file} {dims}",
            f"inspect {file} {dims} --ranks 2 --json",
            f"inspect {file} {dims} --machine summit --json",
            f"inspect {file} {dims} --boundary-sampling 1,0.1 --json",
            f"inspect {file} --batches 8 --seed 0 --json",
        ]
        yield _commands(f"inspect/{plan}", *inspected, plans=[plan])
        predicted = [
            f"simulate {file} {dims} --machine {machine} --json {more}"
            for machine in MACHINES
            for more in ("--per-rank", "--passes none --dtype float64")
        ]
        predicted += [f"simulate {file} {dims}", f"simulate {file} {dims} --ranks 2 --json"]
        yield _commands(f"simulate/{plan}", *predicted, plans=[plan])
        yield _commands(f"verify/{plan}", f"verify {file}", plans=[plan])
    for sampler, options in SAMPLERS.items():
        batches = f"--batches 12 --seed 2 --sampler {sampler} {_words(options)}"
        drawn = [f"inspect row-clusters.h5 --json {batches}", f"inspect row-clusters.h5 {batches}"]
        if sampler != "cluster":
            drawn.append(f"compare row.h5 row-clusters.h5 --json {batches}")
        yield _commands(f"batches/{sampler}", *drawn, plans=["row", "row-clusters"])
    for name, plans, graph in (
        ("rows", ("row", "row-directed", "row-double"), "sbm"),
        ("edges", ("edge-directed", "edge-even"), "rmat"),
        ("digits", ("row-digits", "edge-digits"), "digits"),
        ("all", ("row", "edge", *PROCESS_GRIDS, *FEATURE), "sbm"),
    ):
        dims = _dims(graph)
        files = " ".join(f"{plan}.h5" for plan in plans)
        compared = [f"compare {files} --json", f"compare {files} {dims} --json"]
        compared += [f"compare {files} {dims} --machine h100 --json", f"compare {files} {dims}"]
        yield _commands(f"compare/{name}", *compared, plans=list(plans))
    dims = _dims("sbm")
    yield _commands(
        "inspect/nodes",
        f"inspect row.h5 --topology 2x2 {dims} --json",
        "inspect row-nodes.h5 --topology 4x1 --json",
        plans=["row", "row-nodes"],
    )
    sweep = f"simulate sbm.mtx --sweep p=2..8 {dims} --json"
    numbers = f"simulate --vertices 100000 --nonzeros 4000000 {dims} --sweep p=16..64"
    models = "hp,gp,rp,cagnet-1d,cagnet-1.5d:replication=2,cagnet-2d,cagnet-3d,mop,libra"
    yield _commands("sweep/default", sweep, inputs=["sbm"])
    for machine in MACHINES[:1] if quick else MACHINES[:3]:
        given = f"{sweep} --machine {machine} --models {models} --balance rows"
        yield _commands(f"sweep/{machine}", given, given.replace(" --json", ""), inputs=["sbm"])
        given = f"{numbers} --models cagnet-1d,cagnet-2d,mop --machine {machine}"
        yield _commands(f"sweep/numbers/{machine}", f"{given} --json", given)
    boundary = "--models rp,hp --boundary rp=16:0.5,64:0.9 --boundary hp=16:0.2:8,64:0.5:20"
    yield _commands("sweep/boundary", f"{numbers} {boundary} --json")


def _file_cases(quick: bool) -> Iterator[Case]:
    """Graph files, data sets, the accelerators, and the commands that make plans."""
    outputs = ["a.graph", "a.npz", "a.hgr", "b.mtx", "c.mtx", "b.graph"]
    yield _commands(
        "export/graph",
        "export sbm.mtx -o a.graph",
        "export sbm.mtx -o a.npz",
        "export sbm.mtx --self-loops --balance nnz,rows -o a.hgr",
        "export a.graph --normalize sym -o b.mtx",
        "export a.npz --normalize row --self-loops -o c.mtx",
        "export sbm.mtx --balance rows -o b.graph",
        inputs=["sbm"],
        outputs=outputs,
    )
    yield _commands(
        "export/plan",
        "export row.h5 -o row.part.4",
        "export edge.h5 -o edge.part.mtx",
        plans=["row", "edge"],
        outputs=["row.part.4", "edge.part.mtx"],
    )
    for name, words in (
        ("karate", ""),
        ("rmat", "--scale 7 --edge-factor 4 --seed 3"),
        ("grid", "--rows 9 --cols 7 --periodic"),
        ("sbm", "--blocks 3 --size 20"),
        ("geometric", "--num-vertices 90"),
        *(() if quick else (("digits", ""),)),
    ):
        files = [f"made-{name}.mtx", f"made-{name}.npz"]
        made = f"dataset {name} {words} -o {files[0]}"
        yield _commands(f"dataset/{name}", made, outputs=files)
    yield _commands(
        "accelerators",
        "accelerators --json",
        "accelerators",
        "accelerators rmat.mtx --dims 12,8,4 --json",
        inputs=["rmat"],
    )
    time = "--objective time --balance work --dims 12,8,4 --machine"
    yield _commands(
        "compile/files",
        "compile sbm.mtx -p 3 -o one.h5 --json --effort fast --compress --balance nnz",
        "compile sbm.mtx -p 3 -o two.h5 --json --transpose --pattern --model gp --balance nnz",
        "compile rmat.mtx -p 3 -o three.h5 --json --symmetrize --model medium-grain",
        f"compile rmat.mtx -p 4 -o four.h5 --json {time} summit",
        f"compile rmat.mtx -p 4 -o five.h5 --json {time} h100",
        "compile sbm.mtx -p 3 -o six.h5 --model hp --effort fast --balance nnz",
        "refine one.h5 -o seven.h5 --objective max-volume --json",
        "refine one.h5 -o eight.h5 --objective messages --max-extra-volume 10%",
        "verify one.h5 --against sbm.mtx",
        "inspect four.h5 --json",
        "compare one.h5 seven.h5",
        inputs=["sbm", "rmat"],
        outputs=[f"{name}.h5" for name in ("one", "two", "three", "six", "seven", "eight")],
    )
    commands = ("compile", "refine", "inspect", "compare", "simulate", "verify", "export")
    yield _commands("help", "--help", *(f"{command} --help" for command in commands))
    yield _commands(
        "refused",
        "compile missing.mtx -p 2 -o x.h5",
        "compile sbm.mtx -p 0 -o x.h5",
        "compile sbm.mtx -p 4 -o x.h5 --model nothing",
        "inspect sbm.mtx",
        "simulate sbm.mtx --dims 4,2",
        "nothing",
        inputs=["sbm"],
    )
