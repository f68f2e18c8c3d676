"""Scores of splits: sums over ranks of what the kind of targets counts, and areas under curves."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from plancc_runtime.curves import areas
from plancc_runtime.metrics import RANKED
from plancc_runtime.results import Scores
from plancc_runtime.targets import ClassTarget, Float64Array, Target
from plancc_runtime.transport.base import Transport


def scores_of(target: Target, sizes: dict[str, int], counts: Float64Array) -> Scores:
    """The scores of all splits.

    Parameters:
        sizes: Vertices of every split, of all ranks; a split without any is left out.
        counts (float64[splits, k]): What `Target.count` returns, summed over all ranks.
    """
    result = Scores()
    for (split, size), numbers in zip(sizes.items(), counts, strict=True):
        if size:
            for name, value in target.scores(numbers, size).items():
                getattr(result, name)[split] = value
    return result


def add_areas(
    scores: Scores,
    target: ClassTarget,
    splits: dict[str, tuple[Tensor, Tensor]],
    transport: Transport,
) -> None:
    """Add the areas under curves of all classes, and their means. Collective.

    The mean is over the classes that have an area; of none there is no mean.

    Parameters:
        splits: Those of every split on this rank.
    """
    found = areas([target.ranking(*each) for each in splits.values()], transport)
    for metric, by_split in zip(RANKED, found, strict=True):
        for split, of_classes in zip(splits, by_split, strict=True):
            there = of_classes[~np.isnan(of_classes)]
            getattr(scores, f"{metric}_of_classes")[split] = [
                None if np.isnan(each) else each for each in of_classes.tolist()
            ]
            if len(there):
                getattr(scores, metric)[split] = float(there.mean())
