"""Strings, digests and content hash of plan files, from docs/reference/plan-format.md alone.

Shares no code with the writer. `seal` makes a changed file whole again, as a writer would that
means what it wrote; so tests reach the checks that come after the digests.
"""

import hashlib
from itertools import pairwise

import h5py
import numpy as np
from blake3 import blake3

HOPS = [f"{step}_{hop}" for step in ("expand", "fold") for hop in ("collect", "cross", "spread")]
GROUPS = ("rows", "matrix", "expand", "fold", "vertex_data", *HOPS)


def text(value):
    """A string as an attribute of fixed length."""
    return np.bytes_(value.encode())


def attributes(node) -> dict:
    """The attributes of the file or a group, strings as `str`."""
    return {
        name: value.decode() if isinstance(value, bytes) else value
        for name, value in node.attrs.items()
    }


def note(node, **values) -> None:
    """Set attributes of the file or of a group, and its digest; strings have a fixed length."""
    for name, value in values.items():
        if isinstance(value, str):
            length = max(1, len(value.encode()))
            kind = h5py.string_dtype("utf-8", length)
            node.attrs.create(name, np.bytes_(value.encode()), dtype=kind)
        else:
            node.attrs[name] = value
    digest = f"digests{node.name}"
    if digest in node.file and isinstance(node.file[digest], h5py.Dataset):
        node.file[digest][...] = attributes_digest(node)


def datasets(file) -> dict[str, np.ndarray]:
    """The datasets of the five groups by name; of an open file."""
    found = {}
    for group in GROUPS:
        for name in file.get(group, ()):
            if isinstance(file[group][name], h5py.Dataset):
                found[f"{group}/{name}"] = file[group][name][()]
    return found


def at(offsets, places):
    return offsets[np.clip(places, 0, len(offsets) - 1)]


def leaves_of(arrays) -> dict[str, np.ndarray]:
    """The plan format, "Digests"; offsets of damaged plans are clipped to the arrays."""
    part_ptr = arrays["rows/part_ptr"]
    local = part_ptr
    if "fold/send_ptr" in arrays:
        local = part_ptr + at(arrays["fold/send_row_ptr"], arrays["fold/send_ptr"])
    starts = {
        "matrix/row_ptr": local,
        "matrix/column": at(arrays["matrix/row_ptr"], local),
        "matrix/value": at(arrays["matrix/row_ptr"], local),
        "matrix/edge_features": at(arrays["matrix/row_ptr"], local),
        "rows/global_id": part_ptr,
        "rows/original_id": part_ptr,
    }
    for step in ("expand", "fold", *HOPS):
        for table in (f"{step}/send", f"{step}/recv"):
            if f"{table}_ptr" in arrays:
                ptr = arrays[f"{table}_ptr"]
                starts[f"{table}_peer"] = starts[f"{table}_row_ptr"] = ptr
                starts[f"{table}_row"] = at(arrays[f"{table}_row_ptr"], ptr)
    found = {}
    for name, array in arrays.items():
        little = array.astype(array.dtype.newbyteorder("<"))
        places = starts.get(name, part_ptr if name.startswith("vertex_data/") else None)
        if "_of_" in name and "rows/type_ptr" in arrays:
            places = arrays["rows/type_ptr"][
                int(name.partition("_of_")[2]) % len(arrays["rows/type_ptr"])
            ]
        if places is None:
            slices = [little]
        else:
            places = np.clip(places, 0, len(little))
            more = name.endswith("row_ptr")
            slices = [little[a : max(a, b + more)] for a, b in pairwise(places)]
        digests = [blake3(part.tobytes(order="C")).digest() for part in slices]
        found[name] = np.frombuffer(b"".join(digests), np.uint8).reshape(-1, 32)
    return found


def content_hash(path) -> str:
    """docs/reference/plan-format.md, "Content hash"."""
    lines = []
    with h5py.File(path, "r") as file:
        arrays = datasets(file)
        for name, value in attributes(file).items():
            if name not in ("format", "format_version", "content_sha256"):
                lines.append(f"{name}={value}")
    lines.sort()
    for name, leaves in sorted(leaves_of(arrays).items()):
        array = arrays[name]
        digest = blake3(leaves.tobytes()).hexdigest()
        dtype = array.dtype.newbyteorder("<").str
        lines.append(f"{name} {dtype} {'x'.join(map(str, array.shape))} {digest}")
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()


def attributes_digest(group) -> np.ndarray:
    """docs/reference/plan-format.md, "Digests": of the attributes of a group, or of none."""
    lines = []
    for name in group.attrs if group is not None else ():
        where = group.attrs.get_id(name)
        if where.dtype.hasobject:
            continue  # no reader comes to its digest
        shape, value = "empty", b""
        if where.shape is not None:
            shape = "x".join(map(str, where.shape)) or "scalar"
            value = np.array(group.attrs[name], where.dtype).tobytes()
        lines.append(f"{name} {where.dtype.str} {shape} {value.hex()}\n")
    digest = blake3("".join(sorted(lines)).encode()).digest()
    return np.frombuffer(digest, np.uint8).reshape(1, 32)


def seal(path) -> None:
    """Give a file that was changed the digests and the content hash of what is in it now."""
    with h5py.File(path, "r+") as file:
        if "digests" in file:
            del file["digests"]
        for name, leaves in leaves_of(datasets(file)).items():
            file[f"digests/{name}"] = leaves
        for group in ("metrics", "provenance"):
            file[f"digests/{group}"] = attributes_digest(file.get(group))
    digest = content_hash(path)
    with h5py.File(path, "r+") as file:
        file.attrs["content_sha256"] = text(digest)
