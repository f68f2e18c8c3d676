"""Sparse products by torch, which calls MKL on CPUs and cuSPARSE on GPUs."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import torch
from scipy.sparse import csr_matrix
from torch import Tensor

from plancc_runtime.kernels.base import SparseMatrix


class TorchMatrix(SparseMatrix):
    """A CSR tensor that ``torch.addmm`` multiplies, with 32-bit indices if the sizes allow this.

    To add, or to write only some rows, `multiply` needs a temporary tensor for the whole product.
    """

    name = "torch"

    def __init__(self, matrix: csr_matrix, dtype: torch.dtype, device: torch.device) -> None:
        super().__init__(matrix, dtype, device)
        index = np.int32 if max(matrix.nnz, *matrix.shape) < 2**31 else np.int64
        self._matrix = _csr(
            torch.from_numpy(matrix.indptr.astype(index, copy=False)),
            torch.from_numpy(matrix.indices.astype(index, copy=False)),
            torch.from_numpy(matrix.data).to(dtype),
            size=matrix.shape,
            device=device,
        )

    @classmethod
    def of_tensors(
        cls,
        row_ptr: Tensor,
        column: Tensor,
        value: Tensor,
        shape: tuple[int, int],
        transposed: bool = False,
    ) -> Self:
        """Return the matrix of CSR arrays of this shape or, if `transposed`, its transpose."""
        made = cls.__new__(cls)
        made.shape = (shape[1], shape[0]) if transposed else shape
        made.nnz, made.dtype, made.device = len(value), value.dtype, value.device
        made._matrix = _csr(row_ptr, column, value, transposed, size=made.shape)
        return made

    def _multiply(self, x: Tensor, out: Tensor, add: bool, rows: Tensor | None) -> None:
        product = x.new_empty(self.shape[0], x.shape[1]) if add or rows is not None else out
        if self.nnz:
            # torch.mm would allocate a second result.
            torch.addmm(product, self._matrix, x, beta=0, out=product)
        else:
            product.zero_()
        if add:
            product = out.add_(product) if rows is None else product.add_(out[rows])
        if rows is not None:
            out.index_copy_(0, rows, product)


def multiply(
    ptr: Tensor, index: Tensor, value: Tensor, x: Tensor, out: Tensor | None = None
) -> Tensor:
    """Return out[i] = sum of value[e] x[j] over the nonzeros e = (i, j) of a CSR matrix.

    Shapes of ptr, index, value, x and out: [m + 1], [nnz], [nnz], [n, d], [m, d].
    """
    out = x.new_empty(len(ptr) - 1, x.shape[1]) if out is None else out
    if not len(index):
        return out.zero_()
    matrix = _csr(ptr.to(index.dtype), index, value.contiguous(), size=(len(out), len(x)))
    return torch.addmm(out, matrix, x, beta=0, out=out)


def sampled_product(ptr: Tensor, index: Tensor, g: Tensor, x: Tensor) -> Tensor:
    """Return the inner product <g[i], x[j]> for every nonzero (i, j): Tensor[nnz].

    Shapes of ptr, index, g and x: [m + 1], [nnz], [m, d], [n, d].
    """
    zero = g.new_zeros(len(index))
    if not len(index):
        return zero
    pattern = _csr(ptr.to(index.dtype), index, zero, size=(len(g), len(x)))
    return torch.sparse.sampled_addmm(pattern, g, x.T, beta=0).values()


def _csr(
    ptr: Tensor, index: Tensor, value: Tensor, transposed: bool = False, **options: Any
) -> Tensor:
    """Return a CSR tensor. If `transposed`, `ptr`, `index` and `value` are its CSC arrays."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse", UserWarning)  # says "is in beta state"
        if transposed:
            return torch.sparse_csc_tensor(ptr, index, value, **options).to_sparse_csr()
        return torch.sparse_csr_tensor(ptr, index, value, **options)
