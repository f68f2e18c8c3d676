"""Epochs in mini-batches. Knows samplers, a rank's slice and the learner."""

from __future__ import annotations

from os import PathLike

from plancc.plan.plan import Header
from plancc.plan.population import num_training, read_population
from plancc.plan.reader import PlanFile
from plancc.sampling import Population, Sampler, chosen_sampler
from plancc_runtime.data import LocalData
from plancc_runtime.execution import Execution
from plancc_runtime.layouts.block import Block
from plancc_runtime.learner import Learner
from plancc_runtime.minibatch import BatchMask
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

    def epoch(self, epoch: int, steps: list[Step]) -> tuple[float, dict[str, float]]:
        """All steps of an epoch, appended to `steps` with this rank's own counts."""
        learner, training = self._learner, self._training
        options, traffic = learner.options, learner.transport.traffic
        self_loops = training.header.self_loops
        total, right, targets = 0.0, 0.0, 0  # over the targets of all steps
        first = epoch * self._per_epoch
        for number in range(first, first + self._per_epoch):
            words = traffic.words_sent
            local = self._mask.local(self._sampler.batch(self._population, options.seed, number))
            batch = self._data.of_batch(local.rows, local.targets, learner.transport)
            blocks = [Block.of_part(part, self_loops) for part in local.parts]
            graphs = [training.graph(block) for block in blocks]
            view = View(graphs if len(graphs) > 1 else graphs * options.layers)
            loss, accuracy = learner.update(view, batch, number, f"step {number}")
            size = batch.split_sizes["train"]
            total += loss * size
            right += accuracy.get("train", 0.0) * size
            targets += size
            steps.append(
                Step(
                    number=number,
                    loss=loss,
                    targets=size,
                    vertices=len(local.rows),
                    volume=sum(len(block.send_row) for block in blocks),
                    messages=sum(len(block.send_peer) for block in blocks),
                    words_sent=traffic.words_sent - words,
                )
            )
        return total / max(targets, 1), {"train": right / targets} if targets else {}


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
