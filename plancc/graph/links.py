"""Links: pairs of vertices that a network learns to tell from others, by split.

A link goes from a source to a target, as an edge of ``edge_index`` does. Negatives of training are
drawn anew in every epoch; those of validation and test are fixed.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, PlanccWarning
from plancc.graph.formats import FORMATS
from plancc.graph.graph import Graph, check_range
from plancc.graph.listed_edges import link_keys, places_in
from plancc.graph.npz import read_npz_data
from plancc.graph.textfile import StrPath
from plancc.graph.vertexdata import as_array
from plancc.text import shown

SPLITS = ("train", "val", "test")
KINDS = (*SPLITS, "val_negative", "test_negative")
"""Kinds of links, by number."""
OF_LINKS = ("val_target_negative", "test_target_negative")
"""Names of the negatives of every single link."""
MOST_LINKS = 2**31 - 1
"""Most links of a plan, with negatives."""
TRIES = 64
"""Times that negatives which are edges are drawn again."""

Pair = npt.NDArray[np.int32]


@dataclass(frozen=True)
class SplitLinks:
    """Links of a whole graph.

    Attributes:
        pairs (dict of str to int32[2, m]): Sources and targets of all `KINDS`, in the order in
            which they were given.
        per_link: Negatives of every validation and test link: those of link i are ``i * per_link``
            to ``(i + 1) * per_link - 1``, and have its source. 0: the links of a split share them.
    """

    pairs: Mapping[str, Pair]
    per_link: int = 0

    def columns(self) -> tuple[Pair, npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Both ends, int32[2, links], kind, uint8[links], and number in the kind, int64[links]."""
        every = [self.pairs[kind] for kind in KINDS]
        sizes = [each.shape[1] for each in every]
        kind = np.repeat(np.arange(len(KINDS), dtype=np.uint8), sizes)
        return np.concatenate(every, axis=1), kind, np.concatenate([*map(np.arange, sizes)])


def check_no_types(graph: Graph) -> None:
    """InputError for a graph of types."""
    if graph.types is not None:
        raise InputError(f"{graph.source.name}: links are learnt in graphs without types")


def read_links(source: Any, graph: Graph) -> SplitLinks:
    """The links of a graph, from what a user has.

    Parameters:
        source (path, mapping, or three objects): A mapping, or an .npz file, of integer[2, m] under
            the names ``train``, ``val`` and ``test``, and ``val_negative`` and ``test_negative``,
            which the links of a split share; or in place of these integer[m, k] targets,
            ``val_target_negative`` and ``test_target_negative``, k of every link. A folder with a
            split of links as the Open Graph Benchmark has them. The three data objects of PyTorch
            Geometric's RandomLinkSplit, with ``edge_label_index`` and ``edge_label``.

    Raises:
        InputError: For other sources, names or shapes, a vertex out of range, validation or test
            links without negatives, or no training links.

    Warns:
        PlanccWarning: If validation or test links are training links too.
    """
    check_no_types(graph)
    where = "`links`: "
    if isinstance(source, str | os.PathLike):
        where = f"{os.fspath(source)}: "
        source = _read(source)
    elif isinstance(source, Sequence) and len(source) == len(SPLITS):
        source = _labelled(source, where)
    if not isinstance(source, Mapping):
        raise InputError(
            f"{where}'{type(source).__name__}' has no links: give a file, a mapping of "
            f"{', '.join(KINDS)}, or the three data objects of RandomLinkSplit"
        )
    return _checked(source, graph, where)


def _read(path: StrPath) -> Mapping[str, Any]:
    """What a file or a folder holds, by our names."""
    name = os.fspath(path)
    if not os.path.isdir(name):
        if not name.lower().endswith(".npz"):
            raise InputError(f"{name}: links are read from .npz, or from a folder of format ogb")
        with read_npz_data(name, split=None, keys={}) as held:
            return {key: held[key] for key in (*KINDS, *OF_LINKS) if key in held}
    for each in FORMATS.loaded().values():
        if each.read_links is not None and each.files is not None and each.files(name):
            found: Mapping[str, Any] = each.read_links(name)
            return found
    raise InputError(f"{name}: is no folder of a format that holds links")


def _labelled(objects: Sequence[Any], where: str) -> dict[str, Any]:
    """What RandomLinkSplit returns, by our names; negatives of training are left out."""
    found = {}
    for name, each in zip(SPLITS, objects, strict=True):
        pair, label = (getattr(each, key, None) for key in ("edge_label_index", "edge_label"))
        if pair is None or label is None:
            raise InputError(f"{where}the data of {name} have no edge_label_index and edge_label")
        pair, label = as_array(pair, f"{where}edge_label_index"), as_array(label, f"{where}label")
        if pair.ndim != 2 or label.shape != pair.shape[1:]:
            raise InputError(
                f"{where}edge_label_index of {name} has shape {pair.shape}, and edge_label "
                f"{label.shape}"
            )
        found[name] = pair[:, label > 0]
        if name != SPLITS[0]:
            found[f"{name}_negative"] = pair[:, label <= 0]
    return found


def _checked(given: Mapping[str, Any], graph: Graph, where: str) -> SplitLinks:
    """Links by kind, of the right shapes and ranges."""
    for name in given.keys() - {*KINDS, *OF_LINKS}:
        known = ", ".join((*KINDS, *OF_LINKS))
        raise InputError(f"{where}'{shown(name)}' is no kind of links: they are {known}")
    found: dict[str, npt.NDArray[Any]] = {}
    for name, value in given.items():
        array = found[name] = as_array(value, f"{where}{name}")
        pair = name in KINDS
        if array.dtype.kind not in "iu" or array.ndim != 2 or (pair and len(array) != 2):
            shape = "[2, links]" if pair else "[links, negatives of each]"
            raise InputError(
                f"{where}{name} is of {array.dtype}, shape {list(array.shape)}: give integers of "
                f"shape {shape}"
            )
        check_range(array, graph.num_vertices, f"{where}{name}")
    pairs = {kind: found.get(kind, np.zeros((2, 0))).astype(np.int32) for kind in KINDS}
    per_link = {0} if any(pairs[kind].shape[1] for kind in KINDS[3:]) else set[int]()
    for name in found.keys() & {*OF_LINKS}:
        split, targets = name.partition("_")[0], found[name]
        if len(targets) != pairs[split].shape[1]:
            raise InputError(
                f"{where}{name} has {len(targets)} rows, and {split} {pairs[split].shape[1]} links"
            )
        per_link.add(targets.shape[1])
        sources = np.repeat(pairs[split][0], targets.shape[1])
        pairs[f"{split}_negative"] = np.stack([sources, targets.reshape(-1).astype(np.int32)])
    for split in SPLITS[1:]:
        if pairs[split].shape[1] and not pairs[f"{split}_negative"].shape[1]:
            raise InputError(f"{where}{split} has links and no negatives: give {split}_negative")
    if not pairs["train"].shape[1]:
        raise InputError(f"{where}there are no training links (array train)")
    if len(per_link) > 1:
        raise InputError(
            f"{where}the links have {' and '.join(map(str, sorted(per_link)))} negatives each (0: "
            "they share them): give both splits alike"
        )
    if sum(each.shape[1] for each in pairs.values()) > MOST_LINKS:
        raise InputError(f"{where}more than {MOST_LINKS} links, with their negatives")
    learnt = np.sort(link_keys(pairs["train"], graph))
    held = np.concatenate([pairs["val"], pairs["test"]], axis=1)
    if repeated := np.count_nonzero(places_in(learnt, link_keys(held, graph)) >= 0):
        warnings.warn(
            f"{where}{repeated:,} of {held.shape[1]:,} validation and test links are training "
            "links too, so that scores tell what was learnt by heart",
            PlanccWarning,
            stacklevel=2,
        )
    return SplitLinks(pairs, *per_link)


def check_shares(shares: Sequence[float], links: Any = None) -> None:
    """InputError unless these are the two shares of `link_split`, and no links are given."""
    if links is not None:
        raise InputError("`links` and `link_split` exclude each other: give one of them")
    if len(shares) != 2 or min(shares) < 0 or not 0 < sum(shares) < 1:
        raise InputError(
            f"`link_split` {','.join(map(str, shares))}: give the shares of validation and test "
            "links, which leave some for training, as 0.1,0.1"
        )


def random_links(
    graph: Graph,
    shares: Sequence[float],
    seed: int,
    times: npt.NDArray[np.float64] | None = None,
) -> SplitLinks:
    """Split the edges: each of an undirected graph once, none from a vertex to itself.

    A validation or test link has one negative, shared by its split: a pair of vertices without an
    edge, uniform among these. RandomLinkSplit of PyTorch Geometric splits likewise.

    Parameters:
        shares: Of validation and of test links; the others are for training.
        times (float64[num_nonzeros], or None): By which edges are split (`cut_by_time`); None: at
            random.

    Raises:
        InputError: If there are no edges, a share above 0 has none, or hardly a pair of vertices is
            without one.
    """
    check_no_types(graph)
    target = np.repeat(np.arange(graph.num_vertices, dtype=np.int32), np.diff(graph.indptr))
    kept = graph.indices != target if graph.directed else graph.indices < target
    ends = np.stack([graph.indices[kept], target[kept]])
    random = np.random.default_rng(seed)
    order = random.permutation(ends.shape[1])
    if not len(order):
        raise InputError(f"{graph.source.name}: has no edges to split")
    sizes = [int(share * len(order)) for share in shares]
    if times is not None:
        of_links = times[kept]
        order = np.argsort(of_links, kind="stable")
        where = f"{graph.source.name}: `link_times`"
        first, second = cut_by_time(of_links[order], shares, where)
        sizes, order = [second - first, len(order) - second], np.roll(order, -first)
    for share, size in zip(shares, sizes, strict=True):
        if share and not size:
            raise InputError(
                f"`link_split` {share:g}: of {len(order)} edges that is no link; give more, or 0"
            )
    *held, train = (ends[:, each] for each in np.split(order, np.cumsum(sizes)))
    pairs = dict(zip(SPLITS, (train, *held), strict=True))
    known = np.sort(link_keys(ends, graph))
    for kind, size in zip(KINDS[3:], sizes, strict=True):
        pairs[kind] = _negatives(known, size, graph, random)
    return SplitLinks(pairs)


def cut_by_time(
    times: npt.NDArray[np.float64], shares: Sequence[float], where: str
) -> tuple[int, int]:
    """Where validation and test begin among ascending times, none of which is divided.

    Parameters:
        shares: Asked for of validation and test.
        where: Begins messages.

    Raises:
        InputError: If all links are of one time, or of too few.

    Warns:
        PlanccWarning: If a split is larger or smaller than asked, for links of one time.
    """
    total, cuts, end = len(times), list[int](), len(times)
    begins = np.flatnonzero(np.diff(times)) + 1
    for share in reversed(shares):
        able = begins[begins < end]
        if share and not len(able):
            raise InputError(
                f"{where}: the {total:,} links have {len(begins) + 1} different times, too few for "
                f"`link_split` {','.join(f'{each:g}' for each in shares)}"
            )
        if share:
            wanted = end - int(share * total)
            end = int(able[np.argmin(abs(able - wanted))])
        cuts.insert(0, end)
    sizes = np.diff([*cuts, total])
    if any(size != int(share * total) for size, share in zip(sizes.tolist(), shares, strict=True)):
        told = [
            f"{size / total:.1%} of the links are for {split}, from {times[cut]:.15g} on"
            for split, size, cut in zip(("validation", "test"), sizes, cuts, strict=True)
            if size
        ]
        warnings.warn(
            f"{where}: links of one time stay together: {'; '.join(told)}",
            PlanccWarning,
            stacklevel=2,
        )
    return cuts[0], cuts[1]


def _negatives(
    known: npt.NDArray[np.int64], size: int, graph: Graph, random: np.random.Generator
) -> Pair:
    """Pairs of two vertices without an edge, int32[2, size]; `known`: keys of edges, ascending."""
    found = random.integers(graph.num_vertices, size=(2, size), dtype=np.int32)
    for _ in range(TRIES):
        wrong = np.flatnonzero(
            (places_in(known, link_keys(found, graph)) >= 0) | (found[0] == found[1])
        )
        if not len(wrong):
            return found
        found[:, wrong] = random.integers(graph.num_vertices, size=(2, len(wrong)), dtype=np.int32)
    raise InputError(
        f"{graph.source.name}: hardly a pair of vertices is without an edge; give links with "
        "negatives (`links`)"
    )


def learnt(
    graph: Graph,
    source: Any,
    shares: Sequence[float] | None,
    disjoint: float,
    seed: int,
    times: npt.NDArray[np.float64] | None = None,
) -> tuple[SplitLinks, Pair]:
    """The links to learn, and the links whose edges carry no messages.

    Parameters:
        source, shares, times: As of `read_links`, or of `random_links`; one of the first two.
        disjoint, seed: As of `withheld`.
    """
    links = random_links(graph, shares, seed, times) if shares else read_links(source, graph)
    return withheld(links, disjoint, seed)


def withheld(links: SplitLinks, disjoint: float, seed: int) -> tuple[SplitLinks, Pair]:
    """The links, and those whose edges carry no messages, so that none tells the answer.

    These are the validation and test links.

    Parameters:
        disjoint: Above 0, training links are this share of those given, drawn by the seed, and the
            edges of these carry no messages either (``disjoint_train_ratio`` of RandomLinkSplit).
    """
    pairs = dict(links.pairs)
    away = [pairs["val"], pairs["test"]]
    if disjoint:
        train = pairs["train"]
        size = max(1, int(disjoint * train.shape[1]))
        chosen = np.random.default_rng([seed, 1]).permutation(train.shape[1])[:size]
        pairs["train"] = train[:, np.sort(chosen)]
        away.append(pairs["train"])
    return replace(links, pairs=pairs), np.concatenate(away, axis=1)


def without(graph: Graph, pairs: Pair, first: int = 0) -> Graph:
    """Leave out the edges from ``pairs[0]`` to ``pairs[1]``, both ways of an undirected graph.

    Parameters:
        first: Number of the first row, of a graph that is some rows of another.
    """
    row = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr))
    known = np.sort(link_keys(pairs, graph))
    kept = places_in(known, link_keys(np.stack([graph.indices, first + row]), graph)) < 0
    degree = np.bincount(row[kept], minlength=graph.num_vertices)
    values, features = graph.values, graph.edge_features
    return replace(
        graph,
        indptr=np.concatenate([[0], np.cumsum(degree)]),
        indices=graph.indices[kept],
        values=None if values is None else values[kept],
        edge_features=None if features is None else features[kept],
    )
