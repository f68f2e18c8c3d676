"""The model of mini-batches: its nets against dictionaries of sets, its bound, what it refuses."""

import math
from collections import Counter
from decimal import Decimal
from itertools import combinations, pairwise

import numpy as np
import pytest
import worlds
from worlds import graph_of

from plancc.errors import InputError
from plancc.graph.vertexdata import VertexData
from plancc.models.graph import GraphModel
from plancc.models.nets import merge_equal_nets
from plancc.models.stochastic import (
    FITTED_COST,
    MAX_BATCHES,
    PINS_PER_NONZERO,
    StochasticModel,
    fitted,
    fitted_cut,
    hoeffding_nets,
)
from plancc.models.weights import Balance, vertex_weights
from plancc.sampling import FITTED, HELD_OUT
from plancc.testing.samplers import members_of

N = 30
TRAIN = np.arange(N) % 3 != 1
CLUSTERS = (np.arange(N) * 7 % 5).astype(np.int32)
DATA = VertexData(train_mask=TRAIN, clusters=CLUSTERS)
SAMPLERS = {
    "uniform": {"batch_size": 12},
    "train": {"batch_size": 9},
    "neighbour": {"batch_size": 4, "fanouts": (3, 2)},
    "walk": {"batch_size": 8, "walk_length": 3},
    "cluster": {"batch_size": 14},
    "edges": {"keep": 0.4},
}


def random_array(seed: int = 0, n: int = N, density: float = 0.15, diagonal="some") -> np.ndarray:
    return worlds.random_pattern(n, density, seed, diagonal)


def stochastic(sampler: str = "uniform", **options) -> StochasticModel:
    """The model with options of its own and of its sampler."""
    return StochasticModel.from_options({"sampler": sampler} | options)


def net_counts(hypergraph) -> Counter:
    """Cost of every net, by the set of its pins and its source."""
    found: Counter = Counter()
    for e, pins in enumerate(worlds.net_list(hypergraph)):
        assert len(set(pins)) == len(pins) > 1
        assert hypergraph.net_sources[e] in pins
        key = frozenset(pins), int(hypergraph.net_sources[e])
        assert key not in found  # equal ones are merged
        found[key] = 1 if hypergraph.net_costs is None else int(hypergraph.net_costs[e])
    return found


def nets_by_hand(source, array, numbers, seed: int) -> tuple[Counter, int, set, set]:
    """Nets of several pins, number of all nets, vertices and nonzeros that the batches show."""
    found: Counter = Counter()
    num_nets, vertices, nonzeros = 0, set(), set()
    for number in numbers:
        batch = source.sampler.batch(source.population, seed, number, FITTED)
        vertices |= set(members_of(batch, len(array)).tolist())
        for kept in worlds.kept_nonzeros(batch, array):
            pins: dict[int, set[int]] = {}
            for i, j in kept:
                pins.setdefault(j, {j}).add(i)
                if i != j:
                    nonzeros.add((i, j))
            num_nets += len(pins)
            found.update((frozenset(net), j) for j, net in pins.items() if len(net) > 1)
    return found, num_nets, vertices, nonzeros


@pytest.mark.parametrize(
    ("p", "theta", "delta"),
    [
        (27, 0.1, 0.5),
        (2, 0.1, 0.5),
        (3, 0.25, 0.01),
        (256, 0.1, 0.5),
        (9, 3.0, 0.999),
        (27, 1, 0.5),
    ],
)
def test_hoeffding(p, theta, delta):
    """Equation 14, in decimal."""
    exact = Decimal(p - 1) ** 2 / (2 * Decimal(theta) ** 2) * (2 / Decimal(delta)).ln()
    assert hoeffding_nets(p, theta, delta) - 1 < exact <= hoeffding_nets(p, theta, delta)


def test_hoeffding_at_its_ends():
    assert hoeffding_nets(27, 0.1, 0.5) == 46857
    assert hoeffding_nets(1, 0.1, 0.5) == 0
    assert hoeffding_nets(1, 5e-324, 5e-324) == 0
    assert hoeffding_nets(9, 1e200, 0.5) in (0, 1)
    assert hoeffding_nets(2, 1, 5e-324) == math.ceil((1075 * math.log(2)) / 2)
    for theta, delta in ((1e-12, 0.5), (1e-160, 0.5), (1e-200, 0.5), (5e-324, 5e-324)):
        with pytest.raises(InputError, match=f"theta {theta:g}, delta {delta:g}.*9007199254740992"):
            hoeffding_nets(27, theta, delta)


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_given_number_of_batches(name):
    """All pins, sources and costs of the union; coverage."""
    array = random_array(1)
    model = stochastic(name, **SAMPLERS[name], vertex_data=DATA, batches=7)
    source = model.source(graph_of(array))
    sample = source.sample(7, seed=5)
    expected, num_nets, vertices, nonzeros = nets_by_hand(source, array, range(7), 5)
    assert net_counts(sample.hypergraph) == expected
    assert max(expected.values()) <= 7 * source.sampler.num_blocks
    assert (sample.num_batches, sample.num_nets) == (7, num_nets)
    available = TRAIN.sum() if name == "train" else N
    assert sample.vertices_seen == pytest.approx(len(vertices) / available)
    off = array.sum() - np.trace(array)
    assert sample.nonzeros_seen == pytest.approx(len(nonzeros) / off)
    assert 0 < sample.nonzeros_seen <= 1

    built = model.build(graph_of(array), 3, balance="nnz", seed=5)
    assert net_counts(built) == expected
    assert built.vertex_weights.tolist() == array.sum(axis=1).tolist()
    other = source.sample(7, seed=6).hypergraph
    assert name == "edges" or net_counts(other) != expected
    assert net_counts(source.sample(7, 5, HELD_OUT).hypergraph) != expected


def test_many_batches_are_merged_on_the_way():
    """300 batches of a small matrix: far more pins than may be held, but for equal nets."""
    array = random_array(2, 8, 0.4)
    source = stochastic(batch_size=4).source(graph_of(array))
    sample = source.sample(300, seed=1)
    expected, num_nets, _, nonzeros = nets_by_hand(source, array, range(300), 1)
    assert sum(len(pins) * cost for (pins, _), cost in expected.items()) > 16 * array.sum()
    assert net_counts(sample.hypergraph) == expected
    assert (sample.num_batches, sample.num_nets) == (300, num_nets)
    assert len(nonzeros) == array.sum() - np.trace(array)
    assert sample.nonzeros_seen == 1


def test_the_pins_of_a_sample_are_bounded():
    array = random_array(3, 60, 0.2)
    source = stochastic(batch_size=30).source(graph_of(array))
    sample = source.sample(10**9, seed=1)
    most = PINS_PER_NONZERO * array.sum()
    assert 20 < sample.num_batches < 10**4
    assert most / 2 < len(sample.hypergraph.pins) < most + array.sum()
    expected = nets_by_hand(source, array, range(sample.num_batches), 1)[0]
    assert net_counts(sample.hypergraph) == expected


@pytest.mark.parametrize("self_loops", [False, True])
def test_a_sample_without_nets(self_loops):
    array = np.eye(5, dtype=bool) if self_loops else np.zeros((5, 5), dtype=bool)
    model = stochastic(batch_size=2, batches=3)
    sample = model.source(graph_of(array)).sample(3, seed=0)
    assert sample.hypergraph.num_nets == 0
    assert sample.num_nets == (6 if self_loops else 0)
    assert sample.nonzeros_seen == 1.0  # of none
    assert model.source(graph_of(array)).nets_per_batch(0) == (2 if self_loops else 0)
    assert model.build(graph_of(array), 2, balance="rows", seed=0).num_nets == 0


@pytest.mark.parametrize("name", SAMPLERS)
def test_nets_per_batch(name):
    """Mean over the first four batches of the sample, nets of one pin among them."""
    array = random_array(4)
    source = stochastic(name, **SAMPLERS[name], vertex_data=DATA).source(graph_of(array))
    num_nets = nets_by_hand(source, array, range(4), 8)[1]
    assert source.nets_per_batch(8) == pytest.approx(num_nets / 4)


def test_batches_of_equation_14():
    array = random_array(5)
    graph = graph_of(array)
    options = {"sampler": "walk", **SAMPLERS["walk"]}
    model = stochastic(**options, theta=0.4)
    source = model.source(graph)
    number = math.ceil(hoeffding_nets(3, 0.4, 0.5) / source.nets_per_batch(2))
    assert number > 2
    assert model.num_batches(source, 3, 2) == number
    built = model.build(graph, 3, balance="rows", seed=2)
    given = stochastic(**options, batches=number).build(graph, 3, balance="rows", seed=2)
    assert net_counts(built) == net_counts(given)
    assert stochastic(**options, theta=1e-6).num_batches(source, 3, 2) == MAX_BATCHES
    assert stochastic(**options, batches=10**6).num_batches(source, 3, 2) == 10**6


def test_merging_tells_sizes_and_sources_apart():
    rng = np.random.default_rng(6)
    for with_size in (False, True):
        for with_source in (False, True):
            nets = [rng.permutation(5)[: rng.integers(2, 5)] for _ in range(400)]
            ptr = np.concatenate([[0], np.cumsum([len(net) for net in nets])]).astype(np.int64)
            pins = np.concatenate(nets).astype(np.int32)
            size = rng.integers(1, 3, len(pins) if with_size else 0).astype(np.int32)
            source = rng.integers(0, 3, 400 if with_source else 0).astype(np.int32)
            cost = rng.integers(1, 9, 400)

            def counts(ptr, pins, size, cost, source):
                found = Counter()
                for e, (a, b) in enumerate(pairwise(ptr.tolist())):
                    sizes = size[a:b].tolist() if len(size) else [1] * (b - a)
                    of = frozenset(zip(pins[a:b].tolist(), sizes, strict=True))
                    found[of, int(source[e]) if len(source) else None] += int(cost[e])
                return found

            merged = merge_equal_nets(ptr, pins, size, cost, source)
            expected = counts(ptr, pins, size, cost, source)
            assert counts(*merged) == expected
            assert len(merged[3]) == len(expected)


def columns_of(array, inside=None) -> dict[int, set[int]]:
    """Pins of every column that has several, its own row among them."""
    n = len(array)
    inside = np.ones(n, bool) if inside is None else inside
    nets = {}
    for j in np.flatnonzero(inside).tolist():
        pins = {j, *np.flatnonzero(array[:, j] & inside).tolist()}
        if len(pins) > 1:
            nets[j] = pins
    return nets


@pytest.mark.parametrize("name", ["uniform", "train", "edges"])
def test_exact_nets(name):
    """The column nets among those that may take part."""
    array = random_array(7)
    graph = graph_of(array)
    source = stochastic(name, **SAMPLERS[name], vertex_data=DATA).source(graph)
    weights = vertex_weights(graph, "nnz,rows")
    hypergraph, inclusion = source.exact(weights)
    nets = columns_of(array, TRAIN if name == "train" else None)
    assert net_counts(hypergraph) == {(frozenset(pins), j): 1 for j, pins in nets.items()}
    assert len(inclusion.reach) > max(map(len, nets.values()))
    assert hypergraph.vertex_weights is weights


def test_no_exact_nets_where_probabilities_are_not_known():
    graph = graph_of(random_array(7))
    for name in ("neighbour", "walk", "cluster"):
        source = stochastic(name, **SAMPLERS[name], vertex_data=DATA).source(graph)
        assert source.exact(vertex_weights(graph, "nnz")) is None


def cost_of(hypergraph, owner) -> int:
    """Connectivity - 1."""
    nets = net_counts(hypergraph).items()
    return sum(cost * (len({int(owner[v]) for v in pins}) - 1) for (pins, _), cost in nets)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 10, 20, 29, 30])
def test_fitted_costs(batch_size):
    """alpha (c > 0) + beta c for each other part with c pins; c = 1 and c = half are exact."""
    array = random_array(8, density=0.25)
    graph = graph_of(array)
    model = stochastic(batch_size=batch_size)
    built = model.build(graph, 4, balance="nnz", seed=1)
    reach = [
        1 - math.comb(N - 1 - c, batch_size - 1) / math.comb(N - 1, batch_size - 1)
        for c in range(N)
    ]
    if batch_size == 1:
        reach = list(range(N))  # the edge cut
    rng = np.random.default_rng(9)
    owners = rng.integers(4, size=(20, N))
    totals = np.zeros(20)
    for j, pins in columns_of(array).items():
        half = max(len(pins) // 2, 2)
        beta = 0.0
        if len(pins) > 2:
            beta = (reach[half] / reach[1] - 1) / (half - 1)
        beta = round(FITTED_COST * beta)
        alpha = FITTED_COST - beta
        assert alpha + half * beta == pytest.approx(
            FITTED_COST * (reach[half] / reach[1] if len(pins) > 2 else 1), abs=half / 2
        )
        for k, owner in enumerate(owners):
            count = Counter(int(owner[i]) for i in pins if owner[i] != owner[j])
            totals[k] += sum(alpha + beta * c for c in count.values())
    assert [cost_of(built, owner) for owner in owners] == totals.tolist()
    assert built.vertex_weights.tolist() == array.sum(axis=1).tolist()
    assert built.net_costs.min() >= 1

    sizes = np.diff(built.net_ptr)
    if batch_size == N:  # column nets only
        nets = columns_of(array)
        assert net_counts(built) == {(frozenset(p), j): FITTED_COST for j, p in nets.items()}
    elif batch_size <= 2:  # pairs only
        edges = {(frozenset((i, j)), j) for i, j in np.argwhere(array).tolist() if i != j}
        assert net_counts(built) == dict.fromkeys(edges, FITTED_COST)
    else:
        assert (sizes == 2).any()
        assert (sizes > 2).any()


def test_fitted_costs_follow_the_expectation():
    """Of random partitions: within a few percent, much closer than cut and volume."""
    array = random_array(10, 60, 0.1, "full")
    rng = np.random.default_rng(0)
    n, size = 60, 15
    source = stochastic(batch_size=size).source(graph_of(array))
    hypergraph, inclusion = source.exact(np.ones(n, np.int64))
    model = fitted(hypergraph, inclusion)
    reach = [1 - math.comb(n - 1 - c, size - 1) / math.comb(n - 1, size - 1) for c in range(n)]
    for _ in range(5):
        owner = rng.integers(4, size=n)
        exact, cut, volume = 0.0, 0, 0
        for j, pins in columns_of(array).items():
            count = Counter(int(owner[i]) for i in pins if owner[i] != owner[j])
            exact += sum(reach[c] for c in count.values())
            cut += count.total()
            volume += len(count)
        error = abs(cost_of(model, owner) / FITTED_COST * reach[1] - exact)
        assert error < 0.06 * exact
        assert error < 0.5 * min(abs(cut * reach[1] - exact), abs(volume * reach[1] - exact))


@pytest.mark.parametrize("size", [1, 2, 12, 30])
def test_weights_of_a_cut(size):
    """Every end of an edge asks reach[c] / c, where c pins of its column are in each part."""
    array = random_array(12, 30, 0.2, "full")
    array |= array.T
    array[0] = array[:, 0] = True  # a hub
    matrix = graph_of(array)
    graph = GraphModel().build(matrix, 4, balance="nnz", seed=0)
    exact = stochastic(batch_size=size).source(matrix).exact(np.ones(30, np.int64))
    cut = fitted_cut(graph, *exact, 4)
    degree = array.sum(axis=1) - 1
    count = np.maximum(degree // 4, 1)
    reach = np.array([1 - math.comb(29 - c, size - 1) / math.comb(29, size - 1) for c in count])
    first = 1 - math.comb(28, size - 1) / math.comb(29, size - 1)
    each = reach / count / first if size > 1 else np.ones(30)
    rows = np.repeat(np.arange(30), np.diff(graph.indptr))
    wanted = FITTED_COST * (each[rows] + each[graph.indices]) / 2
    assert np.abs(cut.edge_weights - wanted).max() <= 0.5 + 1e-9
    hub = (rows == 0) | (graph.indices == 0)
    assert (cut.edge_weights[hub].max() < cut.edge_weights[~hub].max()) == (size > 2)
    assert cut.indices is graph.indices


def test_fitted_where_nothing_can_move():
    """No two training vertices share an edge."""
    array = np.zeros((6, 6), dtype=bool)
    array[0, 1] = array[2, 3] = True
    data = VertexData(train_mask=np.array([True, False, True, False, True, True]))
    model = stochastic("train", batch_size=2, vertex_data=data)
    built = model.build(graph_of(array), 2, balance="rows", seed=0)
    assert built.num_nets == 0
    assert built.pins.dtype == np.int32
    assert built.net_ptr.tolist() == [0]


@pytest.mark.parametrize("diagonal", ["some", "full", "none"])
def test_expected_nonzeros_over_all_sets(diagonal):
    array = random_array(11, 7, 0.5, diagonal)
    for size in range(1, 8):
        sets = list(combinations(range(7), size))
        expected = np.zeros(7)
        for chosen in sets:
            inside = np.isin(np.arange(7), chosen)
            expected += (array & np.outer(inside, inside)).sum(axis=1) / len(sets)
        source = stochastic(batch_size=size).source(graph_of(array))
        np.testing.assert_allclose(source.expected_nonzeros(0), expected, rtol=1e-12)


def test_expected_nonzeros_of_training_vertices_and_of_edges():
    array = random_array(12, 7, 0.5)
    train = np.array([True, True, False, True, True, False, True])
    source = stochastic("train", batch_size=2, vertex_data=VertexData(train_mask=train)).source(
        graph_of(array)
    )
    expected = np.zeros(7)
    for chosen in combinations(np.flatnonzero(train).tolist(), 2):
        inside = np.isin(np.arange(7), chosen)
        expected += (array & np.outer(inside, inside)).sum(axis=1) / 10
    np.testing.assert_allclose(source.expected_nonzeros(0), expected, rtol=1e-12)
    found = stochastic("edges", keep=0.3).source(graph_of(array)).expected_nonzeros(0)
    off = array & ~np.eye(7, dtype=bool)
    np.testing.assert_allclose(found, 0.3 * off.sum(axis=1) + array.diagonal(), rtol=1e-12)


@pytest.mark.parametrize("name", ["neighbour", "walk", "cluster"])
def test_expected_nonzeros_are_a_mean_over_batches(name):
    array = random_array(13)
    source = stochastic(name, **SAMPLERS[name], vertex_data=DATA).source(graph_of(array))
    total = np.zeros(N)
    for number in range(20):
        batch = source.sampler.batch(source.population, 3, number, FITTED)
        for kept in worlds.kept_nonzeros(batch, array):
            for i, _ in kept:
                total[i] += 1 / 20
    np.testing.assert_allclose(source.expected_nonzeros(3, 20), total, rtol=1e-12)
    assert total.max() > 0


def test_balance_batch():
    """In thousandths of the mean."""
    expected = np.array([0.0, 1.0, 2.0, 5.0])
    graph = graph_of(random_array(14, 4, 0.5))
    balance = Balance(("rows", "batch"), expected_nonzeros=expected)
    assert vertex_weights(graph, balance).tolist() == [[1, 0], [1, 500], [1, 1000], [1, 2500]]
    with pytest.raises(InputError, match="'batch': mini-batches hold no nonzeros"):
        vertex_weights(graph, Balance(("batch",), expected_nonzeros=np.zeros(4)))


def test_the_default_batch_size():
    array = random_array(16, 100, 0.05)
    train = np.arange(100) < 40
    data = VertexData(train_mask=train)
    for name, options, size in (
        ("uniform", {}, 6),
        ("train", {}, 2),
        ("neighbour", {"fanouts": (2,)}, 2),
        ("walk", {}, 6),
    ):
        source = stochastic(name, vertex_data=data, **options).source(graph_of(array))
        assert source.sampler.batch_size == size
    assert stochastic().source(graph_of(array[:3, :3])).sampler.batch_size == 1


NAN = float("nan")
WRONG = [
    *(("theta", value, "a number above 0") for value in (0, -1.5, NAN, math.inf, "0.1", None)),
    *(("delta", value, "must be between 0 and 1") for value in (0, 1.0, NAN, "x")),
    *(
        ("`batches`", value, "'auto' or a whole number from 1")
        for value in (0, -1, 2.0, "3", True, None)
    ),
]


@pytest.mark.parametrize(("name", "value", "words"), WRONG)
def test_wrong_numbers(name, value, words):
    with pytest.raises(InputError) as caught:
        stochastic(**{name.strip("`"): value})
    assert f"{name} {value!r}: {words}" in str(caught.value)


REFUSED = [  # the rest is in tests/sampling/test_samplers.py
    *(
        ("uniform", {"batch_size": value}, f"`batch_size` {value!r}: a whole number")
        for value in (2.5, NAN, "7", True)
    ),
    ("neighbour", {"fanouts": "3,2"}, "`fanouts` '3,2'"),
    ("neighbour", {"fanouts": [2.5]}, "`fanouts` [2.5]: whole numbers"),
    ("edges", {"keep": "x"}, "`keep` 'x': a number"),
    ("walk", {"walk_length": 10**30}, "at most 1000000"),
]


@pytest.mark.parametrize(("sampler", "options", "words"), REFUSED)
def test_wrong_options(sampler, options, words):
    with pytest.raises(InputError) as caught:
        stochastic(sampler, **options).build(graph_of(random_array()), 2, balance="nnz", seed=1)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_batches_larger_than_the_training_mask():
    graph = graph_of(random_array())
    source = stochastic("train", batch_size=21, vertex_data=DATA).source(graph)
    assert str(source.sampler) == "train batch_size=20"
    assert source.remark.startswith("`batch_size` 21: there are only 20 training vertices")


def test_numbers_of_numpy_are_numbers():
    graph = graph_of(random_array())
    plain = stochastic(batch_size=5, batches=3).build(graph, 2, balance="nnz", seed=1)
    model = stochastic(batch_size=np.int32(5), batches=np.int64(3))
    assert net_counts(model.build(graph, 2, balance="nnz", seed=1)) == net_counts(plain)
    assert type(model.source(graph).sampler.batch_size) is int
    model = stochastic("neighbour", fanouts=np.array([3, 2]))
    assert str(model.source(graph).sampler) == "neighbour batch_size=2 fanouts=3,2"
