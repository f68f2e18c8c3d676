"""The shape of Figures 1 and 2 in Tripathy et al. 2020, from sizes and Summit's numbers."""

import pytest

from benchmarks.scaling import OF_TABLE_III, SUMMIT, summit_parts, summit_tables
from plancc.errors import InputError


@pytest.mark.parametrize("name", ["Amazon", "Protein"])
@pytest.mark.parametrize("num_ranks", [16, 36])
def test_replication_helps_where_ranks_do_not_share_a_link(name, num_ranks):
    def ratio(machine):
        one, two = (summit_parts(name, machine, num_ranks, c) for c in (1, 2))
        return two["dbcast"] / one["dbcast"]

    assert 0.9 < ratio("summit") <= 1  # half the words at half the speed
    assert 0.45 < ratio("summit-1gpu") < 0.55


def test_more_ranks_hardly_shorten_broadcasts_of_1d():
    few, many = (summit_parts("Amazon", "summit", number, 1) for number in (16, 100))
    assert many["dbcast"] > few["dbcast"]
    assert many["local"] < few["local"] / 4
    assert few["sbcast"] == few["reduce"] == 0


def test_what_has_no_memory_is_left_out_and_nothing_else():
    assert summit_parts("Amazon", "summit", 16, 4) is None  # as published
    for number in (36, 100):  # 4^2 does not divide them
        assert summit_parts("Reddit", "summit", number, 4)["dbcast"] > 0
    with pytest.raises(InputError, match="16 ranks by replication 3"):
        summit_parts("Reddit", "summit", 16, 3)
    square, sparse = summit_parts("Reddit", "summit", 16, "cagnet-2d"), "sbcast"
    assert square[sparse] > 0
    for table in summit_tables():
        assert len(table.rows) == 4 * len(OF_TABLE_III)
    assert len(SUMMIT) == 2
