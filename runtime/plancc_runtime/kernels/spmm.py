"""Kernels of local sparse products, and the usual kernel of a device.

"numba" takes 20% to 50% of torch's time at widths 32 to 128, and about 100% below width 8.
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
    """Return `matrix`, laid out for products by `kernel`, a name in `KERNELS`.

    The arrays of `matrix` may be kept, and must not change. Columns may be unsorted or repeated.
    `dtype` is torch.float32 or torch.float64.
    """
    if dtype not in (torch.float32, torch.float64):
        raise InputError(f"dtype {dtype}: sparse products need float32 or float64")
    return KERNELS[kernel](matrix, dtype, torch.device(device))


def usual_kernel(device: torch.device) -> str:
    """Return the name of the quickest kernel on a device: "numba" on CPUs, else "torch"."""
    return "numba" if device.type == "cpu" else "torch"
