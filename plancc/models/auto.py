"""Model ``auto``: plancc tries several models, and takes the best of their plans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from plancc.errors import InputError
from plancc.fields import option
from plancc.graph.graph import Graph
from plancc.models.base import Model
from plancc.models.problem import Problem
from plancc.models.weights import Balance

CANDIDATES = (
    *("hp", "medium-grain", "libra"),
    *("cagnet-1d", "cagnet-1.5d", "cagnet-2d", "cagnet-3d", "mop"),
)
"""Models that compete by default; the first is the default model of row plans."""


@dataclass(frozen=True)
class AutoModel(Model):
    """The model that compares plans of several models, and takes the plan with the best objective.

    Attributes:
        candidates: Names of the models to compare. Each model is tried with every set of options
            that its method `forms` returns. None: the models in `CANDIDATES`; plancc then searches
            for owners only with the models that promise the best plans (`plancc.owners.prices`).
    """

    layout: ClassVar[str] = "any"
    default_objective: ClassVar[str] = "time"
    competes: ClassVar[bool] = False
    swept: ClassVar[bool] = False
    assigns_blocks: ClassVar[bool] = False
    follows_capacities: ClassVar[bool] = True

    candidates: tuple[str, ...] | str | None = option(
        None,
        "models that compete",
        otherwise=f"the most promising of {','.join(CANDIDATES)}",
        metavar="MODEL,...",
    )

    def names(self) -> tuple[str, ...]:
        """Names of the models to compare, each once."""
        given = CANDIDATES if self.candidates is None else self.candidates
        names = given.split(",") if isinstance(given, str) else given
        return tuple(dict.fromkeys(name.strip() for name in names))

    def build(self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int) -> Problem:
        """Raise InputError: each compared model builds its own problem (`plancc.owners.choice`)."""
        raise InputError("model 'auto' only compares other models; choose one of these models")
