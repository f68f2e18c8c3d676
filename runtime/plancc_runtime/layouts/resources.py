"""What layouts work with on one rank."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from scipy.sparse import csr_matrix

from plancc.clock import Clock
from plancc_runtime.kernels.base import SparseMatrix
from plancc_runtime.kernels.spmm import prepare, usual_kernel
from plancc_runtime.transport.base import Transport

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Resources:
    """What a layout works with on one rank, and how.

    Attributes:
        transport: To the ranks that the layout is spread over.
        dtype (torch.dtype): Type of dense rows, and of the matrix.
        clock: Gets the time of "mask", "spmm", "pack" and "wait".
        overlap: Whether messages travel while products are made; the results have the same bits.
        wire: How halo rows travel: "fp32", as they are, or "bf16", rounded to bfloat16.
        kernel: Kernel of local products: a name in `kernels.spmm.KERNELS`, or "auto": the
            `usual_kernel` of the device.
        device: Device of the rows.
    """

    transport: Transport
    dtype: torch.dtype
    clock: Clock = field(default_factory=Clock)
    overlap: bool = True
    wire: str = "fp32"
    kernel: str = "auto"
    device: torch.device = CPU

    @property
    def kernel_name(self) -> str:
        """The kernel by its own name."""
        return usual_kernel(self.device) if self.kernel == "auto" else self.kernel

    def lay_out(self, matrix: csr_matrix) -> SparseMatrix:
        """The matrix, laid out for products with rows on the device."""
        return prepare(matrix, self.dtype, self.device, self.kernel_name)
