"""Plan to HDF5. Knows the format's nodes and nothing of how a plan was made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from os import PathLike
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from plancc.cost.metrics import summarize, traffic
from plancc.errors import OutputError
from plancc.files import atomic_write
from plancc.plan.format import FORMAT, FORMAT_VERSION, HEADER_TYPES, arrays_of, content_sha256
from plancc.plan.plan import Plan

CHUNK_BYTES = 1 << 19


def write_plan(plan: Plan, path: str | PathLike[str], *, compress: bool = False) -> str:
    """Write a plan file: complete under its final name, or not at all.

    Parameters
    ----------
    plan : Plan
    path : path of the new file; an existing file is replaced
    compress : bool
        Deflate the datasets (smaller and slower; every HDF5 library reads it).

    Returns
    -------
    str
        The content hash, as stored.

    Raises
    ------
    OutputError
        If the folder is missing or not writable, or the disk fills.
    """
    arrays = arrays_of(plan)
    with atomic_write(path) as temporary, ThreadPoolExecutor(1) as pool:
        hashed = pool.submit(content_sha256, plan.header, arrays)
        try:
            with h5py.File(temporary, "w", libver=("v108", "v110"), locking=False) as file:
                file.attrs["format"] = FORMAT
                file.attrs["format_version"] = FORMAT_VERSION
                for name, kind in HEADER_TYPES.items():
                    value = getattr(plan.header, name)
                    file.attrs[name] = value if kind is str else np.int64(value)
                _write_attributes(file, "provenance", plan.provenance)
                figures = summarize(traffic(plan)).as_dict()
                if plan.baseline is not None:
                    random = plan.baseline.as_dict()
                    figures |= {f"random_{name}": value for name, value in random.items()}
                _write_attributes(file, "metrics", figures)
                for name, array in arrays.items():
                    _write_array(file, name, array, compress)
                file.attrs["content_sha256"] = digest = hashed.result()
        except RuntimeError as error:  # what HDF5 raises when it fails to flush or close
            raise OutputError(f"{path}: cannot write the plan: {error}") from error
    return digest


def _write_attributes(file: h5py.File, group: str, values: dict[str, Any]) -> None:
    attributes = file.create_group(group).attrs
    for name, value in values.items():
        if isinstance(value, bool | int):
            value = np.int64(value)
        attributes[name] = value


def _write_array(
    file: h5py.File, name: str, array: npt.NDArray[np.generic], compress: bool
) -> None:
    if array.size == 0:  # HDF5 has no chunks of nothing
        file.create_dataset(name, data=array, track_times=False)
        return
    row_bytes = max(1, array.nbytes // len(array))
    chunk_rows = min(len(array), max(1, CHUNK_BYTES // row_bytes))
    file.create_dataset(
        name,
        data=array,
        chunks=(chunk_rows, *array.shape[1:]),
        shuffle=True,
        fletcher32=True,
        compression="gzip" if compress else None,
        compression_opts=4 if compress else None,
        track_times=False,
    )
