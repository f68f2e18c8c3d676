"""The predicted time of an epoch, with a lower bound and the time of a random partition.

A prediction needs a *basis*: a machine, and the widths of the layers. Every command that prints a
time chooses the basis here. The basis is the first of these that exists: the values that the user
gives, the values that the plan records, the widths of the plan's features and labels, the defaults.
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
        predictor: Predicts epochs with this machine and these widths.
        dims_from: Where the widths come from: "given" by the user, "plan" (its provenance), "data"
            (its features and labels), "default", or "differ" (the default, because the plans to
            compare have different widths).
        machine_from: Where the machine comes from: "given", "plan", "default" or "differ".
        excess: Why no time is predicted: the labels have so many classes that the last width seems
            wrong (`DataWidths.excess`). Empty if times are predicted, and always if the user gives
            the widths.
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

        Parameters:
            provenance: Provenance of the plan; recorded widths that contradict its data are
                ignored.
            widths: Widths of the plan's vertex data.
            dims, machine: Widths and machine that the user gives, or None.

        Raises:
            InputError: If given widths contradict the data.
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
        """Return the basis for a plan file; for the other parameters see `of`.

        Parameters:
            file: The open plan file.
            links: Whether the task is link prediction. If so, the output layer has no classes: its
                width is given by `dims`; if `dims` is None, it is the width of the last hidden
                layer.
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
        """Return one basis (machine and widths of predictions) for several plans.

        If all plans have the same machine, the basis has this machine, else the default machine.
        Likewise, the basis has the widths of all plans if they agree, else the default widths.
        """
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
        basis: Machine and widths for which the times are predicted.
        seconds: Predicted seconds of an epoch, as `plancc simulate` prints them, but without the
            work for link prediction. None if there is no prediction; `why` then says why.
        bound: Seconds of an epoch if all work were evenly spread and no rows were exchanged
            (`Predictor.bound`).
        random: Seconds of an epoch of a random row partition over the same number of ranks
            (`Predictor.of_random`). None if unknown, because the matrix was not read.
        exchange: Seconds that the epoch spends on sending, without the all-reduce of gradients.
            They are the slowest rank's seconds in each step that sends, summed over these steps.
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
        """Return the predicted epoch times of a plan.

        Parameters:
            basis: Machine and widths.
            tables: Sizes of the plan's parts and messages.
            random: Seconds of a random partition, if they are known.

        Raises:
            InputError: If the user gave machine or widths, and a width is too small for the grid,
                or the machine has speeds for another number of ranks. If the user gave neither, no
                error is raised, and `why` holds the message.
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
        """Return another plan's epoch seconds with the same machine and widths; None if unknown."""
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
    """Return the epoch seconds of a random partition that a plan's provenance records.

    Return None if the provenance has none, or if its machine or widths differ from the basis.
    """
    seconds = provenance.get("random_epoch_seconds")
    if not isinstance(seconds, int | float) or not (math.isfinite(seconds) and seconds > 0):
        return None
    predictor = basis.predictor
    same = recorded_machine(provenance) == predictor.machine
    return seconds if same and recorded_dims(provenance) == list(predictor.dims) else None
