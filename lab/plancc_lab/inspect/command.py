"""`plancc inspect` of plancc_cli, extended by a lower bound on the number of rows sent."""

from __future__ import annotations

from typing import Any

import click

from plancc_cli import inspect as core
from plancc_cli import options

SECTIONS = core.SECTIONS | {core.FIGURES: (*core.SECTIONS[core.FIGURES], "certificate")}


@click.command(cls=options.Sections, sections=SECTIONS, help=core.command.help)
@click.argument("plan", type=click.Path())
@options.with_options(each for each in core.command.params if isinstance(each, click.Option))
@click.option(
    "--certificate",
    is_flag=True,
    help="Show a lower bound on the rows moved by any row plan as balanced as this one.",
)
def command(certificate: bool, **given: Any) -> None:
    from plancc_lab.inspect.certificate import with_certificate

    assert core.command.callback is not None
    core.command.callback(**given, add=with_certificate if certificate else None)
