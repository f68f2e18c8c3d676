"""Prediction of the steps of mini-batch training: a step for every batch, and their mean."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from plancc.cost.batches import Estimate, estimate, expected_volume
from plancc.errors import InputError, warn
from plancc.files import StrPath
from plancc.graph.graph import Graph
from plancc.plan.exchange import Int32Array
from plancc.plan.layers import moved_columns
from plancc.plan.plan import Plan
from plancc.plan.population import num_training, population_of
from plancc.plan.reader import PlanFile
from plancc.plan.words import Counts
from plancc.predict.memory import WORD_BYTES
from plancc.predict.passes import DEAD_ROWS, layers_of
from plancc.predict.predictor import Predictor
from plancc.predict.schedule import Place
from plancc.predict.schedules import Tables, read_tables
from plancc.predict.schedules.plan_tables import rank_of_parts
from plancc.predict.simulation import Prediction, StepTime, order_of
from plancc.sampling import SHOWN, Population, Sampler, chosen_sampler, draw
from plancc.sampling.counter import key_of
from plancc.sampling.walk import WalkSampler
from plancc_lab.simulate.batch_schedule import Bits, live_in_batch

KEPT = "features of all halo rows are kept: a run with less `feature_cache` fetches some"
MOST = 100_000
"""Largest number of batches."""


@dataclass(frozen=True, eq=False)
class BatchPrediction(Prediction):
    """The mean of the predicted steps of some mini-batches, with figures of every mini-batch.

    Attributes:
        sampler: The sampler with its options, as the provenance of a plan names it.
        batches: The predicted step of every mini-batch.
        bound: Mean lower bound for the seconds of a step (`Predictor.bound_of`).
        expected_words: Expected words of a step for features and their gradients; None if unknown.
    """

    sampler: str
    seed: int
    batches: list[Prediction]
    bound: float
    expected_words: float | None

    @cached_property
    def counts(self) -> Counts:
        """Words and messages of every rank: means over the mini-batches, in whole numbers."""
        found = Counts.zero(self.schedule.num_ranks)
        for each in self.batches:
            found.add(each.counts)
        means = {each.name: getattr(found, each.name) / len(self.batches) for each in fields(found)}
        return Counts(**{name: np.rint(mean).astype(np.int64) for name, mean in means.items()})

    @property
    def words(self) -> int:
        return round(self.estimates["words"].mean)

    @cached_property
    def estimates(self) -> dict[str, Estimate]:
        """Means of "seconds", "words" and "words_drawn" of a step, each with a 95% interval."""
        drawn = [words_drawn(each) for each in self.batches]
        words = [each.words for each in self.batches]
        seconds = [each.seconds for each in self.batches]
        found = {"seconds": seconds, "words": words, "words_drawn": drawn}
        return {name: estimate(np.array(values)) for name, values in found.items()}

    def as_dict(self, per_rank: bool = False) -> dict[str, Any]:
        batches = {
            "sampler": self.sampler,
            "seed": self.seed,
            "number": len(self.batches),
            **{name: asdict(figure) for name, figure in self.estimates.items()},
            "expected_words": self.expected_words,
            "per_batch": {
                "seconds": [each.seconds for each in self.batches],
                "words": [each.words for each in self.batches],
                "messages": [each.messages for each in self.batches],
            },
        }
        return super().as_dict(per_rank) | {"batches": batches}


def words_drawn(prediction: Prediction) -> int:
    """Return how many words all ranks send in a step to tell owners which rows they need."""
    counts = prediction.schedule.counts(lambda operation: operation.place.direction == "batch")
    return int(counts.words_sent.sum())


def predict_batches(
    path: StrPath,
    predictor: Predictor,
    numbers: Sequence[int],
    owners_draw: Callable[[Sampler, Tables], bool],
    *,
    num_ranks: int | None = None,
    word_bytes: int = WORD_BYTES,
    sampler: str | None = None,
    seed: int = 1,
    **options: Any,
) -> BatchPrediction:
    """Return the predicted training steps on the mini-batches `numbers`.

    In training with this seed, mini-batch k is drawn for step k. If the graph is too small for the
    sampler, the sampler is changed with a warning. ``owners_draw(sampler, tables)`` returns whether
    owners draw the neighbours of their rows; else every rank draws the whole mini-batch.
    """
    if not 1 <= len(numbers) <= MOST:
        raise InputError(f"`batches` {len(numbers)}: give 1 to {MOST:,} batches")
    if predictor.approximation is not None or predictor.pipeline is not None:
        raise InputError(
            "`batches`: steps cannot be predicted with `boundary_sampling`, `fold` or `pipeline`"
        )
    with PlanFile(path) as file:
        file.check_row_plan("the cost of mini-batches")
        if file.header.types is not None:
            raise InputError("`batches`: steps of a plan with types cannot be predicted")
        recorded, training = (
            str(file.attributes("provenance").get("sampler", "")),
            num_training(file),
        )
        chosen = chosen_sampler(recorded, file.header.num_vertices, training, sampler, **options)
        num_layers = len(predictor.dims) - 1
        chosen.check_layers(num_layers)
        plan = file.read_plan()
    population = population_of(plan)
    chosen, remark = chosen.fitted(population)
    if remark:
        warn(remark)
    chosen.check(population)
    tables = read_tables(path, num_ranks).flat()
    ranks = tables.num_ranks
    owner = rank_of_parts(plan.num_parts, ranks)[plan.owner()]
    matrix, bits = Graph(*population.pattern), None
    if owners_draw(chosen, tables):
        bits = Bits(matrix, owner, plan.places(), ranks)
    counted = chosen.num_targets(population, _num_training(plan)) is None
    del plan
    idle = DEAD_ROWS not in predictor.passes or chosen.num_blocks == 1
    batches, bounds = [], []
    for number in numbers:
        batch = draw(chosen, population, seed, number)
        live = live_in_batch(batch, matrix, owner, ranks, idle=idle, bits=bits)
        told = live.told
        if bits is not None and isinstance(chosen, WalkSampler):
            key, visited = key_of(seed, SHOWN, number), batch.vertices()
            assert visited is not None
            told = (*bits.of_walks(chosen, key, visited), *told)
        layers = live.layers * (num_layers // chosen.num_blocks)
        step = replace(tables, live=replace(live, layers=layers, told=told, counted=counted))
        batches.append(predictor.epoch(step, word_bytes))
        bounds.append(predictor.bound_of(step, word_bytes))
    notes = [KEPT] * ("constant" in predictor.passes and ranks > 1)
    schedule = max(batches, key=lambda each: int(each.memory_of_rank.max())).schedule
    return BatchPrediction(
        schedule=replace(schedule, notes=(*schedule.notes, *notes)),
        machine=predictor.machine,
        word_bytes=word_bytes,
        steps=_mean_steps(batches),
        of_rank={
            step: np.mean([each.of_rank[step] for each in batches], axis=0)
            for step in batches[0].of_rank
        },
        sampler=str(chosen),
        seed=seed,
        batches=batches,
        bound=float(np.mean(bounds)),
        expected_words=_expected_words(chosen, population, predictor, owner, ranks),
    )


def _num_training(plan: Plan) -> int:
    """Return the number of training vertices; if the plan has labels, only labelled ones."""
    data = plan.vertex_data
    found = np.ones(plan.num_vertices, np.bool_) if data.train_mask is None else data.train_mask
    if data.labels is not None:
        found = found & (data.labels >= 0)
    elif data.targets is not None:
        found = found & ~np.isnan(data.targets).any(axis=1)
    return int(found.sum())


def _expected_words(
    sampler: Sampler,
    population: Population,
    predictor: Predictor,
    owner: Int32Array,
    num_ranks: int,
) -> float | None:
    """Return `BatchPrediction.expected_words` for these owners and the predictor's widths."""
    indptr, indices = population.pattern
    most_pins = int(np.bincount(indices, minlength=1).max()) + 1  # each with its own row
    inclusion = sampler.inclusion(population, most_pins)
    if inclusion is None:
        return None
    layers = layers_of(predictor.dims, predictor.passes, predictor.convolution.options)
    columns = [moved_columns(steps) for each in layers for steps in (each.forward, each.back)]
    return sum(columns) * expected_volume(inclusion, indptr, indices, owner, num_ranks)


def _mean_steps(batches: Sequence[Prediction]) -> list[StepTime]:
    """Return the mean time of every step; its `rank` is the rank that is most often the slowest."""
    found: dict[Place, list[StepTime]] = defaultdict(list)
    for each in batches:
        for step in each.steps:
            found[Place(*step[:3])].append(step)
    return [
        StepTime(
            *place,
            sum(each.slowest for each in found[place]) / len(batches),
            sum(each.mean for each in found[place]) / len(batches),
            int(np.bincount([each.rank for each in found[place]]).argmax()),
        )
        for place in sorted(found, key=order_of)
    ]
