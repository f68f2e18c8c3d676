"""The sampler of each task, and the population (set of vertices) that it draws from."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from plancc.errors import InputError
from plancc.fields import options_of
from plancc.files import StrPath
from plancc.plan.parts import Part
from plancc.plan.population import num_training, read_population
from plancc.plan.reader import PlanFile
from plancc.sampling import Population, Sampler, chosen_sampler, read_option
from plancc.sampling.links import LinkSampler
from plancc.sampling.neighbour import NeighbourSampler
from plancc.sampling.relations import RelationSampler
from plancc.text import shown
from plancc_runtime.layouts.batch_seeds import SeedDraws
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.slices import Slice, sampler_of
from plancc_runtime.tasks.base import LearningTask
from plancc_runtime.tasks.link_batches import LinkBatches
from plancc_runtime.tasks.links import LinkPairs
from plancc_runtime.tasks.types import TypedVertices

Plan = StrPath | Slice


@singledispatch
def task_sampler(
    task: LearningTask, plan: Plan, given: dict[str, Any]
) -> tuple[Sampler, Population]:
    """Return the sampler of a task, and the population from which it draws mini-batches.

    Not collective. An option that is None in `given` has the value for which the plan was compiled.
    """
    _check_fanouts(task, task.has_types)
    options, n = task.options, task.header.num_vertices
    if isinstance(plan, tuple):
        sampler = chosen_sampler("", n, None, options.sampler, **given)
        population = Population(n)
    else:
        with PlanFile(plan) as file:
            target = task.find_target(file)
            training = num_training(file, target)
            sampler = chosen_sampler(sampler_of(file), n, training, options.sampler, **given)
            population = read_population(file, sampler, with_pattern=False, target=target)
    sampler.check_layers(options.layers)
    return sampler, population


@task_sampler.register
def _link_sampler(task: LinkPairs, plan: Plan, given: dict[str, Any]) -> tuple[Sampler, Population]:
    _check_fanouts(task, task.has_types)
    options, n = task.options, task.header.num_vertices
    if options.sampler not in (None, NeighbourSampler.name):
        raise InputError(
            f"{options.setting('sampler')}: link prediction draws mini-batches only with sampler "
            f"'{NeighbourSampler.name}'"
        )
    if isinstance(plan, tuple):
        raise InputError("mini-batches of links need a plan file, not a slice in memory")
    with PlanFile(plan) as file:
        recorded = sampler_of(file)
        num_links = int(np.count_nonzero(file.read("links/kind") == 0))
    found = chosen_sampler(recorded, n, num_links, NeighbourSampler.name, **given)
    found.check_layers(options.layers)
    known = {each.name: getattr(found, each.name) for each in options_of(found)}
    links = LinkSampler(**known, negatives=options.negatives, num_links=num_links)
    return links, Population(n)


@task_sampler.register
def _relation_sampler(
    task: TypedVertices, plan: Plan, given: dict[str, Any]
) -> tuple[Sampler, Population]:
    """Return the sampler, which draws per relation, and the vertices to draw from."""
    sampler, population = task_sampler.dispatch(LearningTask)(task, plan, given)
    _check_fanouts(task, type(sampler) is NeighbourSampler)
    if type(sampler) is not NeighbourSampler:
        return sampler, population
    size, fanouts = sampler.batch_size, dict.fromkeys(task.types.relations, sampler.fanouts)
    for key, value in (task.options.relation_fanouts or {}).items():
        try:
            parts = tuple(key.split(":"))
            relation = task.types.relation(parts if len(parts) == 3 else key)
            of_relation = NeighbourSampler(size, read_option("fanouts", value))
            of_relation.check_layers(task.options.layers)
        except InputError as error:
            words = str(error).removeprefix("`fanouts` ")
            raise InputError(f"`relation_fanouts` {shown(key)}: {words}") from None
        fanouts[relation] = of_relation.fanouts
    return RelationSampler(size, sampler.fanouts, tuple(fanouts.values())), population


@singledispatch
def task_seeds(
    task: LearningTask, learner: Any, part: Part, resources: Resources
) -> SeedDraws | None:
    """Return the object with which the task draws the seeds of batches. Collective.

    None if the sampler draws the seeds. The learner's method `hold` must have been called.
    """
    return None


@task_seeds.register
def _link_seeds(task: LinkPairs, learner: Any, part: Part, resources: Resources) -> SeedDraws:
    return LinkBatches(part, task.header, learner.directory, resources, task.options)


def _check_fanouts(task: LearningTask, fit: bool) -> None:
    if task.options.relation_fanouts is not None and not fit:
        raise InputError("`relation_fanouts` needs sampler 'neighbour' and a plan with types")
