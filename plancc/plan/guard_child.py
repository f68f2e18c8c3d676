"""The child process of `plancc.plan.guard`: reads a file whole, compares its content hash, and
answers with its attributes and the digests of its slices."""

from __future__ import annotations

from typing import Any

from plancc.guarded_child import answer, give_time
from plancc.plan.reader import PlanFile

SECONDS_PER_BYTE = 1 / 20e6
"""What this may use of a processor for every byte in memory; it needs a tenth of it."""


def read_whole(path: str, _: object) -> dict[str, Any]:
    """Attributes and digests of a file whose content hash holds; PlanError for another."""
    with PlanFile(path, guarded=True) as file:
        give_time(file.num_bytes() * SECONDS_PER_BYTE)
        digests = {name: leaves.tobytes().hex() for name, leaves in file.make_digests().items()}
        return {"attributes": file.all_attributes(), "digests": digests}


if __name__ == "__main__":
    answer(read_whole)
