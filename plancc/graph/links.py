"""Pairs for link prediction, by split: training, validation and test links, and negatives.

A link goes from a source to a target, as an edge of ``edge_index``. New negatives for training are
drawn in every epoch; negatives for validation and test are fixed.

If edges have times, the latest edges are test links, and the edges before these are validation
links. A repeated edge counts with its earliest time.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, warn
from plancc.files import StrPath
from plancc.graph.arrays import Array, FloatArray, Int64Array, Mask
from plancc.graph.canonical import build_graph
from plancc.graph.formats import FORMATS
from plancc.graph.graph import Graph, check_range
from plancc.graph.listed_edges import (
    ListedEdges,
    edge_keys,
    edges_of,
    for_every_edge,
    link_keys,
    places_in,
)
from plancc.graph.named_ids import are_names, names_of
from plancc.graph.npz import Archive, map_array
from plancc.graph.rowids import warn_of_numbers
from plancc.graph.textfile import show
from plancc.graph.vertexdata import as_array
from plancc.graph.vertextables import has_names, read_numbers
from plancc.text import shown

SPLITS = ("train", "val", "test")
KINDS = (*SPLITS, "val_negative", "test_negative")
"""Kinds of links; the number of a kind is its index in the tuple."""
OF_LINKS = ("val_target_negative", "test_target_negative")
"""Names of arrays that hold separate negatives for each link."""
NAMES = (*KINDS, *OF_LINKS)
MOST_LINKS = 2**31 - 1
"""Largest number of links of a plan, including negatives."""
LOOKED_AT = 1 << 16
"""About how many pairs of a kind are compared with edges; if there are more, every n-th is."""
TOLD = 0.02
"""A warning appears if more than this share of the links can be guessed from their reverse edges.
The share of negatives that have a reverse edge is subtracted first. A smaller share changes the
area under the curve by less than 0.01."""

Pair = npt.NDArray[np.int32]
OF_VALUES = "values"
"""Value of the option `link_times` which says that the values of the edges are the times."""


class LinkTimes(NamedTuple):
    """Times of edges.

    Attributes:
        first, last (float64[num_nonzeros]): Earliest and latest time of every nonzero.
        listed (float64[edges]): Times in the order of the source's edges.
    """

    first: FloatArray
    last: FloatArray
    listed: FloatArray


@dataclass(frozen=True)
class SplitLinks:
    """Links (pairs of vertices for link prediction) of a whole graph.

    Attributes:
        pairs (dict of str to int32[2, m]): Sources and targets of the links of every kind in
            `KINDS`.
        per_link: Number of negatives of each validation and test link. The negatives with indices
            ``i * per_link`` to ``(i + 1) * per_link - 1`` belong to link i, and have its source.
            0: a split's links share its negatives.
        begins: Time of the earliest validation or test link; infinity without times.
    """

    pairs: Mapping[str, Pair]
    per_link: int = 0
    begins: float = np.inf

    def of(self, *kinds: str) -> Pair:
        """Return the pairs of these `KINDS`, such as "val", one kind after another: int32[2, m]."""
        return np.concatenate([self.pairs[kind] for kind in kinds], axis=1)

    def columns(self) -> tuple[Pair, npt.NDArray[np.uint8], Int64Array]:
        """Return all links, int32[2, links], sorted by kind; each link's kind, and index in it.

        The kinds are training, validation and test links and negatives; see `KINDS`.
        """
        sizes = [self.pairs[kind].shape[1] for kind in KINDS]
        kind = np.repeat(np.arange(len(KINDS), dtype=np.uint8), sizes)
        return self.of(*KINDS), kind, np.concatenate([*map(np.arange, sizes)])


def check_no_types(graph: Graph) -> None:
    """Raise InputError for a graph of several vertex types."""
    if graph.types is not None:
        raise InputError(
            f"{graph.source.name}: link prediction is not supported for graphs with vertex types"
        )


def read_links(source: Any, graph: Graph) -> SplitLinks:
    """Read the links of a graph from a user's source; warn of doubtful pairs.

    Parameters:
        source (path, mapping, or three objects): One of these:

            - A mapping, or the path of an .npz file, with arrays integer[2, m] named ``train``,
              ``val``, ``test``, ``val_negative`` and ``test_negative``. The links of a split share
              its negatives. Instead of ``val_negative`` and ``test_negative``, there may be
              ``val_target_negative`` and ``test_target_negative``, integer[m, k], with k targets
              for every link.
            - The path of a folder of the Open Graph Benchmark that holds a split for link
              prediction.
            - The three data objects of PyTorch Geometric's RandomLinkSplit, with
              ``edge_label_index`` and ``edge_label``.
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
        raise InputError(f"{where}'{kind}' has no links; give {given} of RandomLinkSplit")
    ends = source.get("train")
    if not labelled and ends is not None and as_array(ends, where).dtype.kind in "iu":
        warn_of_numbers(graph, f"{where}the ends of links")
    links = _checked(source, graph, where)
    for found, what in _doubtful(links, graph, known, where, labelled):
        if found.any():
            warn(f"{where}{found.sum():,} of {len(found):,} {what}")
    return links


def are_edges(known: Int64Array, pair: Array, graph: Graph) -> Mask:
    """Return whether each pair is an edge, bool[m]; `edges_of` gives the edges' keys, `known`."""
    return places_in(known, edge_keys(graph, pair[1], pair[0])) >= 0


def _some(pairs: Array) -> Array:
    """Return a sample of `pairs`, array[..., m]: all pairs, or about `LOOKED_AT` if there are
    more."""
    return pairs[..., :: 1 + pairs.shape[-1] // LOOKED_AT]


def _read(path: StrPath) -> Mapping[str, Any]:
    """Return the arrays of links in a file or a folder, by their names in `NAMES`."""
    name = os.fspath(path)
    if not os.path.isdir(name):
        if not name.lower().endswith(".npz"):
            raise InputError(f"{name}: links are read only from .npz, or a folder of format ogb")
        with Archive(name) as held:
            if left := ", ".join(show(key) for key in held if key not in NAMES):
                warn(f"{name}: ignored: {left}; arrays of links are called {', '.join(NAMES)}")
            return {key: held[key] for key in NAMES if key in held}
    for each in FORMATS.loaded().values():
        if each.read_links is not None and each.files is not None and each.files(name):
            found: Mapping[str, Any] = each.read_links(name)
            return found
    raise InputError(f"{name}: is a folder, but not of a format that holds links")


def _labelled(
    objects: Sequence[Any], graph: Graph, known: Int64Array, where: str
) -> dict[str, Any]:
    """Return the links that PyTorch Geometric's RandomLinkSplit made, by their names in `NAMES`.

    Negatives for training are left out.
    """
    found = {}
    for name, each in zip(SPLITS, objects, strict=True):
        pair, label = (getattr(each, key, None) for key in ("edge_label_index", "edge_label"))
        if pair is None or label is None:
            raise InputError(f"{where}the data of {name} have no edge_label_index and edge_label")
        pair, label = as_array(pair, f"{where}edge_label_index"), as_array(label, f"{where}label")
        if pair.ndim != 2 or label.shape != pair.shape[1:]:
            shapes = f"has shape {pair.shape}, but edge_label has {label.shape}"
            raise InputError(f"{where}edge_label_index of {name} {shapes}")
        check_range(pair, graph.num_vertices, f"{where}edge_label_index of {name}")
        found[name], negative = pair[:, label > 0], pair[:, label <= 0]
        wrong = are_edges(known, _some(negative), graph)
        if wrong.any():
            told = (
                f"{wrong.sum():,} of the {len(wrong):,} pairs of edge_label 0 of {name} are edges"
            )
            cure = "if edge_label holds your own labels, use a neg_sampling_ratio above 0"
            raise InputError(f"{where}{told}, so they are not negatives; {cure}")
        if name != SPLITS[0]:
            found[f"{name}_negative"] = negative
    return found


def _checked(given: Mapping[str, Any], graph: Graph, where: str) -> SplitLinks:
    """Check the shapes and ranges of the given arrays, and return the links."""
    for name in given.keys() - {*NAMES}:
        raise InputError(f"{where}'{shown(name)}' is unknown; choose from {', '.join(NAMES)}")
    found: dict[str, Array] = {}
    for name, value in given.items():
        listed, pair = as_array(value, f"{where}{name}"), name in KINDS
        array = found[name] = _numbers_of_names(listed, graph, f"{where}{name}")
        if array.dtype.kind not in "iu" or array.ndim != 2 or (pair and len(array) != 2):
            shape = "[2, links]" if pair else "[links, negatives of each]"
            kind = "text" if listed.dtype.kind in "US" else listed.dtype
            names = ", or their names" if are_names(graph.original_ids) else ""
            cure = f"give integers of shape {shape}, the numbers of vertices{names}"
            raise InputError(f"{where}{name} is of {kind}, shape {list(array.shape)}; {cure}")
        check_range(array, graph.num_vertices, f"{where}{name}")
    pairs = {kind: found.get(kind, np.zeros((2, 0))).astype(np.int32) for kind in KINDS}
    per_link = {0} if any(pairs[kind].shape[1] for kind in KINDS[3:]) else set[int]()
    for name in found.keys() & {*OF_LINKS}:
        split, targets = name.partition("_")[0], found[name]
        if len(targets) != (links := pairs[split].shape[1]):
            raise InputError(f"{where}{name}: {len(targets)} rows, but {split} has {links} links")
        per_link.add(targets.shape[1])
        sources = np.repeat(pairs[split][0], targets.shape[1])
        pairs[f"{split}_negative"] = np.stack([sources, targets.reshape(-1).astype(np.int32)])
    for split in SPLITS[1:]:
        if pairs[split].shape[1] and not pairs[f"{split}_negative"].shape[1]:
            raise InputError(f"{where}{split} has links but no negatives; give {split}_negative")
    if not pairs["train"].shape[1]:
        raise InputError(f"{where}there are no training links (array train)")
    if len(per_link) > 1:
        counts = " and ".join(map(str, sorted(per_link)))
        cure = "(0: a split shares its negatives): give both splits the same number"
        raise InputError(f"{where}the links have {counts} negatives each {cure}")
    if sum(each.shape[1] for each in pairs.values()) > MOST_LINKS:
        raise InputError(f"{where}there are more than {MOST_LINKS} links and negatives")
    return SplitLinks(pairs, *per_link)


def _numbers_of_names(array: Array, graph: Graph, what: str) -> Array:
    """Return vertex numbers in place of names; raise InputError for an unknown name."""
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
    links: SplitLinks, graph: Graph, known: Int64Array, where: str, labelled: bool
) -> Iterator[tuple[Mask, str]]:
    """Yield masks of doubtful pairs, each with a sentence that says why.

    `known` are keys of the graph's edges. If `labelled` (links of RandomLinkSplit), training links
    need not be edges. An array with links in its rows instead of its columns is an InputError.
    """
    keys = {split: np.sort(link_keys(links.pairs[split], graph)) for split in SPLITS}
    train, val, test = keys.values()
    held = np.concatenate([val, test])
    learnt_too = "validation and test links are training links too, so that scores measure links"
    yield places_in(train, _some(held)) >= 0, f"{learnt_too} that the network has memorised"
    yield places_in(val, _some(test)) >= 0, "test links are validation links too"
    of_val, of_test = (np.sort(link_keys(links.pairs[kind], graph)) for kind in KINDS[3:])
    yield places_in(of_val, _some(of_test)) >= 0, "test_negative pairs are val_negative ones too"
    if not len(held):
        yield train >= 0, "links are for training, so validation and test have no scores"
    for kind in KINDS:
        pair = _some(links.pairs[kind])
        there = are_edges(known, pair, graph)
        yield pair[0] == pair[1], f"{kind} pairs join a vertex to itself"
        if kind not in SPLITS:
            some = link_keys(pair, graph)
            are_links = [places_in(each, some) >= 0 for each in keys.values()]
            yield np.any([there, *are_links], axis=0), f"{kind} pairs are links or edges"
            continue
        if pair.shape == (2, 2) and not there.all() and are_edges(known, pair.T, graph).all():
            told = f"has its links in the rows, not in the columns: {pair.tolist()} are edges"
            cure = "give the sources in one row, and the targets in another"
            raise InputError(f"{where}{kind} {told}; {cure}")
        if kind == SPLITS[0] and not labelled:
            absent = ~there & ~are_edges(known, pair[::-1], graph)
            left_out = "which is right only if their edges were removed from it"
            yield absent, f"{kind} links are not edges of the graph, {left_out}"
        twice, pair = np.diff(keys[kind], prepend=-1) == 0, links.pairs[kind]
        if twice.any():
            forth, back = (np.unique(edge_keys(graph, *each)) for each in (pair, pair[::-1]))
            if len(forth) < len(twice) or not np.array_equal(forth, back):  # not each both ways
                ways = "" if graph.directed else " or both ways"
                yield twice, f"{kind} links are listed twice{ways}"


def check_shares(shares: Sequence[float]) -> None:
    """Raise InputError unless `shares` are two numbers >= 0 whose sum is above 0 and below 1."""
    if len(shares) != 2 or min(shares) < 0 or not 0 < sum(shares) < 1:
        cure = "give shares of validation and test links that leave some for training"
        raise InputError(f"`link_split` {','.join(map(str, shares))}: {cure}, such as 0.1,0.1")


def random_links(
    graph: Graph, shares: Sequence[float], seed: int, times: FloatArray | None = None
) -> SplitLinks:
    """Split the edges of a graph into links, as RandomLinkSplit of PyTorch Geometric does.

    Self loops are not links, and an undirected edge is one link. The validation split and the test
    split each have as many negatives as links: distinct pairs without an edge, drawn uniformly.
    `times`, float64[num_nonzeros], gives a split by time (`cut_by_time`).
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
            of_edges = f"this share of {len(order)} edges is less than one link; give more, or 0"
            raise InputError(f"`link_split` {share:g}: {of_edges}")
    *held, train = (ends[:, each] for each in np.split(order, np.cumsum(sizes)))
    pairs = dict(zip(SPLITS, (train, *held), strict=True))
    drawn = _negatives(ends, sum(sizes), graph, random)
    pairs |= zip(KINDS[3:], np.split(drawn, [sizes[0]], axis=1), strict=True)
    return SplitLinks(pairs, begins=begins)


def cut_by_time(times: FloatArray, shares: Sequence[float], where: str) -> tuple[int, int]:
    """Return the indices of the first validation link and of the first test link.

    `times`, float64[links], ascend. Links of the same time stay in one split; if this changes a
    split's share, there is a warning.
    """
    total, cuts, end = len(times), list[int](), len(times)
    begins = np.flatnonzero(np.diff(times)) + 1
    for share in reversed(shares):
        able = begins[begins < end]
        if share and not len(able):
            few = f"the {total:,} links have {len(begins) + 1} different times, too few for"
            given = ",".join(f"{each:g}" for each in shares)
            raise InputError(f"{where}: {few} `link_split` {given}")
        if share:
            wanted = end - int(share * total)
            end = int(able[np.argmin(abs(able - wanted))])
        cuts.insert(0, end)
    sizes = np.diff([*cuts, total])
    if any(size != int(share * total) for size, share in zip(sizes.tolist(), shares, strict=True)):
        told = [
            f"{size / total:.1%} of the links are for {split}, from time {times[cut]:.15g} on"
            for split, size, cut in zip(("validation", "test"), sizes, cuts, strict=True)
            if size
        ]
        warn(f"{where}: links with the same time stay together: {'; '.join(told)}")
    return cuts[0], cuts[1]


def _negatives(ends: Pair, size: int, graph: Graph, random: np.random.Generator) -> Pair:
    """Draw distinct pairs of two different vertices without an edge, int32[2, size].

    With n vertices, a pair has the number ``(target - source - 1) % n * n + source``; in an
    undirected graph, the lower of the numbers of its two directions. If edges (`ends`, int32[2,
    edges]) are sorted by number, ``number[k] - k`` pairs with lower numbers than edge k have no
    edge. So a binary search finds the p-th pair without an edge.
    """
    n, (source, target) = graph.num_vertices, ends.astype(np.int64)
    number = (target - source - 1) % n * n + source
    every = n * (n - 1)
    if not graph.directed:
        number, every = np.minimum(number, (source - target - 1) % n * n + target), every // 2
    number = np.sort(number)
    if size > (free := every - len(number)):
        told = f"{size:,} negatives are needed, but only {free:,} pairs of vertices have no edge"
        cure = "give smaller shares (`link_split`), or links with negatives (`links`)"
        raise InputError(f"{graph.source.name}: {told}; {cure}")
    place = random.choice(free, size, replace=False)
    found = place + np.searchsorted(number - np.arange(len(number)), place, side="right")
    source = found % n
    return np.stack([source, (source + found // n + 1) % n]).astype(np.int32)


def links_to_learn(
    graph: Graph, asked: Any, seed: int, times: FloatArray | None = None
) -> tuple[SplitLinks, Pair]:
    """Return the links for link prediction, and the links whose edges are removed from the graph.

    `asked` has the attributes `links` (see `read_links`) or `link_split` (`shares` of
    `random_links`), and `disjoint_train_ratio`.
    """
    shares = asked.link_split
    links = random_links(graph, shares, seed, times) if shares else read_links(asked.links, graph)
    links, away = withheld(links, asked.disjoint_train_ratio, seed)
    if graph.directed:
        _warn_of_directions(links, away, graph)
    return links, away


def _warn_of_directions(links: SplitLinks, away: Pair, graph: Graph) -> None:
    """Warn if links of a directed graph are removed from the graph, but their reverse edges are
    not."""
    known, apart = edges_of(graph), np.sort(link_keys(away, graph))

    def carry(pair: Pair) -> Mask:
        return are_edges(known, pair, graph) & (places_in(apart, link_keys(pair, graph)) < 0)

    train = _some(links.pairs["train"])
    every = _some(links.of("val", "test")), train, _some(links.of(*KINDS[3:]))
    *sizes, negatives = np.array([each.shape[1] for each in every])
    *turned, by_chance = (np.count_nonzero(carry(each[::-1]) & ~carry(each)) for each in every)
    chance = np.multiply(sizes, by_chance / max(negatives, 1))
    if (turned <= chance + 3 * np.sqrt(chance) + np.multiply(TOLD, sizes)).all():
        return
    there = np.count_nonzero(are_edges(known, train, graph))
    said = f"{there:,} training links are edges forward: `transpose` reverses all edges"
    if turned[1] <= there:
        ends = np.stack(np.divmod(_some(known), graph.num_vertices))
        both = are_edges(known, ends, graph)[ends[0] != ends[1]]
        said = f"{both.sum():,} of {len(both):,} edges have a reverse edge"
        said += ": `symmetrize` adds the other reverse edges"
    held, trained = (f"{k:,} of {n:,}" for k, n in zip(turned, sizes, strict=True))
    told = f"{held} held-out links and {trained} training links carry no messages"
    why = "but their reverse edges do, which reveals the links"
    warn(f"{graph.source.name}: {told}, {why}; {said}")


def withheld(links: SplitLinks, disjoint: float, seed: int) -> tuple[SplitLinks, Pair]:
    """Return the links to use, and the pairs whose edges must be removed from the graph.

    These pairs are the validation and test links: a model that aggregates over their edges would
    know the answer. If `disjoint` (``disjoint_train_ratio`` of RandomLinkSplit) is above 0, only
    this random share of training links is used, and their edges are removed, too.
    """
    if not disjoint:
        return links, links.of("val", "test")
    train = links.pairs["train"]
    size = max(1, int(disjoint * train.shape[1]))
    chosen = np.random.default_rng([seed, 1]).permutation(train.shape[1])[:size]
    links = replace(links, pairs={**links.pairs, "train": train[:, np.sort(chosen)]})
    return links, links.of(*SPLITS)


def without(graph: Graph, pairs: Pair, first: int = 0) -> Graph:
    """Return the graph without the edges from ``pairs[0]`` to ``pairs[1]``.

    Row 0 of the graph is vertex `first`. An undirected graph also loses the reverse edges.
    """
    known = np.sort(link_keys(pairs, graph))
    ends = np.stack([graph.indices, first + graph.nonzero_rows()])
    return graph.only(places_in(known, link_keys(ends, graph)) < 0)


def with_times(
    graph: Graph, given: Any, listed: Sequence[ListedEdges], *, symmetrize: bool
) -> tuple[Graph, LinkTimes]:
    """Return the graph and the times of its edges.

    `given` holds the times, in the order of the source's edges, or is the path of a table of times
    (.npy, .csv, .csv.gz). If `given` is `OF_VALUES`, the times are the edges' values, and the
    returned graph has no values.
    """
    check_no_types(graph)
    where = f"{graph.source.name}: `link_times`"
    edges = listed[-1] if listed else ListedEdges.of_nonzeros(graph)
    row, column = edges.row, edges.column
    if isinstance(given, str) and given == OF_VALUES:
        if edges.values is None:
            raise InputError(f"{where} {given}: the edges have no values; give a file of times")
        where, given = f"{where} {given}", edges.values
        if listed:  # sums of times are not times, and the graph drops zeros
            flags: Any = {"symmetrize": symmetrize, "directed": graph.directed or symmetrize}
            made = build_graph(graph.num_vertices, row, column, **flags)
            graph = replace(graph, indptr=made.indptr, indices=made.indices)
        source = replace(graph.source, weights="", weight_range="")
        graph = replace(graph, values=None, source=source)
    elif isinstance(given, str | os.PathLike):
        where = f"{where} {os.fspath(given)}"
        of_numpy = os.fspath(given).endswith(".npy")
        given = map_array(given) if of_numpy else read_numbers(given, skipped=int(has_names(given)))
    times = np.asarray(as_array(given, where))
    if times.dtype.kind not in "iuf" or times.size != len(times):
        raise InputError(
            f"{where}: has shape {times.shape} and type '{times.dtype}'; give a number per edge"
        )
    times = for_every_edge(graph, edges, times.reshape(-1).astype(np.float64), where, "times")
    if len(wrong := np.flatnonzero(~np.isfinite(times))):
        raise InputError(f"{where}: the time of edge {wrong[0]} (counted from 0) is not finite")
    keys, place = np.unique(link_keys(np.stack([column, row]), graph), return_inverse=True)
    first, last = np.full((2, len(keys)), [[np.inf], [-np.inf]])
    np.minimum.at(first, place, times)
    np.maximum.at(last, place, times)
    rows = graph.nonzero_rows()
    found = places_in(keys, link_keys(np.stack([graph.indices, rows]), graph))
    if len(wrong := np.flatnonzero(found < 0)):
        ends = f"{graph.indices[wrong[0]]} to {rows[wrong[0]]}"
        raise InputError(f"{where}: the edge from vertex {ends} (counted from 0) has no time")
    return graph, LinkTimes(first[found], last[found], times)
