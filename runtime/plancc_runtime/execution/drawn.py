"""The sampler of a run's mini-batches, and the vertices (population) from which it draws.

If the user leaves out an option of the sampler, the value for which the plan was compiled is used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from plancc.errors import InputError
from plancc.files import StrPath
from plancc.plan.parts import Part
from plancc.plan.population import read_population
from plancc.plan.reader import PlanFile
from plancc.sampling import Population, Sampler, draw, read_option
from plancc_runtime.layouts.batch_seeds import SeedDraws
from plancc_runtime.layouts.draws import check_draw
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.learner import Learner
from plancc_runtime.options import BATCH_OPTIONS
from plancc_runtime.slices import Slice
from plancc_runtime.tasks.base import LearningTask
from plancc_runtime.tasks.samplers import task_sampler, task_seeds


@dataclass(frozen=True)
class Drawn:
    """Sampler, population and seed vertices of mini-batches; the same on every rank.

    Attributes:
        population: Vertices to draw from, and the matrix's pattern if the sampler reads it.
        per_epoch: Number of mini-batches in an epoch.
        remark: Remark on the sampler for the user; "" if there is none.
        by_owners: Whether the owners of rows draw (`layouts.draws`).
        seeds: Seed vertices of the mini-batches if the task draws them, else None.
    """

    sampler: Sampler
    population: Population
    per_epoch: int
    remark: str
    by_owners: bool = False
    seeds: SeedDraws | None = None

    def whole(self, plan: StrPath | Slice, task: LearningTask, by_owners: bool) -> Drawn:
        """Return a copy from which mini-batches can be drawn. Not collective.

        If `by_owners`, ranks draw for their own rows, and the copy differs only in `by_owners`.
        Otherwise the matrix's pattern is read from `plan` if the sampler needs it and `plan` is no
        slice, and a batch is drawn as a test.

        Raises:
            InputError, PlanError: If the plan is damaged, or no mini-batch can be drawn.
        """
        sampler, population = self.sampler, self.population
        if by_owners:
            return replace(self, by_owners=True)
        if "pattern" in sampler.needs and not isinstance(plan, tuple):
            with PlanFile(plan) as file:
                population = read_population(file, sampler, target=task.target)
        sampler.check(population)
        draw(sampler, population, task.options.seed, 0)  # raises now if no batch can be drawn
        return replace(self, population=population)

    def begun(
        self, task: LearningTask, learner: Learner, part: Part, resources: Resources
    ) -> Drawn:
        """Return a copy whose `seeds` are the result of `tasks.samplers.task_seeds`. Collective.

        The parameters are those of `task_seeds`.
        """
        return replace(self, seeds=task_seeds(task, learner, part, resources))


def chosen_batches(plan: StrPath | Slice, task: LearningTask) -> Drawn:
    """Return the sampler of mini-batches, and the vertices to draw from. Not collective.

    Options that the user leaves out have the values for which the plan was compiled.
    """
    options = task.options
    given = {name: getattr(options, name) for name in BATCH_OPTIONS}
    for name, value in (options.sampler_options or {}).items():
        if given.get(name) is not None:
            raise InputError(f"`{name}` and `sampler_options` {name} exclude each other; give one")
        given[name] = read_option(name, value)
    sampler, population = task_sampler(task, plan, given)
    check_draw(options.draw, sampler)
    sampler, remark = sampler.fitted(population)
    if isinstance(plan, tuple) or "pattern" not in sampler.needs:
        sampler.check(population)
    per_epoch = options.steps or sampler.batches_per_epoch(population)
    return Drawn(sampler, population, per_epoch, remark)
