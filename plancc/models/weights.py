"""`Balance` names the constraints of a partition; `constraints` computes their vertex weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.graph import Graph
from plancc.models.limits import Limits
from plancc.registry import check_choice

MAX_TOTAL = 2**53
"""Largest sum of the weights of a constraint; up to this number, sums are exact in float64."""

LOOSE = 0.1
"""Allowed imbalance of nonzeros in `DEFAULT_BALANCE`, unless the search allows a larger one."""
DEFAULT_BALANCE = f"nnz:{LOOSE:g},rows"
"""Default balance of a search for owners of rows. The dense work of an epoch is proportional to
the rows. Nonzeros may be less even without costing time (measurements: docs/results/quality.md)."""

WEIGHTS, BATCH = "weights", "batch"
BATCH_SCALE = 1000
"""Mean weight of a row in the balance "batch"."""


@dataclass(frozen=True, eq=False)
class Balance:
    """The constraints of a partition: the weights that its parts share evenly.

    Attributes:
        names: Names in `BALANCES`, without repetition:

            - "nnz": number of nonzeros in the row, the work of its product (Demirci et al. 2022,
              section 4.3.1, ``w(v_i) = |cols(A(i, :))|``);
            - "rows": 1 for every row; in a graph with vertex types, a constraint for each type;
            - "weights": the vertex weights of the graph (`plancc.graph.weights`); if vertices have
              several weights, each is a constraint;
            - "work": multiply-adds of the row in one forward pass, ``sum_k nonzeros * d_{k-1} +
              d_{k-1} * d_k`` over the layers k = 1..L (Wan et al. 2025, proof of Proposition 3.1);
            - "train": 1 for every training vertex;
            - "batch": expected number of nonzeros of the row in a mini-batch, scaled so that the
              mean is `BATCH_SCALE`.
        dims: Widths d_0..d_L of the layers, needed for "work".
        train_mask (bool[num_vertices], or None): Training vertices, needed for "train".
        expected_nonzeros (float64[num_vertices], or None): Needed for "batch".
        allowed: Allowed imbalance, max / mean - 1, by name; the search's `epsilon` for missing
            names.
        capacities: Relative sizes of the parts, for every constraint; None: equal sizes.
    """

    names: tuple[str, ...] = ("nnz",)
    dims: tuple[int, ...] | None = None
    train_mask: npt.NDArray[np.bool_] | None = None
    expected_nonzeros: npt.NDArray[np.float64] | None = None
    allowed: Mapping[str, float] = field(default_factory=dict)
    capacities: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name in self.names or ("",):
            check_choice("balance", name, BALANCES)
            if self.names.count(name) > 1:
                raise InputError(f"balance '{','.join(self.names)}' names '{name}' twice")
        for name, epsilon in self.allowed.items():
            check_choice("balance", name, self.names)
            if not (math.isfinite(epsilon) and epsilon >= 0):
                raise InputError(_not_allowed(name, f"{epsilon:g}"))
        if self.dims is not None:
            check_dims(self.dims)
        elif "work" in self.names:
            raise InputError("balance 'work' needs the widths of the layers (`dims`)")

    @classmethod
    def parse(cls, text: str, dims: Sequence[int] | None = None) -> Balance:
        """Return the balance that a string such as "nnz,rows" or "nnz:0.05,rows" names.

        The number after a colon is the allowed imbalance.
        """
        names: list[str] = []
        allowed: dict[str, float] = {}
        for word in text.split(","):
            name, colon, number = (each.strip() for each in word.partition(":"))
            check_choice("balance", name, BALANCES)
            names.append(name)
            try:
                allowed |= {name: float(number)} if colon else {}
            except ValueError:
                raise InputError(_not_allowed(name, number)) from None
        return cls(tuple(names), None if dims is None else tuple(dims), allowed=allowed)

    def __str__(self) -> str:
        words = ((name, self.allowed.get(name)) for name in self.names)
        return ",".join(name if own is None else f"{name}:{own!r}" for name, own in words)

    def check_given(self, graph: Graph) -> None:
        """Raise InputError if `names` has "weights" or "train", but the graph lacks their data."""
        for name in self.names:
            if name in (WEIGHTS, "train"):
                _WEIGHTS[name](graph, self)

    def epsilon(self, constraint: str, default: float) -> float:
        """Return the allowed imbalance of a constraint (a key of `constraints`), or `default`."""
        return self.allowed.get(constraint.split()[0], default)

    def limits(self, matrix: Graph, num_parts: int, epsilon: float) -> Limits:
        """Return the limits of the parts' weights.

        `epsilon` is the allowed imbalance of each constraint whose name `allowed` lacks.
        """
        found = constraints(matrix, self)
        allowed = [self.epsilon(name, epsilon) for name in found]
        return Limits(_stacked(found), num_parts, allowed, self.capacities, tuple(found))

    def without_limits(self) -> Balance:
        """Return the balance without `allowed`: all constraints then allow the same imbalance."""
        return replace(self, allowed={})


def constraints(matrix: Graph, balance: str | Balance) -> dict[str, npt.NDArray[np.int64]]:
    """Return the vertex weights of every constraint, int64[num_vertices], by the constraint's name.

    Several weights of a vertex are named "weights 1", "weights 2", .... With vertex types, the
    constraints of "rows" are named "rows author", .... A sum above `MAX_TOTAL` raises InputError.
    """
    if isinstance(balance, str):
        balance = Balance.parse(balance)
    found: dict[str, npt.NDArray[np.int64]] = {}
    for name in balance.names:
        columns = _WEIGHTS[name](matrix, balance)
        if columns.ndim == 1:
            found[name] = columns
        elif columns.shape[1] == 1:
            found[name] = np.ascontiguousarray(columns[:, 0])
        else:
            numbers: Iterable[Any] = range(1, columns.shape[1] + 1)
            if name == "rows" and matrix.types is not None:
                numbers = matrix.types.counts
            found |= {
                f"{name} {each}": np.ascontiguousarray(column)
                for each, column in zip(numbers, columns.T, strict=True)
            }
    return found


def capacities_of(balance: str | Balance) -> tuple[float, ...] | None:
    """Return the capacities of a balance; None for a string, which cannot have capacities."""
    return balance.capacities if isinstance(balance, Balance) else None


def vertex_weights(matrix: Graph, balance: str | Balance) -> npt.NDArray[np.int64]:
    """Return every vertex's weight in the balance, int64[num_vertices].

    If the balance names several weights, the array is int64[num_vertices, num_weights].
    """
    return _stacked(constraints(matrix, balance))


def combined(
    weights: npt.NDArray[np.int64], importance: npt.NDArray[np.float64] | None = None
) -> npt.NDArray[np.int64]:
    """Combine the weights of every vertex into one weight: int64[n], with a sum up to `MAX_TOTAL`.

    Each column of `weights` is a constraint. It is scaled so that its sum is proportional to its
    entry in `importance`, float64[c]; then the columns are added. A combined weight is 0 only if
    all weights of the vertex are 0. One-dimensional `weights` are returned unchanged.
    """
    if weights.ndim == 1:
        return weights
    n, c = weights.shape
    share: Any = MAX_TOTAL // c - n  # rounding up adds less than n
    if importance is not None:
        share = np.maximum(np.floor(importance * MAX_TOTAL) - n, 1)
    scale = share / np.maximum(weights.sum(axis=0), 1)
    return np.ceil(weights * scale).astype(np.int64).sum(axis=1)


def check_dims(dims: Sequence[int]) -> None:
    """Raise InputError unless `dims` are two or more whole numbers, each at least 1."""
    if len(dims) < 2 or not all(is_count(width) for width in dims):
        raise InputError(f"dims {list(dims)}: two or more whole numbers >= 1 are needed")


def check_num_parts(num_vertices: int, num_parts: int, what: str = "part") -> None:
    """Raise InputError unless `num_parts` is an integer in ``1..num_vertices``.

    `what`: what messages call a part, such as "rank".
    """
    if not isinstance(num_parts, int | np.integer) or isinstance(num_parts, bool):
        raise InputError(f"{num_parts!r} {what}s: a whole number is needed")
    if num_parts < 1:
        raise InputError(f"{num_parts} {what}s: at least 1 is needed")
    if num_parts > num_vertices:
        rule = f"every {what} needs at least one vertex"
        raise InputError(f"{num_parts} {what}s for {num_vertices} vertices: {rule}")


def _stacked(found: Mapping[str, npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
    columns = list(found.values())
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def _not_allowed(name: str, number: str) -> str:
    cure = f"give a number that is at least 0, such as {name}:0.05"
    return f"balance '{name}:{number}': '{number}' is not an allowed imbalance; {cure}"


def is_count(value: Any) -> bool:
    """Whether a value is a whole number of at least 1."""
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_integer and bool(value >= 1)


def _nonzeros(matrix: Graph, balance: Balance) -> npt.NDArray[np.int64]:
    return matrix.row_nonzeros().astype(np.int64, copy=False)


def _rows(matrix: Graph, balance: Balance) -> npt.NDArray[np.int64]:
    if matrix.types is None:
        return np.ones(matrix.num_vertices, dtype=np.int64)
    types = matrix.types.type_of(np.arange(matrix.num_vertices))
    return (types[:, None] == np.arange(len(matrix.types.counts))).astype(np.int64)


def _own_weights(matrix: Graph, balance: Balance) -> npt.NDArray[np.int64]:
    name, weights = matrix.source.name, matrix.vertex_weights
    if weights is None or weights.size == 0:
        cure = "but the graph has none; give `weights`, or a column 'weight' in `data`"
        raise InputError(f"{name}: balance 'weights' needs vertex weights, {cure}")
    if (weights.sum(axis=0, dtype=np.float64) > MAX_TOTAL).any():
        raise InputError(f"{name}: vertex weights sum to more than {MAX_TOTAL}; scale them down")
    return weights.astype(np.int64, copy=False)


def _work(matrix: Graph, balance: Balance) -> npt.NDArray[np.int64]:
    assert balance.dims is not None
    dims = [int(width) for width in balance.dims]
    of_nonzero = sum(dims[:-1])
    of_row = sum(d * e for d, e in pairwise(dims))
    if matrix.num_nonzeros * of_nonzero + matrix.num_vertices * of_row > MAX_TOTAL:
        raise InputError(f"dims {dims}: the multiply-adds exceed {MAX_TOTAL}; give smaller widths")
    return of_nonzero * _nonzeros(matrix, balance) + of_row


def _train(matrix: Graph, balance: Balance) -> npt.NDArray[np.int64]:
    if balance.train_mask is None:
        raise InputError("balance 'train' needs vertex data with a 'train_mask' (`data`)")
    if not balance.train_mask.any():
        raise InputError("balance 'train': 'train_mask' holds no vertex; mark training vertices")
    return balance.train_mask.astype(np.int64)


def _batch(matrix: Graph, balance: Balance) -> npt.NDArray[np.int64]:
    expected = balance.expected_nonzeros
    if expected is None:
        raise InputError(f"balance '{BATCH}' needs the mini-batches of model stochastic-hp")
    mean = expected.mean()
    if not mean > 0:
        raise InputError(f"balance '{BATCH}': mini-batches hold no nonzeros; draw larger batches")
    return np.rint(BATCH_SCALE * expected / mean).astype(np.int64)


_WEIGHTS: dict[str, Callable[[Graph, Balance], npt.NDArray[np.int64]]] = {
    "nnz": _nonzeros,
    "rows": _rows,
    WEIGHTS: _own_weights,
    "work": _work,
    "train": _train,
    BATCH: _batch,
}
BALANCES = tuple(_WEIGHTS)
