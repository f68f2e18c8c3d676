"""Which models compete where the user leaves the choice: model ``auto``."""

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
"""Models that compete where none are named: a layout each, the first for rows."""


@dataclass(frozen=True)
class AutoModel(Model):
    """Best of several models by the objective.

    Attributes:
        candidates: Names of models, each in the best of its `forms`. None: `CANDIDATES`, of which
            only the most promising are searched for.
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
        otherwise=f"{','.join(CANDIDATES)}, the most promising",
        metavar="MODEL,...",
    )

    def names(self) -> tuple[str, ...]:
        """The candidates, each once."""
        given = CANDIDATES if self.candidates is None else self.candidates
        names = given.split(",") if isinstance(given, str) else given
        return tuple(dict.fromkeys(name.strip() for name in names))

    def build(self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int) -> Problem:
        """InputError: each candidate has another problem (`plancc.owners.choice.choose`)."""
        raise InputError("model 'auto' has no problem of its own: it compares other models' plans")
