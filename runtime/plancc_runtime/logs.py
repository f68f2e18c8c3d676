"""A run's log: one JSON object per epoch, written after the epoch."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from os import fspath
from pathlib import Path

from plancc.errors import output_error
from plancc.files import StrPath, atomic_write, open_file
from plancc_runtime.results import Epoch

FORMER = ".1"
"""Suffix of the name under which a run keeps an earlier log."""


class LogWriter:
    """Writer of a log with a JSON line for each epoch; made by rank 0 only.

    Every line has the fields of `Epoch`, and the strings in `known` that are not empty. A run that
    resumes at epoch `first` keeps the lines of earlier epochs; a new run renames an existing log.
    """

    def __init__(
        self, path: StrPath, first: int = 0, known: Mapping[str, str] | None = None
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
        """Append the line of an epoch, and flush it, so that others can read it at once."""
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
    """Return the log's complete lines of epochs before `first`."""
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
