"""The call of METIS past pymetis: what goes wrong is said in words."""

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from plancc.errors import BackendError
from plancc.models.problem import WeightedGraph
from plancc.partitioners import metis, metis_child

pymetis = pytest.importorskip("pymetis")


def ring(n=12):
    near = np.stack([(np.arange(n) - 1) % n, (np.arange(n) + 1) % n], axis=1)
    indptr, indices = 2 * np.arange(n + 1), near.ravel()
    weights = np.stack([np.ones(n, np.int64), np.arange(n) % 2], axis=1)
    return WeightedGraph(indptr, indices.astype(np.int32), weights, None)


def solve(problem, num_parts, **options):
    options = {"epsilon": 0.1, "seeds": [1], "threads": 1} | options
    [*found] = metis_child.run(**metis.prepare(problem, num_parts, options, None))
    return np.asarray(found[0] if len(found) == 1 else found)


def run(num_parts, preset="kway", **options):
    return solve(ring(), num_parts, preset=preset, **options)


@pytest.mark.parametrize("preset", ["kway", "recursive"])
def test_both_functions_are_there(preset):
    owner = run(2, preset)
    assert sorted(np.bincount(owner)) == [6, 6]
    assert (np.bincount(owner[1::2]) == 3).all()


@pytest.mark.parametrize("preset", ["kway", "recursive"])
def test_every_constraint_may_be_as_uneven_as_it_is_allowed(preset):
    """A ring with three cheap edges: which two are cut is what the limits say."""
    n = 400
    chain, first = ring(n), np.arange(n) < 100
    pairs = np.sort(np.stack([np.repeat(np.arange(n), 2), chain.indices]), axis=0)
    cheap = (pairs[:, :, None] == np.array([[0, 199, 87], [399, 200, 88]])[:, None, :]).all(axis=0)
    costs = np.where(cheap.any(axis=1), 1, 100)
    weights = np.stack([np.ones(n, np.int64), 1 + 3 * first], axis=1)
    problem = WeightedGraph(chain.indptr, chain.indices, weights, costs)
    for epsilon in (np.array([0.02, 0.6]), np.array([0.6, 0.02])):
        found = solve(problem, 2, epsilon=epsilon, preset=preset)
        loads = np.stack([np.bincount(found, column, 2) for column in weights.T], axis=1)
        reached = loads.max(axis=0) / loads.mean(axis=0) - 1
        assert (reached <= epsilon + 1e-3).all()
        assert reached.max() > 0.3  # arcs 0..199 or 0..87, by cheap edges


def test_metis_itself_refuses_wrong_input():
    with pytest.raises(BackendError, match=r"status -2: wrong input\).*builtin"):
        run(2, capacities=np.array([-0.5, 1.5]))


@pytest.mark.parametrize(
    ("status", "words"),
    [(-3, "not enough memory"), (-4, "some other error"), (0, "unknown"), (7, "unknown")],
)
def test_every_status_but_1_is_a_failure(monkeypatch, status, words):
    monkeypatch.setattr(metis_child, "_function", lambda name: lambda *pointers: status)
    with pytest.raises(BackendError, match=rf"status {status}: {words}\)"):
        run(2)


@pytest.mark.parametrize(
    ("preset", "name"), [("kway", "METIS_PartGraphKway"), ("recursive", "METIS_PartGraphRecursive")]
)
def test_a_pymetis_without_the_function(monkeypatch, preset, name):
    monkeypatch.setattr(metis_child.ctypes, "CDLL", lambda file: SimpleNamespace())
    with pytest.raises(BackendError, match=f"no function {name}; .*builtin"):
        run(2, preset)


def test_a_pymetis_without_a_compiled_part(monkeypatch):
    monkeypatch.delitem(sys.modules, "pymetis._internal", raising=False)
    monkeypatch.setattr(metis_child.PathFinder, "find_spec", lambda name, path: None)
    with pytest.raises(BackendError, match=r"lacks its compiled module.*builtin"):
        run(2)


def test_the_same_as_pymetis_own_function():
    options = pymetis.Options(seed=5, ufactor=100)
    graph = ring(50)
    adjacency = pymetis.CSRAdjacency(graph.indptr, graph.indices.astype(np.int64))
    by_pymetis = pymetis.part_graph(3, adjacency, recursive=False, options=options)
    one = WeightedGraph(graph.indptr, graph.indices, np.ones(50, np.int64), None)
    assert solve(one, 3, preset="kway", seeds=[5]).tolist() == list(by_pymetis.vertex_part)


@pytest.mark.parametrize("name", ["metis", "kaminpar"])
def test_the_child_needs_no_numpy(name):
    code = f"import sys, plancc.partitioners.child, plancc.partitioners.{name}_child as child"
    code += "; sys.exit('numpy' in sys.modules or 'importlib.metadata' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
