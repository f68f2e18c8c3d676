"""Types of vertices and relations between them, and their union: an ordinary square graph.

The vertices of all types are numbered in one space, type after type. A relation's nonzeros are the
block of the rows of its destination and the columns of its source:

                    columns of authors   columns of papers
    rows of authors                      (paper, cited in, author)
    rows of papers  (author, writes,     (paper, cites, paper)
                     paper)

So one column net has all rows that need a vertex, in whatever relation, and the vertex's row
travels once to a part that needs it in several. A rectangular matrix is a graph of two types.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.text import shown

Relation = tuple[str, str, str]
"""Source type, name, destination type."""
IntArray = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Types:
    """The types of a graph's vertices and its relations.

    Attributes
    ----------
    counts : dict of str to int
        Vertices of every type, in the order of their numbers.
    relations : tuple of (source, name, destination)
        None twice; no two from one source to one destination.

    Raises
    ------
    InputError
        For a count below 1, an empty name, a relation of unknown types, two relations between the
        same types.
    """

    counts: Mapping[str, int]
    relations: tuple[Relation, ...]

    def __post_init__(self) -> None:
        for name, count in self.counts.items():
            _check_name(name)
            if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 1:
                raise InputError(
                    f"type '{shown(name)}' has '{shown(count)}' vertices: give a whole number, "
                    "at least 1, or leave the type out"
                )
        if not self.counts or not self.relations:
            raise InputError("a graph of types needs a type and a relation at least")
        ends: dict[tuple[str, str], Relation] = {}
        for relation in self.relations:
            check_relation(relation, "types")
            source, name, destination = relation
            _check_name(name)
            for each in (source, destination):
                if each not in self.counts:
                    raise InputError(
                        f"{in_words(relation)}: type '{shown(each)}' is unknown; there are "
                        f"{_listed(self.counts)}"
                    )
            other = ends.setdefault((source, destination), relation)
            if other is not relation:
                raise InputError(
                    f"{in_words(other)} and {in_words(relation)} have the same source and "
                    "destination: a plan holds one relation from a type to a type; compile the "
                    "others as plans of their own, or add up the matrices"
                )

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.counts)

    @property
    def num_vertices(self) -> int:
        """Vertices of all types."""
        return sum(self.counts.values())

    @cached_property
    def first(self) -> npt.NDArray[np.int64]:
        """Number of the first vertex of every type, and the end of the last: int64[types + 1]."""
        return np.array([0, *accumulate(self.counts.values())], np.int64)

    def vertices(self, name: str) -> slice:
        """The numbers of a type's vertices in the union.

        Raises
        ------
        InputError
            For an unknown type.
        """
        if name not in self.counts:
            raise InputError(f"type '{shown(name)}' is unknown; there are {_listed(self.counts)}")
        k = self.names.index(name)
        return slice(int(self.first[k]), int(self.first[k + 1]))

    def relation(self, name: str | Relation) -> Relation:
        """The relation of a name, or of (source, name, destination).

        Raises
        ------
        InputError
            For an unknown one, and for a name that several relations have.
        """
        whole = tuple(name) if isinstance(name, tuple | list) else None
        found = [each for each in self.relations if whole == each or each[1] == name]
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(
                f"{len(found)} relations are called '{shown(name)}': give one of "
                f"{', '.join(map(str, found))}"
            )
        given = "', '".join(map(str, whole)) if whole else name
        raise InputError(
            f"relation '{shown(given)}' is unknown; there are {', '.join(map(str, self.relations))}"
        )

    def type_of(self, vertices: IntArray) -> npt.NDArray[np.int64]:
        """Number of every vertex's type: int64[m]."""
        return np.searchsorted(self.first, vertices, side="right") - 1

    def rows_before(
        self, vertices: IntArray, part_ptr: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Rows of every type before each part: int64[types, num_parts + 1].

        Parameters
        ----------
        vertices : int[rows]
            Vertex of every row.
        part_ptr : int64[num_parts + 1]
            First row of every part.
        """
        of, at = self.type_of(vertices), np.clip(part_ptr, 0, len(vertices))
        counts = (np.concatenate([[0], np.cumsum(of == k)]) for k in range(len(self.counts)))
        return np.stack([each[at] for each in counts])

    def relation_of(self, rows: IntArray, columns: IntArray) -> npt.NDArray[np.int64]:
        """Number of the relation of every nonzero, by its ends; -1 where there is none: int64[m].

        Parameters
        ----------
        rows, columns : int[m]
            Vertices of the union.
        """
        number = np.full((len(self.counts), len(self.counts)), -1, np.int64)
        for k, (source, _, destination) in enumerate(self.relations):
            number[self.names.index(destination), self.names.index(source)] = k
        return number[self.type_of(rows), self.type_of(columns)]

    def texts(self) -> tuple[str, str]:
        """Types and relations as attributes of a plan file (docs/reference/plan-format.md)."""
        lists = [[name, int(count)] for name, count in self.counts.items()], self.relations
        types, relations = (json.dumps(each, separators=(",", ":")) for each in lists)
        return types, relations

    @classmethod
    def parse(cls, types: str, relations: str) -> Types:
        """The inverse of `texts`; InputError for any other text."""
        try:
            pairs, triples = json.loads(types), json.loads(relations)
            found = cls(dict(pairs), tuple(map(tuple, triples)))
            right = found.texts() == (types, relations)
        except (ValueError, TypeError, AttributeError, RecursionError):
            right = False
        if not right:
            raise InputError(
                f"'{shown(types, 40)}' and '{shown(relations, 40)}' are no types and relations"
            )
        return found


def check_relation(relation: Any, where: str) -> None:
    """InputError unless it is (source, name, destination); `where` names what has it."""
    if not isinstance(relation, tuple) or [type(each) for each in relation] != [str] * 3:
        raise InputError(
            f"{where}: '{shown(relation)}' is no relation: give three texts, "
            "(source, name, destination)"
        )


def _check_name(name: str) -> None:
    if not isinstance(name, str) or not name or not name.isprintable():
        raise InputError(f"'{shown(name)}' is no name of a type or relation: give a printable text")


def in_words(relation: Relation) -> str:
    """A relation as messages name it."""
    return f"relation '{shown(' '.join(map(str, relation)), 100)}'"


def _listed(names: Mapping[str, Any]) -> str:
    return shown(", ".join(names), 200)
