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

CANDIDATES = ("hp", "medium-grain", "hub-split", "checkerboard", "libra")


@dataclass(frozen=True)
class AutoModel(Model):
    """Best of several models by the objective.

    Attributes:
        candidates: Names of models, each with options of its own at their defaults.
    """

    layout: ClassVar[str] = "any"
    default_objective: ClassVar[str] = "time"
    competes: ClassVar[bool] = False
    swept: ClassVar[bool] = False
    assigns_blocks: ClassVar[bool] = False
    follows_capacities: ClassVar[bool] = True

    candidates: tuple[str, ...] | str = option(
        CANDIDATES, "models that compete", metavar="MODEL,..."
    )

    def names(self) -> tuple[str, ...]:
        """The candidates, each once."""
        given = self.candidates
        names = given.split(",") if isinstance(given, str) else given
        return tuple(dict.fromkeys(name.strip() for name in names))

    def build(self, matrix: Graph, num_parts: int, *, balance: str | Balance, seed: int) -> Problem:
        """InputError: each candidate has a problem of its own (`plancc.owners.find.choose`)."""
        raise InputError("model 'auto' has no problem of its own: it compares other models' plans")
