"""Graphs of several vertex types: papers and authors, users and items, a grid and a mesh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from plancc.fields import check_options, option
from plancc.graph.types import Relation
from plancc.graph.union import united
from plancc.graph.vertexdata import DataByType, VertexData
from plancc_datasets.dataset import (
    COUNT,
    FINE_SHARE,
    Dataset,
    Recipe,
    describe,
    seed_option,
    split_masks,
)

IntArray = npt.NDArray[np.integer]
Edges = tuple[IntArray, IntArray]
"""Destination and source of every edge."""


def _dataset(
    recipe: Recipe, counts: Mapping[str, int], relations: Mapping[Relation, Edges]
) -> Dataset:
    entries = {name: (*ends, None) for name, ends in relations.items()}
    return Dataset(united(counts, entries, describe(recipe)))


def _near(
    place: npt.NDArray[np.float64], count: int, spread: float, rng: np.random.Generator
) -> IntArray:
    """Draw, for every place on a circle of length 1, one of `count` evenly spaced vertices near it.

    The distance has a Laplace distribution with scale `spread`.
    """
    drawn = place + rng.laplace(0, spread, len(place))
    return np.floor((drawn % 1) * count).astype(np.int64)


@dataclass(frozen=True)
class Academic:
    """Papers, their authors, the papers that they cite, and their venues.

    Every vertex has a field of science, which is a place on a circle. The authors and the cited
    papers of a paper are near it on the circle. Papers are joined with authors and with venues in
    both directions. The circle is divided into eight arcs, and the label of a paper is the number
    of its arc. The features of every vertex are functions of its place, plus noise.
    """

    typed: ClassVar[bool] = True
    num_papers: int = option(4096, "number of papers", **COUNT)
    num_authors: int = option(2048, "number of authors", **COUNT)
    num_venues: int = option(32, "number of venues", **COUNT, python_only=True)
    spread: float = option(0.01, "mean distance of a paper's field to its authors'", **FINE_SHARE)
    seed: int = seed_option()

    def build(self) -> Dataset:
        check_options(self)
        rng, n = np.random.default_rng(self.seed), self.num_papers
        paper, cites = (np.repeat(np.arange(n), times) for times in (3, 8))
        author = _near(paper / n, self.num_authors, self.spread, rng)
        cited = _near(cites / n, n, self.spread, rng)
        venue = _near(np.arange(n) / n, self.num_venues, self.spread, rng)
        relations = {
            ("author", "writes", "paper"): (paper, author),
            ("paper", "by", "author"): (author, paper),
            ("paper", "cites", "paper"): (cited, cites),
            ("paper", "in", "venue"): (venue, np.arange(n)),
            ("venue", "has", "paper"): (np.arange(n), venue),
        }
        counts = {"paper": n, "author": self.num_authors, "venue": self.num_venues}
        made, data = _dataset(self, counts, relations), dict[str, VertexData]()
        for name, count in counts.items():
            angle = 2 * np.pi * np.arange(count)[:, None] / count + np.arange(4)
            noise = rng.normal(0, 0.5, angle.shape)
            data[name] = VertexData((np.sin(angle) + noise).astype(np.float32))
        labels = (8 * np.arange(n) // n).astype(np.int32)
        data["paper"] = replace(data["paper"], labels=labels, **split_masks(labels, rng))
        types = made.graph.types
        assert types is not None
        by_type = DataByType.of(data, types, np.arange(types.num_vertices))
        return replace(made, data=VertexData(by_type=by_type))


@dataclass(frozen=True)
class Ratings:
    """Users, and the items that they rate.

    Half of a user's ratings are for items near the user's taste, half are for items drawn by
    popularity, which follows a power law.
    """

    typed: ClassVar[bool] = True
    num_users: int = option(4096, "number of users", **COUNT)
    num_items: int = option(1024, "number of items", **COUNT)
    per_user: int = option(16, "ratings of a user", **COUNT)
    spread: float = option(0.02, "mean distance of a user's taste to the items", **FINE_SHARE)
    seed: int = seed_option()

    def build(self) -> Dataset:
        check_options(self)
        rng = np.random.default_rng(self.seed)
        user = np.repeat(np.arange(self.num_users), self.per_user)
        item = _near(user / self.num_users, self.num_items, self.spread, rng)
        popular = rng.random(len(user)) < 0.5  # ratings of popular items: about half
        rank = np.minimum(rng.zipf(1.5, np.count_nonzero(popular)), self.num_items) - 1
        item[popular] = rng.permutation(self.num_items)[rank]
        relations = {("user", "rates", "item"): (item, user), ("item", "by", "user"): (user, item)}
        return _dataset(self, {"user": self.num_users, "item": self.num_items}, relations)


@dataclass(frozen=True)
class Weather:
    """A grid of points, and a coarser mesh of points that exchanges data with the grid.

    A mesh point needs the rows of its nearest grid points and of its nearest mesh points; a grid
    point needs the rows of its nearest mesh points.
    """

    typed: ClassVar[bool] = True
    height: int = option(64, "rows of the grid", **COUNT)
    width: int = option(64, "columns of the grid", **COUNT)
    num_mesh: int = option(256, "number of mesh points", **COUNT)
    neighbours: int = option(4, "mesh points that a grid point needs", **COUNT, python_only=True)
    seed: int = seed_option()

    def build(self) -> Dataset:
        check_options(self)
        rows, columns = np.indices((self.height, self.width)).reshape(2, -1)
        size = np.array([self.height, self.width])
        grid = (np.stack([rows, columns], axis=1) + 0.5) / size
        mesh = np.random.default_rng(self.seed).random((self.num_mesh, 2))
        into = max(1, 2 * len(grid) // self.num_mesh)
        relations = {
            ("grid", "encode", "mesh"): _nearest(mesh, grid, into),
            ("mesh", "process", "mesh"): _nearest(mesh, mesh, 6),
            ("mesh", "decode", "grid"): _nearest(grid, mesh, self.neighbours),
        }
        return _dataset(self, {"grid": len(grid), "mesh": self.num_mesh}, relations)


def _nearest(points: npt.NDArray[np.float64], others: npt.NDArray[np.float64], count: int) -> Edges:
    """Return edges to every point from the `count` points in `others` that are nearest to it."""
    from scipy.spatial import cKDTree

    count = min(count, len(others))
    _, found = cKDTree(others).query(points, np.arange(1, count + 1))
    return np.repeat(np.arange(len(points)), count), found.reshape(-1)
