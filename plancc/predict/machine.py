"""The numbers that describe the speed of a machine.

A message of b bytes takes ``latency + b / bandwidth`` seconds (the postal model). Latency,
bandwidth and a rate of multiply-adds are required, all other numbers optional.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields, replace
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.registry import check_choice, nearest
from plancc.text import shown

Float64Array = npt.NDArray[np.float64]

COLLECTIVES = ("ring", "tree", "auto")
"""Shapes of broadcasts and all-reduces."""
DRAWN = {"drawn_block": 6.5e-4, "drawn_row": 3.4e-7, "drawn_nonzero": 2e-8}
"""Default seconds for drawing a mini-batch, per block, row and nonzero, measured on an AMD EPYC
core."""
MOST = 2**31 - 1
"""Most ranks, or cores, of a node."""
MOST_INTEGER = 2**63 - 1
"""Largest integer of TOML; larger numbers are written with an exponent."""


class _Rule(NamedTuple):
    """A condition on a value: a function that tests it, and a phrase that describes it."""

    holds: Callable[[Any], bool]
    wanted: str


def _is_positive(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    most = MOST_INTEGER if isinstance(value, int) else sys.float_info.max
    return number and 0 < value <= most


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST


def _is_row(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) > 0 and all(map(_is_positive, value))


POSITIVE = _Rule(_is_positive, "a positive finite number")
COUNT = _Rule(_is_count, f"a whole number from 1 to {MOST}")
TEXT = _Rule(lambda value: isinstance(value, str), "text")
RULES = {
    "speed": _Rule(lambda row: row == () or _is_row(row), "a list of positive finite numbers"),
    "ranks": COUNT,
    "cores": COUNT,
    "overhead": _Rule(lambda value: _is_positive(value) or value == 0, "a finite number from 0"),
    "communication": _Rule(
        lambda value: value == 0 or (_is_positive(value) and value <= 1), "a number between 0 and 1"
    ),
    "name": TEXT,
    "source": TEXT,
}
"""Rules of attributes; any other attribute must be a positive number."""


def _check(part: Any, prefix: str = "") -> None:
    """Raise InputError if an attribute of a `Machine`, or of one of its tables, breaks its rule.

    `prefix` is the table's name with a dot, or "". An attribute may be None if this is its default.
    """
    for each in fields(part):
        value, rule = getattr(part, each.name), RULES.get(each.name, POSITIVE)
        if each.name in TABLES or (value is None and each.default is None):
            continue
        if not rule.holds(value):
            raise InputError(f"machine: '{prefix}{each.name}' is {value!r}, not {rule.wanted}")


@dataclass(frozen=True)
class Node:
    """Resources that the ranks of a node share.

    Attributes:
        ranks: Number of ranks per node; rank r is on node ``r // ranks``.
        cores: Number of cores that these ranks share. With fewer cores than ranks, all compute
            takes ranks / cores times as long. None: one core per rank.
        injection: Bytes per second that the node can send into the network, and receive at the same
            time. None: ranks x bandwidth.
        latency, bandwidth: For messages between ranks of a node. None: as between nodes.
        memory: Bytes of memory per rank; None if unknown.
    """

    ranks: int = 1
    cores: int | None = None
    injection: float | None = None
    latency: float | None = None
    bandwidth: float | None = None
    memory: float | None = None

    def __post_init__(self) -> None:
        _check(self, "node.")


@dataclass(frozen=True)
class Compute:
    """Speed of a rank in all work other than sparse products.

    Attributes:
        dense: Multiply-adds per second of dense products. None: the rate of sparse products.
        stream: Bytes per second that elementwise work and dense products read and write. None:
            reading and writing take no time.
        overhead: Additional seconds of every operation, whatever its size.
        drawn_block, drawn_row, drawn_nonzero: Seconds to draw a mini-batch and build its blocks,
            per block, row and nonzero. None: the numbers in `DRAWN`.
    """

    dense: float | None = None
    stream: float | None = None
    overhead: float = 0.0
    drawn_block: float | None = None
    drawn_row: float | None = None
    drawn_nonzero: float | None = None

    def __post_init__(self) -> None:
        _check(self, "compute.")


@dataclass(frozen=True)
class SparseRates:
    """Multiply-adds per second of sparse products, measured for several shapes.

    Attributes:
        nonzeros_per_row: Measured numbers of nonzeros per row, ascending.
        width: Measured numbers of columns of the dense matrix, ascending.
        multiply_adds: Table of rates, with the axes `nonzeros_per_row` and `width`; with the axes
            `rows`, `nonzeros_per_row` and `width` if `rows` is not empty.
        rows: Measured numbers of rows of a square matrix, ascending, which decide whether the dense
            matrix fits into a cache. Empty if they make no difference.
    """

    nonzeros_per_row: tuple[float, ...]
    width: tuple[float, ...]
    multiply_adds: tuple[Any, ...]
    rows: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        for name in ("nonzeros_per_row", "width", "rows"):
            value = getattr(self, name)
            good = _is_row(value) and all(a < b for a, b in pairwise(value))
            good = good or (name == "rows" and value == ())
            if not good:
                raise InputError(
                    f"machine: 'spmm.{name}' is {value!r}, not a list of ascending positive numbers"
                )
            object.__setattr__(self, name, tuple(value))
        rates, shape = self.multiply_adds, (len(self.nonzeros_per_row), len(self.width))
        tables = rates if self.rows else (rates,)
        good = isinstance(tables, list | tuple) and len(tables) == max(1, len(self.rows))
        good = good and all(isinstance(t, list | tuple) and len(t) == shape[0] for t in tables)
        good = good and all(_is_row(row) and len(row) == shape[1] for t in tables for row in t)
        wanted = f"a table of {shape[0]} rows of {shape[1]} positive numbers"
        if self.rows:
            wanted += f" for each of {len(self.rows)} numbers of rows"
        if not good:
            raise InputError(f"machine: 'spmm.multiply_adds' is not {wanted}")
        plain = tuple(tuple(tuple(row) for row in t) for t in tables)
        object.__setattr__(self, "multiply_adds", plain if self.rows else plain[0])

    def rate(
        self, nonzeros_per_row: npt.ArrayLike, width: npt.ArrayLike, rows: npt.ArrayLike = 1
    ) -> Float64Array:
        """Return multiply-adds per second for these shapes, float64, by interpolation in the table.

        Interpolation is linear in logarithms; outside the table, the nearest value applies.
        """
        axes = (self.rows or (1.0,), self.nonzeros_per_row, self.width)
        table = np.log(np.array(self.multiply_adds, np.float64).reshape([*map(len, axes)]))
        places = [
            _place(axis, at) for axis, at in zip(axes, (rows, nonzeros_per_row, width), strict=True)
        ]
        found: Float64Array | float = 0.0
        for corner in np.ndindex(2, 2, 2):
            at, share = [], 1.0
            for step, (place, way), size in zip(corner, places, table.shape, strict=True):
                at.append(np.minimum(place + step, size - 1))
                share = share * (way if step else 1 - way)
            found = found + share * table[tuple(at)]
        return np.exp(found)


def _place(points: Sequence[float], values: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], Any]:
    """Return, for every value, the index k such that points k and k + 1 enclose it.

    Returns also where the value lies between point k (0) and point k + 1 (1) on a logarithmic
    scale. Values outside the points are moved to the nearest point.
    """
    axis = np.log(np.array(points, np.float64))
    at = np.clip(np.log(np.maximum(np.asarray(values, np.float64), 1e-300)), axis[0], axis[-1])
    place = np.clip(np.searchsorted(axis, at, side="right") - 1, 0, max(len(axis) - 2, 0))
    length = axis[np.minimum(place + 1, len(axis) - 1)] - axis[place]
    return place, (at - axis[place]) / np.where(length > 0, length, 1)


@dataclass(frozen=True)
class Overlap:
    """How much of the time of messages is hidden, because products are computed meanwhile.

    Attributes:
        communication: Hidden share, 0..1, of the smaller of two times: the time of the messages,
            and the time of the products of own rows.
    """

    communication: float = 0.0

    def __post_init__(self) -> None:
        _check(self, "overlap.")


@dataclass(frozen=True)
class CollectiveShapes:
    """The algorithms by which collectives run: "ring", "tree", or "auto" for the faster one.

    Here g is the number of ranks, and w the time in which one rank sends all words once.

    Attributes:
        broadcast: "ring" takes g - 1 latencies plus w (words are sent in pieces); "tree" takes
            ceil(log2 g) rounds of one latency plus w.
        allreduce: "ring" takes 2 (g - 1) latencies plus 2 w (g - 1) / g; "tree" takes as long as
            two "tree" broadcasts.
    """

    broadcast: str = "ring"
    allreduce: str = "ring"

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            check_choice(f"collective.{name}", value, COLLECTIVES)


@dataclass(frozen=True)
class Machine:
    """The speed of one rank, of its connection to the network, and of what ranks share.

    Attributes:
        latency: Seconds per message.
        bandwidth: Bytes per second that a rank can send, while it receives the same number of
            bytes.
        multiply_adds: Multiply-adds per second of sparse products.
        name, source: Name of the machine, and where its numbers come from.
        node: What the ranks of a node share.
        compute: Speed of work other than sparse products.
        spmm: Rates of sparse products by shape; None if `multiply_adds` holds for every shape.
        overlap: How much of the time of messages is hidden.
        collective: Algorithms of collectives.
        speed: Speed of every rank, or of every rank of a node if all nodes are alike. The compute
            of a rank, including overheads, takes ``1 / speed`` times as long as at speed 1. Empty
            if all speeds are 1.

    Raises:
        InputError: If a value is not allowed, such as a latency that is not positive and finite.
    """

    latency: float
    bandwidth: float
    multiply_adds: float
    name: str = ""
    source: str = ""
    node: Node = field(default_factory=Node)
    compute: Compute = field(default_factory=Compute)
    spmm: SparseRates | None = None
    overlap: Overlap = field(default_factory=Overlap)
    collective: CollectiveShapes = field(default_factory=CollectiveShapes)
    speed: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _check(self)
        object.__setattr__(self, "speed", tuple(self.speed))

    def on_nodes(self, ranks: int | None) -> Machine:
        """Return the machine with `ranks` ranks per node.

        The machine is returned unchanged if `ranks` is None, or if `speed` lists the speeds of the
        ranks of one node.
        """
        if ranks is None or len(self.speed) == self.node.ranks:
            return self
        return replace(self, node=replace(self.node, ranks=ranks))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Return the machine that a dict describes.

        The dict has the form of a machine file, and of the result of `as_dict`: its keys are
        attributes, and the values of keys in `TABLES` are dicts.

        Raises:
            InputError: If a key is missing or unknown, or a value is not allowed.
        """
        _check_keys("", values, cls)
        found = dict(values)
        for key, kind in TABLES.items():
            if key not in values:
                continue
            if not isinstance(values[key], Mapping):
                raise InputError(f"machine: '{key}' is {values[key]!r}, not a table")
            _check_keys(f"{key}.", values[key], kind)
            found[key] = kind(**values[key])
        return cls(**found)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the machine that `to_json` wrote; InputError for any other string."""
        try:
            values = json.loads(text)
        except (TypeError, ValueError, RecursionError):
            values = None
        if not isinstance(values, dict):
            raise InputError("machine: the string is not a machine in JSON")
        return cls.from_dict(values)

    def to_json(self) -> str:
        """Return the whole machine as one line of JSON, for the provenance of a plan."""
        return json.dumps(self.as_dict())

    @property
    def title(self) -> str:
        """The machine's name; without a name, a phrase with its three required numbers."""
        return self.name or (
            f"of {self.latency:g} s per message, {self.bandwidth:g} bytes/s, "
            f"{self.multiply_adds:g} multiply-adds/s"
        )

    def check_ranks(self, num_ranks: int) -> None:
        """Raise InputError if `speed` has a wrong number of entries.

        It may be empty, or have `num_ranks` entries, or one entry for each rank of a node.
        """
        if self.speed and len(self.speed) not in (num_ranks, self.node.ranks):
            per_node = (
                f", or {self.node.ranks} for the ranks of a node" if self.node.ranks > 1 else ""
            )
            raise InputError(
                f"machine: 'speed' has {len(self.speed)} numbers: {num_ranks} ranks need "
                f"{num_ranks} numbers{per_node}"
            )

    def speeds(self, num_ranks: int) -> Float64Array:
        """Return the speed of every rank, float64[num_ranks]; see `check_ranks`."""
        self.check_ranks(num_ranks)
        if not self.speed:
            return np.ones(num_ranks)
        return np.resize(np.array(self.speed, np.float64), num_ranks)

    @property
    def injection(self) -> float:
        """Bytes per second that all ranks of a node together can send into the network."""
        if self.node.injection is None:
            return self.node.ranks * self.bandwidth
        return self.node.injection

    @property
    def inside_latency(self) -> float:
        """Seconds per message inside a node."""
        return self.latency if self.node.latency is None else self.node.latency

    @property
    def inside_bandwidth(self) -> float:
        """Bytes per second that a rank can send to ranks of its node."""
        return self.bandwidth if self.node.bandwidth is None else self.node.bandwidth

    @property
    def dense_multiply_adds(self) -> float:
        """Multiply-adds per second of dense products."""
        return self.multiply_adds if self.compute.dense is None else self.compute.dense

    @property
    def drawn(self) -> list[float]:
        """Seconds that drawing a mini-batch takes per block, per row, and per nonzero."""
        return [getattr(self.compute, name) or usual for name, usual in DRAWN.items()]

    def sparse_multiply_adds(
        self, nonzeros_per_row: npt.ArrayLike, width: npt.ArrayLike, rows: npt.ArrayLike = 1
    ) -> Float64Array:
        """Return the multiply-adds per second that sparse products of these sizes reach."""
        if self.spmm is None:
            shape = np.broadcast(nonzeros_per_row, width, rows).shape
            return np.full(shape, float(self.multiply_adds))
        return self.spmm.rate(nonzeros_per_row, width, rows)

    def as_dict(self) -> dict[str, Any]:
        """Return a dict that can be written as JSON.

        It has the three attributes without defaults, and all others that differ from their default.
        """
        usual = {
            each.name: each.default if each.default_factory is MISSING else each.default_factory()
            for each in fields(self)
        }
        shown = {name: v for name, v in asdict(self).items() if getattr(self, name) != usual[name]}
        for name in TABLES.keys() & shown.keys():
            shown[name] = {key: v for key, v in shown[name].items() if v not in (None, ())}
        return shown


TABLES: dict[str, type] = {
    "node": Node,
    "compute": Compute,
    "spmm": SparseRates,
    "overlap": Overlap,
    "collective": CollectiveShapes,
}
"""Tables of a machine file by name."""


def _meant(prefix: str, key: str, known: Sequence[str]) -> str:
    """Return a hint for a key that is wrong here: its right table, or a similar key, or ""."""
    kinds: dict[str, type] = {"": Machine, **TABLES}
    others = {name: kind for name, kind in kinds.items() if name != prefix.removesuffix(".")}
    at = [name for name, kind in others.items() if key in (each.name for each in fields(kind))]
    if at:
        return (
            " (it belongs "
            + " or ".join(f"to [{n}]" if n else "above all tables" for n in at)
            + ")"
        )
    near = nearest(key, known)
    return f" (did you mean {near}?)" if near else ""


def _check_keys(prefix: str, values: Mapping[str, Any], kind: type) -> None:
    """Raise InputError if `values` has an unknown key, or lacks a key that `kind` needs."""
    known = [each.name for each in fields(kind)]
    for key in values:
        if key not in known:
            what = f"key {prefix + key!r} = {values[key]!r}"
            if isinstance(values[key], Mapping):
                what = f"table [{shown(prefix + key)}]"
            raise InputError(
                f"unknown {what}{_meant(prefix, key, known)}; choose from {', '.join(known)}"
            )
    needed = [
        each.name
        for each in fields(kind)
        if each.default is MISSING and each.default_factory is MISSING
    ]
    for key in needed:
        if key not in values:
            where = f"table '{prefix[:-1]}'" if prefix else "a machine"
            raise InputError(
                f"machine: '{prefix}{key}' is missing: {where} needs {', '.join(needed)}"
            )
