"""What samplers draw from, read from plan files: the same whatever the owners are."""

from __future__ import annotations

from dataclasses import replace

import h5py
import numpy as np
import plan_helpers
import pytest
import sealing

from plancc.errors import InputError, PlanError
from plancc.graph.vertexdata import VertexData
from plancc.plan.population import read_population
from plancc.plan.reader import PlanFile
from plancc.sampling import Population, Sampler, make_sampler

N = 50
NEEDS = {
    "uniform": make_sampler("uniform", N),
    "train": make_sampler("train", N),
    "walk": make_sampler("walk", N),
    "cluster": make_sampler("cluster", N),
}


def save(path, dense, owner, data) -> None:
    plan = plan_helpers.lowered(plan_helpers.graph_of(dense), owner, int(owner.max()) + 1)
    replace(plan, vertex_data=data.take(plan.global_id)).save(path)


def read(path, sampler: Sampler) -> Population:
    with PlanFile(path) as file:
        return read_population(file, sampler)


@pytest.fixture
def data() -> VertexData:
    random = np.random.default_rng(2)
    return VertexData(
        train_mask=random.random(N) < 0.5, clusters=random.integers(0, 9, N).astype(np.int32)
    )


@pytest.mark.parametrize("num_parts", [1, 2, 7])
def test_the_same_population_whatever_the_owners(num_parts, data, tmp_path):
    random = np.random.default_rng(num_parts)
    dense = np.where(random.random((N, N)) < 0.1, 1.0, 0.0)
    dense[::6], dense[:, ::6] = 0, 0
    save(tmp_path / "plan.h5", dense, random.integers(0, num_parts, N).astype(np.int32), data)
    found = read(tmp_path / "plan.h5", NEEDS["walk"])
    rows = [
        found.indices[a:b].tolist() for a, b in zip(found.indptr, found.indptr[1:], strict=False)
    ]
    assert rows == [np.flatnonzero(row).tolist() for row in dense]  # ascending
    assert found.num_vertices == N
    np.testing.assert_array_equal(found.train_mask, data.train_mask)  # it may prefer them
    assert found.clusters is None
    found = read(tmp_path / "plan.h5", NEEDS["cluster"])
    np.testing.assert_array_equal(found.clusters, data.clusters)
    assert found.indptr is None
    found = read(tmp_path / "plan.h5", NEEDS["uniform"])
    assert (found.num_vertices, found.train_mask, found.indptr) == (N, None, None)


def test_what_the_plan_does_not_carry(tmp_path):
    path = tmp_path / "plan.h5"
    save(path, np.eye(N), np.zeros(N, np.int32), VertexData())
    for name, lacks in (("train", "train_mask"), ("cluster", "clusters")):
        with pytest.raises(InputError, match=f"plan.h5 carries no {lacks}: sampler '{name}' needs"):
            read(path, NEEDS[name])
    assert read(path, NEEDS["walk"]).train_mask is None


@pytest.mark.parametrize(
    ("node", "value"),
    [
        ("matrix/column", -1),
        ("matrix/column", N),
        ("expand/recv_row", N),
        ("expand/recv_row", -1),
        ("expand/recv_peer", 3),
        ("rows/global_id", N),
        ("rows/global_id", 0),
        ("matrix/row_ptr", 10**9),
    ],
)
def test_damaged_indices_are_errors(node, value, data, tmp_path):
    dense = np.random.default_rng(3).random((N, N)) < 0.2
    save(tmp_path / "torn.h5", dense, np.arange(N, dtype=np.int32) % 3, data)
    with h5py.File(tmp_path / "torn.h5", "r+") as file:
        file[node][1] = value
    sealing.seal(tmp_path / "torn.h5")
    with pytest.raises(PlanError, match=node):
        read(tmp_path / "torn.h5", NEEDS["walk"])
