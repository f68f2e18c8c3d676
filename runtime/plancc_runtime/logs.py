"""A run's log: one JSON object per epoch, written after the epoch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from os import PathLike, fspath
from pathlib import Path

from plancc.errors import output_error
from plancc.files import atomic_write, open_file
from plancc_runtime.results import Epoch

FORMER = ".1"
"""Suffix of the name under which a run keeps an earlier log."""


class LogWriter:
    """Writes one line per epoch: the fields of `Epoch` as JSON, and the plan. One rank writes.

    Parameters:
        path: Lines of epochs before `first` are kept, all other lines are replaced. The log of
            another run is kept beside it, with `.1` after its name.
        first: The next epoch: 0, or the epoch at which training resumes.
        known: Texts that every line has too: "plan", the content hash, and "drawn_by", who draws
            mini-batches. Empty texts are left out.

    Raises:
        OutputError: If the file cannot be written, now or later.
    """

    def __init__(
        self, path: str | PathLike[str], first: int = 0, known: Mapping[str, str] | None = None
    ) -> None:
        self._name = fspath(path)
        self._known = {name: text for name, text in (known or {}).items() if text}
        kept = _lines_before(first, Path(path)) if first else []
        former = [] if first or not Path(path).exists() else [self._name + FORMER]
        with atomic_write(path, former) as temporary:
            temporary.write_text("".join(kept), encoding="utf-8")
        with self._writing():
            self._stream = open(path, "a", encoding="utf-8")  # noqa: SIM115

    def write(self, epoch: Epoch) -> None:
        """Append an epoch; when this returns, the line is in the file."""
        with self._writing():
            line = {"epoch": epoch.epoch, "loss": epoch.loss} | asdict(epoch) | self._known
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()

    def close(self) -> None:
        self._stream.close()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise output_error(self._name, error) from error


def _lines_before(first: int, path: Path) -> list[str]:
    """Return the complete lines of epochs before `first`."""
    if not path.exists():
        return []
    kept = []
    with open_file(path) as stream:
        text = stream.read().decode(errors="replace")
    for line in text.splitlines(keepends=True):
        try:
            if line.endswith("\n") and json.loads(line)["epoch"] < first:
                kept.append(line)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return kept
