"""Local sparse products: the kernels, and which is quickest.

Measured by ``python -m benchmarks kernels``; "numba" takes 0.2 to 0.5 of torch's time at widths 32
to 128 and about as long at widths below 8.
"""

from __future__ import annotations

import time

import numpy as np
import torch
from scipy.sparse import csr_matrix

from plancc.errors import InputError
from plancc.registry import Registry
from plancc_runtime.kernels.base import SparseMatrix

KERNELS = Registry(
    "kernel",
    "plancc.kernels",
    {
        "numba": "plancc_runtime.kernels.numba_spmm:NumbaMatrix",
        "torch": "plancc_runtime.kernels.torch_spmm:TorchMatrix",
    },
)
SAMPLE = 1 << 21  # multiplications of one product in `choose_kernel`: about two milliseconds
SMALL = 2**16  # nonzeros below which `choose_kernel` measures nothing
CLEARLY = 0.6  # largest ratio of times at which a kernel replaces an earlier one in KERNELS


def prepare(
    matrix: csr_matrix,
    dtype: torch.dtype,
    device: torch.device | str = "cpu",
    kernel: str = "torch",
) -> SparseMatrix:
    """Prepare `matrix` for products by `kernel`.

    Parameters:
        matrix (csr_matrix[m, n]): Its arrays may be kept and must not change afterwards. Unsorted
            columns and repeated entries are allowed; entries are added in the order in which they
            stand.
        dtype: torch.float32 or torch.float64.
        device: Device of x and out.
        kernel: A name in `KERNELS`: "numba" (CPUs), "torch" (CPUs by MKL, GPUs by cuSPARSE).

    Raises:
        InputError: If the kernel is unknown, does not work on the device or takes no matrix of this
            size, or for another dtype.
    """
    if dtype not in (torch.float32, torch.float64):
        raise InputError(f"dtype {dtype}: sparse products need float32 or float64")
    return KERNELS[kernel](matrix, dtype, torch.device(device))


def choose_kernel(
    matrix: csr_matrix,
    dtype: torch.dtype,
    width: int,
    threads: int,
    device: torch.device | str = "cpu",
) -> str:
    """Name of the kernel that is quickest on a sample of rows of `matrix`.

    With fewer than `SMALL` nonzeros it is the first one, so that every run chooses the same.
    Otherwise some products of about two milliseconds each are measured; once per machine the numba
    kernel is compiled. Times differ from run to run: a kernel replaces an earlier one of `KERNELS`
    only if it takes less than 0.6 of its time. Kernels sum in different orders, so the choice must
    be stored where the same bits are needed again.

    Parameters:
        matrix: csr_matrix[m, n].
        dtype: torch.float32 or torch.float64.
        width: Columns of the dense operand.
        threads: Threads of the products; torch's number of threads is set to it meanwhile.
        device: Devices other than CPUs have "torch" only.
    """
    device = torch.device(device)
    if device.type != "cpu":
        return "torch"
    if matrix.nnz < SMALL:
        return KERNELS.names()[0]
    sample = _sample(matrix, max(1, SAMPLE // max(1, width)))
    x = torch.ones(sample.shape[1], width, dtype=dtype)
    out = torch.empty(sample.shape[0], width, dtype=dtype)
    candidates = [prepare(sample, dtype, device, name) for name in KERNELS.names()]
    seconds: dict[str, list[float]] = {each.name: [] for each in candidates}
    threads_before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for _ in range(5):
            for each in candidates:
                start = time.perf_counter()
                each.multiply(x, out)
                seconds[each.name].append(time.perf_counter() - start)
    finally:
        torch.set_num_threads(threads_before)
    return _quickest({name: min(times) for name, times in seconds.items()})


def _quickest(seconds: dict[str, float]) -> str:
    """The first name, unless a later one takes clearly less time."""
    best, *others = seconds
    for name in others:
        if seconds[name] < CLEARLY * seconds[best]:
            best = name
    return best


def _sample(matrix: csr_matrix, nonzeros: int) -> csr_matrix:
    """Rows around the middle nonzero with about `nonzeros` nonzeros, only the columns they use."""
    middle = max(0, int(matrix.nnz) - nonzeros) // 2
    begin, end = np.searchsorted(matrix.indptr, [middle, middle + nonzeros], side="right") - 1
    part = matrix[max(0, begin) : max(end, begin + 1)]
    used, columns = np.unique(part.indices, return_inverse=True)
    return csr_matrix((part.data, columns, part.indptr), (part.shape[0], len(used)))
