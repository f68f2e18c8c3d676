"""Model ``stochastic-hp``: the stochastic hypergraph of Demirci et al. 2022, section 4.3.3.

The model minimises the expected volume of a mini-batch. It builds its nets in one of two ways:

    exact     from the column nets of the matrix, with the costs that the function `fitted` chooses,
              if the sampler's probabilities are known (`plancc.sampling.batch.Inclusion`)
    sampled   from the column nets of many mini-batches; equal nets are merged, and their costs
              added (Algorithm 3)

Equation 14 bounds the error of a volume that is estimated from the sample. It holds for one given
partition, but not for a partition that a search has fitted to the sample.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.fields import option, options_of
from plancc.graph.graph import Graph
from plancc.graph.vertexdata import VertexData
from plancc.models.base import Model
from plancc.models.nets import NetUnion, column_nets
from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.models.weights import Balance, check_num_parts, is_count, vertex_weights
from plancc.sampling import (
    FITTED,
    Inclusion,
    Population,
    Sampler,
    draw,
    make_sampler,
    sampler_options,
)

AUTO = "auto"
EXPECTED_VOLUME = "expected volume"
"""Name of this model's objective."""
MAX_NETS = 2**53
"""Largest number of nets; theta and delta that need more nets raise an error."""
MAX_BATCHES = 4096
"""Largest number of batches of a sample by default."""
PINS_PER_NONZERO = 16
"""Largest number of pins of a sampled hypergraph, per nonzero of the matrix."""
FULL = 0.9
"""A sample ends when its merged nets fill this share of the largest number of pins; otherwise
every further batch would need a merge."""
MAX_HUB_GAINS = 2**23
"""Largest number of gains that a sweep may compute for columns that most rows need (pins x
parts)."""
FITTED_COST = 1000
"""Cost, in `fitted`, of a column net plus one of its two-pin nets. In `fitted_cut`: the weight
of an edge that is the only nonzero of its column."""


@dataclass(frozen=True, eq=False)
class StochasticModel(Model):
    """A model of the expected volume of a mini-batch, computed from probabilities or sampled
    batches.

    Attributes:
        sampler: A name in `plancc.sampling.SAMPLERS`.
        theta, delta: The error allowed for the expected connectivity, and the allowed probability
            of a larger error (Demirci et al. 2022, equation 12).
        batches ("auto" or int): Number of mini-batches to sample. "auto": 0 if the sampler's
            probabilities are known, else the number from equation 14.
        sampler_options: Options of the sampler; missing options keep their defaults.
        vertex_data: Training mask and clusters, for samplers that need them.
    """

    problem: ClassVar[type[Hypergraph]] = Hypergraph
    searched: ClassVar[bool] = True
    default_objective: ClassVar[str] = EXPECTED_VOLUME
    starts_from_cut: ClassVar[bool] = True
    of_batches: ClassVar[bool] = True
    competes: ClassVar[bool] = False
    swept: ClassVar[bool] = False
    assigns_blocks: ClassVar[bool] = False

    sampler: str = option("uniform", "how batches are drawn", metavar="NAME")
    theta: float = option(0.1, "allowed error of the expected connectivity")
    delta: float = option(0.5, "allowed probability of a larger error")
    batches: str | int = option(
        AUTO,
        "sampled batches; auto: exact probabilities if known, else enough for `theta`, `delta`",
        metavar="auto|NUMBER",
    )
    sampler_options: Mapping[str, Any] = field(default_factory=dict, metadata={"internal": True})
    vertex_data: VertexData = field(default_factory=VertexData, metadata={"internal": True})

    def __post_init__(self) -> None:
        if not (isinstance(self.theta, Real) and 0 < self.theta < math.inf):
            raise InputError(f"theta {self.theta!r}: a number above 0 is needed")
        if not (isinstance(self.delta, Real) and 0 < self.delta < 1):
            raise InputError(f"delta {self.delta!r}: must be between 0 and 1")
        if self.batches != AUTO and not is_count(self.batches):
            rule = f"'{AUTO}' or a whole number from 1 is needed"
            raise InputError(f"`batches` {self.batches!r}: {rule}")
        make_sampler(self.sampler, 1, **self.sampler_options)  # refuses options before any work

    @classmethod
    def option_fields(cls) -> dict[str, Field[Any]]:
        """Return the fields of the model's options and of the options of all samplers, by name."""
        own = {each.name: each for each in options_of(cls)}
        return own | sampler_options() | own

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> StochasticModel:
        beside = [name for name in ("theta", "delta") if name in options]
        if beside and options.get("batches", AUTO) != AUTO:
            raise InputError(f"`{beside[0]}` is only for `batches` {AUTO}; leave one of them out")
        own = {each.name for each in fields(cls)}
        of_sampler = {name: value for name, value in options.items() if name not in own}
        given = {name: value for name, value in options.items() if name in own}
        return cls(sampler_options=of_sampler, **given)

    def check_layers(self, num_layers: int) -> None:
        """Raise InputError unless a mini-batch has one block, or one for each of the layers."""
        make_sampler(self.sampler, 1, **self.sampler_options).check_layers(num_layers)

    def with_data(self, vertex_data: VertexData) -> StochasticModel:
        """Return the model with the training mask and the clusters of `vertex_data`."""
        return replace(self, vertex_data=vertex_data)

    def unfit(self, matrix: Graph, num_parts: int) -> str:
        """Return why hubs and many parts make a search too long (`MAX_HUB_GAINS`), or ""."""
        needed = np.bincount(matrix.indices, minlength=matrix.num_vertices)
        vertex = int(needed.argmax())
        most = int(needed[vertex])
        pins = int(needed[2 * needed > matrix.num_vertices].sum())
        if pins * num_parts <= MAX_HUB_GAINS:
            return ""
        needed_by = f"row {vertex} is needed by {most:,} of {matrix.num_vertices:,} rows"
        why = f"{needed_by}, so nearly every part needs it in nearly every batch"
        cure = "use model hp, or these owners (a quick search for the volume)"
        return f"model 'stochastic-hp' is not made for this graph: {why}; {cure}"

    def source(self, matrix: Graph) -> BatchSource:
        """Make the sampler for a matrix, and the population of vertices that it draws from."""
        n, mask, clusters = (
            matrix.num_vertices,
            self.vertex_data.train_mask,
            self.vertex_data.clusters,
        )
        trained = None if mask is None else int(mask.sum())
        sampler = make_sampler(self.sampler, n, trained, **self.sampler_options)
        population = Population(n, matrix.indptr, matrix.indices, mask, clusters)
        sampler, remark = sampler.fitted(population)
        sampler.check(population)
        return BatchSource(sampler, population, remark)

    def build(
        self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int
    ) -> Hypergraph:
        """Build the hypergraph for a partitioner, from probabilities or from sampled mini-batches.

        Probabilities are used if the sampler knows them, and the option `batches` is "auto".
        """
        check_num_parts(matrix.num_vertices, num_parts)
        source = self.source(matrix)
        weights = vertex_weights(matrix, balance)
        if self.batches == AUTO:
            exact = source.exact(weights)
            if exact is not None:
                return fitted(*exact)
        sample = source.sample(self.num_batches(source, num_parts, seed), seed)
        return replace(sample.hypergraph, vertex_weights=weights)

    def num_batches(self, source: BatchSource, num_parts: int, seed: int) -> int:
        """Return how many mini-batches to sample: the option `batches`, if it is a number.

        If it is "auto", there are so many mini-batches that together they have about as many nets
        as the function `hoeffding_nets` returns, but at most `MAX_BATCHES` mini-batches.
        """
        if self.batches != AUTO:
            return int(self.batches)
        nets = hoeffding_nets(num_parts, self.theta, self.delta)
        return min(batches_of(nets, source.nets_per_batch(seed)), MAX_BATCHES)


def hoeffding_nets(num_parts: int, theta: float, delta: float) -> int:
    """Return how many sampled nets suffice to estimate the connectivity of one given partition.

    The number is ``(p - 1)^2 / (2 theta^2) ln(2 / delta)``, rounded up, for p parts (Demirci et al.
    2022, equation 14). The mean connectivity of the nets then differs from the expected
    connectivity by theta or more with a probability of at most delta. InputError is raised if the
    number is above `MAX_NETS`.
    """
    ratio = (num_parts - 1) / theta
    nets = ratio * ratio / 2 * (math.log(2) - math.log(delta))
    if nets > MAX_NETS:
        told = f"Hoeffding's bound is above {MAX_NETS} nets; choose larger values"
        raise InputError(f"theta {theta:g}, delta {delta:g}: {told}")
    return math.ceil(nets)


def batches_of(nets: int, nets_per_batch: float) -> int:
    """Return how many mini-batches have about `nets` nets together: at least 1."""
    return max(1, math.ceil(nets / nets_per_batch)) if nets_per_batch > 0 else 1


@dataclass(frozen=True, eq=False)
class NetSample:
    """The nets of a sample of mini-batches; equal nets are merged.

    Attributes:
        hypergraph: Merged nets and their sources. A net's cost is the number of nets that were
            merged into it; a vertex weighs 1.
        num_batches: Number of batches; smaller than requested if the sample is full or time is up.
        num_nets: Number of nets before merging, including nets of one pin.
        vertices_seen: Share of the sampler's vertices that occur in at least one batch.
        nonzeros_seen: Share of the off-diagonal nonzeros that occur in at least one batch.
        full: Whether the number of pins, after merging, is close to its bound (`FULL`).
    """

    hypergraph: Hypergraph
    num_batches: int
    num_nets: int
    vertices_seen: float
    nonzeros_seen: float
    full: bool


@dataclass(frozen=True, eq=False)
class BatchSource:
    """A sampler, and the population of vertices from which it draws mini-batches.

    Attributes:
        sampler: The sampler. `Sampler.check` has accepted the population.
        remark: A remark for the user about the mini-batches; "" if there is none.
    """

    sampler: Sampler
    population: Population
    remark: str = ""

    def nets_per_batch(self, seed: int) -> float:
        """Return the mean number of nets in the first four mini-batches.

        Nets of one pin count too."""
        return float(np.mean([self._num_columns(seed, k) for k in range(4)]))

    def _num_columns(self, seed: int, number: int) -> int:
        batch = draw(self.sampler, self.population, seed, number, FITTED)
        return sum(len(np.unique(batch.block(k).columns)) for k in range(batch.num_blocks))

    def exact(self, weights: npt.NDArray[np.int64]) -> tuple[Hypergraph, Inclusion] | None:
        """Return the matrix's column nets, and the sampler's `Inclusion` probabilities; or None.

        The result is None if the probabilities are not known. Nets have only the vertices that
        mini-batches can include; `weights` are the vertex weights.
        """
        indptr, indices = self.population.pattern
        most = 1 + int(np.bincount(indices, minlength=1).max(initial=0))
        inclusion = self.sampler.inclusion(self.population, most)
        if inclusion is None:
            return None
        if inclusion.vertices is not None:
            indptr, indices = _among(indptr, indices, inclusion.vertices)
        net_ptr, pins, column = column_nets(indptr, indices)
        return Hypergraph(net_ptr, pins, weights, net_sources=column), inclusion

    def sample(self, num_batches: int, seed: int, stream: int = FITTED) -> NetSample:
        """Return the merged nets of the mini-batches 0..num_batches - 1.

        `stream` says what the batches are for. If the nets would have too many pins, the sample
        has fewer mini-batches (`GrowingSample.grown`).
        """
        return GrowingSample(self, seed, stream).grown(num_batches)

    def pairs(self) -> npt.NDArray[np.int32]:
        """Return column and row of each of the m nonzeros off the diagonal: int32[m, 2]."""
        indptr, indices = self.population.pattern
        rows = np.repeat(np.arange(self.population.num_vertices, dtype=np.int32), np.diff(indptr))
        off = rows != indices
        return np.stack([indices[off], rows[off]], axis=1)

    def expected_nonzeros(self, seed: int, num_batches: int = 64) -> npt.NDArray[np.float64]:
        """Return the expected number of nonzeros of every row in a mini-batch: float64[n].

        If the sampler's probabilities are not known, the result is a mean over `num_batches`
        mini-batches.
        """
        indptr, indices = self.population.pattern
        n = self.population.num_vertices
        rows = np.repeat(np.arange(n), np.diff(indptr))
        diagonal = rows == indices
        inclusion = self.sampler.inclusion(self.population, 1)
        if inclusion is not None:
            inside = inclusion.vertices
            kept = np.ones(len(rows), bool) if inside is None else inside[rows] & inside[indices]
            each = np.where(diagonal, 1.0, inclusion.reach[1]) * kept
            return np.bincount(rows, inclusion.share * each, minlength=n).astype(np.float64)
        total = np.zeros(n)
        for number in range(num_batches):
            batch = draw(self.sampler, self.population, seed, number, FITTED)
            for k in range(batch.num_blocks):
                block = batch.block(k)
                total[block.rows] += np.diff(block.ptr)
        return total / num_batches


class GrowingSample:
    """A sample of mini-batches that can be enlarged; equal nets are merged."""

    def __init__(self, source: BatchSource, seed: int, stream: int = FITTED) -> None:
        self._source, self._seed, self._stream = source, seed, stream
        self._union: NetUnion | None = None
        self._number = 0

    def grown(self, num_batches: int, stop: Callable[[], bool] = lambda: False) -> NetSample:
        """Draw mini-batches until there are `num_batches` in total, and return the sample.

        Drawing stops earlier if the sample has nearly as many pins as it may have
        (`PINS_PER_NONZERO`), or if `stop()` is True and there is a mini-batch.
        """
        population = self._source.population
        indptr, indices = population.pattern
        union = self._union = self._union or NetUnion(indptr, indices)
        most = PINS_PER_NONZERO * max(len(indices), 1)
        while self._number < num_batches and not (self._number > 0 and stop()):
            if union.num_pins > most:
                union.merged()
                if union.num_pins > FULL * most:
                    break
            batch = draw(self._source.sampler, population, self._seed, self._number, self._stream)
            for k in range(batch.num_blocks):
                union.add(batch.block(k))
            self._number += 1
        net_ptr, pins, cost, source = union.merged()
        available = population.num_vertices
        if "train_mask" in self._source.sampler.needs:
            available = len(population.training)
        weights = np.ones(population.num_vertices, dtype=np.int64)
        return NetSample(
            Hypergraph(net_ptr, pins, weights, net_costs=cost, net_sources=source),
            self._number,
            union.num_nets,
            union.vertices_seen / max(available, 1),
            union.nonzeros_seen,
            full=union.num_pins > FULL * most,
        )


def fitted(hypergraph: Hypergraph, inclusion: Inclusion) -> Hypergraph:
    """Approximate an expected volume by nets with constant costs.

    A net's source is the vertex whose row is sent. A part that has c other pins of the net gets the
    row with probability ``inclusion.reach[c]``. The approximation is
    ``alpha * (c > 0) + beta * c``; alpha and beta of a net are such that it is exact if c is 1 or
    half of the net's pins. So every net keeps its pins, at the cost alpha, and each pin except the
    source gets a net of two pins, itself and the source, at the cost beta. Costs are scaled:
    alpha + beta is `FITTED_COST`. Nets whose cost is rounded to 0 are left out.
    """
    assert hypergraph.net_sources is not None
    size = np.diff(hypergraph.net_ptr)
    half = np.maximum(size // 2, 2)
    reach = inclusion.reach
    if reach[1] == 0:  # batches of one vertex send no rows: use the number of pins
        reach = np.arange(len(reach), dtype=np.float64)
    reach = reach / reach[1]
    beta = np.where(size > 2, (reach[np.minimum(half, len(reach) - 1)] - 1) / (half - 1), 0.0)
    pair_cost = np.rint(FITTED_COST * beta).astype(np.int64)
    net_cost = FITTED_COST - pair_cost

    owner = np.repeat(np.arange(len(size)), size)
    source = hypergraph.net_sources[owner]
    paired = (hypergraph.pins != source) & (pair_cost[owner] > 0)
    pairs = np.stack([source[paired], hypergraph.pins[paired]], axis=1)
    kept = net_cost > 0
    sizes = np.concatenate([size[kept], np.full(len(pairs), 2)])
    return Hypergraph(
        net_ptr=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        pins=np.concatenate([hypergraph.pins[kept[owner]], pairs.ravel()]).astype(np.int32),
        vertex_weights=hypergraph.vertex_weights,
        net_costs=np.concatenate([net_cost[kept], pair_cost[owner[paired]]]),
        net_sources=np.concatenate([hypergraph.net_sources[kept], pairs[:, 0]]).astype(np.int32),
    )


def fitted_cut(
    graph: WeightedGraph, hypergraph: Hypergraph, inclusion: Inclusion, num_parts: int
) -> WeightedGraph:
    """Approximate an expected volume by the weight of the cut edges of a graph.

    A net contains its source, the vertex whose row it stands for, and m other pins. As an
    approximation, c = m / num_parts of these pins (at least 1) are in every part. A part needs the
    row with probability reach[c] (`inclusion`), so each pin adds ``reach[c] / c`` rows. The weight
    of an edge is proportional to the mean of this number over the nets of its ends. It is
    `FITTED_COST` if c = 1 for both nets, and never less than 1.
    """
    assert hypergraph.net_sources is not None
    reach, others = inclusion.reach, np.diff(hypergraph.net_ptr) - 1
    if reach[1] == 0:  # as in `fitted`
        reach = np.arange(len(reach), dtype=np.float64)
    count = np.maximum(others // num_parts, 1)
    of_column = np.zeros(graph.num_vertices)
    of_column[hypergraph.net_sources] = reach[count] / count / reach[1]
    rows = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    weights = np.rint(FITTED_COST * (of_column[rows] + of_column[graph.indices]) / 2)
    return replace(graph, edge_weights=np.maximum(weights, 1).astype(np.int64))


def _among(
    indptr: npt.NDArray[np.int64], indices: npt.NDArray[np.int32], inside: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
    """Return the CSR pattern of nonzeros (i, j) with `inside` True for i and j; all rows stay."""
    rows = np.repeat(np.arange(len(inside)), np.diff(indptr))
    kept = inside[rows] & inside[indices]
    counts = np.bincount(rows[kept], minlength=len(inside))
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), indices[kept]
