"""Stochastic hypergraph model: ``stochastic-hp`` of Demirci et al. 2022, section 4.3.3, and beyond
it.

What is small in the end is the expected volume of a mini-batch. Two ways lead there:

    exact     the sampler's probabilities are known: every column net of the whole matrix costs
              share * sum over parts of reach[pins in the part] (`plancc.sampling.batch.Inclusion`)
    sampled   the column nets of many batches, equal ones merged with the sum of their costs
              (Algorithm 3)

A sample that has not seen most nonzeros several times says little about batches to come: the bound
of equation 14 holds for one partition, not for the best of all on the same sample.
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
from plancc.models.weights import Balance, check_num_parts, vertex_weights
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
"""Name of the objective."""
MAX_NETS = 2**53
"""Largest bound; above it theta or delta is out of reach."""
MAX_BATCHES = 4096
"""Largest sample unless told otherwise."""
PINS_PER_NONZERO = 16
"""Most pins of a sampled hypergraph per nonzero of the matrix."""
FULL = 0.9
"""Share of the bound that merged pins may fill; above it every batch would have to be merged."""
MAX_HUB_GAINS = 2**23
"""Most gains in a sweep, of moves to every part, that columns of most of the rows may ask for."""
FITTED_COST = 1000
"""Cost of a column net and the two-pin nets beside it together, in `fitted`, and of an edge."""


@dataclass(frozen=True, eq=False)
class StochasticModel(Model):
    """Expected volume of a mini-batch, from the sampler's probabilities or sampled batches.

    Attributes:
        sampler: A name in `plancc.sampling.SAMPLERS`.
        theta, delta: Error of the expected connectivity and probability of a larger one (equation
            12).
        batches ("auto" or int): "auto": exact probabilities where the sampler has them, else as
            many batches as it takes; a number: that many batches.
        sampler_options: Options of the sampler; options that are left out take its defaults.
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
    theta: float = option(0.1, "error of the expected connectivity")
    delta: float = option(0.5, "probability of a larger error")
    batches: str | int = option(
        AUTO,
        "number of sampled batches; auto: exact probabilities if known, else enough batches",
        metavar="auto|NUMBER",
    )
    sampler_options: Mapping[str, Any] = field(default_factory=dict, metadata={"internal": True})
    vertex_data: VertexData = field(default_factory=VertexData, metadata={"internal": True})

    def __post_init__(self) -> None:
        if not (isinstance(self.theta, Real) and 0 < self.theta < math.inf):
            raise InputError(f"theta {self.theta!r}: a number above 0 is needed")
        if not (isinstance(self.delta, Real) and 0 < self.delta < 1):
            raise InputError(f"delta {self.delta!r}: must be between 0 and 1")
        is_number = isinstance(self.batches, int | np.integer) and not isinstance(
            self.batches, bool
        )
        if self.batches != AUTO and not (is_number and self.batches >= 1):
            raise InputError(
                f"`batches` {self.batches!r}: '{AUTO}' or a whole number from 1 is needed"
            )
        make_sampler(self.sampler, 1, **self.sampler_options)  # refuses options before any work

    @classmethod
    def option_fields(cls) -> dict[str, Field[Any]]:
        """Options of the model and of all samplers."""
        own = {each.name: each for each in options_of(cls)}
        return own | sampler_options() | own

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> StochasticModel:
        beside = [name for name in ("theta", "delta") if name in options]
        if beside and options.get("batches", AUTO) != AUTO:
            raise InputError(f"`{beside[0]}` is for `batches` {AUTO}: a number needs none")
        own = {each.name for each in fields(cls)}
        of_sampler = {name: value for name, value in options.items() if name not in own}
        given = {name: value for name, value in options.items() if name in own}
        return cls(sampler_options=of_sampler, **given)

    def check_layers(self, num_layers: int) -> None:
        """Raise InputError unless batches have one block for all layers, or one for each."""
        make_sampler(self.sampler, 1, **self.sampler_options).check_layers(num_layers)

    def with_data(self, vertex_data: VertexData) -> StochasticModel:
        """The same with the training mask and the clusters of `vertex_data`."""
        return replace(self, vertex_data=vertex_data)

    def unfit(self, matrix: Graph, num_parts: int) -> str:
        """A row that most rows need, in too many parts for gains of moves to be cheap."""
        needed = np.bincount(matrix.indices, minlength=matrix.num_vertices)
        vertex = int(needed.argmax())
        most = int(needed[vertex])
        pins = int(needed[2 * needed > matrix.num_vertices].sum())
        if pins * num_parts <= MAX_HUB_GAINS:
            return ""
        return (
            f"model 'stochastic-hp' is not made for this graph: row {vertex} is needed by {most:,} "
            f"of {matrix.num_vertices:,} rows, so nearly every part needs it in nearly every "
            "batch; take model hp, or these owners of a quick search for the volume"
        )

    def source(self, matrix: Graph) -> BatchSource:
        """Sampler and population for a matrix.

        Raises:
            InputError: Options that the sampler does not have or lacks, or that the matrix or the
                vertex data do not allow.
        """
        mask = self.vertex_data.train_mask
        sampler = make_sampler(
            self.sampler,
            matrix.num_vertices,
            None if mask is None else int(mask.sum()),
            **self.sampler_options,
        )
        population = Population(
            matrix.num_vertices,
            matrix.indptr,
            matrix.indices,
            train_mask=mask,
            clusters=self.vertex_data.clusters,
        )
        sampler, remark = sampler.fitted(population)
        sampler.check(population)
        return BatchSource(sampler, population, remark)

    def build(
        self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int
    ) -> Hypergraph:
        """The hypergraph for a partitioner.

        With exact probabilities that is `fitted`; else the nets of `batches` batches, or of as
        many as equation 14 asks for.
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
        """The given number, or equation 14's, but no more than `MAX_BATCHES`."""
        if self.batches != AUTO:
            return int(self.batches)
        nets = hoeffding_nets(num_parts, self.theta, self.delta)
        return min(batches_of(nets, source.nets_per_batch(seed)), MAX_BATCHES)


def hoeffding_nets(num_parts: int, theta: float, delta: float) -> int:
    """Nets that bound the error of the expected connectivity (Demirci et al. 2022, equation 14).

    ``(p - 1)^2 / (2 theta^2) ln(2 / delta)``, rounded up: for one given partition the mean
    connectivity of that many nets is off by theta or more with probability delta at most.

    Raises:
        InputError: More than `MAX_NETS`.
    """
    ratio = (num_parts - 1) / theta
    nets = ratio * ratio / 2 * (math.log(2) - math.log(delta))
    if nets > MAX_NETS:
        raise InputError(
            f"theta {theta:g}, delta {delta:g}: Hoeffding's bound is above {MAX_NETS} nets"
        )
    return math.ceil(nets)


def batches_of(nets: int, nets_per_batch: float) -> int:
    """Batches that have this number of nets, at least 1; 1 also where no batch has a net."""
    return max(1, math.ceil(nets / nets_per_batch)) if nets_per_batch > 0 else 1


@dataclass(frozen=True, eq=False)
class NetSample:
    """The merged nets of some batches.

    Attributes:
        hypergraph: With costs (how many batches have this net) and sources; vertex weights are 1.
        num_batches: Fewer than asked for where the pins reached their bound, or time was up.
        num_nets: Of all batches before merging, including nets of one pin.
        vertices_seen, nonzeros_seen: Shares of the vertices that may take part, and of the nonzeros
            off the diagonal, that occurred in any batch.
        full: Whether the pins reached their bound.
    """

    hypergraph: Hypergraph
    num_batches: int
    num_nets: int
    vertices_seen: float
    nonzeros_seen: float
    full: bool


@dataclass(frozen=True, eq=False)
class BatchSource:
    """A sampler with a population that it was checked for, and a remark on its batches."""

    sampler: Sampler
    population: Population
    remark: str = ""

    def nets_per_batch(self, seed: int) -> float:
        """Mean number of nets in the first batches of the fitted sample."""
        return float(np.mean([self._num_columns(seed, k) for k in range(4)]))

    def _num_columns(self, seed: int, number: int) -> int:
        batch = draw(self.sampler, self.population, seed, number, FITTED)
        return sum(len(np.unique(batch.block(k).columns)) for k in range(batch.num_blocks))

    def exact(self, weights: npt.NDArray[np.int64]) -> tuple[Hypergraph, Inclusion] | None:
        """Column nets among the vertices that may take part, and their probabilities.

        None where the sampler's probabilities are not known.
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
        """The nets of batches 0..num_batches - 1, in at most `PINS_PER_NONZERO` pins a nonzero."""
        return GrowingSample(self, seed, stream).grown(num_batches)

    def pairs(self) -> npt.NDArray[np.int32]:
        """Column and row of every nonzero off the diagonal, int32[m, 2]."""
        indptr, indices = self.population.pattern
        rows = np.repeat(np.arange(self.population.num_vertices, dtype=np.int32), np.diff(indptr))
        off = rows != indices
        return np.stack([indices[off], rows[off]], axis=1)

    def expected_nonzeros(self, seed: int, num_batches: int = 64) -> npt.NDArray[np.float64]:
        """Expected nonzeros of every row in a batch, float64[n]: exact, or a mean over batches."""
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
    """The nets of more and more batches of one stream; equal ones are merged as they come.

    Parameters:
        seed, stream: See `plancc.sampling.Sampler.batch`.
    """

    def __init__(self, source: BatchSource, seed: int, stream: int = FITTED) -> None:
        self._source, self._seed, self._stream = source, seed, stream
        self._union: NetUnion | None = None
        self._number = 0

    def grown(self, num_batches: int, stop: Callable[[], bool] = lambda: False) -> NetSample:
        """The sample with batches up to `num_batches`, if memory allows and `stop` does not say so.

        It has one batch at least.
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
    """Nets with plain costs that come close to an expected volume, for any partitioner.

    A net's row reaches a part that has c of its other pins with probability reach[c], which is
    concave in c. It is drawn as ``alpha * (c > 0) + beta * c``: a column net of cost alpha, and a
    two-pin net of cost beta between its source and every other pin, so that c = 1 and c = half of
    the pins are exact. All column nets for batches of everything, all two-pin nets (the edge cut)
    for tiny ones.

    Parameters:
        hypergraph: Column nets with sources.

    Returns:
        Costs are scaled to `FITTED_COST` for one pin; those below 1/2 are left out.
    """
    assert hypergraph.net_sources is not None
    size = np.diff(hypergraph.net_ptr)
    half = np.maximum(size // 2, 2)
    reach = inclusion.reach
    if reach[1] == 0:  # batches of one vertex: whatever moves least in the smallest larger ones
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
    """Edge weights whose cut comes close to an expected volume.

    The other pins of a net of m are drawn as if spread evenly over the parts, c = m / num_parts in
    each, one at least: then every pin costs ``reach[c] / c``, in units of the cost of one alone. So
    the edges of a hub weigh less than others.

    Parameters:
        hypergraph: Column nets with sources.

    Returns:
        A nonzero that is alone weighs `FITTED_COST`; edges that no net has weigh 1.
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
    """The nonzeros between the vertices inside, all rows kept."""
    rows = np.repeat(np.arange(len(inside)), np.diff(indptr))
    kept = inside[rows] & inside[indices]
    counts = np.bincount(rows[kept], minlength=len(inside))
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64), indices[kept]
