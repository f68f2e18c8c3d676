"""Compressed rows and edges in folders, archives, .h5ad and .pt: all types of integers, odd
entries, and a reader in plain Python, which must agree on what is refused and on every nonzero.
"""

import io
import json
import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from .attack import Attack, Case, Finding
from .fuzz_inputs import Entries, entries_of
from .odd_files import BIG, npy, npz

TYPES = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", ">u8")
ROWS_OF = {
    **{"folder": "rows", "plain": "rows.npz", "csr": "rows.npz", "csc": "rows.npz"},
    **{
        "h5ad csr": "rows.h5ad",
        "h5ad csc": "rows.h5ad",
        "pt edges": "rows.pt",
        "pt csr": "rows.pt",
    },
}
"""Files of graphs, by kind."""
FEATURES_OF = {"features": "x.npz", "h5ad features": "x.h5ad"}
KINDS = (*ROWS_OF, *FEATURES_OF)
OF_TORCH = ("i4", "i8")
NUMBERS = (0.0, 0.5, 1.0, -0.5, 2.0, math.nan, math.inf)
SHARES = (0.05, 0.35, 0.35, 0.1, 0.1, 0.03, 0.02)
MOST_ID = 2**63 - 1


class CompressedRows(Attack):
    """Compressed rows and edges in files of all kinds, against a reader in plain Python."""

    name = "compressed-rows"
    quick, few = 300, 40

    def case(self, rng: np.random.Generator) -> Case:
        kind = str(rng.choice(KINDS))
        rows = int(rng.integers(1, 6))
        columns = int(rng.integers(1, 6)) if kind in FEATURES_OF else rows
        sizes = rng.integers(0, columns + 1, rows) if rng.random() < 0.9 else np.zeros(rows, int)
        picked = [rng.choice(columns, size, replace=rng.random() < 0.2) for size in sizes.tolist()]
        if rng.random() < 0.6:
            picked = [np.sort(each) for each in picked]
        held: dict[str, Any] = {
            "indptr": [0, *np.cumsum(sizes).tolist()],
            "indices": [int(each) for row in picked for each in row],
        }
        if kind == "pt edges":
            held["row"] = np.repeat(np.arange(rows), sizes).tolist()
            del held["indptr"]
        maybe = kind in ("folder", "pt edges")
        weighted = kind != "plain" and (not maybe or rng.random() < 0.5)
        if weighted:
            held["values"] = rng.choice(NUMBERS, len(held["indices"]), p=SHARES).tolist()
        if kind == "folder" and rng.random() < 0.4:
            held["directed"] = bool(rng.random() < 0.5)
        if kind == "folder" and rng.random() < 0.3:
            held["ids"] = [int(each) for each in rng.choice(100, rows, replace=False)]
        how = "; ".join(_damage(held, rng) for _ in range(int(rng.choice(3, p=(0.3, 0.5, 0.2)))))
        names = [name for name in ("indptr", "row", "indices", "ids") if name in held]
        if kind.startswith("pt"):  # torch has one type for both
            types = dict.fromkeys(names, str(rng.choice(OF_TORCH)))
            for name in names:
                _type_of(held[name], types[name])
        else:
            types = {name: _type_of(held[name], str(rng.choice(TYPES))) for name in names}
        said = json.dumps({"kind": kind, "rows": rows, "columns": columns, **held})
        return Case(f"{kind} {types}: {how or 'right'}", _files(kind, rows, columns, held, types),
                    words=(said,))  # fmt: skip

    def look(self, case: Case, folder: Path) -> str:
        from plancc.errors import InputError
        from plancc.graph.formats import read_graph
        from plancc.graph.vertexsources import read_vertex_data

        told = json.loads(case.words[0])
        wanted = _read(**told)
        rows = told["rows"]
        try:
            if told["kind"] in FEATURES_OF:
                with h5ad_in_this_process():
                    name = FEATURES_OF[told["kind"]]
                    features = read_vertex_data(folder / name, rows).features
                assert features is not None
                found = {(i, j): float(features[i, j]) for i, j in np.argwhere(features).tolist()}
            else:
                with h5ad_in_this_process():
                    graph = read_graph(folder / ROWS_OF[told["kind"]])
                found = entries_of(graph)
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


@contextmanager
def h5ad_in_this_process() -> Iterator[None]:
    """A block in which no child reads .h5ad: HDF5 is whole here, and a start takes a second."""
    from plancc.interop import h5ad

    with patch.object(
        h5ad, "_read_in_child", lambda path, what, keys: h5ad.READS[what](path, keys)
    ):
        yield


def _damage(held: dict[str, Any], rng: np.random.Generator) -> str:
    """Another number, one more or one less, in one of the lists."""
    there = [each for each in ("indptr", "indptr", "row", "indices", "ids") if held.get(each)]
    if not there:
        return "nothing to damage"
    name = str(rng.choice(there))
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


def _type_of(numbers: list[int], kind: str) -> str:
    """The type; the numbers become those that it can hold."""
    for k, number in enumerate(numbers):
        numbers[k] = int(np.array(number % 2**64, np.uint64).astype(kind))
    return kind


def _files(
    kind: str, rows: int, columns: int, held: dict[str, Any], types: dict[str, str]
) -> dict[str, bytes]:
    if kind == "pt edges":
        return {"rows.pt": _edges_of_torch(rows, held, types)}
    ptr, indices = (np.array(held[name], types[name]) for name in ("indptr", "indices"))
    values = np.array(held.get("values", ()), np.float64)
    if kind.startswith("h5ad"):
        return _anndata(kind, (rows, columns), ptr, indices, values)
    if kind == "pt csr":
        return {"rows.pt": _rows_of_torch(rows, ptr, indices, values)}
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


def _anndata(
    kind: str, shape: tuple[int, int], ptr: np.ndarray, indices: np.ndarray, values: np.ndarray
) -> dict[str, bytes]:
    import h5py

    made, layout = io.BytesIO(), "csc" if kind == "h5ad csc" else "csr"
    with h5py.File(made, "w") as file:
        group = file.create_group("X" if kind == "h5ad features" else "obsp/connectivities")
        group.attrs.update({"encoding-type": f"{layout}_matrix", "shape": np.array(shape)})
        for name, array in (("indptr", ptr), ("indices", indices), ("data", values)):
            group[name] = array
    return {"x.h5ad" if kind == "h5ad features" else "rows.h5ad": made.getvalue()}


def _rows_of_torch(rows: int, ptr: np.ndarray, indices: np.ndarray, values: np.ndarray) -> bytes:
    import torch

    made = io.BytesIO()
    parts = [torch.from_numpy(each) for each in (ptr, indices, values)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # csr is in beta
        adjacent = torch.sparse_csr_tensor(*parts, size=(rows, rows), check_invariants=False)
    torch.save({"adj_t": adjacent}, made)
    return made.getvalue()


def _edges_of_torch(rows: int, held: dict[str, Any], types: dict[str, str]) -> bytes:
    import torch

    made = io.BytesIO()
    ends = [np.array(held[name], types[name]) for name in ("indices", "row")]
    pair = np.stack(ends) if len(ends[0]) == len(ends[1]) else np.concatenate(ends)
    saved = {"edge_index": torch.from_numpy(pair), "num_nodes": rows}
    if "values" in held:
        saved["edge_weight"] = torch.tensor(held["values"], dtype=torch.float64)
    torch.save(saved, made)
    return made.getvalue()


def _read(
    *, kind: str, rows: int, columns: int, indices: list[int], indptr: list[int] | None = None,
    row: list[int] | None = None, values: list[float] | None = None,
    directed: bool | None = None, ids: list[int] | None = None,
) -> Entries | str:  # fmt: skip
    """The nonzeros, or why there are none."""
    if row is not None:
        if len(row) != len(indices) or not all(0 <= each < rows for each in row):
            return "no rows of these entries"
        order = sorted(range(len(row)), key=row.__getitem__)
        indices = [indices[k] for k in order]
        if values is not None and len(values) == len(order):
            values = [values[k] for k in order]
        indptr = [sum(each < i for each in row) for i in range(rows + 1)]
    assert indptr is not None
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
    if kind == "pt csr" and any(
        after <= before
        for first, last in pairwise(indptr)
        for before, after in pairwise(indices[first:last])
    ):
        return "columns that do not ascend, as torch has them"
    found: Entries = {}
    for i in range(rows):
        for k in range(indptr[i], indptr[i + 1]):
            place = (indices[k], i) if kind.endswith("csc") else (i, indices[k])
            if values is None:
                found[place] = 1.0
            else:
                found[place] = found.get(place, 0.0) + values[k]
    found = {place: value for place, value in found.items() if value}
    if directed is False and any((j, i) not in found for i, j in found):
        return "said to be symmetric, and is not"
    return found
