"""Marks on tensors: which of their axes are rows of the graph, and which numbers name rows.

A mark is a class and an attribute, and changes nothing that torch computes: outside of
`rules.TorchRules` a marked tensor is an ordinary one, and results of functions have no marks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeGuard, TypeVar

import torch
from torch import Tensor

from plancc.errors import InputError


class Mark(Tensor):
    """A tensor with a mark."""

    # torch's own way to give a subclass no rules; torch declares a class method
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return marked(self.as_subclass(Tensor).detach().clone(), type(self), **vars(self))


class Spread(Mark):
    """The entries of the axis `axis` are spread over the ranks, each entry on one rank.

    Attributes:
        of: "rows": one for each own row; "edges": any others, such as one for each local edge.
        each: Entries for each of these, one after another.
    """

    axis: int
    of: str
    each: int = 1


class EdgeEnds(Mark):
    """int64[2, edges]: both ends of edges; row `source_row` has the sources."""

    source_row: int


class Sources(Mark):
    """int64[...]: numbers of columns, [own rows | halo rows]."""


class Targets(Mark):
    """int64[...]: numbers of own rows."""


class Unknown(Mark):
    """int64[...]: places among all rows, which no rank knows; whatever reads them is refused."""


class Count(int):
    """The size of a spread axis: tensors that are made with it have such an axis.

    As a size it is this rank's number; divided by, as a power or as a float it is that of all
    ranks, which a mean wants.

    Attributes:
        of: As of `Spread`.
        total: Returns the number of all ranks. Collective.
    """

    of: str
    total: Callable[[], int]

    @property
    def here(self) -> int:
        """The number of this rank."""
        return int.__index__(self)

    def __float__(self) -> float:
        return float(self.total())

    def __truediv__(self, other: Any) -> Any:
        return self.total() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.total()

    # int declares a third argument, the modulus, which no size is given
    def __pow__(self, other: Any) -> Any:  # type: ignore[override]
        return self.total() ** other

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, int) or isinstance(other, Count):
            return self.total() * other
        return counted(self.here * other, "edges", lambda: self.total() * other)

    __rmul__ = __mul__

    def __rpow__(self, other: Any, _: Any = None) -> Any:
        return other ** self.total()

    def _compared(self, other: Any) -> Any:
        return NotImplemented if other == 0 or isinstance(other, Count) else self._refused()

    def __lt__(self, other: Any) -> Any:
        self._compared(other)
        return int.__lt__(self, other)

    def __le__(self, other: Any) -> Any:
        self._compared(other)
        return int.__le__(self, other)

    def __gt__(self, other: Any) -> Any:
        self._compared(other)
        return int.__gt__(self, other)

    def __ge__(self, other: Any) -> Any:
        self._compared(other)
        return int.__ge__(self, other)

    def _refused(self, *_: Any) -> Any:
        raise InputError(
            "the network computes with this rank's number of rows or edges: only as a size, and "
            "in products, quotients and powers it is known what is meant"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __floordiv__ = __rfloordiv__ = _refused
    __mod__ = __rmod__ = __divmod__ = __neg__ = __abs__ = __round__ = __int__ = _refused


M = TypeVar("M", bound=Mark)


def marked(x: Tensor, kind: type[M], **what: Any) -> M:
    """An alias of x with a mark; the gradient passes."""
    found = x.as_subclass(kind)
    vars(found).update(what)
    return found


def alike(x: Tensor, mark: M, **what: Any) -> M:
    """An alias of x with the mark of another tensor, but for attributes that are given."""
    return marked(x, type(mark), **{**vars(mark), **what})


def spread(x: Tensor, axis: int, of: str = "rows", each: int = 1) -> Spread:
    """An alias of x, whose axis `axis` (from 0) is marked as spread."""
    return marked(x, Spread, axis=axis, of=of, each=each)


def mark_in_place(x: Tensor, axis: int, of: str = "rows", each: int = 1) -> Tensor:
    """Mark the tensor object x itself, which a function has changed in place."""
    x.__class__ = Spread
    vars(x).update(axis=axis, of=of, each=each)
    return x


def counted(size: int, of: str, total: Callable[[], int]) -> Count:
    """The size of an axis that is spread."""
    found = Count(size)
    found.of, found.total = of, total
    return found


def is_rows(x: Any, axis: int | None = None) -> TypeGuard[Spread]:
    """Whether x has one entry for each own row, in this axis if one is given."""
    return isinstance(x, Spread) and (x.of, x.each) == ("rows", 1) and axis in (None, x.axis)


def plain(x: Any) -> Any:
    """x without marks, also in lists, tuples, dicts."""
    if isinstance(x, Mark):
        return x.as_subclass(Tensor)
    if isinstance(x, dict):
        return {key: plain(each) for key, each in x.items()}
    if isinstance(x, list | tuple) and any(isinstance(each, Tensor | list | tuple) for each in x):
        made = [plain(each) for each in x]
        return type(x)(*made) if hasattr(x, "_fields") else type(x)(made)
    return x


def marks_in(values: Iterable[Any]) -> Iterator[Mark]:
    """Marked tensors among values, and in lists and tuples of these."""
    for each in values:
        if isinstance(each, Mark):
            yield each
        elif isinstance(each, list | tuple):
            yield from marks_in(each)
