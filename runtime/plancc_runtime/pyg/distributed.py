"""A network, unchanged, on this rank's rows of a plan.

What messages read of sources, and nothing else, travels: `propagate` and `edge_updater` of
PyTorch Geometric announce it, so that one exchange brings all of it; plain indexing by sources
brings what it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache
from hashlib import sha256
from inspect import signature
from itertools import count
from math import prod
from traceback import walk_tb
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from plancc.errors import InputError
from plancc.sampling.counter import key_of
from plancc_runtime.layouts.edge_graph import EdgeGraph
from plancc_runtime.nn.dropout import dropout
from plancc_runtime.pyg.calls import names
from plancc_runtime.pyg.marks import (
    Count,
    EdgeEnds,
    Mark,
    Message,
    Spread,
    Targets,
    alike,
    marks_in,
    plain,
    spread,
)
from plancc_runtime.pyg.moved import FetchedColumns, largest, with_zeros
from plancc_runtime.pyg.products import Patterns
from plancc_runtime.pyg.rules import TorchRules
from plancc_runtime.pyg.spaces import Key, TypeEdges, TypeRows, spaces_of
from plancc_runtime.typed import TypedGraph

ALONE = names(
    "Linear NonDynamicallyQuantizableLinear ModuleList LayerNorm MultiheadAttention LSTM GRU "
    "GRUCell"
)
"""Modules of torch that treat each row by itself, as aggregations use them."""


class ArgumentKind(NamedTuple):
    """What a tensor in arguments is.

    Attributes:
        what: "rows", "inner rows" (behind samples), "edges" (an entry for each), "ends", or "".
        key: The type or relation; "" of a graph without types.
    """

    what: str
    key: Key


def distributed(model: nn.Module, graph: EdgeGraph | TypedGraph, seed: int = 0) -> Distributed:
    """A network that computes on this rank's rows what `model` does on the whole graph.

        net = distributed(Net(...), graph)
        out = net(graph.features, graph.edge_index)

    Call it as the model is called. Tensors whose first axis (or, of three axes and more, the last
    but one) has this rank's rows are taken for rows, whole numbers [2, edges] for edges in the
    numbering of `graph.edge_index`, and entries per edge stay in their order. Outputs have this
    rank's rows. The parameters are the model's own. Collective, also backward.

    Of a graph with types arguments are dicts, whose keys say what is in them: rows of a type, or
    edges of a relation.

        graph = plancc_runtime.open_typed("plan.h5")
        out = distributed(HeteroNet(...), graph)(graph.x_dict, graph.edge_index_dict)

    Parameters:
        model: Any module; its parameters must be alike on all ranks (`Graph.sync_parameters`).
        graph: Of a row plan.
        seed: Of the masks of dropout, which do not depend on the ranks.

    Raises:
        InputError: If the plan is no row plan. When it is called: if something in the model cannot
            be exact on several ranks; the sentence names the layer.
    """
    if (graph.union if isinstance(graph, TypedGraph) else graph).folds:
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
        self, model: nn.Module, graph: EdgeGraph | TypedGraph, seed: int, is_alike: bool = False
    ) -> None:
        super().__init__()
        self.model, self.step, self._seed = model, 0, seed
        self._graph = graph.union if isinstance(graph, TypedGraph) else graph
        self._columns, self._patterns = FetchedColumns(), Patterns()
        self._kinds: dict[tuple[Any, ...], list[ArgumentKind]] = {}
        self._is_alike = is_alike
        self._arguments = [*signature(model.forward).parameters]
        self._rows, self._edges = spaces_of(graph)
        self._in_dicts = "" if "" in self._rows else ", in a dict by type or relation"

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the model returns, for this rank's rows. Collective."""
        if not self._is_alike:
            self._check_alike()
        named = dict(enumerate(args)) | kwargs
        made = self._marked(named)
        args = tuple(made.pop(k) for k in range(len(args)))
        draws, key = count(), (self._seed, self.step)

        def mask(x: Tensor, rate: float, edges: EdgeEnds | None) -> Tensor:
            return self._dropped(x, rate, edges, (*key, next(draws)))

        self.step += self.model.training
        rules = TorchRules(self._graph.transport, self._columns, self._patterns, mask)
        hooks = [each for layer in self.model.modules() for each in self._hooked(layer)]
        is_graded = torch.is_grad_enabled()
        try:  # tensors of inference mode do not tell when they change
            with torch.inference_mode(False), torch.set_grad_enabled(is_graded), rules:
                out = self.model(*args, **made)
        except InputError as error:
            raise self._named(error) from None
        finally:
            for hook in hooks:
                hook.remove()
            self._columns.clear()
            self._patterns.end_pass()
        return plain(out)

    def _named(self, error: InputError) -> InputError:
        """The error with the innermost layer, and line of the user's, that it came from."""
        names = {id(module): name for name, module in self.model.named_modules()}
        layer = line = ""
        for frame, number in walk_tb(error.__traceback__):
            owner = frame.f_locals.get("self")
            if id(owner) in names and isinstance(owner, nn.Module):
                of = names[id(owner)]
                layer = f"layer '{of}' ({type(owner).__name__}): " if of else ""
            if not str(frame.f_globals.get("__name__")).startswith(("plancc_runtime", "torch")):
                line = f"{frame.f_code.co_filename}, line {number}: "
        return InputError(f"{line}{layer}{error}")

    def _check_alike(self) -> None:
        """Refuse networks that differ between ranks, by name. Collective, once."""
        held = {
            f"{name}{'.' * bool(name)}{key}": x
            for name, layer in self.model.named_modules()
            for key, x in vars(layer).items()
            if isinstance(x, Tensor) and not isinstance(x, Mark)
        }
        of_rank = {}
        for name, x in (self.model.state_dict() | held).items():
            if is_lazy(x):
                raise InputError(f"'{name}' of the network has no size yet: give all widths")
            of_rank[name] = sha256(x.detach().cpu().double().numpy().tobytes()).hexdigest()
        found = self._graph.transport.gather(of_rank)
        for rank, other in enumerate(found):
            name = next((k for k in {**found[0], **other} if found[0].get(k) != other.get(k)), "")
            if name:
                raise InputError(
                    f"rank {rank} has other numbers in '{name}' of the network than rank 0: seed "
                    "torch alike before it is made, or call `graph.sync_parameters(model)`, and "
                    "give what is of rows as an argument"
                )
        self._is_alike = True

    # What arguments are

    def _marked(self, named: Mapping[Any, Any]) -> dict[Any, Any]:
        """The arguments, with marks."""
        found = tensors_in(named)
        shapes = tuple((path, *x.shape, x.dtype) for path, x in found)
        new = torch.tensor([shapes not in self._kinds])
        if largest(new.long(), self._graph.transport):  # on any rank: then all gather
            self._kinds[shapes] = self.kinds_of(named)
        kinds = iter(self._kinds[shapes])
        made: dict[Any, Any] = with_tensors(named, lambda x: self._as_kind(x, next(kinds)))
        return made

    def kinds_of(self, named: Mapping[Any, Any]) -> list[ArgumentKind]:
        """Whether each tensor has rows, is of edges, or neither; alike on all ranks. Collective.

        A shape alone may fit by chance; the ranks agree on what fits on all of them.

        Raises:
            InputError: If a tensor of no rows and edges has other shapes on other ranks, numbers of
                vertices are beyond this rank's, or nothing has rows.
        """
        transport = self._graph.transport
        named = {self._named_argument(k): value for k, value in named.items()}
        for name, value in named.items():
            if not isinstance(value, Tensor) and hasattr(value, "edge_index"):
                raise InputError(
                    f"`{name}` is a {type(value).__name__}: give the network tensors, such as "
                    "`data.x, data.edge_index`"
                )
        tensors = [(_in_words(path), self._key_of(path), x) for path, x in tensors_in(named)]
        found = [
            {
                "shape": [*x.shape],
                "fits": _fitting(x, self._rows.get(key), self._edges.get(key)),
                "out": key in self._edges and _beyond(x, self._edges[key]),
            }
            for _, key, x in tensors
        ]
        whole = transport.gather(found)
        if len({len(each) for each in whole}) > 1:
            raise InputError("the ranks give the network other numbers of tensors")
        kinds: list[ArgumentKind] = []
        for (name, key, x), of_ranks in zip(tensors, zip(*whole, strict=True), strict=True):
            fits = set.intersection(*(set(each["fits"]) for each in of_ranks))
            rows_first = x.ndim > 1 and x.is_floating_point() and "edge" not in name
            order = ["ends", *(("rows", "edges") if rows_first else ("edges", "rows"))]
            kinds.append(
                ArgumentKind(next((k for k in (*order, "inner rows") if k in fits), ""), key)
            )
            shapes = [each["shape"] for each in of_ranks]
            if not kinds[-1].what and any(shape != shapes[0] for shape in shapes):
                raise InputError(
                    f"`{name}` has shapes {', '.join(map(str, shapes[:3]))} on ranks 0, 1, ...: an "
                    f"argument has an entry for each own row or each edge{self._in_dicts}, or is "
                    "the same on all ranks"
                )
            if kinds[-1].what == "ends" and any(each["out"] for each in of_ranks):
                raise InputError(
                    f"`{name}` has numbers of vertices beyond this rank's: give "
                    f"`graph.edge_index{'_dict' * bool(self._in_dicts)}`, or part of it"
                )
        if not any(kind.what.endswith("rows") for kind in kinds):
            raise InputError(
                f"no argument of the network has this rank's rows as first axis{self._in_dicts}"
            )
        return kinds

    def _key_of(self, path: Sequence[Any]) -> Key:
        """The type or relation that a tensor in arguments is of: the innermost key."""
        names = [k for k in reversed(path) if k in self._rows or k in self._edges]
        return names[0] if names else ""

    def _as_kind(self, x: Tensor, kind: ArgumentKind) -> Tensor:
        if kind.what == "ends":
            return self._edges[kind.key].marked(x)
        if not kind.what:
            return x
        of = None if kind.what == "edges" else self._rows[kind.key]
        return spread(x, x.ndim - 2 if kind.what == "inner rows" else 0, of)

    def _named_argument(self, key: Any) -> str:
        """What the model calls an argument."""
        if isinstance(key, int):
            return self._arguments[key] if key < len(self._arguments) else f"argument {key}"
        return str(key)

    # Messages of PyTorch Geometric

    def _hooked(self, layer: Any) -> list[Any]:
        """Hooks of a layer that passes messages; none of another."""
        is_script = isinstance(layer, torch.jit.ScriptModule)
        if is_script or layer._backward_hooks or layer._backward_pre_hooks:
            raise InputError(
                f"a {type(layer).__name__} of the network is a script or has backward hooks, in "
                "which sums over rows would be of this rank alone: leave them out"
            )
        if type(layer).__name__ == "HeteroLinear":  # sorts rows, and treats each by itself
            return _as_one_function(layer)
        if type(layer).__name__ == "HGTConv":
            return self._on_columns(layer)
        if type(layer).__name__ == "WLConv":
            return self._with_colours(layer)
        if hasattr(layer, "to_dense_batch"):  # an aggregation
            return self._on_own_rows(layer)
        if not hasattr(layer, "register_propagate_forward_pre_hook"):
            return []
        return [
            layer.register_propagate_forward_pre_hook(self._fetching(layer, "_user_args")),
            layer.register_edge_update_forward_pre_hook(self._fetching(layer, "_edge_user_args")),
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
                rows = [k for k in first if isinstance(k, Spread) and k.of == edges.sources]
                self._columns.fetch(rows, edges.relations)

        return fetch

    def _on_columns(self, layer: Any) -> list[Any]:
        """Hooks of HGTConv, which puts the rows of all types below each other.

        Inside tensors have no marks, and halo rows behind own ones. Keys and values of halo rows
        come from their owners, once for all relations; what else they have is 0 or left out.
        """
        given: list[tuple[dict[str, TypeRows], dict[Any, EdgeEnds]]] = []

        def before(_: Any, inputs: tuple[Any, ...], named: dict[str, Any]) -> Any:
            x_dict, edges = (*inputs, *named.values())
            if not all(isinstance(x, Spread) for x in x_dict.values()):
                raise InputError("the first argument has tensors that are not of this rank's rows")
            given.append(({name: x.of for name, x in x_dict.items()}, edges))
            whole = {k: with_zeros(plain(x), len(x.of.vertices)) for k, x in x_dict.items()}
            return (whole, plain(edges)), {}

        def bring(_: Any, inputs: Any, out: dict[str, Tensor]) -> dict[str, Tensor]:
            found, (rows, edges) = {}, given[-1]
            for name, of in rows.items():
                read = [each.relations for each in edges.values() if each.sources == of]
                key, query, value = out[name][: of.num_rows].tensor_split(3, dim=1)
                pair = spread(torch.cat([key, value], dim=1), 0, of)
                columns = self._columns.of(pair, frozenset().union(*read))
                key, value = plain(columns).tensor_split(2, dim=1)
                found[name] = torch.cat(
                    [with_zeros(x, len(of.vertices)) for x in (key, query, value)], dim=1
                )
            return found

        def after(_: Any, inputs: Any, out: dict[str, Any]) -> dict[str, Any]:
            rows, _ = given.pop()
            return {
                name: x if x is None else spread(x[: rows[name].num_rows], 0, rows[name])
                for name, x in out.items()
            }

        return [
            layer.register_forward_pre_hook(before, with_kwargs=True),
            layer.kqv_lin.register_forward_hook(bring),
            layer.register_forward_hook(after),
        ]

    def _with_colours(self, layer: Any) -> list[Any]:
        """Hooks of WLConv, which numbers hashes of neighbourhoods as it meets them: by vertex."""
        given: list[tuple[TypeRows, dict[int, int]]] = []

        def before(_: Any, inputs: tuple[Spread, EdgeEnds]) -> tuple[Tensor, Tensor]:
            x, edges = inputs
            given.append((edges.targets, dict(layer.hashmap)))
            return plain(self._columns.of(x, edges.relations)), plain(edges)

        def after(_: Any, inputs: Any, out: Tensor) -> Tensor:
            rows, known = given.pop()
            hash_of = {colour: each for each, colour in layer.hashmap.items()}
            hashes = [hash_of[colour] for colour in out[: rows.num_rows].tolist()]
            pairs = sorted(zip(rows.vertices.tolist(), hashes, strict=False))
            of_ranks = self._graph.transport.gather(pairs)
            for _, each in sorted(pair for pairs in of_ranks for pair in pairs):
                known.setdefault(each, len(known))
            layer.hashmap = known
            return spread(out.new_tensor([known[each] for each in hashes]), 0, rows)

        return [layer.register_forward_pre_hook(before), layer.register_forward_hook(after)]

    def _on_own_rows(self, layer: Any) -> list[Any]:
        """Hooks of an aggregation at own rows: all edges of an own row are here.

        One that treats each row by itself has no marks inside; the rules see what others do.
        """
        pads = _pads(layer.__class__)
        is_alone = all(map(_is_alone, layer.modules()))
        is_sum = type(layer).__name__ in ("SumAggregation", "MeanAggregation")
        rows: list[TypeRows | None] = []

        def before(_: Any, inputs: tuple[Any, ...], given: dict[str, Any]) -> Any:
            index, size = given["index"], given["dim_size"]
            is_product = is_sum and isinstance(inputs[0], Message)  # for the rules
            apart = is_alone and isinstance(index, Targets) and not is_product
            rows.append(index.of if apart else None)
            if rows[-1] is not None:
                inputs, given = plain(inputs), {k: plain(v) for k, v in given.items()}
                given["dim_size"] = size.here if isinstance(size, Count) else size
            if not pads or [*marks_in([*inputs, *given.values()])]:
                return inputs, given
            # of all ranks, as rows are padded to the most edges of one
            most = given["index"].bincount(minlength=1).max()
            most = int(largest(most, self._graph.transport))
            return inputs, {**given, "max_num_elements": most}

        def after(_: Any, inputs: Any, given: dict[str, Any], out: Any) -> Any:
            def of_rows(x: Tensor) -> Tensor:
                axis = given["dim"] % x.ndim
                return spread(x, axis, of) if of and x.shape[axis] == of.num_rows else x

            of = rows.pop()
            return with_tensors(out, of_rows)

        return [
            layer.register_forward_pre_hook(before, with_kwargs=True),
            layer.register_forward_hook(after, with_kwargs=True),
        ]

    # Dropout

    def _dropped(
        self, x: Tensor, rate: float, edges: EdgeEnds | None, key: tuple[int, ...]
    ) -> Tensor:
        """x, with zeros by (vertex, column), by (both ends of the edge, column), or by number."""
        axis, of = (x.axis, x.of) if isinstance(x, Spread) else (0, None)
        moved = plain(x).movedim(axis, 0) if x.ndim else x
        if edges is not None:
            row, ends = edges.source_row, plain(edges)
            target = edges.targets.vertices[ends[1 - row]]
            number = edges.sources.vertices[ends[row]] + self._graph.num_vertices * target
        elif of is not None:
            number = of.vertices[: of.num_rows]
        else:
            number = torch.arange(len(moved), device=x.device)
        flat = moved.reshape(len(moved), prod(moved.shape[1:]))
        kept = dropout(flat, rate, key_of(*key), number) if rate < 1 else torch.zeros_like(flat)
        found = kept.reshape(moved.shape)
        return found.movedim(0, axis) if x.ndim else found


def _as_one_function(layer: nn.Module) -> list[Any]:
    """Hooks of a layer that treats each row by itself, by functions that do not."""
    kept: list[Spread | None] = []

    def before(_: Any, inputs: tuple[Any, ...]) -> Any:
        kept.append(next((each for each in inputs if isinstance(each, Spread)), None))
        return plain(inputs)

    def after(_: Any, inputs: Any, out: Tensor) -> Tensor:
        x = kept.pop()
        return out if x is None else alike(out, x)

    return [layer.register_forward_pre_hook(before), layer.register_forward_hook(after)]


@cache
def _pads(kind: type[nn.Module]) -> bool:
    """Whether an aggregation pads all rows to the most edges of one."""
    return "max_num_elements" in signature(kind.forward).parameters


def _is_alone(layer: Any) -> bool:
    """Whether a part of an aggregation is known to treat each row by itself."""
    kind = type(layer)
    *package, module = kind.__module__.split(".")
    is_own = package == ["torch_geometric", "nn", "aggr"] and module != "equilibrium"
    is_known = package == ["torch", "nn", "modules"] and kind.__name__ in ALONE
    return (is_own or is_known) and not getattr(layer, "dropout", 0)


def tensors_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[tuple[Any, ...], Tensor]]:
    """The tensors of a value, and of what it has (`_parts`), with their keys and places."""
    if isinstance(value, Tensor):
        return [(path, value)]
    return [found for k, each in _parts(value) for found in tensors_in(each, (*path, k))]


def _parts(value: Any) -> list[tuple[Any, Any]]:
    """What a list, tuple, dict or dataclass has, by key, place or name.

    Raises:
        InputError: If it is another object that has a tensor.
    """
    if isinstance(value, Mapping):
        return [*value.items()]
    if isinstance(value, list | tuple):
        return [*zip(getattr(value, "_fields", range(len(value))), value, strict=True)]
    if is_dataclass(value) and not isinstance(value, type):
        return [(each.name, getattr(value, each.name)) for each in fields(value)]
    if any(isinstance(each, Tensor) for each in getattr(value, "__dict__", {}).values()):
        raise InputError(
            f"an argument is a {type(value).__name__}, which has tensors: give the network these"
        )
    return []


def _in_words(path: Sequence[Any]) -> str:
    """What an argument, or a tensor in it, is called."""
    return str(path[0]) + "".join(f"[{key!r}]" for key in path[1:])


def with_tensors(value: Any, change: Any) -> Any:
    """value with every tensor in it changed; in what it has (`_parts`) too."""
    if isinstance(value, Tensor):
        return change(value)
    made = {k: with_tensors(each, change) for k, each in _parts(value)}
    if isinstance(value, Mapping):
        return made
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **made)
    if isinstance(value, list | tuple):
        made_of = type(value)
        return made_of(*made.values()) if hasattr(value, "_fields") else made_of(made.values())
    return value


def _fitting(x: Tensor, rows: TypeRows | None, edges: TypeEdges | None) -> list[str]:
    """What a tensor of this shape may be."""
    found = []
    if x.ndim and edges is not None:
        if x.ndim == 2 and len(x) == 2 and x.dtype == torch.int64:
            found.append("ends")
        if len(x) == edges.index.shape[1]:
            found.append("edges")
    if x.ndim and rows is not None:
        if len(x) == rows.num_rows:
            found.append("rows")
        if x.ndim > 2 and x.shape[-2] == rows.num_rows:
            found.append("inner rows")
    return found


def _beyond(x: Tensor, edges: TypeEdges) -> bool:
    """Whether ends of edges are outside of columns and own rows."""
    if x.dtype != torch.int64 or x.ndim != 2 or len(x) != 2 or not x.numel():
        return False
    bounds = [len(edges.sources.vertices), edges.targets.num_rows]
    high = torch.tensor(bounds, device=x.device)[:, None]
    return bool(((x < 0) | (x >= high)).any())
