"""Interface of local sparse products."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from plancc.errors import InputError


class Epilogue(NamedTuple):
    """How a row of a product is changed before it is stored, and where it goes (see `multiply`)."""

    add: bool
    rows: Tensor | None
    bias: Tensor | None
    relu: bool
    where: Tensor | None


def numbered(device: torch.device) -> torch.device:
    """The device as its tensors name it: "cuda" is the current one, with its number."""
    return torch.empty(0, device=device).device


class SparseMatrix(ABC):
    """A sparse matrix A[m, n], stored for products with dense blocks.

    Parameters:
        matrix (csr_matrix[m, n]): Its arrays may be kept and must not change afterwards.
        dtype (torch.float32 or torch.float64): The type of the values, of x and of out.

    Attributes:
        name: The kernel's name in `KERNELS`.
        shape (tuple of int): (m, n).
        nnz: int.
    """

    name: ClassVar[str]

    def __init__(self, matrix: csr_matrix, dtype: torch.dtype, device: torch.device) -> None:
        self.shape: tuple[int, int] = matrix.shape
        self.nnz = int(matrix.nnz)
        self.dtype = dtype
        self.device = numbered(device)

    def multiply(
        self,
        x: Tensor,
        out: Tensor,
        *,
        add: bool = False,
        rows: Tensor | None = None,
        bias: Tensor | None = None,
        relu: bool = False,
        where: Tensor | None = None,
    ) -> None:
        """out = A x, or its rows scattered, with an epilogue applied while rows are at hand.

        For every row k of A, with r = rows[k] (or k without `rows`)::

            t = A[k] x                 summed in the order of the nonzeros, or by column blocks
            t = t + out[r]             with add
            t = t + bias               with bias
            t = max(t, 0)              with relu
            t = 0 where where[k] <= 0  with where
            out[r] = t

        The last two save a dense temporary, not additions: every output is summed first. So this
        is not the S-SpMM of Wan et al. 2025, which skips outputs that the mask leaves out.
        Other rows of `out` are left alone. The same inputs give the same bits; a kernel that
        splits no row gives them for every number of threads. As many threads work as
        ``torch.get_num_threads()`` says in the calling thread.

        Parameters:
            x (Tensor[n, d]): Contiguous, of this matrix's dtype and device, not overlapping `out`.
            out (Tensor[m, d], or Tensor[>= m, d] with `rows`): Contiguous; its old values are not
                read without `add`.
            rows (Tensor, int64[m], optional): Rows of `out`, unique.
            bias: Tensor[d], optional.
            where (Tensor[m, d], optional): Row k belongs to row k of A, also with `rows`.
                Contiguous.

        Raises:
            InputError: If a shape, dtype, device or memory layout is another, or a row is outside
                of `out`.
        """
        m, n = self.shape
        width = x.shape[-1]
        self._check("x", x, (n, width))
        self._check("out", out, (m if rows is None else len(out), width))
        if rows is not None and (rows.shape != (m,) or rows.dtype != torch.int64):
            raise InputError(f"rows should be int64[{m}], not {rows.dtype}{list(rows.shape)}")
        if bias is not None:
            self._check("bias", bias, (width,))
        if where is not None:
            self._check("where", where, (m, width))
        if m and width:
            self._multiply(x, out, Epilogue(add, rows, bias, relu, where))

    @abstractmethod
    def _multiply(self, x: Tensor, out: Tensor, epilogue: Epilogue) -> None:
        """`multiply` after its checks; m and d are at least 1."""

    def _check(self, what: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
        if tensor.shape != shape or tensor.dtype != self.dtype or not tensor.is_contiguous():
            raise InputError(
                f"{what} of a {self.shape[0]} x {self.shape[1]} product should be a contiguous "
                f"{self.dtype}{list(shape)}, not {tensor.dtype}{list(tensor.shape)}"
                + ("" if tensor.is_contiguous() else " with gaps")
            )
        if tensor.device != self.device:
            raise InputError(f"{what} is on {tensor.device}, the matrix on {self.device}")
