"""Predicted scaling in the shape of published figures: Demirci et al. 2022's Figure 4a, Tripathy et
al. 2020's 1 and 2.

    python -m benchmarks.scaling [--markdown]

Point-to-point messages against broadcasts on a CPU cluster, for graphs of `../shared/data`; and
replication on Summit, with six ranks per node and with one, from the sizes of the graphs alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from rich.console import Console

import plancc
from benchmarks.inputs import SHARED, Inputs
from benchmarks.report import Report
from benchmarks.tables import Table
from plancc.graph.normalize import normalize
from plancc.owners.request import Assigner
from plancc.plan.words import AllReduceWords, BroadcastWords, Collective
from plancc.predict.machine_files import find_machine
from plancc.predict.predictor import Predictor
from plancc.predict.schedule import Operation
from plancc.predict.schedules import schedule_of
from plancc.predict.simulation import simulate
from plancc.predict.sizes import Sizes, tables_of_sizes
from plancc_lab.contenders import Contender
from plancc_lab.simulate.scaling import Sweep
from plancc_lab.simulate.sweep import parse_models, sweep

GRAPHS = ("soc-Slashdot0902", "dblp-2010", "USA-road.NY")
RANKS = (16, 32, 64, 128, 256, 512)
WIDTHS = (128, 128, 128)
MODELS = "hp,gp,rp,cagnet-1d"
CLUSTER = "cpu-cluster"

SUMMIT = {"6 ranks per node": "summit", "1 rank per node": "summit-1gpu"}
# Tripathy et al. 2020: vertices, nonzeros, features, labels; the network has three layers
OF_TABLE_III = {
    "Reddit": (232_965, 114_848_857, 602, 41),
    "Amazon": (14_249_639, 230_788_269, 300, 24),
    "Protein": (8_745_542, 2_116_240_124, 128, 256),
}
HIDDEN = 16
SUMMIT_RANKS = (16, 36, 64, 100)
COPIES = (1, 2, 4)


def run(inputs: Inputs) -> Report:
    """The shapes as figures with targets."""
    report = Report(
        [f"predicted, not measured: machines {CLUSTER} and {', '.join(SUMMIT.values())}"]
    )
    for name in GRAPHS[2:] if inputs.quick else GRAPHS:
        if not (SHARED / f"{name}.mtx.gz").exists():
            report.notes.append(f"{name}: left out, there is no such file")
            continue
        table = cluster_sweep(name)
        first, last = RANKS[0], RANKS[-1]
        for label, falls in (("hp", True), ("cagnet-1d", False)):
            pair = [moved(table, label, number) for number in (last, first)]
            over, under = pair if falls else pair[::-1]
            words = f"p={last} over p={first}" if falls else f"p={first} over p={last}"
            report.add(f"{name}, {label}: seconds moving H, {words}", over / under, 1.0)
        ratio = table.cell("hp", last).seconds / table.cell("cagnet-1d", last).seconds
        report.add(f"{name}: epoch of hp over cagnet-1d, p={last}", ratio, 1.0)
    for name in ("Amazon", "Protein"):
        for title, machine in SUMMIT.items():
            times = [summit_parts(name, machine, 64, c) for c in (1, 2)]
            ratio = times[1]["dbcast"] / times[0]["dbcast"]
            report.add(f"{name}, 64 GPUs, {title}: dbcast of c=2 over c=1", ratio)
    return report


@cache
def cluster_sweep(name: str) -> Sweep:
    """Models of a graph on the CPU cluster."""
    graph = plancc.read_graph(SHARED / f"{name}.mtx.gz")
    matrix = normalize(graph, "sym", self_loops=True)
    predictor = Predictor(WIDTHS, find_machine(CLUSTER))
    return sweep(matrix, RANKS, parse_models(MODELS), predictor, name=name, balance="nnz,rows")


def moved(table: Sweep, label: str, num_ranks: int) -> float:
    """Seconds in which rows of H and of gradients travel; not the sum of weight gradients."""
    steps = table.cell(label, num_ranks).steps
    return steps["expand"] + steps["collectives"]


def cluster_tables() -> Iterator[Table]:
    """Communication and computation in ms, a table per graph: Figure 4a."""
    for name in GRAPHS:
        if not (SHARED / f"{name}.mtx.gz").exists():
            continue
        found = cluster_sweep(name)
        title = (
            f"{name} ({found.vertices:,} vertices, {found.nonzeros:,} nonzeros), ms per epoch: "
            "rows of H and of gradients / sum of weight gradients / computation"
        )
        table = Table(title, ["model", *(f"p={number}" for number in RANKS)])
        for label in found.labels:
            cells = []
            for number in RANKS:
                cell = found.cell(label, number)
                three = moved(found, label, number), cell.steps["all-reduce"], cell.computation
                cells.append(" / ".join(_ms(each) for each in three))
            table.rows.append([label, *cells])
        yield table


def summit_request(c: int) -> Contender:
    return Contender.parse("cagnet-1d" if c == 1 else f"cagnet-1.5d:replication={c}")


def summit_parts(
    name: str, machine: str, num_ranks: int, c: int | str, hidden: int = HIDDEN
) -> dict[str, float] | None:
    """Seconds of the bars of Figures 1 and 2; None: they do not fit in memory.

    Passes: none, as published: rows of H^0 travel in every epoch, and A H comes before (A H) W.
    """
    n, nonzeros, features, labels = OF_TABLE_III[name]
    dims = [features, hidden, hidden, labels]
    request = Contender.parse(str(c)) if isinstance(c, str) else summit_request(c)
    chosen = find_machine(machine)
    assigner = Assigner.of(request.model, num_ranks, request.options)
    assigner.check_widths(dims)
    tables = tables_of_sizes(Sizes(n, nonzeros), request.label, assigner.num_parts, assigner.grid)
    schedule = schedule_of(tables, dims, passes=())
    if simulate(schedule, chosen).fits is False:
        return None
    kinds = [_kind(operation, assigner) for operation in schedule.operations]
    return {
        kind: simulate(
            replace(
                schedule,
                operations=[
                    operation
                    for operation, its in zip(schedule.operations, kinds, strict=True)
                    if its == kind
                ],
            ),
            chosen,
        ).seconds
        for kind in ("dbcast", "sbcast", "reduce", "local")
    }


def _kind(operation: Operation, assigner: Assigner) -> str:
    """The name of an operation in the figures."""
    place, work = operation
    if isinstance(work, AllReduceWords):
        return "reduce" if place.layer else "weights"
    assert assigner.grid is not None
    if isinstance(work, BroadcastWords):
        if not isinstance(work.buffers, int):  # pieces of A: values, columns, row pointers
            return "sbcast"
        if assigner.grid.scheme == "1.5d":  # between copies: the counterpart of the all-reduce
            return "dbcast" if work.members == assigner.grid.rows else "reduce"
    return "dbcast" if isinstance(work, Collective) else "local"


def summit_tables() -> Iterator[Table]:
    """Bars of Figures 1 and 2 in ms: dense broadcasts / sparse ones / reductions / local."""
    for title, machine in SUMMIT.items():
        columns: Sequence[int | str] = COPIES
        if machine == "summit":
            columns = (*COPIES, "cagnet-2d")
        heads = [f"c={c}" if isinstance(c, int) else "2D" for c in columns]
        table = Table(
            f"Summit, {title}, ms per epoch: dbcast / sbcast / reduce / local",
            ["graph", "GPUs", *heads, "dbcast, c=2 over c=1"],
        )
        for name in OF_TABLE_III:
            for number in SUMMIT_RANKS:
                found = [summit_parts(name, machine, number, c) for c in columns]
                cells = ["-" if parts is None else _bars(parts) for parts in found]
                ratio = "-"
                if found[0] and found[1]:
                    ratio = f"{found[1]['dbcast'] / found[0]['dbcast']:.2f}"
                table.rows.append([name, str(number), *cells, ratio])
        yield table


def _bars(parts: dict[str, float]) -> str:
    return " / ".join(_ms(seconds) if seconds else "-" for seconds in parts.values())


def _ms(seconds: float) -> str:
    value = 1e3 * seconds
    return f"{value:,.0f}" if value >= 99.5 else f"{value:.2g}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__)
    parser.add_argument("--markdown", action="store_true", help="tables for the documentation")
    options = parser.parse_args()
    console = Console(highlight=False, width=None if Console().is_terminal else 160)
    for tables in (cluster_tables(), summit_tables()):
        for table in tables:
            if options.markdown:
                print(f"\n{table.markdown()}")
            else:
                table.show(console)


if __name__ == "__main__":
    main()
