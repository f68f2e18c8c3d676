"""What samplers draw from, read from plan files: the same whatever the owners are."""

from dataclasses import replace
from itertools import pairwise

import h5py
import numpy as np
import plan_helpers
import pytest
import sealing

from plancc.errors import InputError, PlanError
from plancc.graph.vertexdata import VertexData
from plancc.plan.plan import Plan
from plancc.plan.population import population_of, read_population
from plancc.plan.reader import PlanFile
from plancc.sampling import Population, Sampler, make_sampler

N = 50
NEEDS = {
    "uniform": make_sampler("uniform", N),
    "train": make_sampler("train", N),
    "walk": make_sampler("walk", N),
    "cluster": make_sampler("cluster", N),
}


def save(path, dense, owner, data) -> Plan:
    plan = plan_helpers.lowered(plan_helpers.graph_of(dense), owner, int(owner.max()) + 1)
    plan = replace(plan, vertex_data=data.take(plan.global_id))
    plan.save(path)
    return plan


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
    owner = random.integers(0, num_parts, N).astype(np.int32)
    plan = save(tmp_path / "plan.h5", dense, owner, data)
    found, whole = read(tmp_path / "plan.h5", NEEDS["walk"]), population_of(plan)
    for each in (found, whole):
        assert (each.indptr.dtype, each.indices.dtype) == (np.int64, np.int32)
        rows = [each.indices[a:b].tolist() for a, b in pairwise(each.indptr)]
        assert rows == [np.flatnonzero(row).tolist() for row in dense]  # ascending
        assert each.num_vertices == N
        np.testing.assert_array_equal(each.train_mask, data.train_mask)  # it may prefer them
    np.testing.assert_array_equal(whole.clusters, data.clusters)
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
        with pytest.raises(InputError, match=f"plan.h5 has no {lacks}; sampler '{name}' needs"):
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
