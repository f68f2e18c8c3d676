"""What training a GCN from a row plan moves and holds: exact words, estimated memory.

Knows the execution of paper 000's Algorithms 1 and 2 as `plancc_runtime` replays it, no machine.
Dims are the widths d_0..d_L of H^0..H^L.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plancc.cost.metrics import Traffic
from plancc.plan.plan import Int64Array

WORD_BYTES = 4  # float32


def epoch_words_sent(parts: Traffic, dims: Sequence[int]) -> Int64Array:
    """Words that every part sends in one epoch, int64[num_parts]; exact.

    Layer k sends rows of H^{k-1} forward (Algorithm 1), d_{k-1} words each, and what came back
    for the received rows backward (Algorithm 2), d_k words each. The sum over the parts is
    ``volume * sum_k (d_{k-1} + d_k)``.
    """
    return parts.sent * sum(dims[:-1]) + parts.received * sum(dims[1:])


def epoch_messages_sent(parts: Traffic, dims: Sequence[int]) -> Int64Array:
    """Messages that every part sends in one epoch, int64[num_parts]; exact."""
    return (len(dims) - 1) * (parts.messages_sent + parts.messages_received)


@dataclass(frozen=True)
class Memory:
    """Bytes per part in float32 training, int64[num_parts] each; estimates, see the fields.

    Attributes
    ----------
    matrix
        Local CSR and its transpose (for the adjoint): 4 bytes a column number and 4 a value for
        each nonzero, 4 a row pointer, 8 an entry of the send mask.
    halo
        Buffers of the rows that are sent and received, one for every distinct width.
    activations
        H^0..H^L, the products A H and A^T G (one for every distinct width), and two gradients.
    """

    matrix: Int64Array
    halo: Int64Array
    activations: Int64Array

    @property
    def total(self) -> Int64Array:
        return self.matrix + self.halo + self.activations


def memory(parts: Traffic, dims: Sequence[int]) -> Memory:
    """Bytes that every part needs to train with these widths (weights and libraries apart)."""
    widths = sum(set(dims))
    pointers = 2 * (parts.rows + 1) + parts.received
    gradients = dims[-1] + max(dims[1:-1], default=0)
    return Memory(
        matrix=2 * parts.nonzeros * (4 + WORD_BYTES) + 4 * pointers + 8 * parts.sent,
        halo=WORD_BYTES * widths * (parts.sent + parts.received),
        activations=WORD_BYTES * parts.rows * (sum(dims) + widths + gradients),
    )
