"""Remarks of a run: sentences that tell the user what may be wrong, and what to try."""

from __future__ import annotations

from collections.abc import Sequence

from plancc_runtime.options import FULL, TrainOptions
from plancc_runtime.results import Epoch, Scores
from plancc_runtime.slices import Opened
from plancc_runtime.targets import Target
from plancc_runtime.transport.base import Transport

NEAR = 0.1
"""A run has hardly learnt if its score is at most this much above the score of a constant answer.

The number is a share of the difference between 1 and the score of the constant answer."""
WITH_LABELS = "compile the graph with its labels (key labels or y of `data`)"
"""Advice for predictions from a plan without labels."""


def data_remarks(random_features: bool, random_labels: bool, what: str = "labels") -> list[str]:
    """Return a remark if features or labels are random, so that little or nothing can be learnt."""
    if random_labels:
        lacks = "neither labels nor features" if random_features else "no labels"
        return [
            f"the plan has {lacks}: the network is trained on random ones, from which nothing can "
            f"be learnt; for more than a benchmark {WITH_LABELS}"
        ]
    if not random_features:
        return []
    return [
        f"the plan has {what} but no features: the network is trained on random features, which "
        f"say nothing of the {what}; compile the graph with its features"
    ]


def option_remarks(options: TrainOptions, between: Sequence[str], cores: int) -> list[str]:
    """Return remarks on options that have no effect, or that may slow the run down.

    `between` names the options that act only between layers, so not on a network of one layer.
    `cores` is the number of cores that each rank may use.
    """
    found = [
        f"{options.setting(name)} has no effect: nothing is between layers if `layers` is 1"
        for name in (options.chosen(between) if options.layers == 1 else ())
    ]
    if options.threads is not None and options.threads > cores:
        found.append(
            f"`threads` {options.threads}: more than the {cores} of the machine's cores that each "
            "rank may use: they wait for each other, unless the launcher binds ranks to more"
        )
    return found


def sampler_remarks(plan: Opened, options: TrainOptions, transport: Transport) -> list[str]:
    """Return a remark if a plan for mini-batches runs with full batch by default. Collective."""
    if options.mini_batches or options.batch_size == FULL:
        return []
    with transport.agreement():
        recorded = plan.sampler if transport.rank == 0 else ""
    recorded = transport.gather(recorded)[0]
    if not recorded:
        return []
    return [
        f"the plan was made for mini-batches ({recorded}), but this run trains the full batch; "
        f"for mini-batches give `sampler` {recorded.split()[0]}, for no warning `batch_size` {FULL}"
    ]


def remarks(
    options: TrainOptions, epochs: Sequence[Epoch], final: Scores, of_plan: bool, kind: type[Target]
) -> list[str]:
    """Return a remark if the run hardly learnt; else an empty list."""
    if not epochs or not final.loss:
        return []
    split = next(name for name in ("test", "val", "train") if name in final.loss)
    constant = kind.constant(final.class_shares.get(split, []))
    found = getattr(final, kind.compared)[split]
    if found - constant >= (margin := NEAR * (1 - constant)):
        return []
    name, same = kind.compared_words
    where = "near" if constant - found < margin else "below"
    near = f"the {split} {name} {found:.4f} is {where} {constant:.4f}, {same}: the network has "
    if not of_plan:
        return [f"{near}hardly learnt, as its features are random"]
    standardize = "" if options.standardize_features else "`scale_features` columns, "
    return [f"{near}hardly learnt; try {standardize}more `epochs`, or another `optimizer` or `lr`"]
