"""Partitioners: one adapter file per back end, all with the same signature.

`PARTITIONERS` maps names to `plancc.partitioners.adapter.Adapter` values. All code uses them by
`partition` (in ``run.py``). Native libraries run in a child process (``process.py``, ``child.py``),
so a library that crashes or never ends becomes a clear error. The input of a partitioner is a
problem (``plancc.models.problem``), never a graph, a plan or a file.
"""

from __future__ import annotations

from plancc.registry import Registry

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
