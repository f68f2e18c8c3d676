"""The child process of `plancc.plan.guard`: reads a file whole, compares its content hash, and
answers with its attributes."""

from __future__ import annotations

from typing import Any

from plancc.guarded_child import answer
from plancc.plan.reader import PlanFile


def attributes_of(path: str, _: object) -> dict[str, Any]:
    """The attributes of a file whose content hash holds; PlanError for another."""
    with PlanFile(path, guarded=True) as file:
        file.check_content()
        return {"attributes": file.all_attributes()}


if __name__ == "__main__":
    answer(attributes_of)
