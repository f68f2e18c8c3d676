"""Measurements of this machine with the operations of the runtime.

All ranks do the same work at once, because they share cores, caches and memory. Operations use
several sets of operands in turn, so that, as in an epoch, no operands are in the cache.

    sparse products   rates for random matrices with skewed rows and columns
    epochs            times of small networks: dense products, element-wise work, and overhead
    batches           CPU seconds to draw and build mini-batches; every rank draws its own
    messages          times of exchanges between dense products of known time
"""

from __future__ import annotations

import math
import os
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from scipy.sparse import csr_matrix

from plancc.errors import InputError
from plancc.plan.exchange import Exchange
from plancc.plan.parts import Part
from plancc.plan.values import Header
from plancc.sampling import Population
from plancc.sampling.neighbour import NeighbourSampler
from plancc.threads import check_threads, usable_cores
from plancc_lab.rehearse.links import Link
from plancc_runtime.kernels.base import SparseMatrix
from plancc_runtime.kernels.spmm import prepare
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.draws import draws_of
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.options import TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.base import Channel, Transport
from plancc_runtime.transport.row_numbers import finished
from plancc_runtime.transport.single import SingleTransport

SETS = 3
"""Number of sets of operands with which an operation takes turns."""
OPERAND_BYTES = 1 << 26
"""Bytes of the largest dense operand, which is larger than any cache."""
SKEW = 2.5
"""Skew of nonzeros per row and column: the first k of n rows have (k / n)^(1 / SKEW) of them.

So 1% of the rows have 16% of the nonzeros; in CoauthorCS 7%, in dblp-2010 12%, in
soc-Slashdot0902 23%, and in email-Enron 27%."""
PEERS = 3
"""Largest number of peers with which a rank exchanges messages at once."""
SMALL_WORDS, LARGE_WORDS = 64, 1 << 18
"""Words of a message whose time is mostly latency, and of one whose time is mostly bandwidth."""
COMPUTED_ROWS, COMPUTED_WIDTH = 20_000, 32
"""Size of the dense product between two exchanges, which takes about a millisecond."""
LAYERS, CLASSES = 3, 8
"""Depth and output width of the small networks."""
WARM_UP = 3
"""Number of first epochs, which are not measured."""
DRAWN_ROWS, BATCHES = 1 << 16, ((250, 2), (1_000, 10), (4_000, 2))
"""Rows of the matrix from which mini-batches are drawn; numbers of seed vertices, and fan-outs."""
DRAWN = 8
"""Number of mini-batches of one size."""
TURNS = 0.02
"""Seconds in which every rank that shares a core with others runs several times."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        rows, nonzeros_per_row, widths: Sizes of sparse products, ascending, in all combinations.
        networks: Number of rows and width of every small network.
        epochs: Number of measured epochs of each network, after `WARM_UP` others.
        samples: Number of samples of each measurement, whose median counts.
        seconds: Least seconds of a sample; `TURNS` if ranks share cores and `TURNS` is larger.
    """

    rows: tuple[int, ...]
    nonzeros_per_row: tuple[int, ...]
    widths: tuple[int, ...]
    networks: tuple[tuple[int, int], ...]
    epochs: int
    samples: int
    seconds: float


QUICK = Effort(
    rows=(1 << 10, 1 << 13, 1 << 16, 1 << 18),
    nonzeros_per_row=(1, 4, 16, 64),
    widths=(2, 8, 32, 128),
    networks=((16, 4), (2_000, 16), (2_000, 64), (20_000, 16), (20_000, 32), (20_000, 64)),
    epochs=8,
    samples=3,
    seconds=0.004,
)
FULL = Effort(
    rows=(1 << 10, 1 << 13, 1 << 15, 1 << 17, 1 << 19),
    nonzeros_per_row=(1, 2, 4, 8, 16, 32, 64),
    widths=(1, 4, 8, 16, 32, 64, 128, 256),
    networks=(
        (16, 4),
        *((1_000, width) for width in (16, 64)),
        *((5_000, width) for width in (16, 64, 128)),
        *((20_000, width) for width in (16, 64, 128)),
        *((80_000, width) for width in (32, 128)),
    ),
    epochs=16,
    samples=5,
    seconds=0.01,
)


@dataclass(frozen=True, eq=False)
class MeasuredRates:
    """Rates of sparse products of one rank, float32.

    Attributes:
        rows: Numbers of rows of the measured square matrices.
        width: Numbers of columns of the measured dense operands.
        multiply_adds (float64[rows, nonzeros_per_row, width]): Multiply-adds per second.
    """

    rows: list[int]
    nonzeros_per_row: list[int]
    width: list[int]
    multiply_adds: Array

    @property
    def typical(self) -> float:
        """A typical rate: the geometric mean of the rates of the largest matrices."""
        return float(np.exp(np.log(self.multiply_adds[-1]).mean()))


@dataclass(frozen=True)
class MeasuredEpochs:
    """Times of an epoch of a GCN that every rank trains alone, with all passes.

    A time is the mean over ranks of the median over epochs or, if ranks share cores, of the mean
    over epochs.

    Attributes:
        sparse, rest: Seconds of sparse products, and of all other work.
    """

    rows: int
    nonzeros: int
    dims: list[int]
    sparse: float
    rest: float


@dataclass(frozen=True)
class MeasuredDraws:
    """How long one rank takes to draw a mini-batch: means over mini-batches and ranks.

    Attributes:
        rows, nonzeros: Number of rows, and of nonzeros, of all blocks together.
        seconds: CPU seconds to draw a mini-batch and to build its blocks.
    """

    rows: float
    nonzeros: float
    blocks: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """All measurements; the same on all ranks.

    Attributes:
        transport: How messages were sent: "threads", "mpi", ...; "one rank" if there were none.
        cores: Cores per node.
        memory: Bytes per rank.
        inside, between: Links between ranks of one node, and of different nodes, or None.
        broadcast, allreduce: "ring" or "tree", the better model of the measured time, or None.
        spread: Relative difference of longest and shortest sample; large if other programs ran.
    """

    processor: str
    transport: str
    num_ranks: int
    ranks_per_node: int
    threads: int
    cores: int
    memory: int
    sparse: MeasuredRates
    epochs: list[MeasuredEpochs]
    draws: list[MeasuredDraws]
    inside: Link | None
    between: Link | None
    broadcast: str | None
    allreduce: str | None
    spread: float

    @property
    def crowd(self) -> float:
        """Threads per core, at least 1: how many times faster a rank would be on enough cores."""
        return max(1.0, self.ranks_per_node * self.threads / self.cores)


def calibrate(
    transport: Transport,
    effort: Effort = FULL,
    threads: int | None = None,
    report: Callable[[str], None] | None = None,
) -> Calibration:
    """Measure sparse products, epochs and messages on all ranks at once. Collective.

    `report` is called with the name of the next stage. Nodes must have equally many ranks.
    """
    check_threads(threads)
    say = report or (lambda stage: None)
    seen = transport.gather((platform.node(), sorted(usable_cores())))
    per_node = _ranks_per_node([host for host, _ in seen])
    cores = len(set().union(*(those for _, those in seen[:per_node])))
    threads = threads or transport.cores_per_rank()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        watch = _Watch(transport, effort, crowded=per_node * threads > cores)
        say("sparse products")
        sparse = _sparse_rates(watch)
        say("epochs")
        epochs = [_epoch_times(watch, threads, rows, width) for rows, width in effort.networks]
        say("batches")
        draws = [_draw_times(watch, seeds, fanout) for seeds, fanout in BATCHES]
        say("messages")
        node, place = divmod(transport.rank, per_node)
        nodes = transport.size // per_node
        inside = _link(watch, *_peers(place, per_node, 1, node * per_node))
        between = _link(watch, *_peers(node, nodes, per_node, place))
        say("collectives")
        broadcast, allreduce = _shapes(watch, between or inside)
    finally:
        torch.set_num_threads(before)
    return Calibration(
        processor=_processor(),
        transport=_name_of(transport),
        num_ranks=transport.size,
        threads=threads,
        ranks_per_node=per_node,
        cores=cores,
        memory=_memory() // per_node,
        sparse=sparse,
        epochs=epochs,
        draws=draws,
        inside=inside,
        between=between,
        broadcast=broadcast,
        allreduce=allreduce,
        spread=float(np.median(watch.spreads)),
    )


class _Watch:
    """Measures operations that all ranks execute at once.

    If threads share cores (`crowded`), a sample lasts so long that every thread runs many times.
    """

    def __init__(self, transport: Transport, effort: Effort, crowded: bool) -> None:
        self.transport, self.effort, self.crowded = transport, effort, crowded
        self._least = max(effort.seconds, TURNS) if crowded else effort.seconds
        self.spreads: list[float] = []  # for every measurement: longest / shortest sample - 1

    def seconds(self, *cycles: Sequence[Callable[[], None]]) -> Array:
        """Return, for every list of functions, the mean seconds of one call. Collective.

        Samples of the lists are taken in turn. The results are means over the ranks' medians of
        samples.
        """
        repeats = []
        for cycle in cycles:
            for _ in range(2):
                start = time.perf_counter()
                for call in cycle:
                    call()
                taken = time.perf_counter() - start
            repeats.append(math.ceil(self._least / max(taken, 1e-7)))
        self.transport.allreduce_max(agreed := np.array(repeats, np.float64))
        times = np.empty((self.effort.samples, len(cycles)))
        for row in times:
            for k, cycle in enumerate(cycles):
                self.transport.allreduce_max(np.zeros(1))  # all ranks begin together
                start = time.perf_counter()
                for _ in range(int(agreed[k])):
                    for call in cycle:
                        call()
                row[k] = (time.perf_counter() - start) / (agreed[k] * len(cycle))
        found = np.stack([np.median(times, axis=0), times.max(axis=0) / times.min(axis=0) - 1])
        medians, spreads = np.swapaxes(self.transport.gather(found), 0, 1)
        self.spreads += spreads.max(axis=0).tolist()
        mean: Array = medians.mean(axis=0)
        return mean


def _sparse_rates(watch: _Watch) -> MeasuredRates:
    """Return the rates of sparse products, for all sizes that `watch.effort` lists. Collective."""
    effort = watch.effort
    rates = np.empty((len(effort.rows), len(effort.nonzeros_per_row), len(effort.widths)))
    random = np.random.default_rng(watch.transport.rank)
    for i, rows in enumerate(effort.rows):
        for j, degree in enumerate(effort.nonzeros_per_row):
            # as few nonzeros as use every row of the operand
            some = min(rows, max(2 * rows // degree, 1 << 10))
            patterns = [_pattern(random, some, rows, degree * some) for _ in range(SETS)]
            for k, width in enumerate(effort.widths):
                columns = min(rows, OPERAND_BYTES // (4 * width))
                cycle = [_product(pattern, columns, width) for pattern in patterns]
                [seconds] = watch.seconds(cycle)
                rates[i, j, k] = patterns[0].nnz * width / seconds
    return MeasuredRates(
        list(effort.rows), list(effort.nonzeros_per_row), list(effort.widths), rates
    )


def _pattern(random: np.random.Generator, rows: int, columns: int, nonzeros: int) -> csr_matrix:
    """Return a random matrix whose nonzeros per row and column are skewed (see `SKEW`)."""

    def drawn(size: int) -> npt.NDArray[np.int32]:
        order = random.permutation(size).astype(np.int32)
        return order[(size * random.random(nonzeros, np.float32) ** SKEW).astype(np.int32) % size]

    counts = np.bincount(drawn(rows), minlength=rows)
    row_ptr = np.concatenate([[0], np.cumsum(counts)])
    values = random.random(nonzeros, np.float32)
    return csr_matrix((values, drawn(columns), row_ptr), (rows, columns))


def _product(pattern: csr_matrix, columns: int, width: int) -> Callable[[], None]:
    """Return a function that multiplies a sparse matrix by a dense matrix of ones.

    The dense matrix has `columns` rows: column j of `pattern` is multiplied by row ``j % columns``.
    """
    rows = pattern.shape[0]
    place = pattern.indices % columns  # the operand may be cut short
    matrix: SparseMatrix = prepare(
        csr_matrix((pattern.data, place, pattern.indptr), (rows, columns)),
        torch.float32,
        kernel="numba",
    )
    x, out = torch.ones(columns, width), torch.empty(rows, width)
    return lambda: matrix.multiply(x, out)


def _epoch_times(watch: _Watch, threads: int, rows: int, width: int) -> MeasuredEpochs:
    """Return the times of an epoch while every rank trains a small network alone. Collective."""
    transport = watch.transport
    random = np.random.default_rng(transport.rank)
    pattern = _pattern(random, rows, rows, 8 * rows)
    options = TrainOptions(
        layers=LAYERS,
        hidden=width,
        random_features=width,
        classes=CLASSES,
        epochs=WARM_UP + watch.effort.epochs,
        eval_every=0,
        threads=threads,
        optimizer="sgd",  # as `plancc.predict` has it
        lr=1e-6,
    )
    transport.allreduce_max(np.zeros(1))
    result = train(_alone(pattern), options, SingleTransport())
    seconds = [epoch.seconds_max for epoch in result.epochs[WARM_UP:]]
    # if ranks share a core, most short epochs run undisturbed, and a few wait for other ranks
    typical = np.mean if watch.crowded else np.median
    sparse = typical([each["spmm"] for each in seconds])
    rest = typical([each["total"] - each["spmm"] for each in seconds])
    mean = np.mean(transport.gather([float(sparse), float(rest)]), axis=0)
    return MeasuredEpochs(rows, pattern.nnz, result.dims, float(mean[0]), float(mean[1]))


def _draw_times(watch: _Watch, seeds: int, fanout: int) -> MeasuredDraws:
    """Return mean sizes and times of mini-batches, while every rank draws its own. Collective."""
    transport, alone = watch.transport, SingleTransport()
    rows, random = DRAWN_ROWS, np.random.default_rng(transport.rank)
    pattern = _pattern(random, rows, rows, 8 * rows)
    sampler, population = NeighbourSampler(seeds, (fanout,) * 2), Population(rows)
    block, resources = Block.of_part(_alone(pattern)[1], True), Resources(alone, torch.float32)
    draws = draws_of(block, sampler, population, 0, alone, True, resources.clock)
    found = np.zeros(3)
    transport.allreduce_max(np.zeros(1))
    for number in range(-1, DRAWN):  # the first one does not count
        start = time.thread_time()
        blocks = finished(draws.share(number % DRAWN, "live")).blocks
        for each in blocks:
            LocalGraph(each, resources).lay_out("values").lay_out_transposes()
        sizes = [(each.num_outputs, len(each.column)) for each in blocks]
        if number >= 0:
            found += *np.sum(sizes, axis=0), time.thread_time() - start
    mean = np.mean(transport.gather(found.tolist()), axis=0) / DRAWN
    return MeasuredDraws(float(mean[0]), float(mean[1]), sampler.num_blocks, float(mean[2]))


def _alone(matrix: csr_matrix) -> tuple[Header, Part]:
    """Return the header and the part of the row plan that gives the whole matrix to one part."""
    rows = matrix.shape[0]
    header = Header("row", rows, matrix.nnz, 1, True, "none", False)
    return header, Part(
        index=0,
        num_parts=1,
        first_row=0,
        global_id=np.arange(rows, dtype=np.int32),
        num_interior=rows,
        row_ptr=matrix.indptr.astype(np.int64),
        column=matrix.indices,
        value=matrix.data / 8,
        expand=Exchange.nothing(),
    )


def _link(watch: _Watch, targets: Sequence[int], sources: Sequence[int]) -> Link | None:
    """Return latency and bandwidth of exchanges with peers; None without peers. Collective."""
    if not targets:
        return None
    taken = []
    for words in (SMALL_WORDS, LARGE_WORDS):
        exchange = watch.transport.exchange(
            [(peer, torch.zeros(words)) for peer in targets],
            [(peer, torch.zeros(words)) for peer in sources],
        )

        def exchanged(exchange: Channel = exchange) -> None:
            exchange.start()
            for k in range(len(targets)):
                exchange.send(k)
            exchange.finish()

        taken.append(_between_products(watch, exchanged) / len(targets))
    small, large = taken
    more = 4 * (LARGE_WORDS - SMALL_WORDS)
    # on a busy machine a small message may take as long as a large one
    return Link(latency=small, bandwidth=more / max(large - small, large / 4))


def _shapes(watch: _Watch, link: Link | None) -> tuple[str, str] | tuple[None, None]:
    """Return the algorithms of broadcast and all-reduce, "ring" or "tree". Collective.

    Each is the algorithm whose predicted time is nearer to the measured time. Without `link`, both
    are None.
    """
    members = watch.transport.size
    if link is None:
        return None, None
    group, buffer = watch.transport.subgroup(range(members)), torch.zeros(LARGE_WORDS)
    message = 4 * LARGE_WORDS / link.bandwidth
    tree = math.ceil(math.log2(members)) * (link.latency + message)
    ring = (members - 1) * link.latency + message
    rings = 2 * (members - 1) * link.latency + 2 * (members - 1) / members * message

    def nearer(operation: Callable[[], None], ring: float, tree: float) -> str:
        taken = _between_products(watch, operation)
        return "ring" if abs(math.log(taken / ring)) <= abs(math.log(taken / tree)) else "tree"

    return (
        nearer(lambda: group.broadcast(buffer, 0), ring, tree),
        nearer(lambda: watch.transport.allreduce_sum(buffer), rings, 2 * tree),
    )


def _between_products(watch: _Watch, operation: Callable[[], None]) -> float:
    """Return the seconds of an operation that follows a dense product, as in epochs. Collective."""
    x, weight = torch.ones(COMPUTED_ROWS, COMPUTED_WIDTH), torch.eye(COMPUTED_WIDTH)
    out = torch.empty_like(x)

    def compute() -> None:
        torch.mm(x, weight, out=out)

    alone, cycle = watch.seconds([compute], [compute, operation])
    return max(2 * cycle - alone, 1e-7)


def _peers(place: int, size: int, step: int, first: int) -> tuple[list[int], list[int]]:
    """Return the ranks to which member `place` of a ring sends, and from which it receives.

    Member k of the ring is rank ``first + k * step``.
    """
    hops = range(1, min(PEERS, size - 1) + 1)
    return (
        [first + (place + hop) % size * step for hop in hops],
        [first + (place - hop) % size * step for hop in hops],
    )


def _ranks_per_node(hosts: list[str]) -> int:
    """Return the number of ranks per node; raise InputError if nodes have different numbers."""
    per_node = hosts.count(hosts[0])
    if hosts != [host for host in dict.fromkeys(hosts) for _ in range(per_node)]:
        raise InputError(
            f"ranks are on nodes {', '.join(hosts[:8])}{', ...' * (len(hosts) > 8)}: start "
            "them node by node, with equally many ranks on each"
        )
    return per_node


def _name_of(transport: Transport) -> str:
    kind = type(transport).__name__.removesuffix("Transport").lower()
    return {"single": "one rank", "local": "threads"}.get(kind, kind)


def _processor() -> str:
    """Return the name of the processor."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> int:
    """Return the bytes of memory of this node, which all its ranks share."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
