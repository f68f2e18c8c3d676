"""Libraries that only some formats need: imported at first use, named where missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from plancc.errors import BackendUnavailable
from plancc.text import shown


def library(module: str, where: str, install: str) -> Any:
    """The module of an optional library.

    Parameters:
        where: The file that cannot be read without it.
        install: What pip installs it by.

    Raises:
        BackendUnavailable: If it is not installed, or cannot be loaded.
    """
    try:
        return import_module(module)
    except Exception as error:  # their code runs
        name = module.partition(".")[0]
        missing = isinstance(error, ModuleNotFoundError) and error.name == name
        why = "" if missing else f" ({shown(error)})"
        raise BackendUnavailable(
            f"{where}: reading this format needs {name}{why}: pip install '{install}'"
        ) from error
