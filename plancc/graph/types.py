"""Vertex types, relations between them, and their union: an ordinary square graph.

The vertices of all types are numbered in one sequence, in the order of types. The nonzeros of a
relation are in the block of its destination's rows and its source's columns:

                    columns of authors   columns of papers
    rows of authors                      (paper, cited in, author)
    rows of papers  (author, writes,     (paper, cites, paper)
                     paper)

A part that needs a vertex in several relations gets the vertex's row once. A rectangular matrix is
a graph of two types.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from plancc.errors import InputError
from plancc.graph.arrays import Array, Int64Array, IntArray, Mask
from plancc.text import shown

Relation = tuple[str, str, str]
"""Source type, name, destination type."""
MOST_RELATIONS = 1 << 16


@dataclass(frozen=True)
class Types:
    """The vertex types and the relations of a graph.

    Attributes:
        counts: Number of vertices of every type, in the order of their vertex numbers.
        relations: Distinct relations, at most `MOST_RELATIONS`.
    """

    counts: Mapping[str, int]
    relations: tuple[Relation, ...]

    def __post_init__(self) -> None:
        for name, count in self.counts.items():
            _check_name(name)
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
                cure = "give a whole number, at least 1, or leave the type out"
                raise InputError(f"type '{shown(name)}' has '{shown(count)}' vertices; {cure}")
        if not self.counts or not self.relations:
            raise InputError("a typed graph needs at least one type and one relation")
        if len(self.relations) > MOST_RELATIONS:
            raise InputError(f"{len(self.relations):,} relations; {MOST_RELATIONS:,} is the limit")
        for relation in self.relations:
            check_relation(relation, "types")
            source, name, destination = relation
            _check_name(name)
            for each in (source, destination):
                if each not in self.counts:
                    raise InputError(f"{in_words(relation)}: {self._unknown(each)}")
        if len({*self.relations}) < len(self.relations):
            raise InputError("a relation is listed twice; give every relation its own name")

    def _unknown(self, name: str) -> str:
        known = shown(", ".join(self.counts), 200)
        return f"type '{shown(name)}' is unknown; there are {known}"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.counts)

    @cached_property
    def are_parallel(self) -> bool:
        """Whether two relations have the same source and destination."""
        return len({(source, end) for source, _, end in self.relations}) < len(self.relations)

    @property
    def num_vertices(self) -> int:
        """Number of vertices of all types."""
        return sum(self.counts.values())

    @cached_property
    def first(self) -> Int64Array:
        """First vertex of every type, and then the number of all vertices: int64[types + 1]."""
        return np.array([0, *accumulate(self.counts.values())], np.int64)

    def vertices(self, name: str) -> slice:
        """Return the range of vertex numbers that a type has in the union of all types."""
        if name not in self.counts:
            raise InputError(self._unknown(name))
        k = self.names.index(name)
        return slice(int(self.first[k]), int(self.first[k + 1]))

    def relation(self, name: str | tuple[str, ...]) -> Relation:
        """Return the relation with this unique name, or this (source, name, destination)."""
        whole = tuple(name) if isinstance(name, tuple | list) else None
        found = [each for each in self.relations if whole == each or each[1] == name]
        if len(found) == 1:
            return found[0]
        listed = ", ".join(map(str, found or self.relations))
        if found:
            told = f"{len(found)} relations are called '{shown(name)}'"
            raise InputError(f"{told}; give one of {listed}")
        given = "', '".join(map(str, whole)) if whole else name
        raise InputError(f"relation '{shown(given)}' is unknown; there are {listed}")

    def unreached(self) -> list[str]:
        """Return the names of types that are the destination of no relation."""
        return [name for name in self.counts if all(name != end for *_, end in self.relations)]

    def advice_to_reach(self, name: str) -> str:
        """Return "; " and advice to add the reverses of relations that begin at a type; or ""."""
        found = [" ".join(each) for each in self.relations if each[0] == name]
        return f"; add the reverse of '{shown(', '.join(found), 100)}'" if found else ""

    def type_of(self, vertices: IntArray) -> Int64Array:
        """Return the index of every vertex's type, int64[m]."""
        return np.searchsorted(self.first, vertices, side="right") - 1

    def rows_before(self, vertices: IntArray, part_ptr: Int64Array) -> Int64Array:
        """Return how many rows of each type come before every part: int64[types, num_parts + 1]."""
        of, at = self.type_of(vertices), np.clip(part_ptr, 0, len(vertices))
        counts = (np.concatenate([[0], np.cumsum(of == k)]) for k in range(len(self.counts)))
        return np.stack([each[at] for each in counts])

    def relation_of(self, rows: IntArray, columns: IntArray) -> Int64Array:
        """Return, for every nonzero, the index of a relation that has the types of its ends.

        The result is int64[m], with -1 if there is no such relation. If there are several, any of
        them is returned.
        """
        number = np.full((len(self.counts), len(self.counts)), -1, np.int64)
        for k, (source, _, destination) in enumerate(self.relations):
            number[self.names.index(destination), self.names.index(source)] = k
        return number[self.type_of(rows), self.type_of(columns)]

    def fits(self, rows: IntArray, columns: IntArray, relation: IntArray) -> Mask:
        """Return for every nonzero whether its ends have the types of its relation, bool[m]."""
        numbers = {name: k for k, name in enumerate(self.counts)}
        ends = np.array([(numbers[end], numbers[source]) for source, _, end in self.relations])
        wanted = ends[np.clip(relation, 0, len(ends) - 1)]
        found = np.stack([self.type_of(rows), self.type_of(columns)], axis=1)
        right: Mask = (wanted == found).all(axis=1)
        return right & (relation >= 0) & (relation < len(ends))

    def texts(self) -> tuple[str, str]:
        """Return types and relations as strings in JSON (docs/reference/plan-format.md)."""
        lists = [[name, int(count)] for name, count in self.counts.items()], self.relations
        types, relations = (json.dumps(each, separators=(",", ":")) for each in lists)
        return types, relations

    @classmethod
    def parse(cls, types: str, relations: str) -> Types:
        """Return the types that two strings made by `texts` describe.

        Raise InputError for other strings.
        """
        try:
            pairs, triples = json.loads(types), json.loads(relations)
            found = cls(dict(pairs), tuple(map(tuple, triples)))
            right = found.texts() == (types, relations)
        except (ValueError, TypeError, AttributeError, RecursionError):
            right = False
        if not right:
            texts = f"'{shown(types, 40)}' and '{shown(relations, 40)}'"
            raise InputError(f"{texts} are not types and relations")
        return found


def ids_or_numbers(size: int, ids: Array | None, types: Types | None) -> Array:
    """Return `ids`; if it is None, vertex numbers, which count from 0 in every type."""
    counts = [size] if types is None else [*types.counts.values()]
    return np.concatenate([*map(np.arange, counts)]) if ids is None else ids


def first_of_columns(row_ptr: Int64Array, column: IntArray) -> Mask:
    """Return whether each nonzero is the first with its row and column: bool[nonzeros].

    In a row, nonzeros with the same column (of several relations between two types) are adjacent.
    """
    first = np.ones(len(column), np.bool_)
    first[1:] = np.diff(column) != 0
    starts = row_ptr[:-1]
    first[starts[starts < len(column)]] = True
    return first


def distinct_columns(row_ptr: Int64Array, column: IntArray) -> tuple[Mask, Int64Array]:
    """Return which nonzeros to keep so that no row has a column twice, and the new row offsets.

    The first of several nonzeros with the same row and column is kept (`first_of_columns`).
    """
    first = first_of_columns(row_ptr, column)
    return first, np.concatenate([[0], np.cumsum(first)])[row_ptr]


def check_relation(relation: Any, where: str) -> None:
    """Raise InputError unless `relation` is (source, name, destination); `where` begins the
    message."""
    if not isinstance(relation, tuple) or [type(each) for each in relation] != [str] * 3:
        cure = "give three strings, (source, name, destination)"
        raise InputError(f"{where}: '{shown(relation)}' is not a relation; {cure}")


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InputError(f"'{shown(name)}' cannot name a type or relation; give printable text")


def in_words(relation: Relation) -> str:
    """Return a phrase for a relation, for messages."""
    return f"relation '{shown(' '.join(map(str, relation)), 100)}'"
