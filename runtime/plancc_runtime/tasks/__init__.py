"""Tasks. A task loads data, checks options, and chooses the learner and remarks for the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plancc.errors import InputError
from plancc.plan.values import Header
from plancc_runtime.options import TrainOptions

if TYPE_CHECKING:
    from plancc_runtime.tasks.base import LearningTask

LINK_OPTIONS = ("decoder", "negatives", "exclude_links")


def task_of(header: Header, options: TrainOptions) -> LearningTask:
    """Return the task for the plan and the options. Not collective.

    Raises:
        InputError: In the cases that `learns_links` names.
    """
    if learns_links(header, options):
        from plancc_runtime.tasks.links import LinkPairs

        return LinkPairs(header, options)
    if header.types is not None:
        from plancc_runtime.tasks.types import TypedVertices

        return TypedVertices(header, options)
    from plancc_runtime.tasks.base import LearningTask

    return LearningTask(header, options)


def learns_links(header: Header, options: TrainOptions) -> bool:
    """Whether the task is link prediction; InputError if options do not fit. Not collective."""
    links = options.task == "links" or (options.task == "auto" and header.links is not None)
    if links and header.links is None:
        raise InputError(
            "`task` links: the plan has no links; compile it with `link_split` or `links`"
        )
    for name in options.chosen(("split", "class_weights", "classes")) if links else ():
        raise InputError(f"`{name}` is only for the task 'vertices'; leave it out")
    for name in () if links else options.chosen(LINK_OPTIONS):
        raise InputError(f"{options.setting(name)} is only for link prediction; leave it out")
    return links
