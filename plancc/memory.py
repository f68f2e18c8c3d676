"""The memory that this process may still take, and a check that a planned amount fits."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from plancc.errors import InputError

ROOT = Path("/")
M_MMAP_THRESHOLD = -3
"""Number of an option of glibc's ``mallopt``: the size above which memory is mapped separately."""
LARGE = 1 << 20
UNLIMITED = 1 << 60
"""Number of bytes that no computer has; a limit of this size or above counts as no limit."""


def available_memory(root: Path = ROOT) -> int | None:
    """Return the bytes of memory that this process may still take; None if unknown.

    Limits of control groups are respected. `root` is the folder with ``proc`` and ``sys``.
    """
    found = [*_bytes(root / "proc/meminfo", "MemAvailable:"), *_group_limits(root)]
    return max(0, min(found)) if found else None


def give_back_at_once() -> None:
    """Make the GNU C library return freed arrays to the system at once.

    By default, it may keep freed arrays of up to 32 MiB. With another C library, do nothing.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE)


def check_memory(wanted: int, what: str) -> None:
    """Raise InputError if source `what` needs `wanted` bytes, and fewer are known to be free."""
    left = available_memory()
    if left is not None and wanted > left:
        takes, has = (f"{size / 2**20:,.0f} MiB" for size in (wanted, left))
        raise InputError(f"{what} takes {takes} of memory, but this computer has {has} left")


def held_memory() -> int:
    """Return the bytes of memory that this process uses, without mapped files; 0 if unknown."""
    return next(_bytes(ROOT / "proc/self/status", "RssAnon:"), 0)


def _bytes(file: Path, name: str) -> Iterator[int]:
    """Yield the number of bytes in the line of a ``/proc`` file that begins with `name`, if any."""
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            if line.startswith(name):
                yield 1024 * int(line.split()[1])


def _group_limits(root: Path) -> Iterator[int]:
    """Yield the bytes left below control groups' limits (version 1 or 2), cached files included."""
    with suppress(OSError):
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == "":
                top, limit, usage = root / "sys/fs/cgroup", "memory.max", "memory.current"
            elif "memory" in controllers.split(","):
                top = root / "sys/fs/cgroup/memory"
                limit, usage = "memory.limit_in_bytes", "memory.usage_in_bytes"
            else:
                continue
            folder = top / path.lstrip("/")
            for group in (folder, *folder.parents):
                if group.is_relative_to(top):
                    yield from _left(group, limit, usage)


def _left(group: Path, limit: str, usage: str) -> Iterator[int]:
    with suppress(OSError, ValueError):  # "max" is no number, and means no limit
        most = int((group / limit).read_text())
        if most < UNLIMITED:
            yield most - int((group / usage).read_text()) + _cached(group)


def _cached(group: Path) -> int:
    """Return the bytes of a control group's memory that hold cached files or mapped files."""
    cached = 0
    with suppress(OSError, ValueError):
        for line in (group / "memory.stat").read_text().splitlines():
            name, _, number = line.partition(" ")
            if name in ("inactive_file", "active_file"):
                cached += int(number)
    return cached
