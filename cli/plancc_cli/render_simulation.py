"""Functions that print a predicted epoch or step as tables and sentences."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from plancc.report.table import Table
from plancc_cli.render_epochs import FROM
from plancc_cli.tables import count_of, duration, number, print_table, ratio, say, size

if TYPE_CHECKING:
    from plancc.predict.machine import Machine
    from plancc.predict.simulation import Prediction
    from plancc.report.epochs import Basis

MEMORY = {"halo": "buffers"}
"""Names that tables use for some kinds of memory."""


def print_prediction(
    prediction: Prediction,
    basis: Basis,
    bound: float,
    per_rank: bool = False,
    *,
    what: str = "epoch",
    head: Sequence[str] = (),
    foot: Sequence[str] = (),
) -> None:
    """Print predicted times by layer, direction and step, then the words and the memory.

    `bound` is the seconds with balanced computation and without exchange of rows.
    """
    schedule, machine = prediction.schedule, prediction.machine
    ranks = schedule.num_ranks
    widths = " x ".join(map(str, schedule.dims))
    say(
        f"{schedule.name}: layout {schedule.layout}, {count_of(ranks, 'rank')}, a "
        f"{schedule.convolution} of {widths}{FROM[basis.dims_from]}, passes "
        f"{', '.join(schedule.passes) or 'none'}"
    )
    for line in head:
        say(line)
    say(machine_words(machine, ranks, FROM[basis.machine_from]))
    print_table(_steps(prediction, what))
    say(
        f"{what} {duration(prediction.seconds)}, {ratio(prediction.seconds, bound)} times the "
        f"bound ({duration(bound)}: balanced computation, no exchange of rows)"
    )
    busiest = prediction.rank_seconds
    say(
        f"busiest rank {int(busiest.argmax())}: {duration(float(busiest.max()))} by itself; "
        f"mean {duration(prediction.mean_seconds)}"
    )
    say(
        f"words sent {number(prediction.words)}, most by one rank {number(prediction.max_words)}; "
        f"messages {number(prediction.messages)}, most by one {number(prediction.max_messages)}; "
        f"words reduced {number(prediction.words_reduced)}"
    )
    for line in foot:
        say(line)
    say(_memory(prediction))
    for note in schedule.notes:
        say(f"note: {note}")
    if per_rank:
        print_table(_ranks(prediction))


def machine_words(machine: Machine, ranks: int, where: str) -> str:
    """Return a sentence about the machine and its ranks; `where` may be " (the default)"."""
    nodes = count_of(-(-ranks // machine.node.ranks), "node")
    of_node = f"{machine.node.ranks} to a node"
    speeds = machine.speeds(ranks)
    least, most = speeds.min(), speeds.max()
    unequal = f"speeds from {least:g} to {most:g}, " * bool(least != most)
    return (
        f"machine {machine.name or 'given'}{where}: {count_of(ranks, 'rank')} on {nodes} "
        f"({of_node}), {unequal}"
        f"{1e6 * machine.latency:g} us per message and "
        f"{machine.bandwidth:.3g} B/s of a rank, {machine.injection:.3g} B/s of a node"
    )


def _steps(prediction: Prediction, what: str) -> Table:
    """Return a table of predicted times by layer, direction and step; `what` names the total."""
    names = list(dict.fromkeys(each.step for each in prediction.steps))
    names = [step for step in prediction.of_rank if step in names]
    a_step = "an epoch" if what == "epoch" else f"a {what}"
    caption = f"ranks wait for each other: {a_step} is the sum of every step's slowest rank"
    table = Table(("", *names, "all"), f"predicted time of {a_step}", caption)
    for (layer, direction), group in groupby(prediction.steps, lambda each: each[:2]):
        found = {each.step: each.slowest for each in group}
        title = direction if layer == 0 else f"layer {layer} {direction}"
        cells = (duration(found[name]) if name in found else "" for name in names)
        table.add_row(title, *cells, duration(sum(found.values())))
    both = [prediction.of_step(name) for name in names]
    both.append((prediction.seconds, prediction.mean_seconds))
    table.add_row("slowest ranks", *(duration(slowest) for slowest, _ in both))
    table.add_row("mean rank", *(duration(mean) for _, mean in both))
    total = prediction.seconds or 1.0
    table.add_row("share", *(f"{slowest / total:.1%}" for slowest, _ in both))
    return table


def _memory(prediction: Prediction) -> str:
    terms = dict(prediction.memory)
    total = terms.pop("total")
    parts = ", ".join(f"{MEMORY.get(name, name)} {size(held)}" for name, held in terms.items())
    text = f"memory of the fullest rank about {size(total)} ({parts}), mean "
    text += size(float(prediction.memory_of_rank.mean()))
    if prediction.fits is None:
        return text
    limit = size(prediction.machine.node.memory or 0)
    return f"{text}: {'fits into' if prediction.fits else 'more than'} the machine's {limit}"


def _ranks(prediction: Prediction) -> Table:
    steps = [name for name, spent in prediction.of_rank.items() if spent.any()]
    columns = ("rank", *steps, "all", "words sent", "messages", "memory")
    table = Table(columns, "ranks", left=0)
    times = [*(prediction.of_rank[name] for name in steps), prediction.rank_seconds]
    counts, memory = prediction.counts, prediction.memory_of_rank
    for rank in range(prediction.schedule.num_ranks):
        seconds = (duration(float(each[rank])) for each in times)
        sent = (number(int(each[rank])) for each in (counts.words_sent, counts.messages_sent))
        table.add_row(str(rank), *seconds, *sent, size(int(memory[rank])))
    return table
