"""Plans in pieces, as one file."""

from __future__ import annotations

import os
from os import PathLike
from typing import Any

from plancc.errors import InputError
from plancc.plan.format import ATTRIBUTE_GROUPS
from plancc.plan.reader import PlanFile
from plancc.plan.writer import write_file


def join(path: str | PathLike[str], output: str | PathLike[str], *, compress: bool = False) -> str:
    """Write a plan that is in pieces as one file; the memory is that of a few parts.

    Parameters:
        compress: As of `plancc.plan.plan.Plan.save`.

    Returns:
        The content hash, which stays.

    Raises:
        InputError: If there is no such file, or it is in one file already.
        PlanError: If it is damaged, or a piece is missing or of another plan.
        OutputError: If the new one cannot be written.
    """
    if os.path.realpath(path) == os.path.realpath(output):
        raise InputError(
            f"{os.fspath(output)}: is the plan that is read; give the file another name"
        )
    with PlanFile(path) as file:
        if file.pieces is None:
            raise InputError(f"{file.path}: is in one file already")
        folder = os.path.dirname(os.path.realpath(file.pieces.path(0)))
        if os.path.realpath(os.path.dirname(os.path.abspath(output))) == folder:
            raise InputError(f"{os.fspath(output)}: is among the pieces that are read")
        file.check_content()
        arrays: dict[str, Any] = {name: file.node(name) for name in file.names()}
        attributes = {group: file.attributes(group) for group in ATTRIBUTE_GROUPS}
        known = file.digests(), file.content_sha256
        return write_file(output, file.header, arrays, attributes, compress=compress, known=known)
