"""plancc: compiles a sparse graph into a communication plan for distributed GNN training.

    import plancc

    plan = plancc.compile("graph.mtx", data="graph.npz", model="hp", num_parts=4)
    print(plan.metrics().volume)
    plan.part(0).send_mask(1)          # rows that part 0 sends to part 1
    plan.save("plan.h5")
    plan = plancc.load("plan.h5")
    trained = plancc.train(plan, model="sage", epochs=50)   # needs torch
    trained.predictions

The compiler imports no MPI, no torch and no library for terminals. Every public name is imported
at its first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plancc.errors import (
        BackendError,
        BackendUnavailable,
        InputError,
        OutputError,
        PlanccError,
        PlanccWarning,
        PlanError,
    )
    from plancc.graph.convert import as_graph
    from plancc.graph.formats import read_graph, write_graph
    from plancc.graph.graph import Graph
    from plancc.graph.vertexdata import VertexData
    from plancc.patching import patch
    from plancc.pipeline import compile
    from plancc.plan.plan import Plan
    from plancc.plan.reader import load
    from plancc.plan.verify import verify, verify_file
    from plancc.refinement import refine
    from plancc.version import __version__

_HOME = {
    "plancc.errors": (
        "BackendError",
        "BackendUnavailable",
        "InputError",
        "OutputError",
        "PlanError",
        "PlanccError",
        "PlanccWarning",
    ),
    "plancc.graph.convert": ("as_graph",),
    "plancc.graph.formats": ("read_graph", "write_graph"),
    "plancc.graph.graph": ("Graph",),
    "plancc.pipeline": ("compile",),
    "plancc.patching": ("patch",),
    "plancc.graph.vertexdata": ("VertexData",),
    "plancc.plan.plan": ("Plan",),
    "plancc.plan.reader": ("load",),
    "plancc.plan.verify": ("verify", "verify_file"),
    "plancc.refinement": ("refine",),
    "plancc.version": ("__version__",),
    "plancc_runtime.script": ("train",),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "BackendError",
    "BackendUnavailable",
    "Graph",
    "InputError",
    "OutputError",
    "Plan",
    "PlanError",
    "PlanccError",
    "PlanccWarning",
    "VertexData",
    "__version__",
    "as_graph",
    "compile",
    "load",
    "patch",
    "read_graph",
    "refine",
    "train",
    "verify",
    "verify_file",
    "write_graph",
]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        return getattr(import_module(_MODULE_OF[name]), name)
    raise AttributeError(f"module 'plancc' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
