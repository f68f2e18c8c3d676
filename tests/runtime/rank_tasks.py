"""What ranks of the pool do for several tests: functions of their transport (`ranks.Pool.call`)."""

import io
import runpy
import sys
from contextlib import redirect_stdout
from unittest.mock import patch

import numpy as np
import torch
from launcher import alone

import plancc
from plancc_cli import ranks as job
from plancc_runtime.data import load_data
from plancc_runtime.execution.choice import execution_of
from plancc_runtime.execution.figures import words_of_pass
from plancc_runtime.layouts.order import order_rows
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.networks import make_network
from plancc_runtime.options import TrainOptions
from plancc_runtime.tasks import task_of
from plancc_runtime.train import train

RATE = 0.5


def trained(transport, plan, options):
    """The result of `train` and its traffic; the plan is a file, or its header and all slices."""
    if isinstance(plan, tuple):
        header, parts = plan
        plan = header, parts[transport.rank]
    before = transport.traffic.as_array()
    result = train(plan, TrainOptions(**options), transport)
    return result, transport.traffic.as_array() - before


def looped(transport, header, parts, options, epochs):
    """Losses, weights, outputs of all rows, and traffic counted and told, of a plain loop."""
    options = TrainOptions(dtype="float64", threads=1, **options)
    part = order_rows(parts[transport.rank], options.row_order, options.pipeline, transport)
    data = load_data(part, transport, torch.float64, options)
    network = make_network(options, data, transport, torch.float64)
    resources = Resources(
        transport,
        torch.float64,
        overlap="overlap" in options.passes,
        wire=options.wire,
        kernel=options.kernel,
    )
    execution = execution_of(task_of(header, options), part, data, resources)
    traffic = [transport.traffic.as_array()]
    data = execution.prepare(network)
    traffic.append(transport.traffic.as_array())
    train = data.splits["train"].numpy()
    losses, told = [], []
    for epoch in range(epochs):
        view = execution.view(epoch)
        fixed = view.fixed is not None
        told.append(int(words_of_pass(network, view.graphs, fixed=fixed).sum()))
        network.train()
        z = network(view.graphs, view.rows_of(data.features), view.fixed, epoch)
        outputs = np.arange(part.num_rows) if view.outputs is None else view.outputs.numpy()
        place = {r: k for k, r in enumerate(outputs.tolist())}
        loss = torch.nn.functional.cross_entropy(
            z[[place[r] for r in train.tolist()]], data.labels[train], reduction="sum"
        )
        loss = loss / data.split_sizes["train"]
        network.zero_grad()
        with torch.autograd.set_multithreading_enabled(False):
            loss.backward()
        traffic.append(transport.traffic.as_array())
        sums = [torch.zeros_like(w) if w.grad is None else w.grad for w in network.parameters()]
        flat = torch.cat([loss.detach().reshape(1), *(g.reshape(-1) for g in sums)])
        transport.allreduce_sum(flat)
        losses.append(flat[0].item())
        with torch.no_grad():
            pieces = flat[1:].split([w.numel() for w in network.parameters()])
            for w, piece in zip(network.parameters(), pieces, strict=True):
                w -= RATE * piece.view_as(w)
    before = transport.traffic.as_array()
    network.eval()
    view = execution.whole()
    with torch.no_grad():
        z = network(view.graphs, view.rows_of(data.features), view.fixed)
    evaluation = transport.traffic.as_array() - before
    return {
        "losses": losses,
        "weights": {k: w.detach().numpy() for k, w in network.state_dict().items()},
        "vertices": part.global_id,
        "outputs": z.numpy(),
        "traffic": np.diff(traffic, axis=0),
        "told": told,
        "evaluation": evaluation,
        "figures": execution.figures(network),
        "off": execution.off,
        "evaluates": execution.evaluates,
        "features": len(data.features),
        "rows": [graph.num_outputs for graph in execution.view(0).graphs],
    }


def in_python(transport, plan, **options):
    """What `plancc.train` finds; it opens a transport of its own."""
    found = plancc.train(plan, **options)
    return found.history["loss"], found.predictions


def script(transport, path, *words):
    """What a script prints; it opens a transport of its own."""
    output = io.StringIO()
    with patch.object(sys, "argv", [str(path), *map(str, words)]), redirect_stdout(output):
        runpy.run_path(str(path), run_name="__main__")
    return output.getvalue()


def without(transport, missing, *words):
    """plancc-run where this rank has not the library that `missing` names for it, if any."""
    lacking = {name: None for name in [missing.get(transport.rank)] if name}
    with patch.dict(sys.modules, lacking), patch.object(job, "ALONE", 0.01):
        return alone(*words)
