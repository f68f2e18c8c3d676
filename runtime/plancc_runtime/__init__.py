"""The runtime: training on plans. It imports no partitioner, no graph reader and no terminal.

`plancc_runtime.train.train` calls the stages in order: slice -> layout + transport -> layers ->
loss -> adjoint -> optimiser. Modules of the runtime import torch and MPI only at first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from plancc.files import StrPath
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
    plan: StrPath | Slice,
    transport: Transport | str = "auto",
    dtype: torch.dtype | None = None,
    device: torch.device | str = "cpu",
    threads: int | None = None,
) -> Graph:
    """Return this rank's share of a plan, for a user's own training script. Collective.

    Parameters:
        plan: A plan file (every rank reads its own slice), or this rank's slice.
        transport: How the ranks exchange messages. "auto" follows the launcher (mpirun, srun,
            torchrun or none). Other names: see `plancc_runtime.launch.open_transport`.
        dtype (torch.dtype, optional): Dtype of the plan's values, and of every tensor x that is
            passed to a method of the graph: float32 or float64; by default torch's default dtype.
        device: Device of the tensors. With "cuda", the ranks of a machine share its devices
            round robin.
        threads: Number of threads that torch uses in this process. By default the number in
            OMP_NUM_THREADS; if that is not set, an equal share of the machine's usable cores.

    Raises:
        InputError, PlanError, BackendUnavailable: On all ranks, even if only one rank failed; the
            error names the ranks that failed.
    """
    from plancc_runtime.launch import need_torch, open_transport

    if isinstance(transport, str):
        transport = open_transport(transport)
    with transport.agreement():
        need_torch("the runtime")
    from plancc_runtime.graph import open_graph

    return open_graph(plan, transport, dtype, device, threads)


def open_typed(plan: StrPath | Slice, **options: Any) -> TypedGraph:
    """Return this rank's share of a plan with vertex types. Collective.

    The result multiplies with the matrix of one relation at a time (`TypedGraph.product`).

    Parameters:
        **options: Parameters of `open`, which opens the union of all types.

    Raises:
        InputError, PlanError, BackendUnavailable: See `open`; InputError also if the plan has no
            types.
    """
    union = open(plan, **options)
    from plancc_runtime.typed import TypedGraph

    return TypedGraph(union)


def load_network(
    path: StrPath, dtype: torch.dtype | None = None, device: torch.device | str = "cpu"
) -> TrainedNetwork:
    """Return the network, with its weights, from a file that `plancc-run --save` wrote.

    This function is not collective, but a call of the network is.

        network = plancc_runtime.load_network("weights.npz")
        outputs = network(graph)  # this rank's rows; collective

    Parameters:
        path: File of weights that also describes their network. Nothing in the file is executed
            or unpickled.
        dtype (torch.dtype, optional): The dtype of the graph on which the network is called,
            float32 or float64; by default torch's default dtype.

    Returns:
        A module in evaluation mode, that is, without dropout. The module normalises features as
        training did.

    Raises:
        InputError: If the file cannot be read or does not describe its network, or if its arrays do
            not fit the network.
        BackendUnavailable: If torch is not installed.
    """
    from plancc_runtime.launch import need_torch

    need_torch("a network")
    from plancc_runtime import saved

    return saved.load_network(path, dtype, device)
