"""`plancc compile` under mpirun: all ranks that the launcher has started make one plan together."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from plancc.clock import wall_seconds
from plancc.errors import InputError, warn
from plancc.models import DEFAULT_MODEL, MODELS
from plancc_cli import options
from plancc_cli.progress import QUIET, USUAL, command_line, progress, verbosity_level
from plancc_cli.ranks import RankJob
from plancc_cli.render import how_read, moved_words, origin, sizes_of, words_of_links
from plancc_cli.tables import print_json
from plancc_cli.words import say

if TYPE_CHECKING:
    from plancc.distributed.compile import Compiled
    from plancc.owners.task import Observer
    from plancc_runtime.transport.base import Transport


def compile_on_ranks(settings: Mapping[str, Any]) -> None:
    """Compile on the ranks that a launcher has started; on failure, end the process. Collective.

    `settings` has the options of `plancc compile`, by parameter, and the entry "model".
    """
    context = click.get_current_context()
    job, work = RankJob("plancc", context.command), partial(_work, context, settings)
    code = job.run(None, "auto", context.params["timeout"], work)
    if code:
        sys.exit(code)


def _work(context: click.Context, settings: Mapping[str, Any], transport: Transport) -> None:
    """Compile on all ranks, and print on rank 0. Collective."""
    from plancc.distributed.compile import compile_folder

    first, given = transport.rank == 0, context.params
    output = given["output"]
    with transport.agreement():
        if given["compress"]:
            raise InputError("`compress` works in one process only; leave `compress` out")
        if first:
            inputs = given["graph"], given["part"], given["links"], *given["data"]
            options.check_plan_output(output, *inputs)
        model = given["model"] or DEFAULT_MODEL
        asked = options.of_class(settings, MODELS[model].option_fields()) | {"model": model}
        asked |= {"num_parts": given["parts"], "command": command_line()}
    start = wall_seconds()
    level = verbosity_level()
    with progress(None) if first and level >= USUAL else nullcontext() as shown:
        observer = _waiting(transport, nullcontext if shown is None else shown.stage)
        compiled = compile_folder(transport, given["graph"], output, observer=observer, **asked)
    if first:
        _print(compiled, output, wall_seconds() - start, transport.size)


def _waiting(transport: Transport, observer: Observer) -> Observer:
    """Return an observer that lets ranks wait without limit while rank 0 partitions."""

    @contextmanager
    def stage(name: str) -> Iterator[None]:
        limit = transport.timeout
        try:
            if name == "partition":
                transport.timeout = math.inf
            with observer(name):
                yield
        finally:
            transport.timeout = limit

    return stage


def _print(compiled: Compiled, output: str, seconds: float, num_ranks: int) -> None:
    """Print the figures of the plan, in lines or as JSON."""
    metrics, random, provenance = compiled.metrics, compiled.baseline, compiled.provenance
    for note in compiled.warnings:
        warn(note)
    if options.form():
        found = {
            "output": output,
            "content_sha256": compiled.content_sha256,
            "seconds": seconds,
            "ranks": num_ranks,
            "metrics": metrics.figures(),
            "random": random.figures(),
            "provenance": provenance,
        }
        print_json(found)
        return
    if verbosity_level() == QUIET:
        say(f"{output}: content {compiled.content_sha256}")
        return
    said = f"{sizes_of(compiled.header)}, {origin(provenance)}"
    say(f"{output}: {said}, {num_ranks} ranks, {seconds:.1f} s")
    say(moved_words(metrics, random, provenance))
    say(f"matrix: {how_read(compiled.header, provenance)}")
    if compiled.links:
        say(words_of_links(compiled.links))
    say(f"content {compiled.content_sha256}")
