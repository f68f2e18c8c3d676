"""Links: pairs of vertices that a network learns to tell from others, by split.

A link goes from a source to a target, as an edge of ``edge_index`` does. Negatives of training are
drawn anew in every epoch; those of validation and test are fixed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, warn
from plancc.graph.formats import FORMATS
from plancc.graph.graph import Graph, check_range
from plancc.graph.listed_edges import edge_keys, edges_of, link_keys, places_in
from plancc.graph.named_ids import are_names, names_of
from plancc.graph.npz import Archive
from plancc.graph.rowids import warn_of_numbers
from plancc.graph.textfile import StrPath, show
from plancc.graph.vertexdata import as_array
from plancc.text import shown

SPLITS = ("train", "val", "test")
KINDS = (*SPLITS, "val_negative", "test_negative")
"""Kinds of links, by number."""
OF_LINKS = ("val_target_negative", "test_target_negative")
"""Names of the negatives of every single link."""
NAMES = (*KINDS, *OF_LINKS)
MOST_LINKS = 2**31 - 1
"""Most links of a plan, with negatives."""
LOOKED_AT = 1 << 16
"""Pairs of a kind that are compared with edges: of more, about as many in equal steps."""
TOLD = 0.02
"""Share of links whose reverse tells of them, beyond that of negatives, from which on that is said:
fewer change the area under the curve by less than 0.01."""

Pair = npt.NDArray[np.int32]


@dataclass(frozen=True)
class SplitLinks:
    """Links of a whole graph.

    Attributes:
        pairs (dict of str to int32[2, m]): Sources and targets of all `KINDS`, in the order in
            which they were given.
        per_link: Negatives of every validation and test link: those of link i are ``i * per_link``
            to ``(i + 1) * per_link - 1``, and have its source. 0: the links of a split share them.
        begins: Time of the first validation or test link; infinity where there are no times.
    """

    pairs: Mapping[str, Pair]
    per_link: int = 0
    begins: float = np.inf

    def of(self, *kinds: str) -> Pair:
        """The links of some kinds, int32[2, m]."""
        return np.concatenate([self.pairs[kind] for kind in kinds], axis=1)

    def columns(self) -> tuple[Pair, npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
        """Both ends, int32[2, links], kind, uint8[links], and number in the kind, int64[links]."""
        sizes = [self.pairs[kind].shape[1] for kind in KINDS]
        kind = np.repeat(np.arange(len(KINDS), dtype=np.uint8), sizes)
        return self.of(*KINDS), kind, np.concatenate([*map(np.arange, sizes)])


def check_no_types(graph: Graph) -> None:
    """InputError for a graph of types."""
    if graph.types is not None:
        raise InputError(
            f"{graph.source.name}: link prediction is not supported for graphs with vertex types"
        )


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
            links without negatives, no training links, pairs in rows, or pairs of ``edge_label`` 0
            that are edges.

    Warns:
        PlanccWarning: Of links in two splits, there twice, or without an edge; of negatives that
            are links or edges; of loops; if all links are for training.
    """
    check_no_types(graph)
    where, known = "`links`: ", edges_of(graph)
    labelled = False
    if isinstance(source, str | os.PathLike):
        where = f"{os.fspath(source)}: "
        source = _read(source)
    elif isinstance(source, Sequence) and len(source) == len(SPLITS):
        source, labelled = _labelled(source, graph, known, where), True
    if not isinstance(source, Mapping):
        given = f"a file, a mapping of {', '.join(KINDS)}, or the three data objects"
        kind = type(source).__name__
        raise InputError(f"{where}'{kind}' has no links: give {given} of RandomLinkSplit")
    ends = source.get("train")
    if not labelled and ends is not None and as_array(ends, where).dtype.kind in "iu":
        warn_of_numbers(graph, f"{where}the ends of links")
    links = _checked(source, graph, where)
    for found, what in _doubtful(links, graph, known, where, labelled):
        if found.any():
            warn(f"{where}{found.sum():,} of {len(found):,} {what}")
    return links


def are_edges(
    known: npt.NDArray[np.int64], pair: npt.NDArray[Any], graph: Graph
) -> npt.NDArray[np.bool_]:
    """Which pairs are among the edges `known`: bool[m]."""
    return places_in(known, edge_keys(graph, pair[1], pair[0])) >= 0


def _some(pairs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Those of many pairs, array[..., m], that are looked at."""
    return pairs[..., :: 1 + pairs.shape[-1] // LOOKED_AT]


def _read(path: StrPath) -> Mapping[str, Any]:
    """What a file or a folder holds, by our names."""
    name = os.fspath(path)
    if not os.path.isdir(name):
        if not name.lower().endswith(".npz"):
            raise InputError(f"{name}: links are read from .npz, or from a folder of format ogb")
        with Archive(name) as held:
            if left := ", ".join(show(key) for key in held if key not in NAMES):
                warn(f"{name}: not taken: {left}; names of links: {', '.join(NAMES)}")
            return {key: held[key] for key in NAMES if key in held}
    for each in FORMATS.loaded().values():
        if each.read_links is not None and each.files is not None and each.files(name):
            found: Mapping[str, Any] = each.read_links(name)
            return found
    raise InputError(f"{name}: is no folder of a format that holds links")


def _labelled(
    objects: Sequence[Any], graph: Graph, known: npt.NDArray[np.int64], where: str
) -> dict[str, Any]:
    """What RandomLinkSplit returns, by our names; negatives of training are left out."""
    found = {}
    for name, each in zip(SPLITS, objects, strict=True):
        pair, label = (getattr(each, key, None) for key in ("edge_label_index", "edge_label"))
        if pair is None or label is None:
            raise InputError(f"{where}the data of {name} have no edge_label_index and edge_label")
        pair, label = as_array(pair, f"{where}edge_label_index"), as_array(label, f"{where}label")
        if pair.ndim != 2 or label.shape != pair.shape[1:]:
            shapes = f"has shape {pair.shape}, and edge_label {label.shape}"
            raise InputError(f"{where}edge_label_index of {name} {shapes}")
        check_range(pair, graph.num_vertices, f"{where}edge_label_index of {name}")
        found[name], negative = pair[:, label > 0], pair[:, label <= 0]
        wrong = are_edges(known, _some(negative), graph)
        if wrong.any():
            told = (
                f"{wrong.sum():,} of the {len(wrong):,} pairs of edge_label 0 of {name} are edges"
            )
            cure = "with labels of your own leave neg_sampling_ratio above 0"
            raise InputError(f"{where}{told}, and not negatives: {cure}")
        if name != SPLITS[0]:
            found[f"{name}_negative"] = negative
    return found


def _checked(given: Mapping[str, Any], graph: Graph, where: str) -> SplitLinks:
    """Links by kind, of the right shapes and ranges."""
    for name in given.keys() - {*NAMES}:
        raise InputError(f"{where}'{shown(name)}' is no kind of links: they are {', '.join(NAMES)}")
    found: dict[str, npt.NDArray[Any]] = {}
    for name, value in given.items():
        listed, pair = as_array(value, f"{where}{name}"), name in KINDS
        array = found[name] = _by_name(listed, graph, f"{where}{name}")
        if array.dtype.kind not in "iu" or array.ndim != 2 or (pair and len(array) != 2):
            shape = "[2, links]" if pair else "[links, negatives of each]"
            kind = "text" if listed.dtype.kind in "US" else listed.dtype
            names = ", or their names" if are_names(graph.original_ids) else ""
            cure = f"give integers of shape {shape}, the numbers of vertices{names}"
            raise InputError(f"{where}{name} is of {kind}, shape {list(array.shape)}: {cure}")
        check_range(array, graph.num_vertices, f"{where}{name}")
    pairs = {kind: found.get(kind, np.zeros((2, 0))).astype(np.int32) for kind in KINDS}
    per_link = {0} if any(pairs[kind].shape[1] for kind in KINDS[3:]) else set[int]()
    for name in found.keys() & {*OF_LINKS}:
        split, targets = name.partition("_")[0], found[name]
        if len(targets) != (links := pairs[split].shape[1]):
            raise InputError(f"{where}{name} has {len(targets)} rows, and {split} {links} links")
        per_link.add(targets.shape[1])
        sources = np.repeat(pairs[split][0], targets.shape[1])
        pairs[f"{split}_negative"] = np.stack([sources, targets.reshape(-1).astype(np.int32)])
    for split in SPLITS[1:]:
        if pairs[split].shape[1] and not pairs[f"{split}_negative"].shape[1]:
            raise InputError(f"{where}{split} has links and no negatives: give {split}_negative")
    if not pairs["train"].shape[1]:
        raise InputError(f"{where}there are no training links (array train)")
    if len(per_link) > 1:
        counts = " and ".join(map(str, sorted(per_link)))
        cure = "(0: they share them): give both splits alike"
        raise InputError(f"{where}the links have {counts} negatives each {cure}")
    if sum(each.shape[1] for each in pairs.values()) > MOST_LINKS:
        raise InputError(f"{where}more than {MOST_LINKS} links, with their negatives")
    return SplitLinks(pairs, *per_link)


def _by_name(array: npt.NDArray[Any], graph: Graph, what: str) -> npt.NDArray[Any]:
    """Vertex numbers in place of names; InputError for one that no vertex has."""
    ids = graph.original_ids
    if ids is None or array.dtype.kind in "iu" or not are_names(ids):
        return array
    names, order = names_of(array), np.argsort(ids)
    place = places_in(ids[order], names)
    if (place < 0).any():
        at, *_ = np.argwhere(place < 0).tolist()
        raise InputError(f"{what}{at}: no vertex has the name {show(names[tuple(at)])}")
    return order[place]


def _doubtful(
    links: SplitLinks, graph: Graph, known: npt.NDArray[np.int64], where: str, labelled: bool
) -> Iterator[tuple[npt.NDArray[np.bool_], str]]:
    """Which links, of some, are what is seldom meant, and what that is.

    Parameters:
        known: `edges_of` the graph.
        labelled: Whether RandomLinkSplit made the links: it leaves edges out of graphs.

    Raises:
        InputError: For two links that are edges if each is a row.
    """
    keys = {split: np.sort(link_keys(links.pairs[split], graph)) for split in SPLITS}
    train, val, test = keys.values()
    held = np.concatenate([val, test])
    learnt_too = "validation and test links are training links too, so that scores tell what was"
    yield places_in(train, _some(held)) >= 0, f"{learnt_too} learnt by heart"
    yield places_in(val, _some(test)) >= 0, "test links are validation links too"
    of_val, of_test = (np.sort(link_keys(links.pairs[kind], graph)) for kind in KINDS[3:])
    yield places_in(of_val, _some(of_test)) >= 0, "test_negative pairs are val_negative ones too"
    if not len(held):
        yield train >= 0, "links are for training: there are no scores of validation and test"
    for kind in KINDS:
        pair = _some(links.pairs[kind])
        there = are_edges(known, pair, graph)
        yield pair[0] == pair[1], f"{kind} pairs are of one vertex"
        if kind not in SPLITS:
            some = link_keys(pair, graph)
            are_links = [places_in(each, some) >= 0 for each in keys.values()]
            yield np.any([there, *are_links], axis=0), f"{kind} pairs are links or edges"
            continue
        if pair.shape == (2, 2) and not there.all() and are_edges(known, pair.T, graph).all():
            told = f"has a link in every row, as {pair.tolist()} then are edges"
            cure = "give the sources in one row, and the targets in another"
            raise InputError(f"{where}{kind} {told}: {cure}")
        if kind == SPLITS[0] and not labelled:
            absent = ~there & ~are_edges(known, pair[::-1], graph)
            left_out = "which is meant only where their edges were left out of it"
            yield absent, f"{kind} links are no edges of the graph, {left_out}"
        twice, pair = np.diff(keys[kind], prepend=-1) == 0, links.pairs[kind]
        if twice.any():
            forth, back = (np.unique(edge_keys(graph, *each)) for each in (pair, pair[::-1]))
            if len(forth) < len(twice) or not np.array_equal(forth, back):  # not all both ways
                ways = "" if graph.directed else " or both ways"
                yield twice, f"{kind} links are there twice{ways}"


def check_shares(shares: Sequence[float], links: Any = None) -> None:
    """InputError unless these are the two shares of `link_split`, and no links are given."""
    if links is not None:
        raise InputError("`links` and `link_split` exclude each other: give one of them")
    if len(shares) != 2 or min(shares) < 0 or not 0 < sum(shares) < 1:
        cure = "give the shares of validation and test links, which leave some for training"
        raise InputError(f"`link_split` {','.join(map(str, shares))}: {cure}, as 0.1,0.1")


def random_links(
    graph: Graph, shares: Sequence[float], seed: int, times: npt.NDArray[np.float64] | None = None
) -> SplitLinks:
    """Split the edges: each of an undirected graph once, none from a vertex to itself.

    A validation or test link has one negative, shared by its split: a pair of vertices without an
    edge, uniform among these; no two are the same. RandomLinkSplit of PyTorch Geometric splits
    likewise.

    Parameters:
        shares: Of validation and of test links; the others are for training.
        times (float64[num_nonzeros], or None): By which edges are split (`cut_by_time`); None: at
            random.

    Raises:
        InputError: If there are no edges, a share above 0 has none, or too few pairs of vertices
            are without one.
    """
    check_no_types(graph)
    target = np.repeat(np.arange(graph.num_vertices, dtype=np.int32), np.diff(graph.indptr))
    kept = graph.indices != target if graph.directed else graph.indices < target
    ends = np.stack([graph.indices[kept], target[kept]])
    random = np.random.default_rng(seed)
    order = random.permutation(ends.shape[1])
    if not len(order):
        raise InputError(f"{graph.source.name}: has no edges to split")
    sizes, begins = [int(share * len(order)) for share in shares], np.inf
    if times is not None:
        of_links = times[kept]
        order = np.argsort(of_links, kind="stable")
        where = f"{graph.source.name}: `link_times`"
        first, second = cut_by_time(of_links[order], shares, where)
        begins = float(of_links[order[first]]) if first < len(order) else np.inf
        sizes, order = [second - first, len(order) - second], np.roll(order, -first)
    for share, size in zip(shares, sizes, strict=True):
        if share and not size:
            of_edges = f"of {len(order)} edges that is no link; give more, or 0"
            raise InputError(f"`link_split` {share:g}: {of_edges}")
    *held, train = (ends[:, each] for each in np.split(order, np.cumsum(sizes)))
    pairs = dict(zip(SPLITS, (train, *held), strict=True))
    drawn = _negatives(ends, sum(sizes), graph, random)
    pairs |= zip(KINDS[3:], np.split(drawn, [sizes[0]], axis=1), strict=True)
    return SplitLinks(pairs, begins=begins)


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
            told = f"the {total:,} links have {len(begins) + 1} different times, too few for"
            given = ",".join(f"{each:g}" for each in shares)
            raise InputError(f"{where}: {told} `link_split` {given}")
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
        warn(f"{where}: links of one time stay together: {'; '.join(told)}")
    return cuts[0], cuts[1]


def _negatives(ends: Pair, size: int, graph: Graph, random: np.random.Generator) -> Pair:
    """Distinct pairs of two vertices without an edge, int32[2, size]; `ends`: of the edges.

    A pair has the number ``(target - source - 1) % n * n + source``, of an undirected graph the
    lower one of both ways: all numbers from 0 are pairs. Edge k, by number, is the one after as
    many pairs without an edge as its number less k.
    """
    n, (source, target) = graph.num_vertices, ends.astype(np.int64)
    number = (target - source - 1) % n * n + source
    every = n * (n - 1)
    if not graph.directed:
        number, every = np.minimum(number, (source - target - 1) % n * n + target), every // 2
    number = np.sort(number)
    if size > (free := every - len(number)):
        told = f"{size:,} negatives are needed, and {free:,} pairs of vertices are without an edge"
        cure = "give smaller shares (`link_split`), or links with negatives (`links`)"
        raise InputError(f"{graph.source.name}: {told}: {cure}")
    place = random.choice(free, size, replace=False)
    found = place + np.searchsorted(number - np.arange(len(number)), place, side="right")
    source = found % n
    return np.stack([source, (source + found // n + 1) % n]).astype(np.int32)


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
    links, away = withheld(links, disjoint, seed)
    if graph.directed:
        _tell_of_directions(links, away, graph)
    return links, away


def _tell_of_directions(links: SplitLinks, away: Pair, graph: Graph) -> None:
    """Warn of links of a directed graph whose reverse carries messages, and they do not."""
    known, apart = edges_of(graph), np.sort(link_keys(away, graph))

    def carry(pair: Pair) -> npt.NDArray[np.bool_]:
        return are_edges(known, pair, graph) & (places_in(apart, link_keys(pair, graph)) < 0)

    train = _some(links.pairs["train"])
    every = _some(links.of("val", "test")), train, _some(links.of(*KINDS[3:]))
    *sizes, negatives = np.array([each.shape[1] for each in every])
    *turned, by_chance = (np.count_nonzero(carry(each[::-1]) & ~carry(each)) for each in every)
    chance = np.multiply(sizes, by_chance / max(negatives, 1))
    if (turned <= chance + 3 * np.sqrt(chance) + np.multiply(TOLD, sizes)).all():
        return
    there = np.count_nonzero(are_edges(known, train, graph))
    said = f"{there:,} training links are edges their own way: `transpose` turns the edges round"
    if turned[1] <= there:
        ends = np.stack(np.divmod(_some(known), graph.num_vertices))
        both = are_edges(known, ends, graph)[ends[0] != ends[1]]
        said = f"{both.sum():,} of {len(both):,} edges are there both ways"
        said += ": `symmetrize` reads all of them so"
    held, trained = (f"{k:,} of {n:,}" for k, n in zip(turned, sizes, strict=True))
    told = f"{held} held-out links and {trained} training links carry no messages"
    why = "and the edges the other way round do, which tells of the links"
    warn(f"{graph.source.name}: {told}, {why}; {said}")


def withheld(links: SplitLinks, disjoint: float, seed: int) -> tuple[SplitLinks, Pair]:
    """The links, and those whose edges carry no messages, so that none tells the answer.

    These are the validation and test links.

    Parameters:
        disjoint: Above 0, training links are this share of those given, drawn by the seed, and the
            edges of these carry no messages either (``disjoint_train_ratio`` of RandomLinkSplit).
    """
    if not disjoint:
        return links, links.of("val", "test")
    train = links.pairs["train"]
    size = max(1, int(disjoint * train.shape[1]))
    chosen = np.random.default_rng([seed, 1]).permutation(train.shape[1])[:size]
    links = replace(links, pairs={**links.pairs, "train": train[:, np.sort(chosen)]})
    return links, links.of(*SPLITS)


def without(graph: Graph, pairs: Pair, first: int = 0) -> Graph:
    """Leave out the edges from ``pairs[0]`` to ``pairs[1]``, both ways of an undirected graph.

    Parameters:
        first: Number of the first row, of a graph that is some rows of another.
    """
    row = graph.nonzero_rows()
    known = np.sort(link_keys(pairs, graph))
    kept = places_in(known, link_keys(np.stack([graph.indices, first + row]), graph)) < 0
    degree = np.bincount(row[kept], minlength=graph.num_vertices)
    return replace(
        graph,
        indptr=np.concatenate([[0], np.cumsum(degree)]),
        indices=graph.indices[kept],
        values=None if graph.values is None else graph.values[kept],
        columns=graph.columns_at(kept),
    )
