"""The hash of plans, BLAKE3: its library is imported at first use. Knows bytes only.

Plans that are compiled and trained from in one process are never hashed, and need no such library.
"""

from __future__ import annotations

from collections.abc import Iterable

from plancc.errors import BackendUnavailable


def blake3_digest(pieces: Iterable[bytes | memoryview]) -> bytes:
    """The BLAKE3 digest of pieces one after the other: 32 bytes.

    Raises
    ------
    BackendUnavailable
        If the library is not installed.
    """
    try:
        from blake3 import blake3
    except ImportError as error:
        raise BackendUnavailable(
            "plan files are written and read with blake3, which is not installed: "
            "pip install blake3"
        ) from error
    found = blake3()
    for piece in pieces:
        found.update(piece)
    return found.digest()
