"""Verify a plan: check all invariants, and compare the plan's matrix with the graph's matrix."""

from __future__ import annotations

from os import fspath

import numpy as np

from plancc.errors import PlanError
from plancc.files import StrPath
from plancc.graph.graph import Graph
from plancc.graph.links import KINDS, SPLITS, without
from plancc.graph.normalize import normalize
from plancc.plan.matrix import ends_of_links, typed_graph_of
from plancc.plan.part_invariants import check
from plancc.plan.plan import Plan
from plancc.plan.plan_invariants import plan_invariants
from plancc.plan.reader import PlanFile


def verify_file(path: StrPath, against: Graph | None = None) -> list[str]:
    """Check a plan file: checksums, content hash, invariants and stored metrics.

    A file of a higher minor version may have datasets that this version does not know. These are
    not checked.

    Parameters:
        path: The plan file.
        against: The graph from which the plan was compiled. The matrix of the plan must be the
            normalised matrix of this graph, without the edges that link prediction takes out of
            the matrix: validation and test links, and perhaps some training links.

    Returns:
        The names of the checks that were made.

    Raises:
        PlanError: For the first invariant that does not hold. The message says where.
    """
    path = fspath(path)
    with PlanFile(path) as file:
        plan = file.read_unchecked()
        done = verify(plan, against, path=path)
        file.check_figures(plan.metrics)
    return ["node types, sizes and checksums", "content hash", *done, "stored metrics"]


def verify(plan: Plan, against: Graph | None = None, *, path: str = "") -> list[str]:
    """Check a plan in memory; return the names of the checks that were made.

    For `against` and the error, see `verify_file`. Error messages begin with `path` unless it is
    "".
    """
    done = check(plan_invariants(plan), path)
    if against is not None:
        if problem := _difference_of_links(plan, against):
            raise PlanError(f"{path}: {problem}" if path else problem)
        done.append("the union of the parts is the normalised matrix of the graph")
    return done


def _difference_of_links(plan: Plan, graph: Graph) -> str:
    """Compare like `_difference`, but ignore edges of the graph that the plan uses only as links.

    These edges are validation and test links, and training links taken out of the matrix
    (``disjoint_train_ratio``).
    """
    if plan.links is None or graph.num_vertices != plan.num_vertices:
        return _difference(plan, graph)
    ends, kind = ends_of_links(plan), plan.links.kind
    train, *held_out = (ends[:, kind == KINDS.index(split)] for split in SPLITS)
    carrying = without(graph, np.concatenate(held_out, axis=1))
    problem = _difference(plan, carrying)
    return problem if problem and _difference(plan, without(carrying, train)) else ""


def _difference(plan: Plan, graph: Graph) -> str:
    """Return where the plan's matrix differs from the graph's normalised matrix; "" if nowhere."""
    header = plan.header
    if graph.num_vertices != plan.num_vertices:
        return (
            f"{graph.source.name} has {graph.num_vertices} vertices, the plan {plan.num_vertices}"
        )
    if graph.types != header.types:
        return f"{graph.source.name} has other types and relations than the plan"
    name, loops = graph.source.name, header.self_loops
    matrix = normalize(graph, header.normalization, self_loops=loops, dtype=plan.value.dtype)
    assert matrix.values is not None
    found = typed_graph_of(plan)
    assert found.values is not None
    counts, expected = found.row_nonzeros(), matrix.row_nonzeros()
    for i in np.flatnonzero(counts != expected):
        return f"vertex {i} has {counts[i]} nonzeros, in {name} it has {expected[i]}"
    wrong = (found.indices != matrix.indices) | (found.values != matrix.values)
    if found.relation is not None:
        wrong |= found.relation != matrix.relation
    for k in np.flatnonzero(wrong):
        i = np.searchsorted(matrix.indptr, k, side="right") - 1
        return (
            f"nonzero ({i}, {found.indices[k]}) is {found.values[k]:g}; in {name} the row has "
            f"({i}, {matrix.indices[k]}) = {matrix.values[k]:g} there"
        )
    return ""
