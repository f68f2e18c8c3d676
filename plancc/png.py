"""Small pictures as PNG files, for pages that must hold everything they show.

A page takes a library of images for granted only where the user installed one; a plan shows itself
in a notebook without. So the few chunks of a palette picture are written here (PNG specification,
third edition, W3C 2025).
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import numpy.typing as npt

LEVELS = 256
RAMP_COLOUR = (58, 120, 238)
"""The one colour of `RAMP`, which reads on a white and on a dark ground."""
FAINTEST = 64
"""Opacity of the lowest level, of 255."""


def alpha_ramp() -> npt.NDArray[np.uint8]:
    """Palette uint8[256, 4]: level 0 is transparent, the others rise to full colour.

    What is shown is the page's ground where there is nothing, so that one picture suits a light
    and a dark page.
    """
    palette = np.empty((LEVELS, 4), np.uint8)
    palette[:, :3] = RAMP_COLOUR
    palette[:, 3] = np.linspace(FAINTEST, 255, LEVELS).round()
    palette[0, 3] = 0
    return palette


def log_levels(
    values: npt.NDArray[np.floating | np.integer], span: tuple[float, float] | None = None
) -> npt.NDArray[np.uint8]:
    """Levels 1..255 on a logarithmic scale from the smallest positive value to the largest.

    Parameters
    ----------
    values : array
        Nothing negative; where it is 0 the level is 0.
    span : (float, float), optional
        Values of levels 1 and 255, both positive, for pictures on one scale; no value is outside.
    """
    levels = np.zeros(values.shape, np.uint8)
    there = values > 0
    if there.any():
        logs = np.log(values[there].astype(float))
        low, high = (logs.min(), logs.max()) if span is None else np.log(span)
        share = (logs - low) / (high - low) if high > low else np.ones(len(logs))
        levels[there] = 1 + np.round((LEVELS - 2) * share)
    return levels


def png(levels: npt.NDArray[np.uint8], palette: npt.NDArray[np.uint8]) -> bytes:
    """A palette picture of uint8[height, width] levels with uint8[colours, 4] red, green, blue and
    opacity, as a file.
    """
    height, width = levels.shape
    lines = np.zeros((height, width + 1), np.uint8)  # each begins with its filter: none
    lines[:, 1:] = levels
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, data)
        for kind, data in (
            (b"IHDR", header),
            (b"PLTE", palette[:, :3].tobytes()),
            (b"tRNS", palette[:, 3].tobytes()),
            (b"IDAT", zlib.compress(lines.tobytes(), 9)),
            (b"IEND", b""),
        )
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def density_uri(
    values: npt.NDArray[np.floating | np.integer], span: tuple[float, float] | None = None
) -> str:
    """``data:`` address of the picture of a matrix of values, by `log_levels` and `alpha_ramp`."""
    picture = png(log_levels(values, span), alpha_ramp())
    return "data:image/png;base64," + base64.b64encode(picture).decode("ascii")
