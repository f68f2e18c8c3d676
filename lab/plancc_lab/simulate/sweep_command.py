"""`plancc simulate --sweep`: predicted epochs of several models on several numbers of ranks."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from plancc.errors import InputError
from plancc_cli import options
from plancc_cli.progress import progress
from plancc_lab.plot import FORMATS, check_plot, plot_sweep

if TYPE_CHECKING:
    from plancc.predict.predictor import Predictor
    from plancc.predict.sizes import Boundary, Sizes
    from plancc.report.table import Table
    from plancc_lab.simulate.scaling import Cell, Sweep

MODELS = "hp,gp,rp,cagnet-1d,cagnet-1.5d,cagnet-2d,mop,libra"
"""Default models of a sweep."""
OF_GRAPHS = (*options.READING_FLAGS, "normalize", "no_self_loops")
"""Parameters of reading and normalising a graph file."""
OF_SEARCH = ("effort", "epsilon", "seed", "threads")
"""Options of the search for owners. Predictions without a sweep have a seed too."""
OF_NUMBERS = ("vertices", "nonzeros", "boundary")
"""Parameters that replace a graph."""


sweep_options = options.together(
    options.reading_flags,
    click.option(
        "--sweep",
        metavar="p=A..B",
        help="Find owners for GRAPH with each of --models, for A to B ranks (powers of two) or "
        "the listed numbers (p=16,36,64), and predict every epoch.",
    ),
    click.option(
        "--models",
        metavar="MODEL,...",
        help=f"Models of --sweep; options as in cagnet-1.5d:replication=4.  [default: {MODELS}]",
    ),
    click.option("--plot", metavar="FILE", help=f"Draw the table ({', '.join(FORMATS)})."),
    click.option(
        "--vertices",
        type=int,
        help="Number of vertices, if GRAPH is too large for this machine and is not given.",
    ),
    click.option("--nonzeros", type=int, help="With --vertices: number of nonzeros."),
    click.option(
        "--boundary",
        multiple=True,
        metavar="[MODEL=]P:F,...",
        help="With --vertices: P parts have F halo rows per own row, as in 16:0.5,256:1.2; in "
        "P:F:N, a part receives from N parts. Or plan files, which have these numbers.",
    ),
    options.searching("effort", default=None, otherwise="fast"),
    options.searching("epsilon", default=None),
    options.searching("threads", default=None),
    options.searching(
        "balance",
        "What parts of row plans share evenly: nnz, rows, weights, work.  [default: as in plancc "
        "compile]",
    ),
    options.searching(
        "normalize", "With --sweep: normalisation of the graph.  [default: sym]", default=None
    ),
    click.option("--no-self-loops", is_flag=True, help="With --sweep: do not add self loops."),
)
"""A decorator that adds the options of a sweep; their defaults are None, False or empty."""
SWEEP_OPTIONS = (
    *("models", "plot", "balance", "effort", "epsilon", "threads"),
    *(*OF_NUMBERS, *OF_GRAPHS),
)
"""Parameters that `sweep_options` adds, apart from "sweep"."""


def is_given(value: Any) -> bool:
    """Return whether an option has a value; 0 is a value."""
    return value is not None and value is not False and value != ()


def refuse(given: dict[str, Any]) -> None:
    """Raise InputError if an option of sweeps is given without ``--sweep``."""
    for name in SWEEP_OPTIONS:
        if is_given(given[name]):
            raise InputError(f"{options.flag_of(name)} needs --sweep; give --sweep p=16..4096 too")


def run_sweep(graph: str | None, predictor: Predictor, given: dict[str, Any]) -> None:
    """Predict all cells of a sweep, and print its table; `given` has the command's options."""
    import plancc
    from plancc.graph.normalize import normalize
    from plancc_lab.contenders import parse_numbers
    from plancc_lab.simulate.sweep import SEARCH, parse_models, sweep

    ranks = parse_numbers(given["sweep"])
    models = parse_models(given["models"] or MODELS)
    if given["plot"] is not None:
        check_plot(given["plot"])
        options.check_output(given["plot"], graph)
    sizes = _sizes(graph, given)
    search = {name: given[name] for name in OF_SEARCH if given[name] is not None}
    with progress() as shown:
        source: Any = sizes
        if graph is not None:
            with shown.stage("read"):
                how = {name: given[name] for name in options.READING_FLAGS}
                read = plancc.read_graph(graph, **how)
            with shown.stage("normalize"):
                loops = not given["no_self_loops"]
                source = normalize(read, given["normalize"] or "sym", self_loops=loops)
        found = sweep(
            source,
            ranks,
            models,
            predictor,
            options=replace(SEARCH, **search),
            balance=given["balance"],
            name="no graph" if sizes is not None else source.source.name,
            observer=shown.stage,
        )
        if given["plot"] is not None:
            with shown.stage("plot"):
                plot_sweep(found, given["plot"])
    print_sweep(found, options.form())


def _sizes(graph: str | None, given: dict[str, Any]) -> Sizes | None:
    """Return the given sizes, which replace a graph file; None if a graph file is given.

    Raises InputError if both or neither are given.
    """
    from plancc.predict.sizes import Boundary, Sizes

    if given["vertices"] is None:
        for name in OF_NUMBERS[1:]:
            if is_given(given[name]):
                raise InputError(f"--{name} describes a graph; give --vertices too")
        if graph is None:
            raise InputError("--sweep needs a graph file, or --vertices and --nonzeros")
        return None
    if graph is not None:
        raise InputError(f"--vertices {given['vertices']} replaces a graph file; drop {graph}")
    if given["nonzeros"] is None:
        raise InputError(f"--vertices {given['vertices']}: give --nonzeros too")
    for name in OF_GRAPHS:
        if is_given(given[name]):
            raise InputError(f"--{name.replace('_', '-')} needs a graph file, not --vertices")
    boundary: dict[str, Boundary] = {}
    for text in given["boundary"]:
        label, _, points = text.rpartition("=")  # a label may contain a "="
        if label in boundary:
            raise InputError(f"--boundary '{text}': give only one --boundary for a model")
        boundary[label] = Boundary.parse(points)
    return Sizes(given["vertices"], given["nonzeros"], boundary)


def print_sweep(sweep: Sweep, form: str = "") -> None:
    """Print the predictions of a sweep as tables, as "json", or as "csv" with a line per cell."""
    from plancc_cli.tables import duration, print_data, print_table, say

    if form:
        found = sweep.as_dict()
        every = {name: found[name] for name in ("name", "vertices", "nonzeros", "dims")}
        every["machine"] = sweep.machine.title
        print_data(form, found, [every | cell for cell in found["cells"]])
        return
    say(
        f"{sweep.name}: {sweep.vertices:,} vertices, {sweep.nonzeros:,} nonzeros, dims "
        f"{','.join(map(str, sweep.dims))}, machine "
        f"{sweep.machine.title}; one rank {duration(sweep.sequential)} per epoch, "
        "predicted; times in ms"
    )
    for title, value in (
        ("epoch", lambda cell: 1e3 * cell.seconds),
        ("communication", lambda cell: 1e3 * cell.communication),
        ("computation", lambda cell: 1e3 * cell.computation),
        ("speed-up", lambda cell: sweep.speedup(cell) or 0.0),
    ):
        print_table(_table(sweep, title, value))
    if len(sweep.labels) > 1:
        say("*  the fastest")
    for line in [*_why(sweep), *sweep.notes]:
        say(line)


def _table(sweep: Sweep, title: str, value: Callable[[Cell], Any]) -> Table:
    """Return a table with a line per model and a column per number of ranks."""
    from plancc.report.table import Table
    from plancc_cli.tables import digits

    table = Table((title, *(f"p={number}" for number in sweep.ranks)))
    marked = len(sweep.labels) > 1 and title in ("epoch", "speed-up")
    best = [sweep.best(number) for number in sweep.ranks] if marked else []
    for label in sweep.labels:
        row = []
        for cell in (sweep.cell(label, number) for number in sweep.ranks):
            text = "-" if cell.seconds is None else digits(value(cell))
            mark = "*" if cell in best else "" if cell.fits else "!"
            row.append(text + (mark or " "))
        table.add_row(label, *row)
    return table


def _why(sweep: Sweep) -> list[str]:
    """Return lines that name cells of the sweep without prediction, or with too little memory."""
    from plancc_cli.tables import size

    lines = []
    for label in sweep.labels:
        cells = [cell for cell in sweep.cells if cell.label == label]
        missing: dict[str, list[Cell]] = {}
        for cell in cells:
            if cell.seconds is None:  # sentences that differ only in numbers become one line
                missing.setdefault(re.sub(r"\d+", "", cell.why), []).append(cell)
        for same in missing.values():
            numbers = ", ".join(str(cell.num_ranks) for cell in same)
            lines.append(f"-  {label}, p = {numbers}: {same[0].why}")
        full = [cell for cell in cells if not cell.fits]
        if full:
            numbers = ", ".join(str(cell.num_ranks) for cell in full)
            most = max(cell.memory for cell in full)
            lines.append(
                f"!  {label}, p = {numbers}: out of memory, up to {size(most)} on a rank of the "
                f"machine's {size(sweep.machine.node.memory or 0)}"
            )
    return lines
