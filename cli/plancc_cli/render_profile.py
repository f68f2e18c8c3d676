"""The table of `plancc-run --profile`. Formats; computes nothing but sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console

from plancc.report.table import Table
from plancc_cli.tables import print_table, say

if TYPE_CHECKING:
    from plancc_runtime.results import Profile

LEAST = 0.005
"""Share of the profiled epoch below which operations of a stage are summed up in one row."""


def print_profile(profile: Profile, out: Console) -> None:
    """Every operation of an epoch, and the epoch over the bound."""
    bandwidth, rate = profile.copy_bandwidth, profile.product_rate
    say(
        f"profile of rank {profile.rank}: this machine copies {bandwidth / 1e9:.1f} GB/s and makes "
        f"{rate / 1e9:.0f} GFLOP/s of dense products in float32",
        out,
    )
    caption = (
        "bytes, flops: at least, every operand once; at best: the longer of bytes at the rate of "
        "copying and flops at that of dense products"
    )
    columns = ("calls", "ms", "MB", "GFLOP", "% of copying", "% of products", "at best, ms")
    table = Table(("stage", "operation", *columns), caption=caption, left=1)
    for stage in dict.fromkeys(each.stage for each in profile.operations):
        others = [0.0] * 5
        for each in profile.operations:
            figures = [each.calls, each.seconds, each.num_bytes, each.flops, each.best]
            if each.stage != stage:
                continue
            if each.seconds < LEAST * profile.profiled:
                others = [a + b for a, b in zip(others, figures, strict=True)]
            else:
                table.add_row(stage or "-", each.name, *_cells(figures, bandwidth, rate))
        if others[0]:
            table.add_row(stage or "-", "others", *_cells(others, bandwidth, rate))
    table.add_section()
    spent = sum(each.seconds for each in profile.operations)
    best = sum(each.best for each in profile.operations)
    table.add_row("", "operations", "", f"{1e3 * spent:.3f}", *[""] * 4, f"{1e3 * best:.3f}")
    table.add_row("", "messages", "", f"{1e3 * profile.wait:.3f}", *[""] * 5)
    print_table(table, out)
    over = f", {profile.epoch / profile.bound:.2f} times the bound" if profile.bound else ""
    say(
        f"epoch {1e3 * profile.epoch:.2f} ms (profiled {1e3 * profile.profiled:.2f}){over}; bound "
        f"{1e3 * profile.bound:.2f} ms: its products alone, at these rates",
        out,
    )


def _cells(figures: list[float], bandwidth: float, rate: float) -> list[str]:
    calls, seconds, num_bytes, flops, best = figures
    share_of_copying = num_bytes / bandwidth / seconds if seconds else 0.0
    share_of_products = flops / rate / seconds if seconds else 0.0
    return [
        f"{calls:.0f}",
        f"{1e3 * seconds:.3f}",
        f"{num_bytes / 1e6:.2f}",
        f"{flops / 1e9:.3f}",
        f"{100 * share_of_copying:.0f}",
        f"{100 * share_of_products:.0f}",
        f"{1e3 * best:.3f}",
    ]
