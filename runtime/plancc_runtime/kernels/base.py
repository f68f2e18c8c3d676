"""Interface of local sparse products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from plancc.errors import InputError


def numbered(device: torch.device) -> torch.device:
    """Return the device with its number: "cuda" becomes the current device, such as "cuda:0"."""
    return torch.empty(0, device=device).device


class SparseMatrix(ABC):
    """A sparse matrix A[m, n], stored for products with dense blocks.

    A kernel may keep the arrays of `matrix`, so they must not change. `dtype` is the type of the
    values of A, and of x and `out` in products.

    Attributes:
        name: Name of the kernel in `KERNELS`.
        shape (tuple of int): (m, n).
        nnz (int): Number of nonzeros.
    """

    name: ClassVar[str]

    def __init__(self, matrix: csr_matrix, dtype: torch.dtype, device: torch.device) -> None:
        self.shape: tuple[int, int] = matrix.shape
        self.nnz = int(matrix.nnz)
        self.dtype = dtype
        self.device = numbered(device)

    def multiply(
        self, x: Tensor, out: Tensor, *, add: bool = False, rows: Tensor | None = None
    ) -> None:
        """Write the rows of A x to rows `rows` of `out`, or add them if `add`; other rows stay.

        The same inputs give the same bits. If the kernel never splits a row, this holds for any
        number of threads. Terms of a row are added in order, or column block by column block.

        Parameters:
            x (Tensor[n, d]): Contiguous, of the matrix's dtype and device; not a part of `out`.
            out (Tensor[m, d], or Tensor[>= m, d] with `rows`): Contiguous; read only if `add`.
            rows (Tensor, int64[m], optional): Distinct row numbers of `out`; by default 0..m-1.

        Raises:
            InputError: If a shape, dtype, device or layout is wrong, or a row is outside `out`.
        """
        m, n = self.shape
        width = x.shape[-1]
        self._check("x", x, (n, width))
        self._check("out", out, (m if rows is None else len(out), width))
        if rows is not None and (rows.shape != (m,) or rows.dtype != torch.int64):
            raise InputError(f"rows should be int64[{m}], not {rows.dtype}{list(rows.shape)}")
        if m and width:
            self._multiply(x, out, add, rows)

    @abstractmethod
    def _multiply(self, x: Tensor, out: Tensor, add: bool, rows: Tensor | None) -> None:
        """Do the work of `multiply` for checked arguments, with at least one row and column."""

    def _check(self, what: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
        if tensor.shape != shape or tensor.dtype != self.dtype or not tensor.is_contiguous():
            raise InputError(
                f"{what} of a product with a {self.shape[0]} x {self.shape[1]} matrix should be a "
                f"contiguous {self.dtype}{list(shape)}, not {tensor.dtype}{list(tensor.shape)}"
                + ("" if tensor.is_contiguous() else " that is not contiguous")
            )
        if tensor.device != self.device:
            raise InputError(f"{what} is on {tensor.device}, but the matrix is on {self.device}")
