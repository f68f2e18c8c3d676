"""A network, unchanged, on this rank's rows of a plan.

What messages read of sources, and nothing else, travels: `propagate` and `edge_updater` of
PyTorch Geometric announce it, so that one exchange brings all of it; plain indexing by sources
brings what it takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from inspect import signature
from itertools import count
from math import prod
from traceback import walk_tb
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from plancc.errors import InputError
from plancc.sampling.counter import key_of
from plancc_runtime.layouts.edge_graph import EdgeGraph
from plancc_runtime.nn.dropout import drawn_bits
from plancc_runtime.pyg.marks import (
    Count,
    EdgeEnds,
    Spread,
    Targets,
    is_rows,
    marked,
    plain,
    spread,
)
from plancc_runtime.pyg.moved import FetchedColumns, largest
from plancc_runtime.pyg.rules import TorchRules

BY_ENTRY = ("HeteroLinear",)
"""Layers of PyTorch Geometric that sort rows, and treat each by itself."""


def distributed(model: nn.Module, graph: EdgeGraph, seed: int = 0) -> Distributed:
    """A network that computes on this rank's rows what `model` does on the whole graph.

        net = distributed(Net(...), graph)
        out = net(graph.features, graph.edge_index)

    Call it as the model is called. Tensors whose first axis (or, of three axes and more, the last
    but one) has this rank's rows are taken for rows, whole numbers [2, edges] for edges in the
    numbering of `graph.edge_index`, and entries per edge stay in their order. Outputs have this
    rank's rows. The parameters are the model's own. Collective, also backward.

    Parameters:
        model: Any module; its parameters must be alike on all ranks (`Graph.sync_parameters`).
        graph: Of a row plan of one type.
        seed: Of the masks of dropout, which do not depend on the ranks.

    Raises:
        InputError: If the plan is no row plan. When it is called: if something in the model cannot
            be exact on several ranks; the sentence names the layer.
    """
    if graph.folds:
        raise InputError(
            "an edge plan spreads the edges of a row over ranks: compile a row plan, such as that "
            "of model hp"
        )
    return Distributed(model, graph, seed)


class Distributed(nn.Module):
    """What `distributed` returns.

    Parameters:
        is_alike: Whether the numbers in the network are known to be those of all ranks.

    Attributes:
        model: The network that was given.
        step (int): Forward passes of training so far, by which masks of dropout differ.
    """

    def __init__(
        self, model: nn.Module, graph: EdgeGraph, seed: int, is_alike: bool = False
    ) -> None:
        super().__init__()
        self.model, self.step, self._seed = model, 0, seed
        self._graph = graph
        self._columns = FetchedColumns(graph)
        self._kinds: dict[tuple[Any, ...], list[str]] = {}
        self._is_alike = is_alike
        self._arguments = [*signature(model.forward).parameters]
        assert graph.edge_index is not None  # collective at first, and for all ranks here

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the model returns, for this rank's rows. Collective."""
        if not self._is_alike:
            self._check_alike()
        named = dict(enumerate(args)) | kwargs
        made = self._marked(named)
        args = tuple(made.pop(k) for k in range(len(args)))
        draws, key = count(), (self._seed, self.step)

        def mask(x: Tensor, rate: float, edges: EdgeEnds | None, axis: int | None) -> Tensor:
            return self._dropped(x, rate, edges, axis, (*key, next(draws)))

        self.step += self.model.training
        rules = TorchRules(self._graph, self._columns, mask)
        hooks = [each for layer in self.model.modules() for each in self._hooked(layer)]
        try:
            with rules:
                out = self.model(*args, **made)
        except InputError as error:
            raise self._named(error) from None
        finally:
            for hook in hooks:
                hook.remove()
            self._columns.clear()
        return plain(out)

    def _named(self, error: InputError) -> InputError:
        """The error with the innermost layer that it came from."""
        names = {id(module): name for name, module in self.model.named_modules()}
        layer = ""
        for frame, _ in walk_tb(error.__traceback__):
            owner = frame.f_locals.get("self")
            if id(owner) in names and isinstance(owner, nn.Module):
                of = names[id(owner)]
                layer = f"layer '{of}' ({type(owner).__name__}): " if of else ""
        return InputError(f"{layer}{error}")

    def _check_alike(self) -> None:
        """Refuse networks that differ between ranks, by name. Collective, once."""
        of_rank = {}
        for name, x in self.model.state_dict().items():
            if is_lazy(x):
                raise InputError(f"'{name}' of the network has no size yet: give all widths")
            of_rank[name] = sha256(x.detach().cpu().double().numpy().tobytes()).hexdigest()
        found = self._graph.transport.gather(of_rank)
        for rank, other in enumerate(found):
            name = next((k for k in {**found[0], **other} if found[0].get(k) != other.get(k)), "")
            if name:
                raise InputError(
                    f"rank {rank} has other numbers in '{name}' of the network than rank 0: seed "
                    "torch alike before it is made, or call `graph.sync_parameters(model)`"
                )
        self._is_alike = True

    # What arguments are

    def _marked(self, named: Mapping[Any, Any]) -> dict[Any, Any]:
        """The arguments, with marks."""
        shapes = tuple((k, _shape(value)) for k, value in named.items())
        new = torch.tensor([shapes not in self._kinds])
        if largest(new.long(), self._graph.transport):  # on any rank: then all gather
            self._kinds[shapes] = self.kinds_of(named)
        kinds = iter(self._kinds[shapes])
        return {
            k: with_tensors(value, lambda x: _as_kind(x, next(kinds))) for k, value in named.items()
        }

    def kinds_of(self, named: Mapping[Any, Any]) -> list[str]:
        """Whether each tensor has rows, is of edges, or neither; alike on all ranks. Collective.

        A shape alone may fit by chance; the ranks agree on what fits on all of them.

        Raises:
            InputError: If a tensor of no rows and edges has other shapes on other ranks, numbers of
                vertices are beyond this rank's, or nothing has rows.
        """
        graph = self._graph
        sizes = graph.num_rows, graph.edge_index.shape[1]
        named = {self._named_argument(k): value for k, value in named.items()}
        for name, value in named.items():
            if not isinstance(value, Tensor) and hasattr(value, "edge_index"):
                raise InputError(
                    f"`{name}` is a {type(value).__name__}: give the network tensors, such as "
                    "`data.x, data.edge_index`"
                )
        tensors = [(name, x) for name, value in named.items() for x in tensors_in(value)]
        bounds = graph.num_rows + graph.num_halo, graph.num_rows
        found = [
            {"shape": [*x.shape], "fits": sorted(_fitting(x, *sizes)), "out": _beyond(x, bounds)}
            for _, x in tensors
        ]
        whole = graph.transport.gather(found)
        if len({len(each) for each in whole}) > 1:
            raise InputError("the ranks give the network other numbers of tensors")
        kinds = []
        for (name, x), of_ranks in zip(tensors, zip(*whole, strict=True), strict=True):
            fits = set.intersection(*(set(each["fits"]) for each in of_ranks))
            rows_first = x.ndim > 1 and x.is_floating_point() and "edge" not in name
            order = ["ends", *(("rows", "edges") if rows_first else ("edges", "rows"))]
            kinds.append(next((k for k in (*order, "inner rows") if k in fits), ""))
            shapes = [each["shape"] for each in of_ranks]
            if not kinds[-1] and any(shape != shapes[0] for shape in shapes):
                raise InputError(
                    f"`{name}` has shapes {', '.join(map(str, shapes[:3]))} on ranks 0, 1, ...: an "
                    "argument has an entry for each own row or each edge, or is the same on all "
                    "ranks"
                )
            if kinds[-1] == "ends" and any(each["out"] for each in of_ranks):
                raise InputError(
                    f"`{name}` has numbers of vertices beyond this rank's: give "
                    "`graph.edge_index`, or part of it"
                )
        if not any(kind.endswith("rows") for kind in kinds):
            raise InputError("no argument of the network has this rank's rows as first axis")
        return kinds

    def _named_argument(self, key: Any) -> str:
        """What the model calls an argument."""
        if isinstance(key, int):
            return self._arguments[key] if key < len(self._arguments) else f"argument {key}"
        return str(key)

    # Messages of PyTorch Geometric

    def _hooked(self, layer: Any) -> list[Any]:
        """Hooks of a layer that passes messages; none of another."""
        if type(layer).__name__ in BY_ENTRY:
            return _as_one_function(layer)
        if "max_num_elements" in signature(layer.forward).parameters:
            return [layer.register_forward_pre_hook(self._padded, with_kwargs=True)]
        if not hasattr(layer, "register_propagate_forward_pre_hook"):
            return []
        return [
            layer.register_propagate_forward_pre_hook(self._fetching(layer, "_user_args")),
            layer.register_edge_update_forward_pre_hook(self._fetching(layer, "_edge_user_args")),
            layer.register_message_forward_hook(_message_made),
            layer.register_aggregate_forward_pre_hook(_on_own_rows),
            layer.register_aggregate_forward_hook(self._rows_made),
        ]

    def _fetching(self, layer: nn.Module, names: str) -> Any:
        """A hook that brings, in one exchange, what messages read of sources."""
        of_sources = "_j" if getattr(layer, "flow", "") != "target_to_source" else "_i"
        read = sorted({k[:-2] for k in getattr(layer, names, ()) if k.endswith(of_sources)})

        def fetch(_: Any, inputs: tuple[Any, Any, dict[str, Any]]) -> None:
            edges, _, given = inputs
            if isinstance(edges, EdgeEnds):
                values = [given.get(name) for name in read]
                first = [each[0] if isinstance(each, list | tuple) else each for each in values]
                self._columns.fetch([k for k in first if isinstance(k, Spread) and is_rows(k)])

        return fetch

    def _padded(self, _: Any, inputs: tuple[Any, ...], given: dict[str, Any]) -> Any:
        """Arguments of sums that pad all rows to the most edges of one: of all ranks."""
        if any(isinstance(each, Spread) for each in (*inputs, *given.values())):
            return None  # a readout of rows, not a sum at them: the rules see what it does
        index = plain(inputs[1] if len(inputs) > 1 else given["index"])
        most = index.bincount().max() if len(index) else index.new_tensor(0)
        most = largest(most, self._graph.transport)
        return plain(inputs), {**plain(given), "max_num_elements": int(most)}

    def _rows_made(self, layer: Any, inputs: Any, out: Any) -> Any:
        """Mark sums over the edges of every own row."""
        if isinstance(out, Tensor) and not isinstance(out, Spread) and out.ndim:
            axis = layer.node_dim % out.ndim
            return spread(out, axis) if out.shape[axis] == self._graph.num_rows else out
        return None

    # Dropout

    def _dropped(
        self, x: Tensor, rate: float, edges: EdgeEnds | None, axis: int | None, key: tuple[int, ...]
    ) -> Tensor:
        """x, with zeros by (vertex, column), by (both ends of the edge, column), or by number."""
        graph = self._graph
        moved = x if axis is None else x.movedim(axis, 0)
        if edges is not None:
            ends = graph.column_vertices().long()[plain(edges)]
            number = ends[edges.source_row] + graph.num_vertices * ends[1 - edges.source_row]
        elif axis is not None:
            number = graph.vertices.long()
        else:
            number = torch.arange(len(x), device=x.device)
        flat = moved.reshape(len(moved), prod(moved.shape[1:]))
        kept = drawn_bits(number, flat.shape[1], key_of(*key), 0) >= round(rate * 2**32)
        found = (flat * kept / max(1 - rate, 1e-30)).reshape(moved.shape)  # rate 1 keeps none
        return found if axis is None else found.movedim(0, axis)


def _as_one_function(layer: nn.Module) -> list[Any]:
    """Hooks of a layer that treats each row by itself, by functions that do not."""
    kept: list[Spread] = []

    def before(_: Any, inputs: tuple[Any, ...]) -> Any:
        kept.append(next(each for each in inputs if isinstance(each, Spread)))
        return plain(inputs)

    def after(_: Any, inputs: Any, out: Tensor) -> Tensor:
        x = kept.pop()
        return spread(out, x.axis, x.of)

    return [layer.register_forward_pre_hook(before), layer.register_forward_hook(after)]


def _message_made(_: Any, inputs: Any, out: Any) -> Any:
    """Messages without marks: what is summed at an own row is here."""
    return plain(out)


def _on_own_rows(_: Any, inputs: tuple[dict[str, Any]]) -> tuple[dict[str, Any]] | None:
    """Arguments of sums at own rows without marks: all edges of an own row are here."""
    given = inputs[0]
    if not isinstance(given.get("index"), Targets):
        return None
    return ({k: v.here if isinstance(v, Count) else plain(v) for k, v in given.items()},)


def _shape(value: Any) -> Any:
    return tuple((*x.shape, x.dtype) for x in tensors_in(value))


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors of a value, of lists, tuples and dicts in it too."""
    found: list[Tensor] = []

    def look(x: Tensor) -> Tensor:
        found.append(x)
        return x

    with_tensors(value, look)
    return found


def with_tensors(value: Any, change: Any) -> Any:
    """value with every tensor in it changed; in lists, tuples and dicts too."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {k: with_tensors(each, change) for k, each in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(with_tensors(each, change) for each in value)
    return value


def _fitting(x: Tensor, num_rows: int, num_edges: int) -> set[str]:
    """What a tensor of this shape may be."""
    if not x.ndim:
        return set()
    found = set()
    if x.ndim == 2 and len(x) == 2 and x.dtype == torch.int64:
        found.add("ends")
    if len(x) == num_edges:
        found.add("edges")
    if len(x) == num_rows:
        found.add("rows")
    if x.ndim > 2 and x.shape[-2] == num_rows:
        found.add("inner rows")
    return found


def _beyond(x: Tensor, bounds: tuple[int, int]) -> bool:
    """Whether ends of edges are outside of columns and own rows."""
    if x.dtype != torch.int64 or x.ndim != 2 or len(x) != 2 or not x.numel():
        return False
    high = torch.tensor(bounds, device=x.device)[:, None]
    return bool(((x < 0) | (x >= high)).any())


def _as_kind(x: Tensor, kind: str) -> Tensor:
    if kind == "ends":
        return marked(x, EdgeEnds, source_row=0)
    if kind in ("rows", "edges"):
        return spread(x, 0, kind)
    return spread(x, x.ndim - 2) if kind == "inner rows" else x
