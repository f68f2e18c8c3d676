"""An estimate of the memory that a rank needs to train a GCN, as a sum of terms.

It holds for training with all passes, in float32 on a CPU, without dropout or norms. Weights, their
gradients, the optimiser's numbers, libraries and the allocator's reserves are left out.
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
        plan: What the rank reads of the plan, such as nonzeros and labels.
        matrix: Nonzeros in own rows and columns, other nonzeros, and transposes of both (none for a
            symmetric matrix). With the pass `dead-rows`, a layer that computes only some rows has
            matrices of its own.
        halo: Buffers of sent and received rows, for every matrix and width. In grids and feature
            plans: received pieces, and products before they are reduced or reordered.
        features: The product A H^0, which replaces the features; with the pass `dead-rows`, also a
            copy of the rows that the first layer computes.
        activations: Products, activations and gradients at the moment when they take the most
            memory; includes H^0 while A H^0 is computed.
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
        parts: Load and traffic with all rows.
        live: Load and traffic of every layer without dead rows, on which no output in the loss
            depends.
        halo_nonzeros (int64[num_parts]): Nonzeros in halo columns, or in rows of other parts.
        symmetric: Whether every part's block of own rows and columns is symmetric.
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
    """Return the total length of every part's lists of own rows in messages: int64[num_parts].

    These are own rows that the part sends, and own rows for which it receives partial sums.
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

    The forward pass keeps H of every hidden layer, and A H of layers that multiply by A first. In
    each layer, the backward pass holds one after another: gradients of H and Z = A H W; gradients
    of Z and of the matrix that is multiplied by W; gradients of the operand and of the result of
    the product with A. The loss holds outputs, the product that they come from, the softmax of the
    outputs, and the gradients of these three.

    Parameters:
        rows (list of int64[num_ranks]): Output rows of every layer.
        held: Columns that a rank holds, for every width; outputs are held whole.
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
    """Return the words that autograd holds (see `_training`) if activations are recomputed.

    Of each layer, only the product A (H W) or A H is kept. At most two more matrices are held at a
    time: exchanged rows and their product, gradients of both, or gradients of two layers' products.
    The first layer's product (in `Memory.features`) and blocks of recomputed rows do not count.
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
    """Return the most words that a layer's matrices take in an evaluation: int64[num_ranks]."""
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
        rows (int64[num_ranks]): Rows of H that the rank holds between products.
        block_rows, nonzeros (int64[num_ranks]): Size of the rank's block of A.
        held (list of int or int64[num_ranks]): Columns held between products, for each width.
        buffers (int64[num_ranks]): Words in the buffers of received blocks and unreduced results.
        laid_out: Number of copies of the block in memory, including its transpose and sent copies.
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
