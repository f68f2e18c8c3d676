"""Partitioners: an adapter for each library, all with the same interface.

`PARTITIONERS` maps names to `plancc.partitioners.adapter.Adapter` objects. All other code calls
`partition` (in ``run.py``), which calls an adapter. Native libraries run in a child process
(``process.py``, ``child.py``), so that a library that crashes or hangs causes a clear error. The
input of a partitioner is a problem (``plancc.models.problem``), never a graph, a plan or a file.
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
