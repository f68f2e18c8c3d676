"""Marks on tensors.

A mark says that an axis of a tensor has rows (a `TypeRows`), or that its values are row ids. A
marked tensor is an object of a subclass of Tensor, and computes as any other. Outside of
`rules.TorchRules`, results have no marks.
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
    """A tensor with a mark, which says what its entries belong to: base class of all marks."""

    # This turns off torch's rules for subclasses of Tensor; mypy expects a class method.
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return marked(self.as_subclass(Tensor).detach().clone(), type(self), **vars(self))

    def __copy__(self) -> Tensor:
        return alike(self, self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle the tensor without its mark, because the mark is valid in this run only."""
        return plain(self).__reduce_ex__(protocol)


class Spread(Mark):
    """A tensor with an axis that is spread over the ranks: each rank has some of its entries.

    Attributes:
        axis: Index of the spread axis, counted from 0.
        of: Rows that the entries belong to; None for other entries, such as edges.
        each: Number of consecutive entries that belong to the same row.
    """

    axis: int
    of: TypeRows | None
    each: int = 1


class RowNumbers(NamedTuple):
    """Meaning of the row numbers in a tensor.

    Attributes:
        of: The rows to which the numbers refer.
        is_source: Whether halo rows are numbered too, after own rows, as for sources of edges.
    """

    of: TypeRows
    is_source: bool


class EdgeEnds(Mark):
    """A tensor of row ids: int64[...] with one end of edges, or int64[2, edges] with both ends.

    Attributes:
        ends: For each end that the tensor has, the rows to which its ids refer.
        relations: Indices of the relations to which the edges belong.
    """

    ends: tuple[RowNumbers, ...]
    relations: frozenset[int] = frozenset()

    @property
    def axis(self) -> int:
        """The axis that has an entry for each edge."""
        return len(self.ends) - 1

    @property
    def of(self) -> TypeRows:
        """Rows to which the ids of the tensor's first (or only) end of edges refer."""
        return self.ends[0].of

    @property
    def source_row(self) -> int:
        """Index of the sources in the first axis, 0 or 1, in a tensor with both ends of edges."""
        return int(self.ends[1].is_source)

    @property
    def sources(self) -> TypeRows:
        """Rows to which the sources refer."""
        return self.ends[self.source_row].of


class Message(Spread):
    """A tensor that has, for every edge, the source's row, perhaps times a factor.

    The values, rows[source] * factors, are computed only if a function reads them.

    Attributes:
        rows (Tensor[columns, ...]): Own and halo rows.
        source: For every edge, the column of its source.
        factors (Tensor[edges, ...] or None): Factors of edges, with as many axes as `rows`.
        made: Values of the tensor; None until `formed` computes them.
        versions: Counts of in-place changes of `rows` and `factors`, when this object was made.
    """

    rows: Tensor
    source: EdgeEnds
    factors: Tensor | None
    made: Tensor | None = None
    versions: list[int]

    @classmethod
    def of_rows(cls, rows: Tensor, source: EdgeEnds, factors: Tensor | None = None) -> Message:
        """Return a message tensor on device "meta", whose values are not computed yet."""
        empty = torch.empty(len(source), *rows.shape[1:], dtype=rows.dtype, device="meta")
        if not torch.is_grad_enabled():
            rows, factors = rows.detach(), None if factors is None else factors.detach()
        found = spread(empty, 0, None)
        what = {"rows": rows, "source": source, "factors": factors}
        return marked(found, cls, **vars(found), **what, versions=[version(rows), version(factors)])

    def read(self) -> tuple[Tensor, Tensor | None]:
        """Return `rows` and `factors`; raise InputError if either has changed in place."""
        if [version(self.rows), version(self.factors)] != self.versions:
            raise InputError(
                "the network changes rows in place before they are summed; change a copy instead"
            )
        return self.rows, self.factors

    def formed(self) -> Tensor:
        """Return the message of every edge, Tensor[edges, ...]. It is computed once, then kept."""
        if self.made is None:
            with torch.enable_grad():  # rows without gradient are detached already
                rows, factors = self.read()
                found = rows.index_select(0, plain(self.source))
                self.made = found if factors is None else found * factors
        return self.made


def version(x: Any) -> int:
    """Return how often a tensor was changed in place; 0 for inference tensors and non-tensors."""
    return 0 if not isinstance(x, Tensor) or x.is_inference() else x._version


class Unknown(Mark):
    """A tensor int64[...] whose values no rank knows: where maxima or minima over all ranks are.

    Functions that read such a tensor raise InputError.
    """


class Count(int):
    """The size of a spread axis, that is, an axis of which each rank has some entries.

    If a function makes a tensor of this size, the tensor's axis is spread too.

    As a size, a `Count` is this rank's number of entries. In quotients, powers, comparisons,
    strings, and products with a float, a `Count` is the number on all ranks.

    Attributes:
        of: Rows that the entries belong to, or None, as in `Spread`.
        total: Function that returns the number of entries on all ranks. Collective.
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
            "the network may use this rank's number of rows or edges only as a size, or in "
            "products, quotients and powers"
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __floordiv__ = __rfloordiv__ = _refused
    __mod__ = __rmod__ = __divmod__ = __neg__ = __abs__ = __round__ = __int__ = _refused
    __pos__ = __invert__ = __trunc__ = __floor__ = __ceil__ = __lshift__ = __rshift__ = _refused
    __or__ = __ror__ = __and__ = __rand__ = __xor__ = __rxor__ = _refused


def _on_totals(operation: Callable[..., Any]) -> Callable[..., Any]:
    return lambda count, *others: operation(count.total(), *map(totals, others))


_TOTAL_OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(operator, name) for name in ("truediv", "pow", "eq", "ne", "lt", "le")},
    **{"gt": operator.gt, "ge": operator.ge, "float": float, "bool": bool, "str": str},
    "format": format,
    "rtruediv": lambda total, other: other / total,
    "rpow": lambda total, other: other**total,
}
"""Operations of `Count` that compute with the number of entries on all ranks."""
for _name, _operation in _TOTAL_OPERATIONS.items():
    setattr(Count, f"__{_name}__", _on_totals(_operation))

M = TypeVar("M", bound=Mark)


def marked(x: Tensor, kind: type[M], **what: Any) -> M:
    """Return an alias of x with its gradient, of the class `kind`, with the attributes `what`."""
    found = x.as_subclass(kind)
    vars(found).update(what)
    return found


def alike(x: Tensor, mark: M, **what: Any) -> M:
    """Return an alias of x that is marked as `mark` is, except for the attributes in `what`."""
    return marked(x, type(mark), **{**vars(mark), **what})


def spread(x: Tensor, axis: int, of: TypeRows | None, each: int = 1) -> Spread:
    """Return an alias of x that is marked as a `Spread` with these attributes."""
    return marked(x, Spread, axis=axis, of=of, each=each)


def mark_in_place(x: Tensor, axis: int, of: TypeRows | None, each: int = 1) -> Tensor:
    """Mark x itself, after a change in place, as a `Spread`, and return x."""
    x.__class__ = Spread
    vars(x).update(axis=axis, of=of, each=each)
    return x


def counted(size: int, of: TypeRows | None, total: Callable[[], int]) -> Count:
    """Return this rank's `size` of a spread axis as a `Count`, with attributes `of` and `total`."""
    found = Count(size)
    found.of, found.total = of, total
    return found


def totals(x: Any) -> Any:
    """Replace every `Count` inside x by the number of entries on all ranks; return the result."""
    return changed(x, Count, lambda count: count.total())


def is_rows(x: Any, axis: int | None = None) -> TypeGuard[Spread]:
    """Return whether x has one entry for each own row along `axis` or, if None, along any axis."""
    if not isinstance(x, Spread):
        return False
    return x.of is not None and x.each == 1 and axis in (None, x.axis)


def is_end(x: Any, is_source: bool | None = None) -> TypeGuard[EdgeEnds]:
    """Whether x holds one end of the edges: sources, targets or, if `is_source` is None, either."""
    return isinstance(x, EdgeEnds) and len(x.ends) == 1 and is_source in (None, x.ends[0].is_source)


def plain(x: Any) -> Any:
    """Return x with plain tensors instead of marked ones; message tensors are computed."""
    return changed(
        x,
        Mark,
        lambda mark: mark.formed() if isinstance(mark, Message) else mark.as_subclass(Tensor),
    )
