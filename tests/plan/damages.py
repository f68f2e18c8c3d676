"""What may be wrong with a dataset of a plan's file, and the words that refuse it."""

import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import sealing

from plancc.plan.format import DATASETS, MAJOR, MINOR

VERSION, HIGHER = f"{MAJOR}.{MINOR}", f"{MAJOR}.{MINOR + 1}"
WRONG_TYPES = [">i4", "<i2", "<u8", "<f2", ">f4", "S8", "bool", "c8", "i4,f4"]


def opened(path) -> h5py.File:
    """A file to be changed: it stays in the container that plans must have."""
    return h5py.File(path, "r+", libver=("v110", "v110"))


def replaced(file, name, **how):
    """Store a dataset again with other data, storage, type or shape."""
    how.setdefault("data", file[name][()])
    del file[name]
    file.create_dataset(name, **how)


def missing(file, name):
    del file[name]


def soft_link(file, name):
    file.move(name, "hidden")
    file[name] = h5py.SoftLink("/hidden")
    file.attrs["format_version"] = sealing.text(HIGHER)  # so that only the link is wrong


def external_link(file, name):
    del file[name]
    file[name] = h5py.ExternalLink("real.h5", f"/{name}")


def external_link_of_a_higher_version(file, name):
    external_link(file, name)
    file.attrs["format_version"] = sealing.text(HIGHER)


def external_storage(file, name):
    raw, array = Path(file.filename).with_name("raw"), file[name][()]
    array.tofile(raw)
    replaced(file, name, external=[(str(raw), 0, array.nbytes)])


def virtual(file, name):
    layout = h5py.VirtualLayout(file[name].shape, file[name].dtype)
    layout[...] = h5py.VirtualSource("real.h5", name, file[name].shape)
    del file[name]
    file.create_virtual_dataset(name, layout)


def scale_offset(file, name):
    whole = file[name].dtype.kind in "iu"
    replaced(file, name, chunks=True, **({"scaleoffset": 4} if whole else {"compression": "lzf"}))


def hollow(file, name):
    shape, dtype = file[name].shape, file[name].dtype
    del file[name]
    file.create_dataset(name, shape, dtype)


def group(file, name):
    del file[name]
    file.create_group(name)


def of_type(dtype):
    def change(file, name):
        other = ">i2" if dtype in DATASETS[name].dtypes else dtype
        replaced(file, name, data=np.zeros(file[name].shape, other))

    return change


def of_shape(make: Callable):
    """Other data; the content hash is none's, as a vector's other length may be its table's own."""

    def change(file, name):
        replaced(file, name, data=make(file[name][()]))
        if file.attrs["format"] == b"plancc-plan":
            file.attrs["content_sha256"] = sealing.text("0" * 64)

    return change


LINK = "/{name} is a soft or external link"
OUTSIDE = "/{name} keeps its data outside the file"
FILTER = "/{name} uses HDF5 filter"
SHAPES = {
    "shorter": lambda array: array[:-1],
    "longer": lambda array: np.concatenate([array] * 2),
    "another dimension": lambda array: array[..., None],
    "a number": lambda array: array.reshape(-1)[0],
}

DAMAGES = {
    "missing": (missing, "/{name} is missing"),
    "soft link": (soft_link, LINK),
    "external link": (external_link, LINK),
    "external link, higher version": (external_link_of_a_higher_version, LINK),
    "external storage": (external_storage, OUTSIDE),
    "virtual": (virtual, OUTSIDE),
    "lzf": (lambda file, name: replaced(file, name, chunks=True, compression="lzf"), FILTER),
    "scale offset": (scale_offset, FILTER),
    "hollow": (hollow, "/{name} is not completely stored in the file"),
    "group": (group, "/{name} is not a dataset"),
    **{dtype: (of_type(dtype), "/{name} has type") for dtype in WRONG_TYPES},
    **{kind: (of_shape(make), "/{table}") for kind, make in SHAPES.items()},
}
"""(change of an open file and the name of a dataset, words)"""


def damage(path, name, kind) -> str:
    """Do this to a dataset of a file, of which a whole copy is beside it; return the words."""
    change, words = DAMAGES[kind]
    shutil.copy(path, path.with_name("real.h5"))
    with opened(path) as file:
        change(file, name)
    step = name.partition("/")[0]  # sizes of its other tables may be what does not fit
    table = {"expand": "expand", "fold": ""}.get(step, f"{name} ")
    return words.format(name=name, table=table)
