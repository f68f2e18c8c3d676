"""What every sampler is, and how one is made from options or from a plan's provenance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from plancc.errors import InputError
from plancc.registry import Registry
from plancc.sampling.batch import Batch, Inclusion, Population

SAMPLERS = Registry(
    "sampler",
    "plancc.samplers",
    {
        "uniform": "plancc.sampling.uniform:UniformSampler",
        "train": "plancc.sampling.train:TrainSampler",
        "neighbour": "plancc.sampling.neighbour:NeighbourSampler",
        "walk": "plancc.sampling.walk:WalkSampler",
        "cluster": "plancc.sampling.cluster:ClusterSampler",
        "edges": "plancc.sampling.edges:EdgeSampler",
    },
)

SHOWN, FITTED, HELD_OUT = 0, 1, 2
"""Streams of batches: those that runtime and inspect see, those that a model is made of, and those
that tell the compiler when it has seen enough. No batch is in two of them."""
DEFAULT_SHARE = 0.06
"""Of the vertices in a batch, unless the user says otherwise (paper 000: 20,000 of 334,863)."""


@dataclass(frozen=True)
class Sampler(ABC):
    """How batches are drawn; the fields are the options.

    Attributes
    ----------
    name : str
        In the registry.
    needs : tuple of str
        What a `Population` must have for `batch`: of "pattern", "train_mask", "clusters".
    of_training : bool
        Whether batches are drawn from the training vertices, where a mask says which they are.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    of_training: ClassVar[bool] = False

    @property
    def num_blocks(self) -> int:
        """Blocks of a batch: 1, or as many as the model must have layers."""
        return 1

    @abstractmethod
    def check(self, population: Population) -> None:
        """Raise InputError if the options or the population do not allow a batch."""
        for need in self.needs:
            if getattr(population, "indptr" if need == "pattern" else need) is None:
                raise InputError(f"sampler '{self.name}' needs {need}, which {_MISSING[need]}")

    def check_layers(self, num_layers: int) -> None:
        """Raise InputError unless batches have one block for all layers, or one for each."""
        if self.num_blocks not in (1, num_layers):
            raise InputError(
                f"sampler '{self.name}' has {self.num_blocks} blocks, the model {num_layers} "
                f"layer{'s' * (num_layers != 1)}"
            )

    @abstractmethod
    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        """Batch `number` of a checked population.

        Parameters
        ----------
        population : Population
        seed, number : int
            From 0.
        stream : int
            `SHOWN`, `FITTED` or `HELD_OUT`.
        """

    def inclusion(self, population: Population, most_pins: int) -> Inclusion | None:
        """Exact probabilities for nets of up to `most_pins` pins; None where they are not known."""
        return None

    def batches_per_epoch(self, population: Population) -> int:
        """Batches that together ask for as many outputs as there are."""
        return 1

    def __str__(self) -> str:
        """For a provenance: the name, and every option as ``name=value``."""
        options = [f"{f.name}={_in_words(getattr(self, f.name))}" for f in fields(self)]
        return " ".join([self.name, *options])


def check_batch_size(batch_size: int, available: int, what: str = "vertices") -> None:
    """Raise InputError unless `batch_size` of `available` can be drawn."""
    if batch_size < 1:
        raise InputError(f"batch size {batch_size}: at least 1 is needed")
    if batch_size > available:
        raise InputError(f"batch size {batch_size}: there are only {available} {what}")


def make_sampler(
    name: str,
    num_vertices: int,
    num_training: int | None = None,
    *,
    batch_size: int | None = None,
    fanouts: tuple[int, ...] | None = None,
    walk_length: int | None = None,
    keep: float | None = None,
) -> Sampler:
    """A sampler from options; those that are None get their defaults.

    The default batch size is `DEFAULT_SHARE` of the vertices, or of the training vertices where
    there is a training mask and the sampler draws from them.

    Raises
    ------
    InputError
        An unknown sampler, an option that it does not have, or lacks; a value of another type.
    """
    cls = SAMPLERS[name]
    given = {
        "batch_size": batch_size,
        "fanouts": fanouts,
        "walk_length": walk_length,
        "keep": keep,
    }
    options = {key: _CHECKS[key](key, value) for key, value in given.items() if value is not None}
    known = [field.name for field in fields(cls)]
    for key in options:
        if key not in known:
            has = ", ".join(f"`{each}`" for each in known)
            raise InputError(f"sampler '{name}' has no `{key}`: it has {has}")
    if "batch_size" in known and batch_size is None:
        if cls.of_training and num_training is not None:
            num_vertices = num_training
        options["batch_size"] = max(1, round(DEFAULT_SHARE * num_vertices))
    for field in fields(cls):
        if field.name not in options and field.default is field.default_factory:
            raise InputError(f"sampler '{name}' needs `{field.name}`")
    sampler: Sampler = cls(**options)
    return sampler


def chosen_sampler(
    recorded: str,
    num_vertices: int,
    num_training: int | None = None,
    name: str | None = None,
    **options: Any,
) -> Sampler:
    """The sampler that a user asks for, with what a plan was compiled for as the default.

    Parameters
    ----------
    recorded : str
        ``str(sampler)`` from the provenance of a plan, or anything else.
    num_vertices : int
    num_training : int, optional
        Training vertices; None: there is no mask.
    name : str, optional
        None: the recorded one, or "uniform".
    **options
        Those of `make_sampler`; None where not given. Recorded ones fill in for the same sampler.

    Raises
    ------
    InputError
        As `make_sampler`.
    """
    try:
        known: Sampler | None = parse_sampler(recorded)
    except InputError:
        known = None
    given = {key: value for key, value in options.items() if value is not None}
    if known is not None and name in (None, known.name):
        kept = {f.name: getattr(known, f.name) for f in fields(known)}
        return make_sampler(known.name, num_vertices, num_training, **(kept | given))
    return make_sampler(name or "uniform", num_vertices, num_training, **given)


def parse_sampler(text: str) -> Sampler:
    """The inverse of ``str(sampler)``.

    Raises
    ------
    InputError
        Another text.
    """
    name, *words = text.split() or [""]
    options: dict[str, Any] = {}
    try:
        for word in words:
            key, _, value = word.partition("=")
            if key not in _PARSERS:
                raise ValueError(key)
            options[key] = _PARSERS[key](value)
    except ValueError:
        raise InputError(f"'{text}' is no sampler") from None
    return make_sampler(name, 1, **options)


def _whole(option: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"`{option}` {value!r}: a whole number is needed")
    return int(value)


def _several(option: str, values: Any) -> tuple[int, ...]:
    if not isinstance(values, tuple | list | np.ndarray):
        raise InputError(f"`{option}` {values!r}: whole numbers are needed")
    return tuple(_whole(option, value) for value in values)


def _number(option: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"`{option}` {value!r}: a number is needed")
    return float(value)


def _in_words(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


_MISSING = {
    "pattern": "is not there",
    "train_mask": "the vertex data do not have (`data`)",
    "clusters": "the vertex data do not have (`data`, or `clusters` makes some)",
}
_CHECKS: dict[str, Any] = {
    "batch_size": _whole,
    "fanouts": _several,
    "walk_length": _whole,
    "keep": _number,
}
_PARSERS: dict[str, Any] = {
    "batch_size": int,
    "fanouts": lambda text: tuple(map(int, text.split(","))),
    "walk_length": int,
    "keep": float,
}
