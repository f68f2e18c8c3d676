"""The provenance of a plan: entries that say how `compile` or `refine` has made the plan."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.graph.graph import Source
from plancc.models.weights import Balance
from plancc.options import PlanOptions, SearchOptions
from plancc.version import __version__

MAX_WORDS = 16
"""Largest number of entries of a list that the provenance writes in full."""


def now() -> str:
    """Return SOURCE_DATE_EPOCH (for reproducible plans) or the time, as 2026-01-31T12:00:00Z."""
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


def in_words(value: Any) -> str:
    """Return the value of an option as a string; for an array or a long list, return its type."""
    if isinstance(value, list | tuple) and len(value) <= MAX_WORDS:
        return ",".join(map(str, value))
    return str(value) if np.ndim(value) == 0 else f"<{type(value).__name__}>"


def graph_entries(source: Source, model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return provenance entries about the graph's source, and about the model with its options."""
    return {
        "source_name": source.name,
        "source_sha256": source.sha256,
        "source_format": source.format,
        "source_reading": source.reading,
        "source_weights": source.weights_in_words,
        **({"source_columns": source.columns} if source.columns else {}),
        **({"source_counts": source.counts} if source.counts else {}),
        "model": model,
        **{f"model_{name}": in_words(value) for name, value in options.items()},
    }


def plan_entries(wishes: PlanOptions, seed: int, predicted: int) -> dict[str, Any]:
    """Return the entries of the provenance about memory and about link prediction, by name."""

    def named(given: Any) -> str:
        is_path = isinstance(given, str | os.PathLike)
        return os.fspath(given) if is_path else f"<{type(given).__name__}>"

    found: dict[str, Any] = {} if wishes.memory is None else {"memory": wishes.memory}
    found["predicted_memory"] = predicted
    if wishes.link_split is not None:
        found["link_split"] = in_words(wishes.link_split)
    elif wishes.links is not None:
        found["links"] = named(wishes.links)
    else:
        return found
    if wishes.link_times is not None:
        found["link_times"] = named(wishes.link_times)
    found["disjoint_train_ratio"] = float(wishes.disjoint_train_ratio)
    return {**found, "link_seed": seed}


def provenance(
    first: Mapping[str, Any],
    command: str,
    balance: Balance,
    reached: Iterable[float],
    options: SearchOptions,
    more: Mapping[str, Any],
    notes: Iterable[str],
) -> dict[str, Any]:
    """Return the provenance of a plan, which begins with the entries `first`.

    `reached`, float64[num_constraints], is the parts' imbalance. `more` has entries about the
    search and the predicted epoch.
    """
    return {
        **first,
        "plancc_version": __version__,
        "created": now(),
        "command": command,
        "balance": str(balance),
        "balance_imbalance": ",".join(f"{value:.6g}" for value in reached),
        "epsilon": float(options.epsilon),
        "seed": options.seed,
        **more,
        "warnings": "\n".join(notes),
    }


def empty_parts(owner: npt.NDArray[np.int32], num_parts: int) -> list[str]:
    """Return a list with one warning if some parts have no rows; otherwise an empty list."""
    empty = num_parts - np.count_nonzero(np.bincount(owner, minlength=num_parts))
    return [f"{empty} of {num_parts} parts have no rows"] if empty else []
