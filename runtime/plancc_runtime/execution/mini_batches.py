"""Epochs in mini-batches.

With the pass `constant`, halo features are fetched once, before the first step; if memory is short,
only those used most. If no dropout changes a mini-batch's features X, A X is computed before its
step.

With `overlap`, mini-batches are made in two stages: during step k, the features of batch k + 1 are
fetched, and batch k + 2 is drawn. If every rank draws whole batches, ranks with several cores draw
in a separate thread. If no rank has such a thread, ranks exchange the messages of both stages
between the layers of a step, at the same points on all ranks. Three batches then compete for the
caches, so the first steps also try to make batches between steps. The quicker way is kept.

With `dead-rows`, a layer computes only the rows that the next layer reads, if the sampler draws a
separate block for every layer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from plancc.plan.exchange import Exchange, Int64Array
from plancc.plan.layers import Aggregate
from plancc.plan.parts import Part
from plancc_runtime.data import LocalData
from plancc_runtime.execution.drawn import Drawn
from plancc_runtime.execution.full_batch import FullBatch
from plancc_runtime.execution.protocol import EpochResult, RateOf
from plancc_runtime.kernels import openmp
from plancc_runtime.layouts.batch_mask import BoolArray, LocalBatch, RowsOfBlocks
from plancc_runtime.layouts.draws import draws_of
from plancc_runtime.layouts.halo import Halo
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.live import isolated
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.learner import Learner
from plancc_runtime.nn.network import Network
from plancc_runtime.results import BatchStep, Scores
from plancc_runtime.tasks.base import LearningTask
from plancc_runtime.transport.messages import Traffic
from plancc_runtime.transport.row_numbers import Rounds, finished, send_numbers
from plancc_runtime.views import View
from plancc_runtime.workspace import empty, return_memory

SHARE_OF_OWN, LEAST_CACHE = 1 / 8, 2**24
"""Default memory for features of halo rows: `SHARE_OF_OWN` of the bytes of own features, but at
least `LEAST_CACHE` bytes."""
COUNTED = 100
"""Number of steps, from the first, in whose batches the uses of halo rows are counted."""
TURN, UNTIMED, TURNS = 8, 2, 4
"""Numbers for the trial of the two ways to make batches. The way changes after every `TURN` steps.
The first `UNTIMED` of these steps are not timed, since their batches were made in the other way.
Both ways together have `TURNS` turns of `TURN` steps."""


@dataclass(frozen=True, eq=False)
class BatchShare:
    """A rank's share of a mini-batch, as the network needs it.

    Attributes:
        local: The rows, nonzeros and messages of the slice that are in the mini-batch.
        x: Features of own rows; None before they are fetched. With a feature cache, features of
            halo rows follow if not all rows of the slice are inputs.
        fixed: What the first layer reads instead of the features, as in `View`, or None.
        graphs: Graph of every layer.
        words_drawn, words_fetched: Words that this rank sent to draw and to fetch features.
    """

    local: LocalBatch
    x: Tensor | None = None
    graphs: Sequence[LocalGraph] = ()
    fixed: Tensor | None = None
    words_drawn: int = 0
    words_fetched: int = 0


class UnderWay:
    """A rank's share of mini-batch `number`, made in rounds of messages during a training step.

    Parameters:
        rounds: Rounds that make the share. The first round starts at once.
        timed: Function that returns a context, which measures the time of a round.

    Attributes:
        words (int): Words that this rank has sent in the rounds.
    """

    def __init__(
        self,
        number: int,
        rounds: Rounds[BatchShare],
        traffic: Traffic,
        timed: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self.number, self._rounds, self._traffic, self._timed = number, rounds, traffic, timed
        self.words = 0
        self._share: BatchShare | None = None
        self.go_on()

    def go_on(self) -> None:
        """End the current round of messages; start the next round, if there is one. Collective."""
        if self._share is None:
            before = self._traffic.words_sent
            try:
                with self._timed():
                    next(self._rounds)
            except StopIteration as end:
                self._share = end.value
            self.words += self._traffic.words_sent - before

    def end(self) -> BatchShare:
        """Run the remaining rounds of messages, and return the rank's share. Collective."""
        while self._share is None:
            self.go_on()
        return self._share


@dataclass(frozen=True, eq=False)
class FeatureCache:
    """Features of halo rows that stay in memory for all steps.

    Attributes:
        kept (bool[num_halo]): Whether each halo row of the slice is kept.
        of_others (bool[sent rows]): Whether each sent row is kept by its receiver.
        place (int64[num_halo]): Position of every kept halo row in `rows`; else undefined.
        rows (Tensor[kept rows, width]): Features of the kept halo rows.
        whole: Whether all ranks keep all of their halo rows.
    """

    kept: BoolArray
    of_others: BoolArray
    place: Int64Array
    rows: Tensor
    whole: bool


class MiniBatches(FullBatch):
    """Epochs in mini-batches. See `choice.execution_of` for the parameters."""

    def __init__(
        self, task: LearningTask, part: Part, data: LocalData, resources: Resources, drawn: Drawn
    ) -> None:
        options = task.options
        if not task.model(options.model).reads_values:  # no step then copies values
            part = replace(part, value=np.broadcast_to(np.float64(1), len(part.column)))
        super().__init__(task, part, data, resources)
        self.sampler, self.steps_per_epoch = str(drawn.sampler), drawn.per_epoch
        self.evaluates = self.alike = False
        if drawn.sampler.num_blocks == 1 and "dead-rows" in self._passes:
            self._passes.remove("dead-rows")
            self.off["dead-rows"] = f"sampler '{drawn.sampler.name}' has one block for all layers"
        drawing = (drawn.sampler, drawn.population, options.seed, self._transport)
        training = data.split_sizes["train"]
        self._num_targets = drawn.sampler.num_targets(drawn.population, training)
        self._clock = resources.clock
        self._draws = draws_of(self._block, *drawing, drawn.by_owners, self._clock, drawn.seeds)
        self._cache: FeatureCache | None = None
        self._mapped: Tensor | None = None  # features that stay in the plan's file
        self._drawing: UnderWay | None = None
        self._fetching: UnderWay | None = None  # the batch before `_drawing`
        self._thread: ThreadPoolExecutor | None = None
        self._threads = torch.get_num_threads()  # torch's threads in a step
        self._second = openmp.SecondThread()  # the same thread, which helps steps
        self._drawn: dict[int, Future[BatchShare]] = {}  # what the thread draws, or has drawn
        self._draw_next: Callable[[], object] = int  # lets the thread draw the next mini-batch
        self._ahead = resources.overlap and self._transport.size > 1
        # Seconds of steps whose batches were made between steps, and beside steps.
        self._tried: tuple[list[float], list[float]] | None = None
        self._fixed_of: Callable[[LayerGraph, Tensor], Tensor] | None = None
        self._coefficients: list[list[str]] = []  # coefficients of every layer's products
        self._in_place = False  # whether all rows of the slice are inputs of the first block
        self._reads_outputs = False  # whether layer 1 reads only own outputs and its fixed part

    def _start_thread(self) -> None:
        """Start a thread that makes mini-batches, if a rank has several cores. Collective."""
        cores = self._transport.cores_per_rank()
        if cores > 1:
            self._ahead, self._thread = True, ThreadPoolExecutor(1, "mini-batches")
            self._threads = min(self._threads, cores - 1)

    def _try(self, tried: tuple[list[float], list[float]], number: int, seconds: float) -> None:
        """Record a step's seconds, to choose between two ways to make mini-batches. Collective.

        Batches are made between steps (index 0 of `tried`), or during a step (index 1). Each way
        gets turns of `TURN` steps. The way with the shorter median on the slowest rank is kept.
        """
        if number % TURN >= UNTIMED:
            tried[self._ahead].append(seconds)
        self._ahead ^= (number + 1) % TURN == 0
        if min(map(len, tried)) >= (TURN - UNTIMED) * TURNS // 2:
            between, beside = self._transport.largest(*(int(1e6 * median(t)) for t in tried))
            self._ahead, self._tried = beside < between, None
            self.drawing = (
                f"{'beside' if self._ahead else 'between'} steps: the first steps took "
                f"{beside / 1e3:.3g} ms with drawing beside them, {between / 1e3:.3g} ms between"
            )

    def prepare(self, network: Network) -> LocalData:
        data = self._data
        del self._data
        self._mapped = data.features if self._options.features_on_disk else None
        self._type = data.features.dtype if self._mapped is None else self._resources.dtype
        if self._resources.overlap and self._draws.alone:
            self._start_thread()
        self._coefficients = [
            [
                each.coefficients
                for each in layer.both_ways(k == 0).forward
                if type(each) is Aggregate
            ]
            for k, layer in enumerate(network.convs)
        ]
        if self._ahead:
            # If owners draw, no batch is made in an earlier epoch than its own. So the steps of a
            # short epoch differ in what they make, and their median says nothing.
            short = not self._draws.alone and self.steps_per_epoch < TURN
            untried = short or self._thread is not None or not self._transport.is_timed
            self._tried = None if self._transport.any(untried) else ([], [])
            network.entered = partial(self._entered, network.entered or str)
        kept = self._kept(data) if "constant" in self._passes else None
        if kept is not None:
            if self._transport.size > 1:
                self._cache = self._filled(kept, data.features)
            if not self._options.first_dropout:
                self._fixed_of = network.fixed
                first = network.convs[0]
                self._reads_outputs = first.fixed_rows == "outputs" and (
                    first.reads_input or self._options.residual
                )
                self._in_place = (
                    "dead-rows" in self._passes
                    and first.fixes_product
                    and data.features.dtype == self._resources.dtype
                )
        return data

    def whole(self) -> View:
        view = super().whole()
        if self._mapped is None:
            return view
        return_memory()  # memory of steps: an evaluation holds outputs of all rows
        return replace(view, x=self._mapped.to(self._type))

    def _kept(self, data: LocalData) -> BoolArray | None:
        """Choose the halo rows whose features are cached, bool[num_halo]. Collective.

        The first `COUNTED` steps use these rows most. None if every rank lacks memory for a row.
        """
        number, room = len(self._draws.halo), self._options.feature_cache
        size = data.features.shape[1] * self._type.itemsize
        if room is None:
            room = max(int(SHARE_OF_OWN * size * len(data.features)), LEAST_CACHE)
        rows = room // max(size, 1)
        kept = np.ones(number, np.bool_)
        if self._transport.any(rows < number):
            kept[np.argsort(-self._uses(), kind="stable")[rows:]] = False
        halo_rows, kept_rows, num_bytes = self._transport.largest(number, kept.sum(), number * size)
        if halo_rows and not kept_rows:
            self.off["constant"] = (
                f"features of halo rows take up to {num_bytes / 2**20:,.1f} MiB on a rank, and "
                "`feature_cache` has no room for a single row"
            )
            return None
        return kept

    def _uses(self) -> Int64Array:
        """Return, for each halo row, how many of the first `COUNTED` steps use it. Collective.

        The result is int64[num_halo].
        """
        uses = np.zeros(len(self._draws.halo), np.int64)
        for number in range(min(COUNTED, self.steps_per_epoch * self._options.epochs)):
            uses[finished(self._draws.share(number)).halos[0]] += 1
        return uses

    def _filled(self, kept: BoolArray, features: Tensor) -> FeatureCache:
        """Fetch the features of the `kept` halo rows, and return them as a cache. Collective."""
        expand = self._block.expand
        of_others = send_numbers(expand.reversed(), kept, self._transport)
        exchange = expand.keep(of_others, kept)
        rows = finished(self._fetched(exchange, features))
        place, whole = np.maximum(np.cumsum(kept) - 1, 0), not self._transport.any(not kept.all())
        return FeatureCache(kept, of_others, place, rows, whole)

    def _fetched(self, exchange: Exchange, x: Tensor) -> Rounds[Tensor]:
        """Fetch the rows of x that this rank receives in an exchange. Collective."""
        halo = Halo(exchange, len(x), self._resources)
        buffers = halo.buffers(x.shape[1])
        halo.send_rows(x.to(self._resources.dtype).contiguous(), buffers)
        yield
        return halo.take(buffers).to(self._type)

    def _with_features(self, share: BatchShare, features: Tensor) -> Rounds[BatchShare]:
        """Return the share with `x` and `fixed`, from `features` of all own rows. Collective."""
        if share.x is not None:
            return share
        x, halo = yield from self._features_of(share, features)
        first, *others = share.graphs
        graph = first if self._cache is None else first.with_halo(halo)
        with self._clock("dense"):
            fixed = None if self._fixed_of is None else self._fixed_of(graph, x)
            block = share.local.blocks[0]
            if fixed is not None and block.outputs is not None and self._reads_outputs:
                x, rows = graph.targets(x), block.outputs
                graph = self._graph_of(isolated(block, rows))
        return replace(share, x=x, graphs=[graph, *others], fixed=fixed)

    def _features_of(
        self, share: BatchShare, features: Tensor
    ) -> Rounds[tuple[Tensor, Tensor | None]]:
        """Return a mini-batch's features `View.x`, and the features of halo rows. Collective.

        The features of halo rows are None if there is no cache, or if x itself has halo rows. With
        a cache, halo rows that are not in it are fetched.
        """
        cache = self._cache
        own = features if self._in_place else rows_of(features, share.local.inputs).to(self._type)
        if cache is None:
            return own, None
        halo = share.local.halos[0]
        rows = rows_of(cache.rows, cache.place[halo])
        if not cache.whole:
            missing, sent = ~cache.kept[halo], ~cache.of_others[share.local.sents[0]]
            exchange = share.local.blocks[0].expand.keep(sent, missing)
            fetched = yield from self._fetched(exchange, own)
            rows[torch.from_numpy(missing).to(rows.device)] = fetched
        if self._in_place:
            return own, rows
        out = empty(len(own) + len(rows), rows.shape[1], rows)
        return torch.cat([own, rows], out=out), None

    def _share(self, number: int, features: Tensor) -> BatchShare:
        """Return this rank's share of mini-batch `number`, and start to make later mini-batches.

        Collective. If the thread of a single rank draws, it draws one mini-batch per step, from the
        last layer's forward pass on. The first layers, which have the largest products, may thus
        use the thread's core, and the thread works while the many small operations of loss and
        backward pass leave this core idle.
        """
        if self._thread is not None and self._transport.size == 1:
            later = range(number, max(self.steps_per_epoch * self._options.epochs, number + 1))
            for k in later[:2]:
                self._submit(k, features)
            self._draw_next = partial(self._submit, later[2], features) if later[2:] else int
            with self._clock("draw"):
                return self._drawn.pop(number).result()
        fetching, self._fetching = self._fetch(number, features), None
        share = replace(fetching.end(), words_fetched=fetching.words)
        if self._ahead:  # the messages of a batch must be sent in the epoch of the batch
            last = (number // self.steps_per_epoch + 1) * self.steps_per_epoch - 1
            behind = number + 1
            if behind <= last:
                self._fetching = self._fetch(behind, features)
                behind += 1
            if self._draws.alone:
                last = self.steps_per_epoch * self._options.epochs - 1
            if behind <= last:
                self._drawing = self._draw(behind, features)
        return share

    def _entered(self, entered: Callable[[str], object], stage: str) -> None:
        """Call ``entered(stage)``, then run a round of messages for later batches. Collective."""
        entered(stage)
        if stage == f"layer {self._options.layers} forward":
            self._draw_next()
        if self._fetching is not None:
            self._fetching.go_on()
        if self._drawing is not None and self._thread is None:
            self._drawing.go_on()

    def _fetch(self, number: int, features: Tensor) -> UnderWay:
        """Draw mini-batch `number` and start to fetch its features, unless begun. Collective."""
        fetching = self._fetching
        if fetching is None or fetching.number != number:
            drawing, self._drawing = self._draw(number, features), None
            share = replace(drawing.end(), words_drawn=drawing.words)
            timed = partial(self._clock, "features")
            rounds = self._with_features(share, features)
            fetching = UnderWay(number, rounds, self._transport.traffic, timed)
        return fetching

    def _draw(self, number: int, features: Tensor) -> UnderWay:
        """Begin to draw mini-batch `number`, unless begun; return the object that ends the drawing.

        Collective if every rank draws only for its own rows (`OwnerDraws`).
        """
        drawing = self._drawing
        if drawing is None or drawing.number != number:
            rounds, phase = self._made(number, features), "mask"
            if self._thread is not None:
                self._submit(number, features)
                rounds, phase = self._of_thread(number), "draw"
            timed = partial(self._clock, phase)
            drawing = UnderWay(number, rounds, self._transport.traffic, timed)
        return drawing

    def _submit(self, number: int, features: Tensor) -> None:
        """Let the thread draw mini-batch `number`, unless this was done already."""
        if number not in self._drawn:
            assert self._thread is not None
            self._second.is_idle, rounds = False, self._made(number, features)
            self._drawn[number] = self._thread.submit(self._draw_and_help, rounds)

    def _draw_and_help(self, rounds: Rounds[BatchShare]) -> BatchShare:
        """Draw a mini-batch; then help with the compiled function that runs. In the thread."""
        self._second.is_idle = False
        try:
            return finished(rounds)
        finally:
            self._second.is_idle = True
            self._second.help()

    def _of_thread(self, number: int) -> Rounds[BatchShare]:
        yield
        return self._drawn.pop(number).result()

    def _made(self, number: int, features: Tensor) -> Rounds[BatchShare]:
        """Draw mini-batch `number`, and make the graph of each of its blocks.

        A single rank also copies `features`. Collective if ranks draw only own rows (`OwnerDraws`).
        """
        which: RowsOfBlocks = "live" if "dead-rows" in self._passes else "all"
        local = yield from self._draws.share(number, "in place" if self._in_place else which)
        graphs = [self._graph_of(each) for each in local.blocks]
        share = BatchShare(local, None, graphs * (self._options.layers // len(graphs)))
        for layer, (graph, coefficients) in enumerate(
            zip(share.graphs, self._coefficients, strict=True)
        ):
            for each in coefficients:
                executor = graph.lay_out(each)
                if layer:
                    executor.lay_out_transposes()
        if self._transport.size == 1:
            share = yield from self._with_features(share, features)
        return share

    def figures(self, network: Network) -> None:
        return None

    def epoch(
        self, learner: Learner, data: LocalData, number: int, evaluate: bool, rate_of: RateOf
    ) -> EpochResult:
        """Execute all steps of an epoch. The loss is the mean over the targets of all steps."""
        rate = rate_of(None)
        steps = []
        # Counts of this rank for every step: these fields, and the number of correct targets.
        fields = ["vertices", "volume", "messages", "words_sent"]
        if not self._draws.alone:
            fields.append("words_drawn")
        counts = np.zeros((self.steps_per_epoch, len(fields) + 1), np.int64)
        before = torch.get_num_threads()
        torch.set_num_threads(self._threads)
        openmp.of_step.second = None if self._thread is None else self._second
        try:
            for k in range(self.steps_per_epoch):
                begin, of_run = perf_counter(), number * self.steps_per_epoch + k
                step, counts[k] = self._step(learner, data, of_run, rate)
                steps.append(step)
                if self._tried is not None:
                    self._try(self._tried, of_run, perf_counter() - begin)
        finally:
            torch.set_num_threads(before)
            openmp.of_step.second = None
        self._transport.allreduce_sum(counts)
        targets = sum(step.targets for step in steps)
        mean = sum(step.loss * step.targets for step in steps) / max(targets, 1)
        steps = [
            replace(step, **dict(zip(fields, numbers, strict=True)))
            for step, numbers in zip(steps, counts[:, :-1].tolist(), strict=True)
        ]
        accuracy = {}
        if targets and "accuracy" in data.target.metrics:
            accuracy = {"train": int(counts[:, -1].sum()) / targets}
        return EpochResult(mean, rate, Scores(accuracy=accuracy), steps)

    def batch(self, number: int, data: LocalData) -> tuple[View, LocalData, BatchShare]:
        """Return a step's view, its data, and this rank's share of the mini-batch. Collective."""
        self._clock.enter("batch")
        share = self._share(number, data.features)
        local, outputs = share.local, None
        if local.outputs is not None:
            outputs = torch.from_numpy(local.outputs).to(data.labels.device)
        with self._clock("allreduce"):
            counted = self._transport, self._num_targets
            batch = data.batch_data(local.rows, local.targets, *counted, local.seeds)
        view = View(share.graphs, outputs=outputs, x=share.x, fixed=share.fixed)
        return view, batch, share

    def _step(
        self, learner: Learner, data: LocalData, number: int, rate: float
    ) -> tuple[BatchStep, tuple[int, ...]]:
        """Execute one step; return its result, and numbers that this rank counted. Collective.

        The numbers are those that `epoch` names in `fields`, then the number of correct targets.
        """
        view, batch, share = self.batch(number, data)
        blocks = share.local.blocks
        words = self._words_of_step()
        loss, outputs = learner.gradients(view, batch, number, f"step {number}")
        learner.update(rate)
        return BatchStep(number, loss, batch.split_sizes["train"]), (
            len(batch.labels),
            sum(block.num_sent for block in blocks),
            sum(block.expand.send.num_messages for block in blocks),
            share.words_fetched + self._words_of_step() - words,
            *([] if self._draws.alone else [share.words_drawn]),
            learner.num_found(outputs, view, batch),
        )

    def _words_of_step(self) -> int:
        """Return how many words this rank has sent in the run.

        Words sent to draw or fetch mini-batches that are not ready yet are not counted.
        """
        under_way = [each.words for each in (self._drawing, self._fetching) if each is not None]
        return self._transport.traffic.words_sent - sum(under_way)


def rows_of(x: Tensor, rows: Int64Array) -> Tensor:
    """Return some rows of x: Tensor[m, width].

    Parameters:
        rows (int64[m]): Indices of these rows in x.
    """
    out = empty(len(rows), x.shape[1], x)
    torch.index_select(x, 0, torch.from_numpy(rows).to(x.device), out=out)
    return out
