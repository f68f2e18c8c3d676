"""Tables, sentences and JSON of rehearsals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from plancc.report.table import Table
from plancc_cli.render_epochs import FROM
from plancc_cli.render_simulation import machine_words
from plancc_cli.tables import count_of, duration, number, print_table, ratio, say

if TYPE_CHECKING:
    import numpy.typing as npt

    from plancc.predict.schedules import Tables
    from plancc.predict.simulation import Prediction
    from plancc.report.epochs import Basis
    from plancc_lab.rehearse.rehearsal import Rehearsal
    from plancc_lab.rehearse.timelines import EpochTimeline, PathStage

    Float64Array = npt.NDArray[np.float64]

NOTABLE = 1.05
"""Ratio to the mean above which a quantity of a rank is mentioned."""
MOST_STRAGGLERS = 5
"""Largest number of ranks of the critical path that are shown."""


def print_rehearsal(
    basis: Basis,
    tables: Tables,
    found: Rehearsal,
    prediction: Prediction,
    note: str,
    per_rank: bool = False,
) -> None:
    """Print the times of the typical epoch, by phase and along its critical path.

    `prediction` is shown for comparison. `note` is "", or tells how the prediction was made.
    """
    epoch, schedule = found.typical, prediction.schedule
    result = found.result
    widths = " x ".join(map(str, result.dims))
    say(
        f"{schedule.name}: layout {schedule.layout}, {count_of(schedule.num_ranks, 'rank')}, "
        f"{result.options.model.upper()} {widths}{FROM[basis.dims_from]}, kernel {result.kernel}"
    )
    say(machine_words(prediction.machine, schedule.num_ranks, FROM[basis.machine_from]))
    every = [each.seconds for each in found.epochs]
    say(
        f"epoch {duration(epoch.seconds)} rehearsed (the epochs {duration(min(every))} to "
        f"{duration(max(every))}), {duration(prediction.seconds)} predicted; "
        f"rehearsed / predicted {ratio(epoch.seconds, prediction.seconds)}"
    )
    busy = epoch.computed + epoch.networked
    say(
        f"without waiting for others: the mean rank {duration(float(busy.mean()))}, of which it "
        f"computes {duration(float(epoch.computed.mean()))}; the busiest, rank "
        f"{int(busy.argmax())}, {duration(float(busy.max()))}"
    )
    print_table(_where(epoch))
    print_table(_path(epoch))
    for sentence in _stragglers(epoch, tables):
        say(sentence)
    say(
        f"words sent {number(result.epochs[-1].words_sent)}, messages "
        f"{number(result.epochs[-1].messages_sent)} per epoch; loss "
        f"{', '.join(f'{each.loss:.6f}' for each in result.epochs)}"
    )
    for each in notes(found, note):
        say(f"note: {each}")
    if per_rank:
        print_table(_ranks(epoch))


def notes(found: Rehearsal, note: str) -> list[str]:
    """Return remarks on how the figures were found; if `note` is not "", it is the first."""
    said, fold = [note] if note else [], found.result.options.fold
    if not found.measured_alone:
        said.append(
            f"fold {fold} leaves messages in flight, so no rank could execute an epoch "
            "alone: products are measured with the data of another rank in the caches"
        )
    return said


def _where(epoch: EpochTimeline) -> Table:
    """Return a table of the time of each phase: busiest rank, least busy rank, and mean."""
    busy = epoch.computed + epoch.networked
    ranks = [int(busy.argmax()), int(busy.argmin())]
    titles = [f"rank {ranks[0]}, busiest", f"rank {ranks[1]}, least busy"]
    table = Table(("", *titles, "mean rank"), "where the time goes")

    def add(name: str, seconds: Float64Array) -> None:
        shown = [*(float(seconds[rank]) for rank in ranks), float(seconds.mean())]
        table.add_row(name, *map(duration, shown))

    add("computes", epoch.computed)
    for name, seconds in sorted(epoch.phases().items(), key=lambda entry: -entry[1].sum()):
        add(f"  {name}", seconds)
    add("messages, collectives", epoch.networked)
    add("waits for others", epoch.waited)
    add("epoch", np.full(len(epoch.ranks), epoch.seconds))
    return table


def _ranks(epoch: EpochTimeline) -> Table:
    """Return a table of the time that every rank computes, sends messages and waits."""
    table = Table(("rank", "computes", "messages", "waits"), "ranks", left=0)
    for rank, figures in enumerate(zip(epoch.computed, epoch.networked, epoch.waited, strict=True)):
        table.add_row(str(rank), *(duration(float(seconds)) for seconds in figures))
    return table


def _path(epoch: EpochTimeline) -> Table:
    """Return a table of the critical path, with a line for every stage."""
    table = Table(
        ("", "time", "share", "compute", "its rank / mean", "messages", "ranks"),
        "critical path: what the epoch waited for, from its end backward",
        "its rank / mean: what the stage's rank computes in the stage, over the mean of all ranks",
    )
    means = {name: float(seconds.mean()) for name, seconds in epoch.stages().items()}
    of_rank = epoch.stages()
    for stage in epoch.path_stages():
        rank = stage.rank
        beside = ""
        if rank is not None and means.get(stage.stage):
            beside = ratio(float(of_rank[stage.stage][rank]), means[stage.stage])
        table.add_row(
            stage.stage,
            duration(stage.seconds),
            f"{stage.seconds / epoch.seconds:.1%}",
            duration(sum(stage.compute.values())),
            beside,
            duration(stage.network),
            _names(stage),
        )
    return table


def _names(stage: PathStage) -> str:
    """Return a phrase that names the ranks of a stage, in their order on the path."""
    ranks = list(stage.compute)
    return ", ".join(map(str, ranks[:4])) + (", ..." if len(ranks) > 4 else "")


def _stragglers(epoch: EpochTimeline, tables: Tables) -> list[str]:
    """Return lines about the ranks with the most time on the critical path, with the reasons."""
    held: dict[int, float] = {}
    where: dict[int, list[str]] = {}
    for stage in epoch.path_stages():
        for rank, seconds in stage.compute.items():
            held[rank] = held.get(rank, 0.0) + seconds
            where.setdefault(rank, []).append(stage.stage)
    said = []
    ordered = sorted(held, key=lambda rank: -held[rank])
    for rank in [r for r in ordered if held[r] > 0.02 * epoch.seconds][:MOST_STRAGGLERS]:
        more = ", ".join(reasons(tables, rank)) or "no more rows, nonzeros or messages than others"
        said.append(
            f"rank {rank} computes {held[rank] / epoch.seconds:.1%} of the critical path "
            f"({', '.join(where[rank])}): {more}"
        )
    return said


def reasons(tables: Tables, rank: int) -> list[str]:
    """Return phrases such as "1.80 x the mean rows", one for each quantity well above the mean."""
    if tables.grid is not None:  # the tables describe parts
        return []
    step = tables.expand.step
    amounts = {
        "rows": tables.rows,
        "nonzeros": tables.nonzeros,
        "rows sent": step.sent,
        "rows received": step.received,
        "messages": step.messages_sent + step.messages_received,
    }
    if tables.fold is not None:
        amounts["rows folded"] = tables.fold.step.sent + tables.fold.step.received
    found = []
    for name, amount in amounts.items():
        mean = float(amount.mean())
        if mean and amount[rank] > NOTABLE * mean:
            found.append(f"{amount[rank] / mean:.2f} x the mean {name}")
    return found


def as_dict(basis: Basis, found: Rehearsal, prediction: Prediction, note: str) -> dict[str, Any]:
    """Return the figures of the rehearsal's typical epoch and the predicted figures, for JSON."""
    epoch, result = found.typical, found.result
    busy = epoch.computed + epoch.networked
    return {
        "plan": prediction.schedule.name,
        "layout": prediction.schedule.layout,
        "num_ranks": prediction.schedule.num_ranks,
        **basis.as_dict(),
        "options": result.to_dict()["options"],
        "kernel": result.kernel,
        "seconds": epoch.seconds,
        "epoch_seconds": [each.seconds for each in found.epochs],
        "predicted_seconds": prediction.seconds,
        "mean_busy_seconds": float(busy.mean()),
        "max_busy_seconds": float(busy.max()),
        "mean_compute_seconds": float(epoch.computed.mean()),
        "max_compute_seconds": float(epoch.computed.max()),
        "measured_alone": found.measured_alone,
        **{name: value for name, value in epoch.as_dict().items() if name != "seconds"},
        "loss": [each.loss for each in result.epochs],
        "words": result.epochs[-1].words_sent,
        "messages": result.epochs[-1].messages_sent,
        "words_reduced": result.epochs[-1].words_reduced,
        "notes": notes(found, note),
    }
