"""Prices, which tell model ``auto`` before any search which of its candidates are promising.

A price is the predicted time of an epoch, for owners from the model. If the model needs a search,
the owners are from one quick partitioner.
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
"""Largest number of candidates that are searched if the user names no candidates."""


@dataclass(frozen=True)
class Form:
    """A candidate of model "auto" with fixed options, such as a process grid of a fixed shape.

    Attributes:
        name: Name of the candidate, which is a model.
        assigner: The model that assigns rows, with its number of parts.
        label: The name and the options, separated by colons.
    """

    name: str
    assigner: Assigner
    label: str

    @classmethod
    def of(cls, name: str, num_ranks: int, options: Mapping[str, Any]) -> Form:
        """Return model `name` with these options; InputError if they do not suit `num_ranks`."""
        words = (key if value is True else f"{key}={value}" for key, value in options.items())
        return cls(name, Assigner.of(name, num_ranks, options), ":".join([name, *words]))

    @property
    def by_rows(self) -> bool:
        """Whether plans of this form are row plans."""
        return MODELS[self.assigner.model].layout == "row"

    @property
    def searched(self) -> bool:
        return MODELS[self.assigner.model].searched


@dataclass
class PricedForms:
    """Prices of the forms (`Form`) of all candidates; a price is computed when first needed.

    Attributes:
        matrix, task, balance: The matrix, the task of model auto, and its balance.
        rows (dict): Owners of rows, int32[n]. A key is (balance, number of parts) or, if the form
            is not searched, (name of the model that assigns rows, number of parts).
        seconds: Price by label of a form: whether memory is too small, and seconds of an epoch
            (infinite after a failure).
    """

    matrix: Graph
    task: Task
    balance: Balance
    rows: dict[tuple[str, int], Owner] = field(default_factory=dict)
    seconds: dict[str, tuple[bool, float]] = field(default_factory=dict)

    def balance_of(self, form: Form) -> Balance:
        """Return the balance of the parts in a plan of this form: the given balance, if possible.

        An edge plan cannot balance rows. If the given balance includes rows, such a plan balances
        the nonzeros alone.
        """
        if form.by_rows or "rows" not in self.balance.names:
            return self.balance
        return replace(self.balance, names=("nnz",), allowed={})

    def best_form(self, name: str, unfit: bool = False) -> list[Form]:
        """Return a list with the cheapest form of candidate `name`: the candidate with its options.

        The list is empty if no form is possible with these ranks, widths and graph. A candidate
        that is `unfit` is not searched: the list has its first possible form, without a price.
        """
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
        """Return the candidates that are predicted too slow for a search: name -> reason.

        Only the `MOST` candidates with the lowest prices (predicted times of an epoch) are
        searched. Candidates with a reason in `unfits` are not searched either, and not returned.
        """
        searched = [form for form in forms if form.searched and not unfits.get(form.name)]
        if len(searched) <= MOST:
            return {}
        return {
            form.name: f"not searched for: {MOST} others are predicted quicker; from a quick "
            f"partition its epoch takes {1e3 * self.price(form)[1]:.4g} ms"
            for form in sorted(searched, key=self.price)[MOST:]
        }

    def price(self, form: Form) -> tuple[bool, float]:
        """Return the price of `form`: whether a rank lacks memory, and the seconds of an epoch.

        A form is a model with options. Its owners are from the model or from one partitioner.
        """
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
        """Return the owners for which the epoch time of a form is predicted.

        A form is a model with fixed options. The owners come from the model, or from one run of a
        partitioner.
        """
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
        """Return owners of rows from the model or, if the model needs a search, from a partitioner.

        The partitioner minimises the edge cut.
        """
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
