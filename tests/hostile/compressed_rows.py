"""Compressed rows in folders and archives: all types of integers, odd entries, and beside plancc a
reader in plain Python, which must agree on what is refused and on every nonzero.
"""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from .attack import Attack, Case, Finding
from .odd_files import BIG, npy, npz

TYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", ">u8")
KINDS = ("folder", "plain", "csr", "csc", "features")
NUMBERS = (0.0, 0.5, 1.0, -0.5, 2.0, math.nan, math.inf)
SHARES = (0.05, 0.35, 0.35, 0.1, 0.1, 0.03, 0.02)
MOST_ID = 2**63 - 1
Entries = dict[tuple[int, int], float]


class CompressedRows(Attack):
    """Folders and archives of compressed rows, against a reader in plain Python."""

    name = "compressed-rows"
    quick, few = 300, 40
    chunk = 500

    def case(self, rng: np.random.Generator) -> Case:
        kind = str(rng.choice(KINDS))
        rows = int(rng.integers(1, 6))
        columns = int(rng.integers(1, 6)) if kind == "features" else rows
        sizes = rng.integers(0, columns + 1, rows) if rng.random() < 0.9 else np.zeros(rows, int)
        picked = [rng.choice(columns, size, replace=rng.random() < 0.2) for size in sizes.tolist()]
        if rng.random() < 0.6:
            picked = [np.sort(each) for each in picked]
        held: dict[str, Any] = {
            "indptr": [0, *np.cumsum(sizes).tolist()],
            "indices": [int(each) for row in picked for each in row],
        }
        weighted = kind not in ("folder", "plain") or (rng.random() < 0.5 and kind == "folder")
        if weighted:
            held["values"] = rng.choice(NUMBERS, len(held["indices"]), p=SHARES).tolist()
        if kind == "folder" and rng.random() < 0.4:
            held["directed"] = bool(rng.random() < 0.5)
        if kind == "folder" and rng.random() < 0.3:
            held["ids"] = [int(each) for each in rng.choice(100, rows, replace=False)]
        how = "; ".join(_damage(held, rng) for _ in range(int(rng.choice(3, p=(0.3, 0.5, 0.2)))))
        types = {name: _type_of(held[name], rng) for name in ("indptr", "indices", "ids")
                 if name in held}  # fmt: skip
        said = json.dumps({"kind": kind, "rows": rows, "columns": columns, **held})
        return Case(f"{kind} {types}: {how or 'right'}", _files(kind, rows, columns, held, types),
                    words=(said,))  # fmt: skip

    def look(self, case: Case, folder: Path) -> str:
        from plancc.errors import InputError
        from plancc.graph.formats import read_graph
        from plancc.graph.vertexdata import read_vertex_data

        told = json.loads(case.words[0])
        wanted = _read(**told)
        rows = told["rows"]
        try:
            if told["kind"] == "features":
                features = read_vertex_data(folder / "x.npz", rows).features
                assert features is not None
                found = {(i, j): float(features[i, j]) for i, j in np.argwhere(features).tolist()}
            else:
                graph = read_graph(folder / ("rows" if told["kind"] == "folder" else "rows.npz"))
                row = np.repeat(np.arange(graph.num_vertices), np.diff(graph.indptr)).tolist()
                values = np.ones(len(row)) if graph.values is None else graph.values
                pairs = zip(row, graph.indices.tolist(), strict=True)
                found = dict(zip(pairs, values.tolist(), strict=True))
                ids = graph.original_ids
                if (None if ids is None else ids.tolist()) != told.get("ids"):
                    raise Finding("silent", f"ids {ids} of {told['ids']}")
        except InputError as error:
            if isinstance(wanted, dict):
                raise Finding("silent", f"refuses what is right: {error}"[:200]) from error
            raise
        if found != wanted:
            raise Finding("silent", f"{wanted} is read as {found}"[:200])
        return "ok"


def _damage(held: dict[str, Any], rng: np.random.Generator) -> str:
    """Another number, one more or one less, in one of the lists."""
    name = str(rng.choice([each for each in ("indptr", "indptr", "indices", "ids")
                           if held.get(each)]))  # fmt: skip
    numbers, kind = held[name], rng.integers(5)
    at = int(rng.integers(len(numbers)))
    if kind == 0:
        del numbers[at]
        return f"{name} without entry {at}"
    new = int(rng.choice([*BIG, 2**64 - 1, 200, 3])) if kind < 3 else numbers[at] + 1
    if kind == 1:
        numbers.insert(at, new)
        return f"{new} before entry {at} of {name}"
    numbers[at] = new
    return f"{new} in entry {at} of {name}"


def _type_of(numbers: list[int], rng: np.random.Generator) -> str:
    """A type; the numbers become those that it can hold."""
    kind = str(rng.choice(TYPES))
    for k, number in enumerate(numbers):
        numbers[k] = int(np.array(number % 2**64, np.uint64).astype(kind))
    return kind


def _files(
    kind: str, rows: int, columns: int, held: dict[str, Any], types: dict[str, str]
) -> dict[str, bytes]:
    ptr, indices = (np.array(held[name], types[name]) for name in ("indptr", "indices"))
    values = np.array(held.get("values", ()))
    if kind == "features":
        return {"x.npz": npz(feat_indptr=ptr, feat_indices=indices, feat_data=values,
                             feat_shape=np.array([rows, columns]))}  # fmt: skip
    if kind == "plain":
        return {"rows.npz": npz(indptr=ptr, indices=indices, num_nodes=np.array(rows))}
    if kind != "folder":
        shape, layout = np.array([rows, rows]), np.array(kind.encode())
        return {"rows.npz": npz(indptr=ptr, indices=indices, data=values, shape=shape,
                                format=layout)}  # fmt: skip
    made = {"rows/indptr.npy": npy(ptr), "rows/indices.npy": npy(indices)}
    if "values" in held:
        made["rows/values.npy"] = npy(values)
    if "ids" in held:
        made["rows/original_ids.npy"] = npy(np.array(held["ids"], types["ids"]))
    if "directed" in held:
        made["rows/graph.json"] = json.dumps({"directed": held["directed"]}).encode()
    return made


def _read(
    *, kind: str, rows: int, columns: int, indptr: list[int], indices: list[int],
    values: list[float] | None = None, directed: bool | None = None, ids: list[int] | None = None,
) -> Entries | str:  # fmt: skip
    """The nonzeros, or why there are none."""
    if kind == "folder" and len(indptr) != rows + 1:
        rows = columns = len(indptr) - 1  # the folder says its size by nothing else
    if len(indptr) != rows + 1 or rows < 1 or indptr[0] != 0 or indptr[-1] != len(indices):
        return "no offsets of these rows"
    if any(after < before for before, after in pairwise(indptr)):
        return "offsets that fall"
    if not all(0 <= each < columns for each in indices):
        return "an index out of range"
    if values is not None and (len(values) != len(indices) or not all(map(math.isfinite, values))):
        return "values that are no finite numbers, one for each"
    if ids is not None and (len(ids) != rows or max(ids) > MOST_ID):
        return "no ids of these rows"
    found: Entries = {}
    for i in range(rows):
        for k in range(indptr[i], indptr[i + 1]):
            place = (indices[k], i) if kind == "csc" else (i, indices[k])
            if values is None:
                found[place] = 1.0
            else:
                found[place] = found.get(place, 0.0) + values[k]
    found = {place: value for place, value in found.items() if value}
    if directed is False and any((j, i) not in found for i, j in found):
        return "said to be symmetric, and is not"
    return found
