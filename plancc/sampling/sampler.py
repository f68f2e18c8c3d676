"""`Sampler`, the base class of samplers, and functions that make one from options or a string."""

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
"""Numbers of three independent streams of batches: `SHOWN` for the runtime and for inspect,
`FITTED` for fitting a model, and `HELD_OUT` for deciding when the compiler has drawn enough
batches."""
DEFAULT_SHARE = 0.06
"""Default share of the vertices that a batch has; Demirci et al. 2022 draw 20,000 of 334,863."""


@dataclass(frozen=True)
class Sampler(ABC):
    """Base class of samplers: frozen dataclasses whose fields are their options.

    An option is declared by `plancc.fields.option` (or ``dataclasses.field`` with the metadata
    ``help``), with its help text and default; its type is one of `plancc.fields.KINDS`. The command
    line, `make_sampler` and the provenance of a plan use this declaration. The user must give an
    option that has no default. ``__post_init__`` can raise InputError for a wrong value::

        @dataclass(frozen=True)
        class HubSampler(SizedSampler):
            name: ClassVar[str] = "hubs"
            least_degree: int = option(10, "nonzeros of a row that make it a hub")

    Attributes:
        name: Name in the registry (entry points ``plancc.samplers``).
        needs: What `batch` needs of a `Population`: "pattern", "train_mask", "clusters".
        of_training: Whether mini-batches are drawn from the training vertices, if there is a
            training mask.
        owners_draw: What only the owners of rows can draw, as a phrase for messages; "" if every
            rank can draw whole mini-batches.
    """

    name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    of_training: ClassVar[bool] = False
    owners_draw: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def num_blocks(self) -> int:
        """Number of blocks of a mini-batch.

        It is 1 if all layers of the model use the same block, else the number of layers.
        """
        return 1

    def check(self, population: Population) -> None:
        """Raise InputError if no mini-batch can be drawn from the population."""
        for need in self.needs:
            if getattr(population, "indptr" if need == "pattern" else need) is None:
                raise InputError(f"sampler '{self.name}' needs {need}, which {_MISSING[need]}")

    def fitted(self, population: Population) -> tuple[Self, str]:
        """Return a sampler whose mini-batches are no larger than the population, and a remark.

        The remark tells the user what was changed; "" if nothing was. The population is the set of
        vertices to draw from; it needs no pattern here.

        Raises:
            InputError: If no vertex can be drawn.
        """
        return self, ""

    def check_layers(self, num_layers: int) -> None:
        """Raise InputError if a mini-batch has several blocks, but not one block for each layer."""
        if self.num_blocks not in (1, num_layers):
            raise InputError(
                f"sampler '{self.name}' draws for {self.num_blocks} layers, but the model has "
                f"{num_layers} layer{'s' * (num_layers != 1)}"
            )

    @abstractmethod
    def batch(self, population: Population, seed: int, number: int, stream: int = SHOWN) -> Batch:
        """Draw mini-batch `number` from a population that `check` accepts.

        Parameters:
            seed: Seed, at least 0.
            number: Index of the mini-batch, at least 0.
            stream: What the mini-batch is for: `SHOWN`, `FITTED` or `HELD_OUT`. Mini-batches of
                different streams are independent, even with the same seed and number.
        """

    def inclusion(self, population: Population, most_pins: int) -> Inclusion | None:
        """Return the probabilities that a mini-batch has a vertex, and that a part needs its row.

        The probability of a part depends on how many pins of the row's net it has; it is given for
        up to `most_pins` pins. The result is None if the sampler cannot compute probabilities.
        """
        return None

    def num_targets(self, population: Population, training: int) -> int | None:
        """Return how many vertices of every mini-batch enter the loss; None if the number varies.

        `training` is the number of vertices of the population that have labels to train on."""
        return None

    def batches_per_epoch(self, population: Population) -> int:
        """Return the number of mini-batches in an epoch.

        The number is such that an epoch's mini-batches together contain about as many targets as
        there are vertices that may be targets (see `Batch.targets`).
        """
        return 1

    def __str__(self) -> str:
        """Return the name, and every option as ``name=value``, for the provenance of a plan."""
        values = {each.name: getattr(self, each.name) for each in options_of(self)}
        words = (
            f"{name}={','.join(map(str, value)) if isinstance(value, tuple) else value}"
            for name, value in values.items()
        )
        return " ".join([self.name, *words])


@dataclass(frozen=True)
class SizedSampler(Sampler):
    """A sampler of mini-batches of about the same size.

    Attributes:
        batch_size: Number of vertices that are drawn, from 1 to the number that may be drawn.
            `make_sampler` computes the default; `fitted` lowers a number that is too large.
    """

    batch_size: int = option(
        help="number of vertices of a batch",
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
        remark = f"{self._too_large(population)}, so batches are of {available}"
        return replace(self, batch_size=available), remark

    def _too_large(self, population: Population) -> str:
        what = f"{'training ' * self._draws_training(population)}vertices"
        return f"`batch_size` {self.batch_size}: there are only {self.available(population)} {what}"

    def available(self, population: Population) -> int:
        """Return the number of vertices that may be drawn."""
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
    """Draw a mini-batch; InputError unless it is a `Batch` with `Sampler.num_blocks` blocks."""
    batch = sampler.batch(population, seed, number, stream)
    if not isinstance(batch, Batch) or batch.num_blocks != sampler.num_blocks:
        raise InputError(
            f"{SAMPLERS.words_of(sampler.name)}, batch {number}: `batch()` must return a "
            f"plancc.sampling.Batch of {sampler.num_blocks} blocks"
        )
    return batch


def sampler_options() -> dict[str, Field[Any]]:
    """Return the options of all samplers: name of the option -> dataclass field."""
    return {each.name: each for cls in SAMPLERS.loaded().values() for each in options_of(cls)}


def read_option(name: str, value: Any) -> Any:
    """Return a sampler's option, parsed if it is a string; InputError for an invalid string."""
    known = sampler_options()
    return parsed(known[name], value) if isinstance(value, str) and name in known else value


def make_sampler(
    name: str, num_vertices: int, num_training: int | None = None, **options: Any
) -> Sampler:
    """Make a sampler; an option that is missing or None gets its default.

    The default of ``batch_size`` is the share `DEFAULT_SHARE` of all vertices or, if the sampler
    draws only training vertices and the graph has a training mask, of the training vertices.

    Raises:
        InputError: If the sampler or an option is unknown, missing or of a wrong type.
    """
    cls = SAMPLERS[name]
    known = {each.name: each for each in options_of(cls)}
    given = {key: value for key, value in options.items() if value is not None}
    unknown = unknown_option(given, cls)
    if unknown is not None:
        names = ", ".join(f"`{key}`" for key in known) or "no options"
        raise InputError(f"sampler '{name}' has no option `{unknown}`: it has {names}")
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
    """Return the sampler that the user asks for; by default, the sampler in a plan's provenance.

    Parameters:
        recorded: The recorded ``str(sampler)``; any other string means that there is none.
        name: Name of the sampler; None: the recorded sampler, or else "uniform".
        **options: See `make_sampler`. If the recorded sampler is chosen, missing options are those
            of the recorded sampler.
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
    """Convert a string that ``str(sampler)`` has made back to a sampler.

    Raises:
        InputError: For any other string.
    """
    name, *words = text.split() or [""]
    known = {each.name: each for each in options_of(SAMPLERS[name])}
    options: dict[str, Any] = {}
    try:
        for word in words:
            key, _, value = word.partition("=")
            options[key] = parsed(known[key], value)
    except (KeyError, InputError):
        raise InputError(f"'{text}' is not a sampler") from None
    return make_sampler(name, 1, **options)


_MISSING = {
    "pattern": "is missing",
    "train_mask": "the vertex data do not have (`data`)",
    "clusters": "the vertex data do not have (`data`, or `clusters` makes some)",
}
