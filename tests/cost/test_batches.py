"""Figures on mini-batches against sets, expectations against all batches there are."""

from itertools import combinations

import numpy as np
import plan_helpers
import pytest
import scipy.stats
from worlds import kept_nonzeros

from plancc.cost.batches import batch_figures, difference, estimate, expected_volume, ratio
from plancc.errors import InputError
from plancc.sampling import FITTED, SHOWN, Inclusion, Population, make_sampler
from plancc.testing.samplers import members_of

N = 48
SAMPLERS = {
    "uniform": {"batch_size": 19},
    "train": {"batch_size": 9},
    "neighbour": {"batch_size": 6, "fanouts": (3, 2)},
    "walk": {"batch_size": 5, "walk_length": 3},
    "cluster": {"batch_size": 2},
    "edges": {"keep": 0.3},
}
FIGURES = ("vertices", "nonzeros", "volume", "max_volume", "messages", "work_imbalance")


def random_population(array: np.ndarray, rng: np.random.Generator) -> Population:
    graph = plan_helpers.graph_of(array)
    n = len(array)
    return Population(
        n,
        graph.indptr,
        graph.indices,
        train_mask=rng.random(n) < 0.6,
        clusters=rng.integers(0, 5, n).astype(np.int32),
    )


@pytest.fixture(scope="module")
def array() -> np.ndarray:
    return plan_helpers.random_array(np.random.default_rng(3), N, 0.12, diagonal="full")


@pytest.fixture(scope="module")
def population(array: np.ndarray) -> Population:
    return random_population(array, np.random.default_rng(4))


@pytest.fixture(scope="module")
def owners() -> list[tuple[np.ndarray, int]]:
    """Random; in blocks; all in one of several parts, the others empty; one part."""
    random = np.random.default_rng(5).integers(0, 7, N)
    blocks = np.arange(N) * 3 // N
    vectors = ((random, 7), (blocks, 3), (np.full(N, 2), 4), (np.zeros(N), 1))
    return [(owner.astype(np.int32), p) for owner, p in vectors]


def naive_figures(kept: list[set[tuple[int, int]]], owner: np.ndarray, p: int) -> dict[str, float]:
    """Of one batch, from the nonzeros that each of its blocks keeps."""
    sent, received, work, messages = [0] * p, [0] * p, [0] * p, 0
    for block in kept:
        moved = {(owner[j], owner[i], j) for i, j in block if owner[i] != owner[j]}
        for sender, receiver, _ in moved:
            sent[sender] += 1
            received[receiver] += 1
        messages += len({(sender, receiver) for sender, receiver, _ in moved})
        for i, _ in block:
            work[owner[i]] += 1
    total = sum(work)
    return {
        **{"nonzeros": total, "volume": sum(sent), "max_volume": max(*sent, *received)},
        **{"messages": messages, "work_imbalance": max(work) * p / total - 1 if total else 0},
    }


@pytest.mark.parametrize("name", SAMPLERS)
def test_figures(name, array, population, owners):
    """The nonzeros of a batch by its factors, as the runtime sees it, counted in sets."""
    sampler = make_sampler(name, N, **SAMPLERS[name])
    numbers = range(5, 25)
    found = batch_figures(sampler, population, owners, numbers, seed=11)
    volumes = []
    for at, number in enumerate(numbers):
        batch = sampler.batch(population, 11, number)
        kept = [set(each) for each in kept_nonzeros(batch, array != 0)]
        assert len(kept) == sampler.num_blocks
        for (owner, p), figures in zip(owners, found, strict=True):
            expected = naive_figures(kept, owner, p)
            expected["vertices"] = len(members_of(batch, N))
            shown = {figure: getattr(figures, figure)[at] for figure in FIGURES}
            assert shown == pytest.approx(expected, rel=1e-12)
        volumes.append(found[0].volume[at])
    assert len(set(volumes)) > 1  # batches differ
    assert found[3].volume.sum() == 0


def test_threads_and_streams(population, owners):
    sampler = make_sampler("uniform", N, batch_size=20)
    alone = batch_figures(sampler, population, owners, range(71), seed=3, stream=FITTED)
    for threads in (2, 3, 64):
        together = batch_figures(
            sampler, population, owners, range(71), seed=3, stream=FITTED, threads=threads
        )
        for a, b in zip(alone, together, strict=True):
            for figure in FIGURES:
                np.testing.assert_array_equal(getattr(a, figure), getattr(b, figure))
    # one owner vector at a time, and some of the batches: the same
    (part,) = batch_figures(sampler, population, owners[1:2], [30, 7], seed=3, stream=FITTED)
    np.testing.assert_array_equal(part.volume, alone[1].volume[[30, 7]])
    (other,) = batch_figures(sampler, population, owners[:1], range(71), seed=3, stream=SHOWN)
    assert (other.volume != alone[0].volume).any()


def test_dtypes_and_a_batch_without_nonzeros():
    population = Population(4, np.zeros(5, dtype=np.int64), np.empty(0, dtype=np.int32))
    owner = np.array([0, 1, 1, 0], dtype=np.int32)
    sampler = make_sampler("uniform", 4, batch_size=2)
    (figures,) = batch_figures(sampler, population, [(owner, 2)], range(3), seed=0)
    for figure in FIGURES[:-1]:
        counts = getattr(figures, figure)
        assert counts.dtype == np.int64
        assert counts.tolist() == [2 * (figure == "vertices")] * 3
    assert figures.work_imbalance.tolist() == [0.0] * 3


def test_what_cannot_be_drawn(population, owners):
    with pytest.raises(InputError, match="`batch_size` 49"):
        batch_figures(make_sampler("uniform", N, batch_size=49), population, owners, [0], seed=0)
    with pytest.raises(InputError, match="needs the pattern"):
        batch_figures(make_sampler("uniform", N), Population(N), owners, [0], seed=0)


def mean_over_all_sets(array, owner, size, vertices) -> float:
    volumes = []
    for chosen in combinations(vertices, size):
        inside = set(chosen)
        moved = {
            (owner[i], j)
            for i in chosen
            for j in np.flatnonzero(array[i]).tolist()
            if j in inside and owner[i] != owner[j]
        }
        volumes.append(len(moved))
    return float(np.mean(volumes))


@pytest.mark.parametrize("diagonal", ["full", "none", "as is"])
def test_expected_volume_is_the_mean_over_all_batches(diagonal):
    rng = np.random.default_rng(8)
    n, p = 9, 3
    array = plan_helpers.random_array(rng, n, 0.45, diagonal=diagonal)
    population = random_population(array, rng)
    owner = rng.integers(0, p, n).astype(np.int32)
    for size in range(1, n + 1):
        inclusion = make_sampler("uniform", n, batch_size=size).inclusion(population, n)
        found = expected_volume(inclusion, *population.pattern, owner, p)
        assert found == pytest.approx(mean_over_all_sets(array, owner, size, range(n)), abs=1e-9)
    assert found > 0


def test_expected_volume_where_some_may_take_part():
    """Each of six of nine vertices with probability 0.3, against all 2^6 sets of them."""
    rng = np.random.default_rng(9)
    array = plan_helpers.random_array(rng, 9, 0.5)
    population = random_population(array, rng)
    owner = (np.arange(9) % 3).astype(np.int32)
    allowed = np.ones(9, dtype=bool)
    allowed[[1, 4, 5]] = False
    share = 0.3
    inclusion = Inclusion(share, 1 - (1 - share) ** np.arange(10), allowed)
    expected = 0.0
    for size in range(7):
        sets = len(list(combinations(range(6), size)))
        probability = sets * share**size * (1 - share) ** (6 - size)
        vertices = np.flatnonzero(allowed).tolist()
        expected += probability * mean_over_all_sets(array, owner, size, vertices)
    found = expected_volume(inclusion, *population.pattern, owner, 3)
    assert found == pytest.approx(expected, rel=1e-12)
    assert found > 0.1


def test_intervals():
    rng = np.random.default_rng(2)
    b = rng.integers(50, 90, 40)
    a = 2 * b + rng.integers(-9, 9, 40)
    shown = estimate(a)
    interval = scipy.stats.ttest_1samp(a, 0).confidence_interval(0.95)
    assert (shown.mean, shown.low, shown.high) == pytest.approx((a.mean(), *interval), rel=1e-12)

    shown = difference(a, b)
    interval = scipy.stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (shown.low, shown.high) == pytest.approx(tuple(interval), rel=1e-12)
    assert shown.mean == pytest.approx(a.mean() - b.mean(), rel=1e-12)

    shown = ratio(a, b)
    r = a.mean() / b.mean()
    (aa, ab), (_, bb) = np.cov(a, b)
    variance = (aa - 2 * r * ab + r * r * bb) / (40 * b.mean() ** 2)
    interval = scipy.stats.t.interval(0.95, 39, r, np.sqrt(variance))
    assert (shown.mean, shown.low, shown.high) == pytest.approx((r, *interval), rel=1e-10)
    unpaired = estimate(a / b.mean())
    assert shown.high - shown.low < (unpaired.high - unpaired.low) / 2


def test_intervals_of_hardly_anything():
    one = estimate(np.array([7]))
    assert (one.mean, one.low, one.high) == (7.0, None, None)
    same = difference(np.array([3, 5]), np.array([3, 5]))
    assert (same.mean, same.low, same.high) == (0.0, 0.0, 0.0)
    assert ratio(np.array([3, 5]), np.array([0, 0])) is None
    shown = ratio(np.array([3]), np.array([4]))
    assert (shown.mean, shown.low, shown.high) == (0.75, None, None)
