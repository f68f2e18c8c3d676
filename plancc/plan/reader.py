"""HDF5 to Plan, whole or in slices. Trusts nothing in the file.

One method, `PlanFile.node`, opens every dataset: it refuses links that leave the file, foreign
storage, unknown filters, other dtypes and sizes than the header allows.
"""

from __future__ import annotations

import os
from dataclasses import replace
from os import PathLike
from types import TracebackType
from typing import Any, Self

import h5py
import numpy as np
import numpy.typing as npt

from plancc.cost.metrics import Metrics
from plancc.errors import InputError, PlanError
from plancc.graph.graph import MAX_VERTICES, NORMALIZATIONS
from plancc.plan.format import (
    ATTRIBUTE_GROUPS,
    FORMAT,
    GROUPS,
    HEADER_TYPES,
    LAYOUTS,
    MAJOR,
    MINOR,
    NODES,
    plan_from_arrays,
)
from plancc.plan.plan import Header, Plan

FILTERS = {
    h5py.h5z.FILTER_DEFLATE: "deflate",
    h5py.h5z.FILTER_SHUFFLE: "shuffle",
    h5py.h5z.FILTER_FLETCHER32: "fletcher32",
}


class PlanFile:
    """A plan file, open for reading (without file locks). Use it in a ``with`` statement.

    Parameters
    ----------
    path : path of the plan

    Raises
    ------
    InputError
        If there is no such file.
    PlanError
        If it is not a plan, is damaged, or is of a version or layout that cannot be read.

    Attributes
    ----------
    header : Header
    content_sha256 : str
        As stored; `plancc.plan.verify` compares it with the content.
    """

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = os.fspath(path)
        if not os.path.exists(self.path):
            raise InputError(f"{self.path}: no such file")
        if not os.path.isfile(self.path):
            raise InputError(f"{self.path}: not a file")
        try:
            self._file = h5py.File(self.path, "r", locking=False)
        except PermissionError as error:
            raise InputError(f"{self.path}: not readable (permission denied)") from error
        except OSError as error:
            raise PlanError(f"{self.path}: not a plan: {_reason(error)}") from error
        try:
            self.header = self._read_header()
            self._check_names()
            self._sizes = {
                "n": self.header.num_vertices,
                "n+1": self.header.num_vertices + 1,
                "p": self.header.num_parts,
                "p+1": self.header.num_parts + 1,
                "nnz": self.header.num_nonzeros,
            }
            self.messages = self._length("expand/recv_peer")
            self.volume = self._length("expand/recv_row")
            parts, vertices = self.header.num_parts, self.header.num_vertices
            if self.messages > parts * (parts - 1) or self.volume > (parts - 1) * vertices:
                raise PlanError(
                    f"{self.path}: {self.messages} messages of {self.volume} rows are more than "
                    f"{parts} parts can exchange"
                )
            self._sizes |= {
                "messages": self.messages,
                "messages+1": self.messages + 1,
                "volume": self.volume,
            }
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def attributes(self, group: str) -> dict[str, Any]:
        """The attributes of ``/provenance`` or ``/metrics`` as Python values."""
        if group not in self._file:
            return {}
        self._check_hard_link(group, h5py.Group)
        return {name: _python(value) for name, value in self._file[group].attrs.items()}

    def has(self, name: str) -> bool:
        """Whether an optional dataset is there."""
        group = name.partition("/")[0]
        return group in self._file and name in self._file

    def vertex_data_names(self) -> list[str]:
        """Which vertex data the plan carries: "features", "labels", ..."""
        names = [name for name in NODES if name.startswith("vertex_data/")]
        return [name.partition("/")[2] for name in names if self.has(name)]

    def read(self, name: str, start: int = 0, stop: int | None = None) -> npt.NDArray[Any]:
        """Rows ``start:stop`` of a dataset.

        Raises
        ------
        PlanError
            If the dataset is missing, is not what the format says, or fails its checksum.
        """
        dataset = self.node(name)
        try:
            return dataset[start : len(dataset) if stop is None else stop]
        except OSError as error:
            raise PlanError(f"{self.path}: /{name} is damaged: {_reason(error)}") from error

    def node(self, name: str) -> h5py.Dataset:
        """The dataset `name`, after checking everything the format says of it."""
        node = NODES[name]
        if not self.has(name):
            raise PlanError(f"{self.path}: /{name} is missing")
        for depth in range(1, name.count("/") + 1):
            self._check_hard_link("/".join(name.split("/")[:depth]), h5py.Group)
        self._check_hard_link(name, h5py.Dataset)
        dataset = self._file[name]
        if dataset.is_virtual or dataset.external:
            raise PlanError(f"{self.path}: /{name} keeps its data outside the file")
        creation = dataset.id.get_create_plist()
        for k in range(creation.get_nfilters()):
            code = creation.get_filter(k)[0]
            if code not in FILTERS:
                raise PlanError(
                    f"{self.path}: /{name} uses HDF5 filter {code}; allowed are "
                    f"{', '.join(FILTERS.values())}"
                )
        if dataset.dtype.str not in node.dtypes:
            raise PlanError(
                f"{self.path}: /{name} has type {dataset.dtype.str}, not {' or '.join(node.dtypes)}"
            )
        expected = tuple(self._sizes.get(dimension) for dimension in node.shape)
        shape = dataset.shape or ()
        if len(shape) != len(expected) or any(
            size is not None and size != found for size, found in zip(expected, shape, strict=True)
        ):
            raise PlanError(
                f"{self.path}: /{name} has shape {shape}; the header asks for "
                f"{tuple(d if e is None else e for d, e in zip(node.shape, expected, strict=True))}"
            )
        return dataset

    def read_plan(self) -> Plan:
        """The whole plan, with provenance and the baseline among its metrics."""
        arrays = {name: self.read(name) for name in NODES if self._wanted(name)}
        plan = plan_from_arrays(self.header, arrays)
        return replace(
            plan,
            provenance=self.attributes("provenance"),
            baseline=Metrics.from_dict(self.attributes("metrics"), prefix="random_"),
        )

    def _wanted(self, name: str) -> bool:
        return not NODES[name].optional or self.has(name)

    def _length(self, name: str) -> int:
        """Size of a one-dimensional dataset before its bound is known."""
        if not self.has(name):
            raise PlanError(f"{self.path}: /{name} is missing")
        self._check_hard_link(name, h5py.Dataset)
        shape = self._file[name].shape
        if shape is None or len(shape) != 1:
            raise PlanError(f"{self.path}: /{name} has shape {shape}, not one dimension")
        return int(shape[0])

    def _read_header(self) -> Header:
        attributes = self._file.attrs
        if _python(attributes.get("format")) != FORMAT:
            raise PlanError(f"{self.path}: not a plan: its attribute 'format' is not '{FORMAT}'")
        version = _python(attributes.get("format_version", ""))
        try:
            major, self.minor = (int(part) for part in str(version).split("."))
        except ValueError:
            raise PlanError(f"{self.path}: format version '{version}' is not MAJOR.MINOR") from None
        if major != MAJOR:
            raise PlanError(
                f"{self.path}: format version {version}; this plancc reads {MAJOR}.x only"
            )
        values: dict[str, Any] = {}
        for name, kind in HEADER_TYPES.items():
            value = _python(attributes.get(name))
            if kind is bool and value in (0, 1):
                value = bool(value)
            if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
                raise PlanError(
                    f"{self.path}: header attribute '{name}' is missing or not {kind.__name__}"
                )
            values[name] = value
        header = Header(**values)
        if header.layout not in LAYOUTS:
            raise PlanError(
                f"{self.path}: layout '{header.layout}'; this plancc reads: {', '.join(LAYOUTS)}"
            )
        if header.normalization not in NORMALIZATIONS:
            raise PlanError(f"{self.path}: unknown normalization '{header.normalization}'")
        n, p, nnz = header.num_vertices, header.num_parts, header.num_nonzeros
        if not (1 <= p <= n <= MAX_VERTICES and 0 <= nnz <= n * n):
            raise PlanError(
                f"{self.path}: impossible header: {n} vertices, {nnz} nonzeros, {p} parts"
            )
        self.content_sha256 = str(_python(attributes.get("content_sha256", "")))
        return header

    def _check_names(self) -> None:
        """Refuse unknown names, which only a higher minor version may bring."""
        if self.minor > MINOR:
            return
        known = {*NODES, *GROUPS, *ATTRIBUTE_GROUPS}
        for group in self._file:
            names = [group]
            if group in GROUPS:
                self._check_hard_link(group, h5py.Group)
                names += [f"{group}/{name}" for name in self._file[group]]
            for name in names:
                if name not in known:
                    raise PlanError(
                        f"{self.path}: unknown node /{name} in a plan of version 1.{self.minor}"
                    )

    def _check_hard_link(self, name: str, kind: type) -> None:
        if not isinstance(self._file.get(name, getlink=True), h5py.HardLink):
            raise PlanError(f"{self.path}: /{name} is a soft or external link")
        if self._file.get(name, getclass=True) is not kind:
            raise PlanError(f"{self.path}: /{name} is not a {kind.__name__.lower()}")


def _python(value: Any) -> Any:
    """An attribute as a plain Python value."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, np.generic):
        return value.item()
    return value


def _reason(error: BaseException) -> str:
    """The innermost words of an HDF5 error."""
    text = " ".join(str(error).split())
    return text[text.rfind("(") + 1 :].rstrip(")") if "(" in text else text


def load(path: str | PathLike[str]) -> Plan:
    """Read a whole plan file; the inverse of `Plan.save`.

    Raises
    ------
    InputError, PlanError
        As `PlanFile`.
    """
    with PlanFile(path) as file:
        return file.read_plan()
