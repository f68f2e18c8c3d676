"""Open an untrusted HDF5 file, and check its links, storage, filters and types before use.

Every call of HDF5 is inside a `Container.reading` block, which turns errors on damaged files into
PlanError.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

import h5py

from plancc.errors import InputError, PlanccError, PlanError
from plancc.files import check_input, open_file
from plancc.plan.format import MAJOR, OLDEST, FileDataset

FILTERS = {h5py.h5z.FILTER_DEFLATE: "deflate", h5py.h5z.FILTER_SHUFFLE: "shuffle"}
HDF5_ERROR = re.compile(r"^['\"]?(Can't|Unable to|Error iterating|Couldn't|Invalid location)")
"""How h5py's messages begin if the error comes from HDF5."""
MAX_DEFLATION = 1100
"""Bound on a compression ratio, above deflate's highest ratio of 1032. A dataset with a higher
ratio is not stored completely.
"""

SIGNATURE = b"\x89HDF\r\n\x1a\n"
WITH_CHECKSUMS = 3
"""First version of the HDF5 superblock in which all structures of a file have checksums."""

KINDS = {h5py.Group: h5py.h5o.TYPE_GROUP, h5py.Dataset: h5py.h5o.TYPE_DATASET}


class Container:
    """An HDF5 file that is open for reading. The file is not locked.

    Attributes:
        file (h5py.File): The open file.
        size (int): Size of the file in bytes.

    Raises:
        InputError: If the file is not readable, or has the name of a graph or of a part vector.
        PlanError: If the file is no HDF5 file, or has no checksums. Without checksums, HDF5 may
            loop on damaged data.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._groups: set[str] = set()  # groups that `is_there` has found and checked
        check_input(path)
        try:
            if not has_checksums(path):
                raise self.error(
                    f"is not a plan, or is one before format {MAJOR}.{OLDEST} (an HDF5 file "
                    "without checksums): if it is one, compile the graph again"
                )
            self.size = os.path.getsize(path)
            self.file = _open(path)
        except PermissionError as error:
            raise InputError(f"{self.path}: cannot be read (permission denied)") from error
        except OSError as error:
            if kind := _other_kind(path, error):
                raise InputError(f"{self.path}: is not a plan{kind}") from error
            raise self.error(_not_opened(path, error)) from error

    def close(self) -> None:
        self.file.close()

    def error(self, problem: str) -> PlanError:
        """Return a PlanError whose message is the path of this file, followed by `problem`."""
        return PlanError(f"{self.path}: {problem}")

    @contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """Turn every error of h5py inside the block into a PlanError that calls `what` damaged."""
        try:
            yield
        except PlanccError:
            raise
        except Exception as error:
            raise self.error(f"{what} is damaged: {_reason(error)}") from error

    def is_there(self, name: str, kind: type) -> bool:
        """Return whether the file has a group or dataset (`kind`) called `name`.

        PlanError is raised for other kinds of object, and for soft or external links, which may
        lead out of the file.
        """
        steps = name.split("/")
        for depth in range(1, len(steps) + 1):
            at, wanted = "/".join(steps[:depth]), kind if depth == len(steps) else h5py.Group
            if wanted is h5py.Group and at in self._groups:
                continue
            file, link = self.file.id, at.encode()
            if not file.links.exists(link):
                return False
            if file.links.get_info(link).type != h5py.h5l.TYPE_HARD:
                raise self.error(f"/{at} is a soft or external link")
            if h5py.h5o.get_info(file, link).type != KINDS[wanted]:
                raise self.error(f"/{at} is not a {wanted.__name__.lower()}")
            if wanted is h5py.Group:
                self._groups.add(at)
        return True

    def dataset(self, name: str) -> h5py.Dataset:
        """Return the dataset `name`; raise PlanError if it is missing."""
        if not self.is_there(name, h5py.Dataset):
            raise self.error(f"/{name} is missing")
        return h5py.Dataset(h5py.h5d.open(self.file.id, name.encode()))

    def checked(self, name: str, expected: FileDataset) -> h5py.Dataset:
        """Return the dataset `name`, without a check of its size.

        PlanError is raised if it is missing, stored in another file, or has an unknown filter or
        wrong dtype.
        """
        dataset = self.dataset(name)
        creation = dataset.id.get_create_plist()
        if creation.get_layout() == h5py.h5d.VIRTUAL or creation.get_external_count():
            raise self.error(f"/{name} keeps its data outside the file")
        filters = [creation.get_filter(k)[0] for k in range(creation.get_nfilters())]
        for code in set(filters) - set(FILTERS):
            allowed = ", ".join(FILTERS.values())
            raise self.error(f"/{name} uses HDF5 filter {code}; allowed are {allowed}")
        kind = dataset.dtype.str
        if ("|S" if kind.startswith("|S") else kind) not in expected.dtypes:
            raise self.error(
                f"/{name} has type {dataset.dtype.str}, not {' or '.join(expected.dtypes)}"
            )
        return dataset

    def check_stored(self, name: str, dataset: h5py.Dataset) -> None:
        """Raise PlanError if the file holds fewer bytes of the dataset than its shape requires."""
        creation = dataset.id.get_create_plist()
        filters = [creation.get_filter(k)[0] for k in range(creation.get_nfilters())]
        deflation = MAX_DEFLATION if h5py.h5z.FILTER_DEFLATE in filters else 1
        stored = min(dataset.id.get_storage_size(), self.size)
        if dataset.nbytes > deflation * stored:
            raise self.error(f"/{name} is not completely stored in the file")


def has_checksums(path: str) -> bool:
    """Return whether it is safe to open a file with HDF5: it has checksums, or is no HDF5 file.

    Without checksums, which older libraries do not write, a damaged byte can make HDF5 loop
    forever.
    """
    at = 0  # where the superblock may begin: at 0, or after a block that another program wrote
    with open_file(path) as stream:
        while start := stream.read(len(SIGNATURE) + 1):
            if start[:-1] == SIGNATURE:
                return start[-1] >= WITH_CHECKSUMS
            at = max(512, 2 * at)
            stream.seek(at)
    return True


def _open(path: str) -> h5py.File:
    """Open a file for reading without a lock.

    If this process has the file open with a lock already, HDF5 refuses to open the file without
    one. Then a lock is used.
    """
    try:
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        if "locking flag" not in str(error):
            raise
        return h5py.File(path, "r")


def _not_opened(path: str, error: OSError) -> str:
    """Return the reason, in words for users, why HDF5 could not open a file."""
    text = str(error)
    if "signature not found" in text:
        kind = "it is not an HDF5 file" if os.path.getsize(path) else "the file is empty"
        return f"is not a plan: {kind}"
    if cut := re.search(r"truncated file: eof = (\d+),.* stored_eof = (\d+)", text):
        return f"the plan is cut off: {int(cut[1]):,} of {int(cut[2]):,} bytes are present"
    return lock_advice(error) or f"is not a plan: {_reason(error)}"


def lock_advice(error: Exception) -> str:
    """Return advice for users if `error` says that HDF5 cannot lock a file; otherwise ""."""
    if "unable to lock file" not in str(error):
        return ""
    variable = "HDF5_USE_FILE_LOCKING"
    return (
        f"its file system has no locks, but {variable}={os.environ.get(variable, '')} asks for "
        f"locks; unset {variable}, since plancc needs no locks"
    )


def _other_kind(path: str, error: OSError) -> str:
    """Return a phrase if the file has the name of a part vector or of a graph; "" otherwise."""
    if "signature not found" not in str(error) or not os.path.getsize(path):
        return ""
    if re.search(r"\.part(\.\d+)?$", path):
        return " but a part vector; compile it with model file"
    from plancc.graph.formats import find_format

    try:
        find_format(path)
    except InputError:
        return ""
    return " but a graph; compile it first"


def _reason(error: BaseException) -> str:
    """Return a short reason why reading has failed, with plain words for HDF5's messages."""
    text = " ".join(str(error).split()) or type(error).__name__
    if "checksum" in text or "filter returned failure" in text:
        return "its checksum does not match"
    hdf5 = isinstance(error, OSError | RuntimeError | KeyError | ValueError)
    if hdf5 and "errno" not in text and HDF5_ERROR.search(text):
        return "its parts in the HDF5 file do not fit together"
    return text[text.rfind("(") + 1 :].rstrip(")") if "(" in text else text
