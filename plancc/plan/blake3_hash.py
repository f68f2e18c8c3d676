"""BLAKE3 digests of bytes.

The library is imported at the first digest, so that processes without digests run without it.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from plancc.errors import BackendUnavailable


@cache
def hasher() -> Any:
    """Return the class `blake3.blake3`.

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
    """Return the BLAKE3 digest of `data`, 32 bytes.

    Raises:
        BackendUnavailable: If the library blake3 is not installed.
    """
    digest: bytes = hasher()(data).digest()
    return digest


def blake3_of_pieces(pieces: Iterable[bytes | memoryview]) -> bytes:
    """Return the BLAKE3 digest of the concatenated pieces, 32 bytes."""
    found = hasher()()
    for piece in pieces:
        found.update(piece)
    digest: bytes = found.digest()
    return digest
