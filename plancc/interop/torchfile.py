"""Reader of torch.save's files: tensors, NumPy arrays and plain containers.

torch.load reads with ``weights_only``, so a file cannot run code. An object of PyTorch Geometric
becomes a `StoredObject`; PyTorch Geometric need not be installed.
"""

from __future__ import annotations

import contextlib
import os
import re
import zipfile
import zlib
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np

from plancc.errors import InputError
from plancc.files import StrPath, open_file
from plancc.graph.bounds import check_unpacked
from plancc.graph.formats import library
from plancc.graph.textfile import check_readable
from plancc.text import shown


class StoredObject:
    """The pickled `state`, usually a dict, of a PyTorch Geometric object, without its class."""

    state: Any = None

    def __new__(cls, *_: Any) -> StoredObject:
        return super().__new__(cls)

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state


class StoredHetero(StoredObject):
    """A HeteroData in a file, without its class; see `StoredObject`."""


_HOME = "torch_geometric.data"
_STORED = (
    *("data.Data", "data.DataEdgeAttr", "data.DataTensorAttr", "storage.GlobalStorage"),
    *("storage.BaseStorage", "storage.NodeStorage", "storage.EdgeStorage", "storage.AttrType"),
    *("feature_store.TensorAttr", "graph_store.EdgeAttr", "graph_store.EdgeLayout"),
)


def load_torch(path: StrPath) -> Any:
    """Read a file of torch.save: tensors, arrays, containers, graphs of PyTorch Geometric."""
    check_readable(path)
    name = os.fspath(path)
    torch = library("torch", name, "plancc[run]")
    _check_sums(name)
    known: list[Any] = [(StoredObject, f"{_HOME}.{each}") for each in _STORED]
    known.append((StoredHetero, f"{_HOME}.hetero_data.HeteroData"))
    known += [(_no_default, "collections.defaultdict"), (set, "__builtin__.set"), set]
    known += [(_member, f"{module}.getattr") for module in ("__builtin__", "builtins")]
    known += _numpy_globals()
    try:
        checked = torch.sparse.check_sparse_tensor_invariants()
        with _only_these(torch.serialization, known), checked:
            held = torch.load(name, map_location="cpu", weights_only=True, mmap=_is_archive(name))
            _check_stored(held, name)
            return held
    except (InputError, MemoryError):
        raise
    except Exception as error:  # torch passes on any error of its parsers
        raise InputError(f"{name}: {_UNREADABLE}: {_why_not(str(error), name)}") from error


def _why_not(error: str, name: str) -> str:
    """Return a sentence that says why torch cannot read a file.

    Parameters:
        error: The message of torch's error.
    """
    if named := re.search(r"Unsupported (?:global: GLOBAL|class) (\S+)", error):
        kind = shown(named[1], 60)
        return f"it holds an object of '{kind}'; only tensors are read; save data.to_dict()"
    if "sorted and distinct" in error:
        told = "the columns in a row of a sparse tensor do not ascend, or are listed twice"
        return f"{told}; save tensor.to_sparse_coo().coalesce()"
    if any(kind.startswith(_start(name)) for kind in (_ZIP, _PICKLE)):
        return "it is damaged or cut off"
    return "it does not look like a file of torch.save"


_ZIP, _PICKLE = b"PK", b"\x80\x02"
"""First bytes of torch.save's files: since torch 1.6 (ZIP), and before torch 1.6 (pickle)."""


def _start(name: str) -> bytes:
    with open_file(name) as stream:
        return stream.read(2)


def _is_archive(name: str) -> bool:
    try:
        return zipfile.is_zipfile(name)
    except zipfile.BadZipFile as error:  # an archive over several disks
        raise InputError(f"{name}: {_DAMAGED}") from error


def _check_sums(name: str) -> None:
    """Raise InputError if a file in the archive does not have its stored checksum."""
    if not _is_archive(name):
        return
    try:
        with zipfile.ZipFile(name) as archive:
            claimed = sum(info.file_size for info in archive.infolist())
            check_unpacked(claimed, name, f"{name}: its content")
            wrong = archive.testzip()
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError, ValueError,
            zlib.error) as error:  # fmt: skip
        raise InputError(f"{name}: {_DAMAGED}") from error
    if wrong is not None:
        raise InputError(f"{name}: {_DAMAGED}: the checksum of '{shown(wrong, 60)}' is wrong")


_UNREADABLE = "not a file of tensors that can be read"
_DAMAGED = f"{_UNREADABLE}: it is damaged"


def _check_stored(held: Any, name: str) -> None:
    """Raise InputError for a tensor with more entries than stored numbers (strides of 0)."""
    found, seen = [held], set[int]()
    while found:
        each = found.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, StoredObject):
            found.append(each.state)
        elif isinstance(each, dict):
            found += each.values()
        elif isinstance(each, list | tuple | set):
            found += each
        elif hasattr(each, "untyped_storage"):
            if each.is_meta:
                raise InputError(f"{name}: a meta tensor of shape {tuple(each.shape)} has no data")
            for part in _stored_parts(each):
                stored = part.untyped_storage().nbytes()
                if (claimed := part.numel() * part.element_size()) > stored:
                    told = f"a tensor of shape {tuple(part.shape)} claims {claimed:,} bytes"
                    cure = f"{stored:,} are stored; save tensor.contiguous()"
                    raise InputError(f"{name}: {told}, but {cure}")


def _stored_parts(tensor: Any) -> list[Any]:
    """Return the dense tensors that a sparse tensor consists of; [tensor] for a dense tensor."""
    layout = str(tensor.layout).removeprefix("torch.")
    if layout == "sparse_coo":
        return [tensor._indices(), tensor._values()]
    if layout in ("sparse_csr", "sparse_bsr"):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if layout in ("sparse_csc", "sparse_bsc"):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    return [tensor]


def _no_default(*_: Any) -> dict[Any, Any]:
    """Return a dict instead of a defaultdict, which torch.load with ``weights_only`` cannot
    fill."""
    return OrderedDict()


def _member(kind: Any, name: Any) -> StoredObject:
    """Return an empty `StoredObject` where a pickled file calls getattr.

    Python 3.11.0 to 3.11.3 pickled members of an enum as such calls. ValueError is raised for any
    other call.
    """
    if kind is not StoredObject or not isinstance(name, str):
        raise ValueError("Unsupported class getattr")  # torch's own words for a refused class
    return StoredObject()


@contextlib.contextmanager
def _only_these(serialization: Any, known: list[Any]) -> Iterator[None]:
    """Context manager: files that torch loads may only contain objects of the classes `known`.

    Classes that other libraries have registered with torch are refused. Before torch 2.6, nothing
    changes.
    """
    if not hasattr(serialization, "get_unsafe_globals_in_checkpoint"):
        yield
        return
    others = serialization.get_safe_globals()
    serialization.clear_safe_globals()
    serialization.add_safe_globals(known)
    try:
        yield
    finally:
        serialization.clear_safe_globals()
        serialization.add_safe_globals(others)


def _numpy_globals() -> list[Any]:
    """Return the classes and functions that are needed to unpickle an array of numbers."""
    from _codecs import encode

    made: Any = np.zeros(0).__reduce__()[0]
    kinds = [type(np.dtype(code)) for code in "?bBhHiIlLqQefd"]
    names = ("numpy._core.multiarray._reconstruct", "numpy.core.multiarray._reconstruct")
    return [np.ndarray, np.dtype, encode, *kinds, *((made, each) for each in names)]
