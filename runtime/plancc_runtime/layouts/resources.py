"""Resources of a layout on one rank: transport, device, kernel and clock."""

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
    """Resources and settings of a layout on one rank.

    Attributes:
        dtype (torch.dtype): Type of dense rows, and of the matrix.
        clock: Clock that adds up seconds under the names "mask", "spmm", "pack" and "wait".
        overlap: Whether messages are in flight during products. Results are the same.
        wire: Type in which halo rows are sent: "fp32" (not rounded) or "bf16".
        kernel: Name in `kernels.spmm.KERNELS`, or "auto" for the device's `usual_kernel`.
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
        """Name of the kernel that runs: `kernel`, or the kernel that "auto" chooses."""
        return usual_kernel(self.device) if self.kernel == "auto" else self.kernel

    def lay_out(self, matrix: csr_matrix) -> SparseMatrix:
        """Return the matrix on the device, in the layout that the kernel multiplies."""
        return prepare(matrix, self.dtype, self.device, self.kernel_name)
