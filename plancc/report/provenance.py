"""Decode the provenance of a plan; unreadable values are ignored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from plancc.errors import InputError
from plancc.predict.machine import Machine

TRIED_FIGURES = ("seconds", "value", "volume", "overload", "best")
"""Figures that a step of `tried` may have."""
CANDIDATE_FIGURES = (
    *("volume", "messages", "max_volume", "nonzero_imbalance", "row_imbalance"),
    *("epoch_seconds", "memory", "seconds", "chosen"),
)
"""Figures that a candidate of model auto may have."""


def recorded_machine(provenance: Mapping[str, Any]) -> Machine | None:
    """Return the machine that a plan was compiled or refined for; None if missing or unreadable."""
    value = provenance.get("machine", "")
    text = json.dumps(value) if isinstance(value, dict) else str(value)
    try:
        return Machine.from_json(text)
    except InputError:
        return None


def recorded_dims(provenance: Mapping[str, Any]) -> list[int] | None:
    """Return the widths d_0..d_L that a plan was compiled for; None if missing or unreadable."""
    try:
        dims = [int(word) for word in str(provenance.get("dims", "")).split(",")]
    except ValueError:
        return None
    return dims if len(dims) > 1 and min(dims) > 0 else None


def decoded(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan's provenance with its JSON strings parsed; other strings stay strings."""
    machine = recorded_machine(provenance)
    values = {
        "tried": read_tried(provenance),
        "candidates": read_candidates(provenance),
        "machine": None if machine is None else machine.as_dict(),
    }
    return dict(provenance) | {name: found for name, found in values.items() if found}


def read_candidates(provenance: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the models that `plancc.owners.choice` compared; [] if they are not recorded.

    Every dict has a model's name, objective, reason of failure (or ""), figures, and whether the
    model was chosen.
    """
    return _read_list(provenance, "candidates", ("model", "objective", "failed"), CANDIDATE_FIGURES)


def read_tried(provenance: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the steps of the search, in order; [] if they are not recorded.

    Every dict has the attributes of `plancc.search.record.Trial`; older plans lack ``overload``.
    """
    return _read_list(provenance, "tried", ("step",), TRIED_FIGURES)


def _read_list(
    provenance: Mapping[str, Any], name: str, texts: Sequence[str], figures: Sequence[str]
) -> list[dict[str, Any]]:
    """Decode a provenance entry that is a JSON list of dicts; return [] for any other entry.

    Names in `texts` must have strings as values; names in `figures`, finite numbers or None.
    """
    try:
        found = json.loads(provenance.get(name, ""))
    except (TypeError, ValueError, RecursionError):
        return []
    well = isinstance(found, list) and all(
        isinstance(each, dict)
        and all(isinstance(each.get(text), str) for text in texts)
        and all(_is_figure(each.get(figure)) for figure in figures)
        for each in found
    )
    return found if well else []


def reached(tried: Sequence[Mapping[str, Any]]) -> int | float | None:
    """Return the objective's value for the best step of a search, which is the plan's value too."""
    return next((each.get("value") for each in reversed(tried) if each.get("best")), None)


def _is_figure(value: Any) -> bool:
    """Return whether the value is a finite number, True, False or None."""
    return value is None or (isinstance(value, int | float) and abs(value) < np.inf)
