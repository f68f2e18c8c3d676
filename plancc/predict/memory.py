"""An estimate of the memory that a rank needs to train a GCN, as a sum of terms.

It is for training with all passes of `plancc_runtime`, in float32 on a CPU, without dropout or
norms. It leaves out weights, their gradients, the optimiser's numbers (two for each weight with
Adam, one with momentum), libraries, and memory that the allocator keeps for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np

from plancc.plan.exchange import Int64Array
from plancc.plan.metrics import Traffic

WORD_BYTES = 4
"""Bytes of a float32."""
NONZERO_BYTES = 4 + WORD_BYTES
"""Bytes of a column number and a value."""


@dataclass(frozen=True)
class Memory:
    """Bytes of every part, int64[num_parts] each.

    Attributes:
        plan: The part as it is read from the file: column numbers, values, row pointers, vertex
            numbers, lists of rows to send, labels, and positions of labelled rows.
        matrix: The matrices with which the part multiplies: its nonzeros in own rows and columns,
            its nonzeros in halo columns or in folded rows, and the transposes of both (a symmetric
            matrix needs no transpose). Layers from the second on that leave out dead rows have
            matrices of their own.
        halo: Buffers for the rows that are sent and received, for every matrix and width. In
            process grids and feature plans: the pieces that are received, and products before they
            are reduced or reordered.
        features: The product A H^0, which replaces the features, and a copy of the live rows of
            the product if other rows are dead. While the product is computed, the features H^0 are
            in memory too; `activations` includes them.
        activations: Products, activations and gradients that are in memory at the same time, at the
            moment of a training step or an evaluation when they take the most memory.
    """

    plan: Int64Array
    matrix: Int64Array
    halo: Int64Array
    features: Int64Array
    activations: Int64Array

    @property
    def total(self) -> Int64Array:
        return np.sum([getattr(self, field.name) for field in fields(self)], axis=0)

    def part_terms(self, index: int) -> dict[str, int]:
        """Return the memory of one part, in bytes: every attribute by name, and their "total"."""
        names = [field.name for field in fields(self)]
        return {name: int(getattr(self, name)[index]) for name in (*names, "total")}


def row_memory(
    parts: Traffic,
    live: Sequence[Traffic],
    dims: Sequence[int],
    halo_nonzeros: Int64Array,
    symmetric: bool,
    value_bytes: int = WORD_BYTES,
    recompute: bool = False,
) -> Memory:
    """Return the largest memory that every part of a row or edge plan needs at any time, in bytes.

    Parameters:
        parts: Load and traffic of every part if all rows are computed and exchanged.
        live: For every layer, load and traffic of every part without dead rows: rows on which no
            wanted output depends.
        dims: Widths d_0..d_L.
        halo_nonzeros (int64[num_parts]): Number of nonzeros of every part in halo columns or folded
            rows.
        symmetric: Whether the nonzeros in own rows and columns equal their transpose in every part.
        value_bytes: Bytes of a value in the plan file.
        recompute: Whether the backward pass computes activations again
            (`plancc_runtime.nn.recompute`).
    """
    dead = any((each.rows < parts.rows).any() for each in live)
    layers = list(live) if dead else [parts] * len(live)
    rows = [each.rows for each in layers]
    folded = 0 if parts.fold is None else parts.fold.sent
    return Memory(
        plan=(
            parts.nonzeros * (4 + value_bytes)
            + (parts.rows + folded) * 8
            + parts.rows * (4 + 8)
            + rows[-1] * 8
            + _masks(parts) * 4
        ),
        matrix=_matrix(parts, layers if dead else [], halo_nonzeros, symmetric),
        halo=_buffers(parts, layers if dead else [], dims),
        features=WORD_BYTES * dims[0] * (parts.rows + (rows[0] if dead else 0)),
        activations=np.maximum.reduce(
            [
                WORD_BYTES
                * (_recomputing(rows, dims) if recompute else _training(rows, dims, dims)),
                WORD_BYTES * _evaluation(parts.rows, dims, dims),
                WORD_BYTES * dims[0] * (parts.rows - (rows[0] if dead else 0)),  # H^0 beside A H^0
            ]
        ),
    )


def _matrix(
    parts: Traffic, layers: Sequence[Traffic], halo_nonzeros: Int64Array, symmetric: bool
) -> Int64Array:
    own = parts.nonzeros - halo_nonzeros
    # without a halo the own nonzeros are the plan's arrays, unless a transpose is needed
    copies = np.where(halo_nonzeros > 0, 1, 0) if symmetric else 2 - (halo_nonzeros == 0)
    foreign = parts.received if parts.fold is None else parts.halo + parts.fold.sent
    pointers = 8 * parts.rows * (1 if symmetric else 2) + 16 * foreign
    total: Int64Array = (
        NONZERO_BYTES * (copies * own + 2 * halo_nonzeros) + pointers + 8 * _masks(parts)
    )
    for each in layers[1:]:
        part_of = each.rows < parts.rows
        total = total + part_of * (
            3 * NONZERO_BYTES * each.nonzeros + 8 * (3 * each.rows + each.sent + 2 * each.received)
        )
    return total


def _masks(parts: Traffic) -> Int64Array:
    """Return the total length of every part's lists of own rows: int64[num_parts].

    A part has lists of the own rows that it sends, and lists of the own rows for which it receives
    partial sums.
    """
    fold = parts.fold
    return parts.sent if fold is None else parts.sent - fold.sent + fold.received


def _buffers(parts: Traffic, layers: Sequence[Traffic], dims: Sequence[int]) -> Int64Array:
    widths = [min(d_in, d_out) for d_in, d_out in pairwise(dims)]
    whole = sum({dims[0], *widths[1:]})
    total: Int64Array = WORD_BYTES * whole * (parts.sent + parts.received)
    for each, width in zip(layers[1:], widths[1:], strict=False):
        part_of = each.rows < parts.rows
        total = total + part_of * (WORD_BYTES * width * (each.sent + each.received))
    return total


def _training(
    rows: Sequence[Int64Array], dims: Sequence[int], held: Sequence[int | Int64Array]
) -> Int64Array:
    """Return the largest number of words that autograd holds at any time: int64[num_ranks].

    The forward pass keeps for the backward pass the output H of every hidden layer, which is also
    the mask of the activation, and A H of layers that multiply by A first. The backward pass goes
    from the last layer to the first. In each layer it holds, one after another: the gradients of H
    and Z = A H W at the activation; the gradients of Z and of the product that W multiplies; and
    the gradients before and after the product with A. The loss holds the network's outputs, the
    product from which they come, their softmax, and the gradients of these.

    Parameters:
        rows (list of int64[num_ranks]): For every layer, the number of output rows on a rank.
        dims: Widths d_0..d_L.
        held: For every width ``dims[k]``, the number of columns that a rank holds. It holds all
            columns of the network's outputs.
    """
    zero = np.zeros_like(rows[0])
    last = len(dims) - 2
    kept, worst = [zero], zero
    for layer, (d_in, d_out) in enumerate(pairwise(dims)):
        projects = d_out < d_in
        wide_in, wide_out = held[layer], held[layer + 1]
        product = zero if layer == 0 or projects else rows[layer] * wide_in
        output = rows[layer] * wide_out
        kept.append(kept[-1] + product + output)
        before = rows[layer - 1] if layer else rows[0]
        projected = before * wide_out if layer and projects else zero
        given = before * wide_in if layer else zero  # the gradient of the layer's input
        back = [
            product + output * (3 if layer < last else 2),
            product + 2 * output + product,
            output + projected + output,
            product + given,
            projected + given,
        ]
        outputs = 6 * rows[last] * dims[-1] if layer < last else zero
        worst = np.maximum(worst, kept[layer] + outputs + np.maximum.reduce(back))
    return worst


def _recomputing(rows: Sequence[Int64Array], dims: Sequence[int]) -> Int64Array:
    """Return what `_training` returns, if the backward pass computes activations again.

    Then only the products A (H W) or A H are kept. At the moment when the most words are held,
    autograd holds the products so far and two more matrices. In the forward pass, the two are the
    exchanged rows and the product of A with these rows. In the backward pass, they are the
    gradients of the exchanged rows and of that product, or of the products of two neighbouring
    layers. Two things are not counted: the product of the first layer, which is part of
    `Memory.features`, and the blocks of rows that are computed again.
    """
    moved = [min(d_in, d_out) for d_in, d_out in pairwise(dims)]
    last = len(dims) - 2
    kept = np.zeros_like(rows[0])
    outputs = rows[last] * dims[-1]
    worst = kept
    for layer in range(1, last + 1):
        product, before = rows[layer] * moved[layer], rows[layer - 1] * moved[layer]
        following = 2 * outputs if layer == last else rows[layer] * moved[layer + 1]
        across, back = product + before, 2 * product + following
        worst = np.maximum(worst, kept + np.maximum(across, back))
        kept = kept + product
    if last == 0:
        return 2 * outputs  # as in `_training`
    before_last = kept - rows[last] * moved[last]
    return np.maximum(worst, before_last + 6 * outputs)  # the loss, as in `_training`


def _evaluation(
    rows: Int64Array, dims: Sequence[int], held: Sequence[int | Int64Array]
) -> Int64Array:
    """Return the words of the largest three matrices that a forward pass without gradients holds
    at the same time: int64[num_ranks]. For the parameters see `_training`.
    """
    most = 2 * rows * held[1]
    for k in range(1, len(dims) - 1):
        wide_in, wide_out = rows * held[k], rows * held[k + 1]
        moved = wide_out if dims[k + 1] < dims[k] else wide_in
        most = np.maximum(most, np.maximum(wide_in + moved + wide_out, wide_in + 2 * wide_out))
    return most


def grid_memory(
    rows: Int64Array,
    block_rows: Int64Array,
    nonzeros: Int64Array,
    dims: Sequence[int],
    held: Sequence[int | Int64Array],
    buffers: Int64Array,
    laid_out: int,
) -> Memory:
    """Return the largest memory that every rank of a grid or feature plan needs, in bytes.

    Parameters:
        rows (int64[num_ranks]): Number of rows of H that the rank holds between products.
        block_rows, nonzeros (int64[num_ranks]): Number of rows and nonzeros of the rank's block of
            A.
        dims: Widths d_0..d_L.
        held (list of int or int64[num_ranks]): For each width, the number of columns that the rank
            holds between products.
        buffers (int64[num_ranks]): Number of words that the rank receives for a product, and of
            results that are not yet reduced or reordered.
        laid_out: Number of copies of the rank's block in memory, including its transpose and the
            copies that are sent.

    Returns:
        Memory, with arrays int64[num_ranks].
    """
    features = rows * held[0]
    most = np.maximum(
        _training([rows] * (len(dims) - 1), dims, held), _evaluation(rows, dims, held)
    )
    return Memory(
        plan=nonzeros * NONZERO_BYTES + 8 * block_rows + 12 * rows,
        matrix=laid_out * (nonzeros * NONZERO_BYTES + 8 * block_rows),
        halo=WORD_BYTES * buffers,
        features=WORD_BYTES * features,
        activations=WORD_BYTES * np.maximum(most, features),  # H^0 beside A H^0
    )
