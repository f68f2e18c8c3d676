"""Damage to bytes of any file, at random."""

from __future__ import annotations

import numpy as np

ODD = (0, 1, 0x7F, 0x80, 0xFF)


def damaged(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """The bytes with some wrong, and how they were damaged; at least one byte differs."""
    while True:
        found, how = _damaged(content, rng)
        if found != content:
            return found, how


def _damaged(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    data = np.frombuffer(content, np.uint8).copy()
    kind = rng.integers(8)
    at = rng.integers(len(data), size=rng.integers(1, 9))
    used = np.flatnonzero(data)  # headers and names are what is not zero
    if kind == 0:
        data[at] ^= np.uint8(1) << rng.integers(8, size=len(at)).astype(np.uint8)
        return data.tobytes(), f"bits at {at.tolist()}"
    if kind == 1:
        data[at] = rng.integers(256, size=len(at))
        return data.tobytes(), f"bytes at {at.tolist()}"
    if kind in (2, 3):
        where = int(rng.choice(used))
        data[where] = rng.choice(ODD)
        return data.tobytes(), f"byte {where} is {data[where]}"
    if kind == 4:  # a number of several bytes
        where, size = int(rng.choice(used)), int(rng.choice([2, 4, 8]))
        number = int(rng.choice([0, 1, -1, 1 << (8 * size - 2), (1 << (8 * size - 1)) - 1]))
        word = number.to_bytes(size, "little", signed=True)
        return content[:where] + word + content[where + size :], f"{number} at {where}"
    if kind == 5:  # a block from elsewhere
        size = int(rng.integers(1, min(600, len(data) // 2)))
        source, target = rng.integers(len(data) - size, size=2)
        data[target : target + size] = data[source : source + size]
        return data.tobytes(), f"{size} bytes of {source} at {target}"
    if kind == 6:  # bytes taken out or put in
        where, size = int(rng.integers(len(data))), int(rng.integers(1, 65))
        if rng.random() < 0.5:
            return content[:where] + content[where + size :], f"{size} bytes less at {where}"
        more = rng.integers(256, size=size).astype(np.uint8).tobytes()
        return content[:where] + more + content[where:], f"{size} bytes more at {where}"
    size = int(rng.integers(len(data)))
    return content[:size], f"cut off after {size} bytes"
