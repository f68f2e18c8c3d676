"""A file of results that is written after every step, so that interrupted work can be resumed."""

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
    """A file with the results of steps, one JSON object on a line for each result.

    Attributes:
        path: The file; it need not exist, but its folder must.
        sources: String written with every result; results with another string are ignored.
        any_sources: If true, the last result of every step is used, whatever its string.
    """

    path: Path
    sources: str
    any_sources: bool = False
    _lines: dict[tuple[str | int, ...], int] = field(default_factory=dict, init=False)

    def step(self, key: Sequence[str | int], work: Callable[[], Any]) -> Any:
        """Return the kept result of a step; if there is none, do `work` and keep its result.

        The result must be writable as JSON.
        """
        known = self._known
        if tuple(key) not in known:
            self.put(key, work())
        return known[tuple(key)]

    def put(self, key: Sequence[str | int], result: Any) -> None:
        """Keep the result of a step; it replaces an earlier result of the step."""
        line = json.dumps({"sources": self.sources, "key": list(key), "result": result})
        known = self._known
        self._append(line + "\n")
        known[tuple(key)] = json.loads(line)["result"]

    def _append(self, text: str) -> None:
        """Append text to the file; if this fails, no empty file is left."""
        try:
            with self.path.open("a") as file:
                file.write(text)
            note_written(str(self.path))  # the message of an interruption names the file
        except OSError as error:
            with suppress(OSError):
                if self.path.stat().st_size == 0:
                    self.path.unlink()
            raise output_error(str(self.path), error) from None

    def line(self, key: Sequence[str | int]) -> int:
        """Return the line, from 1, that the result with `key` had when the file was opened."""
        return self._lines[tuple(key)]

    def __getitem__(self, key: Sequence[str | int]) -> Any:
        """Return the kept result of a step."""
        return self._known[tuple(key)]

    def __contains__(self, key: Sequence[str | int]) -> bool:
        return tuple(key) in self._known

    @cached_property
    def _known(self) -> dict[tuple[str | int, ...], Any]:
        """The last result of every step, by key. Damaged lines of the file are ignored.

        Lines with other `sources` than this object's are ignored too, unless `any_sources` is True.
        """
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
