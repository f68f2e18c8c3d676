"""The whole compiler on one page: every stage takes a value and returns a value.

graph -> matrix (normalised) -> problem (model) -> owners (partitioner) -> plan -> figures
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from typing import Any

import numpy as np

from plancc.cost.metrics import imbalance, summarize
from plancc.cost.owners import random_traffic
from plancc.errors import InputError
from plancc.graph.convert import as_graph
from plancc.graph.graph import NORMALIZATIONS, Graph
from plancc.graph.normalize import normalize as normalized
from plancc.graph.vertexdata import VertexData, check_vertex_data, read_vertex_data
from plancc.models import MODELS
from plancc.models.problem import Assignment
from plancc.models.weights import Balance, check_num_parts, constraints, part_weights
from plancc.partitioners import PARTITIONERS
from plancc.partitioners.run import AUTO, check_options, checked_owner, partition
from plancc.plan.lowering import lower
from plancc.plan.plan import Plan
from plancc.registry import check_choice
from plancc.version import __version__

VALUE_DTYPES = ("float32", "float64")

Observer = Callable[[str], AbstractContextManager[Any]]


class PlanccWarning(UserWarning):
    """What a user should know of a plan that was compiled all the same."""


def compile(
    graph: Any,
    model: str = "hp",
    num_parts: int = 2,
    *,
    normalize: str = "sym",
    self_loops: bool = True,
    balance: str = "nnz",
    dims: Sequence[int] | None = None,
    epsilon: float = 0.01,
    partitioner: str = AUTO,
    preset: str | None = None,
    threads: int = 1,
    time_limit: float | None = None,
    seed: int = 1,
    data: str | os.PathLike[str] | VertexData | None = None,
    value_dtype: str = "float32",
    command: str = "",
    observer: Observer = nullcontext,
    **model_options: Any,
) -> Plan:
    """Compile a graph into a communication plan.

    Parameters
    ----------
    graph : Graph, path, scipy sparse matrix, networkx graph or (n, edge_index)
        See `plancc.graph.convert.as_graph`.
    model : str
        "rp", "block", "gp", "hp", "rcm" or "file" (`plancc.models`).
    num_parts : int
        1..n.
    normalize : {"sym", "row", "none"}
    self_loops : bool
        Add the identity before normalising.
    balance : str
        What the parts share evenly: "nnz", "rows", "weights", "work" or "train", or several with
        commas between them (`plancc.models.weights.Balance`).
    dims : sequence of int, optional
        Widths d_0..d_L of the layers; balance "work" needs them.
    epsilon : float
        Allowed imbalance, max / mean - 1.
    partitioner : str
        "auto" or a name in `plancc.partitioners.PARTITIONERS`; for the models gp and hp.
    preset : str, optional
        Of the partitioner.
    threads : int
        Of the partitioner; with one thread the same seed gives the same plan.
    time_limit : float, optional
        Seconds that a native partitioner may run (6 hours).
    seed : int
    data : path or VertexData, optional
        Features, labels and masks in vertex order, to be carried in the plan.
    value_dtype : {"float32", "float64"}
        Of the matrix in the plan.
    command : str
        Recorded in the provenance.
    observer : callable
        Called with the name of each stage; returns a context manager around it.
    **model_options
        Options of the model: ``objective`` ("cut", "volume") for gp, ``part`` (a path or an
        array) for file.

    Returns
    -------
    Plan

    Raises
    ------
    InputError, BackendUnavailable, BackendError

    Warns
    -----
    PlanccWarning
        Fallbacks, a missed balance, a partition that another run may not repeat.
    """
    check_choice("normalization", normalize, NORMALIZATIONS)
    check_choice("value type", value_dtype, VALUE_DTYPES)
    check_choice("partitioner", partitioner, [AUTO, *PARTITIONERS])
    check_options(epsilon, seed, threads, time_limit)
    wanted = Balance.parse(balance, dims)
    chosen_model = _make_model(model, model_options)

    with observer("load"):
        graph = as_graph(graph)
        check_num_parts(graph.num_vertices, num_parts)
        vertex_data = _vertex_data(data, graph)
        wanted = replace(wanted, train_mask=vertex_data.train_mask)
    with observer("normalize"):
        matrix = normalized(graph, normalize, self_loops=self_loops, dtype=value_dtype)
    with observer(f"model {model}"):
        loads = constraints(matrix, wanted)
        problem = chosen_model.build(matrix, num_parts, balance=wanted, seed=seed)
    with observer("partition"):
        if isinstance(problem, Assignment):
            owner = checked_owner(f"model '{model}'", problem.owner, graph.num_vertices, num_parts)
            how = dict(problem.notes)
            notes = _empty_parts(owner, num_parts)
        else:
            result = partition(
                problem,
                num_parts,
                partitioner,
                epsilon=epsilon,
                seed=seed,
                preset=preset,
                threads=threads,
                time_limit=time_limit,
                order=chosen_model.partitioners,
                constraints=tuple(loads),
            )
            owner, notes = result.owner, result.warnings
            how = {
                "partitioner": result.partitioner,
                "partitioner_version": result.version,
                "preset": result.preset,
                "epsilon": float(epsilon),
                "threads": threads,
                "partition_seconds": result.seconds,
            }
    of_parts = [part_weights(owner, load, num_parts) for load in loads.values()]
    del problem, loads
    with observer("lower"):
        plan = lower(matrix, owner, num_parts, normalization=normalize, self_loops=self_loops)
    with observer("baseline"):
        baseline = summarize(random_traffic(matrix, num_parts))

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
            "plancc_version": __version__,
            "created": _now(),
            "command": command or "plancc.compile(...)",
            "model": model,
            "balance": str(wanted),
            "balance_imbalance": ",".join(f"{imbalance(load):.6g}" for load in of_parts),
            **({} if dims is None else {"dims": ",".join(map(str, dims))}),
            "seed": seed,
            **{f"model_{name}": _in_words(value) for name, value in model_options.items()},
            **how,
            "warnings": "\n".join(notes),
        },
    )


def _make_model(name: str, options: dict[str, Any]) -> Any:
    """The model with its options; InputError for an option that it does not have."""
    model_class = MODELS[name]
    known = [field.name for field in fields(model_class)]
    for option in options:
        if option not in known:
            raise InputError(
                f"model '{name}' has no option '{option}'"
                + (f": it has {', '.join(known)}" if known else "")
            )
    return model_class(**options)


def _vertex_data(data: str | os.PathLike[str] | VertexData | None, graph: Graph) -> VertexData:
    if data is None:
        return VertexData()
    if isinstance(data, VertexData):
        return check_vertex_data(vars(data), graph.num_vertices)
    return read_vertex_data(data, graph.num_vertices)


def _in_words(value: Any) -> str:
    """An option for the provenance; an array by its kind, since it may be as long as the graph."""
    return str(value) if np.ndim(value) == 0 else f"<{type(value).__name__}>"


def _empty_parts(owner: np.ndarray, num_parts: int) -> list[str]:
    empty = num_parts - np.count_nonzero(np.bincount(owner, minlength=num_parts))
    return [f"{empty} of {num_parts} parts have no rows"] if empty else []


def _now() -> str:
    """UTC, from SOURCE_DATE_EPOCH where it is set, so that builds can be repeated to the byte."""
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
