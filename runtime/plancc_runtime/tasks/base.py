"""The default task: predict a class or real numbers for every vertex. Other tasks extend it."""

from __future__ import annotations

from os import fspath
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from plancc.errors import InputError
from plancc.plan.parts import Part
from plancc.plan.values import Header
from plancc_runtime.data import LocalData, load_data
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.learner import Learner
from plancc_runtime.nn import model_of
from plancc_runtime.nn.conv import Conv
from plancc_runtime.options import WATCHFUL, TrainOptions
from plancc_runtime.predictions import known_of
from plancc_runtime.remarks import WITH_LABELS, data_remarks

if TYPE_CHECKING:
    from plancc.plan.reader import PlanFile


class LearningTask:
    """The task that predicts the labels or targets of vertices.

    Attributes:
        network: Fields of `NetworkOptions` that the task sets, by name.
        learnt: Range of the vertices whose labels or targets the run predicts.
        target: Type of these vertices; None if the plan has no types.
    """

    learner: type[Learner] = Learner
    between: ClassVar[tuple[str, ...]] = ("activation", "norm", "residual", "hidden")
    """Options that have no effect on a network of one layer."""
    words: ClassVar[str] = "labels"
    unvalidated: ClassVar[str] = "no validation vertex has a label"
    has_types: ClassVar[bool] = False

    def __init__(self, header: Header, options: TrainOptions) -> None:
        self.header, self.options = header, options
        self.network: dict[str, Any] = {}
        self.learnt = slice(0, header.num_vertices)
        self.target: str | None = None

    def model(self, name: str) -> type[Conv]:
        """Return the model with this name; raise InputError if it does not fit the plan."""
        return model_of(name, self.has_types)

    def check(self) -> None:
        """Raise InputError if an option does not fit the plan."""
        if self.options.target is not None:
            raise InputError(f"{self.options.setting('target')} needs a plan with vertex types")

    def joined(self, part: Part, plan: str) -> Part:
        """Return the slice with the vertex data of all types in common arrays. Not collective."""
        return part

    def ordered(self, part: Part) -> Part:
        """Return the rank's slice; if the plan has types, its rows are sorted by vertex type."""
        return part

    def load(self, part: Part, resources: Resources, plan: str) -> LocalData:
        """Return the training data of this rank's rows. Collective.

        Raises:
            InputError: In the cases that `data.load_data` names.
        """
        options, device = self.options, resources.device
        return load_data(part, resources.transport, resources.dtype, options, device, plan)

    def check_data(self, data: LocalData, plan: str) -> None:
        """Raise InputError if an option does not fit the training data.

        Parameters:
            plan: The plan's name, for messages.
        """
        path = self.options.predict
        if data.random_labels and path is not None:
            raise InputError(
                f"`predict` {fspath(path)}: {plan} has no labels, and training on random labels "
                f"predicts nothing; {WITH_LABELS}. If weights are trained already, run plancc "
                "predict, which needs no labels"
            )

    def is_validated(self, data: LocalData) -> bool:
        """Whether the run must keep track of the best validation loss."""
        options, there = self.options, data.split_sizes.get("val", 0) > 0
        needed = [f"`patience` {options.patience}"] * (options.patience is not None)
        needed += [f"`schedule` {options.schedule}"] * (options.schedule in WATCHFUL)
        if needed and not there:
            raise InputError(f"{needed[0]} needs a validation loss, but {self.unvalidated}")
        return there and (bool(needed) or options.checkpoint is not None)

    def remarks(self) -> list[str]:
        """Return the remarks for the user that depend on the plan and the options only."""
        return []

    def remarks_on(self, data: LocalData) -> list[str]:
        """Return remarks for the user if little or nothing can be learnt from the data."""
        return data_remarks(data.random_features, data.random_labels, self.words)

    def graph(self, block: Block, resources: Resources) -> LocalGraph:
        """Return the graph that layers compute with. Collective."""
        return LocalGraph(block, resources)

    def checked(self, block: Block, resources: Resources) -> Block:
        """Check the block; return it with the edge data that `self.graph` needs. Collective."""
        return block

    def find_target(self, file: PlanFile) -> str | None:
        """Return the type of the vertices that a run on this plan predicts; None without types."""
        return None

    def known(self, data: LocalData) -> dict[str, np.ndarray]:
        """Return the known labels and splits of this rank's rows, as arrays by column name."""
        return known_of(data.labels, data.splits)
