"""Compiling on several ranks, on one page.

folder -> shares (normalised) -> owners (searched or assigned) -> parts -> pieces of a plan

Every rank has arrays of the length of the vertices, and its share of what is of the length of the
nonzeros: first consecutive rows, then those of its parts.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
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
from plancc.errors import InputError, warn
from plancc.fields import divided, options_of, taking
from plancc.graph.convert import data_beside
from plancc.graph.csr import MappedGraph, graph_files
from plancc.graph.formats import ReadOptions, find_format, source_of
from plancc.graph.graph import Source
from plancc.graph.links import learnt
from plancc.graph.mapped import MappedRows
from plancc.graph.remarks import files_of_data, remarks
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
from plancc.plan.digests import Digests, cut_points, digests_of, root_of
from plancc.plan.exchange import Int64Array
from plancc.plan.format import header_attributes, node_of
from plancc.plan.metrics import Metrics
from plancc.plan.piece_writer import (
    ArrayKind,
    PieceTable,
    write_piece,
    write_plan_head,
)
from plancc.plan.pieces import folder_name, new_folder
from plancc.plan.plan import Plan, attributes_of
from plancc.plan.rank_parts import block_of_parts
from plancc.plan.values import Header
from plancc.search.footprint import ProblemSizes, shown, work_of_rank
from plancc.search.starts import is_uneven
from plancc.text import shown as shortened

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
    compress: bool = False,
    command: str = "plancc.distributed.compile_folder(...)",
    observer: Observer = nullcontext,
    **options: Any,
) -> Compiled:
    """Compile a graph on all ranks, and write the plan in pieces. Collective.

    The owners do not depend on the number of ranks, and neither does the plan's content.

    Parameters:
        transport: A transport of `plancc_runtime`.
        folder: The graph: compressed rows in ``.npy`` files (`plancc.graph.csr`), for all ranks to
            read. It may be elsewhere on every rank; other parameters are the same on all.
        output: Head of the plan; its pieces are in a folder beside it.
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
    said |= {"compress": compress, "output": os.path.realpath(output)}
    _check_same_order(ranks, said | vars(reading) | vars(wishes) | vars(search))
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
        share, whole = read_share(files, ranks, name=source.name, **how)
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
        content = _write(ranks, output, header, parts, attributes, compress)
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
    wanted.check_of_rows()
    if set(wanted.names) - {"nnz", "rows", "work"}:
        raise InputError(
            f"balance '{wanted}': several ranks balance nonzeros, rows and work (nnz, rows, work)"
        )


def _check_same_order(ranks: Ranks, asked: dict[str, Any]) -> None:
    """InputError, on all ranks, unless they are to do the same. Collective."""
    words = {k: str(v.tolist() if isinstance(v, np.ndarray) else v) for k, v in asked.items()}
    every = ranks.gathered(words)
    with ranks.agreement():
        for name in words:
            said: dict[str, list[int]] = {}
            for rank, each in enumerate(every):
                said.setdefault(each.get(name, ""), []).append(rank)
            if len(said) > 1:
                listed = ", ".join(f"'{shortened(v)}' on {_of(r)}" for v, r in said.items())
                raise InputError(f"`{name}` is {listed}: give all ranks the same")


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


def _write(
    ranks: Ranks,
    output: str | PathLike[str],
    header: Header,
    parts: Plan,
    attributes: Mapping[str, Mapping[str, Any]],
    compress: bool,
) -> str:
    """Write this rank's piece, and the head on rank 0; returns the content hash. Collective."""
    arrays = parts.arrays()
    nodes = {name: node_of(name) for name in arrays}
    cuts = dict.fromkeys(node.cut for node in nodes.values() if node.cut)
    points = {cut: cut_points(cut, arrays.__getitem__) for cut in cuts}
    starts_of = {cut: _offsets(ranks, at[-1:]) for cut, at in points.items()}
    whole: dict[str, npt.NDArray[Any]] = {}
    slices: dict[str, npt.NDArray[Any]] = {}
    before: dict[str, int] = {}
    for name, array in arrays.items():
        if nodes[name].cut:
            slices[name] = array
            if nodes[name].shared:  # offsets of entries
                before[name] = ranks.before(int(array[-1]))
        elif name.endswith("_ptr"):
            whole[name] = _offsets(ranks, np.diff(array))
        else:
            whole[name] = ranks.concatenated(array)
    starts = {name: starts_of[nodes[name].cut] for name in slices}
    own: dict[str, Digests] = {}
    with ranks.agreement():  # features may be read from a file
        for name, array in slices.items():
            node = nodes[name]
            own[name] = digests_of(array, points[node.cut], shared=node.shared)
        own_content = root_of({}, own, slices)
        for name, start in before.items():
            own[name] = digests_of(slices[name] + start, points[nodes[name].cut], shared=True)
    contents = ranks.gathered(own_content)
    leaves = {name: ranks.concatenated(own[name]) for name in slices}
    for name, array in whole.items():
        leaves[name] = digests_of(array, np.array([0, len(array)]), shared=False)
    kinds = {
        name: ArrayKind(a.dtype, (int(starts[name][-1]) + nodes[name].shared, *a.shape[1:]))
        for name, a in slices.items()
    }
    content = root_of(header_attributes(header), leaves, {**whole, **kinds})
    folder = folder_name(output, content)
    with ExitStack() as stack:
        temporary = ""
        with ranks.agreement():
            if ranks.rank == 0:
                temporary = str(stack.enter_context(new_folder(output, folder)))
        temporary = ranks.told(temporary)
        with ranks.agreement():
            write_piece(temporary, ranks.rank, slices, own_content, compress=compress)
        with ranks.agreement():
            if ranks.rank == 0:
                first_part = block_of_parts(header.num_parts, ranks.size)
                pieces = PieceTable(folder, first_part, starts, kinds, contents)
                write_plan_head(output, header, whole, pieces, leaves, attributes, stack.close)
    return content


def _offsets(ranks: Ranks, sizes: Int64Array) -> Int64Array:
    """Sums of all ranks' sizes, from 0 on, along the last axis. Collective."""
    every = ranks.concatenated(np.ascontiguousarray(sizes.T)).T
    sums = np.cumsum(every, axis=-1)
    return np.ascontiguousarray(np.concatenate([0 * sums[..., :1], sums], axis=-1))
