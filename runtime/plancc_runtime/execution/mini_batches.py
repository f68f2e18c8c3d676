"""Epochs in mini-batches. Knows samplers, a rank's slice and the learner."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike

import numpy as np

from plancc.plan.population import num_training, read_population
from plancc.plan.reader import PlanFile
from plancc.plan.values import Header
from plancc.sampling import Population, Sampler, chosen_sampler
from plancc_runtime.data import LocalData
from plancc_runtime.execution.batch_mask import BatchMask
from plancc_runtime.execution.full_batch import Execution
from plancc_runtime.layouts.block import Block
from plancc_runtime.learner import Learner
from plancc_runtime.options import BATCH_OPTIONS, TrainOptions
from plancc_runtime.results import Step
from plancc_runtime.slices import Slice
from plancc_runtime.views import View


class MiniBatches:
    """Epochs in mini-batches: batch s is the same on all ranks. Collective."""

    def __init__(
        self,
        learner: Learner,
        training: Execution,
        data: LocalData,
        sampler: Sampler,
        population: Population,
        per_epoch: int,
    ) -> None:
        self._learner, self._training, self._data = learner, training, data
        self._sampler, self._population, self._per_epoch = sampler, population, per_epoch
        self._mask = BatchMask(training.part, learner.transport)

    def epoch(self, epoch: int, rate: float) -> tuple[float, dict[str, float], list[Step]]:
        """All steps of an epoch. Collective.

        Returns
        -------
        loss : float
            Mean over the targets of all steps.
        accuracy : dict of str to float
            "train": over the same targets; empty if there were none.
        steps : list of Step
        """
        learner, training = self._learner, self._training
        options, traffic = learner.options, learner.transport.traffic
        self_loops = training.header.self_loops
        first = epoch * self._per_epoch
        steps = []
        # of this rank: vertices, volume, messages, words and targets found, for every step
        counts = np.zeros((self._per_epoch, 5), np.int64)
        for k, number in enumerate(range(first, first + self._per_epoch)):
            words = traffic.words_sent
            local = self._mask.local(self._sampler.batch(self._population, options.seed, number))
            batch = self._data.of_batch(local.rows, local.targets, learner.transport)
            blocks = [
                Block.of_part(part, self_loops, factor)
                for part, factor in zip(local.parts, local.factors, strict=True)
            ]
            graphs = [training.graph(block) for block in blocks]
            view = View(graphs if len(graphs) > 1 else graphs * options.layers)
            loss, outputs = learner.gradients(view, batch, number, f"step {number}")
            learner.update(rate)
            steps.append(Step(number, loss, batch.split_sizes["train"]))
            counts[k] = (
                len(local.rows),
                sum(len(block.send_row) for block in blocks),
                sum(len(block.send_peer) for block in blocks),
                traffic.words_sent - words,
                learner.num_found(outputs, view, batch),
            )
        learner.transport.allreduce_sum(counts)
        targets = sum(step.targets for step in steps)
        mean = sum(step.loss * step.targets for step in steps) / max(targets, 1)
        fields = ("vertices", "volume", "messages", "words_sent")
        steps = [
            replace(step, **dict(zip(fields, numbers, strict=True)))
            for step, numbers in zip(steps, counts[:, :-1].tolist(), strict=True)
        ]
        found = int(counts[:, -1].sum())
        return mean, {"train": found / targets} if targets else {}, steps


def open_sampler(
    plan: str | PathLike[str] | Slice, options: TrainOptions, header: Header
) -> tuple[Sampler, Population]:
    """The sampler of mini-batches, and what this rank needs to draw from; not collective.

    What the user does not say is as the plan was compiled for.

    Raises
    ------
    InputError
        If the options do not fit each other, the plan or the model.
    PlanError
        If the plan is damaged.
    """
    given = {name: getattr(options, name) for name in BATCH_OPTIONS}
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
    return sampler, population
