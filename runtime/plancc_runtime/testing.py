"""Checks that the authors of transports and layouts inherit, or call on every rank. Needs pytest.

All ranks draw the same messages from a seed, so each knows what it must receive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import torch

from plancc.errors import InputError, PlanccError, PlanError
from plancc.plan.layers import Aggregate
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.transport.base import Channel, Transport, usable_cores
from plancc_runtime.transport.local import run_ranks

ROUNDS = 3
KINDS = (torch.float32, torch.float64, torch.bfloat16, torch.float16, np.float32, np.int64)
"""Types of the numbers in messages."""


def check_transport(transport: Transport, device: str = "cpu") -> None:
    """All checks, with tensors on `device`. Collective."""
    check_small_talk(transport)
    for check in (check_exchanges, check_reductions, check_groups, check_pieces):
        check(transport, device=device)


def empty(words: int, kind: Any, device: str = "cpu") -> Any:
    """A tensor, or an array for a dtype of numpy."""
    if isinstance(kind, torch.dtype):
        return torch.zeros(words, dtype=kind, device=device)
    return np.zeros(words, kind)


def content(words: int, *key: int) -> npt.NDArray[np.int64]:
    """Small integers, which all kinds of numbers hold exactly."""
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
    """Several exchanges under way at once, each for several rounds, in every way to wait."""
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
    own = np.random.default_rng([seed, rank])  # the order of sends is each rank's own
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
    """Sums and maxima of arrays and tensors, and what they count."""
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
    """Numbers, objects and errors that the ranks tell each other."""
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
    """Every collective of all ranks, and of those with even and with odd numbers."""
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
        with pytest.raises(ValueError, match=f"root {size} for a group of"):
            group.broadcast(np.zeros(1), size)


def check_pieces(transport: Transport, device: str = "cpu") -> None:
    """Messages longer than the transport takes at once."""
    transport.max_words, usual = 3, transport.max_words
    check_exchanges(transport, 2, device=device)
    check_reductions(transport, (0, 1, 10), device)
    transport.max_words = usual


class TransportTests:
    """Inherit, and start ranks."""

    def run(self, ranks: int, work: Callable[[Transport], None]) -> None:
        """Call ``work(transport)`` on so many ranks, and raise what one of them raises."""
        raise NotImplementedError

    @pytest.mark.parametrize("ranks", [1, 2, 3])
    def test_transport(self, ranks: int) -> None:
        self.run(ranks, check_transport)


# -- layouts ---------------------------------------------------------------------------------------

Float64Array = npt.NDArray[np.float64]
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}
"""Largest error of a product, over the largest number in it if that is above 1."""
TIMEOUT = 180.0
"""Seconds for the ranks of a check."""


@dataclass(frozen=True)
class Layout:
    """A layout of a matrix on some ranks.

    Attributes
    ----------
    num_ranks : int
    make : callable of (Transport, Resources) to LayerGraph
        A rank's share; collective.
    dense : mapping of str to float64[n, n]
        The matrix with the values of every name in `plancc.plan.layers.COEFFICIENTS` that it has,
        rows and columns by vertex.
    share : float
        What a rank's gradients are of whole ones, where several ranks compute the same loss.
    options : mapping
        Other `Resources` than the usual ones, by name.
    """

    num_ranks: int
    make: Callable[[Transport, Resources], LayerGraph]
    dense: Mapping[str, Float64Array]
    share: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)


class _Answer(NamedTuple):
    """A rank's rows and columns, A h and A^T g of them, and what was counted and told for both."""

    rows: npt.NDArray[np.int32]
    columns: npt.NDArray[np.int64]
    product: Float64Array
    adjoint: Float64Array
    counted: list[npt.NDArray[np.int64]]
    told: list[npt.NDArray[np.int64]]


class LayoutTests:
    """What every layout must do; `layout` is a fixture of the subclass."""

    width = 10
    """Columns of what is multiplied; every rank of a grid that splits them must have one."""

    @pytest.fixture
    def layout(self) -> Layout:
        """The layout that is checked."""
        raise NotImplementedError("give a fixture `layout`")

    @pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
    def test_products_and_gradients_are_those_of_the_dense_matrix(
        self, layout: Layout, dtype: torch.dtype
    ) -> None:
        for name, dense in layout.dense.items():
            h, g = self._operands(dense)
            for answer in self._answers(layout, name, dtype):
                for found, whole in ((answer.product, dense @ h), (answer.adjoint, dense.T @ g)):
                    expected = whole[answer.rows][:, answer.columns]
                    most = TOLERANCE[dtype] * max(np.abs(whole).max(), 1)
                    np.testing.assert_allclose(found, expected, rtol=0, atol=most)

    def test_the_adjoint_is_the_transpose(self, layout: Layout) -> None:
        """<A h, g> = <h, A^T g>, every row and column once."""
        name = next(iter(layout.dense))
        h, g = self._operands(layout.dense[name])
        sums, seen = np.zeros(2), np.zeros(h.shape, np.bool_)
        for answer in self._answers(layout, name):
            at = np.ix_(answer.rows, answer.columns)
            new = ~seen[at]
            sums += [np.sum(pair[new]) for pair in (answer.product * g[at], answer.adjoint * h[at])]
            seen[at] = True
        assert seen.all()
        assert sums[0] == pytest.approx(sums[1], rel=1e-10)

    def test_overlap_changes_no_bit(self, layout: Layout) -> None:
        name = next(iter(layout.dense))
        both = (self._answers(layout, name, overlap=overlap) for overlap in (True, False))
        for there, here in zip(*both, strict=True):
            np.testing.assert_array_equal(there.product, here.product)
            np.testing.assert_array_equal(there.adjoint, here.adjoint)

    def test_words_and_messages_are_those_that_are_counted(self, layout: Layout) -> None:
        for answer in self._answers(layout, next(iter(layout.dense))):
            for counted, told in zip(answer.counted, answer.told, strict=True):
                assert counted.tolist() == told.tolist()

    def _operands(self, dense: Float64Array) -> tuple[Float64Array, Float64Array]:
        n = len(dense)
        h, g = np.random.default_rng(n).standard_normal((2, n, self.width))
        return h, g

    def _answers(
        self,
        layout: Layout,
        name: str,
        dtype: torch.dtype = torch.float64,
        overlap: bool = True,
    ) -> list[_Answer]:
        """What all ranks find, at the second product: exchanges are played again."""
        h, g = self._operands(layout.dense[name])

        def work(transport: Transport) -> _Answer:
            torch.set_num_threads(1)
            resources = Resources(transport, dtype, overlap=overlap, **layout.options)
            graph = layout.make(transport, resources)
            rows = graph.vertices.numpy()
            columns = graph.own_columns(torch.arange(self.width)).numpy()
            for _ in range(2):
                x = torch.tensor(h[rows][:, columns], dtype=dtype, requires_grad=True)
                traffic = [transport.traffic.as_array()]
                out = graph.product(x, name)
                traffic.append(transport.traffic.as_array())
                out.backward(torch.tensor(g[rows][:, columns] * layout.share, dtype=dtype))
                traffic.append(transport.traffic.as_array())
            assert x.grad is not None
            counted = [each[[0, 1, 3, 4]] for each in np.diff(traffic, axis=0)]
            steps = [Aggregate(self.width, name, back=back) for back in (False, True)]
            told = [_numbers(graph, step) for step in steps]
            graph.release_buffers()
            adjoint = x.grad.double().numpy() / layout.share
            return _Answer(rows, columns, out.detach().double().numpy(), adjoint, counted, told)

        return run_ranks(layout.num_ranks, work, TIMEOUT)


def _numbers(graph: LayerGraph, step: Aggregate) -> npt.NDArray[np.int64]:
    counts = graph.counts(step)
    names = ("messages_sent", "words_sent", "messages_received", "words_received")
    return np.concatenate([getattr(counts, name) for name in names])
