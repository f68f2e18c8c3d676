"""Local sparse products against dense float64 ones, and what is done with rows around them."""

import itertools
import os
import subprocess
import sys
import threading
import time
from functools import cache

import numpy as np
import pytest
import torch
from cases import long, pairs
from numba import carray, cfunc, types
from scipy.sparse import csr_matrix

from plancc.errors import InputError
from plancc.graph.canonical import to_scipy
from plancc_datasets import load_dataset
from plancc_runtime.kernels import numba_spmm, openmp
from plancc_runtime.kernels.claims import claim, pointer
from plancc_runtime.kernels.order import ORDERS, cache_order
from plancc_runtime.kernels.rows import add_rows, pack
from plancc_runtime.kernels.spmm import KERNELS, prepare, usual_kernel

DTYPES = (torch.float32, torch.float64)
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(params=DEVICES)
def device(request):
    if request.param == "cuda":
        request.getfixturevalue("cuda")
    return request.param


@pytest.fixture(params=["numba", "torch"])
def place(request, device):
    """A kernel and a device that it works on."""
    if request.param == "numba" and device != "cpu":
        pytest.skip("numba works on CPUs")
    return request.param, device


@pytest.fixture(autouse=True)
def threads():
    """Sets the number of torch's threads for one test; one thread where it does not."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch.set_num_threads
    torch.set_num_threads(before)


def dense(m, n, seed, density=0.2):
    """A random matrix, some of whose rows are empty and one of which is full."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=(m, n)) * (rng.random((m, n)) < density)
    a[::5] = 0
    a[m // 2] = rng.normal(size=n)
    return a


@cache
def skewed():
    """An R-MAT matrix with random values: 4,096 rows, of 0 to hundreds of nonzeros."""
    matrix = to_scipy(load_dataset("rmat", scale=12, edge_factor=16, seed=3).graph).tocsr()
    values = np.random.default_rng(4).normal(size=matrix.nnz).astype(np.float32)
    return csr_matrix((values, matrix.indices, matrix.indptr), matrix.shape)


def normal(*shape, dtype=torch.float32, device="cpu", seed=0):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape)).to(device, dtype)


def close(measured, expected, dtype):
    tolerance = 1e-4 if dtype == torch.float32 else 1e-11
    np.testing.assert_allclose(measured.cpu().numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_product_of_any_width(place, dtype):
    for width in (1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 41, 48, 64, 65, 100, 128, 200):
        check_product(*place, dtype, width)


def check_product(kernel, device, dtype, width):
    a = dense(60, 45, seed=width)
    x = normal(45, width, dtype=dtype, device=device)
    matrix = prepare(csr_matrix(a), dtype, device, kernel)
    assert (matrix.shape, matrix.nnz, matrix.name) == ((60, 45), np.count_nonzero(a), kernel)
    guarded = torch.full(
        (62, width), float("nan"), dtype=dtype, device=device
    )  # not read, not left
    matrix.multiply(x, guarded[1:-1])
    close(guarded[1:-1], a @ x.double().cpu().numpy(), dtype)
    for row in (guarded[0], guarded[-1]):  # nothing is written outside of `out`
        assert row.isnan().all()


@pytest.mark.parametrize("width", [7, 32, 100])
def test_rows_are_added_and_scattered(place, width):
    for options in itertools.product([False, True], repeat=2):
        check_placed(*place, width, *options)


@pytest.mark.parametrize("count", [3, 64, *(pytest.param(count, marks=long) for count in (2, 16))])
def test_column_blocks_change_nothing_but_the_order_of_sums(count, monkeypatch, threads):
    monkeypatch.setattr(numba_spmm, "best_count", lambda *_: count)
    threads(2)
    for width in (1, 7, 32, 100):
        check_product("numba", "cpu", torch.float64, width)
        for options in itertools.product([False, True], repeat=2):
            check_placed("numba", "cpu", width, *options, tolerance=1e-5)


def check_placed(kernel, device, width, add, scatter, tolerance=0.0):
    a = dense(40, 30, seed=2).astype(np.float32)
    x = normal(30, width, device=device)
    order = np.random.default_rng(5).permutation(55)[:40] if scatter else np.arange(40)
    rows = torch.from_numpy(order).to(device)
    out = normal(55 if scatter else 40, width, device=device, seed=2)
    matrix = prepare(csr_matrix(a), torch.float32, device, kernel)

    step = torch.empty(40, width, device=device)
    matrix.multiply(x, step)
    expected = out.clone()
    expected[rows] = out[rows] + step if add else step

    matrix.multiply(x, out, add=add, rows=rows if scatter else None)
    torch.testing.assert_close(out, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("width", [1, 32])
def test_empty_matrices(place, width):
    kernel, device = place
    for m, n in ((0, 0), (0, 5), (5, 0), (5, 6)):
        matrix = prepare(csr_matrix((m, n), dtype=np.float32), torch.float32, device, kernel)
        x = torch.ones(n, width, device=device)
        out = torch.full((m, width), 3.0, device=device)
        matrix.multiply(x, out, add=True)
        assert (out == 3).all()
        matrix.multiply(x, out)
        assert (out == 0).all()
    nothing = prepare(csr_matrix((0, 4), dtype=np.float32), torch.float32, device, kernel)
    out = torch.ones(6, width, device=device)
    no_rows = torch.empty(0, dtype=torch.int64, device=device)
    nothing.multiply(torch.ones(4, width, device=device), out, add=True, rows=no_rows)
    assert (out == 1).all()
    full = prepare(csr_matrix(np.ones((3, 4), np.float32)), torch.float32, device, kernel)
    full.multiply(torch.ones(4, 0, device=device), torch.ones(3, 0, device=device))


def test_not_a_number_and_infinity_pass_through(place):
    kernel, device = place
    a = csr_matrix(np.eye(3, dtype=np.float32))
    x = torch.tensor([[float("nan")], [float("inf")], [-float("inf")]], device=device)
    out = torch.empty(3, 1, device=device)
    prepare(a, torch.float32, device, kernel).multiply(x, out)
    assert out[0].isnan()
    assert out[1:].flatten().tolist() == [float("inf"), -float("inf")]


def test_numba_gives_the_same_bits_with_any_number_of_threads_and_any_width(threads):
    matrix = prepare(skewed(), torch.float32, "cpu", "numba")
    x = normal(4096, 100)
    threads(1)
    expected = torch.empty(4096, 100)
    matrix.multiply(x, expected)
    for count in (2, 3, 7):
        threads(count)
        out = torch.empty(4096, 100)
        matrix.multiply(x, out)
        assert torch.equal(out, expected)
    for width in (1, 9, 33, 64):
        out = torch.empty(4096, width)
        matrix.multiply(x[:, :width].contiguous(), out)
        assert torch.equal(out, expected[:, :width])


@pytest.mark.parametrize("kernel", KERNELS.names())
def test_python_threads_multiply_at_the_same_time(kernel, threads):
    threads(2)
    a = skewed()
    matrix = prepare(a, torch.float32, "cpu", kernel)
    right = [0] * 4

    def rank(k):
        torch.set_num_threads(2)
        x = normal(4096, 32, seed=k)
        expected = a.astype(np.float64) @ x.double().numpy()
        out = torch.empty(4096, 32)
        for _ in range(10):
            matrix.multiply(x, out.fill_(0))
            right[k] += np.allclose(out.numpy(), expected, rtol=1e-3, atol=1e-3)

    ranks = [threading.Thread(target=rank, args=(k,)) for k in range(4)]
    for each in ranks:
        each.start()
    for each in ranks:
        each.join()
    assert right == [10] * 4


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere torch may bring no GOMP_parallel")
@pytest.mark.parametrize("count", [1, 2, 3])
def test_functions_run_on_as_many_of_torchs_threads_as_asked_for(count):
    calls = np.zeros(1, np.int64)
    function = cfunc(types.void(types.CPointer(types.int64)))(count_call)
    openmp.run(function, calls.ctypes.data, count)
    assert calls[0] == (count if torch.backends.openmp.is_available() else 1)


def count_call(calls):
    claim(carray(calls, 1))  # an atomic increment


def test_a_second_thread_joins_a_function_that_runs_and_run_waits_for_it(monkeypatch):
    second, joined = openmp.SecondThread(), []
    monkeypatch.setattr(openmp.of_step, "second", second, raising=False)
    counts = np.zeros(400, np.int64)
    call = np.array([0, len(counts), counts.ctypes.data])
    function = cfunc(types.void(types.CPointer(types.int64)))(count_blocks)
    second.is_idle = False
    assert openmp.num_threads() == torch.get_num_threads()

    def finish_own_work():
        end = time.monotonic() + 60
        while second.call is None and time.monotonic() < end:
            time.sleep(0)  # gives up the interpreter lock, which `run` needs to begin
        second.is_idle = True
        second.help()
        joined.append(int(call[0]) >= len(counts))  # it left when no block was left

    thread = threading.Thread(target=finish_own_work)
    thread.start()
    openmp.run(function, call.ctypes.data, 1)
    assert second.call is None
    thread.join()
    assert joined == [True]
    assert set(counts.tolist()) == {1}
    assert call[0] == len(counts) + 2  # both threads asked for a block once in vain
    assert openmp.num_threads() == torch.get_num_threads() + 1


def count_blocks(calls):
    call = carray(calls, 3)
    counts = carray(pointer(call[2]), call[1], np.int64)
    while True:
        k = claim(call)
        if k >= call[1]:
            return
        x = k
        for _ in range(500_000):
            x = (x * 6364136223846793005 + 1442695040888963407) & 0xFFFFFFFF
        counts[k] += 1 + (x == 2**31)  # false, but the loop is not dropped


def test_wrong_operands_are_refused(place):
    kernel, device = place
    matrix = prepare(csr_matrix(np.eye(4, 5)), torch.float32, device, kernel)
    x, out = torch.ones(5, 6, device=device), torch.ones(4, 6, device=device)
    with pytest.raises(InputError, match=r"with a 4 x 5 matrix .* not torch.float32\[4, 6\]"):
        matrix.multiply(out, out)
    with pytest.raises(InputError, match=r"out .* should be .*\[4, 6\]"):
        matrix.multiply(x, x)
    with pytest.raises(InputError, match=r"x .* not torch.float64"):
        matrix.multiply(x.double(), out)
    with pytest.raises(InputError, match=r"that is not contiguous"):
        matrix.multiply(torch.ones(6, 5, device=device).T, out)
    with pytest.raises(InputError, match=r"rows should be int64\[4\]"):
        matrix.multiply(x, out, rows=torch.arange(3, device=device))
    with pytest.raises(InputError, match="unknown kernel 'fast'; choose from numba, torch"):
        prepare(csr_matrix((2, 2)), torch.float32, device, "fast")
    with pytest.raises(InputError, match="float16"):
        prepare(csr_matrix((2, 2)), torch.float16, device, kernel)


def test_numba_refuses_what_would_leave_its_arrays():
    matrix = prepare(csr_matrix(np.eye(3, dtype=np.float32)), torch.float32, "cpu", "numba")
    x = torch.ones(3, 2)
    for bad in (-1, 5):
        out = torch.zeros(5, 2)
        with pytest.raises(InputError, match="outside of the 5 rows of out"):
            matrix.multiply(x, out, rows=torch.tensor([0, bad, 2]))
    broken = csr_matrix(np.eye(3, dtype=np.float32))
    broken.indices[1] = 3
    with pytest.raises(InputError, match="a column of the matrix is not between 0 and 2"):
        prepare(broken, torch.float32, "cpu", "numba")
    with pytest.raises(InputError, match="'numba' runs on `device` 'cpu' only, not on 'meta'"):
        prepare(csr_matrix((3, 3)), torch.float32, "meta", "numba")


def test_the_usual_kernel():
    assert usual_kernel(torch.device("cpu")) == "numba"
    assert usual_kernel(torch.device("meta")) == "torch"


@pairs(method=ORDERS, num_interior=[None, 0, 17, 40])
def test_cache_order_is_a_permutation_with_the_interior_first(method, num_interior):
    order = cache_order(csr_matrix(dense(40, 60, seed=8)), method, num_interior)
    assert sorted(order.tolist()) == list(range(40))
    if num_interior:
        assert set(order[:num_interior].tolist()) == set(range(num_interior))


def test_cache_order_of_each_method():
    rng = np.random.default_rng(0)
    shuffle = rng.permutation(50)
    path = np.zeros((50, 53))
    path[np.arange(49), np.arange(1, 50)] = 1  # directed
    path[:, :50] = path[shuffle][:, shuffle]
    path[:, 50:] = 1  # halo columns do not count
    assert cache_order(csr_matrix(path), "none").tolist() == list(range(50))
    order = cache_order(csr_matrix(path), "rcm")
    i, j = np.nonzero(path[:, :50][order][:, order])
    assert np.abs(i - j).max() == 1
    star = np.zeros((6, 6))
    star[:, 4] = star[:3, 2] = 1
    assert cache_order(csr_matrix(star), "degree").tolist() == [4, 2, 0, 1, 3, 5]
    with pytest.raises(InputError, match="unknown row order 'hilbert'"):
        cache_order(csr_matrix(star), "hilbert")


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pack_and_add_rows(device, dtype):
    x = normal(30, 9, dtype=dtype, device=device)
    rows = torch.tensor([4, 29, 4, 0, 11, 4], device=device)
    out = torch.empty(6, 9, dtype=dtype, device=device)
    pack(x, rows, out)
    assert torch.equal(out, torch.stack([x[k] for k in rows.tolist()]))
    expected = x.double().cpu().numpy()
    for row, line in zip(rows.tolist(), out.double().cpu().numpy(), strict=True):
        expected[row] += line
    add_rows(x, rows, out)
    close(x, expected, dtype)
    before = x.clone()
    add_rows(x, rows[:0], out[:0])
    assert torch.equal(x, before)


def test_a_row_outside_of_out_is_refused():
    x = torch.ones(3, 2)
    for bad in (-1, 3):
        with pytest.raises(InputError, match="not between 0 and 2"):
            add_rows(x, torch.tensor([0, bad]), torch.ones(2, 2))
    assert (x == 1).all()


@pytest.mark.parametrize(
    ("given", "spins"),
    [({}, "5000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_idle_threads_of_openmp_spin_shortly_unless_the_user_says_more(given, spins):
    code = """if True:
        import os, sys
        from plancc_runtime.launch import need_torch
        assert "torch" not in sys.modules
        need_torch("this test")
        print(os.environ.get("GOMP_SPINCOUNT"))"""
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    command, kept = [sys.executable, "-c", code], {"check": True, "text": True, "timeout": 100}
    ended = subprocess.run(command, env=environment | given, capture_output=True, **kept)
    assert ended.stdout.strip() == spins
