"""What a run learns, each as one value: its data, refusals, learner, remarks and predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plancc.errors import InputError
from plancc.plan.values import Header
from plancc_runtime.options import TrainOptions

if TYPE_CHECKING:
    from plancc_runtime.tasks.base import LearningTask

OF_LINKS = ("decoder", "negatives", "exclude_links")


def task_of(header: Header, options: TrainOptions) -> LearningTask:
    """What is learnt; not collective, and errors as of `learns_links`."""
    if learns_links(header, options):
        from plancc_runtime.tasks.links import LinkPairs

        return LinkPairs(header, options)
    if header.types is not None:
        from plancc_runtime.tasks.types import TypedVertices

        return TypedVertices(header, options)
    from plancc_runtime.tasks.base import LearningTask

    return LearningTask(header, options)


def learns_links(header: Header, options: TrainOptions) -> bool:
    """Whether links are what is learnt; not collective.

    Raises:
        InputError: If the plan has none, or an option is of what is not learnt.
    """
    links = options.task == "links" or (options.task == "auto" and header.links is not None)
    if links and header.links is None:
        raise InputError(
            "`task` links: the plan has no links; compile it with `link_split` or `links`"
        )
    for name in options.chosen(("split", "class_weights", "classes")) if links else ():
        raise InputError(f"`{name}`: is for labels of vertices, and the run predicts links")
    for name in () if links else options.chosen(OF_LINKS):
        raise InputError(f"{options.setting(name)}: is for links, and the run predicts labels")
    return links
