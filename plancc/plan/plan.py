"""`Plan`: the compiled plan of a distributed sparse product, with the tables of all parts.

*Plan order* numbers all rows part by part: row ``r`` of part ``m`` is row ``part_ptr[m] + r`` in
plan order. Every table is flat, with offsets for each part or message, so a rank reads one
contiguous slice of a table. The folded rows of a part in an edge plan are rows of other owners, for
which the part has nonzeros and sends partial sums.

    local columns of part m:   0 ......... rows(m) | rows(m) ...... rows(m) + halo(m)
                               own rows            | received rows, in arrival order
    local rows of part m:      0 ......... rows(m) | rows(m) ...... rows(m) + folded(m)
                               own rows            | folded rows, in the order of the messages
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from plancc.errors import InputError
from plancc.files import StrPath
from plancc.graph.columns import COLUMNS, WithColumns, columns_of
from plancc.graph.vertexdata import VertexData
from plancc.plan.digests import content_sha256
from plancc.plan.exchange import Exchange, Int32Array, Int64Array, Side
from plancc.plan.format import (
    LINK_DATASETS,
    TYPE_PTR,
    Arrays,
    datasets_of,
    exchange_arrays,
    exchange_of,
    links_of,
    vertex_data_arrays,
    vertex_data_from_arrays,
)
from plancc.plan.links import PartLinks
from plancc.plan.metrics import Metrics, StepTraffic, Traffic, summarize
from plancc.plan.part_invariants import claims_of
from plancc.plan.parts import Part, PartRange
from plancc.plan.rank_parts import RankParts
from plancc.plan.values import Exchanges, Header
from plancc.registry import Registry

VIEWS = Registry("view", "plancc.views", {"html": "plancc_lab.report.notebook:as_html"})
"""Functions that return a plan in a format for display, by the name of the format."""


def attributes_of(
    provenance: Mapping[str, Any], metrics: Metrics, baseline: Metrics | None
) -> dict[str, dict[str, Any]]:
    """Return the attributes of the HDF5 groups ``/provenance`` and ``/metrics``, by group name.

    The figures of `baseline` get names that begin with "random_".
    """
    figures = metrics.as_dict()
    if baseline is not None:
        figures |= {f"random_{name}": value for name, value in baseline.as_dict().items()}
    return {"provenance": dict(provenance), "metrics": figures}


def fields_of(header: Header, arrays: Arrays) -> dict[str, Any]:
    """Return the fields that `Plan` and `PartRange` have in common, made from datasets by name."""
    matrix: dict[str, Any] = {n: arrays[f"matrix/{n}"] for n in ("row_ptr", "column", "value")}
    return matrix | {
        "columns": columns_of(**{name: arrays.get(f"matrix/{name}") for name in COLUMNS}),
        **{name: arrays[f"rows/{name}"] for name in ("global_id", "num_interior")},
        "exchanges": Exchanges({step: exchange_of(step, arrays) for step in header.steps()}),
        "links": links_of(header, arrays),
    }


@dataclass(frozen=True, repr=False)
class Plan(WithColumns):
    """A compiled plan, with all its parts. It is immutable, and made by `plancc.plan.lowering`.

    Attributes:
        part_ptr (int64[num_parts + 1]): Rows of part m are ``part_ptr[m]:part_ptr[m + 1]`` in plan
            order.
        global_id (int32[num_vertices]): Vertex of every row, in plan order.
        num_interior (int64[num_parts]): The first ``num_interior[m]`` rows of part m are interior
            rows.
        row_ptr (int64[num_local_rows + 1]): Offsets of the nonzeros of local rows, part by part. A
            part has own rows, then *folded rows*, of which it sends partial sums to their owners.
            In a row plan there are only own rows, so local rows are in plan order.
        column (int32[num_nonzeros]): Column of every nonzero, numbered locally in the part that
            holds the nonzero. In each row, columns of own rows come first. Columns of a row are
            distinct, except in a plan with parallel relations (several relations between the same
            two types): a column then occurs once for each relation that has the edge.
        value (float32 or float64[num_nonzeros]): Values of the matrix.
        columns: Further arrays with an entry for every nonzero, such as relations, by name.
        exchanges: The messages of every step, and of the hops of a step if the header has a route.
        vertex_data: Data of all rows, in plan order.
        original_id (int64 or bytes[num_vertices], or None): The ids that the graph's source gives
            to vertices 0..n-1. Names are UTF-8 (`plancc.graph.named_ids`). None means that the
            source uses the ids 0..n-1.
        provenance: How the plan was made: values of type str, int, float or bool, by name.
        baseline: Figures of a random partition of the same matrix into parts of equal size, for
            comparison.
        links: Pairs for link prediction, of all parts. The exchange "links" sends the rows of their
            targets. None if the plan has no links.
    """

    header: Header
    part_ptr: Int64Array
    global_id: Int32Array
    num_interior: Int64Array
    row_ptr: Int64Array
    column: Int32Array
    value: npt.NDArray[np.floating]
    exchanges: Exchanges
    vertex_data: VertexData = field(default_factory=VertexData)
    original_id: npt.NDArray[Any] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    baseline: Metrics | None = None
    links: PartLinks | None = None

    @property
    def send(self) -> Side:
        """Messages of the expand, sorted by the parts that send rows of H."""
        return self.exchanges.expand.send

    @property
    def receive(self) -> Side:
        """Messages of the expand, sorted by the parts that receive rows of H."""
        return self.exchanges.expand.receive

    @property
    def fold(self) -> Exchange | None:
        """The exchange of partial sums in an edge plan; None in a row plan."""
        return self.exchanges.fold

    @property
    def num_parts(self) -> int:
        return self.header.num_parts

    @property
    def num_vertices(self) -> int:
        return self.header.num_vertices

    def part(self, index: int) -> Part:
        """Return part `index`. Its arrays are views of the plan's arrays."""
        if not 0 <= index < self.num_parts:
            raise InputError(f"part {index} is out of range; choose from 0..{self.num_parts - 1}")
        parts = self.all_parts.of_parts(index, index + 1)
        held = RankParts(replace(self.header, grid=None), index, np.arange(self.num_parts + 1))
        part = parts.only_part(held)
        rows = np.arange(self.part_ptr[index], self.part_ptr[index + 1])
        claims = claims_of(parts, held)
        return replace(part, vertex_data=self.vertex_data.take(rows), claims=claims)

    @cached_property
    def all_parts(self) -> PartRange:
        """All parts as one range. The arrays are not copied."""
        return PartRange(
            first=0,
            last=self.num_parts,
            part_ptr=self.part_ptr,
            global_id=self.global_id,
            num_interior=self.num_interior,
            row_ptr=self.row_ptr,
            column=self.column,
            value=self.value,
            columns=self.columns,
            exchanges=self.exchanges,
            links=self.links,
        )

    def __repr__(self) -> str:
        header = self.header
        steps = [self.send] if self.fold is None else [self.send, self.fold.send]
        volume, messages = sum(s.volume for s in steps), sum(s.num_messages for s in steps)
        layout = f"{header.layout} layout" + (f" ({header.grid})" if header.grid else "")
        return (
            f"<Plan of {header.num_parts} parts, {layout}: {header.num_vertices} vertices, "
            f"{header.num_nonzeros} nonzeros, volume {volume}, {messages} messages>"
        )

    def _repr_html_(self) -> str:
        """Return a description of the plan as HTML, for display in a notebook."""
        shown: str = VIEWS["html"](self)
        return shown

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the datasets of the plan, by their names in the file."""
        found: dict[str, npt.NDArray[Any]] = {
            "rows/part_ptr": self.part_ptr,
            "rows/global_id": self.global_id,
            "rows/num_interior": self.num_interior,
            "matrix/row_ptr": self.row_ptr,
            "matrix/column": self.column,
            "matrix/value": self.value,
            **{f"matrix/{name}": each for name, each in self.columns.items()},
            **vertex_data_arrays(self.vertex_data),
        }
        if self.links is not None:
            found |= zip(LINK_DATASETS, vars(self.links).values(), strict=True)
        for step, exchange in self.exchanges.items():
            found |= exchange_arrays(step, exchange)
        if self.original_id is not None:
            found["rows/original_id"] = self.original_id[self.global_id]
        types = self.header.types
        if types is not None and self.vertex_data.of_type:
            found[TYPE_PTR] = types.rows_before(self.global_id, self.part_ptr)
        return {n: found[n] for n in datasets_of(self.header) if found.get(n) is not None}

    @classmethod
    def from_arrays(cls, header: Header, arrays: Arrays) -> Self:
        """Return the plan that has these datasets. The datasets are not checked.

        This method is the inverse of `arrays`.
        """
        global_id, original = arrays["rows/global_id"], arrays.get("rows/original_id")
        if original is not None:
            by_vertex = np.empty_like(original)
            np.put(by_vertex, global_id, original, mode="clip")  # unchecked ids may be out of range
            original = by_vertex
        return cls(
            header=header,
            part_ptr=arrays["rows/part_ptr"],
            **fields_of(header, arrays),
            vertex_data=vertex_data_from_arrays(arrays, header.types, global_id),
            original_id=original,
        )

    def content_sha256(self) -> str:
        """Return the content hash.

        Runs of plans with equal hashes compute and send the same numbers.
        """
        return content_sha256(self.header, self.arrays())

    def owner(self) -> Int32Array:
        """Return the part that owns each vertex, int32[num_vertices]."""
        owner = np.empty(self.num_vertices, dtype=np.int32)
        parts = np.arange(self.num_parts, dtype=np.int32)
        owner[self.global_id] = np.repeat(parts, np.diff(self.part_ptr))
        return owner

    def places(self) -> Int64Array:
        """Return, for each vertex, the place of its row in plan order: int64[num_vertices]."""
        place = np.empty(self.num_vertices, dtype=np.int64)
        place[self.global_id] = np.arange(self.num_vertices)
        return place

    def traffic(self) -> Traffic:
        """Return load and communication of every part, counted from the plan's arrays."""
        rows, nonzeros = np.diff(self.part_ptr), np.diff(self.row_ptr[self.all_parts.local_ptr])
        expand = StepTraffic.of(self.exchanges.expand)
        if self.fold is None:
            return Traffic(rows, nonzeros, *expand)
        fold = StepTraffic.of(self.fold)
        foreign = [  # vertices that a part receives, or has a partial row of
            table.part_of_row() * self.num_vertices + self.part_ptr[table.peer_of_row()] + table.row
            for table in (self.receive, self.fold.send)
        ]
        foreign_part = np.unique(np.concatenate(foreign)) // self.num_vertices
        copies = rows + np.bincount(foreign_part, minlength=self.num_parts)
        return Traffic.of_steps(rows, nonzeros, expand, fold, copies)

    def metrics(self) -> Metrics:
        """Return the figures of the plan, computed from its tables."""
        return summarize(self.traffic())

    def save(self, path: StrPath, *, compress: bool = False) -> str:
        """Write the plan file. It has a temporary name until it is complete.

        Parameters:
            compress: Whether to compress the datasets by HDF5's filter "deflate". The file is
                smaller, but slower to write and read. Every HDF5 library can read it.

        Returns:
            The content hash that the file stores.

        Raises:
            OutputError: If the folder is missing or not writable, or if the disk is full.
        """
        from plancc.plan.writer import write_file  # h5py is loaded at first use

        return write_file(path, self.header, self.arrays(), self.attributes(), compress=compress)

    def attributes(self) -> dict[str, dict[str, Any]]:
        """Return the attributes of the plan file's HDF5 groups ``/provenance`` and ``/metrics``.

        The result maps names of groups to dicts.
        """
        return attributes_of(self.provenance, self.metrics(), self.baseline)
