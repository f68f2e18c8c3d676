"""A fixture that keeps plan files open: to open and check one is most of a short command or run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from plancc.plan.reader import PlanFile


@pytest.fixture(scope="module")
def opened_once() -> Iterator[None]:
    """Commands and ranks of this process share a plan file that is open and has not changed.

    For modules about figures. Change a plan in a copy at a path without a file.
    """
    from plancc.plan.reader import PlanFile as original

    idle: dict[tuple[object, ...], list[PlanFile]] = {}

    def replace(old: object, new: object) -> None:
        for module in [*sys.modules.values()]:
            if isinstance(module, ModuleType) and vars(module).get("PlanFile") is old:
                module.PlanFile = new  # type: ignore[attr-defined]

    with ExitStack() as stack:

        class Pooled:
            """A plan file that others may have when it is closed."""

            def __init__(self, path: str | Path) -> None:
                found = os.stat(path) if os.path.exists(path) else None
                kept = found and (found.st_ino, found.st_size, found.st_mtime_ns)
                self._idle = idle.setdefault((os.path.abspath(path), kept), [])
                try:
                    self._file = self._idle.pop()
                except IndexError:
                    self._file = stack.enter_context(original(path))

            def __getattr__(self, name: str) -> object:
                return getattr(self._file, name)

            def __enter__(self) -> Pooled:
                return self

            def __exit__(self, *error: object) -> None:
                self.close()

            def close(self) -> None:
                self._idle.append(self._file)

        replace(original, Pooled)
        yield
        replace(Pooled, original)
