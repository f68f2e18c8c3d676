"""Prices of the candidates of model ``auto``: predicted epochs before anything is searched for.

A form whose owners are assigned is predicted as it is; one that is searched for with the owners
that a partitioner finds at once.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from plancc.errors import BackendError, BackendUnavailable, InputError
from plancc.graph.graph import Graph
from plancc.graph.owners import Owner, Owners
from plancc.graph.vertexdata import VertexData
from plancc.models import MODELS, build_problem, make_model
from plancc.models.base import EdgeModel, Model
from plancc.models.graph import GraphModel
from plancc.models.medium_grain import lighter_columns
from plancc.models.weights import Balance
from plancc.owners.request import Assigner
from plancc.owners.task import Task
from plancc.partitioners.options import PartitionOptions
from plancc.partitioners.run import partition

MOST = 3
"""Candidates that are searched for where none are named."""


@dataclass(frozen=True)
class Form:
    """A candidate with the options of a form, and what it needs on these ranks."""

    name: str
    assigner: Assigner
    label: str

    @classmethod
    def of(cls, name: str, num_ranks: int, options: Mapping[str, Any]) -> Form:
        """The form with these options; InputError where these ranks have none."""
        words = (key if value is True else f"{key}={value}" for key, value in options.items())
        return cls(name, Assigner.of(name, num_ranks, options), ":".join([name, *words]))

    @property
    def by_rows(self) -> bool:
        """Whether rows have one owner each."""
        return MODELS[self.assigner.model].layout == "row"

    @property
    def searched(self) -> bool:
        return MODELS[self.assigner.model].searched


@dataclass
class PricedForms:
    """Forms of the candidates, and seconds of their epochs before anything is searched for.

    Attributes:
        rows: Owners of rows that are found at once, by balance, or model, and number of parts.
        seconds: By the label of a form, whether a rank lacks the memory and the epoch; infinite
            where a partitioner fails.
    """

    matrix: Graph
    task: Task
    balance: Balance
    rows: dict[tuple[str, int], Owner] = field(default_factory=dict)
    seconds: dict[str, tuple[bool, float]] = field(default_factory=dict)

    def balance_of(self, form: Form) -> Balance:
        """What the parts of a form share: nonzeros alone, in edge plans."""
        if form.by_rows or "rows" not in self.balance.names:
            return self.balance
        return replace(self.balance, names=("nnz",), allowed={})

    def best_form(self, name: str, unfit: bool = False) -> list[Form]:
        """The form of least price, or the first; none where these ranks and widths have none."""
        forms = []
        for options in MODELS[name].forms(self.task.num_parts):
            try:
                form = Form.of(name, self.task.num_parts, options)
                form.assigner.check_widths(self.task.options.dims)
                form.assigner.check_graph(self.matrix.num_vertices, VertexData())
            except InputError:
                continue
            forms.append(form)
        return forms[:1] if unfit or len(forms) < 2 else [min(forms, key=self.price)]

    def left_out(self, forms: Sequence[Form], unfits: Mapping[str, str]) -> dict[str, str]:
        """Why candidates are not searched for: all but `MOST` of least price."""
        searched = [form for form in forms if form.searched and not unfits.get(form.name)]
        if len(searched) <= MOST:
            return {}
        return {
            form.name: f"not searched for: {MOST} others are predicted quicker; from a quick "
            f"partition its epoch takes {1e3 * self.price(form)[1]:.4g} ms"
            for form in sorted(searched, key=self.price)[MOST:]
        }

    def price(self, form: Form) -> tuple[bool, float]:
        """`seconds` of a form."""
        if form.label not in self.seconds:
            assigner = form.assigner
            try:
                found = self.task.options.predictor.of_owners(
                    self.matrix, self._owners(form), assigner.num_parts, assigner.grid
                )
                self.seconds[form.label] = found.fits is False, found.seconds
            except (BackendError, BackendUnavailable):
                self.seconds[form.label] = True, math.inf
        return self.seconds[form.label]

    def _owners(self, form: Form) -> Owners:
        """Owners that the model assigns, or such as it would search for."""
        matrix, assigner, balance = self.matrix, form.assigner, self.balance_of(form)
        model = make_model(assigner.model, assigner.options)
        key = str(balance) if form.searched else assigner.model, assigner.num_parts
        if key not in self.rows:
            self.rows[key] = self._rows(form, model, balance)
        rows = self.rows[key]
        if not isinstance(model, EdgeModel):
            return Owners(rows)
        of_row = np.repeat(rows, matrix.row_nonzeros())
        of_nonzeros = np.where(lighter_columns(matrix), rows[matrix.indices], of_row)
        return Owners(rows, of_nonzeros)

    def _rows(self, form: Form, model: Model, balance: Balance) -> Owner:
        """Owners of rows: what the model assigns, or few cut edges by one partitioner."""
        matrix, options, num_parts = self.matrix, self.task.options, form.assigner.num_parts
        common: Any = {"balance": balance, "seed": options.seed}
        if not form.searched:
            return build_problem(model, matrix, num_parts, **common).rows
        how = PartitionOptions(
            epsilon=options.epsilon, seed=options.seed, time_limit=options.time_limit
        )
        limits = balance.limits(matrix, num_parts, options.epsilon)
        problem = GraphModel().build(matrix, num_parts, **common)
        return partition(problem, num_parts, how, limits=limits).owner
