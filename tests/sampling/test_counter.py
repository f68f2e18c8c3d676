"""Random numbers and orders as functions of a key and a place."""

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy.stats import chi2

from plancc.errors import InputError
from plancc.sampling.counter import at_place, below, bits, first_of, key_of, mix, unit
from plancc.sampling.kernels import ascending, distinct

MOST = 2**64 - 1


def assert_uniform(counts: Counter, outcomes: int) -> None:
    """Pearson's test that all outcomes are as likely; a fair source fails once in 10,000 times."""
    expected = counts.total() / outcomes
    assert len(counts) <= outcomes
    missed = (outcomes - len(counts)) * expected
    statistic = missed + sum((seen - expected) ** 2 / expected for seen in counts.values())
    assert statistic < chi2.isf(1e-4, outcomes - 1)


def test_mix_is_splitmix64():
    """The first outputs of the published generator from seed 1234567."""
    state = 1234567
    for output in (6457827717110365317, 3203168211198807973, 9817491932198370423):
        assert int(mix(np.uint64(state))) == output
        state = (state + 0x9E3779B97F4A7C15) % 2**64


@pytest.mark.parametrize("n", [1, 2, 3, 5, 16, 17, 100, 255, 256, 257, 1000, 4099])
def test_orders_are_bijections(n):
    assert sorted(at_place(place, n, key_of(5, n)) for place in range(n)) == list(range(n))


def test_large_orders_stay_in_range_and_do_not_repeat():
    n, key = 2**31 - 1, key_of(0)
    found = {int(at_place(place, n, key)) for place in (*range(2000), *range(n - 2000, n))}
    assert len(found) == 4000
    assert 0 <= min(found) < max(found) < n


def test_all_orders_are_as_likely():
    counts = Counter(
        tuple(at_place(x, 4, key) for x in range(4)) for key in map(key_of, range(6000))
    )
    assert_uniform(counts, 24)


def test_all_vertices_of_a_place_are_as_likely():
    for x in (0, 36):
        assert_uniform(Counter(at_place(x, 37, key_of(3, k)) for k in range(6000)), 37)


def test_all_sets_are_as_likely():
    counts = Counter(tuple(first_of(7, 3, key_of(k, 1)).tolist()) for k in range(7000))
    assert set(counts) == set(itertools.combinations(range(7), 3))
    assert_uniform(counts, 35)


def test_pairs_of_a_large_order_are_independent():
    """Also pairs of one row or column of the grid that the network works on, here of side 20."""
    numbers = np.array([*range(8), *range(20, 400, 60)])
    times, likely = 4000, 100 * 99 / (400 * 399)
    found = np.array([np.isin(numbers, first_of(400, 100, key_of(k, 6))) for k in range(times)])
    together = (found.T.astype(int) @ found)[np.triu_indices(len(numbers), 1)]
    assert abs(together - times * likely).max() < 5 * np.sqrt(times * likely * (1 - likely))


@pytest.mark.parametrize(("n", "size"), [(1, 1), (9, 9), (1000, 1), (1000, 999), (9, 12)])
def test_first_of_are_those_of_the_first_places(n, size):
    key = key_of(8)
    found = first_of(n, size, key)
    assert found.dtype == np.int32
    assert found.tolist() == sorted(at_place(place, n, key) for place in range(min(size, n)))


@pytest.mark.parametrize("most", [0, 1, 2047, 2048, 2**22, 2**31 - 1])
def test_ascending_and_distinct(most):
    for size in (0, 1, 5000):
        numbers = np.random.default_rng(size).integers(0, most, size, np.int32, endpoint=True)
        kept = numbers.copy()
        assert ascending(numbers).tolist() == sorted(numbers.tolist())
        assert distinct(numbers).tolist() == sorted(set(numbers.tolist()))
        assert np.array_equal(numbers, kept)
        assert distinct(numbers).dtype == np.int32


def test_keys_depend_on_every_number_and_on_their_order():
    numbers = [*itertools.product(range(12), repeat=3), *itertools.product(range(12), repeat=2)]
    assert len({int(key_of(*each)) for each in numbers}) == len(numbers)
    assert int(key_of(1, 2)) == int(key_of(1, 2))
    assert isinstance(key_of(MOST, MOST), np.uint64)


@pytest.mark.parametrize("number", [-1, 2**64])
def test_keys_of_other_numbers_are_refused(number):
    with pytest.raises(InputError, match=f"seed {number} is not in"):
        key_of(0, number)


def test_bits_are_the_keys_of_longer_lists():
    assert int(bits(key_of(4, 5), 6)) == int(key_of(4, 5, 6))


def test_below_and_unit_cover_their_ranges():
    for bound in (1, 3, 2**31):
        assert below(np.uint64(0), bound) == 0
        assert below(np.uint64(MOST), bound) == bound - 1
    random = [np.uint64(bits(key_of(2), k)) for k in range(6000)]
    assert_uniform(Counter(below(each, 11) for each in random), 11)
    assert unit(np.uint64(0)) == 0.0
    assert unit(np.uint64(MOST)) == 1 - 2.0**-53
    assert_uniform(Counter(int(9 * unit(each)) for each in random), 9)
