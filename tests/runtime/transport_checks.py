"""What every transport must do, checked by its ranks among themselves: each function is collective.

    mpirun -n 4 python transport_checks.py TRANSPORT [DEVICE]

All ranks draw the same messages from the seed, so each knows what it must receive.
"""

import atexit
import gc
import os
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
import reference
import torch
import worlds
from runs import slices_of

from plancc.threads import usable_cores
from plancc_runtime import launch
from plancc_runtime.options import TrainOptions
from plancc_runtime.testing import transports
from plancc_runtime.testing.transports import (
    check_exchanges,
    check_reductions,
    check_small_talk,
    content,
    fill,
)
from plancc_runtime.train import train
from plancc_runtime.transport.group import GroupTransport
from plancc_runtime.transport.single import SingleTransport

GROUP_KINDS = (torch.float32, torch.bfloat16, np.float64, np.int32)


DEVICE = "cpu"  # of tensors


def empty(words, kind):
    return transports.empty(words, kind, DEVICE)


def check_pieces(transport, make):
    transport.max_words, usual = 3, transport.max_words
    check_exchanges(transport, 2, make)
    transport.max_words = usual


def part_of(words, kind):
    """A contiguous slice of a larger buffer, and the larger one."""
    whole = empty(words + 5, kind)
    fill(whole, np.full(words + 5, 77))
    return whole[2 : words + 2], whole


def make_groups(transport):
    """Rows and columns of a 2x3 grid; rows, columns and fibers of a 2x2x2 one: those there are."""
    groups = []
    for number in (
        lambda r: r // 3,
        lambda r: r % 3,
        lambda r: r // 2,
        lambda r: r % 4,
        lambda r: (r // 4, r % 2),
    ):
        mine = number(transport.rank)
        members = [r for r in range(transport.size) if number(r) == mine]
        groups.append(transport.subgroup(members))
    return groups


class Counted:
    """What collectives add to the traffic, from their definitions."""

    def __init__(self, transport):
        self.transport, self.expected = transport, np.zeros(8, np.int64)
        self.before = transport.traffic.as_array()

    def add(self, sent, received):
        for at, side in ((0, sent), (3, received)):
            for b in side:
                messages = -(-len(b) // self.transport.max_words)
                self.expected[at : at + 3] += messages, len(b), b.nbytes

    def check(self):
        counted = self.transport.traffic.as_array() - self.before
        assert counted.tolist() == self.expected.tolist()
        everywhere = sum(self.transport.gather(counted))
        assert everywhere[:3].tolist() == everywhere[3:6].tolist()


def check_groups(transport, groups, seed, kinds=GROUP_KINDS):
    """Collectives of several groups, all of a kind of number under way at once."""
    for turn, kind in enumerate(kinds):
        ends, counted = [], Counted(transport)
        for place, group in enumerate(groups):
            check_group(group, [seed, turn, place], kind, counted, ends)
        for end in ends:
            end()
        counted.check()


def check_group(group, key, kind, counted, ends):
    size, me = group.size, group.rank
    most = min(300, 4 * group.transport.max_words)
    numbers_of_group = np.random.default_rng([*key, *group.ranks])
    others = [k for k in range(size) if k != me]

    def values(words, *more):
        return content(words, *key, *group.ranks, *more) // size  # sums are exact in 16 bits

    def sizes():
        return numbers_of_group.choice([0, 1, 2, 7, most], size).tolist()

    def expect(buffer, right):
        assert buffer.tolist() == right.tolist(), (group.ranks, key, kind)

    def later(pending, *expected):
        def end():
            pending.wait()
            pending.wait()
            for (buffer, whole), right in expected:
                expect(buffer, right)
                expect(whole[:2], np.full(2, 77))
                expect(whole[-3:], np.full(3, 77))

        ends.append(end)

    for root, words in enumerate(sizes()):
        sent, whole = part_of(words, kind)
        if me == root:
            fill(sent, values(words, 1, root))
        counted.add(*(([sent] * len(others), []) if me == root else ([], [sent])))
        later(group.start_broadcast(sent, root), ((sent, whole), values(words, 1, root)))

        added, whole = part_of(words, kind)
        every = [values(words, 2, root, k) for k in range(size)]
        fill(added, every[me])
        counted.add(*(([], [added] * len(others)) if me == root else ([added], [])))
        pending = group.start_reduce_sum(added, root)
        later(pending, *([((added, whole), sum(every))] if me == root else []))

    words = sizes()
    pieces = [part_of(m, kind) for m in words]
    fill(pieces[me][0], values(words[me], 3, me))
    counted.add([pieces[me][0]] * len(others), [pieces[k][0] for k in others])
    pending = group.start_allgather([piece for piece, _ in pieces])
    later(pending, *((pieces[k], values(words[k], 3, k)) for k in range(size)))

    table = [sizes() for _ in range(size)]  # words from member to member
    sends = [part_of(table[me][k], kind) for k in range(size)]
    receives = [part_of(table[k][me], kind) for k in range(size)]
    for k, (piece, _) in enumerate(sends):
        fill(piece, values(len(piece), 4, me, k))
    counted.add([sends[k][0] for k in others], [receives[k][0] for k in others])
    pending = group.start_alltoall([p for p, _ in sends], [p for p, _ in receives])
    later(pending, *((receives[k], values(table[k][me], 4, k, me)) for k in range(size)))

    for joined in (False, True):  # pieces of one buffer, or of several
        words = sizes()
        bounds = np.cumsum([0, *words])
        one = empty(sum(words), kind)
        pieces = [one[a:b] if joined else empty(b - a, kind) for a, b in pairwise(bounds.tolist())]
        for k, piece in enumerate(pieces):
            fill(piece, values(words[k], 5, k, me))
        counted.add([pieces[k] for k in others], [pieces[me]] * len(others))
        group.reduce_scatter_sum(pieces)
        expect(pieces[me], sum(values(words[me], 5, me, k) for k in range(size)))
        for k, piece in enumerate(pieces):
            fill(piece, values(words[k], 6, k) if k == me else np.full(words[k], 77))
        counted.add([pieces[me]] * len(others), [pieces[k] for k in others])
        group.allgather(pieces)
        for k, piece in enumerate(pieces):
            expect(piece, values(words[k], 6, k))

    words = int(numbers_of_group.choice([0, 1, most]))
    total = empty(2 * words, kind).reshape(2, words)
    fill(total.reshape(-1), values(2 * words, 7, me))
    group.allreduce_sum(total)
    expect(total.reshape(-1), sum(values(2 * words, 7, k) for k in range(size)))
    counted.expected[6:] += 1, 2 * words


def check_members_alone(group):
    """The members of a group as a transport of their own."""
    members = GroupTransport(group)
    assert (members.rank, members.size) == (group.rank, group.size)
    check_small_talk(members)
    check_reductions(members, (0, 10), DEVICE)
    if members.size > 1:
        check_exchanges(members, 4, device=DEVICE)
    check_groups(members, [members.subgroup(range(members.size))], 8, [np.float64])


def check_all_groups(transport):
    groups = make_groups(transport)
    check_groups(transport, groups, 5)
    check_members_alone(groups[0])
    check_members_alone(groups[-1])
    transport.max_words, usual = 3, transport.max_words
    check_groups(transport, groups[:2], 6)
    transport.max_words = usual
    group = groups[0]
    with pytest.raises(ValueError, match=f"root {group.size} for {group.size} ranks"):
        group.broadcast(np.zeros(1), group.size)
    with pytest.raises(ValueError, match="0 buffers"):
        group.allgather([])
    with pytest.raises(ValueError, match="contiguous"):
        group.broadcast(np.zeros((4, 4))[:, 1], 0)
    with pytest.raises(ValueError, match="sends to itself and gets from itself differ in size"):
        group.alltoall(*([np.zeros(words)] * group.size for words in (1, 2)))


def check_training(transport):
    """Losses and weights are those of dense matrices: all exchanges of row and of edge plans."""
    given = worlds.data().features, worlds.data().labels, worlds.data().train_mask
    if transport.rank == 0:  # ranks that are threads read the same files
        for each in (("row", 1), ("row", transport.size), ("edge", transport.size)):
            slices_of("directed", *each)
    transport.gather(None)
    for layout, aggregator in (("row", "max"), ("edge", "mean")):
        options = TrainOptions(
            **{"model": "sage", "aggregator": aggregator, "optimizer": "sgd", "lr": 0.1},
            **{"dtype": "float64", "threads": 1, "epochs": 0},
        )
        start = train(slices_of("directed", "row", 1)[0], options, SingleTransport()).weights
        slices = slices_of("directed", layout, transport.size)
        found = train(slices[transport.rank], replace(options, epochs=3), transport)
        losses, weights = reference.train_model(
            *("sage", aggregator, worlds.array("directed"), *given, start, 3, 0.1), self_loops=False
        )
        reference.close([epoch.loss for epoch in found.epochs], losses, 1e-10)
        for name, weight in weights.items():
            reference.close(found.weights[name], weight, 1e-10)


def check_requests_are_freed(transport):
    """MPI: dropping an exchange gives its requests back."""
    peer = (transport.rank + 1) % transport.size
    before = (transport.rank - 1) % transport.size
    exchange = transport.exchange([(peer, np.ones(5))], [(before, np.ones(5))])
    exchange.start()
    exchange.send(0)
    exchange.finish()
    requests = exchange._requests.copy()
    null = transport._mpi.REQUEST_NULL
    assert all(request != null for request in requests)
    del exchange
    late = time.monotonic() + 10
    while any(request != null for request in requests) and time.monotonic() < late:
        gc.collect()  # another thread may still look at it
    assert all(request == null for request in requests)


def check_grouped_messages(transport):
    """NCCL's groups, played by gloo, which matches messages without tags by their order too."""
    from plancc_runtime.transport import torch_dist

    def make(sends, receives):
        tensors = [
            [(peer, torch.as_tensor(buffer)) for peer, buffer in side] for side in (sends, receives)
        ]
        return torch_dist._DeviceChannel(transport, *tensors)

    transport.watch_device = lambda what: None  # there is no device
    transport.exchange, transport.queued = make, lambda: nullcontext(lambda: None)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(torch_dist, "DISTANCES", 1)  # several groups
        patched.setattr(torch_dist, "TAGS", 2)
        patched.setattr(
            torch_dist._TorchGroup, "_is_queued", lambda group, data: torch.is_tensor(data)
        )
        check_exchanges(transport, 3, make)
        check_pieces(transport, make)
        check_groups(transport, make_groups(transport), 9, [torch.float32])


def check_all(transport):
    transports.check_transport(transport, DEVICE)
    check_more(transport)


def check_more(transport):
    """What `TransportTests` leaves out."""
    check_all_groups(transport)
    if DEVICE == "cpu":
        check_training(transport)


def check_mpi(transport):
    check_all(transport)
    assert transport.cores_per_rank() <= max(1, len(usable_cores()) // transport.size)
    check_requests_are_freed(transport)


def check_gloo(_):
    """By ranks that have another transport already."""
    transport = launch.open_transport("gloo", timeout=200)
    check_all(transport)
    check_grouped_messages(transport)
    with patch.object(os, "_exit", sys.exit), pytest.raises(SystemExit) as caught:
        transport.abort(3)
    assert caught.value.code == 3
    transport.close()
    torch.distributed.destroy_process_group()
    atexit.unregister(torch.distributed.destroy_process_group)


def main() -> None:
    global DEVICE
    name, DEVICE = (*sys.argv[1:], "cpu")[:2]
    torch.set_num_threads(1)
    if DEVICE == "cuda":
        torch.cuda.set_device(launch.local_rank() % torch.cuda.device_count())
    transport = launch.open_transport(name, timeout=200)
    (check_mpi if name == "mpi" else check_all)(transport)
    if name == "gloo" and DEVICE == "cpu":
        check_grouped_messages(transport)
    # one that is alive at the end of the interpreter, and after MPI's own
    peers = [rank for rank in range(transport.size) if rank != transport.rank]
    main.exchange = transport.exchange([(peer, np.ones(1)) for peer in peers], [])
    # in one call: torchrun's ranks write unbuffered, and print() writes the line's end by itself
    sys.stdout.write(f"rank {transport.rank} of {transport.size} is done\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
