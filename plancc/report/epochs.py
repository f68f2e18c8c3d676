"""The predicted time of an epoch, with a lower bound and the time of a random partition.

Here every command chooses the *basis* of its times, a machine and widths: those that the user
gives, else those in the plan's provenance, else the widths of features and labels, else defaults.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from plancc.errors import InputError
from plancc.plan.plan import Plan
from plancc.plan.reader import PlanFile
from plancc.plan.values import Header
from plancc.predict.machine import Machine
from plancc.predict.passes import DEFAULT_DIMS
from plancc.predict.predictor import Predictor, default_predictor
from plancc.predict.schedules import Tables, tables_of
from plancc.predict.widths import DataWidths
from plancc.report.provenance import recorded_dims, recorded_machine


@dataclass(frozen=True)
class Basis:
    """Machine and widths of the layers for a prediction, and where they come from.

    Attributes:
        dims_from: "given" by the user, "plan" (provenance), "data" (features and labels),
            "default", or "differ" (the default, because compared plans have different widths).
        machine_from: "given", "plan", "default" or "differ".
        excess: Why no time is predicted (`DataWidths.excess`); empty if times are predicted.
    """

    predictor: Predictor
    dims_from: str
    machine_from: str
    excess: str = ""

    @classmethod
    def of(
        cls,
        provenance: Mapping[str, Any],
        widths: DataWidths,
        dims: Sequence[int] | None = None,
        machine: Machine | None = None,
    ) -> Basis:
        """Return the machine and the widths for which the times of a plan are predicted.

        `dims` and `machine` come first, then what `provenance` has recorded. Recorded widths that
        contradict the data are ignored.
        """
        dims_from = machine_from = "given"
        if dims is not None:
            widths.check(dims)
        elif (recorded := recorded_dims(provenance)) and not widths.contradiction(recorded):
            dims, dims_from = recorded, "plan"
        else:
            dims, dims_from = widths.dims, "data" if widths.known else "default"
        if machine is None:
            machine = recorded_machine(provenance)
            machine_from = "default" if machine is None else "plan"
        excess = "" if dims_from == "given" else widths.excess
        return cls(default_predictor(dims, machine), dims_from, machine_from, excess)

    def check(self, where: str = "") -> None:
        """Raise InputError if these widths allow no prediction; the message begins with `where`."""
        if self.excess:
            raise InputError(
                f"{where}{self.excess}; number the classes from 0, or give `dims` to allow so many"
            )

    @classmethod
    def read(
        cls,
        file: PlanFile,
        dims: Sequence[int] | None = None,
        machine: Machine | None = None,
        links: bool = False,
    ) -> Basis:
        """Return the machine and widths for predictions of a plan file; for parameters see `of`.

        With `links`, the output width is not the number of classes: it comes from `dims`, or else
        equals the last hidden width.
        """
        widths = DataWidths.read(file)
        if links:
            widths = DataWidths(widths.features)
        try:
            found = cls.of(file.attributes("provenance"), widths, dims, machine)
            if links and dims is None:
                *inner, _ = found.predictor.dims
                predictor = replace(
                    found.predictor, dims=(*inner, (inner[1:] or DEFAULT_DIMS[1:])[-1])
                )
                found = replace(found, predictor=predictor)
            return found.on_nodes_of(file.header)
        except InputError as error:
            raise InputError(f"{file.path}: {error}") from None

    def on_nodes_of(self, header: Header) -> Basis:
        """Return a copy whose machine has as many ranks per node as the plan with this header."""
        machine = self.predictor.machine.on_nodes(header.ranks_per_node)
        return replace(self, predictor=replace(self.predictor, machine=machine))

    @classmethod
    def shared(cls, several: Sequence[Basis]) -> Basis:
        """Return a machine and layer widths for several plans: defaults where the plans differ."""
        first, usual = several[0], default_predictor()
        dims, machine = first.predictor.dims, first.predictor.machine
        dims_from, machine_from = first.dims_from, first.machine_from
        excess = next((each.excess for each in several if each.excess), "")
        if any(each.predictor.dims != dims for each in several):
            dims, dims_from, excess = usual.dims, "differ", ""
        if any(each.predictor.machine != machine for each in several):
            machine, machine_from = usual.machine, "differ"
        predictor = replace(first.predictor, dims=dims, machine=machine)
        return cls(predictor, dims_from, machine_from, excess)

    @property
    def given(self) -> bool:
        """Whether the user gave the machine or the widths."""
        return "given" in (self.dims_from, self.machine_from)

    def as_dict(self) -> dict[str, Any]:
        """Return the basis as a dict that can be written as JSON."""
        return {
            "dims": list(self.predictor.dims),
            "dims_from": self.dims_from,
            "passes": list(self.predictor.passes),
            "machine": self.predictor.machine.as_dict(),
            "machine_from": self.machine_from,
        }


@dataclass(frozen=True)
class EpochTimes:
    """The predicted time of a plan's epoch, and other times for comparison.

    Attributes:
        seconds: Seconds as in `plancc simulate`, without link prediction's work; None if unknown.
        bound: Seconds if all work were evenly spread, without exchanges (`Predictor.bound`).
        random: Seconds of a random row partition; None if the matrix was not read.
        exchange: Sum over sending steps of the slowest rank's seconds, without the all-reduce.
        why: Why there is no prediction; empty if there is one.
    """

    basis: Basis
    seconds: float | None = None
    bound: float | None = None
    random: float | None = None
    exchange: float | None = None
    why: str = ""

    @classmethod
    def of(cls, basis: Basis, tables: Tables, random: float | None = None) -> EpochTimes:
        """Return the predicted epoch times of a plan; `random`: seconds with a random partition.

        If the machine or the widths do not fit the plan, `why` has the reason; but InputError is
        raised if the user gave one of them.
        """
        sizes = int(tables.rows.sum()), int(tables.nonzeros.sum()), tables.num_ranks
        try:
            basis.check()
            epoch = basis.predictor.epoch(tables)
            exchange = epoch.communication - epoch.of_step("all-reduce")[0]
            bound = basis.predictor.bound(*sizes)
            return cls(basis, epoch.seconds, bound, random, exchange)
        except InputError as error:
            if basis.given:
                raise InputError(f"{tables.name}: {error}") from None
            return cls(basis, why=str(error))

    @classmethod
    def of_plan(cls, plan: Plan) -> EpochTimes:
        """Return the times of a plan in memory, for the machine and widths that it records."""
        provenance = plan.provenance
        basis = Basis.of(provenance, DataWidths.of(plan.vertex_data)).on_nodes_of(plan.header)
        return cls.of(basis, tables_of(plan), recorded_random(provenance, basis))

    def beside(self, plan: Plan) -> float | None:
        """Return the epoch seconds of another plan with the same machine and widths, or None."""
        try:
            return self.basis.predictor.epoch(tables_of(plan)).seconds
        except InputError:
            return None

    def as_dict(self) -> dict[str, Any]:
        """Return the times as a dict that can be written as JSON."""
        return {
            "seconds": self.seconds,
            "bound_seconds": self.bound,
            "random_seconds": self.random,
            **self.basis.as_dict(),
            **({"why": self.why} if self.why else {}),
        }


def recorded_random(provenance: Mapping[str, Any], basis: Basis) -> float | None:
    """Return a random partition's epoch seconds, as recorded; None if machine or widths differ."""
    seconds = provenance.get("random_epoch_seconds")
    if not isinstance(seconds, int | float) or not (math.isfinite(seconds) and seconds > 0):
        return None
    predictor = basis.predictor
    same = recorded_machine(provenance) == predictor.machine
    return seconds if same and recorded_dims(provenance) == list(predictor.dims) else None
