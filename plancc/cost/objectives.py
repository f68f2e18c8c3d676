"""What a partition may be made small in: one number for each objective, smaller is better.

Knows figures of parts; no owners, no search.
"""

from __future__ import annotations

from plancc.cost.rates import EpochRates
from plancc.errors import InputError
from plancc.plan.metrics import Traffic, summarize
from plancc.registry import check_choice

OBJECTIVES = ("volume", "max-volume", "messages", "time")
NEEDS_DIMS = "objective 'time' needs the widths of the layers (--dims)"
"""What to say where it has none."""


def objective_value(name: str, parts: Traffic, rates: EpochRates | None = None) -> int | float:
    """The value of an objective, exactly.

    Parameters
    ----------
    name : str
        ==============  ==================================================================
        ``volume``      rows moved by one product: by the expand, and the fold if there is one
        ``max-volume``  rows sent or received, whichever is more, at the busiest part
        ``messages``    ordered pairs of parts that talk, in each of these steps
        ``time``        predicted seconds of an epoch at the slowest part
        ==============  ==================================================================
    parts : Traffic
    rates : EpochRates, for ``time`` only
        Of the widths and the machine (`plancc.predict.machine.epoch_rates`).

    Raises
    ------
    InputError
        If there is no such objective, or ``time`` is asked for without rates.
    """
    check_choice("objective", name, OBJECTIVES)
    if name == "time":
        if rates is None:
            raise InputError(NEEDS_DIMS)
        return float(rates.seconds(parts).max())
    metrics = summarize(parts)
    return {
        "volume": metrics.volume,
        "max-volume": metrics.max_volume,
        "messages": metrics.messages,
    }[name]
