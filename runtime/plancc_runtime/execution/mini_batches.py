"""Epochs in mini-batches.

With the pass `constant` the features of halo rows of the slice are fetched once, before the first
step: of all of them, or of those that batches use most, as many as there is room for. The first
layer of a batch takes the features that it uses; the others are fetched in the step, and nothing
travels back. Where no dropout changes them, the layer begins with A X, which needs no gradient.

With `overlap` the next batch is drawn in a thread of its own while a step computes, where there are
cores for both.

With `dead-rows` a layer computes the rows that the next one reads, where a sampler draws every
layer of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from os import PathLike

import numpy as np
import torch
from torch import Tensor

from plancc.memory import available_memory
from plancc.plan.exchange import Int64Array
from plancc.plan.parts import Part
from plancc.plan.population import num_training, read_population
from plancc.plan.reader import PlanFile
from plancc.plan.values import Header
from plancc.sampling import Batch, Population, Sampler, chosen_sampler, draw, read_option
from plancc_runtime.data import LocalData
from plancc_runtime.execution.full_batch import FullBatch
from plancc_runtime.execution.protocol import EpochResult, RateOf
from plancc_runtime.layouts.batch_mask import BatchMask, BoolArray, LocalBatch
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.live import isolated, without_idle_rows
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.learner import Learner
from plancc_runtime.nn.network import Network
from plancc_runtime.options import BATCH_OPTIONS, TrainOptions
from plancc_runtime.results import BatchStep, Scores
from plancc_runtime.slices import Slice
from plancc_runtime.transport.row_numbers import send_numbers
from plancc_runtime.views import View
from plancc_runtime.workspace import empty

SHARE_OF_MEMORY = 0.25
"""Of the memory that is left, what features of halo rows may take on a machine by default."""
COUNTED = 100
"""Steps whose batches say which halo rows are used most."""


@dataclass(frozen=True)
class Drawn:
    """What mini-batches are drawn by and from, on every rank alike.

    Attributes
    ----------
    sampler : Sampler
    population : Population
    per_epoch : int
        Mini-batches of an epoch.
    remark : str
        What to say of the sampler.
    """

    sampler: Sampler
    population: Population
    per_epoch: int
    remark: str

    def whole(self, plan: str | PathLike[str] | Slice, seed: int) -> Drawn:
        """The same with all that the sampler draws from; not collective.

        Raises
        ------
        InputError, PlanError
            If the plan is damaged, or no batch can be drawn.
        """
        sampler, population = self.sampler, self.population
        if "pattern" in sampler.needs and not isinstance(plan, tuple):
            with PlanFile(plan) as file:
                population = read_population(file, sampler)
        sampler.check(population)
        draw(sampler, population, seed, 0)  # what it refuses, it refuses here
        return replace(self, population=population)


@dataclass(frozen=True, eq=False)
class BatchShare:
    """A rank's share of a mini-batch, as layers take it.

    Attributes
    ----------
    local : LocalBatch
    blocks : list of Block
    inputs : int64[m]
        Local rows of the slice that are inputs of the first block.
    outputs : int64[m] or None
        Which of ``local.rows`` are outputs of the last block; None: all.
    """

    local: LocalBatch
    blocks: list[Block]
    inputs: Int64Array
    outputs: Int64Array | None


@dataclass(frozen=True, eq=False)
class FeatureCache:
    """Features of halo rows that are kept from step to step.

    Attributes
    ----------
    kept : bool[num_halo]
        Which halo rows of the slice they are.
    of_others : bool[sent rows]
        Which of the slice's sent rows their receivers keep.
    place : int64[num_halo]
        Where a halo row that is kept stands in `rows`.
    rows : Tensor[kept rows, width]
    whole : bool
        Whether all ranks keep all of their halo rows.
    """

    kept: BoolArray
    of_others: BoolArray
    place: Int64Array
    rows: Tensor
    whole: bool


class MiniBatches(FullBatch):
    """Epochs in mini-batches; parameters as of `choice.execution_of`."""

    def __init__(
        self,
        header: Header,
        part: Part,
        data: LocalData,
        options: TrainOptions,
        resources: Resources,
        drawn: Drawn,
    ) -> None:
        super().__init__(header, part, data, options, resources)
        self.sampler, self.steps_per_epoch = str(drawn.sampler), drawn.per_epoch
        self.evaluates = self.alike = False
        self._drawn, self._self_loops = drawn, header.self_loops
        if drawn.sampler.num_blocks == 1 and "dead-rows" in self._passes:
            self._passes.remove("dead-rows")
            self.off["dead-rows"] = f"sampler '{drawn.sampler.name}' keeps its rows in all layers"
        part = replace(part, vertex_data=type(part.vertex_data)())
        self._part, self._mask = part, BatchMask(part, self._transport)
        self._cache: FeatureCache | None = None
        self._next: tuple[int, Future[BatchShare]] | None = None
        self._drawing = None
        if resources.overlap and self._has_spare_core():
            self._drawing = ThreadPoolExecutor(1, "mini-batches")
        self._fixed_of: Callable[[LayerGraph, Tensor], Tensor] | None = None

    def _has_spare_core(self) -> bool:
        """Whether drawing beside a step would not slow the step down. Collective."""
        cores = self._transport.cores_per_rank()
        on_device = self._resources.device.type != "cpu"
        return cores > (1 if on_device else min(2, torch.get_num_threads()))

    def prepare(self, network: Network) -> LocalData:
        data = self._data
        del self._data
        kept = self._kept(data) if "constant" in self._passes else None
        if kept is not None:
            if self._transport.size > 1:
                self._cache = self._filled(kept, data.features)
            if not self._options.first_dropout:
                self._fixed_of = network.fixed
        return data

    def _kept(self, data: LocalData) -> BoolArray | None:
        """Halo rows whose features have room here; None if there is none on any rank. Collective.

        Those that the first `COUNTED` steps use most come first.
        """
        number = len(self._mask.halo)
        size = data.features.shape[1] * data.features.element_size()
        room = self._options.feature_cache
        if room is None:
            left = available_memory()
            ranks = self._transport.ranks_here()
            room = number * size if left is None else int(SHARE_OF_MEMORY * left / ranks)
        rows = room // max(size, 1)
        kept = np.ones(number, np.bool_)
        if rows < number:
            kept[np.argsort(-self._uses(), kind="stable")[rows:]] = False
        most = np.array([number, kept.sum(), number * size], np.int64)
        self._transport.allreduce_max(most)
        if most[0] and not most[1]:
            given = self._options.feature_cache is not None
            self.off["constant"] = (
                f"features of halo rows take up to {most[2] / 2**20:,.1f} MiB on a rank, and "
                + ("`feature_cache`" if given else "a quarter of the memory that is left")
                + " has no room for one of them"
            )
            return None
        return kept

    def _uses(self) -> Int64Array:
        """In how many of the first steps every halo row is used: int64[num_halo]."""
        uses = np.zeros(len(self._mask.halo), np.int64)
        for number in range(min(COUNTED, self.steps_per_epoch * self._options.epochs)):
            uses[self._mask.local(self._drawn_batch(number)).halos[0]] += 1
        return uses

    def _filled(self, kept: BoolArray, features: Tensor) -> FeatureCache:
        """The features of halo rows that are kept, and who has them. Collective."""
        part = self._part
        of_others = send_numbers(part.expand.reversed(), kept, self._transport)
        block = Block.of_part(part, self._self_loops)
        rows = self._fetched(block, of_others, kept, features)
        some = np.array([not kept.all()], np.int8)
        self._transport.allreduce_max(some)
        return FeatureCache(kept, of_others, np.cumsum(kept) - 1, rows, whole=not some[0])

    def _fetched(self, block: Block, sent: BoolArray, received: BoolArray, x: Tensor) -> Tensor:
        """Some of the halo rows of x. Collective.

        `sent` and `received` say which rows of the block's exchange travel.
        """
        alone = isolated(block, np.arange(block.num_inputs))
        graph = LocalGraph(
            replace(alone, expand=block.expand.keep(sent, received)), self._resources
        )
        with torch.no_grad():
            halo = graph.halo(x.to(graph.resources.dtype)).to(x.dtype)
        graph.release_buffers()
        return halo

    def _with_halo(
        self, cache: FeatureCache, local: LocalBatch, block: Block, own: Tensor
    ) -> Tensor:
        """Features of a batch's own rows, and behind them those of its halo rows. Collective.

        `block` is that of the first layer, whose inputs `own` are.
        """
        halo, device = local.halos[0], own.device
        kept = cache.kept[halo]
        x = empty(len(own) + len(halo), own.shape[1], own)
        x[: len(own)] = own
        at = np.flatnonzero(kept) + len(own)
        found = torch.from_numpy(cache.place[halo[kept]]).to(device)
        x[torch.from_numpy(at).to(device)] = cache.rows[found]
        if not cache.whole:
            sent = ~cache.of_others[local.sents[0]]
            at = np.flatnonzero(~kept) + len(own)
            missing = self._fetched(block, sent, ~kept, own)
            x[torch.from_numpy(at).to(device)] = missing
        return x

    def _drawn_batch(self, number: int) -> Batch:
        drawn = self._drawn
        return draw(drawn.sampler, drawn.population, self._options.seed, number)

    def _share(self, number: int) -> BatchShare:
        """This rank's share of a batch; the next one's is begun. Not collective."""
        begun, self._next = self._next, None
        share = begun[1].result() if begun and begun[0] == number else self._drawn_share(number)
        if self._drawing is not None and number + 1 < self.steps_per_epoch * self._options.epochs:
            self._next = number + 1, self._drawing.submit(self._drawn_share, number + 1)
        return share

    def _drawn_share(self, number: int) -> BatchShare:
        local = self._mask.local(self._drawn_batch(number))
        blocks = [
            replace(Block.of_part(part, self._self_loops, factor), halo=self._mask.halo[halo])
            for part, factor, halo in zip(local.parts, local.factors, local.halos, strict=True)
        ]
        if "dead-rows" not in self._passes:
            return BatchShare(local, blocks, local.rows, None)
        blocks, first, last = without_idle_rows(blocks, np.flatnonzero(local.targets))
        return BatchShare(local, blocks, local.rows[first], last)

    def figures(self, network: Network) -> None:
        return None

    def epoch(
        self, learner: Learner, data: LocalData, number: int, evaluate: bool, rate_of: RateOf
    ) -> EpochResult:
        """All steps of an epoch; the loss is the mean over the targets of all of them."""
        rate = rate_of(None)
        steps = []
        # of this rank: vertices, volume, messages, words and targets found, for every step
        counts = np.zeros((self.steps_per_epoch, 5), np.int64)
        for k in range(self.steps_per_epoch):
            step, counts[k] = self._step(learner, data, number * self.steps_per_epoch + k, rate)
            steps.append(step)
        self._transport.allreduce_sum(counts)
        targets = sum(step.targets for step in steps)
        mean = sum(step.loss * step.targets for step in steps) / max(targets, 1)
        fields = ("vertices", "volume", "messages", "words_sent")
        steps = [
            replace(step, **dict(zip(fields, numbers, strict=True)))
            for step, numbers in zip(steps, counts[:, :-1].tolist(), strict=True)
        ]
        accuracy = {"train": int(counts[:, -1].sum()) / targets} if targets else {}
        return EpochResult(mean, rate, Scores(accuracy=accuracy), steps)

    def batch(self, number: int, data: LocalData) -> tuple[View, LocalData, list[Block]]:
        """What a step works on: its view, its data, and the blocks that the view is made of.

        Collective.
        """
        share = self._share(number)
        local, blocks, outputs = share.local, share.blocks, share.outputs
        graphs = [LocalGraph(block, self._resources) for block in blocks]
        view = View(graphs if len(graphs) > 1 else graphs * self._options.layers)
        device = data.features.device
        if outputs is not None:
            view.outputs = torch.from_numpy(outputs).to(device)
        batch = data.of_batch(local.rows, local.targets, self._transport)
        x = rows_of(data.features, torch.from_numpy(share.inputs).to(device))
        if self._cache is not None:
            x = self._with_halo(self._cache, local, blocks[0], x)
            view = replace(view, graphs=[graphs[0].at_hand(), *view.graphs[1:]])
        fixed = None if self._fixed_of is None else self._fixed_of(view.graphs[0], x)
        return replace(view, x=x, fixed=fixed), batch, blocks

    def _step(
        self, learner: Learner, data: LocalData, number: int, rate: float
    ) -> tuple[BatchStep, tuple[int, ...]]:
        """One step, and the counts of this rank. Collective."""
        traffic = self._transport.traffic
        words = traffic.words_sent
        view, batch, blocks = self.batch(number, data)
        loss, outputs = learner.gradients(view, batch, number, f"step {number}")
        learner.update(rate)
        return BatchStep(number, loss, batch.split_sizes["train"]), (
            len(batch.labels),
            sum(block.num_sent for block in blocks),
            sum(block.expand.send.num_messages for block in blocks),
            traffic.words_sent - words,
            learner.num_found(outputs, view, batch),
        )


def rows_of(x: Tensor, rows: Tensor) -> Tensor:
    """These rows of x: Tensor[m, width]."""
    out = empty(len(rows), x.shape[1], x)
    torch.index_select(x, 0, rows, out=out)
    return out


def recorded_sampler(plan: str | PathLike[str] | Slice) -> str:
    """The sampler that a plan file was compiled for; empty for a slice and for other plans."""
    if isinstance(plan, tuple):
        return ""
    with PlanFile(plan) as file:
        return _sampler_in(file)


def _sampler_in(file: PlanFile) -> str:
    return str(file.attributes("provenance").get("sampler", ""))


def chosen_batches(
    plan: str | PathLike[str] | Slice, options: TrainOptions, header: Header
) -> Drawn | None:
    """The sampler of mini-batches, and what it draws from without the pattern; not collective.

    What the user does not say is as the plan was compiled for. None: full batch.

    Raises
    ------
    InputError
        If the options do not fit each other, the plan or the model.
    PlanError
        If the plan is damaged.
    """
    if not options.mini_batches:
        return None
    given = {name: getattr(options, name) for name in BATCH_OPTIONS}
    for name, value in (options.sampler_options or {}).items():
        given[name] = read_option(name, value)
    n = header.num_vertices
    if isinstance(plan, tuple):
        sampler = chosen_sampler("", n, None, options.sampler, **given)
        population = Population(n)
    else:
        with PlanFile(plan) as file:
            recorded = _sampler_in(file)
            training = num_training(file)
            sampler = chosen_sampler(recorded, n, training, options.sampler, **given)
            population = read_population(file, sampler, with_pattern=False)
    sampler.check_layers(options.layers)
    sampler, remark = sampler.fitted(population)
    if isinstance(plan, tuple) or "pattern" not in sampler.needs:
        sampler.check(population)
    per_epoch = options.steps or sampler.batches_per_epoch(population)
    return Drawn(sampler, population, per_epoch, remark)
