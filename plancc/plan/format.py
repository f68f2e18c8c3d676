"""The plan file's nodes, once: names, dtypes, ranks and sizes. Reader, writer and docs follow it.

The normative text is ``docs/plan-format.md``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from plancc.graph.vertexdata import VertexData
from plancc.plan.plan import Exchange, Fold, Header, Plan

FORMAT = "plancc-plan"
MAJOR, MINOR = 1, 4
FORMAT_VERSION = f"{MAJOR}.{MINOR}"
LAYOUTS = {"row": 0, "edge": 3, "grid": 4, "feature": 4}
"""Layouts, and the minor version that each came with."""

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
"""Of the root group, in layouts "grid" and "feature" only; text as of `plancc.plan.grid.Grid`."""
ROOT_ATTRIBUTES = ("format", "format_version", "content_sha256", *HEADER_TYPES, GRID_ATTRIBUTE)


@dataclass(frozen=True)
class Node:
    """One dataset of the format.

    Attributes
    ----------
    dtypes : tuple of str
        Allowed types in numpy's notation; the writer uses the array's own, which is one of them.
    shape : tuple of str
        Names of the dimensions. ``n``, ``p``, ``nnz`` and their successors ``n+1``, ``p+1`` are
        fixed by the header; ``rows+1`` is one more than the local rows of all parts, which are n
        and the folded ones. Other names are free, but equal names are equal sizes.
    optional : bool
    layout : str
        The only one that has it, and then always; "": every layout.
    """

    dtypes: tuple[str, ...]
    shape: tuple[str, ...]
    optional: bool = False
    layout: str = ""


def _step_nodes(step: str, layout: str = "") -> dict[str, Node]:
    """Both tables of one step, once grouped by sender, once by receiver."""
    messages, volume = f"{step} messages", f"{step} volume"
    found = {}
    for prefix in ("send", "recv"):
        found[f"{step}/{prefix}_ptr"] = Node(("<i8",), ("p+1",), layout=layout)
        found[f"{step}/{prefix}_peer"] = Node(("<i4",), (messages,), layout=layout)
        found[f"{step}/{prefix}_row_ptr"] = Node(("<i8",), (f"{messages}+1",), layout=layout)
        found[f"{step}/{prefix}_row"] = Node(("<i4",), (volume,), layout=layout)
    return found


NODES: dict[str, Node] = {
    "rows/part_ptr": Node(("<i8",), ("p+1",)),
    "rows/global_id": Node(("<i4",), ("n",)),
    "rows/num_interior": Node(("<i8",), ("p",)),
    "rows/original_id": Node(("<i8",), ("n",), optional=True),
    "matrix/row_ptr": Node(("<i8",), ("rows+1",)),
    "matrix/column": Node(("<i4",), ("nnz",)),
    "matrix/value": Node(("<f4", "<f8"), ("nnz",)),
    **_step_nodes("expand"),
    **_step_nodes("fold", layout="edge"),
    "vertex_data/features": Node(("<f4",), ("n", "features"), optional=True),
    "vertex_data/labels": Node(("<i4",), ("n",), optional=True),
    "vertex_data/train_mask": Node(("|u1",), ("n",), optional=True),
    "vertex_data/val_mask": Node(("|u1",), ("n",), optional=True),
    "vertex_data/test_mask": Node(("|u1",), ("n",), optional=True),
    "vertex_data/clusters": Node(("<i4",), ("n",), optional=True),
    "vertex_data/targets": Node(("|u1",), ("n", "classes"), optional=True),
}
GROUPS = ("rows", "matrix", "expand", "fold", "vertex_data")
ATTRIBUTE_GROUPS = ("provenance", "metrics")

Arrays = Mapping[str, npt.NDArray[np.generic]]


def header_attributes(header: Header) -> dict[str, str | int | bool]:
    """The attributes of the root group that describe the product."""
    found = {name: getattr(header, name) for name in HEADER_TYPES}
    return found if header.grid is None else found | {GRID_ATTRIBUTE: str(header.grid)}


def arrays_of(plan: Plan) -> dict[str, npt.NDArray[np.generic]]:
    """The datasets of a plan by their names in the file."""
    found: dict[str, npt.NDArray[np.generic] | None] = {
        "rows/part_ptr": plan.part_ptr,
        "rows/global_id": plan.global_id,
        "rows/num_interior": plan.num_interior,
        "rows/original_id": None,
        "matrix/row_ptr": plan.row_ptr,
        "matrix/column": plan.column,
        "matrix/value": plan.value,
    }
    if plan.original_id is not None:
        found["rows/original_id"] = plan.original_id[plan.global_id]
    exchanges = {"expand/send": plan.send, "expand/recv": plan.receive}
    if plan.fold is not None:
        exchanges |= {"fold/send": plan.fold.send, "fold/recv": plan.fold.receive}
    for prefix, exchange in exchanges.items():
        found[f"{prefix}_ptr"] = exchange.ptr
        found[f"{prefix}_peer"] = exchange.peer
        found[f"{prefix}_row_ptr"] = exchange.row_ptr
        found[f"{prefix}_row"] = exchange.row
    data = plan.vertex_data
    found["vertex_data/features"] = data.features
    found["vertex_data/labels"] = data.labels
    found["vertex_data/clusters"] = data.clusters
    for name, mask in (
        ("train_mask", data.train_mask),
        ("val_mask", data.val_mask),
        ("test_mask", data.test_mask),
        ("targets", data.targets),
    ):
        found[f"vertex_data/{name}"] = None if mask is None else mask.view(np.uint8)
    return {name: array for name in NODES if (array := found.get(name)) is not None}


def plan_from_arrays(header: Header, arrays: Arrays) -> Plan:
    """The inverse of `arrays_of`."""
    get = arrays.get
    global_id = arrays["rows/global_id"]
    original = get("rows/original_id")
    if original is not None:
        by_vertex = np.empty_like(original)
        np.put(by_vertex, global_id, original, mode="clip")  # type: ignore[arg-type]  # not yet checked
        original = by_vertex

    def exchange(prefix: str) -> Exchange:
        names = ("ptr", "peer", "row_ptr", "row")
        return Exchange(*(arrays[f"{prefix}_{name}"] for name in names))  # type: ignore[arg-type]

    return Plan(
        header=header,
        part_ptr=arrays["rows/part_ptr"],  # type: ignore[arg-type]
        global_id=global_id,  # type: ignore[arg-type]
        num_interior=arrays["rows/num_interior"],  # type: ignore[arg-type]
        row_ptr=arrays["matrix/row_ptr"],  # type: ignore[arg-type]
        column=arrays["matrix/column"],  # type: ignore[arg-type]
        value=arrays["matrix/value"],  # type: ignore[arg-type]
        send=exchange("expand/send"),
        receive=exchange("expand/recv"),
        vertex_data=vertex_data_from_arrays(arrays),
        original_id=original,  # type: ignore[arg-type]
        fold=(
            Fold(exchange("fold/send"), exchange("fold/recv")) if header.layout == "edge" else None
        ),
    )


def vertex_data_from_arrays(arrays: Arrays) -> VertexData:
    """Vertex data from the datasets that are there; missing ones stay None."""

    def mask(name: str) -> npt.NDArray[np.bool_] | None:
        found = arrays.get(f"vertex_data/{name}")
        return None if found is None else found.view(np.bool_)

    return VertexData(
        features=arrays.get("vertex_data/features"),  # type: ignore[arg-type]
        labels=arrays.get("vertex_data/labels"),  # type: ignore[arg-type]
        train_mask=mask("train_mask"),
        val_mask=mask("val_mask"),
        test_mask=mask("test_mask"),
        clusters=arrays.get("vertex_data/clusters"),  # type: ignore[arg-type]
        targets=mask("targets"),
    )


def content_sha256(header: Header, arrays: Arrays) -> str:
    """Hash of everything that determines what a run of the plan computes and sends.

    SHA-256 of one line ``name=value`` per header attribute and one line
    ``name dtype shape sha256`` per dataset, both sorted by name (docs/plan-format.md, "Content
    hash"). Provenance, metrics and storage (chunks, compression) do not enter.
    """
    names = sorted(arrays)
    with ThreadPoolExecutor(2) as pool:
        digests = pool.map(lambda name: hashlib.sha256(_bytes(arrays[name])).hexdigest(), names)
    words = header_attributes(header).items()
    lines = sorted(f"{name}={v if isinstance(v, str) else int(v)}" for name, v in words)
    for name, digest in zip(names, digests, strict=True):
        shape = "x".join(map(str, arrays[name].shape))
        lines.append(f"{name} {arrays[name].dtype.str} {shape} {digest}")
    return hashlib.sha256("\n".join([*lines, ""]).encode()).hexdigest()


def _bytes(array: npt.NDArray[np.generic]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
