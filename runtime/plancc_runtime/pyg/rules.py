"""Rules for torch's functions on tensors with rows of a graph that is spread over ranks.

While a network runs, `TorchRules` intercepts every call of torch's functions:

- A function that handles each row independently runs unchanged, and its result is marked.
- If a tensor is indexed by sources of edges, the halo rows are fetched first.
- If entries are summed at sources of edges, the sums of halo rows are sent to the owners.
- Sums, means and maxima over rows or edges cover all ranks.
- Any other function of marked tensors raises InputError: its result would depend on the ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from sys import _getframe
from typing import Any

import torch
from torch import Tensor

from plancc_runtime.pyg import calls
from plancc_runtime.pyg.axes import places_of_rows
from plancc_runtime.pyg.calls import Call, beyond_pointwise, name_of, refuse
from plancc_runtime.pyg.marks import (
    Count,
    EdgeEnds,
    Mark,
    Message,
    RowNumbers,
    Spread,
    Unknown,
    alike,
    counted,
    is_end,
    is_rows,
    mark_in_place,
    marked,
    plain,
    spread,
    totals,
)
from plancc_runtime.pyg.moved import summed
from plancc_runtime.pyg.over_ranks import OverRanks
from plancc_runtime.pyg.products import is_message, is_message_sum, times_message
from plancc_runtime.pyg.spaces import TypeRows
from plancc_runtime.pyg.trees import all_in, changed


class TorchRules(OverRanks):
    """Context manager: torch functions on marked tensors (`Mark`) follow this module's rules."""

    def __torch_function__(
        self, func: Any, _: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        name, kwargs = name_of(func), dict(kwargs or {})
        if not args and name != "where":
            args = tuple(kwargs.pop(k) for k in ("input", "tensors") if k in kwargs)
        call = Call(name, func, args, kwargs)
        found: list[Any] = all_in((args, kwargs), (Mark, Count))
        kinds = {*map(type, found)}
        if Message in kinds:
            return self._call_on_messages(call)
        if found and name in calls.ASKED:
            return call.run()
        if name in calls.RANDOM:
            refuse(call, "draws random numbers")
        if name in calls.DROPOUTS:
            return self._dropout(call)
        if not found:
            return call.run()
        if name in calls.MADE:
            return self._made(call)
        if Count in kinds:
            found = [each for each in found if isinstance(each, Mark)]
            if not beyond_pointwise(call):
                call = call._replace(args=totals(args), kwargs=totals(kwargs))
            elif not found and name in ("expand", "repeat", "broadcast_to"):
                return self._made(call)
            elif not found or name not in calls.SIZED:
                refuse(call, "computes row numbers that hold on this rank only")
            if not found:
                return call.run()
        if Unknown in kinds:
            refuse(call, "reads the index of a maximum or minimum among all rows")
        if name in calls.SIZES:
            return self._sizes(call, args[0])
        if name in calls.SAME:
            return self._copied(call, args[0])
        self.calls.append(name)
        if call.kwargs.get("out") is not None:
            refuse(call, "writes into `out`")
        if name.rstrip("_") in calls.SCATTERED:
            return self._scattered(call)
        if name in ("index_select", "__getitem__"):
            return self._indexed(call)
        if name == "__setitem__":
            return self._set(call)
        if EdgeEnds in kinds:
            return self._call_on_ends(call, found)
        return self._call_on_spread(call, found)

    def _call_on_messages(self, call: Call) -> Any:
        """Run a function that has a message tensor (`marks.Message`) as an argument.

        Products with factors, sums at targets, and properties such as sizes and dtype are found
        without the tensor's values; other functions get the values.
        """
        if call.name in calls.SIZES:
            return self._sizes(call, call.args[0])
        if call.name == "mul":
            product = times_message(call.args[0], call.get(1, "other"))
            if product is not None and call.kwargs.get("out") is None:
                self.calls.append(call.name)
                return product
        if call.name == "expand_as" and is_end(call.args[0]):
            return self._call_on_ends(call, call.args)
        if call.name.rstrip("_") in calls.INTO_SUMS and is_message_sum(call):
            self.calls.append(call.name)
            return self._scattered(call)
        reads_kind = call.name in calls.LIKE_ROWS

        def read(x: Message) -> Tensor:
            return x.rows if reads_kind else spread(x.formed(), 0, None)

        args, kwargs = changed((call.args, call.kwargs), Message, read)
        return self.__torch_function__(call.func, None, args, kwargs)

    def _on_any(self, found: Tensor) -> bool:
        """Return whether any entry is true on any rank. Collective."""
        return bool(summed(found.any().long(), self.transport) > 0)

    def _sizes(self, call: Call, x: Any) -> Any:
        """Return the shape, a size, or the number of entries of x, which is spread over all ranks.

        `call` says which. Entries of all ranks count.
        """
        here, of = x.shape[x.axis], x.of if is_rows(x) else None
        others = prod(size for k, size in enumerate(x.shape) if k != x.axis)
        if call.name == "numel":
            return counted(here * others, None, lambda: self._total(here, of) * others)
        if call.name == "__len__" and x.axis == 0:
            refuse(call, "counts only the rows or edges of this rank; `size(0)` counts all of them")
        size = counted(here, of, lambda: self._total(here, of))
        sizes = [*x.shape[: x.axis], size, *x.shape[x.axis + 1 :]]
        dim = {"size": call.get(1, "dim"), "__len__": 0}.get(call.name)
        return torch.Size(sizes) if dim is None else sizes[dim]

    def _copied(self, call: Call, x: Tensor) -> Any:
        """Return a copy of x with x's marks; raise InputError if the dtype of edge ends changes."""
        out = call.run()
        if isinstance(x, EdgeEnds) and out.dtype != x.dtype:
            refuse(call, calls.ENDS)
        if out is x or not isinstance(x, Mark) or not isinstance(out, Tensor):
            return out
        return alike(out, x)

    def _made(self, call: Call) -> Any:
        """Call a function that makes a tensor of given sizes.

        If a size is a `Count` (this rank's number of rows or edges), the result is marked as
        spread over the ranks; the result of `arange` is marked as row numbers.
        """
        sizes = [*call.args, call.kwargs.get("size", call.kwargs.get("repeats"))]
        flat = [k for each in sizes for k in (each if isinstance(each, list | tuple) else [each])]
        numbers, found = [k for k in flat if isinstance(k, int)], call.run()
        counts = all_in([call.args, call.kwargs], Count)
        if not counts:
            return found
        if call.name == "arange":
            of, begins = counts[0].of, call.args[:-1] in ((), (0,)) and "step" not in call.kwargs
            if of is None or not begins or call.args[-1:] != (counts[0],):
                refuse(call, "computes row numbers that hold on this rank only")
            return marked(found, EdgeEnds, ends=(RowNumbers(of, False),))
        places = [k for k, each in enumerate(numbers[: found.ndim]) if isinstance(each, Count)]
        if len(counts) > 1 or not places:
            refuse(call, "makes two axes of rows or edges, or stores this rank's number of rows")
        [place] = places
        old = place - len(numbers) + call.args[0].ndim if call.name == "repeat" else 0
        if call.name == "repeat" and old >= 0 and call.args[0].shape[old] != 1:
            refuse(call, "repeats an axis of several entries as often as there are rows or edges")
        return mark_in_place(found, place, counts[0].of)

    def _dropout(self, call: Call) -> Any:
        x, rate = call.get(0, "input"), call.get(1, "p", 0.5)
        if not call.get(2, "training", True) or rate == 0:
            return x
        if call.name not in ("dropout", "dropout_"):
            refuse(call, "draws random numbers")
        if call.get(3, "inplace", False):
            refuse(call, "changes its argument in place")
        number = self._numbers(x) if isinstance(x, Spread) else None
        if isinstance(x, Spread) and number is None:
            refuse(call, "applies dropout to entries that are neither rows nor edges")
        self.draws += 1
        found = self.mask(x, rate, number, self.draws - 1)
        return alike(found, x) if isinstance(x, Spread) else found

    # Ends of edges

    def _call_on_ends(self, call: Call, found: Sequence[Mark]) -> Any:
        """Return the result of a torch function, such as `cat` or `flip`, on the ends of edges.

        Raise InputError if the result would depend on the number of ranks.
        """
        name, x = call.name, next(each for each in found if isinstance(each, EdgeEnds))
        ends = [*x.ends]
        if name in ("eq", "ne") and all(map(is_end, call.args)):
            _only(call, (k.of for k in call.args))
            return spread(call.run(), 0, None)
        if name == "max" and len(call.args) == 1 and not call.kwargs:
            of = _only(call, (end.of for end in ends))
            assert of is not None
            # PyTorch Geometric makes a size of the maximum; other code may divide by it.
            if not str(_getframe(2).f_globals.get("__name__")).startswith("torch_geometric."):
                refuse(call, f"{calls.ENDS} (the number of rows is `x.size(0)`)")
            return plain(x).new_tensor(of.num_rows - 1)  # the last row that may be indexed
        if name in ("cat", "stack"):
            return self._joined_ends(call, call.args[0])
        if name in ("unbind", "__iter__") and len(ends) == 2:
            taken = tuple(self._index_ends(call, x, row) for row in (0, 1))
            return taken if name == "unbind" else iter(taken)
        if name == "flip" and len(ends) == 2 and call.dims(1, None, 2) == {0}:
            ends.reverse()
        elif name not in calls.KEPT or x is not call.args[0] or len(ends) == 2:
            refuse(call, calls.ENDS)
        return _with_ends(call, call.run(), ends, x.relations)

    def _joined_ends(self, call: Call, parts: Sequence[Any]) -> Tensor:
        """Run `stack` or `cat` on tensors that hold ends of edges.

        If sources and targets are joined along one axis, the result counts as sources: own rows
        have the same local ids as sources and as targets.
        """
        if not all(isinstance(each, EdgeEnds) for each in parts):
            refuse(call, calls.ENDS)
        ends_of_parts = [each.ends for each in parts]
        size = max(map(len, ends_of_parts))
        if (call.name == "stack" or size == 2) and call.dims(1, 0, 2) != {size - 1}:
            refuse(call, calls.ENDS)
        if call.name == "stack":
            ends = [end for of_part in ends_of_parts for end in of_part]
        else:
            rows = zip(*(each * (size // len(each)) for each in ends_of_parts), strict=True)
            ends = [_joined_end(call, row) for row in rows]
        relations = frozenset[int]().union(*(each.relations for each in parts))
        return _with_ends(call, call.run(), ends, relations)

    def _index_ends(self, call: Call, x: EdgeEnds, key: Any) -> Tensor:
        """Return ``x[key]``; `key` selects some of the edges, or only their sources or targets."""
        keys = key if isinstance(key, tuple) else (key,)
        ends, others = [*x.ends], [*keys]
        if len(ends) == 2:
            first, *others = keys
            rows = [0, 1] if first is Ellipsis or first == slice(None) else first
            rows = [rows] if isinstance(rows, int) else rows
            if not isinstance(rows, list):
                refuse(call, calls.ENDS)
            ends = [ends[row] for row in rows]
            self.edges = x if len(ends) == 1 else self.edges
        masks = [isinstance(k, Spread) and k.dtype == torch.bool for k in others]
        if not all(k is None or _is_whole(k) or m for k, m in zip(others, masks, strict=True)):
            refuse(call, "selects edges by index")
        return _with_ends(call, plain(x)[plain(keys)], ends, x.relations)

    # By index

    def _indexed(self, call: Call) -> Any:
        x = call.args[0]
        if call.name == "index_select":
            dim, index = call.get(1, "dim"), call.get(2, "index")
            if is_message(x, dim % x.ndim, index):
                return Message.of_rows(plain(self.columns.of(x, index.relations)), index)
            return self._at(call, x, dim % x.ndim, index)
        key = call.args[1]
        if isinstance(x, EdgeEnds):
            return self._index_ends(call, x, key)
        keys = key if isinstance(key, tuple) else (key,)
        index = keys[0] if keys else None
        if isinstance(index, Mark):
            if isinstance(index, Spread) and index.dtype == torch.bool:
                return self._masked(call, x, index)
            if any(isinstance(k, Tensor | list) for k in keys[1:]):
                refuse(call, "selects entries by several indices")
            found: Any = self._at(call, x, 0, index)
            rest = (slice(None),) * index.ndim + keys[1:]
            return found if len(keys) == 1 else self._sliced(call, found, rest)
        if isinstance(x, Spread):
            return self._sliced(call, x, key)
        return refuse(call, "selects entries by several indices")

    def _masked(self, call: Call, x: Tensor, mask: Spread) -> Tensor:
        """Return the entries of x at which `mask` is true; each rank has its own rows of both."""
        if (
            not isinstance(x, Spread)
            or (x.axis, x.of, x.each) != (mask.axis, mask.of, mask.each)
            or call.name[0] != "_"
        ):
            refuse(call, "selects entries by a mask that was made for other entries")
        chosen = summed(plain(mask).sum(), self.transport)
        whole = self._count(mask, [*range(mask.ndim)]) == int(chosen) and mask.shape[0] == 1
        found = plain(x)[plain(mask)]
        return alike(found, x, axis=0) if whole else spread(found, 0, None)

    def _at(self, call: Call, x: Any, dim: int, index: Any) -> Tensor:
        """Return ``x.index_select(dim, index)``. If `dim` is 0, `index` may have several axes."""
        along = isinstance(x, Spread) and x.axis == dim
        if is_end(index, True):
            if not is_rows(x, dim) or x.of != index.of:
                shape = [*x.shape]
                refuse(call, f"selects rows by sources of edges; tensor {shape} lacks these rows")
            x = self.columns.of(x, index.relations)
        elif along != is_end(index, False) or (along and not (is_rows(x) and x.of == index.of)):
            refuse(call, "selects entries by index")
        if isinstance(x, Spread) and isinstance(index, Spread):
            refuse(call, "pairs every row or edge with every other row or edge")
        taken, at = plain(x), plain(index)
        found = taken[at] if dim == 0 and at.ndim != 1 else taken.index_select(dim, at)
        if isinstance(index, Spread):
            return alike(found, index, axis=dim + index.axis)
        if isinstance(index, Mark):
            return spread(found, dim, None)
        return alike(found, x)

    def _sliced(self, call: Call, x: Spread, key: Any) -> Tensor:
        """Return ``x[key]``; raise InputError if the key selects entries of ``x.axis`` by number.

        The entries of this axis are divided among the ranks; the key must select all of them, or
        every n-th edge.
        """
        keys = key if isinstance(key, tuple) else (key,)
        if any(isinstance(k, Mark) for k in keys):
            refuse(call, "selects entries by index")
        masks = [isinstance(k, Tensor) and k.dtype == torch.bool for k in keys]
        pairs = [k.nonzero(as_tuple=True) if m else (k,) for k, m in zip(keys, masks, strict=True)]
        first, *rest = (k for pair in pairs for k in pair)
        if x.axis == 0 and isinstance(first, slice) and first.step not in (None, 1):
            self._check_stride(call, x, first)
            return spread(plain(x)[keys], 0, None)
        if x.axis == 0 and isinstance(first, int | slice) and not _is_whole(first):
            at = f"{first.start or ''}:{first.stop or ''}" if isinstance(first, slice) else first
            refuse(
                call,
                f"selects rows or edges {at} of every rank, not of the whole graph (choose "
                "rows by a mask, such as `x[vertices < 10]` with `graph.vertices` as an argument)",
            )
        taken = call._replace(func=Tensor.__getitem__, args=(x, (first, *rest)))
        return self._row_by_row(taken, [x])

    def _check_stride(self, call: Call, x: Spread, at: Any) -> None:
        """Raise InputError unless the slice `at` selects the same edges on any number of ranks.

        Each row must have contiguous edges, whose number is a multiple of ``at.step``.
        """
        edges = self.edges
        if (
            edges is None
            or x.of is not None
            or x.shape[x.axis] != edges.shape[1]
            or not isinstance(at, slice)
            or at.stop is not None
            or not 0 <= (at.start or 0) < (at.step or 1)
            or self._on_any(
                plain(edges)[1 - edges.source_row].unique_consecutive(return_counts=True)[1]
                % at.step
            )
        ):
            refuse(call, "selects only some of the entries")

    def _set(self, call: Call) -> None:
        """Run ``x[key] = value`` for a mask, indices of own rows, or a key that `_sliced` takes."""
        x, key, value = call.args
        keys = key if isinstance(key, tuple) else (key,)
        first = keys[0]
        if not isinstance(x, Spread) or any(isinstance(k, Mark) for k in keys[1:]):
            refuse(call, "sets entries by index")
        elif is_end(first, True) and self._on_any(plain(first) >= len(x)):
            refuse(call, "sets rows of other ranks")
        elif is_end(first):
            if not is_rows(x, 0) or x.of != first.of:
                refuse(call, "sets entries by index")
        elif isinstance(first, Spread):
            if first.dtype != torch.bool or (first.axis, first.of) != (x.axis, x.of):
                refuse(call, "sets entries by index")
        else:
            self._sliced(call, x, key)
        self.columns.forget(x)
        call.func(x, tuple(map(plain, keys)), totals(plain(value)))

    def _scattered(self, call: Call) -> Any:
        """Run a function, such as scatter_add, that reduces all entries with the same index.

        An index is a row (an end of an edge) or the number of a group of rows.
        """
        out, dim, index = call.args[0], call.get(1, "dim"), call.get(2, "index")
        base, in_place = call.name.rstrip("_"), call.name.endswith("_")
        src = call.get(3, "source" if base.startswith("index") else "src")
        dim %= out.ndim
        sums = base in calls.INTO_SUMS
        reduce = "sum" if sums else str(call.get(4, "reduce", "copy"))
        if is_end(index) and (
            out.shape[dim] != index.of.num_rows or getattr(out, "of", index.of) != index.of
        ):
            refuse(call, "adds values of edges to a tensor without exactly one entry per own row")
        if isinstance(src, Message):
            found = plain(out) + self.patterns.total(src, index)
        elif is_end(index, False):
            found = call.run()
        elif is_end(index) or any(isinstance(k, Spread) and k.axis == dim for k in (index, src)):
            found = self._reduce_by_index(call, dim, index, src, reduce)
            if not is_end(index):
                return out.copy_(found) if in_place else found
        elif isinstance(out, Spread) and out.axis == dim:
            return refuse(call, "adds to entries by index")
        else:
            [mark, *_] = [k for k in (src, out) if isinstance(k, Spread)]
            return alike(call.run(), mark)
        if not in_place:
            return spread(found, dim, index.of)
        if found is not out:
            out.copy_(found)
        self.columns.forget(out)
        return mark_in_place(out, dim, index.of)

    # Rows and entries of edges

    def _call_on_spread(self, call: Call, found: list[Spread]) -> Any:
        """Run a function whose arguments `found` are spread over the ranks."""
        name, x = call.name, found[0]
        if name in calls.SPECIAL:
            return getattr(self, f"_{name}")(call, x)
        of_two = name in calls.SUMS and isinstance(call.get(1, "other"), Tensor)
        if name in calls.ALONG and not of_two:
            axes = call.dims(*calls.ALONG[name], x.ndim)
            if x.axis in axes and name in calls.SUMS:
                return self._reduce_axes(call, x, axes)
            if x.axis in axes and name == "cat":
                return self._joined(call, found)
            if x.axis in axes:
                refuse(call, "works along the axis of rows or edges")
        elif not (name in calls.ROW_BY_ROW or beyond_pointwise(call) <= calls.KEEP_ROWS):
            refuse(call, "is not known to compute each row independently")
        return self._row_by_row(call, found)

    def _row_by_row(self, call: Call, found: list[Spread]) -> Any:
        """Run a function that handles each row independently, or a product that sums over rows."""
        of = _only(call, (each.of for each in found))
        places = places_of_rows(call)
        if places is None:
            call.run()  # raises torch's error if the shapes do not fit
        if places == [] and call.name in calls.PRODUCTS:
            return summed(call.run(), self.transport)
        if not places:
            refuse(call, "combines different rows or edges, or tensors whose rows may differ")
        out = call.run()
        if out is call.args[0]:
            self.columns.forget(out)
            return mark_in_place(out, places[0].axis, of, places[0].each)
        whole = (out,) if isinstance(out, Tensor) else out
        made = [spread(x, k.axis, of, k.each) for x, k in zip(whole, places, strict=True)]
        return made[0] if isinstance(out, Tensor) else type(out)(made)

    def _joined(self, call: Call, found: list[Spread]) -> Tensor:
        """Concatenate tensors along their axis of rows or edges."""
        x, parts = found[0], call.args[0]
        if len(found) < len(parts):
            refuse(call, "appends other entries to the rows or edges of a tensor")
        if len(parts) > 1 and all(is_rows(each) for each in parts):
            refuse(call, "appends rows to rows")
        if any(each.axis != x.axis for each in found):
            refuse(call, "joins tensors whose rows or edges are on different axes")
        return spread(call.run(), x.axis, None) if len(parts) > 1 else alike(call.run(), x)

    def _squeeze(self, call: Call, x: Spread) -> Tensor:
        given = call.get(1, "dim") is not None
        dims = call.dims(1, None, x.ndim)
        if given and x.axis in dims:
            refuse(call, "drops the axis of rows or edges")
        left = tuple(k for k in dims - {x.axis} if x.shape[k] == 1)
        return alike(plain(x).squeeze(left), x, axis=x.axis - sum(k < x.axis for k in left))

    def _embedding(self, call: Call, x: Spread) -> Tensor:
        if call.get(3, "max_norm") is not None or call.get(5, "scale_grad_by_freq", False):
            refuse(call, "uses max_norm or scale_grad_by_freq, which depend on a rank's rows")
        return self._row_by_row(call, [x])

    def _nonzero(self, call: Call, x: Spread) -> Tensor:
        if x.of is None or x.ndim != 1 or not is_rows(x) or call.kwargs:
            refuse(call, "selects entries by index")
        return marked(call.run(), EdgeEnds, ends=(RowNumbers(x.of, False),))

    def _unique(self, call: Call, x: Spread) -> Tensor:
        asked = [*call.args[2:], *(v for k, v in call.kwargs.items() if k != "sorted")]
        if x.is_floating_point() or any(each not in (False, None) for each in asked):
            refuse(call, "gets floating-point numbers, or returns more than the distinct values")
        lists = self.transport.gather(plain(x).unique().tolist())
        return plain(x).new_tensor(sorted({each for of_rank in lists for each in of_rank}))

    def _lstm(self, call: Call, x: Spread) -> Any:
        batch_first = call.args[8] if len(call.args) > 8 else False
        packed = getattr(call.args[1], "dtype", None) == torch.int64
        if packed or (call.args[5] > 0 and call.args[6]):
            refuse(call, "drops entries at random, or packs sequences")
        if x.axis != (0 if batch_first else 1):
            refuse(call, "works along the axis of rows or edges")
        return self._row_by_row(call, [x])

    _gru = _lstm


def _only(call: Call, rows: Iterable[TypeRows | None]) -> TypeRows | None:
    """Return the arguments' common `TypeRows`, or None; raise InputError if there are several."""
    first, *others = rows
    if all(each is first for each in others):
        return first
    of = {first, *others}
    if len(of - {None}) > 1:
        refuse(call, "joins rows of several types, or of two graphs (one may be a layer's cache)")
    return of.pop() if len(of) == 1 else None


def _joined_end(call: Call, ends: Sequence[RowNumbers]) -> RowNumbers:
    _only(call, (end.of for end in ends))
    return next((end for end in ends if end.is_source), ends[0])


def _with_ends(
    call: Call, x: Tensor, ends: Sequence[RowNumbers], relations: frozenset[int]
) -> Tensor:
    """Return x marked as vertex numbers of one end, or of both ends, of edges.

    If x has both ends, the second end is the sources if its `is_source` is true; otherwise the
    first end is the sources.
    """
    if len(ends) != 1:
        row = int(ends[1].is_source)
        if x.shape[:-1] != (2,) or len(ends) > 2 or ends[1 - row].is_source:
            refuse(call, calls.ENDS)
        ends = [end._replace(is_source=k == row) for k, end in enumerate(ends)]
    return marked(x, EdgeEnds, ends=tuple(ends), relations=relations)


def _is_whole(key: Any) -> bool:
    """Return whether an index selects a whole axis on every rank."""
    start = isinstance(key, slice) and key.start in (None, 0) and key.step in (None, 1)
    return start and (key.stop is None or isinstance(key.stop, Count))
