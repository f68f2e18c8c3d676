"""Epochs in mini-batches. Knows samplers, a rank's slice and the learner.

With the pass `constant` the features of all halo rows of the slice are fetched once, before the
first step. Then the first layer of a batch takes those that it uses, and sends nothing; where no
dropout changes them, it begins with A X, which needs no gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike

import numpy as np
import torch
from torch import Tensor

from plancc.memory import available_memory
from plancc.plan.parts import Part
from plancc.plan.population import num_training, read_population
from plancc.plan.reader import PlanFile
from plancc.plan.values import Header
from plancc.sampling import Population, Sampler, chosen_sampler, read_option
from plancc_runtime.data import LocalData
from plancc_runtime.execution.batch_mask import BatchMask
from plancc_runtime.execution.full_batch import FullBatch
from plancc_runtime.execution.protocol import EpochResult, RateOf
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.learner import Learner
from plancc_runtime.nn.network import Network
from plancc_runtime.options import BATCH_OPTIONS, TrainOptions
from plancc_runtime.results import Scores, Step
from plancc_runtime.slices import Slice
from plancc_runtime.views import View
from plancc_runtime.workspace import empty

SHARE_OF_MEMORY = 0.25
"""Of the memory that is left, what features of halo rows may take on a machine by default."""


@dataclass(frozen=True)
class Drawn:
    """What mini-batches are drawn by and from, on every rank alike.

    Attributes
    ----------
    sampler : Sampler
    population : Population
    per_epoch : int
        Mini-batches of an epoch.
    """

    sampler: Sampler
    population: Population
    per_epoch: int


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
        part = replace(part, vertex_data=type(part.vertex_data)())
        self._mask = BatchMask(part, self._transport)
        self._of_halo: Tensor | None = None
        self._fixed_of: Callable[[LayerGraph, Tensor], Tensor] | None = None

    def prepare(self, network: Network) -> LocalData:
        data = self._data
        del self._data
        if "constant" in self._passes and self._fits_cache(data):
            if self._transport.size > 1:
                self._of_halo = self._of_halo_rows(data.features)
            if not self._options.first_dropout:
                self._fixed_of = network.fixed
        return data

    def _fits_cache(self, data: LocalData) -> bool:
        """Whether every rank has room for the features of its halo rows. Collective."""
        needs = len(self._mask.halo) * data.features.shape[1] * data.features.element_size()
        room = self._options.feature_cache
        if room is None:
            left = available_memory()
            ranks = self._transport.ranks_here()
            room = needs if left is None else int(SHARE_OF_MEMORY * left / ranks)
        most = np.array([needs > room, needs], np.int64)
        self._transport.allreduce_max(most)
        if most[0]:
            given = self._options.feature_cache is not None
            self.off["constant"] = (
                f"features of halo rows take up to {most[1] / 2**20:,.1f} MiB on a rank, more than "
                + ("`feature_cache`" if given else "a quarter of the memory that is left")
            )
        return not most[0]

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
        drawn, options = self._drawn, self._options
        local = self._mask.local(drawn.sampler.batch(drawn.population, options.seed, number))
        blocks = [
            replace(Block.of_part(part, self._self_loops, factor), halo=self._mask.halo[halo])
            for part, factor, halo in zip(local.parts, local.factors, local.halos, strict=True)
        ]
        graphs = [LocalGraph(block, self._resources) for block in blocks]
        view = View(graphs if len(graphs) > 1 else graphs * options.layers)
        batch = data.of_batch(local.rows, local.targets, self._transport)
        rows = torch.from_numpy(local.rows).to(data.features.device)
        if self._of_halo is None:
            x = rows_of(data.features, rows)
        else:
            x = rows_of(data.features, rows, self._of_halo, torch.from_numpy(local.halos[0]))
            view = replace(view, graphs=[graphs[0].at_hand(), *view.graphs[1:]])
        fixed = None if self._fixed_of is None else self._fixed_of(view.graphs[0], x)
        return replace(view, x=x, fixed=fixed), batch, blocks

    def _step(
        self, learner: Learner, data: LocalData, number: int, rate: float
    ) -> tuple[Step, tuple[int, ...]]:
        """One step, and the counts of this rank. Collective."""
        traffic = self._transport.traffic
        words = traffic.words_sent
        view, batch, blocks = self.batch(number, data)
        loss, outputs = learner.gradients(view, batch, number, f"step {number}")
        learner.update(rate)
        return Step(number, loss, batch.split_sizes["train"]), (
            len(batch.labels),
            sum(block.num_sent for block in blocks),
            sum(len(block.send_peer) for block in blocks),
            traffic.words_sent - words,
            learner.num_found(outputs, view, batch),
        )


def rows_of(
    x: Tensor, rows: Tensor, other: Tensor | None = None, others: Tensor | None = None
) -> Tensor:
    """These rows of x, and behind them those others of another matrix: Tensor[m, width]."""
    pieces = [(x, rows)] if other is None or others is None else [(x, rows), (other, others)]
    out = empty(sum(len(numbers) for _, numbers in pieces), x.shape[1], x)
    first = 0
    for matrix, numbers in pieces:
        end = first + len(numbers)
        torch.index_select(matrix, 0, numbers.to(x.device), out=out[first:end])
        first = end
    return out


def open_sampler(
    plan: str | PathLike[str] | Slice, options: TrainOptions, header: Header
) -> Drawn | None:
    """The sampler of mini-batches, and what this rank needs to draw from; not collective.

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
            recorded = str(file.attributes("provenance").get("sampler", ""))
            training = num_training(file)
            sampler = chosen_sampler(recorded, n, training, options.sampler, **given)
            population = read_population(file, sampler)
    sampler.check_layers(options.layers)
    sampler.check(population)
    sampler.batch(population, options.seed, 0)  # what it refuses, it refuses here
    return Drawn(sampler, population, options.steps or sampler.batches_per_epoch(population))
