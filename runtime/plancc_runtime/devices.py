"""Choice of the torch device on which a rank computes."""

from __future__ import annotations

import torch

from plancc.errors import InputError
from plancc.text import first_line
from plancc_runtime.launch import local_rank
from plancc_runtime.transport.base import Transport


def own_device(name: str | torch.device, transport: Transport) -> torch.device:
    """Return the device `name`; raise InputError if there is none.

    For "cuda", the ranks of a computer get its devices in turn.
    """
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise InputError(f"`device` {name}: choose cpu, cuda or cuda:NUMBER")
    if device.type == "cpu":
        return device
    count = torch.cuda.device_count()  # does not start CUDA
    if count == 0 or (device.index or 0) >= count:
        raise InputError(f"`device` {device}: torch finds {count} CUDA devices; choose another")
    if device.index is None:
        device = torch.device(
            "cuda", (local_rank() if transport.thread is None else transport.thread) % count
        )
    try:
        torch.cuda.set_device(device)
        torch.empty(0, device=device)
    except RuntimeError as error:  # the driver is too old, or another process has the card alone
        raise InputError(f"`device` {device}: CUDA does not start ({first_line(error)})") from error
    return device
