"""What functions of torch do where axes of tensors are rows of a graph that ranks share.

While a network runs, `TorchRules` sees every call of torch. A function that treats each row by
itself runs as it is, and its result is marked. Sources index own and halo rows, which
are fetched; sums by sources return to the owners; sums, means and maxima over rows or edges are of
all ranks. Whatever else reads marked tensors is refused: its result would depend on the number of
ranks without a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor

from plancc_runtime.pyg.calls import (
    ALONG,
    ASKED,
    BY_ENTRY,
    COMPARED,
    ENDS,
    KEPT,
    MADE,
    MOVES,
    PRODUCTS,
    RANDOM,
    RESHAPES,
    SCATTERED,
    SPECIAL,
    SUMS,
    Call,
    is_pointwise,
    name_of,
    refuse,
)
from plancc_runtime.pyg.marks import (
    Count,
    EdgeEnds,
    Mark,
    Sources,
    Spread,
    Targets,
    Unknown,
    counted,
    is_rows,
    mark_in_place,
    marked,
    marks_in,
    plain,
    spread,
)
from plancc_runtime.pyg.moved import summed
from plancc_runtime.pyg.over_ranks import OverRanks, each_spread

LIKE_NO_OTHER = 1_000_003
"""A prime, as the size of a spread axis whose place among others is asked for."""


class TorchRules(OverRanks):
    """The rules for one graph, while a network runs.

    Parameters:
        columns: Of this forward pass.
        mask (callable): From (tensor, rate, edges or None, spread axis or None) to the tensor after
            dropout.
    """

    def __torch_function__(
        self, func: Any, _: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        call = Call(name_of(func), func, args, kwargs or {})
        name = call.name
        found = list(marks_in([*args, *call.kwargs.values()]))
        if found and name in ASKED:
            return call.run()
        if name in RANDOM:
            refuse(call, "draws random numbers")
        if name in ("dropout", "dropout_"):
            return self._dropout(call)
        if name in MADE:
            return self._made(call)
        if any(isinstance(k, Count) for k in args) and is_pointwise(name):
            values = [k.total() if isinstance(k, Count) else k for k in args]
            call = call._replace(args=values)
        if not found:
            return self._of_numbers(call)
        if any(isinstance(each, Unknown) for each in found):
            refuse(call, "reads the place of an extreme among all rows")
        if call.kwargs.get("out") is not None:
            refuse(call, "writes into `out`")
        if name.rstrip("_") in SCATTERED:
            return self._scattered(call)
        if name in ("index_select", "__getitem__"):
            return self._indexed(call)
        if name == "__setitem__":
            return self._set(call)
        edges = next((each for each in found if isinstance(each, EdgeEnds)), None)
        if edges is not None:
            return self._of_edges(call, edges)
        if any(isinstance(each, Sources | Targets) for each in found):
            return self._of_ends(call, found)
        return self._of_spread(call, [each for each in found if isinstance(each, Spread)])

    def _of_numbers(self, call: Call) -> Any:
        """Functions of tensors that are not spread; maybe of sizes that are."""
        counts = [k for k in (*call.args, *call.kwargs.values()) if isinstance(k, Count)]
        if not counts:
            return call.run()
        if call.name in ("expand", "repeat"):
            return self._made(call)
        if call.name == "arange" and call.args[:-1] in ((), (0,)) and counts[0].of == "rows":
            return marked(call.run(), Targets)
        return refuse(call, "makes numbers of this rank's rows")

    def _on_any(self, found: Tensor) -> bool:
        """Whether anything is true on any rank. Collective."""
        return bool(summed(found.any().long(), self.graph.transport) > 0)

    def _size(self, size: int, of: str) -> Count:
        total = self.graph.num_vertices
        if of == "rows":
            return counted(size, of, lambda: total)
        transport = self.graph.transport
        return counted(size, of, lambda: int(summed(torch.tensor(size), transport)))

    def _made(self, call: Call) -> Any:
        """New tensors, spread where their size says so."""
        if isinstance(call.get(1, "fill_value"), Count) and "full" in call.name:
            refuse(call, "makes numbers of this rank's rows")
        sizes = [*call.args, call.kwargs.get("size")]
        flat = [k for each in sizes for k in (each if isinstance(each, list | tuple) else [each])]
        numbers = [k for k in flat if isinstance(k, int)]
        found = call.run()
        for place, size in enumerate(numbers):
            if isinstance(size, Count) and place < found.ndim:
                return mark_in_place(found, place, size.of)
        return found

    def _dropout(self, call: Call) -> Any:
        x, rate = call.get(0, "input"), call.get(1, "p", 0.5)
        if not call.get(2, "training", True) or rate == 0:
            return x
        if call.get(3, "inplace", False):
            refuse(call, "changes its argument in place")
        if not isinstance(x, Spread):
            return self.mask(x, rate, None, None)
        edges = None
        if x.of == "edges":
            edges = self.edges
            if edges is None or x.shape[x.axis] != edges.shape[1]:
                refuse(call, "drops some of what has neither an entry per row nor per edge")
        return spread(self.mask(plain(x), rate, edges, x.axis), x.axis, x.of)

    # Ends of edges

    def _of_edges(self, call: Call, edges: EdgeEnds) -> Any:
        name, whole = call.name, plain(edges)
        if name in ("size", "shape"):
            sizes = torch.Size([2, self._size(edges.shape[1], "edges")])
            dim = call.get(1, "dim") if name == "size" else None
            return sizes if dim is None else sizes[dim]
        if name == "numel":
            return self._size(2 * edges.shape[1], "edges")
        if name == "__len__":
            return 2
        if name in ("unbind", "__iter__"):
            found = self._end(edges, 0), self._end(edges, 1)
            return iter(found) if name == "__iter__" else found
        if name == "max" and len(call.args) == 1 and not call.kwargs:
            return whole.new_tensor(self.graph.num_rows - 1)  # vertices that it may index
        if name in ("clone", "contiguous", "to", "long", "detach", "new_tensor"):
            return marked(call.run(), EdgeEnds, source_row=edges.source_row)
        if name == "flip" and call.dims(1, None, 2) == {0}:
            return marked(call.run(), EdgeEnds, source_row=1 - edges.source_row)
        same = all(isinstance(each, EdgeEnds | Targets) for each in marks_in(call.args[:1]))
        if name in ("cat", "concat") and call.dims(1, 0, 2) == {1} and same:
            return marked(call.run(), EdgeEnds, source_row=edges.source_row)
        return refuse(call, ENDS)

    def _end(self, edges: EdgeEnds, row: int, at: Any = slice(None)) -> Tensor:
        """One row of edges, or some of it."""
        self.edges = edges
        return marked(plain(edges)[row, at], Sources if row == edges.source_row else Targets)

    def _edges_at(self, call: Call, edges: EdgeEnds, key: Any) -> Any:
        """Part of the edges, or one row."""
        keys = key if isinstance(key, tuple) else (key,)
        if not all(_is_whole(k) or isinstance(k, Mark) for k in keys[1:]):
            refuse(call, "picks edges by number")
        if isinstance(keys[0], int) and len(keys) <= 2:
            return self._end(edges, keys[0] % 2, *map(plain, keys[1:]))
        if len(keys) == 2 and (keys[0] is Ellipsis or keys[0] == slice(None)):
            found = plain(edges)[:, plain(keys[1])]
            if found.ndim == 2:
                return marked(found, EdgeEnds, source_row=edges.source_row)
        if keys[0] in ([0, 1], [1, 0]) and len(keys) == 1:
            return marked(
                plain(edges)[keys[0]], EdgeEnds, source_row=keys[0].index(edges.source_row)
            )
        return refuse(call, ENDS)

    def _of_ends(self, call: Call, found: list[Mark]) -> Any:
        """Functions of one end of edges, where it is no index."""
        name = call.name
        first = next(each for each in found if isinstance(each, Sources | Targets))
        if name in ("size", "shape", "numel", "__len__"):
            if name == "__len__":
                refuse(call, "counts the edges of this rank (`size(0)` divides as that of all)")
            sizes = torch.Size([self._size(first.shape[0], "edges"), *first.shape[1:]])
            dim = call.get(1, "dim") if name == "size" else 0
            return sizes if name == "shape" or dim is None else sizes[dim]
        if name in ("stack", "cat", "concat"):
            kinds = [type(each) for each in call.args[0]]
            if name == "stack" and call.dims(1, 0, 2) == {0} and {*kinds} <= {Sources, Targets}:
                row = kinds.index(Sources) if Sources in kinds else 0
                return marked(call.run(), EdgeEnds, source_row=row)
            if name != "stack" and {*kinds} <= {type(first), Targets}:
                return marked(call.run(), type(first))
        if name in KEPT and isinstance(call.args[0], Sources | Targets):
            return marked(call.run(), type(call.args[0]))
        if name == "max" and len(call.args) == 1:
            return plain(first).new_tensor(self.graph.num_rows - 1)
        if name in COMPARED and all(isinstance(k, Sources | Targets) for k in call.args):
            return spread(call.run(), 0, "edges")
        return refuse(call, ENDS)

    # By index

    def _indexed(self, call: Call) -> Any:
        x = call.args[0]
        if call.name == "index_select":
            dim, index = call.get(1, "dim"), call.get(2, "index")
            if isinstance(x, EdgeEnds):
                return self._edges_at(call, x, (slice(None), index) if dim % 2 else index)
            return self._at(call, x, dim % x.ndim, index)
        key = call.args[1]
        if isinstance(x, EdgeEnds):
            return self._edges_at(call, x, key)
        if isinstance(x, Sources | Targets):
            if not (
                _is_whole(key) or isinstance(key, Mark) or key is None or key == (slice(None), None)
            ):
                refuse(call, "picks edges by number")
            return marked(plain(x)[plain(key)], type(x))
        keys = key if isinstance(key, tuple) else (key,)
        index = keys[0] if keys else None
        if isinstance(index, Mark):
            if isinstance(index, Spread) and index.dtype == torch.bool:
                return self._masked(call, x, index)
            found = self._at(call, x, 0, index)
            rest = (slice(None),) * index.ndim + keys[1:]
            return found if len(keys) == 1 else self._sliced(call, found, rest)
        if isinstance(x, Spread):
            return self._sliced(call, x, key)
        return refuse(call, "picks entries by several indices")

    def _masked(self, call: Call, x: Tensor, mask: Spread) -> Tensor:
        """Entries where a mask of the first axes, one of them spread, is true."""
        if (
            not isinstance(x, Spread)
            or (x.axis, x.of) != (mask.axis, mask.of)
            or call.name[0] != "_"
        ):
            refuse(call, "picks entries by a mask of other entries")
        chosen = summed(plain(mask).sum(), self.graph.transport)
        whole = self._count(mask, [*range(mask.ndim)]) == int(chosen) and mask.shape[0] == 1
        return spread(plain(x)[plain(mask)], 0, x.of if whole else "edges")

    def _at(self, call: Call, x: Tensor, dim: int, index: Tensor) -> Tensor:
        """``x.index_select(dim, index)``, for an index of any number of axes if `dim` is 0."""
        along = isinstance(x, Spread) and x.axis == dim
        if isinstance(index, Sources):
            if not is_rows(x, dim):
                shape = [*x.shape]
                refuse(call, f"takes by sources of a tensor {shape} that has no axis of rows")
            x = self.columns.of(x)
        elif along != isinstance(index, Targets) or (along and not is_rows(x)):
            refuse(call, "picks entries by number")
        taken, at = plain(x), plain(index)
        found = taken[at] if dim == 0 and at.ndim != 1 else taken.index_select(dim, at)
        if isinstance(index, Spread):
            return spread(found, dim + index.axis, index.of)
        if isinstance(index, Mark):
            return spread(found, dim, "edges")
        assert isinstance(x, Spread)
        return spread(found, x.axis, x.of)

    def _sliced(self, call: Call, x: Any, key: Any) -> Any:
        """Indices that leave the spread axis whole."""
        keys = list(key) if isinstance(key, tuple) else [key]
        used = sum(2 if _is_mask(k) else k is not None and k is not Ellipsis for k in keys)
        if Ellipsis in [k for k in keys if not isinstance(k, Tensor)]:
            place = next(k for k, each in enumerate(keys) if each is Ellipsis)
            keys[place : place + 1] = [slice(None)] * (x.ndim - used)
        taken = [k for k in keys if k is not None]
        at = taken[x.axis] if x.axis < len(taken) else slice(None)
        of = x.of
        if not _is_whole(at):
            self._check_stride(call, x, at)
            of = "edges"
        if any(isinstance(k, Mark) for k in keys):
            refuse(call, "picks entries by number")
        found = plain(x)[tuple(keys)]
        axis = keys.index(at) if at in keys else None
        before = keys if axis is None else _before(keys, x.axis)
        shift = sum(k is None for k in before) - sum(isinstance(k, int) for k in before)
        return spread(found, x.axis + shift, of)

    def _check_stride(self, call: Call, x: Spread, at: Any) -> None:
        """Refuse, unless every row has a multiple of the stride of edges, one after another."""
        edges = self.edges
        if (
            edges is None
            or x.of != "edges"
            or x.shape[x.axis] != edges.shape[1]
            or not isinstance(at, slice)
            or at.stop is not None
            or not 0 <= (at.start or 0) < (at.step or 1)
            or self._on_any(
                plain(edges)[1 - edges.source_row].unique_consecutive(return_counts=True)[1]
                % at.step
            )
        ):
            refuse(call, "picks some of the entries")

    def _set(self, call: Call) -> None:
        """``x[key] = value``: of columns, of edges by stride, by a mask, or at own rows."""
        x, key, value = call.args
        keys = key if isinstance(key, tuple) else (key,)
        first = keys[0]
        if not isinstance(x, Spread) or any(isinstance(k, Mark) for k in keys[1:]):
            refuse(call, "sets entries by number")
        elif isinstance(first, Sources) and self._on_any(plain(first) >= len(x)):
            refuse(call, "sets rows of other ranks")
        elif isinstance(first, Sources | Targets):
            if not is_rows(x, 0):
                refuse(call, "sets entries by number")
        elif isinstance(first, Spread):
            if first.dtype != torch.bool or (first.axis, first.of) != (x.axis, x.of):
                refuse(call, "sets entries by number")
        else:
            self._sliced(call, x, key)
        call.func(x, tuple(map(plain, keys)), plain(value))

    def _scattered(self, call: Call) -> Any:
        """Sums, means and extremes by an index: of edges at one end, or of entries in groups."""
        out, dim, index = call.args[0], call.get(1, "dim"), call.get(2, "index")
        base, in_place = call.name.rstrip("_"), call.name.endswith("_")
        src = call.get(3, "source" if base.startswith("index") else "src")
        dim %= out.ndim
        sums = base in ("scatter_add", "index_add")
        reduce = "sum" if sums else str(call.get(4, "reduce", "copy"))
        if isinstance(index, Sources | Targets) and out.shape[dim] != self.graph.num_rows:
            refuse(call, "puts edges to entries that are no rows")
        if isinstance(index, Targets):
            found = call.run()
        elif isinstance(index, Sources):
            found = self._by_bins(call, dim, index, src, reduce)
        elif any(isinstance(k, Spread) and k.axis == dim for k in (index, src)):
            found = self._by_bins(call, dim, index, src, reduce)
            return out.copy_(found) if in_place else found
        elif isinstance(out, Spread) and out.axis == dim:
            return refuse(call, "adds to entries by number")
        else:
            [mark, *_] = [k for k in (src, out) if isinstance(k, Spread)]
            return spread(call.run(), mark.axis, mark.of)
        if not in_place:
            return spread(found, dim)
        if found is not out:
            out.copy_(found)
        self.columns.forget(out)
        return mark_in_place(out, dim)

    # Rows and entries of edges

    def _of_spread(self, call: Call, found: list[Spread]) -> Any:
        name, x = call.name, found[0]
        special = getattr(self, f"_{name}", None) if name in SPECIAL else None
        if name in ("size", "shape"):
            sizes = list(x.shape)
            sizes[x.axis] = self._size(sizes[x.axis], x.of)
            dim = call.get(1, "dim") if name == "size" else None
            return torch.Size(sizes) if dim is None else sizes[dim]
        if name == "numel":
            others = prod(x.shape) // max(x.shape[x.axis], 1)
            return counted(call.run(), "edges", lambda: self._count(x, [x.axis]) * others)
        if name == "__len__" and x.axis:
            return call.run()
        if name == "__len__":
            refuse(call, "counts the rows of this rank (`x.size(0)` divides as that of all)")
        if special is not None:
            return special(call, x)
        if name in SUMS and not isinstance(call.get(1, "other"), Tensor):
            return self._reduced(call, x)
        if name in MOVES:
            shape = [1] * x.ndim
            shape[x.axis] = 2
            small = call.func(torch.empty(shape), *call.args[1:], **call.kwargs)
            return spread(call.run(), list(small.shape).index(2), x.of)
        if name in RESHAPES:
            return self._reshaped(call, x)
        if name in ALONG:
            return self._along(call, x)
        if name in ("cat", "stack", "concat"):
            return self._joined(call, found)
        if name in PRODUCTS:
            return self._product(call, PRODUCTS[name])
        if name in BY_ENTRY or name.rstrip("_") in BY_ENTRY or is_pointwise(name):
            return self._by_entry(call, found)
        return refuse(call, "is not known to treat each row by itself")

    def _by_entry(self, call: Call, found: list[Spread]) -> Any:
        out = call.run()
        if not isinstance(out, Tensor):
            refuse(call, "takes the entries of this rank as one value")
        ends = {each.axis - each.ndim for each in found}
        axis = out.ndim + ends.pop()
        sizes = {each.shape[each.axis] for each in found}
        if ends or axis < 0 or sizes != {out.shape[axis]}:
            refuse(call, "mixes an axis of rows or edges with another axis")
        [size] = sizes
        others = [k for k in (*call.args, *call.kwargs.values()) if isinstance(k, Tensor)]
        for each in others:
            aligned = each.ndim >= out.ndim - axis and each.shape[axis - out.ndim] == size != 1
            if aligned and not isinstance(each, Mark) and each is not out:
                refuse(call, "reads numbers that are not known to be of rows")
        of = "rows" if all(is_rows(each) for each in found) else "edges"
        if out is call.args[0]:
            self.columns.forget(out)
            return mark_in_place(out, axis, of)
        return spread(out, axis, of)

    def _reshaped(self, call: Call, x: Spread) -> Tensor:
        shape, size = list(x.shape), x.shape[x.axis]
        if call.name == "squeeze" and len(call.args) == 1 and not call.kwargs:
            kept = [k for k, size in enumerate(shape) if size != 1 or k == x.axis]
            return spread(plain(x).reshape([shape[k] for k in kept]), kept.index(x.axis), x.of)
        if call.name == "squeeze" and x.axis in call.dims(1, None, x.ndim):
            refuse(call, "leaves out the axis of rows or edges")
        found = call.run()
        if call.args[0] is not x or call.name in ("expand", "expand_as", "repeat"):
            axis = found.ndim + x.axis - x.ndim  # behind new axes
            if axis >= 0 and found.shape[axis] == size:
                return spread(found, axis, x.of)
        wanted = call.args[1] if isinstance(call.get(1, "shape"), list | tuple) else call.args[1:]
        for place, each in enumerate(wanted):
            if isinstance(each, Count) and prod(found.shape[:place]) == prod(shape[: x.axis]):
                return spread(found, place, each.of)
        shape[x.axis] = LIKE_NO_OTHER
        try:
            like = call.func(torch.empty(shape, device="meta"), *call.args[1:], **call.kwargs)
        except RuntimeError:
            refuse(call, "merges the axis of rows or edges with another axis")
        before, so_far = prod(shape[: x.axis]), 1
        for place, each in enumerate(like.shape):
            if so_far == before and each == LIKE_NO_OTHER:
                return spread(found, place, x.of)
            so_far *= each
        if before == 1 and like.shape[0] % LIKE_NO_OTHER == 0:
            return spread(found, 0, "edges")  # several for each entry
        return refuse(call, "merges the axis of rows or edges with another axis")

    def _along(self, call: Call, x: Spread) -> Any:
        dims = call.dims(*ALONG[call.name], x.ndim)
        if x.axis in dims:
            refuse(call, "goes along all rows or edges")
        found = call.run()
        first = found if isinstance(found, Tensor) else found[0]
        drops = first.ndim < x.ndim
        return each_spread(found, x.axis - sum(k < x.axis for k in dims) * drops, x.of)

    def _joined(self, call: Call, found: list[Spread]) -> Tensor:
        x, parts, stacks = found[0], call.args[0], call.name == "stack"
        [dim] = call.dims(1, 0, x.ndim + stacks)
        if dim != x.axis or stacks:
            if len({(each.axis, each.of) for each in found}) > 1:
                refuse(call, "joins different axes of rows or edges")
            if any(not isinstance(k, Mark) and k.shape[x.axis] != 1 for k in parts):
                refuse(call, "joins numbers that are not known to be of rows")
            return spread(call.run(), x.axis + (stacks and dim <= x.axis), x.of)
        if len(found) < len(parts):
            refuse(call, "puts entries behind those of rows or edges")
        if len(parts) > 1 and all(is_rows(each) for each in parts):
            refuse(call, "puts rows behind rows")
        return spread(call.run(), dim, "edges" if len(parts) > 1 else x.of)

    def _product(self, call: Call, first: int) -> Any:
        a, b = call.args[first : first + 2]
        if call.name == "rmatmul":
            a, b = b, a
        found = call.run()
        of_a = a.axis - a.ndim if isinstance(a, Spread) else None
        of_b = b.axis - max(b.ndim, 2) + (b.ndim == 1) * 0 if isinstance(b, Spread) else None
        if of_a == -1 and of_b == -2 and not first:
            return summed(found, self.graph.transport)
        if of_a == -1 or of_b == -2 or (of_a is not None and of_b is not None and of_a != of_b):
            refuse(call, "joins every row with every other")
        x = a if isinstance(a, Spread) else b
        if not isinstance(x, Spread):
            refuse(call, "adds a product to rows")
        dropped = b.ndim == 1  # a vector on the right leaves an axis out
        return spread(found, found.ndim + dropped + (x.axis - x.ndim), x.of)

    def _einsum(self, call: Call, x: Spread) -> Tensor:
        equation, *parts = call.args
        parts = list(parts[0]) if len(parts) == 1 and isinstance(parts[0], list | tuple) else parts
        inputs, _, output = equation.replace(" ", "").replace("...", "").partition("->")
        pairs = [*zip(inputs.split(","), parts, strict=True)]
        known = all(p.axis - p.ndim + len(k) >= 0 for k, p in pairs if isinstance(p, Spread))
        letters = {k[p.axis - p.ndim] for k, p in pairs if isinstance(p, Spread)} if known else ()
        if len(letters) != 1 or not output:
            refuse(call, "joins every row with every other")
        [letter] = letters
        if any(letter in k and not isinstance(p, Spread) for k, p in pairs):
            refuse(call, "reads numbers that are not known to be of rows")
        found = call.run()
        if letter in output:
            return spread(found, found.ndim - len(output) + output.index(letter), x.of)
        return summed(found, self.graph.transport)

    def _linear(self, call: Call, x: Spread) -> Tensor:
        if x is not call.args[0] or x.axis == x.ndim - 1:
            refuse(call, "sums over rows")
        return spread(call.run(), x.axis, x.of)

    def _embedding(self, call: Call, x: Spread) -> Tensor:
        if x is not call.args[0] or call.get(3, "max_norm") is not None:
            refuse(call, "picks rows by number, or changes them")
        return spread(call.run(), x.axis, x.of)

    def _one_hot(self, call: Call, x: Spread) -> Tensor:
        if call.get(1, "num_classes", -1) < 0:
            refuse(call, "counts the classes of this rank")
        return spread(call.run(), x.axis, x.of)

    def _nonzero(self, call: Call, x: Spread) -> Tensor:
        if x.ndim != 1 or x.of != "rows" or call.kwargs:
            refuse(call, "picks entries by number")
        return marked(call.run(), Targets)

    def _unique(self, call: Call, x: Spread) -> Tensor:
        asked = [*call.args[2:], *(v for k, v in call.kwargs.items() if k != "sorted")]
        if x.is_floating_point() or any(each not in (False, None) for each in asked):
            refuse(call, "tells more of values than which whole numbers there are")
        lists = self.graph.transport.gather(plain(x).unique().tolist())
        return plain(x).new_tensor(sorted({each for of_rank in lists for each in of_rank}))

    def _gru_cell(self, call: Call, x: Spread) -> Any:
        return each_spread(call.run(), 0, x.of)

    _lstm_cell = _gru_cell

    def _lstm(self, call: Call, x: Spread) -> Any:
        batch_first = call.args[8] if len(call.args) > 8 else False
        if isinstance(call.args[1], Tensor) or (call.args[5] > 0 and call.args[6]):
            refuse(call, "drops entries at random, or packs sequences")
        if x.axis != (0 if batch_first else 1):
            refuse(call, "goes along all rows or edges")
        out, *states = call.run()
        return (spread(out, x.axis, x.of), *(spread(each, 1, x.of) for each in states))

    _gru = _lstm


def _is_whole(key: Any) -> bool:
    """Whether an index takes all of an axis, on every rank."""
    start = isinstance(key, slice) and key.start in (None, 0) and key.step in (None, 1)
    return start and (key.stop is None or isinstance(key.stop, Count))


def _is_mask(key: Any) -> bool:
    return isinstance(key, Tensor) and key.dtype == torch.bool and key.ndim == 2


def _before(keys: list[Any], axis: int) -> list[Any]:
    """The indices before that of an axis; a new axis is none's index."""
    place = [k for k, each in enumerate(keys) if each is not None][axis]
    return keys[:place]
