"""Tables of rows and messages: inside nodes, between nodes, and through relays."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from plancc.report.table import Table
from plancc_cli.tables import number, ratio

if TYPE_CHECKING:
    from plancc.report.plans import Report
    from plancc.report.routes import RelayCost, TopologyCost


def route_tables(report: Report) -> Iterator[Table]:
    """Yield the tables of a topology and of relays, if the report has them."""
    if report.topology is not None:
        yield _topology(report.topology)
    if report.relays is not None:
        yield _relays(report.relays)


def _topology(cost: TopologyCost) -> Table:
    of = cost.topology
    columns = ("", "inside nodes", "between nodes", "share between")
    where = f"on nodes x ranks {of}"
    if of.ranks_per_node is not None:
        where = f"on {of.nodes} nodes of {of.ranks_per_node} ranks"
    table = Table(columns, where)
    straight = " straight from rank to rank" if cost.volume_in_hops is not None else ""
    hops = "with node-aware exchange" + " (not in this plan)" * (not cost.has_hops)
    for words, by_node in (
        (f"rows moved per product{straight}", cost.volume),
        (f"messages{straight}", cost.messages),
        (f"rows {hops}", cost.volume_in_hops),
        (f"messages {hops}", cost.messages_in_hops),
    ):
        if by_node is not None:
            inside, between = by_node
            table.add_row(words, number(inside), number(between), ratio(between, inside + between))
    table.add_row("expected if numbered at random", "", "", f"{cost.random_share:.2f}")
    return table


def _relays(cost: RelayCost) -> Table:
    table = Table(("", "straight", "over relays"), "over relays")
    for words, name in (
        ("rows of the busiest part", "rows"),
        ("messages of the busiest part", "messages"),
        ("rows moved per product", "volume"),
    ):
        cells = (number(getattr(each, name)) for each in (cost.straight, cost.relayed))
        table.add_row(words, *cells)
    table.add_row("lower bound with any relays", "", number(cost.least_rows))
    return table
