"""Read a plan file, whole or in slices. Everything in the file is checked before it is used.

`PlanFile.node` opens every dataset. It refuses links out of the file, external data, unknown
filters, and dtypes and sizes that do not fit the header. `PlanFile.read` compares the digest of
each part's entries. Every HDF5 call is in a `Container.reading` block, which turns HDF5's errors
for a damaged file into PlanError.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import h5py
import numpy as np
import numpy.typing as npt

from plancc.errors import InputError, PlanError
from plancc.files import StrPath
from plancc.graph.mapped import MappedRows
from plancc.graph.vertexdata import VertexData
from plancc.plan.attributes import digest_of_attributes, is_plain, stored
from plancc.plan.container import Container
from plancc.plan.digests import DIGEST_BYTES, Digests, digests_of, digests_of_plan, root_of
from plancc.plan.exchange import Int64Array, Side
from plancc.plan.format import (
    ATTRIBUTE_GROUPS,
    DIGESTS,
    EXCHANGE_ARRAYS,
    EXCHANGES,
    FOLDED,
    FORMAT,
    GROUPS,
    LOCAL_ROWS,
    MAJOR,
    MINOR,
    OF_TYPE,
    OLDEST,
    PART_PTR,
    PIECE_FORMAT,
    PIECES,
    ROOT_ATTRIBUTES,
    STORAGE_ATTRIBUTES,
    TYPE_PTR,
    FileDataset,
    dataset_of,
    datasets_of,
    header_of,
    vertex_data_from_arrays,
)
from plancc.plan.metrics import Metrics
from plancc.plan.part_invariants import check
from plancc.plan.plan import Plan
from plancc.plan.plan_invariants import plan_invariants
from plancc.plan.rank_parts import check_num_ranks
from plancc.plan.values import LINKS, Header
from plancc.text import shown

FEATURES = "vertex_data/features"
PARTS_AT_ONCE = 64
"""Number of parts whose slices `check_content` reads at once."""
VERSION = re.compile(r"(0|[1-9][0-9]{0,3})\.(0|[1-9][0-9]{0,3})")
"""Pattern of the attribute "format_version"."""
IN_PIECES = (
    "a plan in pieces, which plancc 0.1.0 of 29 November 2026 was the last version to read: make "
    "one file of it there (plancc join), or compile the graph again"
)
"""The message for a plan in pieces, for its first file and for any other piece."""


class PlanFile:
    """A plan file that is open for reading, without file locks. Use it in a ``with`` statement.

    Opening raises InputError for a missing file. It raises PlanError for a damaged file, or a
    version or layout that this plancc cannot read.

    Attributes:
        minor: Minor version of the file's format.
        content_sha256: Content hash, which is checked against the digests when the file is opened.
    """

    def __init__(self, path: StrPath) -> None:
        self.path = os.fspath(path)
        self._attributes: dict[str, dict[str, Any]] = {}
        self._digests: dict[str, Digests] = {}
        self._opened: dict[str, h5py.Dataset] = {}
        self._offsets: dict[str, tuple[int, int, Int64Array]] = {}
        self._container = Container(self.path)
        try:
            with self._container.reading("the header"):
                header = self.header = self._read_header()
                self._known = datasets_of(header)
                self._check_no_steps()
                self._check_names()
            self._sizes: dict[str, Any] = {
                "n": header.num_vertices,
                "p": header.num_parts,
                "nnz": header.num_nonzeros,
                "1": 1,
                f"{DIGEST_BYTES}": DIGEST_BYTES,
            }
            if header.types is not None:
                counts = [*header.types.counts.values()]
                self._sizes |= {f"n of {k}": count for k, count in enumerate(counts)}
                self._sizes |= {"types": len(counts), "counts": np.array(counts)}
            for step in header.steps():
                self._add_sizes(step)
            self._sizes["rows"] = header.num_vertices + self._sizes.get("fold volume", 0)
            self._read_digests()
        except BaseException:
            self.close()
            raise

    def _error(self, problem: str) -> PlanError:
        return PlanError(f"{self.path}: {problem}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._container.close()

    def check_row_plan(self, what: str) -> None:
        """Raise InputError if this is not a row plan.

        The message says that `what` needs a row plan.
        """
        if self.header.layout != "row":
            kind = "an edge plan"
            if self.header.grid is not None:
                kind = f"a plan of grid '{self.header.grid}'"
            raise InputError(f"{self.path} is {kind}, but {what} needs a row plan")

    def checked_ranks(self, num_ranks: int | None) -> int:
        """Return the number of parts whose figures are shown if `num_ranks` ranks run the plan.

        Without a grid this is `num_ranks`; with a grid, or for None, the plan's number of parts.
        """
        parts = self.header.num_parts
        if self.header.grid is not None:
            if num_ranks is not None:
                check_num_ranks(self.path, self.header, num_ranks)
            return parts
        ranks = parts if num_ranks is None else num_ranks
        if not 1 <= ranks <= parts:
            raise InputError(f"{self.path} cannot run on {ranks} ranks; choose 1 to {parts}")
        return ranks

    def attributes(self, group: str) -> dict[str, Any]:
        """Return the checked attributes of group ``/provenance`` or ``/metrics``, by name."""
        if group not in self._attributes:
            with self._container.reading(f"/{group}"):
                self._attributes[group] = self._read_attributes(group)
        return dict(self._attributes[group])

    def _read_attributes(self, group: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        plain, foreign = [], ""
        there = not group or self._container.is_there(group, h5py.Group)
        node = self._container.file[group if group and there else "/"]
        for name in node.attrs if there else ():
            where = node.attrs.get_id(name)
            said = f"attribute '{shown(name)}' of /{group}"
            if where.get_type().get_size() * math.prod(where.shape or ()) > self._container.size:
                raise self._error(f"{said} is larger than the file")
            if not is_plain(where):
                foreign = said
            else:
                plain.append(stored(node, name))
                found[name] = plain[-1].value
        if foreign and (group or found.get("format") == FORMAT):
            raise self._error(f"{foreign} is neither a number nor a text of fixed length")
        if group in self._digests:
            self._compare(group, digest_of_attributes(plain), 0)
        return found

    def has(self, name: str) -> bool:
        """Return whether the file has the dataset `name`."""
        with self._container.reading(f"/{name}"):
            return self._container.is_there(name, h5py.Dataset)

    def metrics(self, prefix: str = "") -> Metrics | None:
        """Return the figures named `prefix` + name; None if one is missing or is not a number."""
        return Metrics.from_dict(self.attributes("metrics"), prefix)

    def vertex_data_names(self) -> list[str]:
        """Return the names of the plan's vertex data, as they are printed.

        Examples are "features" and "labels of author".
        """
        types = () if self.header.types is None else self.header.types.names
        found = [name.partition("/")[2].partition("_of_") for name in self._vertex_data()]
        return [f"{key} of {types[int(k)]}" if k else key for key, _, k in found]

    def _vertex_data(self) -> list[str]:
        """Return the names of the file's datasets that hold vertex data."""
        return [name for name in self.datasets if name.startswith("vertex_data/")]

    def width(self, name: str) -> int | None:
        """Return the number of columns of a dataset; None if the dataset is missing."""
        return int(self.node(name).shape[1]) if self.has(name) else None

    def read(self, name: str, first: int = 0, last: int | None = None) -> npt.NDArray[Any]:
        """Read the entries of parts ``first..last-1`` of a dataset; check them by their digests.

        Datasets that are not cut into parts are read whole. If the dataset holds offsets, the
        offset at which the last part ends is read, too.
        """
        node, dataset = self.node(name), dataset_of(name)
        last = self.header.num_parts if last is None else last
        points = np.array([0, len(node)])
        if dataset.cut:
            points = self._cut(dataset.cut, first, last)
        else:
            first, last = 0, self.header.num_parts
        start, stop = int(points[0]), int(points[-1]) + dataset.shared
        with self._container.reading(f"/{name}"):
            array: npt.NDArray[Any] = node[start:stop]
        self._compare(name, digests_of(array, points - start, shared=dataset.shared), first)
        if dataset.below:
            self.check(name, within(array, self._sizes[dataset.below]))
        if dataset.ends:
            self._check_offsets(name, array, first, last)
            at = points - start if dataset.cut else slice(None)
            self._offsets[name] = first, last, array[..., at]
        return array

    def _compare(self, name: str, found: Digests, first: int) -> None:
        """Raise PlanError if `found`, digests from part `first` on, differ from stored digests."""
        expected = self._digests[name][first : first + len(found)]
        wrong = np.flatnonzero((found != expected).any(axis=1)) if len(found) else found
        if len(wrong):
            is_cut = name not in ATTRIBUTE_GROUPS and dataset_of(name).cut
            whose = f" of part {first + wrong[0]}" if is_cut else ""
            raise self._error(f"/{name} is damaged: the digest{whose} does not match")

    def _cut(self, cut: str, first: int, last: int) -> Int64Array:
        """Return the offsets `cut` (see `FileDataset.cut`) of parts first..last-1, and the end."""
        if cut == LOCAL_ROWS:
            points = self._cut(PART_PTR, first, last)
            folds = self.header.layout == "edge"
            return points + self._cut(FOLDED, first, last) if folds else points
        name, _, number = cut.partition(OF_TYPE)
        kept = self._offsets.get(name)
        if kept is None or not kept[0] <= first <= last <= kept[1]:
            self.read(name, first, last)
        begin, _, points = self._offsets[name]
        return (points[int(number)] if number else points)[first - begin : last - begin + 1]

    def _check_offsets(self, name: str, offsets: Int64Array, first: int, last: int) -> None:
        """Raise PlanError if offsets of parts first..last-1 do not ascend, or end wrongly."""
        begin, end, total = offsets[..., 0], offsets[..., -1], self._sizes[dataset_of(name).ends]
        starts = begin == 0 if first == 0 else begin >= 0
        ends = end == total if last == self.header.num_parts else end <= total
        rises = offsets[..., 1:] >= offsets[..., :-1]  # a difference could overflow
        self.check(name, np.all(starts) and np.all(ends) and np.all(rises))

    def check(self, name: str, holds: bool | np.bool_) -> None:
        """Raise PlanError if `holds` is False.

        The message says that a number in dataset `name` is out of range.
        """
        if not holds:
            raise self._error(f"/{name} is damaged: a number is out of range")

    def read_side(self, table: str) -> Side:
        """Read one side of an exchange for all parts.

        `table` is the name of the side, such as "expand/send".
        """
        return Side(*(self.read(f"{table}_{name}") for name in EXCHANGE_ARRAYS))

    def read_parts(
        self, first: int, last: int, names: Iterable[str] | None = None
    ) -> dict[str, npt.NDArray[Any]]:
        """Read datasets, by name, for the parts ``first..last-1``, with the checks of `read`.

        Offsets begin at 0. `names` None means all, except vertex data and ids of the source.
        """
        others = ("rows/original_id", TYPE_PTR, "vertex_data/")
        found = {}
        if names is None:
            names = (name for name in self.datasets if not name.startswith(others))
        for name in names:
            array, dataset = self.read(name, first, last), dataset_of(name)
            if not dataset.cut:
                array = array[first : last + bool(dataset.ends)]
            found[name] = array - array[0] if dataset.ends else array
        return found

    def rows_on_disk(self, name: str, first: int, last: int) -> MappedRows:
        """Map the rows of parts ``first..last-1`` of a two-dimensional dataset into memory.

        The rows' digests are checked. InputError is raised if the rows are compressed or not
        aligned to the size of a number.
        """
        dataset, points = self.node(name), self._cut(dataset_of(name).cut, first, last)
        start, stop = points[[0, -1]].tolist()
        with self._container.reading(f"/{name}"):
            at, kind = dataset.id.get_offset(), dataset.dtype
            if start == stop:
                return MappedRows(np.empty((0, dataset.shape[1]), kind))
            if at is None or at % kind.itemsize:
                why = "compressed" if at is None else f"misaligned (at byte {at})"
                raise InputError(
                    f"{self.path}: /{name} is {why}, and cannot be mapped into memory; compile the "
                    "graph again, without compression"
                )
            at += start * dataset.shape[1] * kind.itemsize
            with os.fdopen(os.dup(dataset.file.id.get_vfd_handle()), "rb") as file:
                rows = MappedRows(np.memmap(file, kind, "r", at, (stop - start, dataset.shape[1])))
            found = digests_of(rows, points - start, shared=False)
        self._compare(name, found, first)
        return rows

    def read_vertex_data(self, first: int, last: int, on_disk: bool = False) -> VertexData:
        """Read the vertex data of parts first..last-1; `on_disk` leaves features in the file."""
        types, vertices = self.header.types, None
        arrays: dict[str, Any] = {
            name: (self.rows_on_disk if on_disk and name == FEATURES else self.read)(
                name, first, last
            )
            for name in self._vertex_data()
        }
        if types is not None:
            vertices = self.read("rows/global_id", first, last)
        data = vertex_data_from_arrays(arrays, types, vertices)
        self.check(TYPE_PTR, data.by_type is None or not data.by_type.problem())
        return data

    def node(self, name: str) -> h5py.Dataset:
        """Open the dataset `name`, and check that its type, size and storage fit the format."""
        if name not in self._opened:
            with self._container.reading(f"/{name}"):
                self._opened[name] = self._node(name, dataset_of(name))
        return self._opened[name]

    def _node(self, name: str, dataset: FileDataset) -> h5py.Dataset:
        node = self._container.checked(name, dataset)
        expected = tuple(map(self._size, dataset.shape))
        shape = node.shape or ()
        if len(shape) != len(expected) or any(
            size is not None and size != found for size, found in zip(expected, shape, strict=True)
        ):
            names = zip(dataset.shape, expected, strict=True)
            wanted = (d if e is None else str(e) for d, e in names)
            raise self._error(
                f"/{name} is of size {_by(map(str, shape))}; the header asks for {_by(wanted)}"
            )
        self._container.check_stored(name, node)
        return node

    def _size(self, dimension: str) -> int | None:
        """Return the size of the dimension of this name; None if the size is not fixed."""
        size = self._sizes.get(dimension.removesuffix("+1"))
        return None if size is None else size + dimension.endswith("+1")

    def read_plan(self) -> Plan:
        """Read and check the whole plan, with its provenance and the figures of its baseline."""
        plan = self.read_unchecked()
        check(plan_invariants(plan), self.path)
        self.check_figures(plan.metrics)
        return plan

    def read_unchecked(self) -> Plan:
        """Read the whole plan, but check only sizes and digests.

        The verifier checks everything else.
        """
        arrays = {}
        for name in self.datasets:
            node = self.node(name)
            with self._container.reading(f"/{name}"):
                arrays[name] = node[...]
        for name, found in digests_of_plan(arrays).items():
            self._compare(name, found, 0)
        plan = Plan.from_arrays(self.header, arrays)
        ptr, expected = (each.get(TYPE_PTR, np.zeros(0)) for each in (arrays, plan.arrays()))
        self.check(TYPE_PTR, np.array_equal(ptr, expected))
        provenance, baseline = self.attributes("provenance"), self.metrics("random_")
        return replace(plan, provenance=provenance, baseline=baseline)

    def check_figures(self, of_tables: Callable[[], Metrics]) -> None:
        """Raise PlanError if stored figures contradict the figures that `of_tables` computes."""
        if not self._container.is_there("metrics", h5py.Group):
            return
        found = self.metrics()
        if found is None:
            raise self._error("/metrics lacks a figure, or a figure is not a number")
        for name, value in of_tables().as_dict().items():
            said = found.as_dict()[name]
            if not np.isclose(value, said, rtol=1e-12, atol=0):
                raise self._error(f"/metrics says {name} = {said}, the tables say {value}")

    def check_content(self) -> None:
        """Raise PlanError if a known dataset or group does not match its digest."""
        for name, dataset in self.datasets.items():
            for first in range(0, self.header.num_parts if dataset.cut else 1, PARTS_AT_ONCE):
                self.read(name, first, min(first + PARTS_AT_ONCE, self.header.num_parts))
        self.check_attributes()

    def check_attributes(self) -> None:
        """Compare the attributes of ``/provenance`` and ``/metrics`` with their digests.

        Raises:
            PlanError: If attributes do not match their digest.
        """
        for group in ATTRIBUTE_GROUPS:
            self.attributes(group)

    def _read_digests(self) -> None:
        """Read the digests of all known and unknown datasets, and check the content hash."""
        nodes = {name: self.node(name) for name in self.datasets}
        if any(OF_TYPE in each.cut for each in self.datasets.values()):
            self.node(TYPE_PTR)
        for name in self._known:
            if name not in nodes and self._container.is_there(f"{DIGESTS}/{name}", h5py.Dataset):
                raise self._error(f"/{name} is missing, but its digest is there")
        self._digests = {
            name: self._leaves(name, "p" if each.cut else "1")
            for name, each in self.datasets.items()
        }
        unknown = {}
        if self.minor > MINOR:
            with self._container.reading(f"/{DIGESTS}"):
                for name in self._digest_names() - set(nodes):
                    nodes[name] = self._container.dataset(name)
                    unknown[name] = self._leaves(name, "digests")
        attributes = self.attributes("").items()
        hashed = {name: each for name, each in attributes if name not in STORAGE_ATTRIBUTES}
        found = root_of(hashed, self._digests | unknown, nodes)
        if found != self.content_sha256:
            raise self._error(
                f"content_sha256 is {shown(self.content_sha256) or 'missing'}, the content has "
                f"{found}: the file is damaged, or was changed after plancc wrote it"
            )
        self._digests |= {group: self._leaves(group, "1") for group in ATTRIBUTE_GROUPS}

    def _leaves(self, name: str, count: str) -> Digests:
        path = f"{DIGESTS}/{name}"
        with self._container.reading(f"/{path}"):
            leaves: Digests = self._node(path, FileDataset(("|u1",), (count, f"{DIGEST_BYTES}")))[
                ...
            ]
        return leaves

    def _digest_names(self) -> set[str]:
        """Return the names of all datasets with digests, including datasets that this version does
        not know.
        """
        digests = self._container.file[DIGESTS]
        groups = [name for name in digests if digests.get(name, getclass=True) is h5py.Group]
        return {
            f"{group}/{name}"
            for group in groups
            if self._container.is_there(f"{DIGESTS}/{group}", h5py.Group)
            for name in digests[group]
        }

    @cached_property
    def datasets(self) -> dict[str, FileDataset]:
        """The datasets that the file has and that this version knows, by name."""
        known = self._known.items()
        return {name: each for name, each in known if not each.optional or self.has(name)}

    def _check_no_steps(self) -> None:
        """Raise PlanError if the file has an exchange that plans with this header do not have."""
        for step in EXCHANGES:
            if step not in self.header.steps() and self._container.is_there(step, h5py.Group):
                raise self._error(f"/{step} is in a plan {self.header.lacks(step)}")

    def _add_sizes(self, step: str) -> None:
        """Add an exchange's numbers of messages and rows to `_sizes`, the expected array sizes."""
        if step == LINKS:
            self._sizes[LINKS] = self._length(f"{LINKS}/source")
        messages, volume = self._length(f"{step}/recv_peer"), self._length(f"{step}/recv_row")
        parts, vertices = self.header.num_parts, self.header.num_vertices
        if messages > parts * (parts - 1) or volume > (parts - 1) * vertices:
            raise self._error(
                f"/{step} lists {messages} messages of {volume} rows, "
                f"more than {parts} parts can exchange"
            )
        self._sizes |= {f"{step} messages": messages, f"{step} volume": volume}

    def _length(self, name: str) -> int:
        """Return the stored length of a dataset whose length does not follow from the header."""
        with self._container.reading(f"/{name}"):
            shape: tuple[int, ...] = self._container.dataset(name).shape or ()
            if len(shape) != 1:
                raise self._error(f"/{name} has {len(shape)} dimensions, not one")
            return int(shape[0])

    def _read_header(self) -> Header:
        attributes = self.attributes("")
        if PIECES in attributes or attributes.get("format") == PIECE_FORMAT:
            raise self._error(IN_PIECES)
        if attributes.get("format") != FORMAT:
            raise self._error(f"is not a plan: its attribute 'format' is not '{FORMAT}'")
        version = attributes.get("format_version", "")
        numbers = VERSION.fullmatch(str(version))
        if numbers is None:
            raise self._error(f"format version '{shown(version)}' is not MAJOR.MINOR")
        major, self.minor = map(int, numbers.groups())
        if major != MAJOR or self.minor < OLDEST:
            advice = "use a newer plancc" if major > MAJOR else "compile the graph again"
            raise self._error(
                f"format version {version}; this plancc reads {MAJOR}.x from {MAJOR}.{OLDEST} on: "
                f"{advice}"
            )
        try:
            header = header_of(attributes)
        except InputError as error:
            raise self._error(str(error)) from None
        self.content_sha256 = str(attributes.get("content_sha256", ""))
        return header

    def _check_names(self) -> None:
        """Raise PlanError for unknown attributes, groups or datasets.

        If the file's minor version is newer than this library's, they are allowed.
        """
        if self.minor > MINOR:
            return
        names = self.attributes("")
        unknown = [f"attribute '{shown(n)}'" for n in names if n not in ROOT_ATTRIBUTES]
        groups = {*GROUPS, *ATTRIBUTE_GROUPS, DIGESTS, *(f"{DIGESTS}/{name}" for name in GROUPS)}
        of_digests = (f"{DIGESTS}/{name}" for name in (*self._known, *ATTRIBUTE_GROUPS))
        datasets, folders = {*self._known, *of_digests}, [""]
        for folder in folders:
            for name in self._container.file[folder or "/"]:
                at = f"{folder}/{name}" if folder else name
                if at in groups and self._container.is_there(at, h5py.Group):
                    folders.append(at)
                elif at not in datasets:
                    unknown.append(f"node /{shown(at)}")
        if unknown:
            raise self._error(f"has unknown {unknown[0]} in a plan of version {MAJOR}.{self.minor}")


def within(numbers: npt.NDArray[np.integer], bound: int | npt.NDArray[np.integer]) -> bool:
    """Return whether every number is in ``0..bound-1``; `bound` may be an array."""
    if isinstance(bound, np.ndarray):
        return bool(((numbers >= 0) & (numbers < bound)).all())
    return len(numbers) == 0 or (int(numbers.min()) >= 0 and int(numbers.max()) < bound)


def _by(sizes: Iterable[str]) -> str:
    return " x ".join(sizes) or "one value"


def load(path: StrPath) -> Plan:
    """Read and check a whole plan file. `Plan.save` writes such files.

    Raises:
        InputError, PlanError: See `PlanFile`.
    """
    with PlanFile(path) as file:
        return file.read_plan()
