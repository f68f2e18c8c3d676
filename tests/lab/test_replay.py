"""Replayed ranks: times by hand of short lists of steps, what is recorded, where the time goes.

Latencies are whole seconds and bandwidths powers of two, so that all times are exact.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from plancc.errors import OutputError
from plancc.plan.words import AllReduceWords
from plancc.predict.machine import Machine, Node, Overlap
from plancc.predict.memory import Memory
from plancc.predict.schedule import Operation, Pairs, Place, PointToPoint, Schedule, Work
from plancc.predict.simulation import simulate
from plancc_lab.rehearse.command import links_of
from plancc_lab.rehearse.links import Link, Links, RecordedCollective
from plancc_lab.rehearse.recorded import RecordingThreads, RecordingTransport
from plancc_lab.rehearse.replay import Moment, Replay, Step, Wait
from plancc_lab.rehearse.timelines import EpochTimeline, RankTimeline, Stretch
from plancc_lab.rehearse.tracks import Track, write_tracks
from plancc_runtime.testing import TransportTests
from plancc_runtime.transport.local import run_threads

SECONDS_OF_COLLECTIVES = {"broadcast": 7.0, "allreduce": 3.0, "allgather": 5.0}


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


def played(machine: Links, steps: Sequence[Sequence[Step]]) -> tuple[list[float], list[list[Wait]]]:
    """The time at which every rank is done, and its waits."""
    meeting = together("meeting", range(len(steps)), 0.0)
    found = Replay(machine).play([[*own, (0.0, ("mark",)), *meeting] for own in steps])
    return [times[-3] for times, _ in found], [waits for _, waits in found]


def together(kind: str, ranks: Sequence[int], before: float, between: float = 0.0) -> list[Step]:
    """Compute, begin a collective, compute, finish it."""
    what = RecordedCollective(kind, (tuple(ranks),), 0, ())
    return [(before, ("join", kind, what)), (between, ("over", kind))]


def exchanging(messages, before=(0,) * 9, between=(0,) * 9, rounds=1) -> list[list[Step]]:
    """In every round compute for `before[rank]`, then exchange, computing for `between[rank]`.

    `messages`: sender, receiver, and bytes, of every piece of a message.
    """
    found = []
    for rank in range(1 + max(max(a, b) for a, b, *_ in messages)):
        sources = [(a, sizes) for a, b, *sizes in messages if b == rank]
        posted = [(a, tag, k) for k, (a, sizes) in enumerate(sources) for tag in range(len(sizes))]
        waits = [("arrive", 0, k) for k in range(len(sources))] + [("finish", 0)]
        own = [(before[rank], ("start", 0, [len(sizes) for _, sizes in sources], posted))]
        for a, b, *sizes in messages:
            if a == rank:
                own.append((0.0, ("send", 0, [(b, tag, size) for tag, size in enumerate(sizes)])))
        own += [(between[rank], waits[0]), *((0.0, wait) for wait in waits[1:])]
        found.append(own * rounds)
    return found


def computing(*seconds: float) -> list[list[Step]]:
    return [[(each, ("mark",))] for each in seconds]


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
    "long messages in pieces": (links(2), exchanging([(0, 1, 8, 8, 4)]), [3 * 1.0 + 20 / 4] * 2),
    "half the speed": (links(2, slowness=(1, 2)), exchanging([(0, 1, 4)], [4, 4]), [10, 10]),
    # on two cores four ranks have half of one each until two of them are done, at 2; the fifth
    # rank has the cores of another node for itself
    "shared cores": (*(links(5, 4, cores=2), computing(1.0, 1.0, 2.0, 4.0, 4.0)), [2, 2, 3, 5, 4]),
    # three on two cores until 3, then one alone: 2 s are done, 4 s are left
    "two wait and leave their cores": (
        links(3, 3, cores=2),
        [*[together("broadcast", [0, 1], 2.0)] * 2, *computing(6.0)],
        pytest.approx([10, 10, 7]),
    ),
    # a collective begins with its last member, at 5
    "a collective": (
        *(links(3), [together("allreduce", range(3), each) for each in (1.0, 5.0, 3.0)]),
        [8, 8, 8],
    ),
    "groups do not wait for each other": (
        links(4),
        [2 * together("allgather", [k % 2, k % 2 + 2], k / 2) for k in range(4)],
        [12, 13, 12, 13],
    ),
    "a meeting costs nothing but waiting": (
        *(links(3), [together("meeting", range(3), each) for each in (0.0, 1.0, 2.0)]),
        [2, 2, 2],
    ),
    # begun at 3, it needs 7 s of its members' time; the first one computes from 1 to 11
    **{
        f"a collective, overlap {overlap}": (
            links(3, overlap=overlap),
            [together("broadcast", range(3), 1.0 + k, 10.0 * (k == 0)) for k in range(3)],
            [first, 10, 10],
        )
        for overlap, first in ((0.0, 11.0 + 7.0), (1.0, 11.0), (0.25, 16.0))
    },
}


@pytest.mark.parametrize(("machine", "steps", "times"), CASES.values(), ids=CASES)
def test_the_times_at_which_ranks_are_done(machine, steps, times):
    assert played(machine, steps)[0] == times


def test_a_rank_goes_on_with_its_next_steps_where_it_was():
    replay, meeting = Replay(links(2)), together("meeting", range(2), 0.0)
    for begin in (0.0, 8.0):
        steps = exchanging([(0, 1, 4)], [6, 0])
        found = replay.play([[*own, *meeting] for own in steps])
        assert [times[-1] for times, _ in found] == [begin + 8.0] * 2
        assert found[1][1] == [Wait(begin, begin + 8.0, Moment(0, begin + 6.0))]
    assert replay.now == 16.0


def everyone(num_ranks: int, size: int) -> list[tuple[int, int, int]]:
    return [(a, b, size) for a in range(num_ranks) for b in range(num_ranks) if a != b]


MACHINE = Machine(
    latency=2.0, bandwidth=8.0, multiply_adds=1.0, node=Node(ranks=2, latency=1.0, bandwidth=4.0)
)


def predicted(machine: Machine, num_ranks: int, work: Work) -> float:
    memory = Memory(*np.zeros((5, num_ranks), np.int64))
    operations = [Operation(Place(1, "forward", "expand"), work)]
    schedule = Schedule("one", "row", num_ranks, [1, 1], (), operations, memory)
    return simulate(schedule, machine).seconds


@pytest.mark.parametrize(
    ("machine", "messages"),
    [
        (MACHINE, [(0, 1, 64)]),
        (MACHINE, [(0, 3, 64)]),
        (MACHINE, everyone(4, 16)),
        (replace(MACHINE, node=Node(ranks=4)), everyone(4, 16)),
        (replace(MACHINE, node=Node(ranks=1)), everyone(4, 16)),
        # what a node's ranks send together is more than it can
        (replace(MACHINE, node=Node(ranks=2, injection=4.0)), [(a, a ^ 2, 32) for a in range(4)]),
        (replace(MACHINE, node=Node(ranks=4, injection=8.0)), [(a, a ^ 4, 32) for a in range(8)]),
    ],
)
def test_exchanges_take_what_the_simulation_predicts(machine, messages):
    """One message, ranks that all exchange alike, nodes that send all they can."""
    num_ranks = 1 + max(max(a, b) for a, b, _ in messages)
    source, target, sizes = np.array(messages).T
    pairs = Pairs(num_ranks, source.astype(np.int32), target.astype(np.int32), sizes // 4)
    found, _ = played(links_of(machine, num_ranks), exchanging(messages))
    assert max(found) == predicted(machine, num_ranks, PointToPoint(pairs, width=1))


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
    reduce = AllReduceWords(ranks[None], words)
    seconds = found.collective(RecordedCollective("allreduce", ((0, 1, 2),), 0, (400,)))
    assert seconds == predicted(machine, 3, reduce)


# -- what is recorded --------------------------------------------------------------------------


class Processor(threading.local):
    """Time for which every thread has had the processor, as a test sets it."""

    seconds = 0.0


PROCESSOR = Processor()


def in_recording(ranks: int, work):
    group = RecordingThreads(ranks, 2, lambda: PROCESSOR.seconds)
    return run_threads(group, lambda rank: RecordingTransport(group, rank), work)


@pytest.mark.parametrize("moves", [True, False])
def test_steps_of_a_rank_with_others_and_alone(moves):
    def work(transport):
        rank, size, other = transport.rank, transport.size, transport.rank ^ 1
        group, clock = transport.subgroup([rank % 2, rank % 2 + 2]), transport.clock()
        sent, received = np.full(3, 1.0 + rank), np.full(3, -1.0)
        added, whole, pieces = np.ones(2), torch.full((4,), 1.0), np.arange(size)
        exchange = transport.exchange([(other, sent)], [(other, received)])

        def epoch():
            PROCESSOR.seconds += 1.0 + rank
            exchange.start()
            exchange.send(0)
            with clock("spmm"):
                PROCESSOR.seconds += 10.0
            assert list(exchange.arrivals()) == [0]
            exchange.finish()
            transport.allreduce_sum(added)
            group.allgather(list(whole.split(2)))
            PROCESSOR.seconds += 100.0
            assert transport.alltoall(pieces).tolist() == ([rank] * size)
            transport.allreduce_max(pieces)

        if moves:
            with transport.recorded(moves=True) as steps:
                epoch()
            assert received.tolist() == [1.0 + other] * 3
            assert added.tolist() == [4.0, 4.0]
        else:
            with transport.recorded(moves=True):  # whole numbers come again
                transport.alltoall(pieces)
            with transport.alone(), transport.recorded(moves=False) as steps:
                epoch()
            assert received.tolist() == [0.0] * 3
            assert added.tolist() == [1.0, 1.0]
            assert whole.tolist() == ([1.0, 1.0, 0.0, 0.0] if rank < 2 else [0.0, 0.0, 1.0, 1.0])
        assert clock.events == [("spmm", 2, 3)]
        return steps

    for rank, steps in enumerate(in_recording(4, work)):
        names = ["start", "send", "mark", "mark", "arrive", "finish", *["join", "over"] * 5]
        assert [event[0] for _, event in steps] == names
        seconds = {0: 1.0 + rank, 3: 10.0, 10: 100.0}
        assert [step[0] for step in steps] == [seconds.get(k, 0.0) for k in range(len(steps))]
        assert steps[0][1][2:] == ([1], [(rank ^ 1, 0, 0)])
        assert steps[1][1][2:] == ([(rank ^ 1, 0, 24)],)
        joined = [event[2] for _, event in steps if event[0] == "join"]
        everyone = ((0, 1, 2, 3),)
        assert joined[0] == RecordedCollective("allreduce", everyone, 0, (16,))
        assert joined[1] == RecordedCollective("allgather", ((0, 2), (1, 3)), rank % 2, (8, 8))
        assert joined[2:] == [RecordedCollective("meeting", everyone, 0, ())] * 3


class TestRecorded(TransportTests):
    """The checks that all transports pass."""

    def run(self, ranks, work):
        in_recording(ranks, work)


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
            RankTimeline(
                [Wait(102.0, 109.0, Moment(1, 106.0)), Wait(112.0, 115.0, late)], phases, stages
            ),
            RankTimeline([Wait(108.0, 115.0, late)], [("spmm", 100.0, 108.0)], stages),
            RankTimeline([Wait(101.0, 115.0, late)], [("dense", 100.5, 101.0)], stages),
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


def test_tracks_that_cannot_be_written_are_one_sentence(tmp_path: Path):
    with pytest.raises(OutputError, match="no-such-folder"):
        write_tracks(tmp_path / "no-such-folder" / "t.json", [Track("a", [], np.zeros((0, 2)))], "")
