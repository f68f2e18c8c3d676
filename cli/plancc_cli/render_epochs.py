"""Sentences and tables of predicted epochs, which name the machine and the widths of the layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from plancc.report.table import Table
from plancc_cli.tables import duration, ratio, short
from plancc_cli.words import in_flags

if TYPE_CHECKING:
    from plancc.report.epochs import Basis, EpochTimes
    from plancc.report.payback import Payoff

FROM = {
    "given": "",  # who gave them knows it
    "plan": " (the plan's)",
    "data": " (of its features and labels)",
    "default": " (the default)",
    "differ": " (the default, as the plans' differ)",
}
"""Words for the source of machine and widths."""
HARDLY = 0.05
"""Share of the epoch of a random partition below which a difference is called small."""
BOUND = "bound: balanced computation, no exchange of rows"
"""The row of the bound in a table."""


def basis_words(basis: Basis, origin: bool = True) -> str:
    """Return a phrase that names machine and widths and, if `origin`, where they come from."""
    dims = ",".join(map(str, basis.predictor.dims))
    machine_from, dims_from = (basis.machine_from, basis.dims_from) if origin else ("given",) * 2
    return (
        f"machine {basis.predictor.machine.title}{FROM[machine_from]}, dims {dims}{FROM[dims_from]}"
    )


def epoch_words(times: EpochTimes) -> str:
    """Return a sentence with the predicted time of an epoch, and what this time consists of."""
    if times.seconds is None:
        return f"no predicted epoch: {why_none(times)}"
    words = f"predicted epoch {duration(times.seconds)}"
    if times.random is not None:
        words += f", {ratio(times.seconds, times.random)} of a random partition's "
        words += duration(times.random)
    if times.bound:
        words += f": {times.bound / times.seconds:.1%} is balanced computation"
        if times.random is not None and abs(times.seconds / times.random - 1) < HARDLY:
            words += ", which no partition can reduce"
        else:
            words += _limits(times.seconds, times.bound, times.exchange or 0.0)
    return f"{words}; {basis_words(times.basis, origin=False)}"


def _limits(seconds: float, bound: float, exchange: float) -> str:
    """Return the percentages of an epoch that the exchange of rows and the imbalance take.

    `bound` is the seconds of an epoch with balanced computation and without exchange of rows.
    """
    exchange = min(exchange, seconds - bound)
    shares = (exchange, "exchange of rows"), (seconds - bound - exchange, "imbalance")
    return "".join(f", {s / seconds:.1%} {what}" for s, what in shares if s >= 0.001 * seconds)


def payoff_words(payoff: Payoff) -> str:
    """Return after how many epochs a search pays off; "never", or "-" if this is unknown."""
    if payoff is None or isinstance(payoff, str):
        return payoff or "-"
    return short(math.ceil(payoff))


def why_none(times: EpochTimes) -> str:
    """Return the reason why there is no prediction (`EpochTimes.why`), without backticks."""
    return in_flags(times.why, None)


def epoch_table(times: EpochTimes) -> Table | str:
    """Return predicted epochs, with ratios to `EpochTimes.bound`, or why there are none."""
    if times.seconds is None:
        return f"no predicted time of an epoch: {why_none(times)}"
    table = Table(("", "time", "over the bound"), "predicted time of an epoch")
    for words, seconds in (
        ("this plan", times.seconds),
        ("even random partition", times.random),
        (BOUND, times.bound),
    ):
        if seconds is None:
            table.add_row(words, "-", "-")
        else:
            table.add_row(words, duration(seconds), ratio(seconds, times.bound or 0.0))
    notes = [basis_words(times.basis)]
    if not times.basis.given:
        notes.append("--machine and --dims for others")
    if times.random is None:
        notes.append("the time of a random partition is not recorded: give --dims or --machine")
    table.caption = "\n".join(notes)
    return table


def of_provenance(provenance: Mapping[str, Any]) -> str:
    """Return a phrase that names the machine and the widths for which a plan was compiled."""
    from plancc.report.provenance import recorded_dims, recorded_machine

    machine, dims = recorded_machine(provenance), recorded_dims(provenance)
    words = [] if machine is None else [f"machine {machine.title}"]
    return ", ".join([*words, *([] if dims is None else [f"dims {','.join(map(str, dims))}"])])
