"""Volumes and messages of plans on mini-batches that were not used to compile the plans.

Whole plans are read, and every batch is drawn once for all plans.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from plancc.cost.batches import (
    BatchFigures,
    Estimate,
    batch_figures,
    difference,
    estimate,
    expected_volume,
    ratio,
)
from plancc.errors import InputError, warn
from plancc.files import StrPath
from plancc.plan.population import num_training, population_of
from plancc.plan.reader import PlanFile
from plancc.predict.schedules.plan_tables import rank_of_parts
from plancc.sampling import Population, chosen_sampler

MOST_BATCHES = 2**31 - 1


@dataclass(frozen=True, eq=False)
class BatchReport:
    """Figures of a plan on mini-batches that were not used to compile it.

    Attributes:
        sampler: The sampler and its options, as in the provenance.
        num_blocks: Number of blocks of a mini-batch. Each block needs one exchange; volume and
            messages are sums over these exchanges.
        expected_volume: Exact expected volume; None if the sampler's probabilities are unknown.
        difference: Volume minus the first plan's, on the same batches; None for a single plan.
        ratio: Volume divided by the first plan's; None for a single plan or a zero volume.
    """

    path: str
    sampler: str
    seed: int
    num_blocks: int
    figures: BatchFigures
    expected_volume: float | None
    difference: Estimate | None
    ratio: Estimate | None

    @property
    def number(self) -> int:
        """Number of mini-batches."""
        return len(self.figures.volume)

    @property
    def estimates(self) -> dict[str, Estimate]:
        """Mean and confidence interval of every figure, by its name in `BatchFigures`."""
        names = [field.name for field in fields(self.figures)]
        return {name: estimate(getattr(self.figures, name)) for name in names}

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a dict that can be written as JSON."""
        result: dict[str, Any] = {
            "sampler": self.sampler,
            "seed": self.seed,
            "number": self.number,
            "num_blocks": self.num_blocks,
            **{name: asdict(figure) for name, figure in self.estimates.items()},
            "expected_volume": self.expected_volume,
            "per_batch": {
                name: getattr(self.figures, name).tolist() for name in ("volume", "messages")
            },
        }
        if self.difference is not None:
            result["difference"] = asdict(self.difference)
            result["ratio"] = None if self.ratio is None else asdict(self.ratio)
        return result


def batch_reports(
    paths: Sequence[StrPath],
    number: int,
    *,
    num_ranks: int | None = None,
    sampler: str | None = None,
    seed: int = 1,
    **options: Any,
) -> list[BatchReport]:
    """Return figures of several plans of the same matrix, all on the same mini-batches.

    Mini-batches 0..number - 1 are drawn from the first plan. Raises InputError for an edge plan,
    for plans of different matrices, or for an unsuitable sampler.

    Parameters:
        num_ranks: Ranks on which parts are merged before counting; None: one per part.
        sampler: Name of a sampler. None: the first in the plans' provenances, else "uniform".
    """
    if not 1 <= number <= MOST_BATCHES:
        raise InputError(f"`batches` {number}: choose from 1 to {MOST_BATCHES}")
    recorded, sizes, have_types = [], [], False
    for path in paths:  # before any plan is read whole
        with PlanFile(path) as file:
            file.check_row_plan("the cost of mini-batches")
            file.checked_ranks(num_ranks)
            recorded.append(str(file.attributes("provenance").get("sampler", "")))
            have_types |= file.header.types is not None
            sizes.append((file.header.num_vertices, num_training(file)))
    if not sizes:
        return []
    chosen = chosen_sampler(next(filter(None, recorded), ""), *sizes[0], sampler, **options)
    if have_types and chosen.of_training:
        raise InputError(
            f"sampler '{chosen.name}': for a plan with vertex types, batches are drawn only during "
            "training; train to see what every step sends"
        )
    first: tuple[str, Population] | None = None
    owners, names = [], []
    for path in paths:
        with PlanFile(path) as file:
            ranks = file.checked_ranks(num_ranks)
            plan = file.read_plan()
        population = population_of(plan)
        if first is None:
            first = file.path, population
        elif not all(np.array_equal(population.pattern[k], first[1].pattern[k]) for k in (0, 1)):
            raise InputError(f"{file.path}: has a different matrix than {first[0]}; omit this plan")
        owners.append((rank_of_parts(plan.num_parts, ranks)[plan.owner()], ranks))
        names.append(file.path)
    assert first is not None
    population = first[1]
    chosen, remark = chosen.fitted(population)
    if remark:
        warn(remark)
    found = batch_figures(chosen, population, owners, range(number), seed=seed)
    indptr, indices = population.pattern
    most_pins = int(np.bincount(indices, minlength=1).max()) + 1  # each net also has its own row
    inclusion = chosen.inclusion(population, most_pins)
    base = found[0].volume
    return [
        BatchReport(
            path=name,
            sampler=str(chosen),
            seed=seed,
            num_blocks=chosen.num_blocks,
            figures=figures,
            expected_volume=(
                None if inclusion is None else expected_volume(inclusion, indptr, indices, *owner)
            ),
            difference=difference(figures.volume, base) if len(names) > 1 else None,
            ratio=ratio(figures.volume, base) if len(names) > 1 else None,
        )
        for name, owner, figures in zip(names, owners, found, strict=True)
    ]
