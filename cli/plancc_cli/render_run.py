"""The table of the epochs of a run; rows are printed as the epochs end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from plancc_cli.tables import say
from plancc_runtime.metrics import METRICS, Metric

if TYPE_CHECKING:
    from plancc_runtime.results import Epoch, RunOutline, TrainResult

MOST_ROWS = 20
PHASES = {
    "total": "total",
    "comm": "communication",
    "spmm": "spmm",
    "dense": "dense",
    "reduce": "allreduce",
}
"""Times that a row of the table shows: for the head of a column, the name in `Epoch`."""
LEAST = {"loss": 8, "val loss": 8, "words": 9, "messages": 8}
"""Least widths of columns in characters. In addition: 8 for a time, 6 for a score, 8 for a score
without an upper bound, and 13 for two F1 scores."""


class EpochTable:
    """A table of about `MOST_ROWS` evenly spaced epochs; the last row is for the final weights."""

    def __init__(self, outline: RunOutline) -> None:
        self.metrics = outline.metrics
        self.metric, self.splits = METRICS[self.metrics[0]], list(outline.split_sizes)
        times = [f"{phase} ms" for phase in PHASES]
        val = ["val loss"] * ("val" in self.splits)
        steps = ["volume/step"] * bool(outline.sampler)
        self.columns = ("epoch", "loss", *self.splits, *val, *times, "words", "messages", *steps)
        self._chosen = chosen_epochs(outline)
        score = 13 if len(self.metric.fields) > 1 else 6 if self.metric.higher else 8
        least = LEAST | dict.fromkeys(self.splits, score) | dict.fromkeys(times, 8)
        last = str(outline.options.epochs)
        least |= {"epoch": len(last), "volume/step": 9}
        self._widths = [max(len(name), least[name]) for name in self.columns]
        self._printed = -1
        self._sampled = bool(outline.sampler)

    def shows(self, epoch: int) -> bool:
        """Return whether the table shows this epoch."""
        return epoch in self._chosen

    def print_row(self, epoch: Epoch, out: Console) -> None:
        """Print the line of an epoch; before the first line, print the names of the columns."""
        if self._printed < 0:
            out.print()
            self._line(self.columns, out)
        self._printed = epoch.epoch
        self._line((str(epoch.epoch), *self._cells(epoch)), out)

    def print_end(self, result: TrainResult, out: Console) -> None:
        """Print the last epoch, the evaluation of the final weights, and a legend."""
        epochs = result.epochs
        if result.best_epoch is not None:
            ends = epochs[-1].epoch + 1 if epochs else result.final.epoch
            early = "early stopping: " * (ends < result.options.epochs)
            say(
                f"{early}trained for {ends} epochs; final are the weights after "
                f"{result.best_epoch}, whose validation "
                f"{METRICS[result.options.metric].title} was the best",
                out,
            )
        if epochs and epochs[-1].epoch != self._printed:
            self.print_row(epochs[-1], out)
        elif not epochs:
            out.print()
            self._line(self.columns, out)
        self._line(("final", *self._cells(result.final)), out)
        out.print()
        say(self._caption(result), out)
        self._print_metrics(result.final, out)

    def _print_metrics(self, final: Epoch, out: Console) -> None:
        """Print all metrics of the final weights, if there are several metrics."""
        for split in self.splits if len(self.metrics) > 1 else ():
            every = (METRICS[name] for name in self.metrics)
            cells = (f"{each.title} {_cell(each, final, split)}" for each in every)
            say(f"{split}: {', '.join(cells)}", out)

    def _caption(self, result: TrainResult) -> str:
        said = (
            f"{self.metric.title} per split; times: the slowest rank's, without evaluations; "
            "words, messages: all ranks"
        )
        if self._sampled:
            said += (
                "\nvolume/step: rows moved by one exchange of a mini-batch, the mean of the epoch"
            )
            said += step_line(result)
        if self._sampled and self.metric is METRICS["accuracy"]:
            said += '\nbetween evaluations "train" is the mean over the epoch\'s batches'
        return said

    def _line(self, cells: tuple[str, ...], out: Console) -> None:
        shown = (cell.rjust(width) for cell, width in zip(cells, self._widths, strict=True))
        out.print("  ".join(shown).rstrip(), soft_wrap=True)

    def _cells(self, epoch: Epoch) -> list[str]:
        val = "-" if epoch.val_loss is None else f"{epoch.val_loss:.6f}"
        volume = epoch.volume_per_step
        return [
            f"{epoch.loss:.6f}",
            *(_cell(self.metric, epoch, split) for split in self.splits),
            *[val] * ("val" in self.splits),
            *(f"{1e3 * epoch.seconds_max[phase]:.2f}" for phase in PHASES.values()),
            f"{epoch.words_sent:,}",
            f"{epoch.messages_sent:,}",
            *["-" if volume is None else f"{volume:,.1f}"] * self._sampled,
        ]


def _cell(metric: Metric, epoch: Epoch, split: str) -> str:
    found = [getattr(epoch, name).get(split) for name in metric.fields]
    return "-" if None in found else "/".join(f"{value:{metric.form}}" for value in found)


def step_line(result: TrainResult) -> str:
    """Return a line with the seconds of each phase of a step; "" if no epoch uses mini-batches.

    The seconds are means over the steps and ranks of the epoch with the median step time.
    """
    taken = [each.step_seconds for each in result.epochs if each.step_seconds is not None]
    if not taken:
        return ""
    taken.sort(key=lambda each: sum(each.values()))
    step = taken[len(taken) // 2]
    words = sum(each.words_drawn for each in result.steps) / len(result.steps)
    told = {"masks": f" ({words:,.1f} words)"} if words else {}
    parts = (f"{name} {1e3 * spent:.2f}{told.get(name, '')}" for name, spent in step.items())
    when = f"\ndrawing happens {result.drawing}" if result.drawing else ""
    return f"\na step takes {1e3 * sum(step.values()):.2f} ms: {', '.join(parts)}{when}"


def chosen_epochs(outline: RunOutline) -> set[int]:
    """Return the indices of the epochs that the table shows: all, or about `MOST_ROWS`.

    The last epoch is shown; evaluated epochs are preferred.
    """
    epochs = range(outline.first_epoch, outline.options.epochs)
    every = outline.options.eval_every
    if len(epochs) <= MOST_ROWS:
        return set(epochs)
    scored = [epoch for epoch in epochs if outline.sampler or (every and epoch % every == 0)]
    chosen = scored or list(epochs)
    step = -(-len(chosen) // MOST_ROWS)
    return {*chosen[::step], epochs[-1]}
