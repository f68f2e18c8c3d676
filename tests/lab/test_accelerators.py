"""The model of sparse accelerators: by hand, by its properties, and beside what was published."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plancc.errors import InputError
from plancc_lab.accelerators.design import SHIPPED, Accelerator, Cache, OutputTiles, accelerator
from plancc_lab.accelerators.model import Aggregations, estimate, gcn_aggregations, memory_traffic
from plancc_lab.accelerators.published import (
    DATASETS,
    ENERGY_FACTOR,
    SPEEDUP_FACTOR,
    comparisons,
    speedups_over_cpu,
)

ROOT = Path(__file__).parents[2]

ROOMY = OutputTiles(1e6, 1e6, 1e6, 1e6, "csr", 4, "nothing")
PLAIN = Accelerator("plain", 10, 2, 0.5, 100, 0.5, True, 7, 0.25, ROOMY)
MIDDLE = gcn_aggregations(1e6, 3e7, (100, 64, 10))


def test_an_aggregation_that_fits_on_chip() -> None:
    """10 rows of 4 columns: H is 160 bytes, A 30 columns and 10 pointers, Z 80, its mask 5."""
    cost = estimate(PLAIN, Aggregations(10, 30, (4,)))
    assert (cost.features, cost.adjacency, cost.outputs) == (160, 160, 85)
    assert cost.additions == 60  # half of 30 x 4
    assert cost.compute_seconds == 6  # 10 x 2 x 0.5 in a second
    assert cost.memory_seconds == cost.seconds == 405 / 50
    assert cost.joules == pytest.approx(7 * 405 / 50 + 0.25 * 8 * 405)
    waiting = estimate(replace(PLAIN, overlaps=False), Aggregations(10, 30, (4,)))
    assert waiting.seconds == 6 + 405 / 50


def test_without_a_mask_all_is_computed_and_z_is_moved_thrice() -> None:
    machine = replace(PLAIN, memory=replace(ROOMY, mask_buffer=0))
    cost = estimate(machine, Aggregations(10, 30, (4,)))
    assert cost.additions == 120
    assert cost.outputs == 160 + 160 + 5 + 80
    assert estimate(machine, Aggregations(10, 30, (4,), mask_density=1)).additions == 120


def test_slices_and_tiles() -> None:
    """Buffers of 4 numbers, 10 rows of 4 columns and 40 nonzeros.

    ======  ======  =====  ==============  ===========================
    slice   slices  tiles  H               A
    ======  ======  =====  ==============  ===========================
    1       4       3      3 x 160 = 480   4 x (160 + 3 x 40) = 1120
    2       2       5      5 x 160 = 800   2 x (160 + 5 x 40) = 720
    3       2       10     1600            2 x (160 + 10 x 40) = 1120
    4       1       10     1600            160 + 10 x 40 = 560
    ======  ======  =====  ==============  ===========================
    """
    work = Aggregations(10, 40, (4,))
    small = replace(ROOMY, node_buffer=16, output_buffer=16, adjacency_buffer=0)
    found = memory_traffic(small, work, 4)
    assert (found.slice_width, found.features, found.adjacency) == (2, 800, 720)
    pairs = memory_traffic(replace(small, adjacency="pairs"), work, 4)  # 480 + 640, 800 + 320
    assert (pairs.slice_width, pairs.bytes - pairs.outputs) == (1, 1120)
    # 2 rows of Z have a bit each: tiles are half as large, so one column at a time is best
    bits = memory_traffic(replace(small, mask_buffer=0.25), work, 4)
    assert (bits.slice_width, bits.features, bits.adjacency) == (1, 5 * 160, 4 * (160 + 3 * 40))
    # by columns, of which there are 10 whatever the node buffer holds, and A is kept on chip
    csc = memory_traffic(replace(small, adjacency="csc", adjacency_buffer=1000), work, 4)
    assert (csc.slice_width, csc.features, csc.adjacency) == (1, 480, 160 + 3 * 40)


@pytest.mark.parametrize(("skips", "rows"), [("rows", 1), ("windows", 4)])
def test_rows_that_no_nonzero_needs_are_not_read(skips: str, rows: int) -> None:
    """Against drawing the columns of the nonzeros of each of 3 tiles."""
    n, nonzeros, tiles, draws = 100, 90, 3, 4000
    memory = replace(ROOMY, node_buffer=16, output_buffer=4 * 34, skips=skips)
    found = memory_traffic(memory, Aggregations(n, nonzeros, (1,)), 1)
    columns = np.random.default_rng(3).integers(n, size=(draws, nonzeros // tiles))
    read = [rows * len(np.unique(each // rows)) for each in columns]
    assert found.features == pytest.approx(tiles * 4 * np.mean(read), rel=0.02)


def test_a_processor_takes_the_better_order() -> None:
    work = Aggregations(100, 1000, (4,))  # H: 1600 bytes; Z without mask: 1600 x 2.5 + 50
    by_rows = memory_traffic(Cache(400, 8), work, 4)
    # three of four rows miss, beside the first time
    assert (by_rows.features, by_rows.outputs) == (1600 + 0.75 * 900 * 16, 4050)
    assert by_rows.adjacency == 8000 + 400
    by_blocks = memory_traffic(Cache(800, 8), work, 4)
    # 2 blocks: 3200 bytes more of Z, 400 of pointers
    assert (by_blocks.features, by_blocks.outputs) == (1600, 4050 + 3200)
    assert by_blocks.adjacency == 8000 + 800
    fits = memory_traffic(Cache(1600, 8), work, 4)
    assert (fits.features, fits.adjacency, fits.outputs) == (1600, 8400, 4050)


def test_widths_of_a_gcn() -> None:
    assert gcn_aggregations(5, 9, (602, 128, 64, 41)).widths == (602, 128, 64, 128, 64)
    assert gcn_aggregations(5, 9, (7, 3)).widths == (7,)


@pytest.mark.parametrize("name", SHIPPED)
def test_more_of_anything_is_never_slower(name: str) -> None:
    machine = accelerator(name)
    base = estimate(machine, MIDDLE)
    for of in ("adders", "clock", "bandwidth"):
        better = replace(machine, **{of: 2 * getattr(machine, of)})
        assert estimate(better, MIDDLE).seconds <= base.seconds
    buffers = ("node_buffer", "output_buffer", "adjacency_buffer", "cache")
    if name == "hygcn":  # a larger window skips less
        buffers = buffers[1:]
    for of in buffers:
        if hasattr(machine.memory, of):
            larger = replace(machine.memory, **{of: 8 * getattr(machine.memory, of)})
            assert estimate(replace(machine, memory=larger), MIDDLE).bytes <= base.bytes
    for smaller in (
        replace(MIDDLE, nonzeros=2.5e7),
        replace(MIDDLE, widths=(99, 64, 64)),
        replace(MIDDLE, mask_density=0.25),
    ):
        less = estimate(machine, smaller)
        assert less.seconds <= base.seconds
        assert less.joules < base.joules


def test_what_a_mask_is_worth() -> None:
    """Bound by its adders, the masked design alone is quicker the less is kept."""
    all_kept = replace(DATASETS["reddit"].aggregations(), mask_density=1)
    half = DATASETS["reddit"].aggregations()
    for name in SHIPPED:
        ratio = estimate(accelerator(name), all_kept).seconds
        ratio /= estimate(accelerator(name), half).seconds
        assert ratio == pytest.approx(2 if name == "mixgcn-spu" else 1)


def test_the_energies_of_the_cpu_are_speed_ups() -> None:
    """Scaled to the greatest published speed-up, the least is the least published one."""
    implied = speedups_over_cpu().values()
    assert max(implied) == pytest.approx(21.6)
    assert min(implied) == pytest.approx(3.77, rel=0.005)


def test_the_claim_holds_and_is_no_looser_than_it_must_be() -> None:
    found = comparisons()
    assert len(found) == 15 + 20
    worst: dict[float, float] = {}
    for each in found:
        assert each.factor <= each.claimed, each
        worst[each.claimed] = max(worst.get(each.claimed, 1), each.factor)
    for claimed, factor in worst.items():
        assert claimed < factor + 0.1


def test_the_order_of_figure_12() -> None:
    """On every graph MixGCN-SPU is quickest, then AWB-GCN, HyGCN and, last by far, the CPU."""
    for dataset in DATASETS.values():
        work = dataset.aggregations()
        seconds = {name: estimate(accelerator(name), work).seconds for name in SHIPPED}
        order = sorted(SHIPPED, key=lambda name: seconds[name])
        assert order == ["mixgcn-spu", "awb-gcn", "hygcn", "xeon-8462y"]


def test_the_page_says_what_is_claimed() -> None:
    text = (ROOT / "docs" / "results" / "accelerators.md").read_text()
    assert f"factor of **{SPEEDUP_FACTOR}**" in text
    for name, factor in ENERGY_FACTOR.items():
        assert f"| {accelerator(name).name} | {factor} |" in text
    for each in comparisons():  # every modelled figure stands in its row of a table
        start = each.dataset if each.figure == "speed-up" else f"{each.dataset} energy"
        (row,) = re.findall(rf"^\| {start} \|.*$", text, re.M)
        shown = f"{each.value:.2f}" if each.figure == "speed-up" else f"{each.value:,.1f}"
        assert f" {shown} " in row, (each, row)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("adders = 16384", "adders = 0", "'adders' is 0, not a positive finite number"),
        ("adders = 16384", "adders = true", "'adders' is True, not a positive"),
        ("adders = 16384", "adders = inf", "'adders' is inf, not a positive"),
        ("adders = 16384", "", "'adders' is missing"),
        ("adders = 16384", "adder = 16384", "unknown key 'adder' = 16384; give name, adders,"),
        ("utilisation = 0.05", "utilisation = 5", "'utilisation' is 5; a share is at most 1"),
        ("overlaps = true", "overlaps = 1", "'overlaps' is 1, not true or false"),
        ('name = "MixGCN-SPU"', "name = 3", "'name' is 3, not a string"),
        ("memory_energy = 7e-12", "memory_energy = -1", "'memory_energy' is -1, not a positive"),
        ('"csr"', '"coo"', "[tiles]: 'adjacency' is 'coo'; choose from csr, csc, pairs"),
        ('"rows"', "[1]", "[tiles]: 'skips' is [1]; choose from rows, windows, nothing"),
        ("mask_buffer = 4", "mask_buffer = 0.01 #", "[tiles]: 'mask_buffer' is 0.01, less than"),
        ("node_buffer = 3", "node_buffer = 3 #", "[tiles]: 'node_buffer' is 3, less than the 4"),
        ("nonzero_bytes = 4", "nonzero_bytes = 4\nx = 1", "[tiles]: unknown key 'x' = 1; give"),
        ("[tiles]", "[tile]", "has 0 of the tables [tiles] and [cache]; give 1"),
        ("[tiles]", "[cache]\ncache = 3\n[tiles]", "has 2 of the tables [tiles] and [cache]"),
        ("[tiles]", "tiles = 3\n[x]", "'tiles' is 3, not a table [tiles]"),
        ("adders = 16384", "adders = = 2", "is not TOML: "),
        pytest.param(
            *("adders = 16384", f"adders = 0x1{'0' * 4000}", "is not TOML: Exceeds the limit"),
            id="more digits than Python prints",
        ),
    ],
)
def test_bad_files(old: str, new: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    toml = (ROOT / "lab/plancc_lab/accelerators/machines/mixgcn-spu.toml").read_text()
    assert toml.count(old) == 1
    path.write_text(toml.replace(old, new))
    with pytest.raises(InputError) as error:
        accelerator(path)
    assert str(error.value).startswith(f"{path}: {said}")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((0, 0, (1,)), "the graph has no vertices"),
        ((3, 10, (1,)), "10 nonzeros do not fit into a matrix of 3 rows"),
        *(((3, -1, (1,)), "do not fit"), ((3, 1, ()), "at least one")),
        *(
            ((3, 1, (4, 0)), "each 1 or more"),
            ((3, 1, (4,), 1.5), "mask_density 1.5 is not between"),
        ),
        ((float("nan"), 1, (4,)), "the graph has no vertices"),
    ],
)
def test_bad_work(arguments: tuple, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Aggregations(*arguments)
