"""The plan file's nodes, once: names, dtypes, ranks and sizes. Reader, writer and docs follow it.

The normative text is ``docs/reference/plan-format.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.graph.bounds import CLASSES, CLASSES_PER_CLASS, most_clusters
from plancc.graph.types import Types
from plancc.graph.vertexdata import KEYS, MASKS, DataByType, VertexData
from plancc.plan.exchange import Exchange, Side
from plancc.plan.links import PartLinks
from plancc.plan.values import HOPS, LINKS, STEPS, Header

FORMAT = "plancc-plan"
MAJOR, MINOR = 1, 12
FORMAT_VERSION = f"{MAJOR}.{MINOR}"
OLDEST = 5
"""Minor version below which no release wrote files."""
LAYOUTS = ("row", "edge", "grid", "feature")

# Attributes of the root group that describe the product, with their types.
HEADER_TYPES: dict[str, type] = {
    "layout": str,
    "num_vertices": int,
    "num_nonzeros": int,
    "num_parts": int,
    "directed": bool,
    "normalization": str,
    "self_loops": bool,
}
GRID_ATTRIBUTE = "grid"
"""Attribute of the root group in layouts "grid" and "feature": the text of a `Grid`."""
TOPOLOGY_ATTRIBUTE = "topology"
"""Attribute of the root group of a plan that has routes: the text of a `Topology`."""
RELAYS_ATTRIBUTE = "relays"
"""Attribute of the root group of a plan whose hops lead over any parts: 1."""
TYPES_ATTRIBUTES = ("types", "relations")
"""Attributes of the root group of a plan with types: `Types.texts`."""
LINKS_ATTRIBUTE = "links"
"""Attribute of the root group of a plan with links: `Header.links`."""
PIECES = "pieces"
"""Attribute of the root group of the head of a plan in pieces, which is refused."""
PIECE_FORMAT = f"{FORMAT}-piece"
"""Attribute "format" of a piece, likewise."""
STORAGE_ATTRIBUTES = ("format", "format_version", "content_sha256")
"""Attributes of the root group that do not enter the content hash."""
ROOT_ATTRIBUTES = (
    *STORAGE_ATTRIBUTES,
    *HEADER_TYPES,
    GRID_ATTRIBUTE,
    TOPOLOGY_ATTRIBUTE,
    RELAYS_ATTRIBUTE,
    *TYPES_ATTRIBUTES,
    LINKS_ATTRIBUTE,
)


@dataclass(frozen=True)
class FileNode:
    """One dataset of the format.

    Attributes:
        dtypes: Allowed types in numpy's notation; the writer uses the array's own, which is one of
            them. "|S" is of any length.
        shape: Names of the dimensions. ``n``, ``p``, ``nnz`` and their successors ``n+1``, ``p+1``
            are fixed by the header; ``rows+1`` is one more than the local rows of all parts, which
            are n and the folded ones. Other names are free, but equal names are equal sizes.
        exchange: The step or hop whose messages it lists, or "links"; plans with this one have it
            (`Header.steps`).
        cut: What cuts it into the slices of parts, each with a digest of its own: the "rows" of
            parts, their "local rows" or "nonzeros", their "rows of" the number of a type, or
            "messages" or "rows" of a table ("expand/send rows"); "": it is one slice, and every
            rank reads the whole.
        shared: Whether the slice of a part ends with the entry that the next one begins with: of
            offsets.
    """

    dtypes: tuple[str, ...]
    shape: tuple[str, ...]
    optional: bool = False
    exchange: str = ""
    cut: str = ""
    shared: bool = False

    def is_of(self, header: Header) -> bool:
        """Whether a plan with this header has it, or, if it is optional, may have it."""
        return not self.exchange or self.exchange in header.steps()


PAIRS = f"{LINKS}/pair messages"
"""The cut of a part's links, whose offsets are ``links/pair_ptr``."""
EXCHANGES = (*STEPS, *(f"{step}_{hop}" for step in STEPS for hop in HOPS), LINKS)
"""All that `Header.steps` may name."""


def _exchange_nodes(step: str) -> dict[str, FileNode]:
    """Both tables of a step or a hop: one grouped by sender, one by receiver."""
    messages, volume = f"{step} messages", f"{step} volume"
    found = {}
    for prefix in ("send", "recv"):
        table = f"{step}/{prefix}"
        of_messages, of_rows = f"{table} messages", f"{table} rows"
        node = partial(FileNode, exchange=step)
        found[f"{table}_ptr"] = node(("<i8",), ("p+1",))
        found[f"{table}_peer"] = node(("<i4",), (messages,), cut=of_messages)
        found[f"{table}_row_ptr"] = node(("<i8",), (f"{messages}+1",), cut=of_messages, shared=True)
        found[f"{table}_row"] = node(("<i4",), (volume,), cut=of_rows)
    return found


NODES: dict[str, FileNode] = {
    "rows/part_ptr": FileNode(("<i8",), ("p+1",)),
    "rows/global_id": FileNode(("<i4",), ("n",), cut="rows"),
    "rows/num_interior": FileNode(("<i8",), ("p",)),
    "rows/original_id": FileNode(("<i8", "|S"), ("n",), optional=True, cut="rows"),
    "matrix/row_ptr": FileNode(("<i8",), ("rows+1",), cut="local rows", shared=True),
    "matrix/column": FileNode(("<i4",), ("nnz",), cut="nonzeros"),
    "matrix/value": FileNode(("<f4", "<f8"), ("nnz",), cut="nonzeros"),
    "matrix/edge_features": FileNode(
        ("<f4",), ("nnz", "edge features"), optional=True, cut="nonzeros"
    ),
    **{name: node for step in EXCHANGES for name, node in _exchange_nodes(step).items()},
    "links/pair_ptr": FileNode(("<i8",), ("p+1",), exchange=LINKS),
    "links/source": FileNode(("<i4",), ("links",), exchange=LINKS, cut=PAIRS),
    "links/target": FileNode(("<i4",), ("links",), exchange=LINKS, cut=PAIRS),
    "links/kind": FileNode(("|u1",), ("links",), exchange=LINKS, cut=PAIRS),
    "links/number": FileNode(("<i8",), ("links",), exchange=LINKS, cut=PAIRS),
    "vertex_data/features": FileNode(
        ("<f4", "<f2", "|i1"), ("n", "features"), optional=True, cut="rows"
    ),
    "vertex_data/labels": FileNode(("<i4",), ("n",), optional=True, cut="rows"),
    "vertex_data/train_mask": FileNode(("|u1",), ("n",), optional=True, cut="rows"),
    "vertex_data/val_mask": FileNode(("|u1",), ("n",), optional=True, cut="rows"),
    "vertex_data/test_mask": FileNode(("|u1",), ("n",), optional=True, cut="rows"),
    "vertex_data/clusters": FileNode(("<i4",), ("n",), optional=True, cut="rows"),
    "vertex_data/targets": FileNode(("|u1", "<f4"), ("n", "targets"), optional=True, cut="rows"),
}
GROUPS = tuple(dict.fromkeys(name.partition("/")[0] for name in NODES))
TYPE_PTR = "rows/type_ptr"
"""Rows of every type before each part, in plans with vertex data by type."""
RELATION = "matrix/relation"
"""Number of the relation of every nonzero, in plans with parallel relations."""
_OF_TYPES = {
    TYPE_PTR: FileNode(("<i8",), ("types", "p+1"), optional=True),
    RELATION: FileNode(("<u2",), ("nnz",), cut="nonzeros"),
}


def node_of(name: str) -> FileNode:
    """A dataset of the format; KeyError for another name.

    Vertex data of type k are called as those of all vertices with "_of_k" after it.
    """
    if name in _OF_TYPES:
        return _OF_TYPES[name]
    name, _, number = name.partition("_of_")
    node = NODES[name]
    if not number:
        return node
    shape = tuple(f"{dimension} of {number}" for dimension in node.shape)
    return replace(node, shape=shape, cut=f"rows of {number}")


def names_of(types: Types | None) -> list[str]:
    """The names of all datasets that a plan with these types may have."""
    if types is None:
        return [*NODES]
    data = (f"vertex_data/{key}" for key in KEYS)
    numbers = range(len(types.counts))
    relation = [RELATION] if types.are_parallel else []
    return [*NODES, TYPE_PTR, *relation, *(f"{name}_of_{k}" for name in data for k in numbers)]


DIGESTS = "digests"
"""The group that has the digests of every dataset, under the name of the dataset."""
ATTRIBUTE_GROUPS = ("provenance", "metrics")

EXCHANGE_ARRAYS = ("ptr", "peer", "row_ptr", "row")
"""Fields of an `Exchange`, as datasets of a table end."""

Arrays = Mapping[str, npt.NDArray[Any]]


def header_attributes(header: Header) -> dict[str, str | int | bool]:
    """The attributes of the root group that describe the product."""
    found = {name: getattr(header, name) for name in HEADER_TYPES}
    if header.grid is not None:
        found[GRID_ATTRIBUTE] = str(header.grid)
    if header.topology is not None:
        found[TOPOLOGY_ATTRIBUTE] = str(header.topology)
    if header.relays:
        found[RELAYS_ATTRIBUTE] = True
    if header.types is not None:
        found |= zip(TYPES_ATTRIBUTES, header.types.texts(), strict=True)
    if header.links is not None:
        found[LINKS_ATTRIBUTE] = header.links
    return found


def exchange_arrays(step: str, exchange: Exchange) -> dict[str, npt.NDArray[Any]]:
    """Both tables of a step or a hop by their names in the file."""
    return {
        f"{step}/{prefix}_{name}": getattr(side, name)
        for prefix, side in (("send", exchange.send), ("recv", exchange.receive))
        for name in EXCHANGE_ARRAYS
    }


def exchange_of(step: str, arrays: Arrays) -> Exchange:
    """The inverse of `exchange_arrays`."""
    return Exchange(
        *(
            Side(*(arrays[f"{step}/{prefix}_{name}"] for name in EXCHANGE_ARRAYS))
            for prefix in ("send", "recv")
        )
    )


LINK_ARRAYS = ("pair_ptr", "source", "target", "kind", "number")
"""Fields of `PartLinks`, as datasets."""


def link_arrays(links: PartLinks | None) -> dict[str, npt.NDArray[Any]]:
    """The links by their names in the file; none of None."""
    if links is None:
        return {}
    arrays: list[npt.NDArray[Any]]
    arrays = [links.ptr, links.source, links.target, links.kind, links.number]
    return {f"{LINKS}/{name}": each for name, each in zip(LINK_ARRAYS, arrays, strict=True)}


def vertex_data_arrays(data: VertexData) -> dict[str, npt.NDArray[Any]]:
    """The vertex data by their names in the file; booleans as bytes."""
    found = {f"vertex_data/{key}": each for key, each in data.arrays().items() if key in KEYS}
    for name, of_type in data.of_type.items():
        assert data.by_type is not None
        end = f"_of_{data.by_type.number(name)}"
        found |= {f"{key}{end}": each for key, each in vertex_data_arrays(of_type).items()}
    return {
        name: array.view(np.uint8) if array.dtype == np.bool_ else array
        for name, array in found.items()
    }


def vertex_data_from_arrays(
    arrays: Arrays, types: Types | None = None, vertices: npt.NDArray[np.integer] | None = None
) -> VertexData:
    """The inverse of `vertex_data_arrays`; missing ones stay None.

    `vertices` of all rows are needed where there are types.
    """
    if types is not None and vertices is not None:
        of_type: dict[str, VertexData] = {}
        for k, name in enumerate(types.counts):
            end = f"_of_{k}"
            own = {key.removesuffix(end): a for key, a in arrays.items() if key.endswith(end)}
            if own:
                of_type[name] = vertex_data_from_arrays(own)
        by_type = DataByType.of(of_type, types, vertices) if of_type else None
        return replace(vertex_data_from_arrays(arrays), by_type=by_type)
    found: dict[str, Any] = {key: arrays.get(f"vertex_data/{key}") for key in KEYS}
    for key in (*MASKS, "targets"):
        if found[key] is not None and found[key].dtype == np.uint8:
            found[key] = found[key].view(np.bool_)
    return VertexData(**found)


def most_classes(num_vertices: int) -> int:
    """Return the most classes that labels may name, unless a user says how many there are.

    All that `plancc.graph.bounds.check_classes` accepts of a file is below.
    """
    return CLASSES + CLASSES_PER_CLASS * num_vertices


def too_many_classes(classes: int, num_vertices: int) -> str:
    """Return the problem of labels with this number of classes; "" if there is none."""
    if classes <= most_classes(num_vertices):
        return ""
    return (
        f"its labels go up to '{classes - 1}', and it has {num_vertices:,} vertices: a network "
        f"would have an output for each of {classes:,} classes"
    )


Rule = Callable[[npt.NDArray[Any], int], npt.NDArray[np.bool_]]
VERTEX_DATA_RULES: dict[str, tuple[str, Rule]] = {
    "features": ("features are finite", lambda array, n: np.isfinite(array)),
    "labels": ("labels are classes or -1", lambda array, n: array >= -1),
    **dict.fromkeys(MASKS, ("masks hold 0 and 1", lambda array, n: array <= 1)),
    "clusters": (
        "clusters are numbers from 0",
        lambda array, n: (array >= 0) & (array < most_clusters(n)),
    ),
    "targets": (
        "targets hold 0 and 1, or numbers that are not infinite",
        lambda array, n: array <= 1 if array.dtype == np.uint8 else ~np.isinf(array),
    ),
}


def vertex_data_problem(name: str, array: npt.NDArray[Any], num_vertices: int) -> tuple[str, str]:
    """The rule for a dataset of vertex data, or rows of it, and what breaks it or ""."""
    rule, holds = VERTEX_DATA_RULES[name.removeprefix("vertex_data/").partition("_of_")[0]]
    wrong = array[~holds(array, num_vertices)]
    return rule, f"there is {wrong[0]}" if len(wrong) else ""
