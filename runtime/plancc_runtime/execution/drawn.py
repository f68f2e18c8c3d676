"""What mini-batches are drawn by and from, as the user or else the plan has it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np

from plancc.errors import InputError
from plancc.fields import options_of
from plancc.graph.types import Types
from plancc.plan.population import num_training, read_population
from plancc.plan.reader import PlanFile
from plancc.sampling import Population, Sampler, chosen_sampler, draw, read_option
from plancc.sampling.links import LinkSampler
from plancc.sampling.neighbour import NeighbourSampler
from plancc.sampling.relations import RelationSampler
from plancc.text import shown
from plancc_runtime.layouts.draws import check_draw
from plancc_runtime.layouts.ends import Directory
from plancc_runtime.options import BATCH_OPTIONS, TrainOptions, learns_links
from plancc_runtime.slices import Slice, sampler_of
from plancc_runtime.tasks import LearningTask


@dataclass(frozen=True)
class Drawn:
    """What mini-batches are drawn by and from, on every rank alike.

    Attributes:
        per_epoch: Mini-batches of an epoch.
        remark: What to say of the sampler.
        target: The type that is learnt, of a plan with types.
        by_owners: Whether owners draw.
        directory: Where the ends of links are.
    """

    sampler: Sampler
    population: Population
    per_epoch: int
    remark: str
    target: str | None = None
    by_owners: bool = False
    directory: Directory | None = None

    def whole(self, plan: str | PathLike[str] | Slice, seed: int, by_owners: bool) -> Drawn:
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
                population = read_population(file, sampler, target=self.target)
        sampler.check(population)
        draw(sampler, population, seed, 0)  # what it refuses, it refuses here
        return replace(self, population=population)


def chosen_batches(plan: str | PathLike[str] | Slice, task: LearningTask) -> Drawn:
    """The sampler of mini-batches, and what it draws from without the pattern; not collective.

    What the user does not say is as the plan was compiled for.

    Raises:
        InputError: If the options do not fit each other, the plan or the model.
        PlanError: If the plan is damaged.
    """
    header, options = task.header, task.options
    given = {name: getattr(options, name) for name in BATCH_OPTIONS}
    for name, value in (options.sampler_options or {}).items():
        given[name] = read_option(name, value)
    n, types, target = header.num_vertices, header.types, None
    if learns_links(header, options):
        sampler, population = _of_links(plan, n, options, given), Population(n)
    elif isinstance(plan, tuple):
        sampler = chosen_sampler("", n, None, options.sampler, **given)
        population = Population(n)
    else:
        with PlanFile(plan) as file:
            recorded = sampler_of(file)
            target = task.find_target(file)
            training = num_training(file, target)
            sampler = chosen_sampler(recorded, n, training, options.sampler, **given)
            population = read_population(file, sampler, with_pattern=False, target=target)
    sampler.check_layers(options.layers)
    sampler = _by_relation(sampler, types, options)
    check_draw(options.draw, sampler)
    sampler, remark = sampler.fitted(population)
    if isinstance(plan, tuple) or "pattern" not in sampler.needs:
        sampler.check(population)
    per_epoch = options.steps or sampler.batches_per_epoch(population)
    return Drawn(sampler, population, per_epoch, remark, target)


def _of_links(
    plan: str | PathLike[str] | Slice, num_vertices: int, options: TrainOptions, given: Any
) -> Sampler:
    """The sampler of links; `given`: options of samplers."""
    if options.sampler not in (None, NeighbourSampler.name):
        raise InputError(
            f"{options.setting('sampler')}: the ends of links are drawn with sampler "
            f"{NeighbourSampler.name}"
        )
    if isinstance(plan, tuple):
        raise InputError("mini-batches of links need the file of a plan")
    with PlanFile(plan) as file:
        recorded = sampler_of(file)
        num_links = int(np.count_nonzero(file.read("links/kind") == 0))
    found = chosen_sampler(recorded, num_vertices, num_links, NeighbourSampler.name, **given)
    known = {each.name: getattr(found, each.name) for each in options_of(found)}
    return LinkSampler(**known, negatives=options.negatives, num_links=num_links)


def _by_relation(sampler: Sampler, types: Types | None, options: TrainOptions) -> Sampler:
    """The sampler; on a plan with types, that of neighbours in relations."""
    given, name = options.relation_fanouts, "`relation_fanouts`"
    if types is None or type(sampler) is not NeighbourSampler:
        if given is not None:
            raise InputError(f"{name}: are for sampler 'neighbour' on a plan with types")
        return sampler
    size, fanouts = sampler.batch_size, dict.fromkeys(types.relations, sampler.fanouts)
    for key, value in (given or {}).items():
        try:
            relation = types.relation(tuple(key.split(":")) if key.count(":") == 2 else key)
            of_relation = NeighbourSampler(size, read_option("fanouts", value))
            of_relation.check_layers(options.layers)
        except InputError as error:
            words = str(error).removeprefix("`fanouts` ")
            raise InputError(f"{name} {shown(key)}: {words}") from None
        fanouts[relation] = of_relation.fanouts
    return RelationSampler(size, sampler.fanouts, tuple(fanouts.values()))
