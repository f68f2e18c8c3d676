"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from plancc.errors import InputError

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")


def reading(function: Callable[..., Any]) -> Callable[..., Any]:
    """How a graph file is read."""
    for option in (
        click.option("--transpose", is_flag=True, help="Read entry (i, j) as (j, i)."),
        click.option(
            "--symmetrize", is_flag=True, help="Read every entry (i, j) as (j, i) too (undirected)."
        ),
        click.option("--pattern", is_flag=True, help="Ignore the values: every entry is a one."),
        click.option(
            "--format",
            metavar="NAME",
            help="Format of the graph whatever its extension: mtx, metis, edgelist or npz.",
        ),
    ):
        function = option(function)
    return function


def dims_option(help_text: str) -> Decorator:
    """``--dims 602,128,41``: widths of H^0..H^L."""
    return click.option("--dims", metavar="D0,D1,...", callback=_parse_dims, help=help_text)


def _parse_dims(
    context: click.Context, parameter: click.Parameter, text: str | None
) -> list[int] | None:
    if text is None:
        return None
    try:
        dims = [int(word) for word in text.split(",")]
    except ValueError:
        dims = []
    if len(dims) < 2 or min(dims) < 1:
        raise InputError(
            f"--dims '{text}': give at least two positive widths, such as 602,128,41 for an input "
            "of 602 columns and layers of 128 and 41"
        )
    return dims
