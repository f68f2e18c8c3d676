"""Transports, which move contiguous buffers between ranks."""

from plancc_runtime.transport.base import Channel, Transport, TransportError
from plancc_runtime.transport.messages import Traffic

__all__ = ["Channel", "Traffic", "Transport", "TransportError"]
