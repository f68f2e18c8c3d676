"""What mini-batches are drawn by and from, as the user or else the plan has it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike

from plancc.plan.population import read_population
from plancc.plan.reader import PlanFile
from plancc.sampling import Population, Sampler, draw, read_option
from plancc_runtime.layouts.draws import check_draw
from plancc_runtime.layouts.seeds import SeedDraws
from plancc_runtime.options import BATCH_OPTIONS
from plancc_runtime.slices import Slice
from plancc_runtime.tasks.base import LearningTask


@dataclass(frozen=True)
class Drawn:
    """What mini-batches are drawn by and from, on every rank alike.

    Attributes:
        per_epoch: Mini-batches of an epoch.
        remark: What to say of the sampler.
        by_owners: Whether owners draw.
        seeds: What batches begin with, if the task gives that.
    """

    sampler: Sampler
    population: Population
    per_epoch: int
    remark: str
    by_owners: bool = False
    seeds: SeedDraws | None = None

    def whole(
        self, plan: str | PathLike[str] | Slice, task: LearningTask, by_owners: bool
    ) -> Drawn:
        """The same with all that the sampler draws from; not collective.

        Parameters:
            by_owners: Whether owners draw (`layouts.draws`), who need no pattern.

        Raises:
            InputError, PlanError: If the plan is damaged, or no batch can be drawn.
        """
        sampler, population = self.sampler, self.population
        if by_owners:
            return replace(self, by_owners=True)
        if "pattern" in sampler.needs and not isinstance(plan, tuple):
            with PlanFile(plan) as file:
                population = read_population(file, sampler, target=task.target)
        sampler.check(population)
        draw(sampler, population, task.options.seed, 0)  # what it refuses, it refuses here
        return replace(self, population=population)


def chosen_batches(plan: str | PathLike[str] | Slice, task: LearningTask) -> Drawn:
    """The sampler of mini-batches, and what it draws from without the pattern; not collective.

    What the user does not say is as the plan was compiled for.

    Raises:
        InputError: If the options do not fit each other, the plan or the model.
        PlanError: If the plan is damaged.
    """
    options = task.options
    given = {name: getattr(options, name) for name in BATCH_OPTIONS}
    for name, value in (options.sampler_options or {}).items():
        given[name] = read_option(name, value)
    sampler, population = task.sampler(plan, given)
    check_draw(options.draw, sampler)
    sampler, remark = sampler.fitted(population)
    if isinstance(plan, tuple) or "pattern" not in sampler.needs:
        sampler.check(population)
    per_epoch = options.steps or sampler.batches_per_epoch(population)
    return Drawn(sampler, population, per_epoch, remark)
