"""The network of a run, with its initial weights."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from os import fspath
from typing import Any

import torch

from plancc.errors import InputError
from plancc.files import StrPath
from plancc.text import shown
from plancc_runtime.data import LocalData
from plancc_runtime.nn import is_own, option_names
from plancc_runtime.nn.network import Network, NetworkOptions
from plancc_runtime.options import TrainOptions
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.messages import name_ranks
from plancc_runtime.weights import read_description, read_weights

NETWORK_OPTIONS = ("model", "activation", "norm", "residual", "dropout", "standardize_features")
"""Options of `TrainOptions` that `NetworkOptions` has under the same names."""


def make_network(
    options: TrainOptions,
    data: LocalData,
    transport: Transport,
    dtype: torch.dtype,
    task_fields: Mapping[str, Any] | None = None,
) -> Network:
    """Return the network that the options ask for, the same on all ranks. Collective."""
    hidden = [options.hidden] * (options.layers - 1)
    declared = option_names(options.model, "types" in (task_fields or {}))
    kind = Network
    if is_own(options.model):
        from plancc_runtime.pyg.own_network import OwnNetwork

        kind = OwnNetwork
    with transport.agreement():
        network = kind(
            [data.num_features, *hidden, data.num_classes],
            NetworkOptions(
                conv=options.conv_options(declared),
                input_dropout=options.first_dropout,
                **{name: getattr(options, name) for name in NETWORK_OPTIONS},
                **(task_fields or {}),
            ),
            options.seed,
            dtype,
        ).to(data.features.device)
    if network.standardization is not None:
        network.standardization.fit(data.features, transport, data.where)
    with transport.agreement():
        if options.init is not None:
            _initialise(network, options.init)
    state = network.state_dict()
    values = b"".join(w.cpu().numpy().tobytes() for w in state.values())
    found = transport.ranks_by_value(sha256(values).hexdigest())
    if len(found) > 1:
        whose = " differ from those of ".join(map(name_ranks, found.values()))
        if options.init is not None:
            said = f"{fspath(options.init)}: the initial weights (`init`) of {whose}"
        else:
            said = f"the initial weights that `seed` {options.seed} gives on {whose}"
            said += "; are their libraries, features or plans different?"
        transport.agree(InputError(said))
    return network


def _initialise(network: Network, path: StrPath) -> None:
    """Set the network's weights, and means and scales of features if there are any, from a file."""
    description, there = read_description(path)
    model = None if description is None else description.get("model")
    if isinstance(model, str) and model != network.options.model:
        raise InputError(
            f"{fspath(path)}: holds weights of model {shown(model, 40)}, but this run trains "
            f"{network.options.model}; set `model`"
        )
    shapes = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    known = {name for name in there if name.startswith("standardization.")}
    own = {k: shape for k, shape in shapes.items() if not k.startswith("standardization.")}
    given = read_weights(path, own)  # first, because a wrong network is the more important fault
    if known and network.standardization is None:
        raise InputError(
            f"{fspath(path)}: these weights were trained on standardised features; set "
            "`scale_features` to columns too"
        )
    if known:
        given |= read_weights(path, {k: shape for k, shape in shapes.items() if k not in own})
    network.load_state_dict({k: torch.from_numpy(w) for k, w in given.items()}, strict=bool(known))
