"""Checks for a new transport: inherit `TransportTests`, or call the functions on every rank."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from plancc.errors import InputError, PlanccError, PlanError
from plancc.threads import usable_cores
from plancc_runtime.transport.base import Channel, Transport

ROUNDS = 3
KINDS = (torch.float32, torch.float64, torch.bfloat16, torch.float16, np.float32, np.int64)
"""Dtypes of the numbers in messages."""


def check_transport(transport: Transport, device: str = "cpu") -> None:
    """Run all checks of this module on a transport, with tensors on `device`. Collective."""
    check_small_talk(transport)
    for check in (check_exchanges, check_reductions, check_groups, check_pieces):
        check(transport, device=device)


def empty(words: int, kind: Any, device: str = "cpu") -> Any:
    """Return a buffer of zeros: a tensor, or an array if the dtype `kind` is numpy's."""
    if isinstance(kind, torch.dtype):
        return torch.zeros(words, dtype=kind, device=device)
    return np.zeros(words, kind)


def content(words: int, *key: int) -> npt.NDArray[np.int64]:
    """Return random integers in -100..99, which all dtypes represent exactly: int64[words]."""
    return np.random.default_rng(key).integers(-100, 100, words)


def fill(buffer: Any, values: npt.NDArray[Any]) -> None:
    if isinstance(buffer, np.ndarray):
        buffer[:] = values
    else:
        buffer.copy_(torch.from_numpy(values))


def check_exchanges(
    transport: Transport,
    seed: int = 1,
    make: Callable[..., Channel] | None = None,
    device: str = "cpu",
) -> None:
    """Check several exchanges in flight at once, over several rounds."""
    make, rank, size = make or transport.exchange, transport.rank, transport.size
    random = np.random.default_rng(seed)
    cases = []
    for case, kind in enumerate(KINDS):
        messages = []  # (sender, receiver, number, words), for both ends in this order
        pairs = [(a, b) for a in range(size) for b in range(size) if a != b]
        for sender, receiver in random.permutation(np.reshape(pairs, (-1, 2))).tolist():
            for number in range(random.integers(0, 4)):
                words = int(random.choice([0, 1, 2, 7, 500]))
                messages.append((sender, receiver, number, words))
        sends = [(m, empty(m[3], kind, device)) for m in messages if m[0] == rank]
        receives = [(m, empty(m[3], kind, device)) for m in messages if m[1] == rank]
        exchange = make([(m[1], b) for m, b in sends], [(m[0], b) for m, b in receives])
        cases.append((case, exchange, sends, receives))
    own = np.random.default_rng([seed, rank])  # every rank has its own order of sends
    for turn in range(ROUNDS):
        before = transport.traffic.as_array()
        expected = np.zeros(6, np.int64)
        for case, exchange, sends, receives in cases:
            for _, buffer in receives:
                fill(buffer, np.full(len(buffer), 77))
            exchange.start()
            for k in own.permutation(len(sends)).tolist():
                message, buffer = sends[k]
                fill(buffer, content(len(buffer), seed, case, turn, *message))
                exchange.send(k)
            for at, side in ((0, sends), (3, receives)):
                for _, b in side:
                    pieces = -(-len(b) // transport.max_words)
                    expected[at : at + 3] += pieces, len(b), b.nbytes
        for case, exchange, _, receives in cases:
            right = [content(len(b), seed, case, turn, *m).tolist() for m, b in receives]
            if (case + turn) % 2 == 0:
                arrived = []
                for k in exchange.arrivals():
                    assert receives[k][1].tolist() == right[k]
                    arrived.append(k)
                assert sorted(arrived) == list(range(len(receives)))
            exchange.finish()
            assert [buffer.tolist() for _, buffer in receives] == right
        counted = transport.traffic.as_array() - before
        assert counted[:6].tolist() == expected.tolist()
        everywhere = sum(transport.gather(counted))
        assert everywhere[:3].tolist() == everywhere[3:6].tolist()


def check_reductions(
    transport: Transport, lengths: tuple[int, ...] = (0, 1, 1000), device: str = "cpu"
) -> None:
    """Check sums and maxima over the ranks, for arrays and tensors, and what `traffic` counts."""
    rank, size = transport.rank, transport.size
    for dtype in (np.float32, np.float64, np.int64, np.int8):
        for words in lengths:
            every = np.array([content(words, r) // size for r in range(size)])
            for on_device in (False, True):
                total, largest = (every[rank].astype(dtype) for _ in range(2))
                if on_device:
                    total, largest = (torch.tensor(a, device=device) for a in (total, largest))
                transport.allreduce_sum(total)
                transport.allreduce_max(largest)
                assert total.tolist() == every.sum(axis=0).tolist()
                assert largest.tolist() == every.max(axis=0).tolist()
    before = transport.traffic.as_array()
    transport.allreduce_sum(np.zeros((5, 7)))
    transport.allreduce_max(np.zeros(3))
    assert (transport.traffic.as_array() - before).tolist() == [0] * 6 + [1, 35]


def check_small_talk(transport: Transport) -> None:
    """Check methods that exchange small values: numbers, objects, names of nodes, and errors."""
    rank, size = transport.rank, transport.size
    arrived = transport.alltoall(np.array([100 * rank + k for k in range(size)]))
    assert arrived.tolist() == [100 * k + rank for k in range(size)]
    assert transport.gather(("rank", rank)) == [("rank", r) for r in range(size)]
    assert transport.all_equal(b"one")
    assert transport.all_equal(b"one" if rank else b"other") == (size == 1)
    assert 1 <= transport.cores_per_rank() <= len(usable_cores())
    assert 1 <= transport.ranks_here() <= transport.size
    nodes = transport.nodes_of_ranks()
    assert len(nodes) == transport.size
    assert transport.all_equal(",".join(nodes).encode())
    with pytest.raises(PlanError) as caught:
        transport.agree(PlanError("broken") if rank == size - 1 else None)
    last = transport.numbers[-1]
    assert str(caught.value) == (f"rank {last}: broken" if size > 1 else "broken")
    assert caught.value is transport.agreed_error
    with pytest.raises(InputError, match=r"^same$"), transport.agreement():
        raise InputError("same")
    with pytest.raises(PlanccError, match="out of memory"), transport.agreement():
        raise MemoryError
    with pytest.raises(ValueError, match="contiguous"):
        transport.exchange([((rank + 1) % size, np.zeros((4, 4))[:, 1])], [])


def check_groups(transport: Transport, device: str = "cpu") -> None:
    """Check every collective in the group of all ranks, and in groups of even and odd ranks."""
    for members in (range(transport.size), range(transport.rank % 2, transport.size, 2)):
        group = transport.subgroup(members)
        me, size, before = group.rank, group.size, transport.traffic.as_array()
        every = [content(60, 5, r) for r in group.ranks]
        together = np.sum(every, axis=0)
        bounds = np.linspace(0, 60, size + 1).astype(int).tolist()
        slices = [slice(a, b) for a, b in pairwise(bounds)]
        for kind in (torch.float32, np.int64):

            def mine(kind: Any = kind) -> Any:
                buffer = empty(60, kind, device)
                fill(buffer, every[me])  # noqa: B023  # called at once
                return buffer

            for root in range(size):
                sent, added = mine(), mine()
                group.broadcast(sent, root)
                group.reduce_sum(added, root)
                assert sent.tolist() == every[root].tolist()
                assert me != root or added.tolist() == together.tolist()
            gathered, scattered, total = mine(), mine(), mine()
            group.allgather([gathered[s] for s in slices])
            group.reduce_scatter_sum([scattered[s] for s in slices])
            group.allreduce_sum(total)
            whole = [each[s] for each, s in zip(every, slices, strict=True)]
            assert gathered.tolist() == np.concatenate(whole).tolist()
            assert scattered[slices[me]].tolist() == together[slices[me]].tolist()
            assert total.tolist() == together.tolist()
            sends, words = mine(), bounds[me + 1] - bounds[me]
            receives = [empty(words, kind, device) for _ in range(size)]
            group.alltoall([sends[s] for s in slices], receives)
            assert [b.tolist() for b in receives] == [each[slices[me]].tolist() for each in every]
        counted = sum(transport.gather(transport.traffic.as_array() - before))
        assert counted[:3].tolist() == counted[3:6].tolist()
        with pytest.raises(ValueError, match=f"root {size} for {size} ranks"):
            group.broadcast(np.zeros(1), size)


def check_pieces(transport: Transport, device: str = "cpu") -> None:
    """Check buffers that are longer than the longest message; `max_words` is made small."""
    transport.max_words, usual = 3, transport.max_words
    check_exchanges(transport, 2, device=device)
    check_reductions(transport, (0, 1, 10), device)
    transport.max_words = usual


class TransportTests:
    """Tests that every transport must pass. A subclass defines `run`, which starts the ranks."""

    def run(self, ranks: int, work: Callable[[Transport], None]) -> None:
        """Start `ranks` ranks, and call ``work(transport)`` on each.

        If a rank raises an exception, raise it here.
        """
        raise NotImplementedError

    @pytest.mark.parametrize("ranks", [1, 2, 3])
    def test_transport(self, ranks: int) -> None:
        self.run(ranks, check_transport)
