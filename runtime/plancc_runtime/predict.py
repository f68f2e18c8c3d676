"""Predictions of a saved network for the vertices of a plan, without training.

`predict` is collective: all ranks call it with the same arguments.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import fspath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.files import StrPath, open_file
from plancc.plan.parts import Part
from plancc.plan.values import Header
from plancc.text import shown
from plancc_runtime.gathering import Ids, RowsOfRank, save_rows
from plancc_runtime.launch import need_torch
from plancc_runtime.nn import is_own
from plancc_runtime.options import GIVEN, MODEL_OPTIONS, TrainOptions
from plancc_runtime.remarks import WITH_LABELS
from plancc_runtime.slices import Opened, open_plan, read_ids
from plancc_runtime.train import run_of
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.messages import name_ranks

if TYPE_CHECKING:
    from plancc_runtime.saved import Description
    from plancc_runtime.tasks.base import LearningTask


class Predicted(NamedTuple):
    """Figures of the file that `predict` or `score_links` has written.

    Attributes:
        counts: How many vertices are predicted to have each class; empty for real numbers or links.
        num_vertices: Number of rows in the file: vertices, or pairs of vertices.
        words, words_of_all: If the user listed vertices (`ids`): words sent for these vertices, and
            words that all vertices would need. Otherwise 0.
    """

    header: Header
    counts: list[int]
    num_vertices: int
    words: int = 0
    words_of_all: int = 0


def predict(
    plan: StrPath,
    weights: StrPath,
    path: StrPath,
    transport: Transport,
    embeddings: int | None = None,
    ids: str | Sequence[int] | None = None,
    **execution: Any,
) -> Predicted:
    """Write the predictions of a saved network for the vertices of a plan. Collective.

    Errors are raised on all ranks, and leave no half-written file.

    Parameters:
        plan: A plan of any layout, with features as wide as in training.
        path: The file to write; see `TrainOptions.predict`.
        embeddings: Layer, counted from 1, whose outputs are written too.
        ids: Vertices to write: ids, "17,42", or a file of ids; by default all.
        execution: Other fields of `TrainOptions`: threads, device, dtype, kernel.
    """
    asked = {"ids": None if ids is None else GIVEN, "links": None, "embeddings": embeddings}
    opened, description = _opened(plan, weights, asked, transport)
    from plancc_runtime.predictions import known_in
    from plancc_runtime.targets import TARGETS, LinkTarget
    from plancc_runtime.tasks import task_of

    with transport.agreement():
        if description.random_labels:
            raise InputError(
                f"{fspath(weights)}: these weights were trained on random labels, and predict "
                f"nothing; {WITH_LABELS}, and train again"
            )
        of_links = description.target == LinkTarget.name
        if of_links and (opened.header.links is None or ids is not None):
            raise InputError(
                f"{fspath(weights)}: these weights predict links; use a plan with links, and leave "
                "`ids` out"
            )
        passes = ("order", *(() if ids is None else ("dead-rows",)), "overlap")
        passes = () if is_own(description.options.model) else passes
        own = {"init": weights, "predict": path, "embeddings": embeddings, "passes": passes}
        settings = {**own, **execution}
        options = options_of(description, fspath(weights), settings)
        task = task_of(opened.header, options)
        union = _joined(opened, description, task, fspath(weights))
        _check_widths(fspath(plan), union, description.dims)
    _check_targets(fspath(plan), union, description, transport)
    of_target = task.learnt
    vertices: npt.NDArray[np.integer] = opened.rows.global_id
    if ids is None:
        learnt = (vertices >= of_target.start) & (vertices < of_target.stop)
    else:
        listed, wanted = _asked(ids, plan, opened, of_target, transport)
        learnt = np.isin(vertices, wanted)
    labels = np.where(learnt, 0, -1).astype(np.int32)  # they mark vertices; nothing is trained
    data = type(union.vertex_data)(features=union.vertex_data.features, labels=labels)
    opened = replace(opened, rows=replace(union, vertex_data=data))
    run = run_of(opened, options, transport, task=task)
    vertices = run.rows.vertices
    kind = TARGETS[description.target]
    if ids is None:
        with transport.agreement():
            of_source = read_ids(plan, opened.content, transport)
        of_all = vertices[(vertices >= of_target.start) & (vertices < of_target.stop)]
        counts = run.outputs.save(path, embeddings, of_source, kind, known_in(union, of_all))
        return Predicted(opened.header, counts, of_target.stop - of_target.start)
    first = np.arange(0 if transport.rank else len(wanted))  # rank 0 has all
    known = known_in(union, vertices[np.isin(vertices, wanted)])
    outputs, ids_asked = run.outputs, Ids(first, listed[first])
    counts = outputs.save(path, embeddings, ids_asked, kind, known, wanted)
    return Predicted(opened.header, counts, len(wanted), *outputs.words())


def score_links(
    plan: StrPath,
    weights: StrPath,
    links: StrPath,
    path: StrPath,
    transport: Transport,
    **execution: Any,
) -> Predicted:
    """Write the scores of pairs of vertices, in the order of the file `links`. Collective.

    The file `links` has a pair of ids per line, such as ``17,42``: source, target. The file `path`
    has the columns ``id``, ``source``, ``target``, ``score``, ``probability``. For the other
    parameters see `predict`.
    """
    opened, description = _opened(plan, weights, {"links": GIVEN}, transport)
    name = fspath(weights)
    with transport.agreement():
        if not description.options.decoder:
            raise InputError(f"{name}: the network was not trained on links; give other weights")
        if opened.header.links is None:
            raise InputError(f"{opened.name}: the plan has no links; compile the graph with links")
        options = options_of(description, name, {"init": weights, "predict": path, **execution})
        _check_widths(fspath(plan), opened.rows, description.dims)
        share = read_ids(plan, opened.content, transport)
        pairs = _read_pairs(fspath(links), _are_names(share))
    ids, first, number = np.unique(pairs, return_index=True, return_inverse=True)
    everything = slice(0, opened.header.num_vertices)
    places = [f"{fspath(links)}, line {at // 2 + 1}: id" for at in first.tolist()]
    vertices = _vertices_of(ids, share, opened, everything, transport, places)
    vertices = vertices[number.reshape(pairs.shape)]
    scored, scores = run_of(opened, options, transport).outputs.score(vertices)
    columns = {
        "source": pairs[scored, 0],
        "target": pairs[scored, 1],
        "score": scores.float().cpu().numpy(),
        "probability": scores.float().sigmoid().cpu().numpy(),
    }
    rows = RowsOfRank(scored, len(pairs))
    save_rows(path, rows, columns, None, transport)
    return Predicted(opened.header, [], len(pairs))


def _opened(
    plan: StrPath, weights: StrPath, asked: Mapping[str, Any], transport: Transport
) -> tuple[Opened, Description]:
    """Return the opened plan, and the description of the network in `weights`. Collective.

    Raise InputError if `asked` (arguments by name) or the description differs between ranks.
    """
    with transport.agreement():
        need_torch("a network")
    from plancc_runtime.saved import Description

    transport.check_alike(asked)
    opened = open_plan(plan, transport)
    with transport.agreement():
        description = Description.read(weights)
    found = transport.ranks_by_value(json.dumps(description.to_dict()))
    if len(found) > 1:
        whose = " differ from those of ".join(map(name_ranks, found.values()))
        transport.agree(InputError(f"{fspath(weights)}: the weights of {whose}"))
    return opened, description


def _are_names(share: Ids | None) -> bool:
    """Return whether the source's ids are names, and not numbers."""
    return share is not None and share.original.dtype.kind == "S"


def _read_pairs(path: str, named: bool) -> npt.NDArray[Any]:
    """Return the pairs of ids in a file: int64[m, 2], or bytes[m, 2] for names."""
    lines = _lines(path, "`links` expects a text file with two ids a line, such as 17,42")
    found = list[list[Any]]()
    for line, text in enumerate(lines, 1):
        mark = next((each for each in ",\t" if each in text), " ")
        words = next(csv.reader([text.strip()], delimiter=mark, skipinitialspace=True))
        found.append([_id(word, named) for word in words])
        if len(words) != 2 or None in found[-1]:
            raise InputError(
                f"{path}, line {line}: '{shown(text, 40)}' is not a link; give two ids, as in 17,42"
            )
    if not found:
        raise InputError(f"{path}: the file has no link; give at least one link")
    return np.array(found)


def _lines(path: str, wanted: str) -> list[str]:
    """Return the lines of a text file; if it is none, raise InputError that ends with `wanted`."""
    with open_file(path) as file:
        data = file.read()
    if b"\0" in data:
        raise InputError(f"{path}: is not text: {wanted}")
    return data.decode("utf-8-sig", "replace").splitlines()


def _id(word: str, named: bool) -> int | bytes | None:
    """Return the id in a string: bytes if ids are `named`, else an int; None if it is no int."""
    if named:
        return word.strip().encode()
    return int(word) if re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", word) else None


def _read_ids(text: str, named: bool) -> dict[Any, int]:
    """Return the ids in `text` ("17,42"), or in the file `text`, and the position of each."""
    if not os.path.exists(text):
        if named or "," in text or text.strip(" +-").isdecimal():
            return _checked(next(csv.reader([text])), named=named)
        raise InputError(
            f"`ids` '{shown(text)}': is neither an id, which is a whole number, nor a file that "
            "can be read"
        )
    lines = _lines(text, "`ids` expects numbers, or a text file with one id a line")
    return _checked(lines, text, named)


def _checked(words: Sequence[Any], file: str = "", named: bool = False) -> dict[Any, int]:
    """Return each id in `words` with its position, from 1; a file's empty lines are skipped."""
    found = dict[Any, int]()
    texts = (word.decode() if isinstance(word, bytes) else str(word) for word in words)
    for line, word in enumerate(texts, 1):
        where = f"{file}, line {line}: '{shown(word, 40)}'" if file else f"`ids` {shown(word, 40)}"
        if not word.strip() and file:
            continue
        each = _id(word, named)
        if each is None:
            raise InputError(f"{where}: is not an id; ids are whole numbers")
        if each in found:
            raise InputError(f"{where}: this id is given twice; give every id once")
        found[each] = line
    if not found:
        raise InputError(f"{file or '`ids`'}: there is no id; give at least one id")
    return found


def _asked(
    ids: str | Sequence[int], plan: StrPath, opened: Opened, of: slice, transport: Transport
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return the ids in a list or a file, and their vertices, int64[m]. Collective.

    InputError is raised for an id whose vertex is not in the range `of`.
    """
    with transport.agreement():
        share = read_ids(plan, opened.content, transport)
        named = _are_names(share)
        lines = _read_ids(ids, named) if isinstance(ids, str) else _checked(ids, named=named)
    file = ids if isinstance(ids, str) and os.path.exists(ids) else ""
    places = [f"{file}, line {line}: id" if file else "`ids`" for line in lines.values()]
    listed = np.array([*lines])
    return listed, _vertices_of(listed, share, opened, of, transport, places)


def _vertices_of(
    ids: npt.NDArray[Any],
    share: Ids | None,
    opened: Opened,
    of: slice,
    transport: Transport,
    places: Sequence[str],
) -> npt.NDArray[np.int64]:
    """Return the vertices with these ids: int64[m]; raise InputError for an unknown id. Collective.

    `share` is this rank's share of the source's ids, None if ids are numbers from 0. `of` is the
    range of allowed vertices. The error for an unknown ``ids[k]`` begins with ``places[k]``.
    """
    if not transport.all_equal(ids.tobytes()):
        transport.agree(InputError("the ids differ between ranks; give every rank the same ids"))
    n, vertices = of.stop - of.start, np.full(len(ids), -1, np.int64)
    if share is None:
        there = (ids >= 0) & (ids < n)
        vertices[there] = of.start + ids[there]
    elif len((share := share.within(of)).original):
        order = np.argsort(share.original)
        at = np.searchsorted(share.original, ids, sorter=order).clip(max=len(order) - 1)
        there = share.original[order[at]] == ids
        vertices[there] = of.start + share.vertex[order[at[there]]]
    transport.allreduce_max(vertices)
    with transport.agreement():
        for k in np.flatnonzero(vertices < 0)[:1]:
            known = "its ids come from the source" if share else f"it has 0 to {n - 1:,}"
            raise InputError(
                f"{places[k]} {shown(ids[k], 40)}: no vertex of {opened.name} has this id; {known}"
            )
    return vertices


def _joined(opened: Opened, description: Description, task: LearningTask, weights: str) -> Part:
    """Return the slice with the vertex data of all types joined.

    Raise InputError if the plan's types do not fit the network.
    """
    of_network, types = description.options.types, opened.header.types
    if types is None and not of_network:
        return task.joined(opened.rows, opened.name)
    if types is None or not of_network:
        has = "several types of vertices" if types is not None else "one type of vertices"
        other = "one" if types is not None else "several"
        raise InputError(f"{opened.name}: the plan has {has}, but the network needs {other}")
    from plancc_runtime.nn.relations import TypesOfNetwork

    network = TypesOfNetwork.parse(of_network)
    if {*types.relations} == {*network.relations} and network.target in types.counts:
        part = task.joined(opened.rows, opened.name)
        if TypesOfNetwork(**task.network["types"]).is_like(network):
            return part
    raise InputError(
        f"{opened.name}: the plan has other types, relations or widths of features than the "
        f"network of {weights}; compile a graph that fits the network"
    )


def options_of(description: Description, name: str, settings: dict[str, Any]) -> TrainOptions:
    """Return the options of a run with a network, whose description was read from file `name`."""
    dims, network = description.dims, description.options
    hidden = set(dims[1:] if network.decoder else dims[1:-1])
    if len(hidden) > 1:
        widths = " x ".join(map(str, dims))
        raise InputError(
            f"{name}: the network has widths {widths}; predictions need hidden layers of one "
            "width; use plancc_runtime.load_network, which supports any widths"
        )
    links = bool(network.decoder)
    layers: dict[str, Any] = {
        "layers": len(dims) - 1,
        "activation": network.activation,
        "norm": network.norm,
        "residual": network.residual,
        **{key: network.conv[key] for key in MODEL_OPTIONS if key in network.conv},
    }
    if is_own(network.model):
        from plancc_runtime.nn.own_class import check_name

        layers = {}
        try:
            check_name(network.model)
        except InputError as error:
            raise InputError(
                f"{name}: the class of its network, {shown(network.model)}, must be in the "
                f"folder where the command runs: {error}"
            ) from None
    scales = {"rows": description.normalize_features, "columns": network.standardize_features}
    return TrainOptions(
        model=network.model,
        task="links" if links else "vertices",
        decoder=network.decoder or TrainOptions.decoder,
        epochs=0,
        hidden=dims[-1] if links else min(hidden, default=TrainOptions.hidden),
        scale_features=",".join(name for name, scaled in scales.items() if scaled) or "none",
        classes=None if links else dims[-1],
        target=network.types.get("target"),
        model_options=network.conv,
        **layers,
        **settings,
    )


def _check_widths(name: str, part: Part, dims: tuple[int, ...]) -> None:
    """Raise InputError if the plan's features do not fit the network."""
    features = part.vertex_data.features
    if features is None:
        raise InputError(
            f"{name}: the plan has no features, but the network needs {dims[0]} per vertex; "
            "compile the graph with vertex data"
        )
    if features.shape[1] != dims[0]:
        raise InputError(
            f"{name}: the plan has features of width {features.shape[1]}, but the network needs "
            f"{dims[0]}; compile the graph with features of that width"
        )


def _check_targets(name: str, part: Part, description: Description, transport: Transport) -> None:
    """Raise InputError if the plan's labels do not fit the network's outputs. Collective."""
    from plancc_runtime.targets import LinkTarget, Numbers, kind_of

    if description.target == LinkTarget.name:
        return
    classes = description.dims[-1]
    data, found = part.vertex_data, 0
    if data.targets is not None:
        found = data.targets.shape[1]
    elif data.labels is not None:
        found = data.labels.max(initial=-1) + 1
    [found] = transport.largest(found)
    real = data.targets is not None and kind_of(data.targets) is Numbers
    with transport.agreement():
        if found and real != (description.target == Numbers.name):
            words = ("classes", "real numbers")
            raise InputError(
                f"{name}: the plan has {words[real]}, but the network predicts {words[not real]}"
            )
        if found > classes or (data.targets is not None and found != classes):
            raise InputError(
                f"{name}: the plan has labels of {found} classes, but the network has {classes}"
            )
