"""The base of all samplers, and samplers from options or from a plan's provenance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import MISSING, Field, dataclass, replace
from typing import Any, ClassVar, Self

from plancc.errors import InputError
from plancc.fields import check_options, checked, option, options_of, parsed, unknown_option
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
    subclass_of="plancc.sampling.sampler:Sampler",
)

SHOWN, FITTED, HELD_OUT = 0, 1, 2
"""Streams of batches, which have none in common: for the runtime and inspect; to make a model of;
to tell the compiler when it has seen enough."""
DEFAULT_SHARE = 0.06
"""Share of the vertices in a batch, unless told otherwise.

Demirci et al. 2022 have 20,000 of 334,863."""


@dataclass(frozen=True)
class Sampler(ABC):
    """How batches are drawn: a frozen dataclass whose fields are the options.

    An option is declared by `plancc.fields.option` (or ``dataclasses.field`` with the metadata
    ``help``), which gives its help text and default; its type is one of `plancc.fields.KINDS`. The
    command line, `make_sampler` and the provenance of a plan take it from there. An option without
    default must be given; ``__post_init__`` may refuse values (InputError)::

        @dataclass(frozen=True)
        class HubSampler(SizedSampler):
            name: ClassVar[str] = "hubs"
            least_degree: int = option(10, "nonzeros of a row that make it a hub")

    Attributes:
        name: Name in the registry (entry points ``plancc.samplers``).
        needs: What a `Population` must have for `batch`: "pattern", "train_mask", "clusters".
        of_training: Whether batches are drawn from the training vertices, where a mask says which
            they are.
        owners_draw: What the owners of rows alone can draw, in words; "": every rank draws batches.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    of_training: ClassVar[bool] = False
    owners_draw: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def num_blocks(self) -> int:
        """Blocks of a batch: 1, or one for each layer of the model."""
        return 1

    def check(self, population: Population) -> None:
        """Raise InputError if the population does not allow a batch."""
        for need in self.needs:
            if getattr(population, "indptr" if need == "pattern" else need) is None:
                raise InputError(f"sampler '{self.name}' needs {need}, which {_MISSING[need]}")

    def fitted(self, population: Population) -> tuple[Self, str]:
        """The same with batches no larger than what they are drawn from, and a remark on that.

        The remark is empty where nothing changes. The pattern of the population is not needed.

        Raises:
            InputError: If there is nothing to draw from.
        """
        return self, ""

    def check_layers(self, num_layers: int) -> None:
        """Raise InputError unless batches have one block for all layers, or one for each."""
        if self.num_blocks not in (1, num_layers):
            raise InputError(
                f"sampler '{self.name}' has {self.num_blocks} blocks, the model {num_layers} "
                f"layer{'s' * (num_layers != 1)}"
            )

    @abstractmethod
    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        """Draw batch `number` from a checked population.

        Parameters:
            seed, number: From 0.
            stream: `SHOWN`, `FITTED` or `HELD_OUT`.
        """

    def inclusion(self, population: Population, most_pins: int) -> Inclusion | None:
        """Exact probabilities for nets of up to `most_pins` pins; None where they are not known."""
        return None

    def num_targets(self, population: Population, training: int) -> int | None:
        """Targets of every batch, where `training` vertices have one; None: it depends on it."""
        return None

    def batches_per_epoch(self, population: Population) -> int:
        """Batches that together ask for as many outputs as there are."""
        return 1

    def __str__(self) -> str:
        """For a provenance: the name, and every option as ``name=value``."""
        values = {each.name: getattr(self, each.name) for each in options_of(self)}
        words = (
            f"{name}={','.join(map(str, value)) if isinstance(value, tuple) else value}"
            for name, value in values.items()
        )
        return " ".join([self.name, *words])


@dataclass(frozen=True)
class SizedSampler(Sampler):
    """A sampler of batches of about the same size.

    Attributes:
        batch_size: Vertices that are drawn, from 1 to all that may be. `make_sampler` has a
            default, `fitted` the upper bound.
    """

    batch_size: int = option(
        help="vertices of a batch",
        otherwise=f"{DEFAULT_SHARE:.0%} of the vertices that may be drawn",
        at_least=1,
    )

    def check(self, population: Population) -> None:
        super().check(population)
        if self.batch_size > self.available(population):
            raise InputError(self._too_large(population))

    def fitted(self, population: Population) -> tuple[Self, str]:
        available = self.available(population)
        if self.batch_size <= available:
            return self, ""
        remark = f"{self._too_large(population)}, and batches are of {available}"
        return replace(self, batch_size=available), remark

    def _too_large(self, population: Population) -> str:
        what = f"{'training ' * self._draws_training(population)}vertices"
        return f"`batch_size` {self.batch_size}: there are only {self.available(population)} {what}"

    def available(self, population: Population) -> int:
        """Vertices that may be drawn."""
        if self._draws_training(population):
            return len(population.training)
        return population.num_vertices

    def batches_per_epoch(self, population: Population) -> int:
        return -(-self.available(population) // self.batch_size)

    def _draws_training(self, population: Population) -> bool:
        return self.of_training and population.train_mask is not None


def draw(
    sampler: Sampler, population: Population, seed: int, number: int, stream: int = SHOWN
) -> Batch:
    """Draw a batch as `Sampler.batch` does.

    Raises:
        InputError: If the sampler refuses, or answers with something else than such a batch.
    """
    batch = sampler.batch(population, seed, number, stream)
    if not isinstance(batch, Batch) or batch.num_blocks != sampler.num_blocks:
        raise InputError(
            f"{SAMPLERS.words_of(sampler.name)}, batch {number}: `batch()` must be a "
            f"plancc.sampling.Batch of {sampler.num_blocks} blocks"
        )
    return batch


def sampler_options() -> dict[str, Field[Any]]:
    """The options of all samplers by name, as dataclass fields."""
    return {each.name: each for cls in SAMPLERS.loaded().values() for each in options_of(cls)}


def read_option(name: str, value: Any) -> Any:
    """The value of a sampler's option that may be given as text; InputError for a wrong text."""
    known = sampler_options()
    return parsed(known[name], value) if isinstance(value, str) and name in known else value


def make_sampler(
    name: str, num_vertices: int, num_training: int | None = None, **options: Any
) -> Sampler:
    """A sampler from options; missing options, or None, get their defaults.

    The default of an option ``batch_size`` is `DEFAULT_SHARE` of the vertices, or of the training
    vertices where there is a training mask and the sampler draws from them.

    Raises:
        InputError: An unknown sampler, an option that it does not have, or lacks; a value of
            another type.
    """
    cls = SAMPLERS[name]
    known = {each.name: each for each in options_of(cls)}
    given = {key: value for key, value in options.items() if value is not None}
    unknown = unknown_option(given, cls)
    if unknown is not None:
        names = ", ".join(f"`{key}`" for key in known) or "no options"
        raise InputError(f"sampler '{name}' has no `{unknown}`: it has {names}")
    values = {key: checked(known[key], value) for key, value in given.items()}
    if "batch_size" in known and "batch_size" not in values:
        if cls.of_training and num_training is not None:
            num_vertices = num_training
        values["batch_size"] = max(1, round(DEFAULT_SHARE * num_vertices))
    for key, each in known.items():
        if key not in values and each.default is MISSING and each.default_factory is MISSING:
            raise InputError(f"sampler '{name}' needs `{key}`")
    sampler: Sampler = cls(**values)
    return sampler


def chosen_sampler(
    recorded: str,
    num_vertices: int,
    num_training: int | None = None,
    name: str | None = None,
    **options: Any,
) -> Sampler:
    """The sampler that a user asks for, with what a plan was compiled for as the default.

    Parameters:
        recorded: ``str(sampler)`` from the provenance of a plan, or anything else.
        num_training: Training vertices; None: there is no mask.
        name: None: the recorded one, or "uniform".
        **options: As in `make_sampler`. Recorded ones fill in for the same sampler.

    Raises:
        InputError: As `make_sampler`.
    """
    try:
        known: Sampler | None = parse_sampler(recorded)
    except InputError:
        known = None
    given = {key: value for key, value in options.items() if value is not None}
    if known is not None and name in (None, known.name):
        kept = {each.name: getattr(known, each.name) for each in options_of(known)}
        return make_sampler(known.name, num_vertices, num_training, **(kept | given))
    return make_sampler(name or "uniform", num_vertices, num_training, **given)


def parse_sampler(text: str) -> Sampler:
    """The inverse of ``str(sampler)``.

    Raises:
        InputError: Another text.
    """
    name, *words = text.split() or [""]
    known = {each.name: each for each in options_of(SAMPLERS[name])}
    options: dict[str, Any] = {}
    try:
        for word in words:
            key, _, value = word.partition("=")
            options[key] = parsed(known[key], value)
    except (KeyError, InputError):
        raise InputError(f"'{text}' is no sampler") from None
    return make_sampler(name, 1, **options)


_MISSING = {
    "pattern": "is not there",
    "train_mask": "the vertex data do not have (`data`)",
    "clusters": "the vertex data do not have (`data`, or `clusters` makes some)",
}
