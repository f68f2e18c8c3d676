"""Clocks of ranks in virtual time: by hand, with a processor time that the tests set themselves.

Latencies are whole seconds and bandwidths powers of two, so that all times are exact.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
import transport_checks
from cases import long

from plancc.errors import PlanError
from plancc.predict.machine import Machine, Node, Overlap
from plancc.predict.memory import Memory
from plancc.predict.schedule import AllReduce, Pairs, Place, PointToPoint, Schedule
from plancc.predict.simulation import simulate
from plancc_cli.rehearse import links_of
from plancc_runtime.testing import TransportTests
from plancc_runtime.timelines import EpochTimeline, Stretch, Timeline, in_time
from plancc_runtime.trace import Track, write_tracks
from plancc_runtime.transport.base import Transport, TransportError
from plancc_runtime.transport.links import Collective, Link, Links
from plancc_runtime.transport.virtual import VirtualTransport, run_virtual_ranks
from plancc_runtime.transport.virtual_time import Moment, Wait

SECONDS_OF_COLLECTIVES = {"broadcast": 7.0, "allreduce": 3.0, "allgather": 5.0}


class Processor(threading.local):
    """Time for which every thread has had the processor."""

    seconds = 0.0


PROCESSOR = Processor()


def spend(seconds: float) -> None:
    """Compute for so long."""
    PROCESSOR.seconds += seconds


def links(num_ranks: int, ranks_per_node: int = 8, overlap: float = 0.0, **changed) -> Links:
    """Inside a node 1 s per message and 4 bytes/s, between nodes 2 s and 8 bytes/s."""
    usual = Links(
        ranks_per_node=ranks_per_node,
        inside=Link(1.0, 4.0),
        between=Link(2.0, 8.0),
        injection=8.0 * ranks_per_node,
        overlap=overlap,
        cores=ranks_per_node,
        slowness=(1.0,) * num_ranks,
        collective=lambda collective: SECONDS_OF_COLLECTIVES[collective.kind],
    )
    return replace(usual, **changed)


def clocks(machine: Links, work: Callable[[VirtualTransport], object]) -> list[float]:
    """The time at which every rank is done."""
    ends: dict[int, float] = {}

    def timed(transport: VirtualTransport) -> None:
        PROCESSOR.seconds = 0.0
        work(transport)
        rank, time = transport.rank, transport.time
        with transport.outside:
            time.do(rank, lambda: ends.update({rank: time.now}))

    run_virtual_ranks(machine, timed, lambda: PROCESSOR.seconds)
    return [ends[rank] for rank in range(len(ends))]


def exchanged(
    transport: Transport, messages: list[tuple[int, int, int]], between: float = 0.0
) -> list[int]:
    """Exchange messages (sender, receiver, bytes), computing in between; who has sent what came."""
    rank = transport.rank
    receives = [(a, np.zeros(size, np.int8)) for a, b, size in messages if b == rank]
    sends = [(b, np.full(size, rank, np.int8)) for a, b, size in messages if a == rank]
    exchange = transport.exchange(sends, receives)
    exchange.start()
    for k in range(len(sends)):
        exchange.send(k)
    spend(between)
    order = [receives[k][0] for k in exchange.arrivals()]
    exchange.finish()
    assert all(buffer.tolist() == [a] * len(buffer) for a, buffer in receives)
    return order


# -- messages, cores, collectives -----------------------------------------------------------------


def exchanging(messages, before=(0,) * 9, between=(0,) * 9, rounds=1):
    """In every round, compute for `before[rank]`, then exchange, computing for `between[rank]`."""

    def work(transport):
        for _ in range(rounds):
            spend(before[transport.rank])
            exchanged(transport, messages, between[transport.rank])

    return work


def in_pieces(transport):
    transport.max_words = 8
    exchanged(transport, [(0, 1, 20)])


def in_groups(transport):
    rank = transport.rank
    group = transport.subgroup([rank % 2, rank % 2 + 2])
    spend(float(rank))
    group.allgather([np.ones(2), np.ones(2)])
    group.reduce_scatter_sum([np.ones(2), np.ones(2)])


def alltoall(transport):
    sends, receives = (np.ones((3, 4), np.int8) for _ in range(2))
    transport.subgroup(range(3)).alltoall(list(sends), list(receives))


def small_talk(transport):
    spend(float(transport.rank))
    assert transport.gather(transport.rank) == [0, 1, 2]
    transport.allreduce_max(np.ones(3))
    transport.alltoall(np.arange(3))
    with transport.agreement():
        pass


def outside(transport):
    spend(1.0)
    with transport.outside:
        spend(5.0)
        with transport.outside:
            spend(5.0)
        spend(5.0)
    spend(1.0)


def one_waits(transport):
    group = transport.subgroup([0, 1] if transport.rank < 2 else [2])
    spend([2.0, 2.0, 6.0][transport.rank])
    if group.size > 1:
        group.broadcast(np.ones(4), 0)  # 7 s


PLAIN, OVERLAPPED = [(0, 1, 12)], ([5, 0], [0, 20])
CASES = {
    "inside a node": (links(2), exchanging([(0, 1, 16)], [5, 0]), [5 + 1 + 16 / 4] * 2),
    "between nodes": (links(2, 1), exchanging([(0, 1, 16)], [5, 0]), [5 + 2 + 16 / 8] * 2),
    # nothing moves before the receiver waits: 20 + 1 + 12 / 4
    "no overlap": (links(2), exchanging(PLAIN, *OVERLAPPED), [24, 24]),
    # sent at 5; the receiver's port has half of its time: 5 + 4 / 0.5
    "half overlap": (links(2, overlap=0.5), exchanging(PLAIN, *OVERLAPPED), [13, 20]),
    "full overlap": (links(2, overlap=1.0), exchanging(PLAIN, *OVERLAPPED), [9, 20]),
    # a message is under way once both ends are there: the receiver posts its receive at 30
    "a late receiver": (links(2, overlap=1.0), exchanging(PLAIN, [0, 30]), [34, 34]),
    "from one rank in turn": (links(3), exchanging([(0, 1, 4), (0, 2, 8)]), [2 + 3, 2, 5]),
    "to one rank in turn": (
        *(links(3), exchanging([(1, 0, 4), (2, 0, 8)], [0, 0.5, 1])),
        [0.5 + 2 + 3, 2.5, 5.5],
    ),
    # the slower one computes 2 s, then both wait for 4 s
    "several rounds": (links(2), exchanging([(0, 1, 4), (1, 0, 12)], [1, 2], rounds=3), [18, 18]),
    "long messages in pieces": (links(2), in_pieces, [3 * 1.0 + 20 / 4] * 2),
    "half the speed": (links(2, slowness=(1, 2)), exchanging([(0, 1, 4)], [4, 4]), [10, 10]),
    # on two cores four ranks have half of one each until two of them are done, at 2; the fifth
    # rank has the cores of another node for itself
    "shared cores": (
        *(links(5, 4, cores=2), lambda t: spend([1.0, 1.0, 2.0, 4.0, 4.0][t.rank])),
        [2, 2, 3, 5, 4],
    ),
    # three on two cores until 3, then one alone: 2 s are done, 4 s are left
    "one waits and leaves its core": (links(3, 3, cores=2), one_waits, pytest.approx([10, 10, 7])),
    # a collective begins with its last member, at 5
    "a collective": (
        *(links(3), lambda t: (spend([1.0, 5.0, 3.0][t.rank]), t.allreduce_sum(np.ones(4)))),
        [8, 8, 8],
    ),
    "groups do not wait for each other": (links(4), in_groups, [12, 13, 12, 13]),
    "an alltoall is messages": (links(3), alltoall, [2 * (1.0 + 4 / 4)] * 3),
    "small talk costs nothing but waiting": (links(3), small_talk, [2, 2, 2]),
    "what is outside takes no time": (links(2), outside, [2, 2]),
}


@pytest.mark.parametrize(("machine", "work", "times"), CASES.values(), ids=CASES)
def test_the_times_at_which_ranks_are_done(machine, work, times):
    assert clocks(machine, work) == times


def test_messages_come_in_the_order_of_virtual_time():
    orders = {}

    def work(transport):
        spend([0.0, 10.0, 3.0, 6.0][transport.rank])
        orders[transport.rank] = exchanged(transport, [(k, 0, 4) for k in (1, 2, 3)])

    assert clocks(links(4), work)[0] == 12.0
    assert orders[0] == [2, 3, 1]


def test_clocks_of_ranks_that_share_cores():
    """A clock says what it can know; the marks say when that was."""
    read = {}

    def work(transport):
        clock = transport.clock()
        with clock("spmm"):
            spend(1.0 + transport.rank)
        with clock("dense"):
            spend(1.0)
        with transport.outside:
            transport.gather(None)
            spans = in_time(clock.events, transport.time.marks[transport.rank])
            read[transport.rank] = clock.events, spans

    clocks(links(2, 2, cores=1), work)
    (known, real), (known_1, real_1) = read[0], read[1]
    assert known == [("spmm", 0.0, 1.0), ("dense", 1.0, 2.0)]
    assert real == [("spmm", 0.0, 2.0), ("dense", 2.0, 4.0)]
    # from 4 on the other has the core for itself: 2 of 3 s are done
    assert known_1 == [("spmm", 0.0, 2.0), ("dense", 2.0, 3.0)]
    assert real_1 == [("spmm", 0.0, 4.0), ("dense", 4.0, 5.0)]


def everyone(num_ranks: int, size: int) -> list[tuple[int, int, int]]:
    return [(a, b, size) for a in range(num_ranks) for b in range(num_ranks) if a != b]


def ring(num_ranks: int, hop: int, size: int) -> list[tuple[int, int, int]]:
    return [(a, (a + hop) % num_ranks, size) for a in range(num_ranks)]


MACHINE = Machine(
    latency=2.0, bandwidth=8.0, multiply_adds=1.0, node=Node(ranks=2, latency=1.0, bandwidth=4.0)
)


@pytest.mark.parametrize(
    ("machine", "messages"),
    [
        (MACHINE, [(0, 1, 64)]),
        (MACHINE, [(0, 3, 64)]),
        (MACHINE, everyone(4, 16)),
        (replace(MACHINE, node=Node(ranks=4)), everyone(4, 16)),
        (replace(MACHINE, node=Node(ranks=1)), everyone(4, 16)),
        # what a node's ranks send together is more than it can
        (replace(MACHINE, node=Node(ranks=2, injection=4.0)), ring(4, 2, 32)),
        (replace(MACHINE, node=Node(ranks=4, injection=8.0)), ring(8, 4, 32)),
    ],
)
def test_exchanges_take_what_the_simulation_predicts(machine, messages):
    """One message, ranks that all exchange alike, nodes that send all they can."""
    num_ranks = 1 + max(max(a, b) for a, b, _ in messages)
    source, target, sizes = np.array(messages).T
    pairs = Pairs(num_ranks, source.astype(np.int32), target.astype(np.int32), sizes // 4)
    operation = PointToPoint(Place(1, "forward", "expand"), pairs=pairs, width=1)
    memory = Memory(*np.zeros((5, num_ranks), np.int64))
    schedule = Schedule("one", "row", num_ranks, [1, 1], (), [operation], memory)
    found = clocks(links_of(machine, num_ranks), lambda t: exchanged(t, messages))
    assert max(found) == simulate(schedule, machine).seconds


def test_links_are_those_of_the_machine():
    machine = replace(
        MACHINE,
        node=Node(ranks=2, cores=1, latency=1.0, bandwidth=4.0, injection=3.0),
        overlap=Overlap(0.25),
        speed=(1.0, 2.0, 4.0),
    )
    found = links_of(machine, 3)
    assert (found.inside, found.between) == (Link(1.0, 4.0), Link(2.0, 8.0))
    assert (found.ranks_per_node, found.injection, found.overlap) == (2, 3.0, 0.25)
    assert (found.cores, found.slowness) == (1, (1.0, 0.5, 0.25))
    ranks, words = np.arange(3), np.array([100])
    reduce = AllReduce(Place(0, "update", "all-reduce"), ranks=ranks[None], words=words)
    memory = Memory(*np.zeros((5, 3), np.int64))
    schedule = Schedule("one", "row", 3, [1, 1], (), [reduce], memory)
    predicted = simulate(schedule, machine).seconds
    assert found.collective(Collective("allreduce", ((0, 1, 2),), 0, (400,))) == predicted


# -- collectives -------------------------------------------------------------------------------


@pytest.mark.parametrize(("overlap", "first"), [(0.0, 11.0 + 7.0), (1.0, 11.0), (0.25, 16.0)])
def test_a_collective_goes_on_while_its_members_wait(overlap, first):
    """Begun at 3, it needs 7 s of its members' time; the first one computes from 1 to 11."""

    def work(transport):
        group = transport.subgroup(range(3))
        spend(1.0 + transport.rank)
        pending = group.start_broadcast(np.ones(4), 0)
        spend(10.0 * (transport.rank == 0))
        pending.wait()

    assert clocks(links(3, overlap=overlap), work) == [first, 10.0, 10.0]


def test_groups_know_who_does_the_same_at_once():
    seen = []

    def collective(what: Collective) -> float:
        seen.append(what)
        return 1.0

    def work(transport):
        rank = transport.rank
        group = transport.subgroup([rank % 2, rank % 2 + 2])
        group.allgather([np.ones(2, np.int8), np.ones(3, np.int8)])
        uneven = transport.subgroup([0, 1, 2] if rank < 3 else [3])
        uneven.broadcast(np.ones(5, np.int8), 0)

    clocks(links(4, collective=collective), work)
    both = ((0, 2), (1, 3))
    assert sorted(seen, key=str) == [
        Collective("allgather", both, 0, (2, 3)),
        Collective("allgather", both, 1, (2, 3)),
        Collective("broadcast", ((0, 1, 2),), 0, (5,)),
    ]


# -- a rank alone ------------------------------------------------------------------------------


def test_a_rank_does_again_what_it_did_and_is_paced():
    """Alone it finds all that arrived then, and takes its time apart; then it takes that time."""
    seen, steps_of = {}, {}

    def work(transport):
        rank, size = transport.rank, transport.size
        group = transport.subgroup(range(size))

        def step(seconds: float) -> tuple:
            spend(seconds)
            order = exchanged(transport, everyone(size, 4), between=seconds)
            added = np.full(2, 1.0 + rank)
            transport.allreduce_sum(added)
            whole = torch.full((size,), float(rank))
            group.allgather(list(whole.split(1)))
            largest = np.array([rank])
            transport.allreduce_max(largest)
            talk = transport.gather(rank), transport.alltoall(np.full(size, rank)).tolist()
            spend(seconds)
            return order, added.tolist(), whole.tolist(), largest.tolist(), talk

        with transport.outside, transport.on_tape():
            first = step(0.0)
        with transport.outside:
            before = transport.time.time_of(rank)
            with transport.alone() as steps:
                again = step(2.0 + rank)
            assert transport.time.time_of(rank) == before
            assert again == first
            transport.tape.clear()
            transport.gather(None)
            begin = transport.time.time_of(rank)
            transport.pace([step / 2 for step in steps])
        assert step(100.0) == first
        with transport.outside:
            seen[rank] = transport.time.time_of(rank) - begin
            steps_of[rank] = [s for s in steps if s]

    clocks(links(3), work)
    assert steps_of == {rank: [2.0 + rank] * 3 for rank in range(3)}
    # half the time: the slowest computes twice 2 s, then two messages of 2 s, then 3 + 5 s
    assert seen == {rank: 4.0 + 4.0 + 8.0 + (2.0 + rank) / 2 for rank in range(3)}


# -- errors ------------------------------------------------------------------------------------


def test_ranks_that_wait_for_good_say_for_what():
    def work(transport):
        if transport.rank == 0:
            exchanged(transport, [(1, 0, 4)])
        elif transport.rank == 2:
            transport.gather(None)

    sentence = (
        r"^rank 0: waits for good for a message from rank 1; "
        r"rank 2: waits for good for ranks 0, 1 to reach a collective call$"
    )
    with pytest.raises(TransportError, match=sentence):
        run_virtual_ranks(links(3), work)


def test_a_rank_that_fails_ends_the_others():
    def work(transport):
        if transport.rank == 1:
            raise PlanError("broken")
        transport.gather(None)

    with pytest.raises(PlanError, match=r"^rank 1: broken$"):
        run_virtual_ranks(links(3), work)


# -- as every transport ------------------------------------------------------------------------


class TestVirtual(TransportTests):
    """The checks that all transports pass."""

    def run(self, ranks, work):
        run_virtual_ranks(links(ranks, 2, overlap=0.5), work)


@pytest.mark.parametrize(("ranks", "overlap"), [pytest.param(4, 1.0, marks=long), (3, 0.0)])
def test_groups_and_products(ranks, overlap):
    def work(transport):
        transport_checks.check_all_groups(transport)
        transport_checks.check_products(transport)

    run_virtual_ranks(links(ranks, 2, overlap=overlap), work)


# -- timelines ---------------------------------------------------------------------------------


def epoch_of_three() -> EpochTimeline:
    """Rank 1 is late with its message to rank 0, which is late with the sum of all.

    rank 0    computes 2, waits until 9 for what rank 1 sent at 6, computes until 12
    rank 1    computes 8, with the message sent at 6
    rank 2    computes 1
    the sum   begins at 12 and ends at 15
    """
    stages = [("layer 1 forward", 100.0, 109.0), ("update", 109.0, 115.0)]
    phases = [("spmm", 100.0, 102.0), ("wait", 102.0, 109.0), ("dense", 109.0, 112.0)]
    late = Moment(0, 112.0, "allreduce")
    return EpochTimeline(
        100.0,
        115.0,
        [
            Timeline(
                [Wait(102.0, 109.0, Moment(1, 106.0)), Wait(112.0, 115.0, late)], phases, stages
            ),
            Timeline([Wait(108.0, 115.0, late)], [("spmm", 100.0, 108.0)], stages),
            Timeline([Wait(101.0, 115.0, late)], [("dense", 100.5, 101.0)], stages),
        ],
    )


def test_where_the_time_goes():
    epoch = epoch_of_three()
    assert epoch.seconds == 15.0
    assert epoch.computed.tolist() == [5.0, 8.0, 1.0]
    assert epoch.networked.tolist() == [3.0 + 3.0, 3.0, 3.0]
    assert epoch.waited.tolist() == [4.0, 4.0, 11.0]
    found = {name: seconds.tolist() for name, seconds in epoch.phases().items()}
    assert found == {"spmm": [2.0, 8.0, 0.0], "dense": [3.0, 0.0, 0.5], "rest": [0.0, 0.0, 0.5]}
    found = {name: seconds.tolist() for name, seconds in epoch.stages().items()}
    assert found == {"layer 1 forward": [2.0, 8.0, 1.0], "update": [3.0, 0.0, 0.0]}


def test_the_critical_path():
    epoch = epoch_of_three()
    assert epoch.critical_path() == [
        Stretch(1, 100.0, 106.0, "compute"),
        Stretch(0, 106.0, 109.0, "message"),
        Stretch(0, 109.0, 112.0, "compute"),
        Stretch(0, 112.0, 115.0, "allreduce"),
    ]
    first, second = epoch.path_stages()
    assert (first.stage, first.compute, first.network) == ("layer 1 forward", {1: 6.0}, 3.0)
    assert (second.stage, second.compute, second.network) == ("update", {0: 3.0}, 3.0)
    assert (second.seconds, second.rank) == (6.0, 0)


def test_a_critical_path_fills_the_epoch():
    """Ranks compute and exchange by chance, whatever the network lets wait."""
    random = np.random.default_rng(4)
    times = random.integers(1, 9, (6, 4, 2)).astype(float)
    waits = {}

    def work(transport):
        for own in times[:, transport.rank]:
            spend(own[0])
            exchanged(transport, everyone(4, 8)[:: 1 + transport.size % 3], between=own[1])
        with transport.outside:
            transport.gather(None)
            waits[transport.rank] = [*transport.time.waits[transport.rank]]

    for overlap in (0.0, 0.5, 1.0):
        end = max(clocks(links(4, 2, overlap=overlap), work))
        epoch = EpochTimeline(0.0, end, [Timeline(waits[rank], [], []) for rank in range(4)])
        assert epoch.computed.tolist() == times.sum(axis=(0, 2)).tolist()
        path = epoch.critical_path()
        assert path[0].begin == 0.0
        assert path[-1].end == end
        assert all(a.end == b.begin for a, b in pairwise(path))
        # what computes on the path computes then
        for stretch in path:
            if stretch.what == "compute":
                own = [w for w in waits[stretch.rank] if w.begin < stretch.end]
                assert all(w.end <= stretch.begin for w in own)


def test_tracks_that_cannot_be_written_are_one_sentence(tmp_path: Path):
    from plancc.errors import OutputError

    with pytest.raises(OutputError, match="no-such-folder"):
        write_tracks(tmp_path / "no-such-folder" / "t.json", [Track("a", [], np.zeros((0, 2)))])
