"""Machines from TOML files: those that come with plancc, and the user's own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields
from importlib.resources import files
from os import PathLike, fspath
from typing import Any

from plancc.errors import InputError
from plancc.files import read_toml
from plancc.predict.machine import TABLES, Machine, SparseRates

SHIPPED = files("plancc.predict").joinpath("machines")
"""Folder of the machines that come with plancc."""


def find_machine(name: str | PathLike[str]) -> Machine:
    """A machine that comes with plancc, by its name, or one from a file.

    Parameters
    ----------
    name : str or path
        One of `shipped_machines`, or the path of a file; see `read_machine`.

    Raises
    ------
    InputError
        If there is no such machine; errors of `read_machine`.
    """
    text, shipped = fspath(name), shipped_machines()
    if text in shipped:
        return read_machine(str(SHIPPED.joinpath(f"{text}.toml")))
    if not os.path.exists(text) and not {os.sep, "."} & set(text):
        raise InputError(
            f"machine '{text}': no such file, and none of the machines that come with plancc: "
            f"{', '.join(shipped)}"
        )
    return read_machine(text)


def shipped_machines() -> list[str]:
    """Names of the machines that come with plancc."""
    names = (each.name for each in SHIPPED.iterdir())
    return sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml"))


def read_machine(path: str | PathLike[str]) -> Machine:
    """A machine from a TOML file.

    Parameters
    ----------
    path : path of the file
        Keys at top level: ``latency`` (seconds), ``bandwidth`` (bytes per second) and
        ``multiply_adds`` (per second), ``name`` and ``source``; tables ``node``, ``compute``,
        ``spmm``, ``overlap`` and ``collective`` with the attributes of `Node`, `Compute`,
        `SparseRates`, `Overlap` and `CollectiveShapes`. A missing key keeps its default.

    Raises
    ------
    InputError
        If the file cannot be read or is not TOML, has an unknown key, or a value that is not
        allowed.
    """
    values = read_toml(path)
    try:
        _check_keys("", values, Machine)
        for key, kind in TABLES.items():
            if key not in values:
                continue
            if not isinstance(values[key], dict):
                raise InputError(f"machine: '{key}' is {values[key]!r}, not a table")
            _check_keys(f"{key}.", values[key], kind)
            values[key] = kind(**values[key])
        return Machine(**values)
    except InputError as error:
        raise InputError(f"{fspath(path)}: {error}") from None


def _check_keys(prefix: str, values: Mapping[str, Any], kind: type) -> None:
    known = [each.name for each in fields(kind)]
    for key in values:
        if key not in known:
            raise InputError(
                f"unknown key {prefix + key!r} = {values[key]!r}: choose from {', '.join(known)}"
            )
    if kind is SparseRates:
        for key in known:
            if key not in values and key != "rows":
                raise InputError(f"{prefix}{key} is missing")
