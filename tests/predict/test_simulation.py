"""Times of schedules on machines: by hand, for all layouts, and the effects that papers report."""

from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import plan_helpers
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plancc.errors import InputError
from plancc.plan.grid import Grid
from plancc.plan.words import AllGatherWords, AllReduceWords, AllToAllWords, BroadcastWords
from plancc.predict.machine import CollectiveShapes, Compute, Machine, Node, Overlap, SparseRates
from plancc.predict.machine_files import find_machine, shipped_machines
from plancc.predict.memory import NONZERO_BYTES, Memory, row_memory
from plancc.predict.schedule import (
    Operation,
    Pairs,
    Place,
    PointToPoint,
    Schedule,
    SparseProduct,
    Work,
)
from plancc.predict.schedules import Tables, schedule_of, tables_of
from plancc.predict.schedules.epoch import LOSS_CALLS, LOSS_WORDS
from plancc.predict.simulation import simulate

DIMS = [8, 6, 4]
SIMPLE = find_machine("simple")
HERE = Place(1, "forward", "collectives")


def pairs(num_ranks: int, *messages: tuple[int, int, int]) -> Pairs:
    source, target, rows = np.array(messages).T
    return Pairs(num_ranks, source.astype(np.int32), target.astype(np.int32), rows)


def even(grid: Grid | None, num_parts: int, rows: int = 6000, nonzeros: int = 90_000) -> Tables:
    """Parts of the same size, each of which sends a tenth of its rows to all others."""
    source, target = np.nonzero(~np.eye(num_parts, dtype=bool))
    return Tables(
        name="even",
        layout="row" if grid is None else grid.layout,
        rows=np.full(num_parts, rows // num_parts),
        nonzeros=np.full(num_parts, nonzeros // num_parts),
        expand=Pairs(
            num_parts,
            source.astype(np.int32),
            target.astype(np.int32),
            np.full(len(source), rows // num_parts // 10),
        ),
        grid=grid,
    )


def seconds_of(work: Work, num_ranks: int, machine: Machine, word_bytes: int = 4):
    """Of every rank in an epoch of this one operation."""
    memory = Memory(*np.zeros((5, num_ranks), np.int64))
    schedule = Schedule("one", "row", num_ranks, DIMS, (), [Operation(HERE, work)], memory)
    return simulate(schedule, machine, word_bytes).rank_seconds.tolist()


def by_hand(**more):
    """An epoch of two ranks on a machine of round numbers, and its steps."""
    tables = Tables(
        name="by hand",
        layout="row",
        rows=np.array([3, 5]),
        nonzeros=np.array([7, 20]),
        expand=pairs(2, (0, 1, 2), (1, 0, 1)),
    )
    compute = Compute(dense=10.0, stream=8.0, overhead=0.25)
    machine = Machine(latency=0.5, bandwidth=4.0, multiply_adds=2.0, compute=compute, **more)
    found = simulate(schedule_of(tables, [4, 3], passes=()), machine)
    return found, {(each.layer, each.direction, each.step): each for each in found.steps}


def test_an_epoch_by_hand():
    """A layer from 4 to 3 columns (Demirci et al. 2022) on a machine of round numbers."""
    found, steps = by_hand()
    # a message each way, one word in a byte-second of 4 bytes; 2 words touched per word packed,
    # which two ranks have 8 and 4 of, or 3 per word added; a quarter of a second per operation
    assert steps[1, "forward", "expand"].slowest == 0.5 + 2 * 4 + 2 * 8 * 4 / 8 + 2 * 0.25
    assert steps[1, "forward", "expand"].mean == 0.5 + 8 + 1.5 * 4 * 4 / 8 * 2 + 0.5
    assert steps[1, "forward", "multiply"][3:] == (20 * 4 / 2 + 0.25, 13.5 * 4 / 2 + 0.25, 1)
    assert steps[1, "back", "expand"].slowest == 0.5 + 2 * 3 + 3 * 6 * 4 / 8 + 2 * 0.25
    assert steps[1, "back", "multiply"].slowest == 20 * 3 / 2 + 0.25
    # W, whose operands are read and written too, and the loss: several operations on each output
    weighted = 5 * 12 / 10 + 5 * (4 + 3) * 4 / 8 + 0.25
    loss = LOSS_WORDS * 15 * 4 / 8 + LOSS_CALLS * 0.25
    assert steps[1, "forward", "dense"].slowest == weighted + loss
    assert steps[1, "back", "dense"].slowest == weighted  # the gradient of W alone
    assert steps[0, "update", "all-reduce"].slowest == 2 * 0.5 + (12 + 3 + 1) + 0.25
    assert steps[0, "update", "dense"].slowest == 3 * 15 * 4 / 8 + 0.25
    assert found.seconds == sum(each.slowest for each in found.steps)
    assert found.mean_seconds < found.rank_seconds.max() <= found.seconds
    assert (found.words, found.max_words, found.messages) == (21, 11, 4)


def test_ranks_of_unequal_speed_by_hand():
    """Rank 1 is four times as quick: so are its products and its calls, but not its messages."""
    _, steps = by_hand(speed=(0.5, 2.0))
    # of rank 0, twice what the machine takes: 7 nonzeros, 4 wide; of rank 1 half of it
    products = (7 * 4 / 2 + 0.25) / 0.5, (20 * 4 / 2 + 0.25) / 2
    multiply = steps[1, "forward", "multiply"]
    assert (multiply.slowest, multiply.mean) == (products[0], sum(products) / 2)
    assert multiply.rank == 0
    # rank 0 sends 2 rows and receives 1, 4 words each; what it packs, and its calls, take twice
    pack = (2 * 8 * 4 / 8 + 0.25) / 0.5
    expand = steps[1, "forward", "expand"]
    assert expand.slowest == 0.5 + 2 * 4 + pack + 0.25 / 0.5
    weighted = 3 * 12 / 10 + 3 * (4 + 3) * 4 / 8 + 0.25
    loss = LOSS_WORDS * 9 * 4 / 8 + LOSS_CALLS * 0.25
    assert steps[1, "forward", "dense"].slowest == (weighted + loss) / 0.5
    assert steps[0, "update", "all-reduce"].slowest == 2 * 0.5 + (12 + 3 + 1) + 0.25 / 0.5


@pytest.mark.parametrize("tables", [even(None, 4), even(Grid("2d", 2, 2), 2)])
def test_speeds_of_nodes_and_speeds_of_all(tables):
    """Every node alike, all ranks named, or nobody faster than another."""
    node = Node(ranks=2)
    schedule = schedule_of(tables, DIMS)

    def seconds(*speed):
        machine = replace(SIMPLE, node=node, compute=Compute(overhead=1e-5), speed=speed)
        return simulate(schedule, machine).rank_seconds

    assert (seconds(1.0, 3.0) == seconds(1.0, 3.0, 1.0, 3.0)).all()
    assert (seconds(1, 1) == seconds()).all()
    assert (seconds(1.0, 3.0, 1.0, 1.0) != seconds())[[1]].all()
    for speed in ((1.0, 2.0, 3.0), (1.0,) * 5):
        with pytest.raises(InputError, match=f"'speed' has {len(speed)} numbers: 4 ranks need 4 "):
            seconds(*speed)
    assert replace(SIMPLE, speed=(1.0, 2.0)).speeds(2).tolist() == [1.0, 2.0]
    of_nodes = replace(SIMPLE, node=Node(ranks=3), speed=(1, 2, 4))
    assert of_nodes.speeds(5).tolist() == [1, 2, 4, 1, 2]
    assert of_nodes.speeds(2).tolist() == [1, 2]


def test_messages_inside_and_between_nodes():
    """Four ranks on two nodes; ranks 0 and 1 send to 2, and 0 to 1."""
    messages = PointToPoint(pairs(4, (0, 1, 3), (0, 2, 10), (1, 2, 6)), width=1)
    node = Node(ranks=2, latency=0.125, bandwidth=32.0)
    machine = replace(SIMPLE, latency=1.0, bandwidth=4.0, node=node)
    inside = 0.125 + 3 * 4 / 32
    assert seconds_of(messages, 4, machine) == [inside + 1 + 10, inside + 1 + 8, 2 + 16, 0]
    slow = replace(machine, node=replace(machine.node, injection=2.0))
    # 16 words leave the node, and all its ranks share the way
    assert seconds_of(messages, 4, slow) == [inside + 1 + 32, inside + 1 + 32, 2 + 32, 0]
    back = messages.reversed()
    assert seconds_of(back, 4, slow) == seconds_of(messages, 4, slow)
    assert seconds_of(messages, 4, machine, 8)[3:] == [0]
    assert seconds_of(messages, 4, machine, 8)[2] == 2 + 32


def test_rings_and_trees_by_hand():
    """Six ranks on three nodes; groups of neighbours and of every second rank."""
    node = Node(ranks=2, latency=0.5, bandwidth=16.0, injection=4.0)
    machine = replace(SIMPLE, latency=1.0, bandwidth=4.0, node=node)
    tree = replace(machine, collective=CollectiveShapes("tree", "tree"))
    all_of_them = np.arange(6)[None]

    def broadcast(ranks: np.ndarray, *words: int) -> BroadcastWords:
        sizes = np.array(words)[:, None] * np.ones((1, len(ranks)), np.int64)
        return BroadcastWords(ranks, words=sizes, root=np.zeros_like(sizes))

    # a ring of six has three links in nodes and three between: five sixths of 3 + 1.5
    assert seconds_of(broadcast(all_of_them, 8), 6, machine) == [3.75 + 8] * 6
    assert seconds_of(broadcast(all_of_them, 8, 0, 4), 6, machine) == [2 * 3.75 + 12] * 6
    # three nodes, then two ranks in each
    assert seconds_of(broadcast(all_of_them, 8), 6, tree) == [2 * (1 + 8) + 0.5 + 2] * 6
    # both rings pass all nodes and share the injection; as trees too
    halves = np.array([[0, 2, 4], [1, 3, 5]])
    assert seconds_of(broadcast(halves, 8), 6, machine) == [2 + 16] * 6
    assert seconds_of(broadcast(halves, 8), 6, tree) == [2 * (1 + 16)] * 6
    # in a node, nothing is shared
    nodes = np.array([[0, 1], [2, 3], [4, 5]])
    assert seconds_of(broadcast(nodes, 8), 6, machine) == [0.5 + 2] * 6

    reduced = AllReduceWords(all_of_them, words=np.array([12]))
    assert seconds_of(reduced, 6, machine) == pytest.approx([2 * 3.75 + 2 * 5 / 6 * 12] * 6)
    assert seconds_of(reduced, 6, tree) == [2 * (2 * (1 + 12) + 0.5 + 3)] * 6
    gathered = AllGatherWords(halves, words=np.array([[1, 2, 3], [4, 4, 4]]))
    assert seconds_of(gathered, 6, machine) == [2 + 10, 2 + 16] * 3
    # to three others of the group: one on the node, two beyond, as far as rows and columns say
    swapped = AllToAllWords(
        np.arange(4)[None], rows=np.array([[1, 2, 3, 0]]), columns=np.array([[2, 2, 2, 2]])
    )
    found = seconds_of(swapped, 6, replace(machine, node=replace(machine.node, injection=None)))
    # rank 0 sends 2 words in, 4 out in two messages; it receives 4, and 6 in one
    assert found[0] == 0.5 + 4 * 4 / 16 + 2 * 1 + 6
    # rank 3 has no row to send
    assert found[3] == 0.5 + 6 * 4 / 16 + 2 * 1 + 6
    assert found[4:] == [0, 0]


def broadcast_seconds(copies: int, ranks_per_node: int) -> float:
    """Rows of H in an epoch on 48 ranks of Summit, with the numbers of Tripathy et al. 2020."""
    grid = Grid("1d", 48) if copies == 1 else Grid("1.5d", 48 // copies, copies)
    schedule = schedule_of(even(grid, grid.num_parts, 4_800_000, 480_000_000), [128, 128, 128])
    machine = replace(
        SIMPLE,
        latency=1e-9,
        bandwidth=12.5e9,
        node=Node(ranks=ranks_per_node, injection=12.5e9, bandwidth=50e9),
    )
    rows = [
        each
        for each in schedule.operations
        if isinstance(each.work, BroadcastWords) and each.work.members == grid.rows
    ]
    return simulate(replace(schedule, operations=rows), machine).seconds


def test_replication_gains_nothing_where_ranks_share_the_injection():
    """Tripathy et al. 2020, Section VI-A: with 6 GPUs on a node c rings share it; with 1 none."""
    shared = [broadcast_seconds(c, 6) for c in (1, 2, 4)]
    alone = [broadcast_seconds(c, 1) for c in (1, 2, 4)]
    assert shared == pytest.approx([shared[0]] * 3, rel=1e-3)
    assert alone == pytest.approx([alone[0] / c for c in (1, 2, 4)], rel=1e-3)
    assert shared[0] == pytest.approx(alone[0], rel=1e-3)


@pytest.mark.parametrize("num_ranks", [4, 64])
@pytest.mark.parametrize("words", [1, 100_000])
def test_collectives_may_be_whichever_is_quicker(num_ranks, words):
    ranks = np.arange(num_ranks)[None]
    sent = BroadcastWords(ranks=ranks, words=np.array([[words]]), root=np.array([[0]]))
    summed = AllReduceWords(ranks=ranks, words=np.array([words]))
    for each in (sent, summed):
        ring, tree, quicker = (
            seconds_of(each, num_ranks, replace(SIMPLE, collective=CollectiveShapes(shape, shape)))
            for shape in ("ring", "tree", "auto")
        )
        assert quicker == pytest.approx(np.minimum(ring, tree))
        if num_ranks == 64:
            assert bool(np.all(ring < tree)) == (words > 1)


def test_messages_fall_and_broadcasts_grow():
    """Demirci et al. 2022, Figure 4a: latency makes a broadcast slower on more ranks."""
    machine = replace(SIMPLE, collective=CollectiveShapes("tree", "tree"))
    messages, broadcasts = [], []
    for p in (8, 32, 128):
        row = even(None, p, 1_000_000, 10_000_000)
        near = np.array([[m, (m + step) % p] for m in range(p) for step in (1, 2)]).T
        few = Pairs(p, *near.astype(np.int32), np.full(2 * p, 20_000 // p))
        row = replace(row, expand=few)
        messages.append(simulate(schedule_of(row, DIMS), machine).of_step("expand")[0])
        whole = schedule_of(even(Grid("1d", p), p, 1_000_000), DIMS)
        broadcasts.append(simulate(whole, machine).of_step("collectives")[0])
    assert messages == sorted(messages, reverse=True)
    assert broadcasts == sorted(broadcasts)


@cache
def schedule_for(grid: Grid | None) -> Schedule:
    return schedule_of(even(grid, 6 if grid is None else grid.num_parts), DIMS, ())


LAYOUTS = (
    *(None, Grid("1d", 6), Grid("1d", 6, sparse=True), Grid("1.5d", 4, 2)),
    *(Grid("1.5d", 4, 2, sparse=True), Grid("2d", 3, 2), Grid("3d", 2, 2, 2)),
    *(Grid("feature", 1, 4), Grid("feature", 3, 2)),
)
BETTER = {
    "latency": lambda m: replace(m, latency=m.latency / 2),
    "bandwidth": lambda m: replace(m, bandwidth=m.bandwidth * 2),
    "multiply_adds": lambda m: replace(m, multiply_adds=m.multiply_adds * 2),
    "injection": lambda m: replace(m, node=replace(m.node, injection=m.injection * 2)),
    "inside": lambda m: replace(m, node=replace(m.node, bandwidth=m.inside_bandwidth * 2)),
    "cores": lambda m: replace(m, node=replace(m.node, cores=(m.node.cores or m.node.ranks) + 1)),
    "dense": lambda m: replace(m, compute=replace(m.compute, dense=m.dense_multiply_adds * 2)),
    "overhead": lambda m: replace(m, compute=replace(m.compute, overhead=m.compute.overhead / 2)),
    "overlap": lambda m: replace(m, overlap=Overlap((1 + m.overlap.communication) / 2)),
}


@st.composite
def machines(draw) -> Machine:
    number = st.floats(0.1, 10)
    ranks = draw(st.integers(1, 6))
    return Machine(
        latency=draw(number) * 1e-6,
        bandwidth=draw(number) * 1e9,
        multiply_adds=draw(number) * 1e9,
        node=Node(
            ranks,
            cores=draw(st.none() | st.integers(1, 6)),
            injection=draw(st.none() | number.map(lambda x: x * 1e9)),
            latency=draw(st.none() | number.map(lambda x: x * 1e-7)),
            bandwidth=draw(st.none() | number.map(lambda x: x * 1e10)),
        ),
        compute=Compute(
            draw(st.none() | number.map(lambda x: x * 1e10)),
            draw(st.none() | number.map(lambda x: x * 1e10)),
            draw(st.sampled_from([0.0, 1e-6])),
        ),
        overlap=Overlap(draw(st.sampled_from([0.0, 0.5, 1.0]))),
        collective=CollectiveShapes(*(draw(st.sampled_from(["ring", "tree"])) for _ in range(2))),
    )


@given(machine=machines(), layout=st.sampled_from(LAYOUTS), what=st.sampled_from(list(BETTER)))
def test_no_better_machine_is_slower(machine, layout, what):
    schedule = schedule_for(layout)
    found, better = simulate(schedule, machine), simulate(schedule, BETTER[what](machine))
    assert better.seconds <= found.seconds * (1 + 1e-12)
    assert found.words == better.words
    total = sum(slowest for slowest, _ in map(found.of_step, found.of_rank))
    assert total == pytest.approx(found.seconds)
    assert found.mean_seconds <= found.rank_seconds.max() * (1 + 1e-12)
    assert found.rank_seconds.max() <= found.seconds * (1 + 1e-12)
    assert simulate(schedule, machine, 8).seconds >= found.seconds


def test_overlap_hides_the_lesser_of_both():
    schedule = schedule_of(even(None, 4), DIMS, passes=())
    apart = simulate(schedule, SIMPLE)
    half = simulate(schedule, replace(SIMPLE, overlap=Overlap(0.5)))
    for step in apart.steps:
        if step.step == "expand":
            product = next(s for s in apart.steps if s[:2] == step[:2] and s.step == "multiply")
            left = next(s for s in half.steps if s[:3] == step[:3])
            assert left.slowest == pytest.approx(
                step.slowest - min(step.slowest, product.slowest) / 2
            )


def test_ranks_that_share_cores():
    schedule = schedule_of(even(None, 6), DIMS, passes=())
    base = replace(SIMPLE, compute=Compute(overhead=1e-6))
    alone = simulate(schedule, base)
    shared = simulate(schedule, replace(base, node=Node(ranks=4, cores=2)))
    # ranks 4 and 5 have the second node, and its two cores, for themselves
    factor = np.array([2, 2, 2, 2, 1, 1])
    assert shared.of_rank["dense"] == pytest.approx(factor * alone.of_rank["dense"])
    assert shared.of_rank["multiply"] == pytest.approx(factor * alone.of_rank["multiply"])


def test_rates_by_shape():
    rates = SparseRates((1, 4, 16), (1, 16), ((1e9, 4e9), (2e9, 8e9), (2e9, 8e9)))
    found = rates.rate(np.array([1, 4, 2, 0.5, 99, 0]), np.array([1, 16, 4, 1, 99, 1]))
    # half way in both logarithms: the mean of the logarithms
    middle = (1e9 * 4e9 * 2e9 * 8e9) ** 0.25
    assert found == pytest.approx([1e9, 8e9, middle, 1e9, 8e9, 1e9])
    assert SparseRates((3,), (5,), ((7.0,),)).rate([1, 9], 5) == pytest.approx([7, 7])
    product = SparseProduct(np.array([10]), np.array([40]), width=16, calls=4)
    # in each of the four calls a row has one nonzero
    assert seconds_of(product, 1, replace(SIMPLE, spmm=rates)) == pytest.approx([40 * 16 / 4e9])


def test_memory_of_a_row_plan():
    """As inspect has it, with all nonzeros of boundary rows as if they were in halo columns."""
    graph = plan_helpers.graph_of(plan_helpers.random_array(np.random.default_rng(1), 30, 0.05))
    owner = (np.arange(30) % 3).astype(np.int32)
    plan = plan_helpers.lowered(graph, owner, 3)
    boundary = []
    for part in map(plan.part, range(3)):
        boundary.append(int(part.row_ptr[-1] - part.row_ptr[part.num_interior]))
    parts = plan.traffic()
    expected = row_memory(parts, [parts] * 2, DIMS, np.array(boundary), symmetric=False)
    schedule = schedule_of(tables_of(plan), DIMS)
    assert schedule.memory.total.tolist() == expected.total.tolist()
    one = row_memory(parts, [parts] * 2, DIMS, np.array(boundary), symmetric=True)
    own = parts.nonzeros - boundary  # which are their own transpose
    assert own.any()
    assert (expected.matrix - one.matrix).tolist() == (
        NONZERO_BYTES * own + 8 * parts.rows
    ).tolist()
    found = simulate(schedule, replace(SIMPLE, node=Node(memory=float(expected.total.max()))))
    assert found.fits
    assert found.memory["total"] == expected.total.max()
    assert simulate(schedule, replace(SIMPLE, node=Node(memory=100.0))).fits is False
    assert simulate(schedule, SIMPLE, 8).memory["total"] == 2 * found.memory["total"]


@pytest.mark.parametrize("scheme", [Grid("1d", 16), Grid("1.5d", 8, 2), Grid("3d", 4, 2, 2)])
def test_memory_that_grids_replicate(scheme):
    """c copies of the rows; a layer of 3D has the product of a whole process row beside it."""
    rows = 16_000
    one = schedule_of(even(Grid("1d", 16), 16, rows), [16, 16])
    found = schedule_of(even(scheme, scheme.num_parts, rows), [16, 16])
    copies = scheme.columns if scheme.scheme == "1.5d" else 1
    assert found.memory.features.sum() == copies * one.memory.features.sum()
    if scheme.scheme == "3d":
        assert found.memory.halo.min() >= 4 * (rows // 4) * 8


def test_the_order_of_steps():
    found = simulate(schedule_for(None), SIMPLE)
    places = [(each.direction, each.layer) for each in found.steps]
    order = [("forward", 1), ("forward", 2), ("back", 2), ("back", 1), ("update", 0)]
    assert [here for here, after in pairwise([*places, None]) if here != after] == order


@pytest.mark.parametrize("name", shipped_machines())
def test_machines_that_come_with_plancc_take_time(name):
    assert simulate(schedule_for(None), find_machine(name)).seconds > 0


def test_words_of_a_strange_size():
    with pytest.raises(InputError, match="6 bytes per number"):
        simulate(schedule_for(None), SIMPLE, 6)
