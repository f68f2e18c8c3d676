"""HTML of a plan in a notebook: a sentence, a few figures, and a small picture.

Text of the plan is escaped.
"""

from __future__ import annotations

import io
from base64 import b64encode
from collections.abc import Mapping
from html import escape
from importlib.util import find_spec
from typing import Any

import numpy as np

from plancc.plan.metrics import Metrics
from plancc.plan.plan import Plan
from plancc.plan.values import Exchanges, Header
from plancc.text import printable
from plancc_lab.report.pictures import ramp, send_tables, volume_density

PIXELS = 128
"""Largest width and height of the picture in pixels."""
SIDE = "9.5em"
"""Width and height of the picture on the page."""
KEY_FIGURES = (
    ("volume", "rows moved per exchange"),
    ("max_volume", "rows of the busiest part"),
    ("messages", "messages per exchange"),
    ("nonzero_imbalance", "imbalance of nonzeros"),
    ("row_imbalance", "imbalance of rows"),
)
"""The most important metrics, with a phrase for each."""
NAME = "text-align:left;font-weight:normal;padding:0 .8em 0 0"
BESIDE = "text-align:left;opacity:.7;padding:0 0 0 .6em"
"""Style of a figure's name, and of the phrase beside its value."""


def what_it_is(header: Header, provenance: Mapping[str, Any]) -> str:
    """Return a sentence about a plan's matrix, its parts, and the model that made the parts."""
    source = printable(provenance.get("source_name") or "a graph")
    model = printable(provenance.get("model") or "")
    how = f", assigned by model {model}" if model else ""
    if header.grid is not None:
        return (
            f"The {header.num_vertices:,} rows and {header.num_nonzeros:,} nonzeros of {source} on "
            f"a process grid of {header.num_ranks:,} ranks ({header.grid}){how}."
        )
    share = "rows" if header.layout == "row" else "rows and nonzeros"
    parts = f"{header.num_parts:,} part{'s' * (header.num_parts != 1)}"
    return (
        f"The {header.num_vertices:,} rows and {header.num_nonzeros:,} nonzeros of {source} in "
        f"{parts}: every part owns some of the {share}{how}."
    )


def key_figures(metrics: Metrics, random: Metrics | None) -> list[tuple[str, str, str]]:
    """Return the name, the value and a comparison of every key figure.

    The comparison is the ratio to a random partition's value or, for imbalances, that value itself.
    """
    found = []
    for name, words in KEY_FIGURES:
        value, base = getattr(metrics, name), 0 if random is None else getattr(random, name)
        imbalance = isinstance(value, float)
        beside = f"random: {base:.1%}" if imbalance else f"{value / (base or 1):.0%} of random"
        shown = f"{value:.1%}" if imbalance else f"{value:,}"
        known = random is not None and (base or imbalance)
        found.append((words, shown, beside if known else ""))
    return found


def as_html(plan: Plan) -> str:
    """Return the HTML of a plan that a notebook shows: a sentence, key figures and a picture."""
    rows = "".join(
        f'<tr><th scope="row" style="{NAME}">{escape(name)}</th>'
        f'<td style="text-align:right"><b>{escape(value)}</b></td>'
        f'<td style="{BESIDE}">{escape(beside)}</td></tr>'
        for name, value, beside in key_figures(plan.metrics(), plan.baseline)
    )
    picture = "" if find_spec("matplotlib") is None else _picture(plan.num_parts, plan.exchanges)
    return (
        '<div style="display:flex;flex-wrap:wrap;gap:1.5em;align-items:flex-start">'
        f'<div style="flex:1 1 20em;max-width:34em"><p style="margin:.2em 0 .6em">'
        f"<b>plancc plan.</b> {escape(what_it_is(plan.header, plan.provenance))}</p>"
        f'<table style="border-collapse:collapse;margin:0"><tbody>{rows}</tbody></table></div>'
        f"{picture}</div>"
    )


def _picture(num_parts: int, exchanges: Exchanges) -> str:
    """Return HTML with a picture of the rows that parts send each other, on a logarithmic scale."""
    from matplotlib.image import imsave

    density = volume_density(num_parts, send_tables(exchanges), PIXELS)
    caption = "rows that parts (down) send to parts (across)"
    if density.per_pixel > 1:
        caption += f", {density.per_pixel} parts a pixel"
    with io.BytesIO() as file:
        levels = np.ma.log(np.ma.masked_equal(density.counts, 0))
        imsave(file, levels, vmin=0, cmap=ramp(), format="png")
        address = b64encode(file.getvalue()).decode()
    return (
        f'<figure style="margin:0;flex:none;width:{SIDE}">'
        f'<img src="data:image/png;base64,{address}" alt="{escape(caption)}" style="width:{SIDE};'
        f"height:{SIDE};image-rendering:pixelated;border:1px solid #8886;box-sizing:border-box"
        f'"><figcaption style="font-size:80%;opacity:.75">{escape(caption)}</figcaption></figure>'
    )
