"""Options of one partitioner: its name, preset, balance, seed and limits."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import partial

from plancc.errors import InputError
from plancc.fields import check_options, described, option
from plancc.models.capacities import Capacities, check_capacities
from plancc.partitioners import PARTITIONERS
from plancc.registry import check_choice
from plancc.threads import MOST_THREADS

AUTO = "auto"
MOST_SECONDS = 2_000_000
"""Largest number of seconds that the operating system can wait in one call."""
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
of_search = partial(option, section="Search")
of_partitioner = partial(option, section="Partitioners")
of_balance = partial(option, section="Balance")


@described
@dataclass(frozen=True)
class PartitionOptions:
    """Options that a partitioner gets; `SearchOptions` adds the options of a search.

    Raises:
        InputError: If the partitioner is unknown, or a number is out of range.
    """

    partitioner: str = of_partitioner(
        AUTO,
        f"partitioner in place of the search: {', '.join(PARTITIONERS)}",
        more="Its owners are kept as they are, with two exceptions: they are refined if it cannot "
        "minimise the objective, and rows move if a part is above one of several limits. Outside "
        f"a search, {AUTO} is the installed partitioner with the highest ``Adapter.auto_rank``; if "
        "it fails, builtin.",
        metavar="NAME",
    )
    preset: str | None = of_partitioner(
        None,
        "preset of the partitioner (see plancc list partitioners)",
        more="None: the first preset of the partitioner.",
        metavar="NAME",
    )
    epsilon: float = of_balance(
        0.01,
        "allowed imbalance, max / mean - 1",
        more="A part weighs at most ``(1 + epsilon) * ceil(total / num_parts)``, in every "
        "constraint.",
        at_least=0,
        below=math.inf,
    )
    seed: int = of_search(
        1,
        "random seed",
        more="With one thread and no budget the same seed gives the same plan.",
        at_least=0,
        at_most=2**31 - 1,
    )
    threads: int = of_search(1, "threads of the search", at_least=1, at_most=MOST_THREADS)
    time_limit: float | None = of_partitioner(
        None,
        "seconds after which a partitioner is killed; `budget` ends a search with its best result",
        otherwise="6 hours",
        metavar="SECONDS",
        above=0,
        at_most=MOST_SECONDS,
    )
    capacities: Capacities = of_balance(
        None,
        "relative speeds of the ranks; parts get work in proportion",
        more="They apply to every weight that parts share. None: the speeds in the machine file, "
        "or 1 for all if it has none.",
        metavar="C0,C1,...|FILE",
    )

    def __post_init__(self) -> None:
        if self.partitioner != AUTO and self.partitioner not in PARTITIONERS:
            check_choice("partitioner", self.partitioner, [AUTO, *PARTITIONERS])
        check_options(self)
        if self.capacities is not None:
            object.__setattr__(self, "capacities", check_capacities(self.capacities))


def parse_budget(text: str) -> float:
    """Convert a string such as 90, 30s, 5m or 2h to seconds; InputError for any other string."""
    found = re.fullmatch(r"([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)([smh]?)", text.strip(), re.ASCII)
    seconds = float(found[1]) * UNITS[found[2]] if found else 0
    if not 0 < seconds <= MOST_SECONDS:
        rule = f"give a number of seconds above 0 and up to {MOST_SECONDS}"
        raise InputError(f"`budget` '{text}': {rule}, such as 90, 30s or 5m")
    return seconds
