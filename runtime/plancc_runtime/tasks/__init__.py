"""What a run learns, each as one value: its data, refusals, learner, remarks and predictions."""

from __future__ import annotations

from plancc.plan.values import Header
from plancc_runtime.options import TrainOptions, learns_links
from plancc_runtime.tasks.base import LearningTask

__all__ = ["LearningTask", "task_of"]


def task_of(header: Header, options: TrainOptions) -> LearningTask:
    """What is learnt; not collective, and errors as of `learns_links`."""
    kind: type[LearningTask] = LearningTask
    if learns_links(header, options):
        from plancc_runtime.tasks.links import LinkPairs

        kind = LinkPairs
    elif header.types is not None:
        from plancc_runtime.tasks.types import TypedVertices

        kind = TypedVertices
    return kind(header, options)
