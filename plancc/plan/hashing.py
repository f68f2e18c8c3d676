"""The hash of plans, BLAKE3: its library is imported at first use.

Plans that are compiled and trained from in one process are never hashed, and need no such library.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from plancc.errors import BackendUnavailable


@cache
def hasher() -> Any:
    """The class of BLAKE3 hashes.

    Raises:
        BackendUnavailable: If the library is not installed.
    """
    try:
        from blake3 import blake3
    except ImportError as error:
        raise BackendUnavailable(
            "plan files are written and read with blake3, which is not installed: "
            "pip install blake3"
        ) from error
    return blake3


def blake3_digest(data: bytes | memoryview) -> bytes:
    """The BLAKE3 digest: 32 bytes. BackendUnavailable if the library is not installed."""
    digest: bytes = hasher()(data).digest()
    return digest


def blake3_of_pieces(pieces: Iterable[bytes | memoryview]) -> bytes:
    """The same of pieces one after the other."""
    found = hasher()()
    for piece in pieces:
        found.update(piece)
    digest: bytes = found.digest()
    return digest
