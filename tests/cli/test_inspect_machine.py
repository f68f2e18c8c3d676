"""`inspect` on nodes and machines, and what the compiler tried, from the plan file alone."""

from pathlib import Path

import figures
import numpy as np
import pytest
from cli_helpers import as_json, noted, ok

pytestmark = pytest.mark.usefixtures("opened_once")


@pytest.fixture(scope="module")
def plan(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The graph in 6 parts."""
    path = tmp_path_factory.mktemp("six") / "six.h5"
    ok("compile", graph, "-p", 6, "-o", path)
    return path


def by_node(arrays: figures.PlanArrays, owner: np.ndarray, size: int) -> dict[str, dict[str, int]]:
    """Rows and messages inside and between nodes, from the matrix."""
    moved = {
        (owner[j], owner[i], j)
        for i, j in zip(arrays.row, arrays.column, strict=True)
        if owner[i] != owner[j]
    }
    inside = {(q, m, j) for q, m, j in moved if q // size == m // size}
    volume = {"inside": len(inside), "between": len(moved) - len(inside)}
    pairs = len({(q, m) for q, m, _ in moved})
    pairs_inside = len({(q, m) for q, m, _ in inside})
    return {"volume": volume, "messages": {"inside": pairs_inside, "between": pairs - pairs_inside}}


@pytest.mark.parametrize("nodes", [1, 2, 3, 6])
def test_inside_and_between_nodes(nodes: int, plan: Path) -> None:
    size = 6 // nodes
    words = ["inspect", plan, "--topology", f"{nodes}x{size}"]
    shown = as_json(*words)["topology"]
    arrays = figures.read(plan)
    expected = by_node(arrays, arrays.owner, size)
    hops = {name: shown.pop(f"{name}_in_hops") for name in ("volume", "messages")}
    assert shown == {
        "topology": f"{nodes}x{size}",
        "nodes": nodes,
        "ranks_per_node": size,
        **expected,
        "has_hops": False,
        "random_share": pytest.approx((6 - size) / 5),
    }
    once = {
        (owner // size, j, arrays.owner[i] // size)
        for i, j in zip(arrays.row, arrays.column, strict=True)
        if (owner := arrays.owner[j]) // size != arrays.owner[i] // size
    }
    assert hops["volume"]["between"] == len(once)
    assert hops["messages"]["between"] == len({(a, b) for a, _, b in once})


def test_nodes_of_merged_parts(plan: Path) -> None:
    shown = as_json("inspect", "-v", plan, "--ranks", 4, "--topology", "2x2")
    arrays = figures.read(plan)
    rank_of_part = np.array([next(k for k in range(4) if m < (k + 1) * 6 // 4) for m in range(6)])
    expected = by_node(arrays, rank_of_part[arrays.owner], 2)
    assert {name: shown["topology"][name] for name in expected} == expected


def test_the_topology_of_the_plan(plan: Path, tmp_path: Path) -> None:
    copy = noted(plan, tmp_path, topology="3x2")
    shown = as_json("inspect", "-v", copy)
    asked = as_json("inspect", "-v", plan, "--topology", "3x2")
    assert shown["topology"] == asked["topology"]
    assert "on 3 nodes of 2 ranks" in ok("inspect", "-v", copy)
    other = as_json("inspect", "-v", copy, "--topology", "2x3")["topology"]
    assert (other["nodes"], other["ranks_per_node"]) == (2, 3)
    # merged parts make up other nodes, and a plan need not make sense of its provenance
    assert "topology" not in as_json("inspect", "-v", copy, "--ranks", 3)
    for strange in ("4x8", "x", "", 7):
        copy = noted(plan, tmp_path, topology=strange)
        assert "topology" not in as_json("inspect", "-v", copy)
    assert "topology" not in as_json("inspect", "-v", plan)


@pytest.mark.parametrize(
    "tried",
    [
        "by hand",
        "{}",
        "[3]",
        '[{"seconds": 3}]',
        '[{"step": "a", "value": "x"}]',
        '[{"step": "a", "value": NaN}]',
        '[{"step": "a", "value": 1e999}]',
        f'[{{"step": "a", "value": 1{"0" * 5000}}}]',
        "[" * 50_000,
        3.5,
    ],
)
def test_what_was_tried_in_other_words(tried: object, plan: Path, tmp_path: Path) -> None:
    """Provenance is informative: what cannot be read as a table is shown as it is."""
    copy = noted(plan, tmp_path, tried=tried)
    assert as_json("inspect", "-v", copy)["provenance"]["tried"] == tried
    assert "tried  " in ok("inspect", "-v", copy)
