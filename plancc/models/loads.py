"""What parts share evenly, and how evenly: weights by constraint, with their allowed imbalance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from plancc.graph.graph import Graph
from plancc.models.capacities import Capacities
from plancc.models.limits import Epsilon, Limits
from plancc.models.weights import Balance, as_columns, constraints, part_weights


@dataclass(frozen=True, eq=False)
class Loads:
    """The weights that parts share, and how much heavier than an even share a part may be.

    Attributes
    ----------
    by_name : dict of str to int64[n]
        Weights of the vertices (or nonzeros) by constraint, at least one.
    epsilon : float or tuple of float
        Allowed imbalance, max / mean - 1: of all constraints, or of one after the other.
    capacities : tuple of float, optional
        To which the even shares of the parts are in proportion; None: all alike.
    """

    by_name: Mapping[str, npt.NDArray[np.int64]]
    epsilon: Epsilon
    capacities: Capacities = None

    @classmethod
    def of(cls, matrix: Graph, balance: Balance, epsilon: float) -> Loads:
        """The constraints of a balance; those without a limit of their own take `epsilon`.

        Raises
        ------
        InputError
            See `plancc.models.weights.constraints`.
        """
        by_name = constraints(matrix, balance)
        own = tuple(balance.epsilon(name, epsilon) for name in by_name)
        return cls(by_name, own[0] if len(set(own)) == 1 else own, balance.capacities)

    @classmethod
    def of_nonzeros(cls, num_nonzeros: int, epsilon: float, capacities: Capacities = None) -> Loads:
        """Nonzeros that have an owner each: every one weighs 1."""
        return cls({"nnz": np.ones(num_nonzeros, dtype=np.int64)}, epsilon, capacities)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.by_name)

    @cached_property
    def weights(self) -> npt.NDArray[np.int64]:
        """All weights as one array: int64[n], or int64[n, c] if there are several constraints."""
        return as_columns(self.by_name)

    @property
    def unequal(self) -> bool:
        """Whether some parts are to be larger than others."""
        return len(set(self.capacities or ())) > 1

    @property
    def described(self) -> str:
        """Names and allowed imbalances, for messages."""
        return ", ".join(f"{name} {load.epsilon:g}" for name, load in self.apart().items())

    def apart(self) -> dict[str, Loads]:
        """Every constraint by itself."""
        each = (
            self.epsilon if isinstance(self.epsilon, tuple) else (self.epsilon,) * len(self.names)
        )
        pairs = zip(self.by_name.items(), each, strict=True)
        return {
            name: replace(self, by_name={name: load}, epsilon=epsilon)
            for (name, load), epsilon in pairs
        }

    def limits(self, num_parts: int) -> Limits:
        return Limits.of(self.weights, num_parts, self.epsilon, self.capacities)

    def of_parts(self, owner: npt.NDArray[np.int32], num_parts: int) -> npt.NDArray[np.int64]:
        """Weights of the parts: int64[num_parts], or int64[num_parts, c]."""
        return part_weights(owner, self.weights, num_parts)

    def imbalances(self, owner: npt.NDArray[np.int32], num_parts: int) -> list[float]:
        """See `Limits.imbalance`; by constraint."""
        found = self.limits(num_parts).imbalance(self.of_parts(owner, num_parts))
        return [float(value) for value in np.atleast_1d(found)]

    def overload(self, owner: npt.NDArray[np.int32], num_parts: int) -> float:
        """See `Limits.overload`."""
        return self.limits(num_parts).overload(self.of_parts(owner, num_parts))
