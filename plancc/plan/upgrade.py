"""Plan files of older versions, rewritten in the newest one."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike

from plancc.errors import InputError
from plancc.plan.format import FORMAT_VERSION, MAJOR, MINOR
from plancc.plan.reader import PlanFile


def upgrade(
    path: str | PathLike[str], output: str | PathLike[str], *, compress: bool = False
) -> str:
    """Write a plan file of the newest format version with the content of an older one.

    Parameters
    ----------
    path, output : paths of the old plan and of the new one, which may be the same
    compress : bool
        As of `Plan.save`.

    Returns
    -------
    str
        The new content hash. Its provenance has the old one as ``upgraded_from``.

    Raises
    ------
    InputError
        If there is no such file, or it is of the newest version already.
    PlanError
        If it is damaged.
    OutputError
        If the new one cannot be written.
    """
    with PlanFile(path) as file:
        if file.minor >= MINOR:
            raise InputError(
                f"{file.path}: is of format {MAJOR}.{file.minor} already; "
                f"the newest that this plancc writes is {FORMAT_VERSION}"
            )
        plan, former = file.read_plan(), file.content_sha256
    provenance = plan.provenance | {"upgraded_from": former}
    return replace(plan, provenance=provenance).save(output, compress=compress)
