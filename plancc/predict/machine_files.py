"""Machines from TOML files: shipped with plancc, and the user's own."""

from __future__ import annotations

import os
from importlib.resources import files
from os import PathLike, fspath

from plancc.errors import InputError
from plancc.files import read_toml
from plancc.predict.machine import Machine
from plancc.text import shown

SHIPPED = files("plancc.predict").joinpath("machines")
"""Folder of the machines that come with plancc."""
DEFAULT_MACHINE = "cpu-cluster"
"""Name of the machine where nothing gives another."""


def find_machine(name: str | PathLike[str]) -> Machine:
    """A machine that comes with plancc, by its name, or one from a file.

    Parameters:
        name: One of `shipped_machines`, or the path of a file; see `read_machine`.

    Raises:
        InputError: If there is no such machine; errors of `read_machine`.
    """
    text, shipped = fspath(name), shipped_machines()
    if text in shipped:
        return read_machine(str(SHIPPED.joinpath(f"{text}.toml")))
    if not os.path.exists(text) and not {os.sep, "."} & set(text):
        raise InputError(
            f"machine '{text}': no such file, and no machine of plancc: {', '.join(shipped)}"
        )
    return read_machine(text)


def shipped_machines() -> list[str]:
    """Names of the machines that come with plancc."""
    names = (each.name for each in SHIPPED.iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def read_machine(path: str | PathLike[str]) -> Machine:
    """A machine from a TOML file.

    Parameters:
        path: Keys at top level: ``latency`` (seconds), ``bandwidth`` (bytes per second) and
            ``multiply_adds`` (per second), which every file has, ``name``, ``source`` and ``speed``
            (a list); tables ``node``, ``compute``, ``spmm``, ``overlap`` and ``collective`` with
            the attributes of `Node`, `Compute`, `SparseRates`, `Overlap` and `CollectiveShapes`.
            Any other missing key keeps its default; the name is that of the file.

    Raises:
        InputError: If the file cannot be read or is not TOML, lacks a key that it needs, has an
            unknown one, or a value that is not allowed.
    """
    values = read_toml(path)
    stem = os.path.basename(fspath(path)).removesuffix(".toml")
    values.setdefault("name", shown(stem))
    try:
        return Machine.from_dict(values)
    except InputError as error:
        raise InputError(f"{fspath(path)}: {error}") from None
