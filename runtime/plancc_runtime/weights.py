"""Weights as ``.npz`` files; one array per parameter, named as in the network."""

from __future__ import annotations

from os import PathLike, fspath

import numpy as np

from plancc.errors import InputError


def read_weights(
    path: str | PathLike[str], shapes: dict[str, tuple[int, ...]]
) -> dict[str, np.ndarray]:
    """The parameters of these names and shapes from an ``.npz``; not collective.

    Raises
    ------
    InputError
        If the file cannot be read, or an array is missing, of another shape, or not finite.
    """
    name = fspath(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except Exception as error:  # a .npy, a torn archive: numpy, zipfile, zlib raise what they like
        raise InputError(f"{name}: cannot be read as .npz, the format of saved weights") from error
    for key, shape in shapes.items():
        if key not in arrays:
            raise InputError(f"{name}: has no array {key}; the model has {', '.join(shapes)}")
        weight = arrays[key]
        if weight.shape != shape:
            raise InputError(f"{name}: {key} has shape {weight.shape}, the model needs {shape}")
        if weight.dtype.kind not in "fiu" or not np.isfinite(weight).all():
            raise InputError(f"{name}: {key} must hold finite numbers")
    return {key: arrays[key] for key in shapes}


def save_weights(path: str | PathLike[str], weights: dict[str, np.ndarray]) -> None:
    """Write all parameters as ``.npz``, whole or not at all; for one rank to call.

    Raises
    ------
    OutputError
        If the file cannot be written.
    """
    from plancc.files import atomic_write

    with atomic_write(path) as temporary, open(temporary, "wb") as file:
        np.savez(file, **weights)  # type: ignore[arg-type]
