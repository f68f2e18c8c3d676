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
"""Most seconds that the system can wait in one call."""
UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
of_search = partial(option, section="Search")
of_partitioner = partial(option, section="Partitioners")
of_balance = partial(option, section="Balance")


@described
@dataclass(frozen=True)
class PartitionOptions:
    """Options of one partitioner.

    Raises:
        InputError: For an unknown name, or a number out of range.
    """

    partitioner: str = of_partitioner(
        AUTO,
        f"partitioner in place of the search: {', '.join(PARTITIONERS)}",
        more="Its answer is taken as it is, unless it does not have the objective, for which the "
        "answer is then refined, or misses several balances, for which rows are moved. Outside of "
        f"a search {AUTO} is the installed one of the largest ``Adapter.auto_rank``; if it fails, "
        "builtin.",
        metavar="NAME",
    )
    preset: str | None = of_partitioner(
        None,
        "preset of the partitioner (see plancc list partitioners)",
        more="None: its first.",
        metavar="NAME",
    )
    epsilon: float = of_balance(
        0.01,
        "allowed imbalance, max / mean - 1",
        more="A part weighs at most ``(1 + epsilon) * ceil(total / num_parts)``, by every "
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
        more="By every balance; as a machine with these speeds. None: the speeds of the machine, "
        "1 for all where it has none.",
        metavar="C0,C1,...|FILE",
    )

    def __post_init__(self) -> None:
        if self.partitioner != AUTO and self.partitioner not in PARTITIONERS:
            check_choice("partitioner", self.partitioner, [AUTO, *PARTITIONERS])
        check_options(self)
        if self.capacities is not None:
            object.__setattr__(self, "capacities", check_capacities(self.capacities))


def parse_budget(text: str) -> float:
    """Return the seconds of a string such as 90, 30s, 5m or 2h; InputError for another string."""
    found = re.fullmatch(r"([0-9]*\.?[0-9]+(?:e-?[0-9]+)?)([smh]?)", text.strip(), re.ASCII)
    seconds = float(found[1]) * UNITS[found[2]] if found else 0
    if not 0 < seconds <= MOST_SECONDS:
        rule = f"give a number of seconds above 0 and up to {MOST_SECONDS}"
        raise InputError(f"`budget` '{text}': {rule}, such as 90, 30s or 5m")
    return seconds
