"""The plan file's nodes, once: names, dtypes, ranks and sizes. Reader, writer and docs follow it.

The normative text is ``docs/plan-format.md``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from plancc.graph.vertexdata import VertexData
from plancc.plan.plan import Exchange, Header, Plan

FORMAT = "plancc-plan"
MAJOR, MINOR = 1, 2
FORMAT_VERSION = f"{MAJOR}.{MINOR}"
LAYOUTS = ("row",)

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
ROOT_ATTRIBUTES = ("format", "format_version", "content_sha256", *HEADER_TYPES)


@dataclass(frozen=True)
class Node:
    """One dataset of the format.

    Attributes
    ----------
    dtypes : tuple of str
        Allowed types in numpy's notation; the writer uses the array's own, which is one of them.
    shape : tuple of str
        Names of the dimensions. ``n``, ``p``, ``nnz`` and their successors ``n+1``, ``p+1`` are
        fixed by the header; other names are free, but equal names are equal sizes.
    optional : bool
    """

    dtypes: tuple[str, ...]
    shape: tuple[str, ...]
    optional: bool = False


def _exchange_nodes(prefix: str) -> dict[str, Node]:
    return {
        f"expand/{prefix}_ptr": Node(("<i8",), ("p+1",)),
        f"expand/{prefix}_peer": Node(("<i4",), ("messages",)),
        f"expand/{prefix}_row_ptr": Node(("<i8",), ("messages+1",)),
        f"expand/{prefix}_row": Node(("<i4",), ("volume",)),
    }


NODES: dict[str, Node] = {
    "rows/part_ptr": Node(("<i8",), ("p+1",)),
    "rows/global_id": Node(("<i4",), ("n",)),
    "rows/num_interior": Node(("<i8",), ("p",)),
    "rows/original_id": Node(("<i8",), ("n",), optional=True),
    "matrix/row_ptr": Node(("<i8",), ("n+1",)),
    "matrix/column": Node(("<i4",), ("nnz",)),
    "matrix/value": Node(("<f4", "<f8"), ("nnz",)),
    **_exchange_nodes("send"),
    **_exchange_nodes("recv"),
    "vertex_data/features": Node(("<f4",), ("n", "features"), optional=True),
    "vertex_data/labels": Node(("<i4",), ("n",), optional=True),
    "vertex_data/train_mask": Node(("|u1",), ("n",), optional=True),
    "vertex_data/val_mask": Node(("|u1",), ("n",), optional=True),
    "vertex_data/test_mask": Node(("|u1",), ("n",), optional=True),
    "vertex_data/clusters": Node(("<i4",), ("n",), optional=True),
    "vertex_data/targets": Node(("|u1",), ("n", "classes"), optional=True),
}
GROUPS = ("rows", "matrix", "expand", "vertex_data")
ATTRIBUTE_GROUPS = ("provenance", "metrics")

Arrays = Mapping[str, npt.NDArray[np.generic]]


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
    for prefix, exchange in (("send", plan.send), ("recv", plan.receive)):
        found[f"expand/{prefix}_ptr"] = exchange.ptr
        found[f"expand/{prefix}_peer"] = exchange.peer
        found[f"expand/{prefix}_row_ptr"] = exchange.row_ptr
        found[f"expand/{prefix}_row"] = exchange.row
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
    return {name: found[name] for name in NODES if found[name] is not None}  # type: ignore[misc]


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
        return Exchange(*(arrays[f"expand/{prefix}_{name}"] for name in names))  # type: ignore[arg-type]

    return Plan(
        header=header,
        part_ptr=arrays["rows/part_ptr"],  # type: ignore[arg-type]
        global_id=global_id,  # type: ignore[arg-type]
        num_interior=arrays["rows/num_interior"],  # type: ignore[arg-type]
        row_ptr=arrays["matrix/row_ptr"],  # type: ignore[arg-type]
        column=arrays["matrix/column"],  # type: ignore[arg-type]
        value=arrays["matrix/value"],  # type: ignore[arg-type]
        send=exchange("send"),
        receive=exchange("recv"),
        vertex_data=vertex_data_from_arrays(arrays),
        original_id=original,  # type: ignore[arg-type]
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
    lines = [f"{name}={v if isinstance(v, str) else int(v)}" for name, v in asdict(header).items()]
    lines.sort()
    for name, digest in zip(names, digests, strict=True):
        shape = "x".join(map(str, arrays[name].shape))
        lines.append(f"{name} {arrays[name].dtype.str} {shape} {digest}")
    return hashlib.sha256("\n".join([*lines, ""]).encode()).hexdigest()


def _bytes(array: npt.NDArray[np.generic]) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
