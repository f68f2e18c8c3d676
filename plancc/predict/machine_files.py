"""Functions that read machines from TOML files: from plancc's own files, or from a user's file."""

from __future__ import annotations

import os
from importlib.resources import files
from os import fspath

from plancc.errors import InputError
from plancc.files import StrPath, read_toml
from plancc.predict.machine import Machine
from plancc.text import shown

SHIPPED = files("plancc.predict").joinpath("machines")
"""Folder of the machines that come with plancc."""
DEFAULT_MACHINE = "cpu-cluster"
"""Name of the default machine."""


def find_machine(name: StrPath) -> Machine:
    """Return the machine of this name in `shipped_machines`, or read a file (`read_machine`).

    Raises InputError if there is no such machine.
    """
    text, shipped = fspath(name), shipped_machines()
    if text in shipped:
        return read_machine(str(SHIPPED.joinpath(f"{text}.toml")))
    if not os.path.exists(text) and not {os.sep, "."} & set(text):
        raise InputError(
            f"machine '{text}': no such file; give a path, or choose from {', '.join(shipped)}"
        )
    return read_machine(text)


def shipped_machines() -> list[str]:
    """Return the names of the machines that come with plancc."""
    names = (each.name for each in SHIPPED.iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def read_machine(path: StrPath) -> Machine:
    """Return a machine from a TOML file; InputError if the file breaks a rule.

    A file needs the keys ``latency`` (seconds), ``bandwidth`` (bytes per second) and
    ``multiply_adds`` (per second). It may have ``name`` (default: the file's name), ``source``,
    ``speed`` (a list), and the tables ``node``, ``compute``, ``spmm``, ``overlap`` and
    ``collective`` with the attributes of `Node`, `Compute`, `SparseRates`, `Overlap` and
    `CollectiveShapes`.
    """
    values = read_toml(path)
    stem = os.path.basename(fspath(path)).removesuffix(".toml")
    values.setdefault("name", shown(stem))
    try:
        return Machine.from_dict(values)
    except InputError as error:
        raise InputError(f"{fspath(path)}: {error}") from None
