"""The time of a schedule on a machine.

Ranks wait for each other after every step of a layer and direction, so a step takes as long as its
slowest rank. An operation takes this time:

    message       latency + bytes / bandwidth; both differ inside a node and between nodes. A rank
                  sends one message after the other, and receives at the same time. A node's
                  messages to others take at least bytes / injection, the whole node's bandwidth.
    ring          g - 1 latencies, and bytes / bandwidth of the slowest link, for g ranks in their
                  order. Rings through a node share its injection (Tripathy et al. 2020, VI-A).
    tree          ceil(log2 k) rounds between k nodes, then ceil(log2 r) rounds between the r ranks
                  of a node, each of latency + bytes / bandwidth
    product       multiply-adds / rate; longer if a node has more ranks than cores. A dense product
                  also takes bytes / stream to read and write its rows.
    elementwise   bytes / stream
    batch         seconds per drawn block, row and nonzero. If ranks draw without messages, and
                  have two cores each, only the time beyond that of all other steps is added.

Late messages add only the time by which they take longer than all other steps together. Compute
time and overhead are divided by the rank's speed. Numbers of 8 bytes take twice as long as float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.plan.exchange import Int64Array
from plancc.plan.metrics import StepTraffic
from plancc.plan.words import (
    AllGatherWords,
    AllReduceWords,
    AllToAllWords,
    BroadcastWords,
    Collective,
    Counts,
)
from plancc.predict.machine import Machine
from plancc.predict.memory import WORD_BYTES
from plancc.predict.schedule import (
    COMPUTED,
    DIRECTIONS,
    DRAW,
    STEPS,
    BatchDraw,
    DenseProduct,
    Elementwise,
    Place,
    PointToPoint,
    Schedule,
    SparseProduct,
    Work,
)

if TYPE_CHECKING:
    from plancc.predict.pipelines import Pipeline

Float64Array = npt.NDArray[np.float64]

WORDS = (4, 8)
"""Allowed sizes of a number, in bytes."""
_LATE = Place(0, "update", "fold")
"""Place where ranks wait for late messages."""
_DRAW = Place(0, "batch", DRAW)
"""Place where ranks wait for a batch."""


class StepTime(NamedTuple):
    """Seconds of one operation of a layer: on the slowest rank (`rank`), and mean over ranks."""

    layer: int
    direction: str
    step: str
    slowest: float
    mean: float
    rank: int


@dataclass(frozen=True, eq=False)
class Prediction:
    """Predicted time and memory of an epoch on a machine.

    Attributes:
        steps: The steps that take time, in the order of the epoch.
        of_rank (dict of str to float64[num_ranks]): For each name in `STEPS` (and `DRAW`), the
            seconds of every rank, without waiting.
    """

    schedule: Schedule
    machine: Machine
    word_bytes: int
    steps: list[StepTime]
    of_rank: dict[str, Float64Array]

    @cached_property
    def counts(self) -> Counts:
        """Words and messages of every rank, which are counted exactly."""
        return self.schedule.counts()

    @property
    def seconds(self) -> float:
        """Seconds of an epoch: the seconds of the slowest rank in each step, summed over steps."""
        return sum(each.slowest for each in self.steps)

    @property
    def mean_seconds(self) -> float:
        """Seconds of an epoch if every rank took the mean time of all ranks in every step."""
        return sum(each.mean for each in self.steps)

    @property
    def rank_seconds(self) -> Float64Array:
        """Seconds of every rank, not counting time in which it waits for others:
        float64[num_ranks].
        """
        return np.sum(list(self.of_rank.values()), axis=0)

    @property
    def communication(self) -> float:
        """Seconds of the slowest rank in each step that sends words, summed over these steps."""
        return sum(each.slowest for each in self.steps if each.step not in COMPUTED)

    def of_step(self, step: str) -> tuple[float, float]:
        """Return two sums over the steps named `step`: slowest rank's seconds, and mean seconds."""
        chosen = [each for each in self.steps if each.step == step]
        return sum(each.slowest for each in chosen), sum(each.mean for each in chosen)

    @property
    def words(self) -> int:
        """Number of words that all ranks send."""
        return int(self.counts.words_sent.sum())

    @property
    def messages(self) -> int:
        """Number of messages that all ranks send."""
        return int(self.counts.messages_sent.sum())

    @property
    def max_words(self) -> int:
        """Largest number of words that a rank sends."""
        return int(self.counts.words_sent.max())

    @property
    def max_messages(self) -> int:
        """Largest number of messages that a rank sends."""
        return int(self.counts.messages_sent.max())

    @property
    def words_reduced(self) -> int:
        """Words that all-reduces send, summed over the ranks."""
        return int(self.counts.words_reduced.sum())

    @property
    def memory_of_rank(self) -> Int64Array:
        """Bytes that every rank needs at most at any time: int64[num_ranks].

        With words of 8 bytes, column numbers count as 8 bytes too.
        """
        return self.schedule.memory.total * (self.word_bytes // WORD_BYTES)

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of the rank with the most memory, by the fields of `Memory`, and their "total"."""
        terms = self.schedule.memory.part_terms(int(self.memory_of_rank.argmax()))
        return {name: held * (self.word_bytes // WORD_BYTES) for name, held in terms.items()}

    @property
    def fits(self) -> bool | None:
        """Whether the machine's memory per rank suffices for every rank; None if unknown."""
        memory = self.machine.node.memory
        return None if memory is None else self.memory["total"] <= memory

    def as_dict(self, per_rank: bool = False) -> dict[str, Any]:
        """Return a dict that can be written as JSON, with figures of every rank if `per_rank`."""
        schedule = self.schedule
        result: dict[str, Any] = {
            "name": schedule.name,
            "layout": schedule.layout,
            "num_ranks": schedule.num_ranks,
            "dims": schedule.dims,
            "model": schedule.convolution.as_dict(),
            "passes": list(schedule.passes),
            "word_bytes": self.word_bytes,
            "machine": self.machine.as_dict(),
            "seconds": self.seconds,
            "mean_seconds": self.mean_seconds,
            "max_rank_seconds": float(self.rank_seconds.max()),
            "of_step": {
                step: dict(zip(("slowest", "mean"), self.of_step(step), strict=True))
                for step in self.of_rank
            },
            "steps": [each._asdict() for each in self.steps],
            "words": self.words,
            "max_words_sent": self.max_words,
            "messages": self.messages,
            "max_messages_sent": self.max_messages,
            "words_reduced": self.words_reduced,
            "max_memory": self.memory,
            "mean_memory": int(self.memory_of_rank.mean()),
            "fits": self.fits,
            "notes": list(schedule.notes),
        }
        if per_rank:
            result["ranks"] = {
                "seconds": {step: times.tolist() for step, times in self.of_rank.items()},
                "words_sent": self.counts.words_sent.tolist(),
                "messages_sent": self.counts.messages_sent.tolist(),
                "memory": self.memory_of_rank.tolist(),
            }
        return result


def simulate(schedule: Schedule, machine: Machine, word_bytes: int = WORD_BYTES) -> Prediction:
    """Return the predicted time of an epoch, for numbers of 4 or 8 bytes."""
    if word_bytes not in WORDS:
        raise InputError(f"{word_bytes} bytes per number: choose 4 or 8")
    times: dict[Place, Float64Array] = {}
    own_products: dict[Place, Float64Array] = {}
    moved: dict[Place, Float64Array] = {}  # the share of `times` that all-to-alls take
    clock = WorkTimes(machine, schedule.num_ranks, word_bytes)
    late = np.zeros(schedule.num_ranks)
    for place, work in schedule.operations:
        spent = clock.seconds(work)
        if isinstance(work, PointToPoint) and work.is_late:
            late += spent
            continue
        times[place] = times[place] + spent if place in times else spent
        if isinstance(work, AllToAllWords):
            moved[place] = moved[place] + spent if place in moved else spent
        if isinstance(work, SparseProduct):
            own = work.nonzeros if work.own is None else work.own
            own_products[place] = spent * own / np.maximum(work.nonzeros, 1)
    _hide(times, own_products, machine.overlap.communication)
    if schedule.pipeline is not None:
        _overlap(times, moved, schedule.pipeline)
    if late.any():
        times[_LATE] = np.maximum(late - sum(times.values(), np.zeros(len(late))), 0)
    draws = [work for _, work in schedule.operations if isinstance(work, BatchDraw)]
    if any(work.alone for work in draws):
        spare = _shared(machine, schedule.num_ranks) <= 1 / 2
        others = sum(times.values(), -times[_DRAW])
        times[_DRAW] = np.maximum(times[_DRAW] - spare * others, 0)
    of_rank = {step: np.zeros(schedule.num_ranks) for step in (*[DRAW] * len(draws), *STEPS)}
    for (_, _, step), spent in times.items():
        of_rank[step] += spent
    return Prediction(
        schedule=schedule,
        machine=machine,
        word_bytes=word_bytes,
        steps=[
            StepTime(*place, float(t.max()), float(t.mean()), int(t.argmax()))
            for place, t in sorted(times.items(), key=lambda entry: order_of(entry[0]))
            if t.any()
        ],
        of_rank=of_rank,
    )


def slowness(machine: Machine, num_ranks: int) -> Float64Array:
    """Return how many times slower each rank is than a rank of speed 1 with a core of its own."""
    shared: Float64Array = np.maximum(_shared(machine, num_ranks), 1.0)
    return shared / machine.speeds(num_ranks)


def _shared(machine: Machine, num_ranks: int) -> Float64Array:
    """Return, for every rank, the number of ranks per core of its node; it may be below 1."""
    node = np.arange(num_ranks) // machine.node.ranks
    shared: Float64Array = np.bincount(node) / (machine.node.cores or machine.node.ranks)
    return shared[node]


def _hide(
    times: dict[Place, Float64Array], products: Mapping[Place, Float64Array], share: float
) -> None:
    """Shorten `times` of messages in place, since they overlap with products of own rows.

    The overlap hides `share` times the smaller of two times: of the messages, and of the products.
    """
    for (layer, direction, _), product in products.items():
        places = [Place(layer, direction, step) for step in ("expand", "cross", "fold")]
        exchanges = [place for place in places if place in times]
        total = sum((times[place] for place in exchanges), np.zeros(len(product)))
        left = 1 - share * np.minimum(total, product) / np.where(total > 0, total, 1)
        for place in exchanges:
            times[place] = times[place] * left


def _overlap(
    times: dict[Place, Float64Array], moved: Mapping[Place, Float64Array], pipeline: Pipeline
) -> None:
    """Subtract from the times of all-to-alls the time that a pipeline hides behind products and
    updates."""
    for place, messages in moved.items():
        product = times[place] - messages + times.get(place._replace(step="multiply"), 0.0)
        update = times.get(place._replace(step="dense"), np.zeros(len(messages)))
        hidden = messages + product + update - pipeline.seconds(messages, product, update)
        times[place] = times[place] - np.clip(hidden, 0, messages)


def order_of(place: Place) -> tuple[int, int, int]:
    """Return a key by which places (layer, direction, step) sort in the order of an epoch."""
    layer, direction, step = place
    sign = -1 if direction == "back" else 1
    return DIRECTIONS.index(direction), sign * layer, (DRAW, *STEPS).index(step)


def _shaped(
    shape: str, ring: Callable[[], Float64Array], tree: Callable[[], Float64Array]
) -> Float64Array:
    """Return `ring()` or `tree()`, as `shape` says; for "auto", their elementwise minimum."""
    if shape == "auto":
        return np.minimum(ring(), tree())
    return ring() if shape == "ring" else tree()


class _Rings(NamedTuple):
    """Rings through the ranks of several groups, with one entry for each group.

    Attributes:
        latency: Latency of g - 1 messages in turn, in seconds, if the ring has g ranks.
        bandwidth: Bytes per second of the slowest link of the ring.
    """

    latency: Float64Array
    bandwidth: Float64Array


class WorkTimes:
    """Computes how long every rank needs for an operation on numbers of 4 or 8 bytes."""

    def __init__(self, machine: Machine, num_ranks: int, word_bytes: int) -> None:
        self._machine, self._num_ranks, self._bytes = machine, num_ranks, word_bytes
        self._node = np.arange(num_ranks) // machine.node.ranks
        self._alone = slow = slowness(machine, num_ranks)  # for numbers of any width
        self._slow = slow * (word_bytes / WORD_BYTES)  # for all compute
        self._call = machine.compute.overhead * slow
        self._timers: dict[type, Callable[[Any], Float64Array]] = {
            PointToPoint: self._messages,
            BroadcastWords: self._broadcast,
            AllReduceWords: self._allreduce,
            AllGatherWords: self._allgather,
            AllToAllWords: self._alltoall,
            SparseProduct: self._sparse,
            DenseProduct: self._dense,
            Elementwise: self._elementwise,
            BatchDraw: self._draw,
        }

    def seconds(self, work: Work) -> Float64Array:
        """Return the seconds of every rank for this work, without waiting: float64[num_ranks]."""
        return self._timers[type(work)](work)

    def _sparse(self, of: SparseProduct) -> Float64Array:
        per_row = of.nonzeros / np.maximum(of.rows, 1) / np.maximum(of.calls, 1)
        rate = self._machine.sparse_multiply_adds(per_row, of.width, of.rows)
        return self._slow * of.nonzeros * of.width / rate + self._call * of.calls

    def _dense(self, of: DenseProduct) -> Float64Array:
        work = of.rows.astype(np.float64) * of.inner * of.columns
        spent = work / self._machine.dense_multiply_adds
        if self._machine.compute.stream is not None:
            words = of.rows * (of.inner + of.columns)
            spent = spent + words * WORD_BYTES / self._machine.compute.stream
        return self._slow * spent + self._call

    def _elementwise(self, of: Elementwise) -> Float64Array:
        stream = self._machine.compute.stream
        if stream is None:
            return self._call * of.calls
        return self._slow * of.words * WORD_BYTES / stream + self._call * of.calls

    def _draw(self, of: BatchDraw) -> Float64Array:
        of_block, of_row, of_nonzero = self._machine.drawn
        return self._alone * (of_block * of.blocks + of_row * of.rows + of_nonzero * of.nonzeros)

    def _messages(self, of: PointToPoint) -> Float64Array:
        split = of.pairs.by_node(self._machine.node.ranks)
        between, total = (each.times(of.width) for each in split)
        inside = (all_ - out for all_, out in zip(total, between, strict=True))
        return self._exchange(StepTraffic(*inside), between)

    def _exchange(self, inside: StepTraffic, between: StepTraffic) -> Float64Array:
        """Return each rank's seconds for messages inside and between nodes: float64[num_ranks]."""
        machine = self._machine
        near = np.maximum(
            inside.messages_sent, inside.messages_received
        ) * machine.inside_latency + np.maximum(inside.sent, inside.received) * (
            self._bytes / machine.inside_bandwidth
        )
        sent, received, messages_sent, messages_received = between
        node_words = np.maximum(*(np.bincount(self._node, weights=w) for w in (sent, received)))
        at_rank = np.maximum(sent, received) * (self._bytes / machine.bandwidth)
        busy = (sent > 0) | (received > 0)
        at_node = node_words[self._node] * (self._bytes / machine.injection) * busy
        far = np.maximum(messages_sent, messages_received) * machine.latency + np.maximum(
            at_rank, at_node
        )
        messages = (each.messages_sent + each.messages_received for each in (inside, between))
        return near + far + self._call * (sum(messages) > 0)

    def _alltoall(self, of: AllToAllWords) -> Float64Array:
        node = self._node[of.ranks]
        group = np.arange(len(of.ranks))[:, None] * (int(self._node[-1]) + 1) + node
        full = (of.rows > 0).astype(np.int64), (of.columns > 0).astype(np.int64)
        inside: list[Int64Array] = []
        between: list[Int64Array] = []
        for left, right in ((of.rows, of.columns), full):
            for mine, theirs in ((left, right), (right, left)):
                near = np.bincount(group.ravel(), weights=theirs.ravel())[group] - theirs
                others = theirs.sum(axis=1, keepdims=True) - theirs
                for moved, partners in ((inside, near), (between, others - near)):
                    amount = np.zeros(self._num_ranks, np.int64)
                    amount[of.ranks] = mine * partners
                    moved.append(amount)
        return self._exchange(StepTraffic(*inside), StepTraffic(*between))

    def _broadcast(self, of: BroadcastWords) -> Float64Array:
        buffers = np.broadcast_to(of.buffers, of.words.shape) * (of.words > 0)
        rounds = buffers.sum(axis=0)
        once = self._bytes * of.words.sum(axis=0)

        def ring_time() -> Float64Array:
            ring = self._rings(of)
            return rounds * ring.latency + once / ring.bandwidth

        shape = self._machine.collective.broadcast
        spent = _shaped(shape, ring_time, lambda: self._tree(of, rounds, once))
        return self._spread(of, spent) + self._call * self._spread(of, rounds)

    def _allreduce(self, of: AllReduceWords) -> Float64Array:
        once, members = self._bytes * of.words, of.members

        def ring_time() -> Float64Array:
            ring = self._rings(of)
            return 2 * ring.latency + 2 * (members - 1) / members * once / ring.bandwidth

        shape = self._machine.collective.allreduce
        spent = _shaped(shape, ring_time, lambda: 2 * self._tree(of, np.ones(len(once)), once))
        return self._spread(of, spent) + self._call

    def _allgather(self, of: AllGatherWords) -> Float64Array:
        ring = self._rings(of)
        arriving = of.words.sum(axis=1) - of.words.min(axis=1)
        return self._spread(of, ring.latency + self._bytes * arriving / ring.bandwidth) + self._call

    def _spread(self, of: Collective, spent: Float64Array) -> Float64Array:
        found = np.zeros(self._num_ranks)
        found[of.ranks] = spent[:, None]
        return found

    def _rings(self, of: Collective) -> _Rings:
        """Return a ring for every group of a collective, through the group's ranks in their order.

        All groups run at the same time, and share the nodes' connections to the network.
        """
        machine, members = self._machine, of.members
        node = self._node[of.ranks]
        leaves = node != np.roll(node, -1, axis=1)
        through = np.bincount(node[leaves], minlength=1)
        shared = np.full(node.shape, float(machine.inside_bandwidth))
        shared[leaves] = np.minimum(machine.bandwidth, machine.injection / through[node[leaves]])
        links = np.where(leaves, machine.latency, machine.inside_latency).sum(axis=1)
        return _Rings(links * (members - 1) / members, shared.min(axis=1))

    def _tree(
        self, of: Collective, rounds: npt.NDArray[Any], once: npt.NDArray[Any]
    ) -> Float64Array:
        """Return every group's seconds for a collective that runs along trees: float64[groups].

        One tree connects a group's nodes, and in each node a tree connects the ranks. Each link
        carries `rounds` messages, one after the other, which have `once` bytes in total.
        """
        machine = self._machine
        node = self._node[of.ranks]
        first = np.ones(node.shape, np.bool_)  # the group's first rank on a node; ranks ascend
        first[:, 1:] = node[:, 1:] != node[:, :-1]
        nodes = first.sum(axis=1)
        place = np.cumsum(first, axis=1) - 1 + np.arange(len(node))[:, None] * of.members
        most = np.bincount(place.ravel(), minlength=node.size).reshape(node.shape).max(axis=1)
        leaving = np.bincount(node[first & (nodes > 1)[:, None]], minlength=int(self._node[-1]) + 1)
        share = np.minimum(machine.bandwidth, machine.injection / np.maximum(leaving, 1))
        between = share[node].min(axis=1)
        return np.ceil(np.log2(nodes)) * (rounds * machine.latency + once / between) + np.ceil(
            np.log2(most)
        ) * (rounds * machine.inside_latency + once / machine.inside_bandwidth)
