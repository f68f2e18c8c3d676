"""Moves contiguous buffers between ranks. Knows nothing of plans, rows or layers."""

from plancc_runtime.transport.base import Channel, Transport, TransportError
from plancc_runtime.transport.messages import Traffic

__all__ = ["Channel", "Traffic", "Transport", "TransportError"]
