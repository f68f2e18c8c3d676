"""The steps of a compile on several ranks, and the function `compile_folder` that runs them.

folder -> shares (normalised) -> owners (searched or assigned) -> parts -> one plan file

At first a rank has consecutive rows of the graph, later the rows of its parts.
"""

from __future__ import annotations

import os
import platform
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.distributed.figures import forecast_of, mapped, metrics_of, random_figures
from plancc.distributed.lowering import lower_share, share_links
from plancc.distributed.owners import find_owners
from plancc.distributed.ranks import Collectives, Ranks
from plancc.distributed.share import Share, read_share
from plancc.distributed.writing import write_plan
from plancc.errors import InputError, warn
from plancc.fields import divided, options_of, taking
from plancc.files import StrPath
from plancc.graph.convert import data_beside
from plancc.graph.csr import MappedGraph, graph_files
from plancc.graph.formats import ReadOptions, find_format, source_of
from plancc.graph.graph import Graph, Source
from plancc.graph.links import SplitLinks, links_to_learn
from plancc.graph.mapped import MappedRows
from plancc.graph.normalize import LOOPS
from plancc.graph.remarks import files_of_data, lost_value_remarks, remarks
from plancc.graph.textfile import input_errors
from plancc.graph.vertexdata import VertexData
from plancc.memory import give_back_at_once
from plancc.models import DEFAULT_MODEL
from plancc.options import PlanOptions, Rows, SearchOptions, models_that, refuse
from plancc.owners.memory import allowed_memory
from plancc.owners.provenance import graph_entries, plan_entries, provenance
from plancc.owners.request import Request
from plancc.owners.task import Observer
from plancc.plan.exchange import Int32Array
from plancc.plan.metrics import Metrics
from plancc.plan.plan import attributes_of
from plancc.plan.values import Header
from plancc.search.footprint import ProblemSizes, shown, work_of_rank
from plancc.search.starts import is_uneven

FORMAT = "csr"
"""The graph format from which ranks read their shares."""
LINK = 24
"""Bytes per nonzero that rank 0 needs to compare links with all edges."""

TAKEN = {
    *("objective", "effort", "seed", "epsilon", "capacities", "dims", "machine", "topology"),
    *("partitioner", "preset", "time_limit", "balance", "memory", "exchange"),
    *("normalize", "self_loops", "value_dtype", "data", "split", "keys", "format", "allow_large"),
    *("links", "link_split", "disjoint_train_ratio"),
}
"""Options that can be used on several ranks; all other options must have their defaults."""


def _unsupported_option(options: Any) -> str:
    """Return the name of a non-default option that several ranks cannot use; "" if none."""
    for one in options_of(options):
        value = getattr(options, one.name)
        default = isinstance(value, int | float) and value == one.default
        if one.name not in TAKEN and value is not one.default and not default:
            return one.name
    return ""


READING_ON_RANKS: Rows = {"`{0}` is only for a compile by one process": _unsupported_option}
COMPILES_ON_RANKS: Rows = {
    "`{0}` is only for a compile by one process": lambda asked: (
        _unsupported_option(asked.search) or _unsupported_option(asked.plan_options)
    ),
    "model '{asked.assigner.named}' is only compiled by one process; several ranks compile models "
    "{0}": lambda asked: (
        (asked.assigner.grid or not asked.task.model.on_ranks) and models_that("on_ranks")
    ),
    "`objective` {asked.search.objective}: several ranks minimise only the volume": lambda asked: (
        asked.search.objective not in (None, "volume")
    ),
    "`effort` {asked.search.effort}: several ranks only support effort fast": lambda asked: (
        asked.search.effort not in (None, "fast")
    ),
    "balance '{asked.balance}': several ranks only balance nonzeros, rows and work (nnz, rows, "
    "work)": lambda asked: {*asked.balance.names} - {"nnz", "rows", "work"},
    "`exchange` {asked.plan_options.exchange}: is only for a compile by one process; leave "
    "it out": lambda asked: asked.plan_options.exchange not in ("auto", "flat"),
}


@dataclass(frozen=True)
class Compiled:
    """What `compile_folder` returns about the plan file that it has written.

    Attributes:
        metrics, baseline: Figures of the plan, and of the random partition that is its baseline.
        links: Number of links for link prediction, by kind, such as "val" (validation); empty on
            ranks other than 0.
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
    folder: StrPath,
    output: StrPath,
    model: str = DEFAULT_MODEL,
    num_parts: int = 2,
    *,
    command: str = "plancc.distributed.compile_folder(...)",
    observer: Observer = nullcontext,
    **options: Any,
) -> Compiled:
    """Compile a graph on all ranks, and write one plan file. Collective.

    The plan does not depend on the number of ranks. All parameters except `folder` must be the same
    on all ranks. If one rank fails, all ranks raise PlanccError.

    Parameters:
        folder: Compressed rows in ``.npy`` files (`plancc.graph.csr`), which all ranks read.
        output: Path of the plan file. A rank without access to it sends its parts to rank 0.
        model: A model with the class attribute `on_ranks`.
        num_parts: Number of parts, at least one for every rank.
        command: The command, for the provenance.
        **options
        **model_options: Options of `plancc.compile` or `plancc.graph.formats.ReadOptions`; options
            that are not in `TAKEN` must have their defaults. ``memory`` is the memory of each rank.
            None: the free memory of the computer, minus a margin, divided by the number of its
            ranks.
    """
    ranks = Ranks(transport)
    give_back_at_once()
    asked = {"model": model, "num_parts": num_parts, "output": os.path.realpath(output)}
    work = _read(ranks, folder, asked, options)
    share, whole, links, counts = _shares(ranks, work, observer)
    loops, *lost = counts.tolist()
    source = work.graph.source.counting(LOOPS, loops)
    lost = [f"{source.name}: {remark}" for remark in lost_value_remarks(*lost)]
    for remark in (*work.remarks, *lost) if ranks.rank == 0 else ():
        warn(remark)
    owner, reached, how, notes = _owners(ranks, work, share, observer)
    request, predictor = work.request, work.request.task.options.predictor
    with observer("baseline"):
        baseline, random = random_figures(ranks, share, num_parts)
        if predictor.machine.speed:
            speeds = tuple(predictor.machine.speeds(num_parts))
            _, random = random_figures(ranks, share, num_parts, speeds)
    header = work.header(whole)
    with observer("lower"):
        parts = lower_share(ranks, whole, owner, header)
        del share, whole
        if request.plan_options.learns_pairs:
            parts = share_links(ranks, parts, links)
            header = replace(header, links=parts.header.links)
    with observer("predict"):
        metrics = metrics_of(ranks, parts)
        forecast = forecast_of(ranks, predictor, parts, random)
        del random
    if forecast.slower and not request.task.model.even_random:
        notes = [*notes, f"{forecast.comparison}; try fewer parts"]
    how = {"ranks": ranks.size, **forecast.provenance(), **how}
    how |= plan_entries(request.plan_options, request.search.seed, work.memory)
    first, search = graph_entries(source, model, request.options), request.task.options
    written = provenance(first, command, request.balance, reached, search, how, notes)
    with observer("write"):
        parts = replace(
            parts,
            vertex_data=_take_rows(work.data, parts.global_id),
            original_id=work.files.original_ids,
        )
        attributes = attributes_of(written, metrics, baseline)
        content = write_plan(ranks, output, header, parts, attributes)
    sizes = {} if links is None else {kind: each.shape[1] for kind, each in links.pairs.items()}
    return Compiled(content, header, metrics, baseline, written, notes, sizes)


@dataclass(frozen=True, eq=False)
class PreparedFolder:
    """A graph whose rows are divided among ranks, and the request for its plan.

    Attributes:
        request: The request, completed with facts of the graph.
        graph: The graph; only the number of nonzeros of every row is in memory.
        memory: Bytes that a rank is predicted to need.
        remarks: Remarks on vertex data that are probably a mistake.
    """

    request: Request
    files: MappedGraph
    graph: Graph
    data: VertexData
    memory: int
    remarks: list[str]

    def header(self, whole: Share) -> Header:
        """Return the header of the plan, without links.

        `whole` is this rank's share of the normalised matrix.
        """
        options, types = self.request.plan_options, self.graph.types
        return Header(
            layout="row",
            num_vertices=self.graph.num_vertices,
            num_nonzeros=int(whole.degree.sum()),
            num_parts=self.request.task.num_parts,
            directed=self.graph.directed,
            normalization=options.normalize,
            self_loops=options.self_loops and types is None,
            types=types,
        )


def _read(
    ranks: Ranks, folder: StrPath, asked: dict[str, Any], options: dict[str, Any]
) -> PreparedFolder:
    """Read and check the graph's files, its vertex data and the request. Collective.

    `asked` (model, number of parts and output, by name) and `options` must be equal on all ranks.
    """
    of_file, others = divided(options, ReadOptions)
    of_search, of_plan, own = divided(others, SearchOptions, PlanOptions)
    with ranks.agreement():
        reading, search = ReadOptions(**of_file), SearchOptions(**of_search)
        plan = PlanOptions(**of_plan)
    given = vars(reading) | vars(plan) | vars(search)
    ranks.check_alike(asked | {"model_options": own} | given)
    with ranks.agreement():
        refuse(READING_ON_RANKS, reading)
        request = Request.of(asked["model"], asked["num_parts"], others, COMPILES_ON_RANKS)
        if ranks.size > request.task.num_parts:
            raise InputError(
                f"{ranks.size} ranks are too many for {request.task.num_parts} parts; start at "
                "most as many ranks as parts"
            )
    allowed = plan.memory or (allowed_memory() or 0) // ranks.here
    with ranks.agreement():
        files, source = _opened(folder, reading.format)
    source = replace(source, sha256=_same_source(ranks, files.folder))
    with ranks.agreement():
        held = LINK * len(files.indices) * plan.learns_pairs
        memory = _check_memory(files, len(request.balance.names), held, ranks.size, allowed)
        graph = files.graph(source)
        named: Any = {"split": plan.split, "keys": plan.keys, "format": FORMAT}
        data = data_beside(folder, graph, plan.data, **named, allow_large=reading.allow_large)
        told = remarks(data, source.name, files_of_data(plan.data))
        request = request.for_graph(graph, data)
    return PreparedFolder(request, files, graph, data, memory, told)


def _shares(
    ranks: Ranks, work: PreparedFolder, observer: Observer
) -> tuple[Share, Share, SplitLinks | None, npt.NDArray[np.int64]]:
    """Read this rank's rows of the graph, and choose the links for link prediction. Collective.

    Returns the share for searches, the share for the plan, the links (only on rank 0) or None, and
    the three counts that `read_share` returns.
    """
    options, links, away = work.request.plan_options, None, None
    if options.learns_pairs:
        away = np.zeros((2, 0), np.int32)
        with ranks.agreement():
            if ranks.rank == 0:
                links, away = links_to_learn(work.graph, options, work.request.search.seed)
    how: dict[str, Any] = {**options.normalizing, "dtype": options.value_dtype, "away": away}
    with observer("read"):
        share, whole, counts = read_share(work.files, ranks, name=work.graph.source.name, **how)
    return share, whole, links, counts


def _owners(
    ranks: Ranks, work: PreparedFolder, share: Share, observer: Observer
) -> tuple[Int32Array, list[float], dict[str, Any], list[str]]:
    """Return owners, the imbalance of each weight, provenance and warnings. Collective."""
    task, balance = work.request.task, work.request.balance
    with observer("partition"):
        found = find_owners(ranks, share, task, balance, work.graph)
    owner, how = found.owners.rows, found.how
    nodes = task.options.nodes
    if nodes is not None:
        with observer("map to nodes"):
            owner = mapped(ranks, share, owner, nodes, task.options.capacities)
            how = {**how, "topology": str(nodes)}
    assert found.limits is not None
    return owner, found.limits.reached(owner), how, found.warnings


def _take_rows(data: VertexData, rows: npt.NDArray[np.int32]) -> VertexData:
    """Return the data of some vertices. Features that are stored in a file are not read yet."""
    features = data.features
    found = replace(data, features=None).take(rows)
    if isinstance(features, MappedRows):
        return replace(found, features=features.take(rows))
    return found if features is None else replace(found, features=features[rows])


def _check_memory(
    files: MappedGraph, constraints: int, held: int, num_ranks: int, allowed: int
) -> int:
    """Return the bytes that a rank needs; raise InputError for more than `allowed` (0: no limit).

    `constraints` is the number of balanced weights. `held` is the number of bytes that the links of
    link prediction take on rank 0.
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
            f"on each of {num_ranks} ranks, but `memory` is {shown(allowed)} for a rank; start "
            "more ranks, on more nodes"
        )
    return peak


def _same_source(ranks: Ranks, folder: str) -> str:
    """Return the hash of the graph's files, which must be the same on all ranks. Collective.

    Only the lowest rank of a computer reads files that several of its ranks share.
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
            own = source_of(folder, FORMAT, {}, Source("")).sha256
    hashes = ranks.gathered(own)
    read = [hashes[every.index(each)] for each in every]
    with ranks.agreement():
        others = [rank for rank, each in enumerate(read) if each != read[0]]
        if others:
            several, numbers = len(others) > 1, ", ".join(map(str, others))
            raise InputError(
                f"rank{'s' * several} {numbers} read{'s' * (not several)} a different graph from "
                "rank 0: their files differ in content; give all ranks the same files"
            )
    return read[0]


def _opened(folder: StrPath, format: str | None) -> tuple[MappedGraph, Source]:
    """Open the files of the graph. Return the files, and the graph's source."""
    path = os.fspath(folder)
    if not os.path.exists(path):
        raise InputError(f"{path}: no such file")
    name = find_format(path, format)
    if not os.path.isdir(path) or name != FORMAT:
        raise InputError(
            f"{path}: several ranks need a folder of arrays; make one with: plancc convert "
            f"{path} -o FOLDER"
        )
    files = MappedGraph.open(path)
    return files, files.source
