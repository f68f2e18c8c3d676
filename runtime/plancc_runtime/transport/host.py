"""Copies in host memory of buffers on devices, for libraries that send from host memory only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from plancc_runtime.transport.messages import Addressed, Buffer


def on_device(buffer: Buffer) -> bool:
    """Return whether the buffer is a tensor outside host memory."""
    return not isinstance(buffer, np.ndarray) and buffer.device.type != "cpu"


def host_array(buffer: Buffer) -> np.ndarray:
    """Return the array, or a numpy array that shares the memory of a tensor on the CPU.

    16-bit dtypes that numpy or MPI lacks are viewed as int16: they can be sent, but not added.
    """
    if isinstance(buffer, np.ndarray):
        return buffer.view(np.int16) if buffer.dtype == np.float16 else buffer
    import torch

    if buffer.dtype in (torch.bfloat16, torch.float16):
        buffer = buffer.view(torch.int16)
    return buffer.detach().numpy()


@contextmanager
def host_memory(array: Buffer) -> Iterator[np.ndarray]:
    """Yield the numbers of `array` in host memory; at the end, copy them back to its device."""
    if on_device(array):
        host = array.cpu()
        yield host.numpy()
        array.copy_(host)
    elif isinstance(array, np.ndarray):
        yield array
    else:
        yield array.detach().numpy()


class HostBuffers:
    """The buffers of an exchange: pairs (peer, numpy array). Device buffers have host copies."""

    def __init__(self, buffers: Addressed) -> None:
        self._copies: dict[int, tuple[Any, Any]] = {}  # number -> (on the device, on the host)
        self.buffers = []
        for number, (peer, buffer) in enumerate(buffers):
            if on_device(buffer):
                import torch

                copy = torch.empty_like(buffer, device="cpu", pin_memory=buffer.is_cuda)
                self._copies[number] = buffer, copy
                buffer = copy
            self.buffers.append((peer, host_array(buffer)))

    def fetch(self, number: int) -> None:
        """Copy the buffer with index `number` from its device to the host, if it is on a device."""
        if number in self._copies:
            device, host = self._copies[number]
            host.copy_(device)

    def store(self, number: int) -> None:
        """Copy the buffer with index `number` from the host to its device, if it is on a device."""
        if number in self._copies:
            device, host = self._copies[number]
            device.copy_(host)
