"""Results of long work, kept step by step, so that interrupted work goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from plancc.errors import output_error
from plancc.files import open_file
from plancc.processes import note_written


@dataclass(frozen=True)
class Kept:
    """The results of steps in a file, a line of JSON each.

    Attributes:
        path: Need not be there; its folder must.
        sources: What the results depend on, such as a hash of the code. Results of other sources
            stay in the file and do not count.
        any_sources: The last result of every step counts, from any sources.
    """

    path: Path
    sources: str
    any_sources: bool = False
    _lines: dict[tuple[str | int, ...], int] = field(default_factory=dict, init=False)

    def step(self, key: Sequence[str | int], work: Callable[[], Any]) -> Any:
        """The result of a step: kept, or that of `work`, which is then kept.

        Parameters:
            key: Says which step it is.
            work: Its result is one that JSON keeps.
        """
        known = self._known
        if tuple(key) not in known:
            self.put(key, work())
        return known[tuple(key)]

    def put(self, key: Sequence[str | int], result: Any) -> None:
        """Keep the result of a step in place of an earlier one."""
        line = json.dumps({"sources": self.sources, "key": list(key), "result": result})
        known = self._known
        self._append(line + "\n")
        known[tuple(key)] = json.loads(line)["result"]

    def _append(self, text: str) -> None:
        """Write at the end; where that fails, an empty file is not left."""
        try:
            with self.path.open("a") as file:
                file.write(text)
            note_written(str(self.path))  # an interruption names it
        except OSError as error:
            with suppress(OSError):
                if self.path.stat().st_size == 0:
                    self.path.unlink()
            raise output_error(str(self.path), error) from None

    def line(self, key: Sequence[str | int]) -> int:
        """Number of the line, from 1, with the result of a step that the file had at first."""
        return self._lines[tuple(key)]

    def __getitem__(self, key: Sequence[str | int]) -> Any:
        """The result of a step that is kept."""
        return self._known[tuple(key)]

    def __contains__(self, key: Sequence[str | int]) -> bool:
        return tuple(key) in self._known

    @cached_property
    def _known(self) -> dict[tuple[str | int, ...], Any]:
        """Results by key, the last of a key; lines that are cut short or not ours do not count."""
        text = ""
        if self.path.exists():
            with open_file(self.path) as stream:
                text = stream.read().decode(errors="replace")
        if text and not text.endswith("\n"):
            self._append("\n")
        found = {}
        for number, line in enumerate(text.splitlines(), 1):
            try:
                each = json.loads(line)
                key, sources, result = tuple(each["key"]), each["sources"], each["result"]
                hash(key)
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
            if self.any_sources or sources == self.sources:
                found[key], self._lines[key] = result, number
        return found
