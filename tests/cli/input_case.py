"""One line of a table of inputs: a file, a command, what must be said, and the right plan.

Right values are written by hand or made by code that shares nothing with the product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from cli_helpers import SLOWER, Outcome, listing, plancc
from graph_helpers import write_parquet

PLAIN = "--normalize none --no-self-loops --dtype float64 --effort fast -p 1 -o p.h5"
"""What leaves a matrix as the source gives it."""


@dataclass(frozen=True)
class Case:
    """What a user gives, and what is right.

    Attributes:
        name: Of the case in the list of faults, and what it is.
        files: Content by name, or ``write(path)``.
        command: The words after ``plancc``; options alone are those of a compile of the first
            file (the folder that it is in) with `PLAIN`.
        says: Parts of one line of stdout or stderr, with | between them; of every such line one.
        refused: Parts of the only line on stderr, with | between them: the command must fail.
        silent: Words that no line has.
        entries: The nonzeros of the plan by ids of the source, row then column.
        rows: Arrays of the plan's vertex data, rows by ascending id.
        check: ``check(folder)``: what else must hold.
    """

    name: str
    files: Mapping[str, str | bytes | Callable[[Path], object]]
    command: str = ""
    says: tuple[str, ...] = ()
    refused: str = ""
    silent: tuple[str, ...] = ()
    entries: Mapping[tuple[Any, Any], float] | None = None
    rows: Mapping[str, Any] = field(default_factory=dict)
    check: Callable[[Path], None] | None = None

    def __str__(self) -> str:
        return self.name


def parquet(**columns: Any) -> Callable[[Path], object]:
    return lambda path: write_parquet(path, columns)


def run_case(case: Case, folder: Path, monkeypatch: Any) -> Outcome:
    """Run the command in `folder` and hold all that the case says."""
    for name, content in case.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(path)
        else:
            path.write_bytes(content.encode() if isinstance(content, str) else content)
    monkeypatch.chdir(folder)
    before = listing(folder)
    command = case.command
    if not command or command.startswith("--"):
        command = f"compile {next(iter(case.files)).partition('/')[0]} PLAIN {command}"
    done = plancc(*command.replace("PLAIN", PLAIN).split())
    if case.refused:
        assert done.code in (1, 2), (done.code, done.out, done.err)
        for words in case.refused.split("|"):
            assert words in done.error, (words, done.error)
        assert listing(folder) == before
        return done
    assert done.code == 0, done.err
    lines = [each for each in (done.out + done.err).splitlines() if SLOWER not in each]
    for words in case.says:
        assert any(all(word in line for word in words.split("|")) for line in lines), (words, lines)
    for word in case.silent:
        assert not any(word in line for line in lines), (word, lines)
    if case.entries is not None:
        assert plan_entries(folder / "p.h5") == case.entries
    for name, right in case.rows.items():
        np.testing.assert_array_equal(plan_rows(folder / "p.h5", name), right)
    if case.check is not None:
        case.check(folder)
    return done


def plan_entries(path: Path) -> dict[tuple[Any, Any], float]:
    """Nonzeros of a plan of one part, by the source's ids (vertex numbers where it keeps none)."""
    with h5py.File(path, "r") as file:
        rows = file["rows"]
        ids = rows["original_id" if "original_id" in rows else "global_id"][:].tolist()
        pointer, column = file["matrix/row_ptr"][:], file["matrix/column"][:]
        value = file["matrix/value"][:]
    row = np.repeat(np.arange(len(ids)), np.diff(pointer))
    return {
        (ids[i], ids[j]): v
        for i, j, v in zip(row.tolist(), column.tolist(), value.tolist(), strict=True)
    }


def plan_rows(path: Path, name: str) -> np.ndarray:
    """An array of the plan's vertex data, rows by ascending vertex number."""
    with h5py.File(path, "r") as file:
        return file[f"vertex_data/{name}"][:][np.argsort(file["rows/global_id"][:])]
