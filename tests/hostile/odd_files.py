"""Files that are whole and yet odd: arrays of other types and orders, archives with a name twice,
tables with nulls, pickles that would run."""

import io
import os
import pickle
import tempfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from .damage import damaged

TRACE = "was-executed"
"""A folder that there is after a pickle was executed."""
BIG = (0, 1, -1, 2, 34, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1, -(2**63))


class Evil:
    """A value that does something when it is unpickled."""

    def __reduce__(self) -> Any:
        return os.mkdir, (TRACE,)


def evil_files() -> dict[str, bytes]:
    """Files that hold code, by names of what reads them."""
    held = np.array([Evil(), None], dtype=object)
    made = {"code.npz": npz(indptr=held, indices=held, data=held, shape=held, format=held)}
    made["code.data.npz"] = npz(features=held, labels=held)
    made["code.data.npy"] = npy(held, True)
    for protocol in range(6):
        made[f"code{protocol}.pt"] = pickle.dumps({"edge_index": Evil()}, protocol)
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("archive/data.pkl", pickle.dumps(Evil(), 2))
        archive.writestr("archive/version", "3\n")
        archive.writestr("archive/byteorder", "little")
    made["code.pt"] = stream.getvalue()
    return made


def npy(array: Any, objects: bool = False) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=objects)
    return stream.getvalue()


def npz(**arrays: Any) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=True, **arrays)
    return stream.getvalue()


TYPES = (
    *("<i4", ">i4", "<i8", ">i8", "<u8", "<u2", "i1", "<f2", "<f4", ">f8", "<f8", "<g", "<c16"),
    *("?", "S3", "U3", "O", "M8[D]", "m8[s]", "V8", [("a", "<i4"), ("b", "<f8")], "<U0", "S0"),
)


def odd_array(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """The array of a .npy in another type, order or shape, or with another number in it."""
    array: Any = np.atleast_1d(np.load(io.BytesIO(content)))
    kind = rng.integers(10)
    with np.errstate(all="ignore"):
        if kind < 3:
            dtype = np.dtype(TYPES[rng.integers(len(TYPES))])
            try:
                array = array.astype(dtype)
            except (TypeError, ValueError):
                array = np.zeros(array.shape, dtype)
            how = f"as {dtype}"
            if dtype.kind == "O" and rng.random() < 0.5 and array.size:
                array.flat[0], how = Evil(), "objects that run"
        elif kind == 3:
            array, how = np.asfortranarray(array), "in Fortran's order"
        elif kind == 4:
            shape = [(-1, 1), (1, -1), (1, 1, -1), (-1,)][rng.integers(4)]
            array, how = array.reshape(shape), f"of shape {shape}"
        elif kind == 5:
            array, how = np.stack([array] * 3, axis=-1), "with three columns"
        elif kind == 6:
            array, how = array[:0], "of no length"
        elif kind == 7:
            array, how = array.reshape(-1)[:1].reshape(()), "of no dimension"
        elif kind == 8 and array.size and array.dtype.kind in "iuf":
            value = [np.nan, np.inf, -np.inf, 1e308, 0.5, -0.0, 5e-324][rng.integers(7)]
            array, how = array.astype(np.float64), f"holds {value}"
            array.flat[rng.integers(array.size)] = value
        elif array.size and array.dtype.kind in "iuf":
            number = BIG[rng.integers(len(BIG))]
            if array.dtype.kind in "iu":
                array = array.astype(np.int64)
            array.flat[rng.integers(array.size)], how = number, f"holds {number}"
        else:
            array, how = np.concatenate([array.reshape(-1)] * 2), "twice as long"
    return npy(array, True), how


def odd_archive(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """An archive of zip that a program could have written, and hardly any does."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    at = int(rng.integers(len(members)))
    name, data = members[at]
    kind = rng.integers(6)
    packed, before, after = zipfile.ZIP_STORED, b"", b""
    if kind == 0:
        other = members[rng.integers(len(members))][1]
        members.insert(int(rng.integers(len(members) + 1)), (name, other))
        how = f"{name} twice"
    elif kind == 1:
        names = (
            *(f"../{name}", f"/{name}", name.upper(), f"./{name}", f"{name}/", f"a\x1b[31m{name}"),
            *(name.removesuffix(".npy"), "a" * 3000 + name, f"é{name}", f"{name} ", f"a\\{name}"),
        )
        members[at] = (names[rng.integers(len(names))], data)
        how = f"{name} is named {members[at][0][:20]!a}"
    elif kind == 2:
        packed = int(rng.choice([zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA]))
        how = f"packed by {packed}"
    elif kind == 3:
        before = rng.integers(256, size=int(rng.integers(1, 100))).astype(np.uint8).tobytes()
        how = "bytes before it"
    elif kind == 4:
        after = rng.integers(256, size=int(rng.integers(1, 100))).astype(np.uint8).tobytes()
        how = "bytes after it"
    else:
        members += [(f"more-{k}.npy", npy(np.zeros(1))) for k in range(int(rng.choice([1, 3000])))]
        how = f"{len(members)} members"
    stream = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(stream, "w", packed) as archive:
        warnings.simplefilter("ignore")  # of a name that is there twice
        for each, held in members:
            archive.writestr(each, held)
    found = bytearray(stream.getvalue())
    if kind == 2 and rng.random() < 0.3:  # and said to be encrypted
        for mark, offset in ((b"PK\x01\x02", 8), (b"PK\x03\x04", 6)):
            found[found.index(mark) + offset] |= 1
        how += ", encrypted"
    return before + bytes(found) + after, how


def damaged_member(content: bytes, rng: np.random.Generator) -> tuple[bytes, str]:
    """An archive with one member damaged, whose checksum is right."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = sorted(members)[rng.integers(len(members))]
    kind = rng.integers(6)
    if kind in (0, 4, 5) and name.endswith(".npy"):
        members[name], how = odd_array(members[name], rng)
        how = f"{name} {how}"
    elif kind == 1:
        del members[name]
        how = f"without {name}"
    elif kind == 2:
        other = sorted(members)[rng.integers(len(members))]
        members[name], members[other] = members[other], members[name]
        how = f"{name} and {other} the other way round"
    else:
        members[name], how = damaged(members[name].ljust(8, b"\0"), rng)
        how = f"{name}: {how}"
    stream = io.BytesIO()
    packed = zipfile.ZIP_DEFLATED if rng.random() < 0.3 else zipfile.ZIP_STORED
    with zipfile.ZipFile(stream, "w", packed) as archive:
        for each, data in members.items():
            archive.writestr(each, data)
    return stream.getvalue(), how


def odd_table(rng: np.random.Generator) -> tuple[bytes, str]:
    """A Parquet table of edges or of vertices with columns of any type."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = int(rng.choice([0, 1, 6, 6, 6, 6, 50]))
    arrays, names, how = [], [], []
    small = rng.integers(6, size=rows)
    makers = {
        "int64": lambda: pa.array(small, pa.int64()),
        "int8": lambda: pa.array(small, pa.int8()),
        "uint64": lambda: pa.array(small.astype(np.uint64) + np.uint64(2**63), pa.uint64()),
        "float": lambda: pa.array(small + 0.5),
        "whole float": lambda: pa.array(small.astype(float)),
        "NaN": lambda: pa.array(np.where(small == 1, np.nan, small.astype(float))),
        "infinite": lambda: pa.array(np.where(small == 1, np.inf, small.astype(float))),
        "half": lambda: pa.array(small.astype(np.float16)),
        "some null": lambda: pa.array([None if v == 1 else int(v) for v in small], pa.int64()),
        "all null": lambda: pa.nulls(rows),
        "null int64": lambda: pa.nulls(rows, pa.int64()),
        "negative": lambda: pa.array(-small, pa.int64()),
        "large": lambda: pa.array(small + 2**62, pa.int64()),
        "text": lambda: pa.array([f"v{v}" for v in small]),
        "digits": lambda: pa.array([str(v) for v in small]),
        "bytes": lambda: pa.array([b"\xff\x00" for _ in small], pa.binary()),
        "dictionary": lambda: pa.array([f"v{v}" for v in small]).dictionary_encode(),
        "truth": lambda: pa.array(small > 2),
        "list": lambda: pa.array([[int(v)] * int(v) for v in small], pa.list_(pa.int64())),
        "struct": lambda: pa.array([{"a": int(v)} for v in small], pa.struct([("a", pa.int64())])),
        "time": lambda: pa.array(small, pa.timestamp("ns")),
        "decimal": lambda: pa.array([int(v) for v in small], pa.decimal128(10, 2)),
        "duration": lambda: pa.array(small, pa.duration("s")),
    }
    known = ("src", "dst", "source", "target", "u", "v", "weight", "w", "id", "label", "x")
    known += ("f0", "y", "")
    for _ in range(rng.choice([1, 2, 2, 3, 3, 4, 8])):
        name = str(rng.choice([*known[:2], *known, "\x1b[31m", "a" * 3000]))
        what = str(rng.choice(["int64", "int64", *makers]))
        arrays.append(makers[what]())
        names.append(name)
        how.append(f"{name[:10]!a} {what}")
    table = pa.Table.from_arrays(arrays, names)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.parquet"
        parquet.write_table(
            *(table, path),
            row_group_size=int(rng.choice([1, 3, 1000])),
            compression=str(rng.choice(["none", "snappy", "gzip", "zstd"])),
            data_page_version=str(rng.choice(["1.0", "2.0"])),
        )
        return path.read_bytes(), ", ".join(how)
