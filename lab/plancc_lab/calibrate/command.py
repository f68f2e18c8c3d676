"""`plancc calibrate`: the command that measures this machine and writes a machine file."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from plancc.errors import InputError
from plancc.text import printable
from plancc.threads import MOST_THREADS, usable_cores
from plancc_cli import options
from plancc_cli.progress import QUIET, quiet, verbosity_level
from plancc_cli.ranks import RankJob

if TYPE_CHECKING:
    from plancc.predict.machine import Compute
    from plancc_lab.calibrate.measure import Calibration
    from plancc_runtime.transport.base import Transport

SUFFIX = ".toml"
"""Extension of machine files."""
OF_ONE_RANK = "simple"
"""Machine whose links are written to the file if only one rank is measured."""
DISTURBED = 0.25
"""Spread of samples above which the machine counts as disturbed by other programs."""


@click.command(cls=options.Sections)
@click.option(
    "-o",
    "--output",
    default="machine.toml",
    show_default=True,
    type=click.Path(),
    help="Machine file to write.",
)
@click.option(
    "--ranks",
    type=click.IntRange(min=1),
    help="Ranks that work at once, as threads of this process.  [default: the number of cores]",
)
@click.option(
    "--threads",
    type=click.IntRange(1, MOST_THREADS),
    help="Threads per rank.  [default: this machine's cores, shared by its ranks]",
)
@click.option("--quick", is_flag=True, help="Fewer sizes and shorter samples.")
@quiet
def command(output: str, ranks: int | None, threads: int | None, quick: bool) -> None:
    """Measure this machine, and write a machine file for simulate.

    Products, memory and messages are measured on all ranks at once, because ranks share caches and
    memory. So give the number of ranks that you will train with.

    \b
        plancc calibrate -o machine.toml --ranks 2            # ranks as threads
        mpirun -n 2 plancc calibrate -o machine.toml          # over MPI; rank 0 writes
    """
    if not output.endswith(SUFFIX):
        raise InputError(f"--output {output}: choose a name that ends in {SUFFIX}")
    from plancc.files import check_target
    from plancc_runtime import launch

    launch.need_torch("calibration")
    level = verbosity_level()
    if launch.announced()[1] == 1:
        if ranks is None:
            launch.check_no_singleton()
        ranks = ranks or len(usable_cores())
        check_target(output)

    def work(transport: Transport) -> None:
        _measure(transport, output, threads, quick, level)

    several, name = (None, "single") if ranks == 1 else (ranks, "auto")
    job = RankJob("plancc", click.get_current_context().command)
    sys.exit(job.run(several, name, launch.TIMEOUT, work))


def _measure(
    transport: Transport, output: str, threads: int | None, quick: bool, level: int
) -> None:
    """Measure this machine on all ranks; rank 0 writes the machine file. Collective."""
    from plancc.files import atomic_write, check_target
    from plancc_lab.calibrate.measure import FULL, QUICK, calibrate

    first = transport.rank == 0
    transport.check_alike({"quick": quick})
    with transport.agreement():
        if first:
            check_target(output)
    report = _progress if first and level > QUIET else None
    found = calibrate(transport, QUICK if quick else FULL, threads, report)
    with transport.agreement():
        if first:
            with atomic_write(output) as temporary:
                temporary.write_text(machine_file(found, quick), encoding="utf-8")
            click.echo(
                f"{output}: {_ranks(found)}, sparse products {found.sparse.typical / 1e9:.2g} "
                "billion multiply-adds per second"
            )
            if found.spread > DISTURBED and found.crowd == 1:  # ranks disturb each other
                click.echo(
                    f"plancc: warning: {_spread(found)}: something else runs on this machine; "
                    "measure again when it is idle, or expect the same error in predictions",
                    err=True,
                )


def _spread(found: Calibration) -> str:
    return f"samples of a measurement differ by {found.spread:.0%} (median)"


def machine_file(found: Calibration, quick: bool = False) -> str:
    """Return the text of the machine file of a calibration."""
    from plancc_lab.calibrate.fitting import DrawSeconds, EpochSeconds, fitted

    epochs = [EpochSeconds(e.rows, e.nonzeros, tuple(e.dims), e.rest) for e in found.epochs]
    draws = [DrawSeconds(**asdict(each)) for each in found.draws]
    return "\n".join(_lines(found, fitted(epochs, draws), quick)) + "\n"


def _progress(stage: str) -> None:
    click.echo(f"plancc calibrate: {stage}", err=True)


def _ranks(found: Calibration) -> str:
    carried = f" over {found.transport}" if found.num_ranks > 1 else ""
    return (
        f"{found.num_ranks} rank{'s' * (found.num_ranks > 1)}{carried}, "
        f"{found.threads} thread{'s' * (found.threads > 1)} each, {found.cores} cores"
    )


def _lines(found: Calibration, compute: Compute, quick: bool) -> Iterator[str]:
    """Yield the lines of the machine file."""
    from plancc.predict.machine import DRAWN
    from plancc.predict.machine_files import find_machine

    crowd, outside = found.crowd, found.between or found.inside
    how = "plancc calibrate" + " --quick" * quick
    yield f"name = {_text(f'{found.processor}, {found.num_ranks} ranks')}"
    yield f"source = {_text(f'{how}: {_ranks(found)}, all at once')}"
    yield f"# {_spread(found)}"
    if outside is None:
        assumed = find_machine(OF_ONE_RANK)
        yield f"# one rank sends no messages: not measured, but of machine '{OF_ONE_RANK}'"
        yield f"latency = {assumed.latency:.3g}"
        yield f"bandwidth = {assumed.bandwidth:.3g}"
    else:
        if found.between is None:
            yield "# inside one node; between nodes is not measured"
        yield f"latency = {outside.latency:.3g}"
        yield f"bandwidth = {outside.bandwidth:.3g}"
    yield f"multiply_adds = {crowd * found.sparse.typical:.3g}"
    yield ""
    yield "[node]"
    yield f"ranks = {found.ranks_per_node}"
    yield f"cores = {found.cores // found.threads or 1}  # ranks that compute at full speed"
    if found.between is not None and found.inside is not None:
        yield f"latency = {found.inside.latency:.3g}"
        yield f"bandwidth = {found.inside.bandwidth:.3g}"
    yield f"memory = {found.memory:.3g}"
    yield ""
    yield "[compute]  # fitted to epochs of small networks on one rank each"
    assert compute.dense is not None
    assert compute.stream is not None
    yield f"dense = {crowd * compute.dense:.3g}"
    yield f"stream = {crowd * compute.stream:.3g}"
    yield f"overhead = {compute.overhead / crowd:.3g}"
    for name in DRAWN:
        yield f"{name} = {getattr(compute, name):.3g}"
    yield ""
    yield "[spmm]"
    yield f"rows = {found.sparse.rows}"
    yield f"nonzeros_per_row = {found.sparse.nonzeros_per_row}"
    yield f"width = {found.sparse.width}"
    yield "multiply_adds = ["
    for rows, table in zip(found.sparse.rows, found.sparse.multiply_adds, strict=True):
        yield f"  [  # {rows} rows"
        for rates in table:
            yield f"    {_numbers(crowd * rates)},"
        yield "  ],"
    yield "]"
    if found.broadcast is not None and found.allreduce is not None:
        yield ""
        yield "[collective]  # whose time was nearer to what was measured"
        yield f'broadcast = "{found.broadcast}"'
        yield f'allreduce = "{found.allreduce}"'


def _text(words: str) -> str:
    """Return a string in the syntax of TOML, in quotes."""
    return '"' + printable(words).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _numbers(values: Sequence[float]) -> str:
    return "[" + ", ".join(f"{value:.3g}" for value in values) + "]"
