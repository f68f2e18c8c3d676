"""Outputs of a run's network for the vertices of the plan, as files and arrays.

The outputs are computed with the network's present weights. All methods are collective.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from plancc.files import StrPath
from plancc_runtime.data import LocalData
from plancc_runtime.execution.figures import words_of_outputs
from plancc_runtime.execution.protocol import Execution
from plancc_runtime.gathering import Ids, RowsOfRank
from plancc_runtime.learner import Learner
from plancc_runtime.predictions import check_finite, save_predictions
from plancc_runtime.targets import Target
from plancc_runtime.tasks.base import LearningTask
from plancc_runtime.views import place_of


class Outputs:
    """The outputs of a run's network; available after `Run.prepare`."""

    def __init__(
        self,
        task: LearningTask,
        learner: Learner,
        execution: Execution,
        data: LocalData,
        rows: RowsOfRank,
    ) -> None:
        self._task, self._execution, self._data, self._rows = task, execution, data, rows
        self._learner: Any = learner
        self._transport = learner.transport

    def save(
        self,
        path: StrPath,
        embeddings: int | None,
        ids: Ids | None,
        kind: type[Target] | None = None,
        known: dict[str, np.ndarray] | None = None,
        wanted: npt.NDArray[np.int64] | None = None,
    ) -> list[int]:
        """Write predictions for all vertices that the task predicts, or only for `wanted`.

        Return how many vertices were predicted in each class; [] if outputs are real numbers.

        Parameters:
            embeddings: Layer, counted from 1, whose outputs are written too.
            known: Columns as in `predictions.known_of`. None: the columns that the task knows.
            wanted (int64[m], optional): All vertices of split "train", in the order in which their
                predictions are written.
        """
        kept = {} if embeddings is None else {embeddings: torch.empty(0)}
        view = self._execution.whole() if wanted is None else self._execution.view(0)
        outputs, embedding = self._learner.outputs(view, self._data, kept), None
        if embeddings is not None:
            embedding = kept[embeddings]
            for graph in view.graphs[embeddings:]:
                embedding = graph.targets(embedding)
        if wanted is None:
            (chosen, _), (rows, ids) = self._rows.within(self._task.learnt), self.learnt(ids)
            if known is None:
                found = self._task.known(self._data)
                known = {name: each[chosen] for name, each in found.items()}
        else:
            places = place_of(self._data.splits["train"], view.outputs)
            mine, chosen = (each.cpu().numpy() for each in places)
            rows = self._rows.among(mine, wanted)
        if len(chosen) < len(outputs):
            outputs = outputs[chosen]
            embedding = None if embedding is None else embedding[chosen]
        kind = kind or type(self._data.target)
        return save_predictions(
            path, rows, outputs, embedding, kind, ids, self._transport, known or {}
        )

    def learnt(self, ids: Ids | None) -> tuple[RowsOfRank, Ids | None]:
        """Return this rank's rows of the vertices that the task predicts, and their ids."""
        learnt = self._task.learnt
        return self._rows.within(learnt)[1], ids and ids.within(learnt)

    def predictions(self) -> dict[str, np.ndarray]:
        """Return this rank's predictions, as `Target.predictions` does, with floats as float32."""
        outputs = self._learner.outputs(self._execution.whole(), self._data)
        with self._transport.agreement():
            check_finite(outputs)
        chosen = self._rows.within(self._task.learnt)[0]
        found = self._data.target.predictions(outputs.detach()[chosen])
        return {
            name: (each.float() if each.is_floating_point() else each).cpu().numpy()
            for name, each in found.items()
        }

    def score(self, pairs: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], torch.Tensor]:
        """Return the positions of the pairs that this rank scores, and their scores.

        See `LinkLearner.score`.
        """
        outputs = self._learner.outputs(self._execution.whole(), self._data)
        places, found = self._learner.score(outputs, pairs)
        return places, found

    def words(self) -> tuple[int, int]:
        """Return words that all ranks send for training vertices' outputs, and for all outputs."""
        views = self._execution.view(0), self._execution.whole()
        words = [words_of_outputs(self._learner.network, view.graphs) for view in views]
        counts = np.array(words, np.int64)
        self._transport.allreduce_sum(counts)
        few, all_rows = counts.tolist()
        return few, all_rows
