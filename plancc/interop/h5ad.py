"""Reader of AnnData files (``.h5ad``): a matrix of ``obsp`` is the graph of the observations.

``A[i, j]`` is ``obsp[name][i, j]``. Features are ``X`` or a matrix of ``obsm``. Labels and masks
are columns of ``obs``; codes of categories are classes. A damaged file may crash or block HDF5, so
h5py runs in a child process (`plancc.guarded_child`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, warn
from plancc.files import StrPath, scratch_folder
from plancc.graph.bounds import allowing, check_unpacked, large_allowed
from plancc.graph.canonical import as_values, build_graph, detect_direction
from plancc.graph.formats import Format
from plancc.graph.graph import Graph, Source, as_offsets, check_num_vertices, check_range
from plancc.graph.npz import HOLDS, check_integers
from plancc.graph.textfile import check_readable, show
from plancc.graph.vertexchecks import dense
from plancc.graph.vertexdata import ALIASES, KEYS
from plancc.guarded_child import answer, ask
from plancc.text import shown

Array = npt.NDArray[Any]
DEFAULT = "connectivities"
"""Name in ``obsp`` of scanpy's neighbour graph."""
MOST_UNPACKED = 1100
"""Most bytes into which one byte of a compressed file may expand."""
CPU_SECONDS_PER_BYTE = 2e-6
"""CPU seconds that the child process may use for every byte of the file."""


@contextmanager
def _opened(path: StrPath) -> Iterator[Any]:
    import h5py

    from plancc.plan.container import lock_advice

    check_readable(path)
    where = os.fspath(path)
    try:
        with h5py.File(where, "r", locking=False) as file:
            yield file
    except (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError,
            OverflowError, IndexError) as error:  # fmt: skip
        words = lock_advice(error) or shown(error)
        raise InputError(f"{where}: cannot be read as .h5ad: {words}") from error


def _node(file: Any, name: str) -> Any:
    """Return the dataset or group, or None; a link (perhaps to another file) raises InputError."""
    import h5py

    node, at = file, ""
    for step in name.split("/"):
        at = f"{at}/{step}"
        link = node.get(step, getlink=True) if isinstance(node, h5py.Group) else None
        if link is None:
            return None
        if not isinstance(link, h5py.HardLink):
            raise InputError(f"{file.filename}: '{at[1:]}' is a soft or external link")
        node = node[step]
    return node


def _names(file: Any, name: str) -> list[str]:
    """Return the names in an HDF5 group, sorted; an empty list if the group is missing."""
    import h5py

    node = _node(file, name)
    return sorted(node) if isinstance(node, h5py.Group) else []


def _read(file: Any, name: str) -> Array:
    """Read a dataset; raise InputError if it is missing, holds objects, or is cut off."""
    import h5py

    node = _node(file, name)
    if not isinstance(node, h5py.Dataset):
        raise InputError(f"{file.filename}: '{name}' is missing")
    if node.is_virtual or node.external:
        raise InputError(f"{file.filename}: '{name}' keeps its data outside the file")
    if node.dtype.kind == "O" or node.shape is None:
        raise InputError(f"{file.filename}: '{name}' holds no numbers")
    claimed = prod(node.shape) * node.dtype.itemsize
    if claimed > MOST_UNPACKED * node.id.get_storage_size() + 4096:
        raise InputError(f"{file.filename}: '{name}' of shape {node.shape} is cut off")
    check_unpacked(claimed, file.filename, f"{file.filename}: '{name}'")
    array: Array = node[()]
    return array


def _matrix(file: Any, name: str) -> Any:
    """Read the matrix `name`, as a dense array or, if it is sparse, as scipy's csr or csc array."""
    import h5py
    from scipy.sparse import csc_array, csr_array

    where, node = file.filename, _node(file, name)
    if not isinstance(node, h5py.Group):
        return _read(file, name)
    kind = node.attrs.get("encoding-type", "")
    if kind not in ("csr_matrix", "csc_matrix"):
        raise InputError(f"{where}: '{name}' is of kind '{shown(kind, 40)}', not a matrix")
    shape = np.asarray(node.attrs.get("shape", ()))
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or shape.min() < 0:
        raise InputError(f"{where}: '{name}' has no shape")
    major, minor = shape.tolist() if kind == "csr_matrix" else shape[::-1].tolist()
    data, indices, ptr = (_read(file, f"{name}/{key}") for key in ("data", "indices", "indptr"))
    for key, array in (("indices", indices), ("indptr", ptr)):
        check_integers(array, f"{where}: '{name}/{key}'")
    if len(ptr) != major + 1 or data.shape != indices.shape:
        told = f"{len(ptr)} offsets, {len(indices)} indices and values of shape {data.shape}"
        rule = f"do not form a matrix of shape {tuple(shape.tolist())}"
        raise InputError(f"{where}: '{name}' is damaged: {told} {rule}")
    ptr = as_offsets(ptr, len(indices), f"{where}: '{name}/indptr'")
    check_range(indices, minor, f"{where}: '{name}/indices'", HOLDS)
    values = as_values(data, f"{where}: '{name}'")
    made = csr_array if kind == "csr_matrix" else csc_array
    return made((values, indices, ptr), shape=tuple(shape.tolist()))


def read_h5ad(
    path: StrPath, *, pattern: bool = False, keys: Mapping[str, str] | None = None, **flags: bool
) -> Graph:
    """Read a graph whose vertices are the observations of an AnnData file.

    The file's ``obsp`` holds matrices. The graph is the matrix named ``keys["graph"]`` or, if no
    name is given, "connectivities", else the only matrix.
    """
    where = os.fspath(path)
    (name, matrix), *others = _read_in_child(path, "graph", keys or {}).items()
    if left := [show(other) for other, _ in others]:
        words = f"ignored: {', '.join(left)}; the graph is {show(name)} (`keys` graph=NAME)"
        warn(f"{where}: {words}")
    check_num_vertices(matrix.shape[0], where)
    if isinstance(matrix, np.ndarray):
        row, col = np.nonzero(matrix)
        values = as_values(matrix[row, col], f"{where}: '{name}'")
    else:
        coo = matrix.tocoo()
        (row, col), values = coo.coords, coo.data
    source = Source.of_file(path, "h5ad", show(name))
    kept = None if pattern else values
    return detect_direction(build_graph(matrix.shape[0], row, col, kept, source=source, **flags))


def read_h5ad_data(path: StrPath, *, split: str | None, keys: Mapping[str, str]) -> dict[str, Any]:
    """Read the vertex data of an AnnData file.

    Features are the matrix ``keys["features"]`` of ``obsm``, by default the file's matrix ``X``.
    Other data are columns of ``obs``.
    """
    found = _read_in_child(path, "data", keys)
    key = keys.get("features", "features")
    matrix = found.get(key)
    if matrix is not None and not isinstance(matrix, np.ndarray):
        where = os.fspath(path)
        found[key] = dense(matrix, where, f"{where}: '{_place(keys)}'")
    return found


def _read_in_child(path: StrPath, what: str, keys: Mapping[str, str]) -> dict[str, Any]:
    """Run the function ``READS[what]`` in a child process, and return its result."""
    from scipy.sparse import load_npz

    check_readable(path)
    with scratch_folder() as folder:
        large = large_allowed()
        request = {"what": what, "keys": dict(keys), "large": large, "folder": str(folder)}
        answered = ask("plancc.interop.h5ad", os.fspath(path), CPU_SECONDS_PER_BYTE, request)
        found: dict[str, Any] = answered["files"]
        for name, file in found.items():
            load = load_npz if file and file.endswith(".npz") else np.load
            found[name] = load(file) if file else None
    return found


def _graph(path: StrPath, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return a dict that maps the name of the graph's matrix to the matrix.

    The names of the file's other matrices are mapped to None, but if ``keys["graph"]`` chooses the
    matrix, they are left out.
    """
    with _opened(path) as file:
        where = file.filename
        names = _names(file, "obsp")
        wanted = keys.get("graph")
        name = wanted or (DEFAULT if DEFAULT in names or len(names) != 1 else names[0])
        if name not in names:
            listed = ", ".join(show(each) for each in names) or "no matrix"
            listed += "" if wanted or not names else "; choose one by `keys` graph=NAME"
            raise InputError(f"{where}: 'obsp/{shown(name, 40)}' is missing; obsp has {listed}")
        matrix = _matrix(file, f"obsp/{name}")
        if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
            raise InputError(f"{where}: 'obsp/{name}' must be square, not of shape {matrix.shape}")
        others = [] if wanted else [f"obsp/{each}" for each in names if each != name]
        return {f"obsp/{name}": matrix} | dict.fromkeys(others)


def _data(path: StrPath, keys: Mapping[str, str]) -> dict[str, Any]:
    """Return the result of `read_h5ad_data`, but keep sparse features sparse."""
    found: dict[str, Any] = {}
    with _opened(path) as file:
        columns = set(_names(file, "obs"))
        name = keys.get("features", "X")
        if _node(file, _place(keys)) is not None:
            found[keys.get("features", "features")] = _matrix(file, _place(keys))
        known = {each for key in KEYS[1:] for each in (key, *ALIASES.get(key, ()))}
        for column in sorted(columns & (known | set(keys.values()) - {name})):
            found[column] = _column(file, column)
        others = [*_names(file, "obsm"), *sorted(columns)]
        found |= {each: None for each in others if each not in found}
    return found


def _place(keys: Mapping[str, str]) -> str:
    """Return the feature matrix's path in the file: "X" by default, else such as "obsm/X_pca"."""
    name = keys.get("features", "X")
    return name if name == "X" else f"obsm/{name}"


READS = {"graph": _graph, "data": _data}
"""Functions of the child process. They return arrays, or scipy's sparse arrays, by name; None for
names that are not read."""


def leave(path: str, request: dict[str, Any]) -> dict[str, Any]:
    """Run in the child process: read the arrays, and write each into a file.

    `request` is {"what": key of `READS`, "keys": mapping, "large": whether any size is allowed,
    "folder": where to write}. The result is {"files": name of an array -> file, or None if not
    read}.
    """
    from scipy.sparse import save_npz

    with allowing(large=request["large"]):
        found = READS[request["what"]](path, request["keys"])
    files: dict[str, str | None] = dict.fromkeys(found)
    for number, (name, value) in enumerate(found.items()):
        file = os.path.join(request["folder"], str(number))
        if isinstance(value, np.ndarray):
            files[name] = f"{file}.npy"
            np.save(file, value, allow_pickle=False)
        elif value is not None:
            files[name] = f"{file}.npz"
            save_npz(file, value, compressed=False)
    return {"files": files}


def _column(file: Any, name: str) -> Array:
    """Read a column of obs: numbers, or codes of categories (-1 for unknown)."""
    import h5py

    node = _node(file, f"obs/{name}")
    if isinstance(node, h5py.Group):
        kind = str(node.attrs.get("encoding-type", ""))
        if kind != "categorical":
            told = f"column '{name}' is '{shown(kind, 40)}', neither numbers nor categories"
            raise InputError(f"{file.filename}: {told}")
        return _read(file, f"obs/{name}/codes")
    array = _read(file, f"obs/{name}")
    return array.astype(np.bool_) if h5py.check_enum_dtype(node.dtype) else array


FORMAT = Format(
    (".h5ad",),
    read_h5ad,
    gzip=False,
    options=("keys",),
    read_data=read_h5ad_data,
    what="AnnData: a matrix of obsp, X or obsm, columns of obs",
)

if __name__ == "__main__":
    answer(leave)
