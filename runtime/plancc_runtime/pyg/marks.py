"""Marks on tensors: which of their axes are rows of the graph, and which numbers name rows.

Marks say of which `TypeRows`: of all vertices, or of those of a type.

A mark is a class and an attribute, and changes nothing that torch computes: outside of
`rules.TorchRules` a marked tensor is an ordinary one, and results of functions have no marks.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard, TypeVar

import torch
from torch import Tensor

from plancc.errors import InputError
from plancc_runtime.pyg.trees import changed

if TYPE_CHECKING:
    from plancc_runtime.pyg.spaces import TypeRows


class Mark(Tensor):
    """A tensor with a mark."""

    # torch's own way to give a subclass no rules; torch declares a class method
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return marked(self.as_subclass(Tensor).detach().clone(), type(self), **vars(self))

    def __copy__(self) -> Tensor:
        return alike(self, self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Save the plain tensor: the mark is of this run."""
        return plain(self).__reduce_ex__(protocol)


class Spread(Mark):
    """The entries of the axis `axis` are spread over the ranks, each entry on one rank.

    Attributes:
        of: TypeRows: one for each of them; None: any others, such as one for each local edge.
        each: Entries for each of these, one after another.
    """

    axis: int
    of: TypeRows | None
    each: int = 1


class RowNumbers(NamedTuple):
    """What numbers of rows are.

    Attributes:
        of: The rows.
        is_source: Whether columns of the rows, [own rows | halo rows], are numbered, or own rows.
    """

    of: TypeRows
    is_source: bool


class EdgeEnds(Mark):
    """int64[...]: numbers of rows, such as one end of edges; or int64[2, edges]: both ends.

    Attributes:
        ends: What is in each row; of one end alone, once.
        relations: Numbers of the relations that have the edges.
    """

    ends: tuple[RowNumbers, ...]
    relations: frozenset[int] = frozenset()

    @property
    def axis(self) -> int:
        """The axis of edges."""
        return len(self.ends) - 1

    @property
    def of(self) -> TypeRows:
        """The rows of the first end."""
        return self.ends[0].of

    @property
    def source_row(self) -> int:
        """The row that has sources, of both ends."""
        return int(self.ends[1].is_source)

    @property
    def sources(self) -> TypeRows:
        """The rows that sources are of."""
        return self.ends[self.source_row].of


class Message(Spread):
    """rows[source], or that times `factors`, without numbers until something reads them (`formed`).

    Attributes:
        rows (Tensor[columns, ...]): Own and halo rows.
        source: Numbers of columns, one for each edge.
        factors (Tensor[edges, ...] or None): Numbers of edges, of as many axes as the message.
        made (Tensor or None): The numbers, once they are formed.
    """

    rows: Tensor
    source: EdgeEnds
    factors: Tensor | None
    made: Tensor | None = None
    versions: list[int]

    @classmethod
    def of_rows(cls, rows: Tensor, source: EdgeEnds, factors: Tensor | None = None) -> Message:
        """A message of no numbers: any kernel refuses its device, if one is given it."""
        empty = torch.empty(len(source), *rows.shape[1:], dtype=rows.dtype, device="meta")
        if not torch.is_grad_enabled():
            rows, factors = rows.detach(), None if factors is None else factors.detach()
        found = spread(empty, 0, None)
        what = {"rows": rows, "source": source, "factors": factors}
        return marked(found, cls, **vars(found), **what, versions=[version(rows), version(factors)])

    def read(self) -> tuple[Tensor, Tensor | None]:
        """The rows and factors; InputError if they have changed since they were taken."""
        if [version(self.rows), version(self.factors)] != self.versions:
            raise InputError(
                "the network changes rows in place between reading and summing them: change a copy"
            )
        return self.rows, self.factors

    def formed(self) -> Tensor:
        """The numbers."""
        if self.made is None:
            with torch.enable_grad():  # what has no gradient is detached
                rows, factors = self.read()
                found = rows.index_select(0, plain(self.source))
                self.made = found if factors is None else found * factors
        return self.made


def version(x: Any) -> int:
    """How often a tensor was changed in place, where it tells; 0 of others."""
    return 0 if not isinstance(x, Tensor) or x.is_inference() else x._version


class Unknown(Mark):
    """int64[...]: places among all rows, which no rank knows; whatever reads them is refused."""


class Count(int):
    """The size of a spread axis: tensors that are made with it have such an axis.

    As a size it is this rank's number; divided by, as a power, compared, printed or as a float it
    is that of all ranks, which a mean wants.

    Attributes:
        of: As of `Spread`.
        total: Returns the number of all ranks. Collective.
    """

    of: TypeRows | None
    total: Callable[[], int]

    def __mul__(self, other: Any) -> Any:
        if not isinstance(other, int) or isinstance(other, Count):
            return self.total() * other
        return counted(int.__index__(self) * other, None, lambda: self.total() * other)

    __rmul__ = __mul__

    def _refused(self, *_: Any) -> Any:
        raise InputError(
            "the network computes with this rank's number of rows or edges: only as a size, and "
            "in products, quotients and powers it is known what is meant"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __floordiv__ = __rfloordiv__ = _refused
    __mod__ = __rmod__ = __divmod__ = __neg__ = __abs__ = __round__ = __int__ = _refused
    __pos__ = __invert__ = __trunc__ = __floor__ = __ceil__ = __lshift__ = __rshift__ = _refused
    __or__ = __ror__ = __and__ = __rand__ = __xor__ = __rxor__ = _refused


def _of_total(operation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda count, *others: operation(count.total(), *map(totals, others))


_OF_TOTALS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in ("truediv", "pow", "eq", "ne", "lt", "le")},
    **{"gt": operator.gt, "ge": operator.ge, "float": float, "bool": bool, "str": str},
    "format": format,
    "rtruediv": lambda total, other: other / total,
    "rpow": lambda total, other: other**total,
}
"""Operations that compute with the number of all ranks' rows."""
for _name, _operation in _OF_TOTALS.items():
    setattr(Count, f"__{_name}__", _of_total(_operation))

M = TypeVar("M", bound=Mark)


def marked(x: Tensor, kind: type[M], **what: Any) -> M:
    """An alias of x with a mark; the gradient passes."""
    found = x.as_subclass(kind)
    vars(found).update(what)
    return found


def alike(x: Tensor, mark: M, **what: Any) -> M:
    """An alias of x with the mark of another tensor, but for attributes that are given."""
    return marked(x, type(mark), **{**vars(mark), **what})


def spread(x: Tensor, axis: int, of: TypeRows | None, each: int = 1) -> Spread:
    """An alias of x, whose axis `axis` (from 0) is marked as spread."""
    return marked(x, Spread, axis=axis, of=of, each=each)


def mark_in_place(x: Tensor, axis: int, of: TypeRows | None, each: int = 1) -> Tensor:
    """Mark the tensor object x itself, which a function has changed in place."""
    x.__class__ = Spread
    vars(x).update(axis=axis, of=of, each=each)
    return x


def counted(size: int, of: TypeRows | None, total: Callable[[], int]) -> Count:
    """The size of an axis that is spread."""
    found = Count(size)
    found.of, found.total = of, total
    return found


def totals(x: Any) -> Any:
    """x with the number of all ranks for every `Count` in it."""
    return changed(x, Count, lambda count: count.total())


def is_rows(x: Any, axis: int | None = None) -> TypeGuard[Spread]:
    """Whether x has one entry for each own row, in this axis if one is given."""
    if not isinstance(x, Spread):
        return False
    return x.of is not None and x.each == 1 and axis in (None, x.axis)


def is_end(x: Any, is_source: bool | None = None) -> TypeGuard[EdgeEnds]:
    """Whether x is one end of edges: the source, the target, or (None) either."""
    return isinstance(x, EdgeEnds) and len(x.ends) == 1 and is_source in (None, x.ends[0].is_source)


def plain(x: Any) -> Any:
    """x without marks on what is in it; messages with their numbers."""
    return changed(
        x,
        Mark,
        lambda mark: mark.formed() if isinstance(mark, Message) else mark.as_subclass(Tensor),
    )
