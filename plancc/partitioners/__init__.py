"""Partitioners: an adapter for each library, all with the same interface.

Native libraries run in a child process, so that a library that crashes or hangs causes a clear
error.
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
