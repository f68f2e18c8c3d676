"""The table `DATASETS`, which describes every dataset of a plan file.

Reader, writer, digests and verifier follow the table. The normative document is
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
from plancc.graph.bounds import CLASSES, CLASSES_PER_CLASS, max_clusters
from plancc.graph.graph import MAX_VERTICES, NORMALIZATIONS
from plancc.graph.types import Types
from plancc.graph.vertexdata import KEYS, MASKS, DataByType, VertexData
from plancc.plan.exchange import Exchange, Side
from plancc.plan.grid import Grid
from plancc.plan.links import PartLinks
from plancc.plan.topology import HOPS, RELAYS, Route, Topology
from plancc.plan.values import LINKS, STEPS, Header
from plancc.text import shown

FORMAT = "plancc-plan"
MAJOR, MINOR = 1, 12
FORMAT_VERSION = f"{MAJOR}.{MINOR}"
OLDEST = 5
"""The oldest minor version that a release has written."""
LAYOUTS = ("row", "edge", "grid", "feature")

# Attributes of the root group that describe the product, and the type of each.
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
"""Attributes of the root group that are parsed: the parser, and the largest length of the
string."""
TYPES_ATTRIBUTES = ("types", "relations")
"""Attributes of the root group of a plan with types; they hold `Types.texts`."""
LINKS_ATTRIBUTE = "links"
"""Attribute of the root group of a plan with links; it holds `Header.links`."""
PIECES = "pieces"
"""Attribute of the root group in the first file of a plan in pieces. Readers refuse such files."""
PIECE_FORMAT = f"{FORMAT}-piece"
"""Attribute "format" of a piece; readers refuse such a file too."""
STORAGE_ATTRIBUTES = ("format", "format_version", "content_sha256")
"""Attributes of the root group that the content hash leaves out."""
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
"""Dataset of the offsets of the parts' rows for every type, in plans with vertex data by type."""
FOLDED = "fold/send_row_ptr"
"""Dataset of the offsets of the rows that each part folds, in edge plans."""
LOCAL_ROWS = "local rows"
"""Value of `FileDataset.cut` for data with an entry per local row: own rows, then folded rows."""
OF_TYPE = " of type "
"""Separates `TYPE_PTR` and the number of a type in the `FileDataset.cut` of vertex data by type."""
TYPES, PARALLEL = "types", "parallel relations"
"""Values of `FileDataset.when`: plans with types, and plans with parallel relations."""
EXCHANGES = (*STEPS, *(f"{step}_{hop}" for step in STEPS for hop in HOPS), LINKS)
"""All names that `Header.steps` may return."""
Rule = Callable[[npt.NDArray[Any], int], npt.NDArray[np.bool_]]


@dataclass(frozen=True)
class FileDataset:
    """Description of one dataset of the plan format.

    Attributes:
        dtypes: Allowed dtypes in numpy's notation; "|S" allows strings of any length.
        shape: Names of the dimensions, some with "+1"; equal names mean equal sizes. ``rows``
            counts own and folded rows of all parts; the header gives ``n``, ``p`` and ``nnz``.
        when: Which plans have the dataset: a name in `EXCHANGES`, `TYPES`, `PARALLEL`, or "" for
            all.
        optional: Whether the dataset may be missing from these plans.
        cut: Which offsets cut the dataset into the parts' pieces: the name of a dataset that holds
            them, `LOCAL_ROWS`, or a row of `TYPE_PTR`. "": one piece, which every rank reads.
        ends: For ascending offsets from 0: the dimension whose size the last offset equals.
        below: For numbers from 0: the dimension whose size every number is below.
        rule: For vertex data: a rule as a phrase, and as a function of the array and n.
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
        """Whether the pieces of two consecutive parts share an entry, as in datasets of offsets."""
        return bool(self.ends and self.cut)

    def is_of(self, header: Header) -> bool:
        """Return whether a plan with this header has the dataset, or may have an optional one."""
        if self.when in (TYPES, PARALLEL):
            types = header.types
            return types is not None and (self.when == TYPES or types.are_parallel)
        return not self.when or self.when in header.steps()


def _exchange_datasets(step: str) -> dict[str, FileDataset]:
    """Return the datasets of an exchange: one table sorted by sender, another by receiver."""
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


_row_dataset = partial(FileDataset, cut=PART_PTR)
_nonzero_dataset = partial(FileDataset, cut="matrix/row_ptr")
_link_dataset = partial(FileDataset, shape=(LINKS,), when=LINKS, cut="links/pair_ptr")
_vertex_dataset = partial(FileDataset, optional=True, cut=PART_PTR)
_is_mask = ("masks hold 0 and 1", lambda array, n: array <= 1)
DATASETS: dict[str, FileDataset] = {
    PART_PTR: FileDataset(("<i8",), ("p+1",), ends="n"),
    "rows/global_id": _row_dataset(("<i4",), ("n",), below="n"),
    "rows/num_interior": FileDataset(("<i8",), ("p",)),
    "rows/original_id": _row_dataset(("<i8", "|S"), ("n",), optional=True),
    "matrix/row_ptr": FileDataset(("<i8",), ("rows+1",), cut=LOCAL_ROWS, ends="nnz"),
    "matrix/column": _nonzero_dataset(("<i4",), ("nnz",)),
    "matrix/value": _nonzero_dataset(("<f4", "<f8"), ("nnz",)),
    "matrix/edge_features": _nonzero_dataset(("<f4",), ("nnz", "edge features"), optional=True),
    **{name: each for step in EXCHANGES for name, each in _exchange_datasets(step).items()},
    "links/pair_ptr": FileDataset(("<i8",), ("p+1",), LINKS, ends=LINKS),
    "links/source": _link_dataset(("<i4",)),
    "links/target": _link_dataset(("<i4",)),
    "links/kind": _link_dataset(("|u1",)),
    "links/number": _link_dataset(("<i8",)),
    "vertex_data/features": _vertex_dataset(
        ("<f4", "<f2", "|i1"),
        ("n", "features"),
        rule=("features are finite", lambda array, n: np.isfinite(array)),
    ),
    "vertex_data/labels": _vertex_dataset(
        ("<i4",), ("n",), rule=("labels are classes or -1", lambda array, n: array >= -1)
    ),
    **{f"vertex_data/{key}": _vertex_dataset(("|u1",), ("n",), rule=_is_mask) for key in MASKS},
    "vertex_data/clusters": _vertex_dataset(
        ("<i4",),
        ("n",),
        rule=(
            "clusters are numbers from 0",
            lambda array, n: (array >= 0) & (array < max_clusters(n)),
        ),
    ),
    "vertex_data/targets": _vertex_dataset(
        ("|u1", "<f4"),
        ("n", "targets"),
        rule=(
            "targets hold 0 and 1, or numbers that are not infinite",
            lambda array, n: array <= 1 if array.dtype == np.uint8 else ~np.isinf(array),
        ),
    ),
    TYPE_PTR: FileDataset(("<i8",), ("types", "p+1"), TYPES, optional=True, ends="counts"),
    "matrix/relation": _nonzero_dataset(("<u2",), ("nnz",), PARALLEL),
}
GROUPS = tuple(dict.fromkeys(name.partition("/")[0] for name in DATASETS))


def dataset_of(name: str) -> FileDataset:
    """Return the description of a dataset by its name in the file; raise KeyError if unknown.

    With vertex types, names of vertex data end in "_of_k", where k is the index of the type.
    """
    name, _, number = name.partition("_of_")
    found = DATASETS[name]
    if not number:
        return found
    shape = tuple(f"{dimension} of {number}" for dimension in found.shape)
    return replace(found, shape=shape, when=TYPES, cut=f"{TYPE_PTR}{OF_TYPE}{number}")


def datasets_of(header: Header) -> dict[str, FileDataset]:
    """Return the datasets of a plan with this header, including optional datasets."""
    numbers = range(0 if header.types is None else len(header.types.counts))
    names = [*DATASETS, *(f"vertex_data/{key}_of_{k}" for key in KEYS for k in numbers)]
    found = {name: dataset_of(name) for name in names}
    return {name: each for name, each in found.items() if each.is_of(header)}


DIGESTS = "digests"
"""The group that holds the digests of every dataset, under the name of the dataset."""
ATTRIBUTE_GROUPS = ("provenance", "metrics")

EXCHANGE_ARRAYS = ("ptr", "peer", "row_ptr", "row")
"""Fields of a `Side`. The names of the datasets that store a side end with these names."""

Arrays = Mapping[str, npt.NDArray[Any]]


def header_attributes(header: Header) -> dict[str, str | int | bool]:
    """Return the attributes of the file's root group that store the header, by name."""
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
    """Return the header that these attributes store; raise InputError if a value is wrong."""
    values: dict[str, Any] = {}
    for name, kind in HEADER_TYPES.items():
        value = attributes.get(name)
        if kind is bool and value in (0, 1):
            value = bool(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise InputError(f"header attribute '{name}' is missing or not of type {kind.__name__}")
        values[name] = value
    texts = {name: _parsed(name, str(attributes[name])) for name in TEXTS if name in attributes}
    route = None
    if RELAYS in attributes or "topology" in texts:
        route = Route.read(attributes, texts.get("topology"))
    types, links = _types_of(attributes), attributes.get(LINKS_ATTRIBUTE)
    header = Header(**values, grid=texts.get("grid"), route=route, types=types, links=links)
    if LINKS_ATTRIBUTE in attributes and type(links) is not int:
        raise InputError(f"header attribute '{LINKS_ATTRIBUTE}' is not a whole number")
    if header.layout not in LAYOUTS:
        layouts = ", ".join(LAYOUTS)
        raise InputError(f"layout '{shown(header.layout)}' is unknown; choose from {layouts}")
    if header.normalization not in NORMALIZATIONS:
        raise InputError(f"normalization '{shown(header.normalization)}' is unknown")
    n, p, nnz = header.num_vertices, header.num_parts, header.num_nonzeros
    kinds = 1 if header.types is None else len(header.types.relations)
    if not (1 <= p <= n <= MAX_VERTICES and 0 <= nnz <= kinds * n * n):
        raise InputError(f"the header is impossible: {n} vertices, {nnz} nonzeros, {p} parts")
    if problem := header.problem():
        raise InputError(problem)
    return header


def _parsed(name: str, text: str) -> Any:
    """Parse the text of the header attribute `name`, such as a grid, with its parser in `TEXTS`."""
    parse, longest = TEXTS[name]
    if len(text) > longest or not text.isprintable():
        raise InputError(f"header attribute '{name}' is not a {name}: {shown(text, 40)}")
    try:
        found = parse(text)
    except InputError as error:
        raise InputError(f"header attribute {error}") from None
    if str(found) != text:
        raise InputError(f"header attribute '{name}' is '{text}'; write '{found}'")
    return found


def _types_of(attributes: Mapping[str, Any]) -> Types | None:
    """Return the vertex types and relations that the attributes store; None if there are none."""
    if not any(name in attributes for name in TYPES_ATTRIBUTES):
        return None
    try:
        return Types.parse(*(str(attributes.get(name, "")) for name in TYPES_ATTRIBUTES))
    except InputError as error:
        names = " and ".join(f"'{name}'" for name in TYPES_ATTRIBUTES)
        raise InputError(f"header attributes {names}: {error}") from None


def exchange_arrays(step: str, exchange: Exchange) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an exchange, by their names in the file."""
    return {
        f"{step}/{prefix}_{name}": getattr(side, name)
        for prefix, side in (("send", exchange.send), ("recv", exchange.receive))
        for name in EXCHANGE_ARRAYS
    }


def exchange_of(step: str, arrays: Arrays) -> Exchange:
    """Return the exchange of a step, of a hop or of links; the inverse of `exchange_arrays`."""
    return Exchange(
        *(
            Side(*(arrays[f"{step}/{prefix}_{name}"] for name in EXCHANGE_ARRAYS))
            for prefix in ("send", "recv")
        )
    )


LINK_DATASETS = tuple(
    f"{LINKS}/{name}" for name in ("pair_ptr", "source", "target", "kind", "number")
)
"""Names of the datasets that hold the fields of `PartLinks`."""


def links_of(header: Header, arrays: Arrays) -> PartLinks | None:
    """Return the links of a plan from its datasets; None if the plan has no links."""
    if header.links is None:
        return None
    return PartLinks(*(arrays[name] for name in LINK_DATASETS))


def vertex_data_arrays(data: VertexData) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of vertex data by their names in the file. Booleans become bytes."""
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
    """Return vertex data from arrays by their names in the file; missing arrays become None.

    Data by vertex type also need `types`, and the vertex of every row, `vertices`.
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
    """Return the largest number of classes that labels may have if the user gives no number."""
    return CLASSES + CLASSES_PER_CLASS * num_vertices


def too_many_classes(classes: int, num_vertices: int) -> str:
    """Return why labels may not have this many classes; "" if they may."""
    if classes <= most_classes(num_vertices):
        return ""
    return (
        f"its labels go up to '{classes - 1}', and it has {num_vertices:,} vertices: a network "
        f"would have an output for each of {classes:,} classes"
    )


def vertex_data_problem(name: str, array: npt.NDArray[Any], num_vertices: int) -> tuple[str, str]:
    """Return two phrases: the rule for entries of vertex data `name`, and the first violation.

    The second, such as "there is -2", is "" if every entry meets the rule.
    """
    rule = dataset_of(name).rule
    assert rule is not None
    invariant, holds = rule
    wrong = array[~holds(array, num_vertices)]
    return invariant, f"there is {wrong[0]}" if len(wrong) else ""
