"""Samplers: what a batch keeps, how likely, and what is refused."""

import itertools
import math
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
from sampling_helpers import kept_by, population_of
from scipy.stats import chi2
from worlds import random_pattern

from plancc.errors import InputError
from plancc.fields import option
from plancc.sampling import (
    SAMPLERS,
    SHOWN,
    Population,
    SizedSampler,
    chosen_sampler,
    make_sampler,
    parse_sampler,
    sampler_options,
)
from plancc.sampling.cluster import ClusterSampler
from plancc.sampling.edges import EdgeSampler
from plancc.sampling.neighbour import NeighbourSampler, _insert_subset, _mark_subset
from plancc.sampling.train import TrainSampler
from plancc.sampling.uniform import UniformSampler, reach_of_sets
from plancc.sampling.walk import WalkSampler
from plancc.testing.samplers import factors_of, members_of

PATTERNS = {
    "one vertex": np.array([[True]]),
    "one vertex without nonzeros": np.array([[False]]),
    "two vertices": np.array([[False, True], [False, False]]),
    "no nonzeros": np.zeros((6, 6), bool),
    "diagonal": np.eye(6, dtype=bool),
    "without diagonal": random_pattern(15, 0.4, diagonal="none"),
    "some diagonal": random_pattern(15, 0.3),
    "full diagonal": random_pattern(15, 0.2, diagonal="full"),
    "symmetric": (lambda a: a | a.T)(random_pattern(15, 0.2, diagonal="full")),
    "complete": np.ones((9, 9), bool),
}


def whole_population(pattern: np.ndarray) -> Population:
    """Every second vertex is for training; clusters have gaps in their numbers."""
    places = np.arange(len(pattern))
    return population_of(pattern, places % 2 == 0, 7 * (places % 4))


def test_rows_of_a_block_are_the_columns_of_the_next():
    """Whatever is the same for all samplers: `plancc.testing.samplers`."""
    for pattern in PATTERNS.values():
        for sampler in (NeighbourSampler(1, (1, 2)), NeighbourSampler(1, (2, 10**30, 1))):
            batch = sampler.batch(whole_population(pattern), 4, 0)
            for k in range(1, batch.num_blocks):
                columns = {j for _, j in kept_by(batch, k)}
                assert batch.block(k - 1).rows.tolist() == sorted(columns)


@pytest.mark.parametrize("name", PATTERNS)
def test_sizes_and_factors(name):
    pattern = PATTERNS[name]
    n = len(pattern)
    population = whole_population(pattern)
    vertices = np.arange(n, dtype=np.int32)
    rows, columns = (ends.astype(np.int32) for ends in np.nonzero(pattern))
    training = set(range(0, n, 2))
    size = (len(training) + 1) // 2

    def members(sampler):
        return set(sampler.batch(population, 0, 1).vertices().tolist())

    assert len(members(UniformSampler(size))) == size
    assert len(members(TrainSampler(size))) == size
    assert members(TrainSampler(size)) <= training
    for walk in (WalkSampler(n, walk_length=2), WalkSampler(n, walk_length=1)):
        roots = max(1, n // (walk.walk_length + 1))
        assert 1 <= len(members(walk)) <= roots * (walk.walk_length + 1)
    clusters = [set(range(c, n, 4)) for c in range(min(n, 4))]
    drawn = max(1, round(n // 2 * len(clusters) / n))
    found = members(ClusterSampler(max(1, n // 2)))
    assert sum(cluster <= found for cluster in clusters) == drawn
    assert found == set().union(*(cluster for cluster in clusters if cluster & found))

    dropped = EdgeSampler(0.4).batch(population, 0, 1).factors(0, vertices, rows, columns)
    for i, j, factor in zip(rows, columns, dropped, strict=True):
        assert factor == 1 if i == j else factor in (0, 1 / 0.4)

    batch = NeighbourSampler(size, (2, 3)).batch(population, 0, 1)
    assert len(batch.block(1).rows) == size
    assert set(batch.block(1).rows.tolist()) <= training
    for k, fanout in ((1, 2), (0, 3)):  # the first fan-out is the output layer's
        kept = kept_by(batch, k)
        found = product_of(batch, k, pattern.astype(np.float64))
        for i in batch.block(k).rows.tolist():
            degree = int(pattern[i].sum()) - int(pattern[i, i])
            others = [j for j in range(n) if (i, j) in kept and j != i]
            assert len(others) == min(fanout, degree)
            assert ((i, i) in kept) == pattern[i, i]
            assert all(found[i, j] == degree / len(others) for j in others)
            assert not pattern[i, i] or found[i, i] == 1


@pytest.mark.parametrize(
    "sampler", [UniformSampler(20), TrainSampler(20), ClusterSampler(15)], ids=str
)
def test_members_need_no_pattern_where_it_is_not_listed(sampler):
    population = population_of(random_pattern(60, 0.2), np.arange(60) < 45, np.arange(60) % 20)
    without = Population(60, None, None, population.train_mask, population.clusters)
    sampler.check(without)
    found = sampler.batch(without, 3, 5)
    assert found.vertices().tolist() == sampler.batch(population, 3, 5).vertices().tolist()
    with pytest.raises(InputError, match="needs the pattern"):
        found.block(0)


# How likely what is. Seeds are fixed: a test that passes once passes always. Bounds are such that a
# right sampler would fail about once in 10,000 seeds.

TIMES = 2000
SIGMAS = 5.0  # of each of some hundred frequencies


def assert_likely(seen: dict, probability: dict, times: int = TIMES) -> None:
    """Counts of events against their probabilities, one by one."""
    assert set(seen) <= set(probability)
    for event, p in probability.items():
        slack = SIGMAS * math.sqrt(times * p * (1 - p))
        assert abs(seen.get(event, 0) - times * p) <= slack + 1e-9, event


def assert_distributed(seen: Counter, probability: dict) -> None:
    """Pearson's test of a whole distribution."""
    assert set(seen) <= set(probability)
    assert math.isclose(sum(probability.values()), 1)
    times = seen.total()
    statistic = sum((seen[x] - times * p) ** 2 / (times * p) for x, p in probability.items())
    assert statistic < chi2.isf(1e-4, len(probability) - 1)


@pytest.mark.parametrize(
    ("sampler", "groups"),
    [
        (UniformSampler(4), [[i] for i in range(12)]),
        (TrainSampler(3), [[i] for i in range(0, 12, 2)]),
        (ClusterSampler(7), [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]),
    ],
    ids=["uniform", "train", "cluster"],
)
def test_vertices_and_pairs_are_drawn_without_replacement(sampler, groups):
    """`drawn` of the groups, every set of them as likely: one by one and two by two."""
    population = whole_population(random_pattern(12, 0.3))
    drawn = {"uniform": 4, "train": 3, "cluster": 2}[sampler.name]
    seen: dict = Counter()
    for number in range(TIMES):
        inside = sampler.batch(population, 9, number).vertices().tolist()
        found = [g for g, group in enumerate(groups) if group[0] in inside]
        assert sorted(i for g in found for i in groups[g]) == inside
        seen.update(itertools.combinations(found, 1))
        seen.update(itertools.combinations(found, 2))
    m = len(groups)
    expected: dict = {(g,): drawn / m for g in range(m)}
    expected |= dict.fromkeys(
        itertools.combinations(range(m), 2), drawn * (drawn - 1) / (m * (m - 1))
    )
    assert_likely(seen, expected)


def test_nonzeros_are_kept_independently():
    pattern = np.ones((5, 5), bool)
    population = population_of(pattern)
    others = [(i, j) for i in range(5) for j in range(5) if i != j]
    seen: dict = Counter()
    for number in range(TIMES):
        kept = kept_by(EdgeSampler(0.3).batch(population, 2, number))
        assert {(i, i) for i in range(5)} <= kept
        off = sorted((i, j) for i, j in kept if i != j)
        seen.update(itertools.combinations(off, 1))
        seen.update(itertools.combinations(off, 2))
    expected: dict = {(nonzero,): 0.3 for nonzero in others}
    expected |= dict.fromkeys(itertools.combinations(others, 2), 0.3**2)
    assert_likely(seen, expected)


def sets_of_walks(pattern: np.ndarray, root: int, length: int) -> dict:
    """Visited set -> probability, by following every walk."""
    found: dict = defaultdict(float)

    def follow(i, left, visited, p):
        neighbours = [j for j in range(len(pattern)) if pattern[i, j] and j != i]
        if not left or not neighbours:
            found[visited] += p
            return
        for j in neighbours:
            follow(j, left - 1, visited | {j}, p / len(neighbours))

    follow(root, length, frozenset([root]), 1.0)
    return found


def test_walks():
    """Two roots of six, every pair as likely, and independent walks of two steps from them."""
    pattern = np.zeros((6, 6), bool)
    for i, j in [(0, 0), (0, 1), (0, 2), (0, 4), (1, 0), (2, 2), (2, 3), (3, 0), (3, 1), (4, 4)]:
        pattern[i, j] = True
    expected: dict = defaultdict(float)
    for a, b in itertools.combinations(range(6), 2):
        of_a, of_b = sets_of_walks(pattern, a, 2), sets_of_walks(pattern, b, 2)
        for x, y in itertools.product(of_a, of_b):
            expected[x | y] += of_a[x] * of_b[y] / 15
    sampler, population = WalkSampler(6, walk_length=2), population_of(pattern)
    seen = Counter(
        frozenset(sampler.batch(population, 6, number).vertices().tolist())
        for number in range(2 * TIMES)
    )
    assert_distributed(seen, expected)


def test_neighbours_are_drawn_without_replacement_and_anew_in_every_block():
    """Row 0 has a diagonal and five other columns, of which two are kept: ten sets per block."""
    pattern = np.eye(7, dtype=bool)
    pattern[0, [1, 2, 3, 5, 6]] = pattern[4, [0, 1, 2, 3, 5]] = True
    population = population_of(pattern, np.arange(7) == 0)
    sampler = NeighbourSampler(1, (2, 2))
    seen = Counter()
    for number in range(2 * TIMES):
        batch = sampler.batch(population, 1, number)
        kept = [kept_by(batch, k) for k in (0, 1)]
        seen[tuple(tuple(sorted(j for i, j in each if i == 0 != j)) for each in kept)] += 1
    sets = [*itertools.combinations([1, 2, 3, 5, 6], 2)]
    assert_distributed(seen, dict.fromkeys(itertools.product(sets, sets), 1 / 100))


@pytest.mark.parametrize("itself", [0, 57, 199, 200], ids="diagonal at {}".format)
@pytest.mark.parametrize("fanout", [1, 2, 100, 198])
def test_large_fanouts_draw_the_same_neighbours(itself, fanout):
    """Whether places of a row, of 200 nonzeros, are inserted in a list or marked."""
    for key in np.arange(20, dtype=np.uint64):
        found = np.full((2, fanout + (itself < 200)), -1, np.int32)
        _insert_subset(found[0], 200, itself, key)
        _mark_subset(found[1], 200, itself, key)
        assert found[0].tolist() == found[1].tolist()
        assert (np.diff(found[0], prepend=-1, append=200) > 0).all()
        assert (itself in found[0]) == (itself < 200)


@pytest.mark.timeout(60)
def test_a_large_fanout_on_a_hub_takes_the_time_of_its_row():
    """Insertion alone would move 250 billion places."""
    n = 2_000_000
    indptr = np.array([0] + [n] * n)
    sampler = NeighbourSampler(1, (1_000_000,))
    population = Population(n, indptr, np.arange(n, dtype=np.int32), np.arange(n) == 0)
    block = sampler.batch(population, 0, 0).block(0)
    assert len(block.columns) == 1_000_001
    assert (np.diff(block.columns) > 0).all()


def test_rows_draw_their_neighbours_independently():
    pattern = np.ones((5, 5), bool)
    population = population_of(pattern)
    seen = Counter()
    for number in range(2 * TIMES):
        kept = kept_by(NeighbourSampler(5, (1,)).batch(population, 1, number))
        seen[tuple(next(j for i, j in kept if i == row != j) for row in (0, 1))] += 1
    assert_distributed(seen, dict.fromkeys(itertools.product([1, 2, 3, 4], [0, 2, 3, 4]), 1 / 16))


def test_seeds_are_drawn_uniformly_among_all_or_training_vertices():
    pattern = random_pattern(8, 0.4)
    for train, among in ((None, range(8)), (np.arange(8) % 3 > 0, [1, 2, 4, 5, 7])):
        population = population_of(pattern, train)
        seen = Counter(
            tuple(NeighbourSampler(2, (1,)).batch(population, 0, number).block(0).rows.tolist())
            for number in range(TIMES)
        )
        sets = [*itertools.combinations(among, 2)]
        assert_distributed(seen, dict.fromkeys(sets, 1 / len(sets)))


def test_reach_of_sets():
    for n in range(1, 9):
        for size in range(1, n + 1):
            found = reach_of_sets(n, size, n - 1)
            for c in range(n):
                none = math.comb(n - 1 - c, size - 1) / math.comb(n - 1, size - 1)
                assert found[c] == pytest.approx(1 - none, abs=1e-12)
    assert reach_of_sets(10**9, 11, 1)[1] == pytest.approx(10 / (10**9 - 1), rel=1e-12)
    assert reach_of_sets(3, 2, 6).tolist() == pytest.approx([0, 0.5, 1, 1, 1, 1, 1])
    assert UniformSampler(2).inclusion(Population(5), 0).reach.tolist() == [0]


def product_of(batch, block: int, array: np.ndarray) -> np.ndarray:
    """The matrix of one block of a batch, dense."""
    found = np.zeros_like(array)
    members = members_of(batch, len(array))
    among = np.ix_(members, members)
    rows, columns = np.nonzero(array[among])
    factors = np.zeros((len(members), len(members)))
    factors[rows, columns] = factors_of(batch, block, members, rows, columns)
    found[among] = array[among] * factors
    return found


@pytest.mark.parametrize(
    "sampler", [EdgeSampler(0.25), NeighbourSampler(8, (2,)), NeighbourSampler(8, (1, 2))], ids=str
)
def test_the_expected_product_is_the_full_one(sampler):
    """Of one layer, and of two layers of which each has its own block."""
    rng = np.random.default_rng(5)
    array = np.where(random_pattern(8, 0.6), rng.uniform(0.5, 2, (8, 8)), 0)
    h = rng.standard_normal((8, 2))
    population = population_of(array != 0)
    found, expected = [], h
    for _ in range(sampler.num_blocks):
        expected = array @ expected
    for number in range(TIMES):
        batch, out = sampler.batch(population, 8, number), h
        for k in range(sampler.num_blocks):
            out = product_of(batch, k, array) @ out
        found.append(out)
    error = np.std(found, axis=0, ddof=1) / math.sqrt(TIMES)
    assert (abs(np.mean(found, axis=0) - expected) <= SIGMAS * error + 1e-9).all()
    assert error.max() > 1e-3  # batches do differ


ERRORS = {
    "uniform 0": (lambda: UniformSampler(0), {}, "`batch_size` 0: must be at least 1"),
    "uniform 7": (lambda: UniformSampler(7), {}, "`batch_size` 7: there are only 6 vertices"),
    "train mask": (
        lambda: TrainSampler(2),
        {},
        "sampler 'train' needs train_mask, which the vertex data",
    ),
    "train empty": (lambda: TrainSampler(1), {"train": [0] * 6}, "training mask holds no vertex"),
    "clusters": (
        lambda: ClusterSampler(2),
        {},
        "sampler 'cluster' needs clusters, which the vertex data",
    ),
    "walk length": (lambda: WalkSampler(2, 0), {}, "`walk_length` 0: must be at least 1"),
    "walk pattern": (lambda: WalkSampler(2), {"pattern": False}, "sampler 'walk' needs pattern"),
    "keep 0": (lambda: EdgeSampler(0.0), {}, "`keep` 0.0: must be above 0 and at most 1"),
    "keep 2": (lambda: EdgeSampler(1.5), {}, "`keep` 1.5: must be above 0"),
    "`keep` nan": (lambda: EdgeSampler(math.nan), {}, "`keep` nan: must be above 0"),
    "fan-outs": (lambda: NeighbourSampler(2, ()), {}, "`fanouts` is empty: give"),
    "fan-out": (lambda: NeighbourSampler(2, (3, 0)), {}, "`fanouts` 3,0: a fan-out must be"),
    "neighbours": (
        lambda: NeighbourSampler(2, (3,)),
        {"pattern": False},
        "'neighbour' needs pattern",
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_what_is_refused(case):
    make, given, words = ERRORS[case]
    given = dict(given)
    pattern = given.pop("pattern", True)
    whole = population_of(np.ones((6, 6), bool), **given)
    population = whole if pattern else Population(6)
    with pytest.raises(InputError, match=words) as caught:
        make().check(population)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("sampler", "train", "available"),
    [
        (UniformSampler(9), None, 6),
        (TrainSampler(9), [1, 0] * 3, 3),
        (NeighbourSampler(2**62, (2,)), None, 6),
        (NeighbourSampler(4, (2,)), [1, 0] * 3, 3),
        (WalkSampler(7), [1, 0] * 3, 6),
        (ClusterSampler(7), None, 6),
    ],
)
def test_a_batch_larger_than_its_source_is_a_smaller_one(sampler, train, available):
    mask = None if train is None else np.array(train, bool)
    population = Population(6, train_mask=mask, clusters=np.zeros(6, np.int32))
    fitted, remark = sampler.fitted(population)
    assert fitted == replace(sampler, batch_size=available)
    assert fitted.batches_per_epoch(population) == 1
    what = "training vertices" if sampler.of_training and train else "vertices"
    assert remark == (
        f"`batch_size` {sampler.batch_size}: there are only {available} {what}, so batches are of "
        f"{available}"
    )
    assert fitted.fitted(population) == (fitted, "")


class TwoBlockSampler(UniformSampler):
    num_blocks = 2


def test_check_layers():
    one, several = UniformSampler(4), NeighbourSampler(4, (3, 2))
    for sampler, fitting in [
        (one, {1, 2, 3}),
        (several, {2}),
        (NeighbourSampler(4, (3,)), {1}),
        (TwoBlockSampler(4), {2}),
    ]:
        for layers in (1, 2, 3):
            if layers in fitting:
                sampler.check_layers(layers)
            else:
                with pytest.raises(InputError, match=f"but the model has {layers} layer"):
                    sampler.check_layers(layers)
    with pytest.raises(InputError, match=r"3,2 has 2 numbers, but the model has 1 layer$"):
        several.check_layers(1)
    with pytest.raises(InputError, match=r"'uniform' draws for 2 layers, but the model has 3"):
        TwoBlockSampler(4).check_layers(3)


def test_batches_per_epoch():
    population = whole_population(np.ones((15, 15), bool))  # 8 for training, 4 clusters
    for sampler, expected in [
        (UniformSampler(4), 4),
        (UniformSampler(15), 1),
        (TrainSampler(3), 3),
        (ClusterSampler(1), 4),
        (ClusterSampler(8), 2),
        (ClusterSampler(11), 2),
        (WalkSampler(4), 4),
        (EdgeSampler(0.1), 1),
        (NeighbourSampler(3, (2,)), 3),
    ]:
        assert sampler.batches_per_epoch(population) == expected, sampler
    assert NeighbourSampler(4, (2,)).batches_per_epoch(population_of(np.ones((15, 15)))) == 4


ALL = [
    UniformSampler(20000),
    TrainSampler(3),
    NeighbourSampler(512, (10, 5)),
    NeighbourSampler(1, (25,)),
    WalkSampler(8, walk_length=2),
    ClusterSampler(5),
    EdgeSampler(0.1),
    EdgeSampler(1 / 3),
]


@pytest.mark.parametrize("sampler", ALL, ids=str)
def test_a_sampler_is_read_back_from_its_words(sampler):
    assert parse_sampler(str(sampler)) == sampler
    assert chosen_sampler(str(sampler), 10**6) == sampler
    assert SAMPLERS[sampler.name] is type(sampler)


def test_all_samplers_are_listed():
    assert {sampler.name for sampler in ALL} == set(SAMPLERS.names())


def test_samplers_from_options():
    assert make_sampler("uniform", 1000) == UniformSampler(60)
    assert make_sampler("train", 3) == TrainSampler(1)
    assert make_sampler("train", 1000, 200) == TrainSampler(12)
    assert make_sampler("uniform", 1000, 200) == UniformSampler(60)
    assert make_sampler("neighbour", 50, fanouts=[4, 3]) == NeighbourSampler(3, (4, 3))
    assert make_sampler("walk", 100) == WalkSampler(6, 3)
    assert make_sampler("edges", 10, keep=0.5) == EdgeSampler(0.5)
    for name, options, words in [
        ("neighbour", {}, "sampler 'neighbour' needs `fanouts`"),
        ("edges", {}, "sampler 'edges' needs `keep`"),
        ("edges", {"keep": 0.5, "batch_size": 3}, "sampler 'edges' has no option `batch_size`"),
        ("uniform", {"walk_length": 3}, "sampler 'uniform' has no option `walk_length`"),
        ("even", {}, "unknown sampler 'even'"),
    ]:
        with pytest.raises(InputError, match=words):
            make_sampler(name, 100, **options)


def test_a_recorded_sampler_is_the_default():
    recorded = str(WalkSampler(8, walk_length=2))
    assert chosen_sampler(recorded, 100, batch_size=12) == WalkSampler(12, 2)
    assert chosen_sampler(recorded, 100, None, "walk", walk_length=5) == WalkSampler(8, 5)
    assert chosen_sampler(recorded, 100, None, "uniform") == UniformSampler(6)
    assert chosen_sampler("", 100) == chosen_sampler("full batch", 100) == UniformSampler(6)


@pytest.mark.parametrize(
    "text", ["", "uniform batch_size=many", "uniform size=3", "walk 3", "neighbour batch_size=2"]
)
def test_words_of_no_sampler(text):
    with pytest.raises(InputError):
        parse_sampler(text)


@dataclass(frozen=True)
class EverySecond(SizedSampler):
    """A third party's: it has options of every type."""

    name: ClassVar[str] = "second"

    first: int = option(0, "first vertex")
    shares: tuple[int, ...] = option((1, 2), "shares")
    rate: float = option(0.5, "rate")
    backwards: bool = option(False, "from the last on")
    label: str | None = option(None, "a label", otherwise="none")

    def batch(self, population, seed, number, stream=SHOWN):
        raise NotImplementedError


def test_options_of_a_third_party_are_the_fields_of_its_class(monkeypatch):
    monkeypatch.setitem(SAMPLERS._targets, "second", f"{__name__}:EverySecond")
    assert make_sampler("second", 50) == EverySecond(3)
    given = {"first": np.int64(1), "shares": [3], "rate": 1, "backwards": True, "label": "a"}
    sampler = make_sampler("second", 50, batch_size=4, **given)
    assert sampler == EverySecond(4, 1, (3,), 1.0, True, "a")
    assert str(sampler) == "second batch_size=4 first=1 shares=3 rate=1.0 backwards=True label=a"
    assert parse_sampler(str(sampler)) == sampler
    assert chosen_sampler(str(sampler), 50, rate=0.25) == replace(sampler, rate=0.25)
    known = sampler_options()
    assert list(known)[:4] == ["batch_size", "fanouts", "walk_length", "keep"]
    assert known["first"].metadata["help"] == "first vertex"
    for wrong, words in [
        ({"first": 1.5}, "`first` 1.5: a whole number"),
        ({"rate": "x"}, "`rate` 'x': a number"),
        ({"backwards": 1}, "`backwards` 1: True or False"),
        ({"last": 1}, "'second' has no option `last`: it has `batch_size`, `first`"),
    ]:
        with pytest.raises(InputError, match=words):
            make_sampler("second", 50, **wrong)
    with pytest.raises(InputError, match="only 50 vertices"):
        EverySecond(51).check(Population(50))
    with pytest.raises(InputError, match="is not a sampler"):
        parse_sampler("second backwards=maybe")
