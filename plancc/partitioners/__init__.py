"""Partitioners: one adapter file per back end, all with the same signature.

`PARTITIONERS` maps names to `plancc.partitioners.adapter.Adapter` values. All code uses them by
`partition` (in ``run.py``). Native libraries run in a child process (``process.py``, ``child.py``),
so a library that crashes or never ends becomes a clear error. Partitioners know problems
(``plancc.models.problem``), not graphs, plans or files.
"""

from __future__ import annotations

from collections.abc import Callable

from plancc.registry import Registry, place_of

PARTITIONERS = Registry(
    "partitioner",
    "plancc.partitioners",
    {
        "mtkahypar": "plancc.partitioners.mtkahypar:ADAPTER",
        "kahypar": "plancc.partitioners.kahypar:ADAPTER",
        "metis": "plancc.partitioners.metis:ADAPTER",
        "kaminpar": "plancc.partitioners.kaminpar:ADAPTER",
        "builtin": "plancc.partitioners.builtin:ADAPTER",
    },
    instance_of="plancc.partitioners.adapter:Adapter",
)

OTHERWISE = "try `partitioner` builtin"
"""Advice in messages about a native partitioner that fails."""


def advice(run: Callable[..., object]) -> str:
    """Return what to do about an adapter's `run` that fails, for messages."""
    return OTHERWISE if run.__module__.startswith("plancc") else f"look at {place_of(run)}"
