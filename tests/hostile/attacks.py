"""All attacks by their names."""

from .attack import Attack
from .compressed_rows import CompressedRows
from .faults import Jobs
from .fuzz_inputs import Inputs
from .killed_runs import KilledRuns
from .lines import Lines
from .neighbours import NEIGHBOURS
from .places import Places
from .plan_bytes import PlanBytes
from .plan_structure import PlanStructure
from .plan_tables import PlanTables
from .signals import Signals

ATTACKS: dict[str, type[Attack]] = {
    each.name: each
    for each in (
        PlanBytes,
        PlanStructure,
        PlanTables,
        Inputs,
        CompressedRows,
        *NEIGHBOURS,
        Lines,
        Places,
        Signals,
        KilledRuns,
        Jobs,
    )
}
