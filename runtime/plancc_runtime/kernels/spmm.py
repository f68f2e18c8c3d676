"""Local sparse products: the kernels, and which a device has.

Measured by ``python -m benchmarks kernels``; "numba" takes 0.2 to 0.5 of torch's time at widths 32
to 128 and about as long at widths below 8.
"""

from __future__ import annotations

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


def usual_kernel(device: torch.device) -> str:
    """Name of the kernel that is quickest on a device; others have no compiled one."""
    return "numba" if device.type == "cpu" else "torch"
