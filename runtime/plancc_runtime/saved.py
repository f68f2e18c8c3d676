"""Saved networks: read a network, and the description of it, from a file of weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from itertools import pairwise
from os import fspath
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from plancc.errors import InputError
from plancc.files import StrPath
from plancc.registry import check_choice
from plancc.text import shown
from plancc.version import __version__
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.nn import MODELS, is_own
from plancc_runtime.nn.decoders import DECODERS
from plancc_runtime.nn.network import ACTIVATIONS, NORMS, Network, NetworkOptions
from plancc_runtime.targets import TARGETS, OneClass
from plancc_runtime.weights import Shapes, read_description, read_weights

FORMAT = 1
MOST_LAYERS = 1024
"""Largest number of layers of a network, unless its file holds more arrays."""
NO_FUNCTION = ("order",)
"""Options of convolutions that do not change the result of a convolution."""
SMALL = 1 << 24
"""Largest number of weights of a network, unless its file holds more."""


@dataclass(frozen=True)
class Description:
    """Description of a network; stored as JSON in the file of its weights.

    Attributes:
        dims: Widths d_0..d_L; d_L is the number of classes.
        options: Options of the network and of its convolutions, defaults included.
        normalize_features: Whether rows of features are divided by their sum of absolute values.
        target: Kind of targets that the network predicts (`plancc_runtime.targets.TARGETS`).
    """

    dims: tuple[int, ...]
    options: NetworkOptions
    normalize_features: bool = False
    target: str = OneClass.name
    random_labels: bool = False

    @classmethod
    def of(cls, network: Network, **own: Any) -> Self:
        """Return the description of a network.

        `own` has the values of `normalize_features`, `target` and `random_labels`, by name.
        """
        options = asdict(network.options)
        if not is_own(network.options.model):
            used = asdict(network.convs[0].options)
            options["conv"] = {name: v for name, v in used.items() if name not in NO_FUNCTION}
        return cls(tuple(network.dims), NetworkOptions(**options), **own)

    def to_dict(self) -> dict[str, Any]:
        """Return the whole description, ready for JSON."""
        own = asdict(self)
        options = own.pop("options")
        return {"format": FORMAT, "plancc": __version__, **own, **options}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any], name: str) -> Self:
        """Return the description that `to_dict` wrote; raise InputError if it is not valid."""
        rest = dict(found)
        version, writer = rest.pop("format", None), rest.pop("plancc", "?")
        if version != FORMAT:
            raise InputError(
                f"{name}: its description has format {shown(version, 20)}; this version of plancc "
                f"({__version__}) reads {FORMAT}"
            )
        dims = rest.pop("dims", None)
        if not (isinstance(dims, list) and len(dims) > 1 and all(map(_is_width, dims))):
            raise InputError(f"{name}: 'dims' must be a list of two or more widths")
        own = _fields_of(cls, rest, name, ("dims", "options"))
        options = _fields_of(NetworkOptions, rest, name, ())
        if rest:
            raise InputError(
                f"{name}: plancc {shown(writer, 20)} wrote the file; this version ({__version__}) "
                f"does not know the option '{shown(min(rest), 40)}' of the file's network"
            )
        for key, value in options.get("conv", {}).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise InputError(f"{name}: '{shown(key, 40)}' of 'conv' must be a finite number")
        model = options.get("model", NetworkOptions.model)
        for given, of, key, choices in (
            (options, NetworkOptions, "activation", ACTIVATIONS),
            (options, NetworkOptions, "norm", NORMS),
            (options, NetworkOptions, "model", [model] if is_own(model) else MODELS),
            (options, NetworkOptions, "decoder", ("", *DECODERS)),
            (own, cls, "target", TARGETS),
        ):
            try:
                value = given.get(key, getattr(of, key))
                check_choice(key, value, choices)
            except InputError as error:
                raise InputError(f"{name}: {error}") from None
        return cls(tuple(dims), NetworkOptions(**options), **own)

    @classmethod
    def read(cls, path: StrPath) -> Self:
        """Return the description in a file of weights, checked against the sizes of the arrays."""
        name = fspath(path)
        found, shapes = read_description(path)
        if found is None:
            raise InputError(
                f"{name}: does not describe the network of the weights, because an old version or "
                "another program wrote the file; load the file with `init` and the options of the "
                "network, and save the weights again"
            )
        description = cls.from_dict(found, name)
        description._check_size(shapes, name)
        return description

    def _check_size(self, shapes: Shapes, name: str) -> None:
        """Raise InputError if the file is too small for the network, before the network exists."""
        layers = len(self.dims) - 1
        if layers > max(MOST_LAYERS, len(shapes)):
            raise InputError(
                f"{name}: holds {len(shapes)} arrays, fewer than a network of {layers} layers has"
            )
        if is_own(self.options.model):
            return  # its constructor decides
        there = max(SMALL, sum(math.prod(shape) for shape in shapes.values()))
        heads = self.options.conv.get("heads", 1)
        *products, last = (a * b for a, b in pairwise(self.dims))
        if sum(products) + last * (heads if isinstance(heads, int) else 1) > there:
            widths = " x ".join(map(str, self.dims[:8]))
            raise InputError(f"{name}: has fewer weights than a network of {widths} needs")

    def network(self, path: StrPath, dtype: torch.dtype) -> Network:
        """Return the network with the file's weights, in evaluation mode. Not collective."""
        name, model = fspath(path), self.options.model
        if is_own(model):
            raise InputError(
                f"{name}: its network is class {model}; construct it in your script, and pass the "
                "arrays to `load_state_dict`, without 'model.' in the names; or use plancc predict"
            )
        try:
            network = Network(self.dims, self.options, 0, dtype)
        except Exception as error:  # options of convolutions from a file may be anything
            why = shown(error)
            if not isinstance(error, InputError):
                why = f"describes no network ({why})"
            raise InputError(f"{name}: {why}") from error
        shapes = {key: tuple(value.shape) for key, value in network.state_dict().items()}
        weights = read_weights(path, shapes)
        network.load_state_dict({key: torch.from_numpy(w) for key, w in weights.items()})
        return network.eval()


class TrainedNetwork(nn.Module):
    """A network from a file of weights, called on a graph; see `plancc_runtime.load_network`.

    The parameters of `network` can be trained further.
    """

    def __init__(self, network: Network, description: Description) -> None:
        super().__init__()
        self.network, self.description = network, description

    def forward(self, graph: LayerGraph, x: Tensor | None = None) -> Tensor:
        """Return the last layer's outputs before softmax or sigmoid: Tensor[num_rows, d_L].

        Collective. x has features as in the plan, Tensor[num_rows, d_0]; None: the graph's
        features.
        """
        if x is None:
            x = getattr(graph, "features", None)
        if x is None:
            raise InputError("the plan has no features; pass x")
        width = self.description.dims[0]
        if x.ndim != 2 or x.shape[1] != width:
            raise InputError(
                f"x has shape {list(x.shape)}, but the network needs features of width {width}"
            )
        if self.description.normalize_features:
            x = functional.normalize(x, p=1, dim=1)
        x = self.network.standardized(x, graph.row_type)
        return self.network([graph] * len(self.network.convs), x)

    def probabilities(self, outputs: Tensor) -> Tensor:
        """Return every class's probability, Tensor[num_rows, d_L], from outputs of `forward`."""
        found = self.predictions(outputs)
        if "probability" not in found:
            raise InputError("this network predicts numbers, which have no probabilities")
        return found["probability"]

    def predictions(self, outputs: Tensor) -> dict[str, Tensor]:
        """Convert outputs of `forward` to columns of predictions (`targets.Target.predictions`)."""
        return TARGETS[self.description.target].predictions(outputs)


def load_network(
    path: StrPath, dtype: torch.dtype | None, device: torch.device | str
) -> TrainedNetwork:
    """Return the network in a file, as `plancc_runtime.load_network` does; needs torch."""
    description = Description.read(path)
    network = description.network(path, dtype or torch.get_default_dtype())
    return TrainedNetwork(network.to(device), description).eval()


_KINDS: dict[type, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    str: ((str,), "text"),
    float: ((int, float), "a number"),
    dict: ((dict,), "an object"),
}


def _is_width(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**31


def _fields_of(kind: type, rest: dict[str, Any], name: str, but: Sequence[str]) -> dict[str, Any]:
    """Take the dataclass `kind`'s fields, except `but`, out of `rest`; return checked values."""
    taken = {}
    for each in fields(kind):
        if each.name in but or each.name not in rest:
            continue
        value = taken[each.name] = rest.pop(each.name)
        default = each.default if each.default is not MISSING else {}
        kinds, words = _KINDS[type(default)]
        if not isinstance(value, kinds) or isinstance(value, bool) != isinstance(default, bool):
            raise InputError(f"{name}: '{each.name}' must be {words}")
        # all numbers are rates; NaN fails too
        if isinstance(default, float) and isinstance(value, int | float) and not 0 <= value < 1:
            raise InputError(f"{name}: '{each.name}' must be at least 0 and below 1")
    return taken
