"""The child process of `plancc.plan.guard`: ``python -P -m plancc.plan.guard_child PATH SECONDS``.

Reads the file whole, compares its content hash, and prints its attributes as JSON. It may use so
many seconds of a processor; then the system ends it.
"""

from __future__ import annotations

import json
import resource
import sys
from typing import Any

from plancc.errors import PlanccError
from plancc.plan.reader import PlanFile


def main() -> None:
    """Read the file that the command line names; see above."""
    path, seconds = sys.argv[1], int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        with PlanFile(path, guarded=True) as file:
            file.check_content()
            answer: dict[str, Any] = {"attributes": file.all_attributes()}
    except PlanccError as error:
        answer = {"error": str(error)}
    json.dump(answer, sys.stdout, default=str)


if __name__ == "__main__":
    main()
