"""Calls of torch's functions, and tables that list the functions to which a rule applies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from plancc.errors import InputError
from plancc_runtime.pyg.trees import changed


def names(words: str) -> frozenset[str]:
    return frozenset(words.split())


OPERATORS = names("__getitem__ __setitem__ __len__ __iter__ __repr__ __format__ __hash__")
RANDOM = names(
    "rand randn randint randperm rand_like randn_like randint_like normal bernoulli bernoulli_ "
    "multinomial uniform_ normal_ exponential_ rrelu gumbel_softmax random_ cauchy_ log_normal_ "
    "geometric_ poisson binomial rrelu_"
)
DROPOUTS = names(
    "dropout dropout_ alpha_dropout feature_alpha_dropout feature_dropout dropout1d dropout2d "
    "dropout3d"
)
MADE = names("zeros ones full empty new_zeros new_ones new_full new_empty arange")
ASKED = names(
    "dim ndim device dtype layout is_cuda requires_grad grad_fn is_floating_point data_ptr "
    "is_complex is_sparse is_sparse_csr is_sparse_csc is_contiguous is_leaf element_size "
    "is_quantized is_nested is_mkldnn get_device _version names has_names is_meta is_cpu "
    "is_inference requires_grad_ retain_grad __repr__ __format__ __hash__ names"
)
"""Functions that return a property of a tensor."""
SIZED = names("view reshape expand repeat broadcast_to unflatten narrow __getitem__ __setitem__")
"""Functions, besides `MADE`, that have sizes among their arguments."""
SIZES = names("size shape numel __len__")
SAME = names(
    "to type type_as float double half bfloat16 long int bool cpu cuda contiguous clone detach"
)
"""Functions that copy their first argument."""
SUMS = names("sum mean var std max min amax amin any all norm")
PRODUCTS = names("matmul mm bmm rmatmul einsum")
"""Products of tensors; such a product may sum over rows."""
ALONG: dict[str, tuple[int, Any]] = {
    **dict.fromkeys(SUMS, (1, None)),
    **dict.fromkeys(names("softmax log_softmax logsumexp cumsum cumprod prod"), (1, None)),
    **dict.fromkeys(names("argmax argmin gather select narrow flip"), (1, None)),
    **dict.fromkeys(names("sort argsort glu"), (1, -1)),
    **dict.fromkeys(names("normalize cosine_similarity"), (2, 1)),
    **dict.fromkeys(names("unbind cat"), (1, 0)),
    **dict.fromkeys(names("split chunk tensor_split"), (2, 0)),
    **dict.fromkeys(names("topk cross linalg_cross"), (2, -1)),
    **dict.fromkeys(names("linalg_norm linalg_vector_norm layer_norm rms_norm"), (2, None)),
    **dict.fromkeys(names("roll repeat_interleave norm"), (2, None)),
}  # fmt: skip
"""Functions that work along an axis: the position of the argument `dim`, and its default."""
ROW_BY_ROW = PRODUCTS | names("repeat stack linear one_hot gru_cell lstm_cell addmm baddbmm")
"""Functions that handle each row independently, if `axes.places_of_rows` finds the row axes.

These functions do so too: functions that run only pointwise operations and operations of
`KEEP_ROWS`, and functions in `ALONG` if they work along another axis."""
KEEP_ROWS = names(
    "transpose permute t view _unsafe_view unsqueeze expand alias clone copy fill zero zeros_like "
    "ones_like full_like empty_like floor_divide hardswish log_sigmoid_forward _prelu_kernel "
    "identity"
)
"""Operations that handle each row independently, although torch does not tag them as pointwise."""
SAME_AS = {"concat": "cat", "concatenate": "cat", "multiply": "mul", "rmul": "mul"}
SAME_AS |= {"not_equal": "ne", "linalg_matmul": "matmul"}
"""Other names of functions, and the name that the tables above and the rules use instead."""
ALIASES = {"dim": ("dim", "axis", "dims"), "keepdim": ("keepdim", "keepdims")}
"""Names that torch accepts for an argument, by the name that this module uses."""
KEPT = names("view reshape unsqueeze repeat expand expand_as view_as")
"""Functions whose result has row numbers if their argument has."""
FAILS = (RuntimeError, TypeError, ValueError, IndexError)
"""Errors that functions raise if their arguments do not fit."""
INTO_SUMS = {"scatter_add", "index_add"}
SCATTERED = INTO_SUMS | {"scatter_reduce", "scatter", "index_reduce", "index_copy"}
LIKE_ROWS = MADE | names("dim ndim dtype device layout is_cuda is_cpu is_floating_point is_sparse")
"""Functions whose result does not depend on a tensor's values, so a `Message` needs no values."""
ENDS = "computes with row numbers of this rank, such as ends of edges and ranges of rows"
SPECIAL = names("squeeze embedding nonzero unique lstm gru batch_norm instance_norm")
"""Functions for which `TorchRules` has a separate method, of the same name after "_"."""


class Call(NamedTuple):
    """A call of one of torch's functions; `name` is the function's name in this module's tables."""

    name: str
    func: Callable[..., Any]
    args: Sequence[Any]
    kwargs: dict[str, Any]

    def run(self) -> Any:
        """Run the function and return its result.

        The result has no mark (see `pyg.marks`), unless it is a marked argument that the function
        changed in place.
        """
        return self.func(*self.args, **self.kwargs)

    def get(self, place: int, name: str, default: Any = None) -> Any:
        """Return the argument with this position or name; `default` if the call lacks it."""
        if place < len(self.args):
            return self.args[place]
        named = [k for k in ALIASES.get(name, (name,)) if k in self.kwargs]
        return self.kwargs[named[0]] if named else default

    def dims(self, place: int, default: Any, ndim: int) -> set[int]:
        """Return the axes, from 0, in argument `dim` (at position `place`); all if it is None."""
        found = self.get(place, "dim", default)
        if self.name == "flip" and isinstance(found, int):
            found = self.args[1:]
        if self.name in ("layer_norm", "rms_norm"):
            found = range(-len(self.get(1, "normalized_shape")), 0)
        if isinstance(found, bool):  # this argument is `unbiased` of `var` and `std`
            found = None
        found = range(ndim) if found is None or found == () else found
        return {k % ndim for k in ([found] if isinstance(found, int) else found)} if ndim else set()


def refuse(call: Call, why: str) -> NoReturn:
    """Raise InputError for a call whose result would depend on the number of ranks.

    `why` says what the call does, in words that follow its name in the message.
    """
    raise InputError(
        f"`{call.name}` {why}, so its result would depend on the number of ranks; move it out of "
        "the network, or replace the layer"
    )


@cache
def name_of(func: Any) -> str:
    """Return the name under which the tables of this module list a function."""
    name: str = func.__name__ if hasattr(func, "__name__") else type(func).__name__
    if name == "__get__":
        return str(func.__self__.__name__)
    name = name.strip("_") if name.startswith("__") and name not in OPERATORS else name
    name = name.removeprefix("special_")
    return SAME_AS.get(name, name)


class _Operations(TorchDispatchMode):
    """Context manager that records which of torch's low-level operations run in the context."""

    def __init__(self) -> None:
        super().__init__()
        self.ran: list[Any] = []

    def __torch_dispatch__(
        self, func: Any, _: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        self.ran.append(func)
        return func(*args, **(kwargs or {}))


def _is_pointwise(operation: Any) -> bool:
    """Whether torch tags an operation as pointwise.

    A tag of any overload counts, unless the operation is a reduction (`SUMS`).
    """
    name = operation.overloadpacket.__name__.rstrip("_")
    if name == "scalar_tensor":  # makes a tensor of a number
        return True
    packet = getattr(torch.ops.aten, name, operation.overloadpacket)
    each = [operation] if name in SUMS else [getattr(packet, k) for k in packet.overloads()]
    return any(torch.Tag.pointwise in k.tags for k in each)


_beyond_pointwise: dict[tuple[Any, ...], frozenset[str]] = {}


MOST_AXES = 16
"""A whole number below this bound may be an axis, on which a function's operations depend."""


def _decides(value: Any) -> Any:
    """Return the properties of an argument that may decide which operations a function runs."""
    if isinstance(value, Tensor):
        return Tensor, value.ndim, value.dtype
    if isinstance(value, list | tuple):
        return type(value), *map(_decides, value)
    is_axis = type(value) is int and abs(value) < MOST_AXES
    return type(value), value if is_axis or type(value) in (bool, str) else None


def beyond_pointwise(call: Call) -> frozenset[str]:
    """Return the names of the operations that a function runs, except pointwise operations.

    The result is {""} if the function fails, and {"identity"} if it only returns an argument.
    """
    given = (*call.args, *chain.from_iterable(sorted(call.kwargs.items())))
    key = (call.name, *map(_decides, given))
    with suppress(TypeError):  # arguments that have no hash
        if key in _beyond_pointwise:
            return _beyond_pointwise[key]
    found = frozenset({""})
    args, kwargs = changed(
        (call.args, call.kwargs), Tensor, lambda x: torch.empty_like(x, device="meta")
    )
    with suppress(*FAILS), _Operations() as noted:
        out = call.func(*args, **{k: x for k, x in kwargs.items() if k != "device"})
        others = (k.overloadpacket for k in noted.ran if not _is_pointwise(k))
        if noted.ran:
            found = frozenset(k.__name__.rstrip("_") for k in others)
        elif any(out is x for x in args):
            found = frozenset({"identity"})
    with suppress(TypeError):
        _beyond_pointwise[key] = found
    return found
