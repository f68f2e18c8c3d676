"""Everything that can be said of a plan, as plain values: what inspect and compare print.

Reads offsets and header only, unless figures for fewer ranks, training costs of the baseline, or a
missing baseline ask for the matrix. Knows no terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import numpy as np

from plancc.cost.metrics import Metrics, Traffic, summarize
from plancc.cost.owners import random_traffic, traffic_of_owners
from plancc.cost.training import Memory, epoch_messages_sent, epoch_words_sent, memory
from plancc.errors import InputError
from plancc.plan.matrix import graph_of
from plancc.plan.plan import Header
from plancc.plan.reader import PlanFile
from plancc.plan.slices import block_of_parts, read_offsets


@dataclass(frozen=True)
class TrainingCost:
    """One epoch of a GCN with given dims; see `plancc.cost.training`."""

    dims: list[int]
    words: int
    max_words_sent: int
    messages: int
    max_messages_sent: int
    max_memory: dict[str, int]

    @classmethod
    def of(cls, parts: Traffic, dims: Sequence[int]) -> TrainingCost:
        words, messages = epoch_words_sent(parts, dims), epoch_messages_sent(parts, dims)
        held: Memory = memory(parts, dims)
        worst = int(held.total.argmax())
        return cls(
            dims=list(dims),
            words=int(words.sum()),
            max_words_sent=int(words.max()),
            messages=int(messages.sum()),
            max_messages_sent=int(messages.max()),
            max_memory={
                "matrix": int(held.matrix[worst]),
                "halo": int(held.halo[worst]),
                "activations": int(held.activations[worst]),
                "total": int(held.total[worst]),
            },
        )


@dataclass(frozen=True)
class Report:
    """A plan's figures beside those of an even random partition.

    Attributes
    ----------
    num_ranks : int
        Parts, or fewer where parts are merged; all figures are of that many.
    vertex_data : list of str
        What the plan carries.
    parts : Traffic
    training, random_training : TrainingCost or None
        For given dims; the random one is computed with them.
    """

    path: str
    header: Header
    content_sha256: str
    provenance: dict[str, Any]
    vertex_data: list[str]
    num_ranks: int
    metrics: Metrics
    random: Metrics
    parts: Traffic
    training: TrainingCost | None
    random_training: TrainingCost | None

    def as_dict(self, per_part: bool = False) -> dict[str, Any]:
        """Ready for JSON."""
        result: dict[str, Any] = {
            "path": self.path,
            "header": asdict(self.header),
            "content_sha256": self.content_sha256,
            "provenance": self.provenance,
            "vertex_data": self.vertex_data,
            "num_ranks": self.num_ranks,
            "metrics": self.metrics.as_dict(),
            "random": self.random.as_dict(),
        }
        if self.training is not None and self.random_training is not None:
            result["training"] = asdict(self.training)
            result["random_training"] = asdict(self.random_training)
        if per_part:
            result["parts"] = {name: array.tolist() for name, array in vars(self.parts).items()}
        return result


def report(
    path: str | PathLike[str], *, dims: Sequence[int] | None = None, num_ranks: int | None = None
) -> Report:
    """Figures of a plan file.

    Parameters
    ----------
    path : path of the plan
    dims : list of int, optional
        Widths d_0..d_L, for words and memory of training.
    num_ranks : int, optional
        Figures after merging the parts onto that many ranks.

    Raises
    ------
    InputError
        If the file is missing, or `num_ranks` is not in 1..num_parts.
    PlanError
        If the file is damaged.
    """
    with PlanFile(path) as file:
        ranks = file.header.num_parts if num_ranks is None else num_ranks
        if not 1 <= ranks <= file.header.num_parts:
            raise InputError(f"{ranks} ranks: {file.path} runs on 1 to {file.header.num_parts}")
        merged = ranks < file.header.num_parts
        random = Metrics.from_dict(file.attributes("metrics"), prefix="random_")
        random_parts = None
        if merged or random is None or dims is not None:
            plan = file.read_plan()
            matrix = graph_of(plan)
            random_parts = random_traffic(matrix, ranks)
            random = summarize(random_parts)
        if merged:
            blocks = block_of_parts(plan.num_parts, ranks)
            rank_of_part = np.searchsorted(blocks, np.arange(plan.num_parts), side="right") - 1
            owner = rank_of_part[plan.owner()].astype(np.int32)
            parts = traffic_of_owners(matrix, owner, ranks)
        else:
            parts = _read_traffic(file)
        return Report(
            path=file.path,
            header=file.header,
            content_sha256=file.content_sha256,
            provenance=file.attributes("provenance"),
            vertex_data=file.vertex_data_names(),
            num_ranks=ranks,
            metrics=summarize(parts),
            random=random,
            parts=parts,
            training=None if dims is None else TrainingCost.of(parts, dims),
            random_training=(
                None
                if dims is None or random_parts is None
                else TrainingCost.of(random_parts, dims)
            ),
        )


def _read_traffic(file: PlanFile) -> Traffic:
    """Load and communication of every part from the offsets alone."""
    part_ptr = read_offsets(file, "rows/part_ptr", file.header.num_vertices)
    row_ptr = read_offsets(file, "matrix/row_ptr", file.header.num_nonzeros)
    counts = {}
    for prefix in ("send", "recv"):
        ptr = read_offsets(file, f"expand/{prefix}_ptr", file.messages)
        rows = read_offsets(file, f"expand/{prefix}_row_ptr", file.volume)
        counts[prefix] = (np.diff(rows[ptr]), np.diff(ptr))
    return Traffic(
        rows=np.diff(part_ptr),
        nonzeros=np.diff(row_ptr[part_ptr]),
        sent=counts["send"][0],
        received=counts["recv"][0],
        messages_sent=counts["send"][1],
        messages_received=counts["recv"][1],
    )
