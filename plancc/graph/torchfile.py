"""Files of torch.save, read by torch.load with ``weights_only``: tensors, numpy arrays and plain
containers, no code of the file's choice. Objects of PyTorch Geometric become `Stored`, which holds
their state, so that neither that library nor its code is needed.
"""

from __future__ import annotations

import contextlib
import os
import re
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import numpy as np

from plancc.errors import InputError
from plancc.graph.optional import library
from plancc.graph.textfile import StrPath, check_readable


class Stored:
    """An object of PyTorch Geometric in a file: its `state`, and nothing of its code."""

    state: Any = None

    def __new__(cls, *_: Any) -> Stored:
        return super().__new__(cls)

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state


class StoredHetero(Stored):
    """A HeteroData in a file."""


_HOME = "torch_geometric.data"
_STORED = (
    *("data.Data", "data.DataEdgeAttr", "data.DataTensorAttr", "storage.GlobalStorage"),
    *("storage.BaseStorage", "storage.NodeStorage", "storage.EdgeStorage", "storage.AttrType"),
    *("feature_store.TensorAttr", "graph_store.EdgeAttr", "graph_store.EdgeLayout"),
)


def load_torch(path: StrPath) -> Any:
    """What torch.save wrote into a file.

    Raises
    ------
    InputError
        For a damaged file, or one that holds anything but tensors, arrays, containers and what
        PyTorch Geometric stores a graph in.
    BackendUnavailable
        Without torch.
    """
    check_readable(path)
    name = os.fspath(path)
    torch = library("torch", name, "plancc[run]")
    known: list[Any] = [(Stored, f"{_HOME}.{each}") for each in _STORED]
    known.append((StoredHetero, f"{_HOME}.hetero_data.HeteroData"))
    known += [(_no_default, "collections.defaultdict"), (set, "__builtin__.set"), set]
    known += _numpy_globals()
    try:
        with _only_these(torch.serialization, known):
            return torch.load(
                name, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(name)
            )
    except MemoryError:
        raise
    except Exception as error:  # torch raises what its parsers raise
        words = " ".join(str(error).split())
        words = words.partition("WeightsUnpickler error: ")[2] or words
        named = re.search(r"Unsupported (?:global: GLOBAL|class) (\S+)", words)
        unsafe = named[1] if named else ""
        if unsafe:
            words = (
                f"it holds an object of '{unsafe[:60]}'; only tensors are read: save data.to_dict()"
            )
        raise InputError(
            f"{name}: not a file of tensors that can be read: {words[:200]}"
        ) from error


def _no_default(*_: Any) -> dict[Any, Any]:
    """What stands in for a defaultdict, which weights_only cannot fill."""
    return OrderedDict()


@contextlib.contextmanager
def _only_these(serialization: Any, known: list[Any]) -> Iterator[None]:
    """Let files name these and nothing that other libraries have registered (torch >= 2.6)."""
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
    """What a pickled array of numbers consists of."""
    from _codecs import encode

    made: Any = np.zeros(0).__reduce__()[0]
    kinds = [type(np.dtype(code)) for code in "?bBhHiIlLqQefd"]
    names = ("numpy._core.multiarray._reconstruct", "numpy.core.multiarray._reconstruct")
    return [np.ndarray, np.dtype, encode, *kinds, *((made, each) for each in names)]
