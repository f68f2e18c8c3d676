"""Small graphs, owners and plans for the tests of the plan."""

from dataclasses import fields, replace

import numpy as np
import worlds
from hypothesis import settings
from hypothesis import strategies as st
from worlds import random_array

from plancc.graph.graph import Graph
from plancc.graph.owners import Owners
from plancc.graph.vertexdata import VertexData
from plancc.plan.exchange import Exchange, Side
from plancc.plan.lowering import lower
from plancc.plan.parts import Claims
from plancc.plan.values import Exchanges


def graph_of(array: np.ndarray, *, directed: bool = True, dtype=np.float32, **fields) -> Graph:
    """The nonzeros of a dense array as a Graph that is directed unless told, with values."""
    values = array.astype(float) if array.dtype == bool else array
    return worlds.graph_of(values, directed=directed, dtype=dtype, **fields)


def costly(share: int) -> settings:
    """A share of the profile's examples, at most 50, for tests whose examples cost much."""
    return settings(max_examples=min(50, settings().max_examples // share))


@st.composite
def cases(draw, max_vertices=14, densities=(0.0, 0.1, 0.3, 1.0)):
    """(graph, owner, num_parts): directed or not, empty rows, empty parts, p = 1..n."""
    n = draw(st.integers(1, max_vertices))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    symmetric = draw(st.booleans())
    array = random_array(
        rng,
        n,
        draw(st.sampled_from(densities)),
        symmetric=symmetric,
        diagonal=draw(st.sampled_from(["as is", "full", "none"])),
    )
    num_parts = draw(st.integers(1, n))
    spread = draw(st.sampled_from(["any", "few", "blocks", "all"]))
    if spread == "any":
        owner = rng.integers(0, num_parts, n)
    elif spread == "few":  # most parts stay empty
        owner = rng.choice(rng.integers(0, num_parts, 2), n)
    elif spread == "blocks":
        owner = np.arange(n) * num_parts // n
    else:
        owner = rng.permutation(np.arange(n) % num_parts)
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    graph = graph_of(array, directed=not symmetric, dtype=dtype)
    return graph, owner.astype(np.int32), num_parts


def lowered(graph, owner, num_parts):
    return lower(graph, Owners(owner), num_parts, normalization="none", self_loops=False)


def data_of(n: int, seed: int = 0) -> VertexData:
    return worlds.data(n, 3, 4, seed)


@st.composite
def edge_cases(draw, max_vertices=14, densities=(0.0, 0.1, 0.3, 1.0)):
    """(graph, owner, owner of every nonzero, num_parts): as `cases`, nonzeros anywhere.

    The diagonal is with the owner of the row. Nonzeros of many rows, or all, stay with the row's
    or the column's owner.
    """
    graph, owner, num_parts = draw(cases(max_vertices, densities))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    row = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    spread = draw(st.sampled_from(["any", "rows", "columns", "either"]))
    if spread == "any":
        nonzero_owner = rng.integers(0, num_parts, graph.num_nonzeros)
    elif spread == "rows":
        nonzero_owner = owner[row]
    elif spread == "columns":
        nonzero_owner = owner[graph.indices]
    else:
        with_row = rng.random(graph.num_nonzeros) < 0.5
        nonzero_owner = np.where(with_row, owner[row], owner[graph.indices])
    diagonal = row == graph.indices
    nonzero_owner = np.where(diagonal, owner[row], nonzero_owner).astype(np.int32)
    return graph, owner, nonzero_owner, num_parts


def edges_lowered(graph, owner, nonzero_owner, num_parts):
    owners = Owners(owner, nonzero_owner)
    return lower(graph, owners, num_parts, normalization="none", self_loops=False)


def owners_of_pairs(graph, nonzero_owner) -> dict[tuple[int, int], int]:
    """Part of every nonzero (i, j)."""
    return {
        (i, int(graph.indices[k])): int(nonzero_owner[k])
        for i in range(graph.num_vertices)
        for k in range(graph.indptr[i], graph.indptr[i + 1])
    }


def assert_equal(found, expected):
    """Two plans, or parts of plans: equal in every field, dtypes included."""
    assert type(found) is type(expected)
    for field in fields(expected):
        a, b = getattr(found, field.name), getattr(expected, field.name)
        if isinstance(b, np.ndarray):
            assert a.dtype == b.dtype, field.name
            np.testing.assert_array_equal(a, b, err_msg=field.name)
        elif isinstance(b, Claims | Exchange | Side | VertexData):
            assert_equal(a, b)
        elif isinstance(b, Exchanges):
            assert list(a) == list(b)
            for step, exchange in b.items():
                assert_equal(a[step], exchange)
        elif field.name == "columns":
            np.testing.assert_equal(a, b)
            assert {n: x.dtype for n, x in a.items()} == {n: x.dtype for n, x in b.items()}
        else:
            assert a == b, field.name


def with_steps(plan, **steps):
    """The plan with other messages in these steps and hops; None: without it."""
    steps = {**plan.exchanges, **steps}
    return replace(plan, exchanges=Exchanges({k: v for k, v in steps.items() if v is not None}))


def rich_plan(layout="row", *, seed=0, n=40, num_parts=4, dtype=np.float32):
    """A plan with everything optional in it."""
    rng = np.random.default_rng(seed)
    graph = graph_of(random_array(rng, n, 0.1), dtype=dtype)
    owner = rng.integers(0, num_parts, n).astype(np.int32)
    baseline = lowered(graph, rng.permutation(owner), num_parts).metrics()
    plan = lowered(graph, owner, num_parts)
    if layout == "edge":
        held = worlds.nonzero_owners(graph, owner, num_parts, seed)
        plan = edges_lowered(graph, owner, held, num_parts)
    return replace(
        plan,
        columns={"edge_features": rng.random((plan.header.num_nonzeros, 2), np.float32)},
        vertex_data=data_of(n, seed).take(plan.global_id),
        original_id=rng.permutation(n).astype(np.int64) * 10**12,
        provenance={"seed": 3, "epsilon": 0.25, "command": "plancc compile é→", "warnings": ""},
        baseline=baseline,
    )
