"""Moves contiguous buffers between ranks. Knows nothing of plans, rows or layers."""

from plancc_runtime.transport.base import Exchange, Traffic, Transport, TransportError

__all__ = ["Exchange", "Traffic", "Transport", "TransportError"]
