"""Batches that owners draw, against the same batches drawn as a whole and masked to the slice."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
import reference
import worlds
from cases import seeds

from plancc.graph.owners import Owners
from plancc.graph.vertexdata import VertexData
from plancc.plan.lowering import lower
from plancc.plan.population import population_of
from plancc.sampling import make_sampler
from plancc_runtime.layouts.batch_mask import BatchMask
from plancc_runtime.layouts.owner_draws import OwnerDraws
from plancc_runtime.transport.local import run_ranks


def random_plan(random, n, parts):
    """Rows of any length; owners at random, so that rows do not ascend by vertex."""
    a = random.random((n, n)) < random.choice([0.02, 0.1, 0.6], (n, 1))
    if random.random() < 0.7:
        a = reference.normalised(a)
    owner = random.integers(0, parts, n).astype(np.int32)
    plan = lower(
        worlds.graph_of(a.astype(float)),
        Owners(owner),
        parts,
        normalization="none",
        self_loops=False,
    )
    if random.random() < 0.5:
        return plan
    mask = random.random(n) < 0.4
    mask[random.integers(n)] = True
    return replace(plan, vertex_data=VertexData(train_mask=mask).take(plan.global_id))


def arrays_of(value):
    """All arrays of a share, in order; None where there is none."""
    if isinstance(value, np.ndarray) or value is None or isinstance(value, int):
        return [value]
    if isinstance(value, list):
        return [array for each in value for array in arrays_of(each)]
    if hasattr(value, "__dataclass_fields__"):
        return [a for f in fields(value) for a in arrays_of(getattr(value, f.name))]
    return [value]


@pytest.mark.parametrize("seed", seeds(12))
def test_shares_are_those_of_the_whole_batch_byte_for_byte(seed):
    random = np.random.default_rng(seed)
    n, parts = int(random.integers(20, 120)), int(random.integers(1, 6))
    plan = random_plan(random, n, parts)
    population = population_of(plan)
    fanouts = tuple(int(f) for f in random.choice([1, 2, 3, 70, 10**6], random.integers(1, 4)))
    wanted = make_sampler("neighbour", n, batch_size=int(random.integers(1, n)), fanouts=fanouts)
    sampler, _ = wanted.fitted(population)

    def shares(transport):
        part = plan.part(transport.rank)
        mask = BatchMask(part, transport)
        bare = replace(population, indptr=None, indices=None)
        draws = OwnerDraws(part, sampler, bare, seed, transport)
        np.testing.assert_array_equal(draws.halo, mask.halo)
        for number in range(3):
            whole = mask.local(sampler.batch(population, seed, number))
            yield whole, draws.local(number)

    rows = 0
    for pairs in run_ranks(parts, lambda transport: list(shares(transport))):
        for whole, own in pairs:
            for a, b in zip(arrays_of(whole), arrays_of(own), strict=True):
                assert type(a) is type(b)
                np.testing.assert_array_equal(a, b)
                assert getattr(a, "dtype", None) == getattr(b, "dtype", None)
            rows += len(own.rows)
    assert rows
