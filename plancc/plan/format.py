"""The plan file's datasets, once: names, types, sizes, what cuts and checks them.

Reader, writer, digests and verifier follow `DATASETS`, and so do the tables of the normative text,
``docs/reference/plan-format.md``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.graph.bounds import CLASSES, CLASSES_PER_CLASS, most_clusters
from plancc.graph.graph import MAX_VERTICES, NORMALIZATIONS
from plancc.graph.types import Types
from plancc.graph.vertexdata import KEYS, MASKS, DataByType, VertexData
from plancc.plan.exchange import Exchange, Side
from plancc.plan.grid import Grid
from plancc.plan.links import PartLinks
from plancc.plan.route import HOPS, RELAYS, Route
from plancc.plan.topology import Topology
from plancc.plan.values import LINKS, STEPS, Header
from plancc.text import shown

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
TEXTS: dict[str, tuple[Callable[[str], Any], int]] = {
    "grid": (Grid.parse, 64),  # sizes of ten digits
    "topology": (Topology.parse, 60_000),  # HDF5 keeps attributes of 64 KiB
}
"""Texts that the root group may have: what reads one, and its most characters."""
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
    *TEXTS,
    RELAYS,
    *TYPES_ATTRIBUTES,
    LINKS_ATTRIBUTE,
)


PART_PTR = "rows/part_ptr"
TYPE_PTR = "rows/type_ptr"
"""Rows of every type before each part, in plans with vertex data by type."""
FOLDED = "fold/send_row_ptr"
"""Rows that the parts of an edge plan fold."""
LOCAL_ROWS = "local rows"
"""The cut by the local rows of parts: own rows, as in `PART_PTR`, and folded ones."""
OF_TYPE = " of type "
"""Stands between `TYPE_PTR` and the number of a type in the cut of its vertex data."""
TYPES, PARALLEL = "types", "parallel relations"
"""What only plans with types have, and only those with parallel relations."""
EXCHANGES = (*STEPS, *(f"{step}_{hop}" for step in STEPS for hop in HOPS), LINKS)
"""All that `Header.steps` may name."""
Rule = Callable[[npt.NDArray[Any], int], npt.NDArray[np.bool_]]


@dataclass(frozen=True)
class FileDataset:
    """One dataset of the format.

    Attributes:
        dtypes: Allowed types in numpy's notation; the writer uses the array's own, which is one of
            them. "|S" is of any length.
        shape: Names of the dimensions, some with "+1". ``n``, ``p``, ``nnz`` are fixed by the
            header; ``rows`` are the local rows of all parts: n and the folded ones. Other names are
            free, but equal names are equal sizes.
        when: What a plan has that has it: one of `EXCHANGES`, `TYPES`, `PARALLEL`; "": any plan.
        optional: Whether such a plan may be without it.
        cut: The offsets that cut it into the slices of parts, each with its digest: a
            dataset, which these may cut in turn, `LOCAL_ROWS`, or offsets of a type in `TYPE_PTR`;
            "": it is one slice, and every rank reads the whole.
        ends: Of offsets: the dimension that they end at, rising from 0, which its readers check.
        below: The dimension that all its numbers are below, and none is negative; likewise.
        rule: Of vertex data: what holds for all entries, in words and for n vertices.
    """

    dtypes: tuple[str, ...]
    shape: tuple[str, ...]
    when: str = ""
    optional: bool = False
    cut: str = ""
    ends: str = ""
    below: str = ""
    rule: tuple[str, Rule] | None = None

    @property
    def shared(self) -> bool:
        """Whether the slice of a part ends with the entry that the next one begins with."""
        return bool(self.ends and self.cut)

    def is_of(self, header: Header) -> bool:
        """Whether a plan with this header has it, or, if it is optional, may have it."""
        if self.when in (TYPES, PARALLEL):
            types = header.types
            return types is not None and (self.when == TYPES or types.are_parallel)
        return not self.when or self.when in header.steps()


def _exchange_datasets(step: str) -> dict[str, FileDataset]:
    """Both tables of a step or a hop: one grouped by sender, one by receiver."""
    messages, volume = f"{step} messages", f"{step} volume"
    found: dict[str, FileDataset] = {}
    for table in (f"{step}/send", f"{step}/recv"):
        ptr, row_ptr = f"{table}_ptr", f"{table}_row_ptr"
        found |= {
            ptr: FileDataset(("<i8",), ("p+1",), step, ends=messages),
            f"{table}_peer": FileDataset(("<i4",), (messages,), step, cut=ptr, below="p"),
            row_ptr: FileDataset(("<i8",), (f"{messages}+1",), step, cut=ptr, ends=volume),
            f"{table}_row": FileDataset(("<i4",), (volume,), step, cut=row_ptr),
        }
    return found


_of_rows = partial(FileDataset, cut=PART_PTR)
_of_nonzeros = partial(FileDataset, cut="matrix/row_ptr")
_of_links = partial(FileDataset, shape=(LINKS,), when=LINKS, cut="links/pair_ptr")
_of_vertices = partial(FileDataset, optional=True, cut=PART_PTR)
_is_mask = ("masks hold 0 and 1", lambda array, n: array <= 1)
DATASETS: dict[str, FileDataset] = {
    PART_PTR: FileDataset(("<i8",), ("p+1",), ends="n"),
    "rows/global_id": _of_rows(("<i4",), ("n",), below="n"),
    "rows/num_interior": FileDataset(("<i8",), ("p",)),
    "rows/original_id": _of_rows(("<i8", "|S"), ("n",), optional=True),
    "matrix/row_ptr": FileDataset(("<i8",), ("rows+1",), cut=LOCAL_ROWS, ends="nnz"),
    "matrix/column": _of_nonzeros(("<i4",), ("nnz",)),
    "matrix/value": _of_nonzeros(("<f4", "<f8"), ("nnz",)),
    "matrix/edge_features": _of_nonzeros(("<f4",), ("nnz", "edge features"), optional=True),
    **{name: each for step in EXCHANGES for name, each in _exchange_datasets(step).items()},
    "links/pair_ptr": FileDataset(("<i8",), ("p+1",), LINKS, ends=LINKS),
    "links/source": _of_links(("<i4",)),
    "links/target": _of_links(("<i4",)),
    "links/kind": _of_links(("|u1",)),
    "links/number": _of_links(("<i8",)),
    "vertex_data/features": _of_vertices(
        ("<f4", "<f2", "|i1"),
        ("n", "features"),
        rule=("features are finite", lambda array, n: np.isfinite(array)),
    ),
    "vertex_data/labels": _of_vertices(
        ("<i4",), ("n",), rule=("labels are classes or -1", lambda array, n: array >= -1)
    ),
    **{f"vertex_data/{key}": _of_vertices(("|u1",), ("n",), rule=_is_mask) for key in MASKS},
    "vertex_data/clusters": _of_vertices(
        ("<i4",),
        ("n",),
        rule=(
            "clusters are numbers from 0",
            lambda array, n: (array >= 0) & (array < most_clusters(n)),
        ),
    ),
    "vertex_data/targets": _of_vertices(
        ("|u1", "<f4"),
        ("n", "targets"),
        rule=(
            "targets hold 0 and 1, or numbers that are not infinite",
            lambda array, n: array <= 1 if array.dtype == np.uint8 else ~np.isinf(array),
        ),
    ),
    TYPE_PTR: FileDataset(("<i8",), ("types", "p+1"), TYPES, optional=True, ends="counts"),
    "matrix/relation": _of_nonzeros(("<u2",), ("nnz",), PARALLEL),
}
GROUPS = tuple(dict.fromkeys(name.partition("/")[0] for name in DATASETS))


def dataset_of(name: str) -> FileDataset:
    """A dataset of the format; KeyError for another name.

    Vertex data of type k have the names of data of all vertices, with "_of_k" behind.
    """
    name, _, number = name.partition("_of_")
    found = DATASETS[name]
    if not number:
        return found
    shape = tuple(f"{dimension} of {number}" for dimension in found.shape)
    return replace(found, shape=shape, when=TYPES, cut=f"{TYPE_PTR}{OF_TYPE}{number}")


def datasets_of(header: Header) -> dict[str, FileDataset]:
    """All datasets that a plan with this header has or, if they are optional, may have."""
    numbers = range(0 if header.types is None else len(header.types.counts))
    names = [*DATASETS, *(f"vertex_data/{key}_of_{k}" for key in KEYS for k in numbers)]
    found = {name: dataset_of(name) for name in names}
    return {name: each for name, each in found.items() if each.is_of(header)}


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
        found["grid"] = str(header.grid)
    if header.route is not None:
        found |= header.route.attributes()
    if header.types is not None:
        found |= zip(TYPES_ATTRIBUTES, header.types.texts(), strict=True)
    if header.links is not None:
        found[LINKS_ATTRIBUTE] = header.links
    return found


def header_of(attributes: Mapping[str, Any]) -> Header:
    """The inverse of `header_attributes`; other attributes are passed over.

    Raises:
        InputError: For one that is missing or wrong, and for a header that no plan has.
    """
    values: dict[str, Any] = {}
    for name, kind in HEADER_TYPES.items():
        value = attributes.get(name)
        if kind is bool and value in (0, 1):
            value = bool(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise InputError(f"header attribute '{name}' is missing or not {kind.__name__}")
        values[name] = value
    texts = {name: _parsed(name, str(attributes[name])) for name in TEXTS if name in attributes}
    route = Route.read(attributes, texts.get("topology"))
    header = Header(
        **values,
        grid=texts.get("grid"),
        route=route,
        types=_types_of(attributes),
        links=attributes.get(LINKS_ATTRIBUTE),
    )
    if LINKS_ATTRIBUTE in attributes and type(header.links) is not int:
        raise InputError(f"header attribute '{LINKS_ATTRIBUTE}' is no whole number")
    if header.layout not in LAYOUTS:
        layouts = ", ".join(LAYOUTS)
        raise InputError(f"layout '{shown(header.layout)}'; this plancc reads: {layouts}")
    if header.normalization not in NORMALIZATIONS:
        raise InputError(f"unknown normalization '{shown(header.normalization)}'")
    n, p, nnz = header.num_vertices, header.num_parts, header.num_nonzeros
    kinds = 1 if header.types is None else len(header.types.relations)
    if not (1 <= p <= n <= MAX_VERTICES and 0 <= nnz <= kinds * n * n):
        raise InputError(f"impossible header: {n} vertices, {nnz} nonzeros, {p} parts")
    if problem := header.problem():
        raise InputError(problem)
    return header


def _parsed(name: str, text: str) -> Any:
    """The value of one of `TEXTS`."""
    parse, longest = TEXTS[name]
    if len(text) > longest or not text.isprintable():
        raise InputError(f"header attribute '{name}' is no {name}: {shown(text, 40)}")
    try:
        found = parse(text)
    except InputError as error:
        raise InputError(f"header attribute {error}") from None
    if str(found) != text:
        raise InputError(f"header attribute '{name}' is '{text}'; write '{found}'")
    return found


def _types_of(attributes: Mapping[str, Any]) -> Types | None:
    """The types that `TYPES_ATTRIBUTES` say; None: there are none."""
    if not any(name in attributes for name in TYPES_ATTRIBUTES):
        return None
    try:
        return Types.parse(*(str(attributes.get(name, "")) for name in TYPES_ATTRIBUTES))
    except InputError as error:
        names = " and ".join(f"'{name}'" for name in TYPES_ATTRIBUTES)
        raise InputError(f"header attributes {names}: {error}") from None


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


LINK_DATASETS = tuple(
    f"{LINKS}/{name}" for name in ("pair_ptr", "source", "target", "kind", "number")
)
"""The fields of `PartLinks`, as datasets."""


def links_of(header: Header, arrays: Arrays) -> PartLinks | None:
    """The links in datasets; None if the plan has none."""
    if header.links is None:
        return None
    return PartLinks(*(arrays[name] for name in LINK_DATASETS))


def vertex_data_arrays(data: VertexData) -> dict[str, npt.NDArray[Any]]:
    """The vertex data by their names in the file; booleans as bytes."""
    every = {"": data}
    if data.by_type is not None:
        number = data.by_type.number
        every |= {f"_of_{number(name)}": each for name, each in data.of_type.items()}
    return {
        f"vertex_data/{key}{end}": array.view(np.uint8) if array.dtype == np.bool_ else array
        for end, each in every.items()
        for key, array in each.arrays().items()
        if key in KEYS
    }


def vertex_data_from_arrays(
    arrays: Arrays, types: Types | None = None, vertices: npt.NDArray[np.integer] | None = None
) -> VertexData:
    """The inverse of `vertex_data_arrays`; missing ones stay None.

    `vertices` of all rows are needed where there are types.
    """

    def data_of(end: str) -> VertexData:
        found: dict[str, Any] = {key: arrays.get(f"vertex_data/{key}{end}") for key in KEYS}
        for key in (*MASKS, "targets"):
            if found[key] is not None and found[key].dtype == np.uint8:
                found[key] = found[key].view(np.bool_)
        return VertexData(**found)

    if types is None or vertices is None:
        return data_of("")
    every = {name: data_of(f"_of_{k}") for k, name in enumerate(types.counts)}
    of_type = {name: each for name, each in every.items() if each.arrays()}
    by_type = DataByType.of(of_type, types, vertices) if of_type else None
    return replace(data_of(""), by_type=by_type)


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


def vertex_data_problem(name: str, array: npt.NDArray[Any], num_vertices: int) -> tuple[str, str]:
    """The rule for a dataset of vertex data, or rows of it, and what breaks it or ""."""
    rule = dataset_of(name).rule
    assert rule is not None
    invariant, holds = rule
    wrong = array[~holds(array, num_vertices)]
    return invariant, f"there is {wrong[0]}" if len(wrong) else ""
