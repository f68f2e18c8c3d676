"""An HDF5 file that is not trusted: links, storage, filters and types are checked before use.

Every call of HDF5 stands in a `Container.reading` block: all errors of HDF5 on a damaged file
become PlanErrors.
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

FILTERS = {
    h5py.h5z.FILTER_DEFLATE: "deflate",
    h5py.h5z.FILTER_SHUFFLE: "shuffle",
}
OF_HDF5 = re.compile(r"^['\"]?(Can't|Unable to|Error iterating|Couldn't|Invalid location)")
"""How the sentences begin that h5py makes of HDF5's."""
MAX_DEFLATION = 1100
"""Upper bound of the ratio of deflate, 1032: a dataset that claims more is not in the file."""

SIGNATURE = b"\x89HDF\r\n\x1a\n"
WITH_CHECKSUMS = 3
"""First version of HDF5's superblock whose files have checksums in all of their structures."""

KINDS = {h5py.Group: h5py.h5o.TYPE_GROUP, h5py.Dataset: h5py.h5o.TYPE_DATASET}


class Container:
    """A file, open for reading without locks.

    Attributes:
        file: h5py.File.
        size (int): Bytes.

    Raises:
        InputError: If there is no such file, it may not be read, or is another one by its name.
        PlanError: If it is not an HDF5 file, or has no checksums: HDF5 may read it for ever.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._groups: set[str] = set()  # found in the file itself
        check_input(path)
        try:
            if not has_checksums(path):
                raise self.error(
                    f"not a plan, or one before format {MAJOR}.{OLDEST} (an HDF5 file without "
                    "checksums): if it is one, compile the graph again"
                )
            self.size = os.path.getsize(path)
            self.file = _open(path)
        except PermissionError as error:
            raise InputError(f"{self.path}: not readable (permission denied)") from error
        except OSError as error:
            if kind := _other_kind(path, error):
                raise InputError(f"{self.path}: not a plan{kind}") from error
            raise self.error(_not_opened(path, error)) from error

    def close(self) -> None:
        self.file.close()

    def error(self, problem: str) -> PlanError:
        """The error that says so of this file."""
        return PlanError(f"{self.path}: {problem}")

    @contextmanager
    def reading(self, what: str) -> Iterator[None]:
        """Turn every error of h5py into a PlanError that names `what`."""
        try:
            yield
        except PlanccError:
            raise
        except Exception as error:
            raise self.error(f"{what} is damaged: {_reason(error)}") from error

    def is_there(self, name: str, kind: type) -> bool:
        """Whether `name` exists; refuses links on the way to it, which may lead out of the file."""
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
        """A dataset that is there."""
        if not self.is_there(name, h5py.Dataset):
            raise self.error(f"/{name} is missing")
        return h5py.Dataset(h5py.h5d.open(self.file.id, name.encode()))

    def checked(self, name: str, expected: FileDataset) -> h5py.Dataset:
        """A dataset of an expected type, whose data are in the file; of any size."""
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
        """PlanError unless the file has as many bytes as a dataset claims."""
        creation = dataset.id.get_create_plist()
        filters = [creation.get_filter(k)[0] for k in range(creation.get_nfilters())]
        deflation = MAX_DEFLATION if h5py.h5z.FILTER_DEFLATE in filters else 1
        stored = min(dataset.id.get_storage_size(), self.size)
        if dataset.nbytes > deflation * stored:
            raise self.error(f"/{name} is not completely stored in the file")


def has_checksums(path: str) -> bool:
    """Whether HDF5 may open a file: all structures have checksums, or it is not an HDF5 file.

    A damaged byte in other files, which older libraries write, can keep HDF5 busy for ever.
    """
    at = 0  # the superblock stands here, or after a block of another program
    with open_file(path) as stream:
        while start := stream.read(len(SIGNATURE) + 1):
            if start[:-1] == SIGNATURE:
                return start[-1] >= WITH_CHECKSUMS
            at = max(512, 2 * at)
            stream.seek(at)
    return True


def _open(path: str) -> h5py.File:
    """The file without a lock, unless this process has it open with one."""
    try:
        return h5py.File(path, "r", locking=False)
    except OSError as error:
        if "locking flag" not in str(error):
            raise
        return h5py.File(path, "r")


def _not_opened(path: str, error: OSError) -> str:
    """Why a file cannot be opened as HDF5, in the user's words."""
    text = str(error)
    if "signature not found" in text:
        kind = "not an HDF5 file" if os.path.getsize(path) else "the file is empty"
        return f"not a plan: {kind}"
    if cut := re.search(r"truncated file: eof = (\d+),.* stored_eof = (\d+)", text):
        return f"the plan is cut off: {int(cut[1]):,} of {int(cut[2]):,} bytes are there"
    return without_locks(error) or f"not a plan: {_reason(error)}"


def without_locks(error: Exception) -> str:
    """What to do where a file cannot be locked, for all that asks for no lock; "" of others."""
    if "unable to lock file" not in str(error):
        return ""
    variable = "HDF5_USE_FILE_LOCKING"
    return (
        f"its file system has no locks, which {variable}={os.environ.get(variable, '')} asks for: "
        f"unset {variable}, since plancc needs none"
    )


def _other_kind(path: str, error: OSError) -> str:
    """What a file that is no HDF5 is by its name, and what to do with it; "" if none is known."""
    if "signature not found" not in str(error) or not os.path.getsize(path):
        return ""
    if re.search(r"\.part(\.\d+)?$", path):
        return " but a part vector: compile it with model file"
    from plancc.graph.formats import find_format

    try:
        find_format(path)
    except InputError:
        return ""
    return " but a graph: compile it first"


def _reason(error: BaseException) -> str:
    """Why reading fails, without the words of HDF5 unless the system is to blame."""
    text = " ".join(str(error).split()) or type(error).__name__
    if "checksum" in text or "filter returned failure" in text:
        return "its checksum does not match"
    hdf5 = isinstance(error, OSError | RuntimeError | KeyError | ValueError)
    if hdf5 and "errno" not in text and OF_HDF5.search(text):
        return "its parts in the HDF5 file do not fit together"
    return text[text.rfind("(") + 1 :].rstrip(")") if "(" in text else text
