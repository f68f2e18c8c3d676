"""Functions on nested lists, tuples, dicts and dataclasses, such as arguments of a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from itertools import count
from typing import Any, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
Path = tuple[Any, ...]
"""Path from a value to an object inside it: keys, places and names of attributes."""

SINGLE = (Tensor, int, float, str, type(None), slice, torch.dtype, torch.device)
"""Classes of objects that contain no others; they are tested first for speed."""


def _parts(value: Any) -> list[tuple[Any, Any]] | None:
    """Return pairs (key, item) of a list, tuple, dict or dataclass; None for other values."""
    if isinstance(value, SINGLE):
        return None
    if isinstance(value, list | tuple):
        return [*zip(getattr(value, "_fields", count()), value, strict=False)]
    if isinstance(value, (dict, Mapping)):  # dict is tested first for speed
        return [*value.items()]
    if is_dataclass(value) and not isinstance(value, type):
        return [(each.name, getattr(value, each.name, None)) for each in fields(value)]
    return None


def leaves_of(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the objects inside nested lists, tuples, dicts and dataclasses, with their paths."""
    parts = _parts(value)
    if parts is None:
        yield path, value
    for key, each in parts or ():
        yield from leaves_of(each, (*path, key))


def all_in(value: Any, kind: type[T] | tuple[type[T], ...]) -> list[T]:
    """Return the objects of these classes inside nested lists, tuples, dicts and dataclasses."""
    if isinstance(value, kind):
        return [value]
    if isinstance(value, SINGLE):
        return []
    parts = value if type(value) in (list, tuple) else [each for _, each in _parts(value) or ()]
    return [found for each in parts for found in all_in(each, kind)]


def changed(value: Any, kind: type[T], change: Callable[[T], Any]) -> Any:
    """Return the value, or a copy in which `change` replaces every object of class `kind`."""
    if isinstance(value, kind):
        return change(value)
    parts = _parts(value) or []
    made = {key: changed(each, kind, change) for key, each in parts}
    if all(made[key] is each for key, each in parts):
        return value
    if isinstance(value, Mapping):
        return made
    if isinstance(value, list | tuple):
        made_of, new = type(value), [*made.values()]
        return made_of(*new) if hasattr(value, "_fields") else made_of(new)
    return replace(value, **made)
