"""The registry of data sets, and helpers that the data sets share."""

from __future__ import annotations

from dataclasses import Field, dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from plancc.errors import BackendError, InputError
from plancc.fields import option, options_of, unknown_option
from plancc.graph.graph import MAX_VERTICES, Graph, Source
from plancc.graph.vertexdata import VertexData
from plancc.registry import Registry, place_of

DATASETS = Registry(
    "dataset",
    "plancc.datasets",
    {
        "digits": "plancc_datasets.digits:Digits",
        "karate": "plancc_datasets.karate:Karate",
        "rmat": "plancc_datasets.rmat:Rmat",
        "grid": "plancc_datasets.grid:GridMesh",
        "sbm": "plancc_datasets.sbm:Sbm",
        "geometric": "plancc_datasets.geometric:Geometric",
        "academic": "plancc_datasets.typed:Academic",
        "ratings": "plancc_datasets.typed:Ratings",
        "weather": "plancc_datasets.typed:Weather",
    },
)


@dataclass(frozen=True)
class Dataset:
    """A graph, and the data of its vertices in the graph's order; `data` may be empty."""

    graph: Graph
    data: VertexData = field(default_factory=VertexData)


class Recipe(Protocol):
    """An entry of `DATASETS`: a frozen dataclass whose fields are options (`plancc.fields`).

    If the class attribute `typed` is True, the graph has vertex types, and is written as a folder.
    """

    def build(self) -> Dataset:
        """Make the data set; the same options give the same bytes."""


def dataset_options(name: str) -> tuple[Field[Any], ...]:
    """Return the options of a data set; metadata["help"] describes an option."""
    return options_of(DATASETS[name])


def load_dataset(name: str, **options: Any) -> Dataset:
    """Make the data set `name`; missing options have their defaults (`dataset_options`).

    Raises InputError for a wrong name or option, BackendUnavailable if a library is missing.
    """
    recipe = DATASETS[name]
    unknown = unknown_option(options, recipe)
    if unknown is not None:
        known = ", ".join(each.name for each in options_of(recipe))
        raise InputError(f"dataset '{name}' has no option '{unknown}'; choose from {known}")
    made = recipe(**options).build()
    if not isinstance(made, Dataset):
        told = f"{DATASETS.words_of(name)} builds a {type(made).__name__}"
        where = place_of(recipe.build)
        raise BackendError(f"{told}; it must build a plancc_datasets.dataset.Dataset ({where})")
    return made


COUNT = {"at_least": 1, "at_most": MAX_VERTICES}
SHARE = {"at_least": 0, "at_most": 1}
FINE_SHARE = SHARE | {"python_only": True}
"""Settings of an option that is a share, and that the command line does not have."""


def seed_option(help: str = "random seed") -> Any:
    return option(0, help, at_least=0, at_most=2**63 - 1)


def describe(recipe: Recipe) -> Source:
    """Return the source of a generated graph: the data set's name and options."""
    values = {each.name: getattr(recipe, each.name) for each in options_of(recipe)}
    text = ", ".join(f"{name}={value}" for name, value in values.items())
    return Source(f"{type(recipe).__name__.lower()}({text})", format="dataset")


def split_masks(
    labels: npt.NDArray[np.int32], rng: np.random.Generator, train: float = 0.2, val: float = 0.2
) -> dict[str, Any]:
    """Return random train_mask, val_mask and test_mask, bool[n], with the same share of each class.

    Every class has a training vertex. Vertices outside `train` and `val` are for testing.
    """
    n = len(labels)
    order = rng.permutation(n)
    order = order[np.argsort(labels[order], kind="stable")]
    count = np.unique(labels, return_counts=True)[1]
    first = np.repeat(np.cumsum(count) - count, count)
    share = (np.arange(n) - first) / np.repeat(count, count)
    masks = {}
    for key, low, high in (
        ("train_mask", 0.0, train),
        ("val_mask", train, train + val),
        ("test_mask", train + val, 1.0),
    ):
        mask = np.zeros(n, np.bool_)
        mask[order[(share >= low) & (share < high)]] = True
        masks[key] = mask
    return masks
