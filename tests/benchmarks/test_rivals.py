"""The rivals of the epochs benchmark: losses against dense float64 numpy, bytes against sets."""

import json
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import worlds
from cases import long
from scipy.sparse import csr_array

import plancc
from benchmarks.rivals import Rival, environment, rivals, run
from benchmarks.rivals import bare_exchange as bare_exchange_script
from benchmarks.rivals.harness import LAYERS, WARM_UP
from benchmarks.rivals.problem import write_problem
from plancc.errors import BackendError, InputError

N, EPOCHS, LR, SEED = 40, 4, 0.5, 3
MPIRUN = shutil.which(
    "mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
)


@pytest.fixture
def pattern():
    """A symmetric random graph with a few self loops and an isolated vertex, bool[N, N]."""
    dense = np.random.default_rng(1).random((N, N)) < 0.08
    dense |= dense.T
    np.fill_diagonal(dense, np.arange(N) % 7 == 0)
    dense[5] = dense[:, 5] = False
    return dense


def normalised(pattern):
    a = pattern + np.eye(N)
    scale = 1 / np.sqrt(a.sum(axis=1))
    return scale[:, None] * a * scale[None, :]


def dense_losses(a, x, labels, train, dims):
    """Of every epoch before its step, float64, gradients written out."""
    random = np.random.default_rng(SEED)
    pairs = list(pairwise(dims))
    weights = [random.uniform(-1, 1, d) * np.sqrt(6 / sum(d)) for d in pairs]
    chosen = np.flatnonzero(train)
    losses = []
    for _ in range(WARM_UP + EPOCHS):
        hs = [x.astype(np.float64)]
        for k, w in enumerate(weights):
            z = a @ hs[-1] @ w
            hs.append(np.maximum(z, 0) if k < len(weights) - 1 else z)
        p = np.exp(hs[-1])
        p /= p.sum(axis=1, keepdims=True)
        losses.append(-np.log(p[chosen, labels[chosen]]).mean())
        g = np.zeros_like(p)
        g[chosen] = p[chosen] / len(chosen)
        g[chosen, labels[chosen]] -= 1 / len(chosen)
        for k in reversed(range(len(weights))):
            step = (a @ hs[k]).T @ g
            g = (a @ g @ weights[k].T) * (hs[k] > 0)
            weights[k] = weights[k] - LR * step
    return losses


def problem_of(pattern, folder, width, fraction):
    write_problem(folder / "problem.npz", worlds.graph_of(pattern), width, 4, fraction, seed=2)
    with np.load(folder / "problem.npz") as file:
        return dict(file)


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_problems_are_normalised_patterns(pattern, tmp_path, fraction):
    problem = problem_of(pattern, tmp_path, 6, fraction)
    assert 0 < problem["train_mask"].sum() <= N
    assert problem["train_mask"].all() == (fraction == 1)
    triple = problem["values"], problem["indices"], problem["indptr"]
    np.testing.assert_allclose(csr_array(triple).toarray(), normalised(pattern), rtol=1e-6)
    triple = problem["adjacency"], problem["indices"], problem["indptr"]
    np.testing.assert_array_equal(csr_array(triple).toarray(), pattern + np.eye(N))


@long
@pytest.mark.parametrize(("width", "hidden", "fraction"), [(6, 6, 1.0), (20, 5, 0.5)])
def test_losses_of_torch_csr_are_those_of_dense_numpy(pattern, tmp_path, width, hidden, fraction):
    problem = problem_of(pattern, tmp_path, width, fraction)
    (rival,) = rivals(tmp_path, ["torch-csr"])
    found = run(rival, tmp_path / "problem.npz", hidden, EPOCHS, 1, lr=LR, seed=SEED)
    dims = [width, *[hidden] * (LAYERS - 1), 4]
    expected = dense_losses(
        normalised(pattern), problem["features"], problem["labels"], problem["train_mask"], dims
    )
    np.testing.assert_allclose(found["losses"], expected, rtol=1e-5)
    assert expected[-1] < 0.999 * expected[0]
    assert found["dims"] == dims
    assert len(found["seconds"]) == EPOCHS
    assert found["minimum"] == min(found["seconds"]) > 0
    assert found["peak_rss"] is None or found["peak_rss"] > 50e6  # torch alone is more


def test_problems_are_symmetric_patterns(pattern, tmp_path):
    pattern[0, 1], pattern[1, 0] = True, False
    with pytest.raises(InputError, match="not symmetric"):
        write_problem(tmp_path / "problem.npz", worlds.graph_of(pattern), 3)


def test_a_rival_that_fails_says_why(tmp_path):
    command = (sys.executable, "-c", "raise SystemExit('out of luck')")
    with pytest.raises(BackendError, match="broken: ended with code 1: out of luck"):
        run(Rival("broken", command, True, ""), tmp_path / "problem.npz", 4, 1, 1)


@long
def test_what_cannot_be_installed_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    broken = environment.Environment("broken", "nothing", ("plancc-no-such-package==0",))
    monkeypatch.setitem(rivals.__globals__["SCRIPTS"], "broken", ("torch_csr.py", broken))
    (rival,) = rivals(tmp_path, ["broken"])
    assert not rival.available
    assert rival.why_not.startswith("broken: installing it with pip failed: ")
    assert "plancc-no-such-package==0" in rival.why_not
    assert "\n" not in rival.why_not


@long
@pytest.mark.mpi
def test_the_bare_exchange_moves_the_bytes_of_the_plan(pattern, tmp_path):
    if MPIRUN is None:
        pytest.skip("no mpirun")
    plan = plancc.compile(worlds.graph_of(pattern), model="rp", num_parts=3)
    plan.save(tmp_path / "plan.h5")
    owner = np.empty(N, int)
    for part in map(plan.part, range(3)):
        owner[part.global_id] = part.index
    needed = {(i, owner[j], j) for i, j in np.argwhere(pattern)}
    rows = {(owner[i], o, j) for i, o, j in needed if owner[i] != o}
    pairs = {(receiver, sender) for receiver, sender, _ in rows}
    command = [MPIRUN, "-n", 3, "--oversubscribe", sys.executable, bare_exchange_script.__file__]
    command += [tmp_path / "plan.h5", "--width", 5, "--rounds", 3]
    done = subprocess.run(
        list(map(str, command)),
        check=True,
        timeout=120,
        capture_output=True,
        env=os.environ | {f"OMPI_ALLOW_RUN_AS_ROOT{each}": "1" for each in ("", "_CONFIRM")},
    )
    found = json.loads(done.stdout)
    assert found["bytes"] == len(rows) * 5 * 4
    assert found["messages"] == len(pairs)
    assert len(found["seconds"]) == 3
    sent = [sum(sender == k for _, sender, _ in rows) for k in range(3)]
    assert found["max_bytes_sent"] == max(sent) * 5 * 4
