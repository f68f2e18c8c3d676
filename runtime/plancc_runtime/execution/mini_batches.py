"""Epochs in mini-batches. Knows samplers, a rank's slice and the learner."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike

import numpy as np

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
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.learner import Learner
from plancc_runtime.nn.network import Network
from plancc_runtime.options import BATCH_OPTIONS, TrainOptions
from plancc_runtime.results import Scores, Step
from plancc_runtime.slices import Slice
from plancc_runtime.views import View


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
            Block.of_part(part, self._self_loops, factor)
            for part, factor in zip(local.parts, local.factors, strict=True)
        ]
        graphs = [LocalGraph(block, self._resources) for block in blocks]
        view = View(graphs if len(graphs) > 1 else graphs * options.layers)
        return view, data.of_batch(local.rows, local.targets, self._transport), blocks

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
