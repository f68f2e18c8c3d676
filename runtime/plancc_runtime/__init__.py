"""THE RUNTIME. Replays plans; knows no partitioner, no graph format, no terminal.

`plancc_runtime.train.train` is the way through it: slice -> layout + transport -> layers -> loss
-> adjoint -> optimiser. `open` and the layers of `plancc_runtime.nn` are for training scripts of
the user's own. Torch and MPI are imported by the modules that need them, at first use.
"""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

from plancc_runtime import nn

if TYPE_CHECKING:
    import torch

    from plancc_runtime.graph import Graph
    from plancc_runtime.saved import TrainedNetwork
    from plancc_runtime.slices import Slice
    from plancc_runtime.transport.base import Transport
    from plancc_runtime.typed import TypedGraph

__all__ = ["Graph", "TypedGraph", "load_network", "nn", "open", "open_typed"]


def __getattr__(name: str) -> Any:
    if name == "pyg":
        return import_module("plancc_runtime.pyg")
    modules = {"Graph": "graph", "TypedGraph": "typed"}
    if name not in modules:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"plancc_runtime.{modules[name]}"), name)


def open(
    plan: str | PathLike[str] | Slice,
    transport: Transport | str = "auto",
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
    threads: int | None = None,
) -> Graph:
    """This rank's share of a plan, for a training script of the user's own. Collective.

    Parameters:
        plan: A plan file (every rank reads its slice only), or that slice.
        transport: How the ranks reach each other; "auto": as the launcher (mpirun, srun, torchrun,
            none) started them; the other names are those of `plancc_runtime.launch.open_transport`.
        dtype (torch.dtype, optional): float32 or float64, by default torch's own: of the plan's
            values and of every x.
        device: Device of the tensors; "cuda": one of the machine's devices for each of its ranks.
        threads: Threads of torch in this process; by default as OMP_NUM_THREADS says, else this
            machine's usable cores, shared among its ranks.

    Raises:
        InputError, PlanError, BackendUnavailable: On all ranks, also if only one of them failed;
            the sentence names the ranks.
    """
    from plancc_runtime.launch import need_torch, open_transport

    if isinstance(transport, str):
        transport = open_transport(transport)
    with transport.agreement():
        need_torch("the runtime")
    from plancc_runtime.graph import open_graph

    return open_graph(plan, transport, dtype, device, threads)


def open_typed(plan: str | PathLike[str] | Slice, **options: Any) -> TypedGraph:
    """This rank's share of a plan with types, for products by relation. Collective.

    Parameters:
        **options: As of `open`, which gives the union of all types.

    Raises:
        InputError, PlanError, BackendUnavailable: As `open`; for a plan without types.
    """
    union = open(plan, **options)
    from plancc_runtime.typed import TypedGraph

    return TypedGraph(union)


def load_network(
    path: str | PathLike[str], dtype: torch.dtype | None = None, device: torch.device | str = "cpu"
) -> TrainedNetwork:
    """The network of a file that `plancc-run --save` wrote, with its weights; not collective.

        network = plancc_runtime.load_network("weights.npz")
        outputs = network(graph)  # this rank's rows; collective

    Parameters:
        path: Weights with the description of their network. Nothing in it is executed or unpickled.
        dtype (torch.dtype, optional): float32 or float64, by default torch's own; that of the
            graph.

    Returns:
        A module in evaluation mode, without dropout. It normalises features as in training.

    Raises:
        InputError: If the file cannot be read, does not describe its network, or its arrays do not
            fit.
        BackendUnavailable: If torch is not installed.
    """
    from plancc_runtime.launch import need_torch

    need_torch("a network")
    from plancc_runtime import saved

    return saved.load_network(path, dtype, device)
