"""A fixture that keeps plan files open: to open and check one is most of a short command or run."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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

    opened: dict[tuple[object, ...], PlanFile] = {}
    lock = threading.RLock()

    def replace(old: object, new: object) -> None:
        for module in [*sys.modules.values()]:
            if isinstance(module, ModuleType) and vars(module).get("PlanFile") is old:
                module.PlanFile = new  # type: ignore[attr-defined]

    with ExitStack() as stack:

        @contextmanager
        def shared(path: str | Path) -> Iterator[PlanFile]:
            with lock:
                found = os.stat(path) if os.path.exists(path) else None
                kept = found and (found.st_ino, found.st_size, found.st_mtime_ns)
                key = (os.path.abspath(path), kept)
                if key not in opened:
                    opened[key] = stack.enter_context(original(path))
                yield opened[key]

        replace(original, shared)
        yield
        replace(shared, original)
