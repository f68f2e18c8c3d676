"""Compiling on several ranks, on one page.

folder -> shares (normalised) -> owners (searched or assigned) -> parts -> one plan file

Every rank has arrays of the length of the vertices, and its share of what is of the length of the
nonzeros: first consecutive rows, then those of its parts.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.distributed.figures import forecast_of, mapped, metrics_of, random_figures
from plancc.distributed.lowering import lower_share, share_links
from plancc.distributed.owners import find_owners
from plancc.distributed.ranks import Collectives, Ranks
from plancc.distributed.share import read_share
from plancc.distributed.writing import write_plan
from plancc.errors import InputError, warn
from plancc.fields import divided, options_of, taking
from plancc.graph.convert import data_beside
from plancc.graph.csr import MappedGraph, graph_files
from plancc.graph.formats import ReadOptions, find_format, source_of
from plancc.graph.graph import Source
from plancc.graph.links import learnt
from plancc.graph.mapped import MappedRows
from plancc.graph.normalize import LOOPS
from plancc.graph.remarks import files_of_data, of_values, remarks
from plancc.graph.textfile import input_errors
from plancc.graph.vertexdata import VertexData
from plancc.memory import give_back_at_once
from plancc.models import DEFAULT_MODEL, MODELS
from plancc.models.weights import Balance, check_num_parts
from plancc.options import PlanOptions, SearchOptions
from plancc.owners.memory import allowed_memory
from plancc.owners.provenance import of_graph, of_wishes, provenance
from plancc.owners.request import Assigner, prepared, with_dims
from plancc.owners.task import Observer, Task
from plancc.plan.metrics import Metrics
from plancc.plan.plan import attributes_of
from plancc.plan.values import Header
from plancc.search.footprint import ProblemSizes, shown, work_of_rank
from plancc.search.starts import is_uneven

FORMAT = "csr"
"""The format that ranks read their shares of."""
LINK = 24
"""Bytes of memory that a nonzero takes on rank 0 while links are compared with all edges."""
TAKEN = {
    *("objective", "effort", "seed", "epsilon", "capacities", "dims", "machine", "topology"),
    *("partitioner", "preset", "time_limit", "balance", "memory", "exchange"),
    *("normalize", "self_loops", "value_dtype", "data", "split", "keys", "format", "allow_large"),
    *("links", "link_split", "disjoint_train_ratio"),
}
"""Options of search, plan and graph file that several ranks take; others have their defaults."""


@dataclass(frozen=True)
class Compiled:
    """What several ranks have written.

    Attributes:
        metrics, baseline: Of the plan, and of a random partition.
        links: Number of links by kind, on rank 0; empty without links.
    """

    content_sha256: str
    header: Header
    metrics: Metrics
    baseline: Metrics
    provenance: dict[str, Any]
    warnings: list[str]
    links: dict[str, int]


@taking(SearchOptions, PlanOptions, rest="model_options")
def compile_folder(
    transport: Collectives,
    folder: str | PathLike[str],
    output: str | PathLike[str],
    model: str = DEFAULT_MODEL,
    num_parts: int = 2,
    *,
    command: str = "plancc.distributed.compile_folder(...)",
    observer: Observer = nullcontext,
    **options: Any,
) -> Compiled:
    """Compile a graph on all ranks, and write one plan file. Collective.

    The owners do not depend on the number of ranks, and neither does the plan's content.

    Parameters:
        transport: A transport of `plancc_runtime`.
        folder: The graph: compressed rows in ``.npy`` files (`plancc.graph.csr`), for all ranks to
            read. It may be elsewhere on every rank; other parameters are the same on all.
        output: The plan. Ranks that do not see the file of rank 0 send it their parts.
        model: One whose class is `on_ranks`.
        num_parts: At least one for every rank.
        command: Recorded in the provenance.
        **options
        **model_options: As of `plancc.compile`, or of `plancc.graph.formats.ReadOptions`; all but
            `TAKEN` have their defaults. ``memory`` is that of every rank; None: its share of what
            its computer has left, less a margin.

    Raises:
        InputError: On all ranks: what several ranks cannot compile, and all that is wrong with the
            graph.
        PlanccError: On all ranks, if one cannot go on.

    Warns:
        PlanccWarning: On rank 0: what vertex data hold and is seldom meant.
    """
    ranks = Ranks(transport)
    give_back_at_once()
    declared = SearchOptions, PlanOptions, ReadOptions
    *given, model_options = divided(options, *declared)
    with ranks.agreement():
        every = [each(**own) for each, own in zip(declared, given, strict=True)]
        search, wishes, reading = every
    said = {"num_parts": num_parts, "model": model, "model_options": model_options}
    said |= {"output": os.path.realpath(output)}
    ranks.check_alike(said | vars(reading) | vars(wishes) | vars(search))
    allowed = wishes.memory or (allowed_memory() or 0) // ranks.here
    with ranks.agreement():
        _check_taken(search, wishes, reading)
        assigner, task, wanted = prepared(model, num_parts, model_options, search, wishes.balance)
        _check_on_ranks(assigner, task, wanted)
        if wishes.exchange in ("nodes", "relays"):
            raise InputError(
                f"`exchange` {wishes.exchange}: hops are compiled by one process; drop it"
            )
        if ranks.size > num_parts:
            raise InputError(
                f"{ranks.size} ranks for {num_parts} parts: start at most as many ranks as parts"
            )
        files, source = _opened(folder, reading.format)
    source = replace(source, sha256=_same_source(ranks, files.folder))
    with ranks.agreement():
        n = len(files.indptr) - 1
        check_num_parts(n, num_parts)
        held = (
            LINK * len(files.indices) * (wishes.link_split is not None or wishes.links is not None)
        )
        predicted = _check_memory(files, len(wanted.names), held, ranks.size, allowed)
        graph = files.graph(source)
        named: Any = {"split": wishes.split, "keys": wishes.keys, "format": FORMAT}
        named["allow_large"] = reading.allow_large
        vertex_data = data_beside(folder, graph, wishes.data, **named)
        told = remarks(vertex_data, source.name, files_of_data(wishes.data))
        for remark in told if ranks.rank == 0 else ():
            warn(remark)
        task = with_dims(task, vertex_data)
        wanted = replace(wanted, dims=task.options.dims)
    asked = wishes.links, wishes.link_split, wishes.disjoint_train_ratio
    learns, links, away = asked[:2] != (None, None), None, None
    if learns:
        away = np.zeros((2, 0), np.int32)
        with ranks.agreement():
            if ranks.rank == 0:
                links, away = learnt(graph, *asked, search.seed)
    how: dict[str, Any] = {"normalization": wishes.normalize, "self_loops": wishes.self_loops}
    with observer("read"):
        how |= {"dtype": wishes.value_dtype, "away": away}
        share, whole, counts = read_share(files, ranks, name=source.name, **how)
    loops, *lost = counts.tolist()
    source = source.counting(LOOPS, loops)
    for remark in of_values(*lost) if ranks.rank == 0 else ():
        warn(f"{source.name}: {remark}")
    with observer("partition"):
        found = find_owners(ranks, share, task, wanted, graph)
        owner, how, notes, limits = found.owners.rows, found.how, found.warnings, found.limits
        del found
    if task.options.nodes is not None:
        with observer("map to nodes"):
            owner = mapped(ranks, share, owner, task.options.nodes, task.options.capacities)
            how = {**how, "topology": str(task.options.nodes)}
    assert limits is not None
    reached = limits.imbalance(limits.load(owner)).tolist()
    del limits
    with observer("baseline"):
        baseline, random = random_figures(ranks, share, num_parts)
        predictor = task.options.predictor
        if predictor.machine.speed:
            speeds = tuple(predictor.machine.speeds(num_parts))
            _, random = random_figures(ranks, share, num_parts, speeds)
    header = Header(
        layout="row",
        num_vertices=n,
        num_nonzeros=int(whole.degree.sum()),
        num_parts=num_parts,
        directed=graph.directed,
        normalization=wishes.normalize,
        self_loops=wishes.self_loops and graph.types is None,
        types=graph.types,
    )
    with observer("lower"):
        parts = lower_share(ranks, whole, owner, header)
        del share, whole, away
        if learns:
            parts = share_links(ranks, parts, links)
            header = replace(header, links=parts.header.links)
    with observer("predict"):
        metrics = metrics_of(ranks, parts)
        forecast = forecast_of(ranks, predictor, parts, random)
        del random
    if forecast.slower and not task.model.even_random:
        notes = [*notes, f"{forecast.comparison}; try fewer parts"]
    written = provenance(
        of_graph(source, model, model_options),
        command,
        wanted,
        reached,
        task.options,
        {
            "ranks": ranks.size,
            **forecast.provenance(),
            **how,
            **of_wishes(wishes, search.seed, predicted),
        },
        notes,
    )
    with observer("write"):
        parts = replace(
            parts,
            vertex_data=_of_rows(vertex_data, parts.global_id),
            original_id=files.original_ids,
        )
        attributes = attributes_of(written, metrics, baseline)
        content = write_plan(ranks, output, header, parts, attributes)
    sizes = {} if links is None else {kind: each.shape[1] for kind, each in links.pairs.items()}
    return Compiled(content, header, metrics, baseline, written, notes, sizes)


def _of_rows(data: VertexData, rows: npt.NDArray[np.int32]) -> VertexData:
    """What is known of some vertices; features of a file are not read here."""
    features = data.features
    found = replace(data, features=None).take(rows)
    if isinstance(features, MappedRows):
        return replace(found, features=features.take(rows))
    return found if features is None else replace(found, features=features[rows])


def _check_memory(
    files: MappedGraph, constraints: int, held: int, num_ranks: int, allowed: int
) -> int:
    """Bytes that a rank is going to take; InputError if they are more than allowed (0: any).

    `held`: bytes of links.
    """
    rows, nonzeros = len(files.indptr) - 1, len(files.indices)
    mirrored = 1.0 if files.directed is False else 0.0
    sizes = ProblemSizes(
        rows,
        nonzeros + rows,
        mirrored,
        constraints=constraints,
        uneven=is_uneven(np.diff(files.indptr)),
        data=held,
        mapped=True,
    )
    peak = work_of_rank(sizes, num_ranks).peak
    if allowed and peak > allowed:
        raise InputError(
            f"{files.folder}: {rows:,} rows and {nonzeros:,} nonzeros need {shown(peak)} of memory "
            f"on each of {num_ranks} ranks, and `memory` of a rank is {shown(allowed)}: start more "
            "ranks, on more nodes"
        )
    return peak


def _check_taken(*options: Any) -> None:
    """InputError for an option that several ranks do not take, unless it has its default."""
    for each in options:
        for one in options_of(each):
            value = getattr(each, one.name)
            default = isinstance(value, int | float) and value == one.default
            if one.name not in TAKEN and value is not one.default and not default:
                raise InputError(f"`{one.name}` is for a compile by one process")


def _check_on_ranks(assigner: Assigner, task: Task, wanted: Balance) -> None:
    """InputError for a model, or a value of an option, that several ranks cannot do."""
    if assigner.grid is not None or not task.model.on_ranks:
        able = [name for name, model in MODELS.loaded().items() if model.on_ranks]
        raise InputError(
            f"model '{assigner.named}' is compiled by one process; several ranks compile models "
            f"{', '.join(able)}"
        )
    if task.objective not in (None, "volume"):
        raise InputError(f"`objective` {task.objective}: several ranks minimise the volume only")
    if task.options.effort not in (None, "fast"):
        raise InputError(
            f"`effort` {task.options.effort}: several ranks search with effort fast only"
        )
    if set(wanted.names) - {"nnz", "rows", "work"}:
        raise InputError(
            f"balance '{wanted}': several ranks balance nonzeros, rows and work (nnz, rows, work)"
        )


def _same_source(ranks: Ranks, folder: str) -> str:
    """The hash of the graph's bytes; InputError, on all ranks, if some have others. Collective.

    Ranks of one computer that have the same files leave it to the first of them to read them.
    """
    with ranks.agreement():
        with input_errors(folder):
            stats = [os.stat(os.path.join(folder, name)) for name in graph_files(folder)]
        which = [platform.node()]
        which += [f"{s.st_dev} {s.st_ino} {s.st_size} {s.st_mtime_ns}" for s in stats]
    every = ranks.gathered(which)
    own = ""
    with ranks.agreement():
        if every.index(which) == ranks.rank:
            own = source_of(folder, FORMAT, {}).sha256
    hashes = ranks.gathered(own)
    read = [hashes[every.index(each)] for each in every]
    with ranks.agreement():
        others = [rank for rank, each in enumerate(read) if each != read[0]]
        if others:
            raise InputError(
                f"{_of(others)} read{'s' * (len(others) == 1)} another graph than rank 0: their "
                "files differ in content; give all ranks the same"
            )
    return read[0]


def _of(ranks: Sequence[int]) -> str:
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _opened(folder: str | PathLike[str], format: str | None) -> tuple[MappedGraph, Source]:
    """The graph's files, and where they come from."""
    path = os.fspath(folder)
    if not os.path.exists(path):
        raise InputError(f"{path}: no such file")
    name = find_format(path, format)
    if not os.path.isdir(path) or name != FORMAT:
        raise InputError(
            f"{path}: several ranks read a folder of arrays; make one of it with: plancc convert "
            f"{path} -o FOLDER"
        )
    files = MappedGraph.open(path)
    return files, files.source
