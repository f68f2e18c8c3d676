"""Certificates of volume, against all partitions of tiny matrices."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from cli_helpers import as_json, ok

import plancc
from plancc_lab.inspect.certificate import Certificate


def slow_volume(dense: np.ndarray, owner: tuple[int, ...]) -> int:
    return len({(owner[i], j) for i, j in np.argwhere(dense) if owner[i] != owner[j]})


def least_volume(dense: np.ndarray, parts: int, most_rows: int, most_nonzeros: int) -> int:
    """The least volume of all partitions within the sizes."""
    nonzeros, found = (dense != 0).sum(axis=1), []
    for owner in product(range(parts), repeat=len(dense)):
        of = np.array(owner)
        rows = np.bincount(of, minlength=parts)
        if rows.max() <= most_rows and np.bincount(of, nonzeros).max() <= most_nonzeros:
            found.append(slow_volume(dense, owner))
    return min(found)


def certificate(dense: np.ndarray, *sizes: int) -> Certificate:
    return Certificate.of(plancc.as_graph(sp.csr_array(dense)), *sizes)


@pytest.mark.parametrize("seed", range(12))
def test_no_partition_is_below(seed: int) -> None:
    rng, n, parts = np.random.default_rng(seed), 6, 2 + seed % 2
    dense = (rng.random((n, n)) < (0.15, 0.3, 0.6)[seed % 3]) * 1.0
    dense[0, 1] = 1  # some nonzero
    given = rng.permutation(np.arange(n) % parts)
    rows = int(np.bincount(given).max())
    nonzeros = int(np.bincount(given, (dense != 0).sum(axis=1)).max())
    found = certificate(dense, rows, nonzeros)
    assert 0 <= found.volume <= least_volume(dense, parts, rows, nonzeros)
    both = sp.csgraph.connected_components(sp.csr_array(dense), connection="weak")
    assert found.components == both[0]


def test_some_are_reached() -> None:
    """A hub, a path, and components that do not fit into parts."""
    hub = np.eye(6)
    hub[:, 0] = 1
    path = np.eye(6) + np.eye(6, k=1)
    apart = sp.block_diag([np.ones((3, 3))] * 2).toarray()
    for dense, parts, rows, wanted in (
        (hub, 3, 2, 2),
        (path, 3, 2, 2),
        (apart, 3, 2, 6),
        (apart, 2, 3, 0),
    ):
        nonzeros = 99
        assert certificate(dense, rows, nonzeros).volume == wanted
        assert least_volume(dense, parts, rows, nonzeros) >= wanted
    assert least_volume(hub, 3, 2, 99) == 2
    assert least_volume(path, 3, 2, 99) == 2


def test_inspect_shows_one(plan: Path, graph: Path) -> None:
    """It holds for the plan, and is that of the matrix for parts of these sizes."""
    shown = as_json("inspect", plan, "--certificate", "--per-part")
    found, parts = shown["certificate"], shown["parts"]
    assert found["most_rows"] == max(parts["rows"])
    assert found["most_nonzeros"] == max(parts["nonzeros"])
    assert 0 < found["volume"] <= shown["metrics"]["volume"]
    assert f"{found['volume']:,} rows" in ok("inspect", plan, "--certificate")
    assert "certificate" not in as_json("inspect", plan)
