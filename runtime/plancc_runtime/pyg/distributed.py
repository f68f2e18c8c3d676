"""Runs an unchanged network on this rank's rows of a plan.

Hooks in PyTorch Geometric's layers show which tensors a layer reads at sources of edges. One
exchange moves the rows of all these tensors.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from copy import copy
from functools import cache, partial
from hashlib import sha256
from inspect import signature
from itertools import zip_longest
from math import prod
from traceback import walk_tb
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils.checkpoint import checkpoint

from plancc.errors import InputError
from plancc.sampling.counter import key_of
from plancc_runtime.layouts.edge_graph import EdgeGraph
from plancc_runtime.nn.dropout import dropout
from plancc_runtime.pyg.calls import names
from plancc_runtime.pyg.marks import (
    Count,
    EdgeEnds,
    Mark,
    Spread,
    alike,
    is_end,
    plain,
    spread,
    version,
)
from plancc_runtime.pyg.moved import largest, with_zeros
from plancc_runtime.pyg.products import Patterns
from plancc_runtime.pyg.rules import TorchRules
from plancc_runtime.pyg.spaces import Key, TypeEdges, TypeRows, spaces_of
from plancc_runtime.pyg.trees import Path, all_in, changed, leaves_of
from plancc_runtime.transport.base import TransportError
from plancc_runtime.transport.local import LocalTransport
from plancc_runtime.typed import TypedGraph

ALONE = names(
    "Linear NonDynamicallyQuantizableLinear ModuleList LayerNorm MultiheadAttention LSTM GRU "
    "GRUCell"
)
"""Modules of torch that handle each row independently if an aggregation contains them."""
Enter = Callable[[tuple[Any, ...], dict[str, Any]], Any]
DRAWS = (
    "the network draws random numbers of Python or numpy, which differ between ranks; seed both "
    "alike on ranks that are processes, or draw outside and give the numbers as an argument"
)


class ArgumentKind(NamedTuple):
    """Kind of a tensor in the arguments of a network.

    Attributes:
        what: "rows" (on the first axis), "inner rows" (on the second to last axis), "edges" (an
            entry for each edge on the first axis), "ends" (an edge index), or "" (no such tensor).
        key: Vertex type or relation; "" for a graph without types.
    """

    what: str
    key: Key


def distributed(model: nn.Module, graph: EdgeGraph | TypedGraph, seed: int = 1) -> Distributed:
    """Return a network that computes, on this rank's rows, what `model` computes on the graph.

        net = distributed(Net(...), graph)
        out = net(graph.features, graph.edge_index)

    Calls are collective, and both networks have the same parameters. Arguments are recognised by
    their shapes:

    - A tensor has this rank's rows if its first axis has this rank's number of rows. With three or
      more axes, the second to last axis may have the rows instead.
    - A tensor int64[2, edges] is an edge index, which must number rows as `graph.edge_index` does.
      A tensor with an entry for each edge must have the order of that edge index.

    If the graph has types, arguments are dicts by vertex type (rows) or relation (edges).

    Parameters:
        model: Any module. Its parameters must be equal on all ranks (`Graph.sync_parameters`).
        graph: Graph of a row plan.
        seed: Seed of the dropout masks; these do not depend on the number of ranks.

    Raises:
        InputError: If the plan is no row plan; in calls, if an operation cannot be exact.
    """
    if (graph.union if isinstance(graph, TypedGraph) else graph).folds:
        raise InputError(
            "the plan is an edge plan, which spreads the edges of a row over ranks; compile a row "
            "plan, for example with model hp"
        )
    return Distributed(model, graph, seed)


class Distributed(nn.Module):
    """A network on this rank's rows; `distributed` returns an object of this class.

    `is_alike` says that parameters and constants are known to be equal on all ranks.

    Attributes:
        step: Number of calls in training so far; dropout masks depend on this number.
        recompute: Whether the backward pass computes message-passing layers again.
    """

    def __init__(
        self, model: nn.Module, graph: EdgeGraph | TypedGraph, seed: int, is_alike: bool = False
    ) -> None:
        super().__init__()
        self.model, self.step, self._seed, self.recompute = model, 0, seed, False
        self._graph = graph.union if isinstance(graph, TypedGraph) else graph
        self._patterns = Patterns()
        self._kinds: dict[tuple[Any, ...], list[ArgumentKind]] = {}
        self._held = _constants_of(model) if is_alike else {}
        self._stamps = _stamps(self._held) if is_alike else None
        self._passed: set[bool] = set()  # modes (training or not) whose first pass was compared
        self._arguments = [*signature(model.forward).parameters]
        self._rows, self._edges = spaces_of(graph)
        self._in_dicts = "" if "" in self._rows else ", in a dict by type or relation"

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Return the output of the model for this rank's rows. Collective."""
        named = dict(enumerate(args)) | kwargs
        made = self._marked(named)
        args = tuple(made.pop(k) for k in range(len(args)))
        mask = partial(self._dropped, (self._seed, self.step))
        self.step += self.model.training
        graph = self._graph
        rules = TorchRules(graph.transport, self._patterns, mask, graph.num_vertices)
        is_graded, is_first = torch.is_grad_enabled(), self.model.training not in self._passed
        drawn = _random_state() if is_first else 0
        try:  # inference mode is left, since its tensors do not count their changes
            running = self._running(self.model, rules)
            with torch.inference_mode(False), torch.set_grad_enabled(is_graded), running:
                out = self.model(*args, **made)
        except InputError as error:
            raise self._named(error) from None
        except (RuntimeError, TransportError) as error:
            if is_first and self._graph.num_ranks > 1 and drawn != _random_state():
                raise InputError(f"{DRAWS}; then: {error}") from error
            raise
        self._patterns.end_pass()
        if is_first:
            self._compare_passes(rules.calls, drawn)
        return plain(out)

    @contextmanager
    def _running(self, layer: nn.Module, rules: TorchRules) -> Iterator[None]:
        """Context manager: in the context, the rules apply to a layer and the layers inside it."""
        with ExitStack() as after:
            for inner in layer.modules():
                for hook in self._hooked(inner, rules):
                    after.callback(hook.remove)
                if self.recompute and hasattr(inner, "register_propagate_forward_pre_hook"):
                    own = {k: each for k, each in vars(inner).items() if k == "forward"}
                    after.callback(vars(inner).update, own)
                    inner.forward = partial(self._recomputed, inner, rules, inner.forward)
                    after.callback(delattr, inner, "forward")
            with rules:
                yield

    def _recomputed(
        self, layer: nn.Module, rules: TorchRules, forward: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Return a layer's output without keeping its intermediate results. Collective."""
        then, given = copy(rules), all_in((args, kwargs), Tensor)
        then.columns, versions = rules.columns.copy(), [version(x) for x in given]
        state = _cloned(_state_of(layer))

        @contextmanager
        def again() -> Iterator[None]:
            if versions != [version(x) for x in given]:
                raise InputError(
                    f"`recompute`: the network changes an argument of its {type(layer).__name__} "
                    "in place before the backward pass; change a copy"
                )
            with ExitStack() as after, self._running(layer, then):
                after.callback(_put, _state_of(layer))  # running statistics are updated once
                _put(_cloned(state))
                yield

        run = partial(forward, *args, **kwargs)

        def contexts() -> Any:
            return nullcontext(), again()

        return checkpoint(run, use_reentrant=False, preserve_rng_state=False, context_fn=contexts)

    def _compare_passes(self, calls: list[str], drawn: int) -> None:
        """Raise InputError if calls or random draws differed between ranks. Collective."""
        transport = self._graph.transport
        shared = isinstance(transport, LocalTransport)  # threads draw from one generator
        state = transport.rank if shared else drawn
        found = transport.gather((calls, state if drawn != _random_state() else None))
        if len({of_rank for _, of_rank in found}) > 1:
            raise InputError(DRAWS)
        for rank, (others, _) in enumerate(found):
            pairs = zip_longest(others, found[0][0], fillvalue="nothing more")
            if differ := [pair for pair in pairs if pair[0] != pair[1]]:
                raise InputError(
                    f"rank {rank} calls `{differ[0][0]}` in the network where rank 0 calls "
                    f"`{differ[0][1]}`; let no branch of `forward` depend on the rank"
                )
        self._passed.add(self.model.training)

    def _named(self, error: InputError) -> InputError:
        """Return the error with a message that also names the layer and the user's line of code."""
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

    def _check_alike(self, numbers: Mapping[str, Any]) -> None:
        """Raise InputError if `numbers`, values of the network, differ among ranks. Collective."""
        of_rank = {}
        for name, x in numbers.items():
            if is_lazy(x):
                raise InputError(f"'{name}' has no size yet; give each layer its input width")
            flat = torch.as_tensor(x).detach().cpu().double().numpy()
            of_rank[name] = sha256(flat.tobytes()).hexdigest()
        found = self._graph.transport.gather(of_rank)
        for rank, other in enumerate(found):
            name = next((k for k in {**found[0], **other} if found[0].get(k) != other.get(k)), "")
            if name:
                raise InputError(
                    f"rank {rank} has other values in the network's '{name}' than rank 0; set the "
                    "same torch seed on all ranks before making the network, or call "
                    "`graph.sync_parameters(model)`; a tensor with a row for every vertex must be "
                    "an argument of the network, not a part of it"
                )

    # Kinds of arguments

    def _marked(self, named: Mapping[Any, Any]) -> dict[Any, Any]:
        """Return the arguments; tensors of rows, edges or edge ends are marked. Collective."""
        found = tensors_in(named)
        shapes = tuple((path, *x.shape, x.dtype) for path, x in found)
        held = _constants_of(self.model)
        new = torch.tensor([shapes not in self._kinds, _stamps(held) != self._stamps])
        are_new, are_held_new = largest(new.long(), self._graph.transport)
        if are_held_new:  # on some rank, so all ranks compare
            is_whole = self._stamps is None
            self._check_alike(self.model.state_dict() | held if is_whole else held)
            self._held, self._stamps = held, _stamps(held)  # held objects keep their `id`
        if are_new:
            self._kinds[shapes] = self.kinds_of(named)
        kinds = iter(self._kinds[shapes])
        made: dict[Any, Any] = changed(named, Tensor, lambda x: self._mark_kind(x, next(kinds)))
        return made

    def kinds_of(self, named: Mapping[Any, Any]) -> list[ArgumentKind]:
        """Return what each tensor in the arguments holds, such as rows or edges. Collective.

        All ranks get the same kinds. A shape that fits a kind only on some ranks fits by chance,
        and does not count.
        """
        names = {k: f"argument {k}" for k in named if isinstance(k, int)}
        names |= enumerate(self._arguments)
        named = {names.get(k, k): value for k, value in named.items()}
        tensors = [(_path_text(path), self._key_of(path), x) for path, x in tensors_in(named)]
        found = [
            ([*x.shape], _fitting(x, self._rows.get(key), self._edges.get(key)))
            for _, key, x in tensors
        ]
        whole = self._graph.transport.gather(found)
        if len({len(each) for each in whole}) > 1:
            raise InputError("the ranks pass different numbers of tensors to the network")
        kinds: list[ArgumentKind] = []
        for (name, key, x), of_ranks in zip(tensors, zip(*whole, strict=True), strict=True):
            shapes, fits = zip(*of_ranks, strict=True)
            rows_first = x.ndim > 1 and x.is_floating_point() and "edge" not in name
            pair = ("rows", "edges") if rows_first else ("edges", "rows")
            order = ("ends", *pair, "inner rows")
            what = next((k for k in order if all(k in each for each in fits)), "")
            kinds.append(ArgumentKind(what, key))
            if not what and any(shape != shapes[0] for shape in shapes):
                raise InputError(
                    f"`{name}` has shapes {', '.join(map(str, shapes[:3]))} on ranks 0, 1, ...: an "
                    f"argument needs an entry for each own row or each edge{self._in_dicts}, or "
                    "the same shape on all ranks"
                )
            if what == "ends" and any("beyond" in each for each in fits):
                raise InputError(
                    f"`{name}` has numbers that are not local rows; give "
                    f"`graph.edge_index{'_dict' * bool(self._in_dicts)}`, or some columns of it"
                )
        if not any(kind.what.endswith("rows") for kind in kinds):
            raise InputError(
                f"no argument of the network has an entry for each own row{self._in_dicts}"
            )
        return kinds

    def _key_of(self, path: Path) -> Key:
        """Return the last key in a tensor's path that is a vertex type or a relation, else ""."""
        return next((k for k in reversed(path) if k in self._rows or k in self._edges), "")

    def _mark_kind(self, x: Tensor, kind: ArgumentKind) -> Tensor:
        if kind.what == "ends":
            return self._edges[kind.key].marked(x)
        if not kind.what:
            return x
        of = None if kind.what == "edges" else self._rows[kind.key]
        return spread(x, x.ndim - 2 if kind.what == "inner rows" else 0, of)

    # Messages of PyTorch Geometric

    def _hooked(self, layer: Any, rules: TorchRules) -> list[Any]:
        """Register the hooks that a layer needs, if any, and return their handles."""
        is_script = isinstance(layer, torch.jit.ScriptModule)
        if is_script or layer._backward_hooks or layer._backward_pre_hooks:
            raise InputError(
                f"a {type(layer).__name__} of the network is a TorchScript module or has backward "
                "hooks, so its sums over rows would cover this rank only; use neither"
            )
        if type(layer).__name__ == "HeteroLinear":  # sorts rows, but handles each independently
            return _around(layer, _enter_unmarked)
        if type(layer).__name__ == "HGTConv":
            return self._on_columns(layer, rules)
        if type(layer).__name__ == "WLConv":
            return self._with_colours(layer, rules)
        if hasattr(layer, "to_dense_batch"):  # only aggregations have this method
            return self._on_own_rows(layer)
        if not hasattr(layer, "register_propagate_forward_pre_hook"):
            return []
        return [
            layer.register_propagate_forward_pre_hook(_fetching(layer, rules, "_user_args")),
            layer.register_edge_update_forward_pre_hook(_fetching(layer, rules, "_edge_user_args")),
        ]

    def _on_columns(self, layer: Any, rules: TorchRules) -> list[Any]:
        """Return hooks for HGTConv, a layer that concatenates the rows of all types.

        Inside the layer, tensors have no marks (see `pyg.marks`), and halo rows follow own rows.
        Only keys and values of attention are sent; all other halo rows are 0.
        """

        def enter(inputs: tuple[Any, ...], given: dict[str, Any]) -> Any:
            x_dict, edges = (*inputs, *given.values())
            if not all(isinstance(x, Spread) for x in x_dict.values()):
                raise InputError("the first argument has a tensor that lacks this rank's rows")
            rows = {name: x.of for name, x in x_dict.items()}
            rules.inside = rows, edges
            whole = {k: with_zeros(plain(x), len(x.of.vertices)) for k, x in x_dict.items()}

            def after(out: dict[str, Any]) -> dict[str, Any]:
                return {
                    name: x if x is None else spread(x[: rows[name].num_rows], 0, rows[name])
                    for name, x in out.items()
                }

            return (whole, plain(edges)), {}, after

        def bring(_: Any, inputs: Any, out: dict[str, Tensor]) -> dict[str, Tensor]:
            found, (rows, edges) = {}, rules.inside
            for name, of in rows.items():
                read = [each.relations for each in edges.values() if each.sources == of]
                key, query, value = out[name][: of.num_rows].tensor_split(3, dim=1)
                pair = spread(torch.cat([key, value], dim=1), 0, of)
                columns = rules.columns.of(pair, frozenset().union(*read))
                key, value = plain(columns).tensor_split(2, dim=1)
                found[name] = torch.cat(
                    [with_zeros(x, len(of.vertices)) for x in (key, query, value)], dim=1
                )
            return found

        return [*_around(layer, enter), layer.kqv_lin.register_forward_hook(bring)]

    def _with_colours(self, layer: Any, rules: TorchRules) -> list[Any]:
        """Return hooks that make WLConv's colours independent of the number of ranks.

        New hashes get their colours in the order of the vertices of the whole graph.
        """

        def enter(inputs: tuple[Spread, EdgeEnds], given: dict[str, Any]) -> Any:
            x, edges = inputs
            rows, known = edges.ends[1 - edges.source_row].of, dict(layer.hashmap)

            def after(out: Tensor) -> Tensor:
                hash_of = {colour: each for each, colour in layer.hashmap.items()}
                hashes = [hash_of[colour] for colour in out[: rows.num_rows].tolist()]
                pairs = sorted(zip(rows.vertices.tolist(), hashes, strict=False))
                of_ranks = self._graph.transport.gather(pairs)
                for _, each in sorted(pair for pairs in of_ranks for pair in pairs):
                    known.setdefault(each, len(known))
                layer.hashmap = known
                return spread(out.new_tensor([known[each] for each in hashes]), 0, rows)

            columns = plain(rules.columns.of(x, edges.relations))
            return (columns, plain(edges)), given, after

        return _around(layer, enter)

    def _on_own_rows(self, layer: Any) -> list[Any]:
        """Return hooks for `layer`, a PyTorch Geometric aggregation, which reduces edges per row.

        An aggregation that is known to handle each row independently gets plain tensors, without
        the marks of `plancc_runtime.pyg.marks`.
        """
        pads = _pads(layer.__class__)
        is_sum = type(layer).__name__ in ("SumAggregation", "MeanAggregation")  # take messages
        is_alone = not is_sum and all(map(_is_alone, layer.modules()))

        def enter(inputs: tuple[Any, ...], given: dict[str, Any]) -> Any:
            index, size, dim = given["index"], given["dim_size"], given["dim"]
            of = index.of if is_alone and is_end(index, False) else None
            if of is not None:
                inputs, given = plain(inputs), {k: plain(v) for k, v in given.items()}
                given["dim_size"] = int.__index__(size) if isinstance(size, Count) else size
            if pads and not all_in([inputs, given], Mark):
                # Rows are padded to the most edges of a row on any rank.
                most = given["index"].bincount(minlength=1).max()
                given = {**given, "max_num_elements": int(largest(most, self._graph.transport))}

            def mark_rows(x: Tensor) -> Tensor:
                axis = dim % x.ndim
                return spread(x, axis, of) if of and x.shape[axis] == of.num_rows else x

            return inputs, given, lambda out: changed(out, Tensor, mark_rows)

        return _around(layer, enter)

    # Dropout

    def _dropped(
        self, key: tuple[int, int], x: Tensor, rate: float, number: Tensor | None, draw: int
    ) -> Tensor:
        """Return x after dropout. The mask is a function of (key, draw, id of the row, column).

        Parameters:
            key: The seed, and the index of this call among the network's calls in training.
            number (int64[rows], optional): Id of every row of x; by default the row's position.
            draw: Index of this dropout mask in the call.
        """
        axis = x.axis if isinstance(x, Spread) else 0
        moved = plain(x).movedim(axis, 0) if x.ndim else x
        if number is None:
            number = torch.arange(len(moved), device=x.device)
        flat = moved.reshape(len(moved), prod(moved.shape[1:]))
        kept = (
            dropout(flat, rate, key_of(*key, draw), number) if rate < 1 else torch.zeros_like(flat)
        )
        found = kept.reshape(moved.shape)
        return found.movedim(0, axis) if x.ndim else found


def _fetching(layer: nn.Module, rules: TorchRules, names: str) -> Any:
    """Return a hook that fetches the halo rows of the tensors that a layer's messages read.

    `names` is the name of the layer's attribute that lists the arguments of its message function.
    """
    suffix = "_j" if getattr(layer, "flow", "") != "target_to_source" else "_i"
    read = sorted({k[:-2] for k in getattr(layer, names, ()) if k.endswith(suffix)})

    def fetch(_: Any, inputs: tuple[Any, Any, dict[str, Any]]) -> None:
        edges, _, given = inputs
        if isinstance(edges, EdgeEnds) and edges.axis:
            values = [given.get(name) for name in read]
            first = [each[0] if isinstance(each, list | tuple) else each for each in values]
            rows = [k for k in first if isinstance(k, Spread) and k.of == edges.sources]
            rules.columns.fetch(rows, edges.relations)

    return fetch


State = list[tuple[nn.Module, dict[str, Tensor | None], dict[str, Any]]]
"""Modules, each with its buffers and its attributes that are numbers."""


def _state_of(layer: nn.Module) -> State:
    """Return all buffers and numbers that the forward pass of a layer may change."""
    return [
        (
            each,
            dict(each._buffers),
            {k: x for k, x in vars(each).items() if type(x) in (int, float)},
        )
        for each in layer.modules()
    ]


def _cloned(state: State) -> State:
    """Return the state with copies of the buffers."""
    return [
        (each, {k: x if x is None else x.detach().clone() for k, x in buffers.items()}, numbers)
        for each, buffers, numbers in state
    ]


def _put(state: State) -> None:
    """Give the modules in `state` back the buffers and number attributes that it holds."""
    for module, buffers, numbers in state:
        module._buffers.update(buffers)
        vars(module).update(numbers)


def _constants_of(model: nn.Module) -> dict[str, Any]:
    """Return a model's tensors, arrays and floats, except parameters and buffers, by name.

    Floats inside a list, tuple or dict are left out.
    """
    return {
        ".".join(map(str, (*filter(None, [name]), each, *path))): x
        for name, layer in model.named_modules()
        for each, value in vars(layer).items()
        if each not in ("_parameters", "_buffers", "_modules")
        for path, x in leaves_of(value)
        if _is_array(x) or (isinstance(x, float) and not path)
    }


def _is_array(x: Any) -> bool:
    return isinstance(x, Tensor | np.ndarray) and not isinstance(x, Mark) and x.dtype != object


def _stamps(constants: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    """Return, for every constant, a value that changes if the constant is replaced or changed."""
    return {name: (id(x), version(x)) for name, x in constants.items()}


def _random_state() -> int:
    """Return a hash of the states of Python's and numpy's global random generators."""
    return crc32(pickle.dumps((random.getstate(), np.random.get_state())))  # noqa: NPY002  users draw so


def _around(layer: nn.Module, enter: Enter) -> list[Any]:
    """Register hooks that change a layer's arguments and output; return their handles.

    `enter` maps the arguments to the new arguments and to a function that maps the output.
    """
    left: list[Callable[[Any], Any]] = []

    def before(_: Any, inputs: tuple[Any, ...], given: dict[str, Any]) -> Any:
        inputs, given, after = enter(inputs, given)
        left.append(after)
        return inputs, given

    return [
        layer.register_forward_pre_hook(before, with_kwargs=True),
        layer.register_forward_hook(lambda _, inputs, out: left.pop()(out)),
    ]


def _enter_unmarked(inputs: tuple[Any, ...], given: dict[str, Any]) -> Any:
    """Remove the marks of a layer's arguments; the output gets the first argument's mark.

    A `Mark` says what a tensor's entries belong to. Removal suits layers whose result for a row
    depends on this row only, although they call functions that mix rows.
    """
    x = next(iter(all_in(inputs, Mark)), None)
    return plain(inputs), given, lambda out: out if x is None else alike(out, x)


@cache
def _pads(kind: type[nn.Module]) -> bool:
    """Return whether an aggregation pads its input to the same number of edges for all rows."""
    return "max_num_elements" in signature(kind.forward).parameters


def _is_alone(layer: Any) -> bool:
    """Return whether a module inside an aggregation is known to handle each row independently."""
    kind = type(layer)
    *package, module = kind.__module__.split(".")
    is_own = package == ["torch_geometric", "nn", "aggr"] and module != "equilibrium"
    is_known = package == ["torch", "nn", "modules"] and kind.__name__ in ALONE
    return (is_own or is_known) and not getattr(layer, "dropout", 0)


def tensors_in(value: Any) -> list[tuple[Path, Tensor]]:
    """Return the tensors in a value, with their paths; raise InputError for unknown containers."""
    leaves = [*leaves_of(value)]
    for _, each in leaves:
        members = () if isinstance(each, Tensor) else getattr(each, "__dict__", {}).values()
        if any(isinstance(x, Tensor) for x in (*members, getattr(each, "edge_index", None))):
            raise InputError(
                f"an argument is a {type(each).__name__}, which has tensors; pass the tensors "
                "themselves, such as `data.x, data.edge_index`"
            )
    return [(path, each) for path, each in leaves if isinstance(each, Tensor)]


def _path_text(path: Path) -> str:
    """Return an argument's name followed by the keys that lead to a tensor in it, as in x['a'][0].

    Error messages contain this text.
    """
    return str(path[0]) + "".join(f"[{key!r}]" for key in path[1:])


def _fitting(x: Tensor, rows: TypeRows | None, edges: TypeEdges | None) -> list[str]:
    """Return what a tensor may hold, judged by its shape: "rows", "ends" (see `ArgumentKind.what`).

    "beyond" is added if the tensor may be an edge index, but has a number that is no local row.
    """
    found = []
    if x.ndim and edges is not None:
        if x.ndim == 2 and len(x) == 2 and x.dtype == torch.int64:
            found.append("ends")
            bounds = torch.tensor([[len(edges.sources.vertices)], [edges.targets.num_rows]])
            found += ["beyond"] * bool(((x < 0) | (x >= bounds.to(x.device))).any())
        if len(x) == edges.index.shape[1]:
            found.append("edges")
    if x.ndim and rows is not None:
        if len(x) == rows.num_rows:
            found.append("rows")
        if x.ndim > 2 and x.shape[-2] == rows.num_rows:
            found.append("inner rows")
    return found
