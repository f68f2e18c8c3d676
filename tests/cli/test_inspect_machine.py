"""`inspect` on nodes and machines, and what the compiler tried, from the plan file alone."""

import json
from pathlib import Path

import figures
import numpy as np
import pytest
from cli_helpers import as_json, fails, noted, ok
from test_inspect import table

pytestmark = pytest.mark.usefixtures("opened_once")

TRIED = [
    {"step": "metis", "seconds": 0.25, "value": 120, "volume": 120, "best": False},
    {"step": "kahypar", "seconds": 3, "value": None, "volume": None, "best": False},
    {"step": "refine", "seconds": 1.5, "value": 0.00123456, "volume": 98, "best": True},
]


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
    rows = table(ok(*words), f"on {nodes} nodes of {size} ranks")
    for row, counts in zip(rows, expected.values(), strict=False):
        total = sum(counts.values())
        assert row[1:3] == [f"{counts['inside']:,}", f"{counts['between']:,}"]
        assert float(row[3]) == pytest.approx(counts["between"] / total, abs=5.1e-3)
    assert [int(row[2].replace(",", "")) for row in rows[2:4]] == [
        counts["between"] for counts in hops.values()
    ]
    assert float(rows[4][1]) == pytest.approx((6 - size) / 5, abs=5.1e-3)


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


def test_what_was_tried(plan: Path, tmp_path: Path) -> None:
    copy = noted(plan, tmp_path, tried=json.dumps(TRIED))
    assert as_json("inspect", "-v", copy)["provenance"]["tried"] == TRIED
    text = ok("inspect", "-v", copy)
    assert table(text, "steps of the search") == [
        ["metis", "0.25", "120", ""],
        ["kahypar", "3.00", "-", ""],
        ["refine", "1.50", "98", "*"],
    ]
    assert '"step"' not in text


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


def test_wrong_words(plan: Path, tmp_path: Path) -> None:
    for topology in ("", "6", "0x6", "2*3", "2x3x1"):
        assert "such as 4x8" in fails(tmp_path, "inspect", plan, "--topology", topology)
    error = fails(tmp_path, "inspect", plan, "--topology", "2x2")
    assert "2x2 has 4 ranks" in error
    assert "6 parts" in error
    error = fails(tmp_path, "inspect", plan, "--topology", "2x3", "--ranks", 4)
    assert "4 parts" in error
    machine = tmp_path / "machine.toml"
    error = fails(tmp_path, "inspect", plan, "--dims", "4,2", "--machine", machine)
    assert error == f"{machine}: no such file"
    machine.write_text("latency = -1\nbandwidth = 1e9\nmultiply_adds = 1e9\n")
    error = fails(tmp_path, "inspect", plan, "--dims", "4,2", "--machine", machine)
    assert error == f"{machine}: machine: 'latency' is -1, not a positive finite number"
    error = fails(tmp_path, "inspect", plan, "--boundary-sampling", "0.1")
    assert "(--dims)" in error


def test_overload_is_shown_where_there_is_any(plan: Path, tmp_path: Path) -> None:
    steps = [dict(each, overload=over) for each, over in zip(TRIED, (0.25, None, 0), strict=True)]
    rows = table(
        ok("inspect", "-v", noted(plan, tmp_path, tried=json.dumps(steps))), "steps of the search"
    )
    assert [row[3] for row in rows] == ["0.2500", "-", "0"]
    for over in (None, 0):
        steps = [dict(each, overload=over) for each in TRIED]
        rows = table(
            ok("inspect", "-v", noted(plan, tmp_path, tried=json.dumps(steps))),
            "steps of the search",
        )
        assert [len(row) for row in rows] == [4, 4, 4]
