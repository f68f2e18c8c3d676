"""The whole compiler on one page: every stage takes a value and returns a value.

graph -> matrix (normalised) -> owners (search, partitioner or model) -> plan -> figures
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from plancc.cost.owners import random_traffic
from plancc.errors import InputError, PlanccWarning
from plancc.graph.convert import as_source
from plancc.graph.folders import check_reading
from plancc.graph.graph import NORMALIZATIONS
from plancc.graph.normalize import normalize as normalized
from plancc.graph.remarks import remarks
from plancc.graph.vertexdata import VertexData
from plancc.graph.weights import weighted
from plancc.memory import give_back_at_once
from plancc.models import MODELS
from plancc.models.capacities import check_capacities
from plancc.models.loads import Loads
from plancc.models.stochastic import StochasticModel
from plancc.models.weights import BATCH, DEFAULT_BALANCE, Balance
from plancc.options import SearchOptions
from plancc.owners.find import find_owners
from plancc.owners.memory import allowed_memory, within_memory
from plancc.owners.numbering import numbered
from plancc.owners.provenance import in_words, now
from plancc.owners.request import Assigner, balance_of, default_model, prepared
from plancc.owners.rows import with_clusters
from plancc.owners.task import Observer, Report, Task
from plancc.partitioners.options import AUTO
from plancc.passes.deadline import Stop
from plancc.plan.grid_slices import with_grid
from plancc.plan.lowering import lower
from plancc.plan.metrics import summarize
from plancc.plan.plan import Plan
from plancc.plan.routing import with_routes
from plancc.plan.topology import Topology
from plancc.predict.forecast import Forecast
from plancc.predict.machine import Machine
from plancc.predict.schedules import tables_of
from plancc.predict.widths import DataWidths
from plancc.registry import check_choice
from plancc.scratch import on_disk
from plancc.version import __version__

VALUE_DTYPES = ("float32", "float64")
EXCHANGES = ("auto", "flat", "nodes")
"""What `compile` may be told of hops between nodes."""
SLOWER = 1.02
"""Epoch with hops over that without, up to which a search for the volume keeps them: they move
fewer rows between nodes."""


def compile(
    graph: Any,
    model: str | None = None,
    num_parts: int = 2,
    *,
    normalize: str = "sym",
    self_loops: bool = True,
    balance: str | None = None,
    weights: Any = None,
    dims: Sequence[int] | None = None,
    epsilon: float = 0.01,
    objective: str | None = None,
    effort: str | None = None,
    budget: float | None = None,
    partitioner: str = AUTO,
    preset: str | None = None,
    machine: Machine | str | None = None,
    topology: str | Topology | None = None,
    exchange: str = "auto",
    capacities: Sequence[float] | None = None,
    threads: int = 1,
    memory: int | None = None,
    time_limit: float | None = None,
    seed: int = 1,
    data: Any = None,
    split: str | None = None,
    keys: Mapping[str, str] | None = None,
    value_dtype: str = "float32",
    clusters: int | None = None,
    command: str = "",
    observer: Observer = nullcontext,
    report: Report | None = None,
    stop: Stop | None = None,
    **model_options: Any,
) -> Plan:
    """Compile a graph into a communication plan.

    Parameters
    ----------
    graph : Graph, path, scipy sparse matrix, networkx graph, (n, edge_index), or an object of \
            PyTorch Geometric, DGL or igraph
        See `plancc.graph.convert.as_graph`.
    model : str, optional
        A name in `plancc.models.MODELS`; ``plancc models`` lists them. None: "hp"; for objective
        "time" the faster one of "hp" and "checkerboard"
        (`plancc.owners.request.default_model`).
    num_parts : int
        1..n. For process grids and feature parallelism the number of ranks; a grid has a block of
        rows for every process row, in every layer, or for every group. Options of the search then
        are those of the model of the blocks.
    normalize : {"sym", "row", "none"}
    self_loops : bool
        Add the identity before normalising.
    balance : str, optional
        What the parts share evenly: "nnz", "rows", "weights", "work" or "train", or several with
        commas between them, each with an allowed imbalance of its own if need be, as in
        "nnz:0.1,rows" (`plancc.models.weights.Balance`). None: that one where rows are searched
        for, else "nnz" (`plancc.owners.request.default_balance`); "weights" where there are
        `weights`.
    weights : path, or number[n] or number[n, num_weights], optional
        Weights of the vertices for balance "weights", from 0 on, in vertex order or with ids
        (`plancc.graph.weights.read_weights`). None: those that the source of the graph or the
        vertex data have, if any.
    dims : sequence of int, optional
        Widths d_0..d_L of the layers that epochs are predicted for. None: those of the features and
        the labels, with 128 between them; without data
        `plancc.predict.passes.DEFAULT_DIMS`.
    epsilon : float
        Allowed imbalance, max / mean - 1.
    objective : str, optional
        Objective to minimise: "volume", "max-volume", "messages" or "time"
        (`plancc.cost.objectives`), or one of the model's own. None: the model's default. Models
        that assign owners themselves have none.
    effort : {"fast", "balanced", "best"}, optional
        How much work goes into the search for owners; None: "balanced".
    budget : float, optional
        Seconds for the search; effort "best" uses all of them. With a named partitioner, seconds
        for the refinement after it.
    partitioner : str
        "auto", which is the search, or a name in `plancc.partitioners.PARTITIONERS`. Its answer is
        taken as it is, unless it does not have the objective, for which the answer is then refined,
        or misses several balances, for which rows are moved.
    preset : str, optional
        Preset of the partitioner; with "auto" of the first one that is installed.
    machine : Machine or str, optional
        The machine that the epoch is predicted on: a value, a name or a file. None:
        `plancc.predict.machine_files.DEFAULT_MACHINE`.
    topology : str or Topology, optional
        Nodes x ranks per node, such as "4x8": a search minimises what travels between nodes
        first, other parts are numbered so that those which exchange much share a node. The nodes
        of the machine have as many ranks then.
    exchange : {"auto", "flat", "nodes"}
        With a topology: whether rows travel in hops, each to a node once (`plancc.plan.routing`),
        or straight from rank to rank. "auto": in hops where that is predicted to take less time.
    capacities : sequence of float, optional
        Relative speed of every rank: parts get work in proportion to it, by every balance. The same
        as `machine` with these speeds; None: the speeds of the machine, 1 for all where it has
        none.
    threads : int
        Threads of the search and the partitioners; with one thread and no budget the same seed
        gives the same plan.
    memory : int, optional
        Bytes that the compiler and the processes that it starts may take. Where a search would take
        more, partitioners are given clusters only, and then the effort is fast
        (`plancc.search.footprint`). None: what this computer has left, less a tenth.
    time_limit : float, optional
        Seconds that one native partitioner may run (6 hours).
    seed : int
    data : path, several paths, VertexData, mapping of str to array, or False, optional
        Features, labels and masks in vertex order, to be carried in the plan
        (`plancc.graph.vertexdata.read_vertex_data`). None: those that the source of the graph holds
        besides, if any; False: none.
    split : str, optional
        The split to take where the vertex data have several: its name, or its column of the masks.
    keys : mapping of str to str, optional
        The source's names, as in ``{"graph": "distances", "features": "X_pca"}``: of the graph
        (`plancc.graph.formats.read_graph`) and of vertex data
        (`plancc.graph.vertexdata.read_vertex_data`).
    value_dtype : {"float32", "float64"}
        Type of the matrix in the plan.
    clusters : int, optional
        Cut the graph into this many clusters and store them, for the sampler "cluster".
    command : str
        Recorded in the provenance.
    observer : callable
        Called with the name of each stage; returns a context manager around it.
    report : callable
        Called with every step of the search as it ends, a `plancc.search.Trial`.
    stop : callable, optional
        Asked often during the search, by any thread: once it says yes, the search ends with the
        best owners so far.
    **model_options
        The fields of the model's class (`Model.option_fields`), such as ``part`` for model file.

    Returns
    -------
    Plan

    Raises
    ------
    InputError, BackendUnavailable, BackendError
        An InputError also where memory does not suffice, before the search.

    Warns
    -----
    PlanccWarning
        Less of a search than was asked for, for want of memory; fallbacks, a missed balance, a
        partition that another run may not repeat; what vertex data hold and is seldom meant
        (`plancc.graph.remarks`).
    """
    check_choice("normalization", normalize, NORMALIZATIONS)
    check_choice("value type", value_dtype, VALUE_DTYPES)
    check_choice("exchange", exchange, EXCHANGES)
    if exchange == "nodes" and topology is None:
        raise InputError("`exchange` nodes: needs a topology, nodes x ranks per node (`topology`)")
    options = SearchOptions(
        partitioner=partitioner,
        preset=preset,
        objective=objective,
        effort=effort,
        budget=budget,
        dims=None if dims is None else tuple(dims),
        machine=machine,
        topology=topology,
        epsilon=epsilon,
        seed=seed,
        threads=threads,
        time_limit=time_limit,
        stop=stop,
        capacities=None if capacities is None else check_capacities(capacities),
    )
    balance = balance_of(balance, weights)
    if model is None:
        model, chosen = default_model(options, balance)
        model_options = chosen | model_options
    assigner, task, wanted = prepared(model, num_parts, model_options, options, balance)
    if isinstance(task.model, StochasticModel) and dims is not None:
        task.model.check_layers(len(dims) - 1)
    num_parts = task.num_parts

    give_back_at_once()
    taken = allowed_memory(memory)
    if isinstance(graph, str | os.PathLike):
        check_reading(graph, taken)
    with observer("load"):
        graph, vertex_data = as_source(graph, data, split=split, keys=keys)
        if weights is not None:
            graph = weighted(graph, weights)
        assigner.check_graph(graph.num_vertices, vertex_data)
        wanted = replace(wanted, train_mask=vertex_data.train_mask)
        if task.model.layout == "row":  # others share nonzeros alone, and say so
            wanted.check_given(graph)
        task = _with_dims(task, vertex_data)
    task, way, given_up = within_memory(task, graph, vertex_data, len(wanted.names), taken)
    said = []
    if given_up:
        warnings.warn(given_up, PlanccWarning, stacklevel=2)
    large_arrays = partial(on_disk, task.options.on_disk)
    task.model.check(graph, num_parts)
    with observer("normalize"), large_arrays():
        matrix = normalized(graph, normalize, self_loops=self_loops, dtype=value_dtype)
    if clusters is not None:
        with observer("clusters"):
            vertex_data = with_clusters(vertex_data, matrix, clusters, seed, time_limit)
    wanted = replace(wanted, dims=task.options.dims)
    task = replace(task, model=task.model.with_data(vertex_data))
    if isinstance(task.model, StochasticModel):
        source = task.model.source(matrix)
        if source.remark:
            said.append(source.remark)
        if BATCH in wanted.names:
            wanted = replace(wanted, expected_nonzeros=source.expected_nonzeros(seed))
    for remark in remarks(vertex_data):
        warnings.warn(f"{graph.source.name}: {remark}", PlanccWarning, stacklevel=2)
    unfit = task.model.unfit(matrix, num_parts)
    said += [unfit] if unfit else []
    for note in said:  # before the search
        warnings.warn(note, PlanccWarning, stacklevel=2)
    with large_arrays():
        found = find_owners(matrix, task, wanted, observer, report)
    if assigner.grid is None and task.model.layout != "any":
        with observer("number"):
            found = numbered(matrix, found, task, report)
    wanted = found.balance or wanted
    with observer("lower"), large_arrays():
        owners = found.owners
        if owners.nonzeros is None:
            reached = Loads.of(matrix, wanted, epsilon).imbalances(owners.rows, num_parts)
        else:
            loads = Loads.of_nonzeros(matrix.num_nonzeros, epsilon, wanted.capacities)
            reached = loads.imbalances(owners.of_nonzeros(matrix), num_parts)
        plan = lower(matrix, owners, num_parts, normalization=normalize, self_loops=self_loops)
        if assigner.grid is not None:
            plan = with_grid(plan, assigner.grid)
        plan, about_hops = _with_hops(plan, task, exchange)
    with observer("baseline"):
        baseline = summarize(random_traffic(matrix, num_parts))
    with observer("predict"):
        forecast = Forecast.of(task.options.predictor, plan, matrix)
    notes = [*found.warnings, *about_hops]
    if forecast.slower and not (task.model.of_batches or MODELS[model].even_random):
        straight = _straight(plan, task)
        if straight is not None and straight < (forecast.seconds or 0.0):
            advice = f"without hops, by `exchange` flat, it takes {1e3 * straight:.4g} ms"
        else:
            advice = _advice(wanted, task, assigner)
        notes.append(f"{forecast.comparison}; {advice}")

    for note in notes:
        warnings.warn(note, PlanccWarning, stacklevel=2)
    return replace(
        plan,
        vertex_data=vertex_data.take(plan.global_id),
        original_id=graph.original_ids,
        baseline=baseline,
        provenance={
            "source_name": graph.source.name,
            "source_sha256": graph.source.sha256,
            "source_format": graph.source.format,
            "source_reading": graph.source.reading,
            "source_weights": graph.source.weights_in_words,
            **({"source_columns": graph.source.columns} if graph.source.columns else {}),
            "plancc_version": __version__,
            "created": now(),
            "command": command or "plancc.compile(...)",
            "model": model,
            **({} if assigner.grid is None else {"blocks": assigner.model}),
            "balance": str(wanted),
            "balance_imbalance": ",".join(f"{value:.6g}" for value in reached),
            **forecast.provenance(),
            "epsilon": float(epsilon),
            "seed": seed,
            **{
                f"model_{name}": in_words(value)
                for name, value in (model_options | task.handed_on).items()
            },
            **found.how,
            **({} if memory is None else {"memory": memory}),
            "predicted_memory": way.peak,
            "warnings": "\n".join([*([given_up] if given_up else []), *said, *notes]),
        },
    )


def _with_hops(plan: Plan, task: Task, exchange: str) -> tuple[Plan, list[str]]:
    """The plan with hops for the nodes of a topology, and what the user should know of it.

    "auto" leaves them out where the epoch is predicted to take longer with them; for objective
    "volume", by more than `SLOWER`.
    """
    topology, predictor = task.options.nodes, task.options.predictor
    if topology is None or plan.header.grid is not None or exchange == "flat":
        return plan, []
    if not 1 < topology.nodes < topology.num_ranks:
        return plan, []
    routed = with_routes(plan, topology)
    tables = tables_of(routed)
    there = tables.on_nodes(predictor.machine.node.ranks)
    if exchange == "nodes" or there.topology is None:
        return routed, []
    flat, hops = (predictor.epoch(each).seconds for each in (tables.flat(), tables))
    allowed = SLOWER if task.objective == "volume" else 1.0
    if hops <= allowed * flat:
        return routed, []
    return plan, [
        f"rows travel straight from rank to rank: in hops between nodes ({topology}) an epoch is "
        f"predicted to take {hops / flat:.2f} times as long ({1e3 * hops:.4g} ms, straight "
        f"{1e3 * flat:.4g} ms; machine {predictor.machine.title}); `exchange` nodes compiles them"
    ]


def _straight(plan: Plan, task: Task) -> float | None:
    """Predicted epoch of a plan with hops, without them; None for other plans."""
    if plan.header.topology is None:
        return None
    return task.options.predictor.epoch(tables_of(plan).flat()).seconds


def _with_dims(task: Task, data: VertexData) -> Task:
    """The task with the widths of the layers: given, of the data, or the default ones."""
    widths, dims = DataWidths.of(data), task.options.dims
    if dims is None:
        dims = widths.dims
    else:
        widths.check(dims)
    return replace(task, options=replace(task.options, dims=dims))


def _advice(wanted: Balance, task: Task, assigner: Assigner) -> str:
    """What may make an epoch faster."""
    model, searched = task.model, task.model.searched and assigner.grid is None
    chooses = model.layout == "any"  # among models
    if searched and model.layout == "row" and "rows" not in wanted.names:
        return f"try `balance` {DEFAULT_BALANCE}"
    if (searched or chooses) and (task.options.objective or model.default_objective) != "time":
        return "try `objective` time, or fewer parts"
    return "try fewer parts" if chooses else "try `model` auto, or fewer parts"
