"""Memory of this computer that a process may still take."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from plancc.errors import InputError

ROOT = Path("/")
M_MMAP_THRESHOLD = -3
"""Number of an option of glibc's ``mallopt``: bytes from which on memory is mapped by itself."""
LARGE = 1 << 20
UNLIMITED = 1 << 60
"""Bytes that no computer has: limits beyond are none."""


def available_memory(root: Path = ROOT) -> int | None:
    """Bytes that may be taken: of the system, and of every control group above this process.

    Parameters:
        root: Folder with ``proc`` and ``sys``.

    Returns:
        None where the system does not say, as systems other than Linux.
    """
    found = [*_bytes(root / "proc/meminfo", "MemAvailable:"), *_of_groups(root)]
    return max(0, min(found)) if found else None


def give_back_at_once() -> None:
    """Let the C library give freed arrays back to the system at once.

    The GNU library keeps what it has freed once arrays of that size come and go: up to 32 MiB each,
    and it never gives back what lies below something else. Elsewhere this does nothing.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE)


def check_memory(wanted: int, what: str) -> None:
    """Refuse memory that a source asks for and this computer lacks.

    Parameters:
        wanted: Bytes that are going to be taken.
        what: Names the source, and what of it takes them.

    Raises:
        InputError: If fewer are left. Where the system does not say how many are left, nothing is
            refused.
    """
    left = available_memory()
    if left is not None and wanted > left:
        takes, has = (f"{size / 2**20:,.0f} MiB" for size in (wanted, left))
        raise InputError(f"{what} takes {takes} of memory, and this computer has {has} left")


def held_memory() -> int:
    """Bytes that this process has, without what only maps files; 0 where the system is silent."""
    return next(_bytes(ROOT / "proc/self/status", "RssAnon:"), 0)


def _bytes(file: Path, name: str) -> Iterator[int]:
    """What a line of a file of the kernel says."""
    with suppress(OSError, ValueError):
        for line in file.read_text().splitlines():
            if line.startswith(name):
                yield 1024 * int(line.split()[1])


def _of_groups(root: Path) -> Iterator[int]:
    """What is left of the limits of control groups, version 1 or 2.

    Memory that only caches files counts as left.
    """
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
    with suppress(OSError, ValueError):  # "max" is no number: no limit
        most = int((group / limit).read_text())
        if most < UNLIMITED:
            yield most - int((group / usage).read_text()) + _cached(group)


def _cached(group: Path) -> int:
    """Bytes of files that the system keeps in memory, mapped ones too, as long as it has room."""
    cached = 0
    with suppress(OSError, ValueError):
        for line in (group / "memory.stat").read_text().splitlines():
            name, _, number = line.partition(" ")
            if name in ("inactive_file", "active_file"):
                cached += int(number)
    return cached
