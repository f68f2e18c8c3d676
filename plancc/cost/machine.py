"""How long an epoch takes on a machine of three numbers. Knows no device and measures nothing.

The machine is the postal model (a message of b bytes takes ``latency + b / bandwidth`` seconds)
beside a rate of multiply-adds. A part's epoch is the sum of its messages and its products: nothing
overlaps, so the figure compares plans and is no promise.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from os import PathLike, fspath
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from plancc.cost.metrics import Traffic
from plancc.cost.training import WORD_BYTES
from plancc.errors import InputError


@dataclass(frozen=True)
class Machine:
    """What one rank and its link can do. Positive finite numbers; the defaults are a CPU cluster.

    Attributes
    ----------
    latency : float
        Seconds per message: 2e-6, a small MPI message through a current InfiniBand switch.
    bandwidth : float
        Bytes per second that a rank sends while it receives as many: 1e10, a link of 100 Gb/s per
        rank (12.5e9) that loses a fifth to packets and to packing.
    multiply_adds : float
        Multiply-adds per second: 5e9, a sparse product on one CPU rank, which waits for memory:
        20 GB/s of it, and one float32 of H, 4 bytes, for every multiply-add.

    Raises
    ------
    InputError
        If a value is no positive finite number.
    """

    latency: float = 2e-6
    bandwidth: float = 1e10
    multiply_adds: float = 5e9

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not 0 < value <= sys.float_info.max:
                raise InputError(f"machine: '{name}' is {value!r}, not a positive finite number")

    def __str__(self) -> str:
        return ",".join(f"{name}={float(value)!r}" for name, value in vars(self).items())

    @classmethod
    def parse(cls, text: str) -> Self:
        """The machine that `str` wrote; InputError for anything else."""
        try:
            values = {name: float(value) for name, value in (w.split("=") for w in text.split(","))}
            return cls(**values)
        except (TypeError, ValueError):
            raise InputError(f"machine '{text}': name=value with commas is needed") from None


def read_machine(path: str | PathLike[str]) -> Machine:
    """A machine from a TOML file.

    Parameters
    ----------
    path : path of the file
        Keys ``latency`` (seconds), ``bandwidth`` (bytes per second) and ``multiply_adds`` (per
        second) at top level, in no table; a key that is missing keeps its default.

    Raises
    ------
    InputError
        If the file cannot be read or is no TOML, has another key, or a value is no positive finite
        number.
    """
    name = fspath(path)
    try:
        with open(name, "rb") as file:
            values = tomllib.load(file)
    except FileNotFoundError:
        raise InputError(f"{name}: no such file") from None
    except OSError as error:
        raise InputError(f"{name}: not readable ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name}: not TOML: {error}") from error
    known = [field.name for field in fields(Machine)]
    for key in values:
        if key not in known:
            raise InputError(
                f"{name}: unknown key {key!r} = {values[key]!r}: choose from {', '.join(known)}"
            )
    try:
        return Machine(**values)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


class EpochRates(NamedTuple):
    """Seconds that an epoch takes per unit of a part's traffic; a kernel may take it as it is.

    Attributes
    ----------
    message : float
        Per message of one expand, at the busier of a part's two ends.
    row : float
        Per row of one expand, at the busier of its two ends.
    nonzero : float
        Per nonzero of the part.
    own_row : float
        Per row that the part owns.
    """

    message: float
    row: float
    nonzero: float
    own_row: float

    def seconds(self, parts: Traffic) -> npt.NDArray[np.float64]:
        """Predicted seconds of one epoch of every part, float64[num_parts]."""
        return (
            self.message * np.maximum(parts.messages_sent, parts.messages_received)
            + self.row * np.maximum(parts.sent, parts.received)
            + self.nonzero * parts.nonzeros
            + self.own_row * parts.rows
        )


def epoch_rates(dims: Sequence[int], machine: Machine) -> EpochRates:
    """What one epoch of a GCN costs per message, row moved, nonzero and own row.

    Layer k of widths d_{k-1}, d_k runs as `plancc.cost.training` says:

    =========  =====================================  =================================
    direction  exchange and sparse product            dense products, multiply-adds
    =========  =====================================  =================================
    forward    rows of H^{k-1}, d_{k-1} wide          rows x d_{k-1} x d_k
    backward   rows of the gradient, d_k wide         2 x rows x d_{k-1} x d_k
    =========  =====================================  =================================

    The backward exchange sends what the forward one received, so the busier end is the same.

    Parameters
    ----------
    dims : list of int
        Widths d_0..d_L of H^0..H^L, at least two.
    machine : Machine
    """
    widths = sum(dims[:-1]) + sum(dims[1:])
    weights = sum(before * after for before, after in pairwise(dims))
    return EpochRates(
        message=2 * (len(dims) - 1) * machine.latency,
        row=WORD_BYTES * widths / machine.bandwidth,
        nonzero=widths / machine.multiply_adds,
        own_row=3 * weights / machine.multiply_adds,
    )


def epoch_seconds(parts: Traffic, dims: Sequence[int], machine: Machine) -> npt.NDArray[np.float64]:
    """Predicted seconds of one training epoch of every part, float64[num_parts].

    Ranks wait for each other: the epoch takes as long as its slowest part.
    """
    return epoch_rates(dims, machine).seconds(parts)
