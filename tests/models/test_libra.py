"""The greedy vertex-cut against its rule in plain Python."""

import math

import numpy as np
import pytest
from cases import long, seeds
from worlds import graph_of, places

from plancc.models.libra import SLACK, LibraModel
from plancc_datasets import load_dataset


def random_pattern(seed):
    """Skewed degrees; directed, symmetric or neither, with all, some or no diagonals."""
    random = np.random.default_rng(seed)
    n = int(random.integers(2, 60))
    weight = random.pareto(1.5, n) + 0.1
    dense = random.random((n, n)) < random.choice([0.5, 1, 3]) * np.outer(weight, weight) / n
    if seed % 3 == 0:
        dense |= dense.T
    np.fill_diagonal(dense, random.random(n) < [0, 0.5, 1][seed % 4 % 3])
    lonely = random.random(n) < 0.1
    dense[lonely] = False
    dense[:, lonely] = False
    return dense


def assigned(dense, num_parts, seed=0):
    found = LibraModel().build(graph_of(dense), num_parts, balance="nnz", seed=seed)
    rows, columns = np.nonzero(dense)
    pairs = zip(rows.tolist(), columns.tolist(), strict=True)
    return found, dict(zip(pairs, found.nonzeros.tolist(), strict=True))


def in_plain_python(dense, num_parts, seed):
    """Owners of rows, owner of every nonzero by its pair, and the parts that hold each vertex."""
    n = len(dense)
    stored = [(int(i), int(j)) for i, j in np.argwhere(dense)]
    degree = [sum((i == v) + (j == v) for i, j in stored if i != j) for v in range(n)]
    shuffled = np.random.default_rng(seed).permutation(n).tolist()
    order = sorted(shuffled, key=lambda v: degree[v])  # stable
    nonzeros, load = [0] * num_parts, [0] * num_parts  # without and with diagonals
    held = [set() for _ in range(n)]
    part = {}
    diagonals = sum(i == j and degree[i] > 0 for i, j in stored)
    off = [(i, j) for i, j in stored if i != j]
    room = math.ceil((1 + SLACK) * (len(off) + diagonals) / num_parts)
    for at, u in enumerate(order):
        for v in sorted(order[at + 1 :]):
            edge = [pair for pair in ((u, v), (v, u)) if dense[pair]]
            if not edge:
                continue
            for parts in (held[u] & held[v], held[u], held[v], range(num_parts)):
                best = min(parts, key=lambda m: (load[m], m), default=None)
                if best is not None and load[best] + len(edge) <= room:
                    break
            part |= dict.fromkeys(edge, best)
            nonzeros[best] += len(edge)
            load[best] += len(edge)
            for x in (u, v):
                load[best] += bool(not held[x] and dense[x, x])
                held[x].add(best)
    owner = [0] * n
    rank = {v: at for at, v in enumerate(order)}
    for v in sorted(range(n), key=lambda v: (len(held[v]) or num_parts + 1, rank[v])):
        owner[v] = min(held[v] or range(num_parts), key=lambda m: (nonzeros[m], m))
        nonzeros[owner[v]] += 1
        if dense[v, v]:
            part[v, v] = owner[v]
    return owner, part, held


@pytest.mark.parametrize("seed", seeds(40, quick=12))
def test_it_is_the_rule_in_plain_python(seed):
    dense = random_pattern(seed)
    num_parts = min(len(dense), [1, 2, 5, len(dense)][seed % 4])
    found, part = assigned(dense, num_parts, seed)
    owner, expected, held = in_plain_python(dense, num_parts, seed)
    assert found.rows.tolist() == owner
    assert part == expected
    assert found.rows.dtype == found.nonzeros.dtype == np.int32
    copies = [len(parts) for parts in held if parts]
    assert not copies or found.notes["replication_factor"] == pytest.approx(np.mean(copies))


@pytest.mark.parametrize("num_parts", [65, pytest.param(130, marks=long), 200])
def test_many_parts(num_parts):
    random = np.random.default_rng(num_parts)
    dense = random.random((200, 200)) < 0.02
    dense[:, :3] |= random.random((200, 3)) < 0.8
    found, part = assigned(dense, num_parts, 5)
    owner, expected, _ = in_plain_python(dense, num_parts, 5)
    assert found.rows.tolist() == owner
    assert part == expected


@pytest.mark.parametrize("loops", [False, True])
def test_parts_are_even_and_copies_few(loops):
    graph = load_dataset("rmat", scale=10, edge_factor=16, seed=1).graph
    n, num_parts = graph.num_vertices, 16
    dense = np.zeros((n, n), dtype=bool)
    dense[tuple(np.transpose(places(graph)))] = True
    np.fill_diagonal(dense, loops)
    found, part = assigned(dense, num_parts, 1)
    load = np.bincount(found.nonzeros, minlength=num_parts)
    assert load.max() <= 1.01 * load.mean()
    edges = np.array([(i, j, m) for (i, j), m in part.items() if i != j])
    per_part = np.bincount(edges[:, 2], minlength=num_parts)
    assert found.notes["edge_imbalance"] == pytest.approx(per_part.max() / per_part.mean() - 1)
    held = np.zeros((n, num_parts), dtype=bool)
    held[edges[:, 0], edges[:, 2]] = held[edges[:, 1], edges[:, 2]] = True
    copies = held.sum(axis=1)
    assert found.notes["replication_factor"] == pytest.approx(copies[copies > 0].mean())

    random = np.random.default_rng(0).integers(num_parts, size=len(edges))
    held[:] = False
    held[edges[:, 0], random] = held[edges[:, 1], random] = True
    assert copies.sum() < 0.7 * held.sum()


def test_the_bound_keeps_a_star_even():
    """Without one all edges would follow the first into the part that holds the hub."""
    star = np.zeros((400, 400), dtype=bool)
    star[0, 1:] = star[1:, 0] = True
    found, _ = assigned(star, 8)
    assert np.bincount(found.nonzeros, minlength=8).max() <= 1.01 * 798 / 8 + 1


def test_the_same_seed_gives_the_same_bytes():
    dense = random_pattern(6)
    first, again, other = (assigned(dense, 2, seed)[0] for seed in (3, 3, 4))
    assert first.nonzeros.tobytes() == again.nonzeros.tobytes()
    assert first.rows.tobytes() == again.rows.tobytes()
    assert first.nonzeros.tobytes() != other.nonzeros.tobytes()


def test_a_matrix_without_edges():
    found, _ = assigned(np.zeros((7, 7), dtype=bool), 3)
    assert sorted(np.bincount(found.rows)) == [2, 2, 3]
    assert len(found.nonzeros) == 0
    assert found.notes == {}
    found, part = assigned(np.eye(7, dtype=bool), 3)
    assert list(part.values()) == found.rows.tolist()
