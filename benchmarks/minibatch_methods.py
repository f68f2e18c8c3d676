"""The methods that `benchmarks.minibatches` compares, and the batches that it draws.

``seconds`` is the wall time of finding the owners, model and child processes included.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import plancc
from plancc.files import atomic_write
from plancc.graph.graph import Graph
from plancc.graph.normalize import normalize
from plancc.graph.vertexdata import VertexData
from plancc.models import MODELS
from plancc.models.stochastic import StochasticModel
from plancc.options import SearchOptions
from plancc.owners.find import find_owners
from plancc.owners.rows import with_clusters
from plancc.owners.task import Task, Unowned
from plancc.partitioners.options import AUTO
from plancc.sampling import Population, Sampler, make_sampler
from plancc_datasets import load_dataset

PAPER_SHARE = 0.06
"""Share of the vertices in a batch of Demirci et al. 2022."""
RECIPE_BATCHES = (3, 30, 100)
NUM_CLUSTERS = 1500

Owner = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Way:
    """How owners are found; `batches` for the model of mini-batches only."""

    model: str
    partitioner: str = AUTO
    batches: int | None = None

    @property
    def of_batches(self) -> bool:
        return self.model == "stochastic-hp"


HP, HP_ALONE, GP, GP_ALONE = "hp", "hp Mt-KaHyPar", "gp METIS", "gp Mt-KaHyPar"
OURS = "stochastic-hp"
RIVALS = (HP, HP_ALONE, GP, GP_ALONE)
WAYS = {
    "rp": Way("rp"),
    HP: Way("hp"),
    HP_ALONE: Way("hp", "mtkahypar"),
    GP: Way("gp", "metis"),
    GP_ALONE: Way("gp", "mtkahypar"),
    OURS: Way("stochastic-hp"),
    **{f"{k} batches": Way("stochastic-hp", "mtkahypar", k) for k in RECIPE_BATCHES},
}
"""`HP` is plancc's search, `HP_ALONE` the paper's model by one partitioner."""


@dataclass(frozen=True)
class Draw:
    """A sampler before the graph is known.

    Attributes:
        size: Of a batch: a share of the vertices up to 1, a number of them above.
    """

    name: str = "uniform"
    size: float = PAPER_SHARE
    fanouts: tuple[int, ...] | None = None

    def __str__(self) -> str:
        size = f"{100 * self.size:g}%" if self.size <= 1 else f"{self.size:,g}"
        hops = "" if self.fanouts is None else f", fan-outs {','.join(map(str, self.fanouts))}"
        return f"{self.name} {size}{hops}"

    def sampler(self, num_vertices: int) -> Sampler:
        size = round(self.size * num_vertices) if self.size <= 1 else round(self.size)
        size = min(max(size, 1), num_vertices)
        return make_sampler(self.name, num_vertices, batch_size=size, fanouts=self.fanouts)


@dataclass(frozen=True)
class Options:
    """What all of one file has in common; `batches` of a cell, the others as of a compile."""

    batches: int = 1000
    epsilon: float = 0.01
    seed: int = 1
    threads: int = 2


@dataclass(frozen=True)
class Found:
    """Owners, the seconds that they took, and what was said of them."""

    owner: Owner
    seconds: float
    notes: list[str]


class Bench:
    """Reads graphs and finds owners, each once.

    Parameters:
        folder: Gets the owners that do not depend on a sampler, so that a run can be resumed.
        resumed: Whether to use those that are there.
        observer: Called with a text before every step; returns a context manager around it.
    """

    def __init__(
        self,
        graphs: dict[str, Path],
        options: Options,
        folder: Path | None = None,
        resumed: bool = False,
        observer: Callable[[str], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        self.graphs, self.options, self.observer = graphs, options, observer
        self._folder, self._resumed = folder, resumed
        self._known: dict[tuple[str, int, str], Found] = {}
        self._warm: set[tuple[str, str]] = set()
        self.matrix = cache(self._matrix)
        self.clusters = cache(self._clusters)

    def _matrix(self, graph: str) -> Graph:
        with self.observer(f"reading {graph}"):
            return normalize(plancc.read_graph(self.graphs[graph]))

    def _clusters(self, graph: str) -> npt.NDArray[np.int32] | None:
        matrix = self.matrix(graph)
        number = min(NUM_CLUSTERS, matrix.num_vertices)
        with self.observer(f"{graph}: clusters"):
            return with_clusters(VertexData(), matrix, number, self.options.seed, None).clusters

    def population(self, graph: str, sampler: Sampler) -> Population:
        matrix = self.matrix(graph)
        clusters = self.clusters(graph) if "clusters" in sampler.needs else None
        return Population(matrix.num_vertices, matrix.indptr, matrix.indices, clusters=clusters)

    def owners(self, graph: str, num_parts: int, name: str, draw: Draw) -> Found:
        """Owners by one of `WAYS`; those for mini-batches are for batches of `draw`.

        Raises:
            PlanccError: Whatever the method says.
        """
        way = WAYS[name]
        if way.of_batches:
            return self._timed(graph, num_parts, name, draw)
        key = graph, num_parts, name
        if key not in self._known:
            self._known[key] = self._kept(*key) or self._keep(
                *key, self._timed(graph, num_parts, name, draw)
            )
        return self._known[key]

    def _timed(self, graph: str, num_parts: int, name: str, draw: Draw) -> Found:
        matrix, data = self.matrix(graph), VertexData()
        if WAYS[name].of_batches and draw.name == "cluster":
            data = VertexData(clusters=self.clusters(graph))
        self._warm_up(name, draw)
        with self.observer(f"{graph}, p = {num_parts}: {name}, {draw}"):
            return self._find(matrix, num_parts, WAYS[name], draw, data)

    def _path(self, graph: str, num_parts: int, name: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{graph}.{name.replace(' ', '-')}.{num_parts}.npz"

    def _kept(self, graph: str, num_parts: int, name: str) -> Found | None:
        """What an earlier run has left in the folder."""
        if not self._resumed or self._folder is None:
            return None
        path = self._path(graph, num_parts, name)
        if not path.exists():
            return None
        with np.load(path) as kept:
            return Found(kept["owner"], float(kept["seconds"]), kept["notes"].tolist())

    def _keep(self, graph: str, num_parts: int, name: str, found: Found) -> Found:
        """Leave `found` in the folder, if there is one."""
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            notes = np.array(found.notes, dtype=np.str_)
            with (
                atomic_write(self._path(graph, num_parts, name)) as temporary,
                temporary.open("wb") as file,
            ):
                np.savez(file, owner=found.owner, seconds=found.seconds, notes=notes)
        return found

    def _find(self, matrix: Graph, num_parts: int, way: Way, draw: Draw, data: VertexData) -> Found:
        options = self.options
        asked = SearchOptions(
            partitioner=way.partitioner,
            epsilon=options.epsilon,
            seed=options.seed,
            threads=options.threads,
        )
        model = MODELS[way.model]()
        if way.of_batches:
            model = replace(model_of(draw.sampler(matrix.num_vertices)), vertex_data=data)
            if way.batches is not None:
                model = replace(model, batches=way.batches)
        task, start = Task(way.model, model, num_parts, asked), time.perf_counter()
        found = find_owners(Unowned(matrix, task))
        return Found(found.owners.rows, time.perf_counter() - start, found.warnings)

    def _warm_up(self, name: str, draw: Draw) -> None:
        """Once on a small graph, so that numba compiles untimed."""
        if (name, draw.name) in self._warm:
            return
        self._warm.add((name, draw.name))
        matrix = small_matrix()
        clusters = (np.arange(matrix.num_vertices) % 40).astype(np.int32)
        small = replace(draw, size=min(draw.size, 100))
        with self.observer(f"{name}: warm-up"), contextlib.suppress(Exception):
            # the timed call says what is wrong
            self._find(matrix, 8, WAYS[name], small, VertexData(clusters=clusters))


def model_of(sampler: Sampler, **options: Any) -> StochasticModel:
    """The model for batches of a sampler."""
    given = {each.name: getattr(sampler, each.name) for each in fields(sampler)}
    return StochasticModel(sampler.name, sampler_options=given, **options)


def small_matrix() -> Graph:
    return normalize(load_dataset("rmat", scale=11, edge_factor=8, seed=1).graph)
