"""`partition`: choose a partitioner, run it, and check its answer.

Trivial problems, such as a partition into one part, are solved without a partitioner.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from plancc.clock import wall_seconds
from plancc.errors import BackendError, BackendUnavailable, InputError
from plancc.models.block import block_owner
from plancc.models.limits import Limits
from plancc.models.problem import Hypergraph, WeightedGraph
from plancc.models.weights import MAX_TOTAL, check_num_parts, combined
from plancc.partitioners import OTHERWISE, PARTITIONERS
from plancc.partitioners.adapter import Adapter, scaled
from plancc.partitioners.options import AUTO, PartitionOptions
from plancc.partitioners.process import advice, run_in_child
from plancc.passes.context import Context
from plancc.passes.fill import fill_empty_parts
from plancc.passes.rebalance import rebalance
from plancc.registry import check_choice

TIME_LIMIT = 6 * 3600.0
"""Default time limit of a native partitioner, in seconds."""

MAX_TIME_LIMIT = 1e6
"""Largest time limit, in seconds, that the timers of the operating system accept."""

LEAST_EPSILON = 1e-3
"""When constraints are combined, smaller allowed imbalances are replaced by this one."""

TRIVIAL = "none"
"""Name of the partitioner in the result if no partitioner is needed (see `_trivial_owner`)."""


@dataclass(frozen=True)
class PartitionResult:
    """The owners that a partitioner has found, and how it found them.

    Attributes:
        owner (int32[num_vertices]): Part of every vertex; every part has at least one vertex.
        partitioner: Name of the partitioner; "none" if there was nothing to minimise.
        version: Version of the library; "" if it has none.
        preset: Preset of the partitioner; "" if it has none.
        about_run: Notes for the user, such as "metis is not installed".
        about_owners: Notes for the user, such as "metis left 1 of 8 parts empty".
        seconds: Wall-clock seconds of the run, including the start of the child process.
    """

    owner: npt.NDArray[np.int32]
    partitioner: str
    version: str = ""
    preset: str = ""
    about_run: list[str] = field(default_factory=list)
    about_owners: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def warnings(self) -> list[str]:
        return [*self.about_run, *self.about_owners]


def partition(
    problem: Hypergraph | WeightedGraph,
    num_parts: int,
    options: PartitionOptions | None = None,
    *,
    limits: Limits | None = None,
    stop: Callable[[], bool] | None = None,
) -> PartitionResult:
    """Split the vertices of `problem` into `num_parts` parts, each with at least one vertex.

    If a partitioner fails, "auto" falls back on partitioner "builtin"; if the user named the
    partitioner, BackendError is raised. Of `limits`, only names and allowed imbalances are used.
    """
    options = options or PartitionOptions()
    return partitions(problem, num_parts, [options.seed], options, limits=limits, stop=stop)[0]


def partitions(
    problem: Hypergraph | WeightedGraph,
    num_parts: int,
    seeds: Sequence[int],
    options: PartitionOptions,
    *,
    limits: Limits | None = None,
    stop: Callable[[], bool] | None = None,
) -> list[PartitionResult]:
    """Run `partition` once for every seed; return one result if there is nothing to minimise.

    `options.seed` is ignored. With `Adapter.several`, all seeds share one process and time limit.
    """
    check_num_parts(problem.num_vertices, num_parts)
    check_problem(problem)
    limits = _limits(problem.vertex_weights, num_parts, options, limits)
    about_run: list[str] = []
    adapters = _candidates(problem, options.partitioner, about_run)
    if options.preset is not None:
        check_choice(f"preset of {adapters[0].name}", options.preset, adapters[0].presets)
    trivial = _trivial_owner(problem, limits)
    if trivial is not None:
        notes = balance_notes(trivial, limits, "the partition")
        return [PartitionResult(trivial, TRIVIAL, about_owners=notes)]

    limit = min(options.time_limit or TIME_LIMIT, MAX_TIME_LIMIT)
    for adapter in adapters:
        preset = options.preset if options.preset in adapter.presets else adapter.presets[0]
        settings: dict[str, Any] = {"preset": preset, "threads": options.threads}
        start = wall_seconds()
        try:
            raws = _run(adapter, problem, seeds, limits, settings, limit, stop)
            about = problem.num_vertices, num_parts, f"; {advice(adapter.run)}"
            found = [checked_owner(adapter.name, raw, *about) for raw in raws]
            break
        except BackendError as error:
            if adapter is adapters[-1] or (stop is not None and stop()):
                raise
            words = str(error).removesuffix(f"; {OTHERWISE}")
            about_run.append(f"{words}; falling back to builtin")
    seconds = (wall_seconds() - start) / len(seeds)
    about_run += _notes(adapter, limits, preset, options.threads)
    made = PartitionResult(
        found[0], adapter.name, adapter.version(), preset, about_run, seconds=seconds
    )
    results = []
    for seed, owner in zip(seeds, found, strict=True):
        owner, about_owners = _mended(adapter, problem, owner, limits, seed)
        results.append(replace(made, owner=owner, about_owners=about_owners))
    return results


def _notes(adapter: Adapter, limits: Limits, preset: str, threads: int) -> list[str]:
    """Return notes for the user on what the partitioner cannot do with these settings."""
    notes = []
    if limits.unequal and not adapter.capacities:
        moved = "plancc moved vertices between them, to the shares of `capacities`"
        notes.append(f"{adapter.name} makes parts of one size: {moved}")
    if adapter.threaded and threads > 1 and "deterministic" not in preset:
        note = f"{adapter.name} with {threads} threads may give another partition in every run"
        note += "; preset deterministic does not" * ("deterministic" in adapter.presets)
        notes.append(note)
    return notes


def improver(problem: Hypergraph) -> Adapter | None:
    """Return the strongest installed adapter that improves partitions; None if there is none."""
    able = by_rank(problem, lambda adapter: adapter.strong_rank)
    return next((each.improver for each in able if each.improver and each.available()), None)


def improve(
    problem: Hypergraph,
    owner: npt.NDArray[np.int32],
    seed: int,
    limits: Limits,
    time_limit: float = TIME_LIMIT,
    stop: Callable[[], bool] | None = None,
) -> npt.NDArray[np.int32]:
    """Run a native library that improves a partition; the result may be worse, or unbalanced.

    BackendUnavailable is raised if no such library is installed.
    """
    adapter = improver(problem)
    if adapter is None:
        raise BackendUnavailable("no installed partitioner can improve a given partition")
    limit = min(time_limit, MAX_TIME_LIMIT)
    (raw,) = _run(adapter, problem, [seed], limits, {"owner": owner}, limit, stop)
    found = checked_owner(adapter.name, raw, problem.num_vertices, limits.num_parts)
    return fill_empty_parts(found, problem.vertex_weights, limits.num_parts)


def _mended(
    adapter: Adapter,
    problem: Hypergraph | WeightedGraph,
    owner: npt.NDArray[np.int32],
    limits: Limits,
    seed: int,
) -> tuple[npt.NDArray[np.int32], list[str]]:
    """Rebalance if the adapter knows no unequal limits; fill empty parts; return owners, notes."""
    if limits.unequal and not adapter.capacities:
        from plancc.partitioners.builtin import as_hypergraph

        owner = rebalance(owner, as_hypergraph(problem), Context(limits, seed))
    num_parts, notes = limits.num_parts, []
    size = np.bincount(owner, minlength=num_parts)
    if not size.all():
        empty = f"{int((size == 0).sum())} of {num_parts} parts empty"
        notes.append(f"{adapter.name} left {empty}; each was given a vertex")
        owner = fill_empty_parts(owner, problem.vertex_weights, num_parts)
    return owner, notes + balance_notes(owner, limits, adapter.name)


def _limits(
    weights: npt.NDArray[np.int64], num_parts: int, options: PartitionOptions, given: Limits | None
) -> Limits:
    """Return the parts' limits, with the imbalances that `options` allow.

    If `given` has the same number of constraints, its imbalances are used instead.
    """
    limits = Limits(weights, num_parts, options.epsilon, options.capacities)
    if given is None or len(given.names) != len(limits.names):
        return limits
    return replace(limits, epsilon=given.epsilon, names=given.names)


def check_problem(problem: Hypergraph | WeightedGraph) -> None:
    """Raise InputError if weights or costs are too small, or their sums too large."""
    costs = problem.net_costs if isinstance(problem, Hypergraph) else problem.edge_weights
    for what, values, least in (("vertex weight", problem.vertex_weights, 0), ("cost", costs, 1)):
        if values is None or len(values) == 0:
            continue
        if int(values.min()) < least:
            raise InputError(f"a {what} is {values.min()}; it must be at least {least}")
        if (values.sum(axis=0, dtype=np.float64) > MAX_TOTAL).any():
            raise InputError(f"the {what}s sum to more than {MAX_TOTAL}; scale them down")


def by_rank(
    problem: Hypergraph | WeightedGraph, ranks: Callable[[Adapter], Mapping[type, int]]
) -> list[Adapter]:
    """Return the partitioners for `problem` to which `ranks` gives a priority, highest first."""
    objective = problem.objective if isinstance(problem, WeightedGraph) else ""
    return by_rank_of_kind(type(problem), objective, ranks)


def by_rank_of_kind(
    kind: type, objective: str, ranks: Callable[[Adapter], Mapping[type, int]]
) -> list[Adapter]:
    """Return the partitioners with a priority for problems of type `kind`, highest first."""
    able = [a for a in PARTITIONERS.loaded().values() if a.takes_kind(kind, objective)]
    ranked = [a for a in able if kind in ranks(a)]
    return sorted(ranked, key=lambda adapter: -ranks(adapter)[kind])


def ranked(kind: type) -> list[str]:
    """Return the names of the partitioners among which "auto" chooses, the best first."""
    ranks = {n: a.auto_rank[kind] for n, a in PARTITIONERS.loaded().items() if kind in a.auto_rank}
    return sorted(ranks, key=lambda name: -ranks[name])


def strongest(problem: Hypergraph | WeightedGraph) -> Adapter | None:
    """Return the best strong partitioner (slow, but with good results) that accepts `problem`.

    Installed partitioners come first. None if there is no such partitioner.
    """
    return _best_of(by_rank(problem, lambda adapter: adapter.strong_rank))


def _best_of(ranked: Sequence[Adapter]) -> Adapter | None:
    """Return the first installed adapter, else the first adapter; None if `ranked` is empty."""
    return next((each for each in ranked if each.available()), ranked[0] if ranked else None)


def _candidates(
    problem: Hypergraph | WeightedGraph, partitioner: str, warnings: list[str]
) -> list[Adapter]:
    """Return the adapters to try: the named one, or for "auto" the best installed and "builtin"."""
    if partitioner != AUTO:
        adapter: Adapter = PARTITIONERS[partitioner]
        check_accepts(partitioner, type(problem))
        if not adapter.takes(problem):
            able = [name for name, each in PARTITIONERS.loaded().items() if each.takes(problem)]
            told = f"cannot partition {_describe(problem)}; choose from {', '.join(able)}"
            raise InputError(f"partitioner '{partitioner}' {told}")
        if not adapter.available():
            told = f"is not installed: {adapter.install}"
            raise BackendUnavailable(f"partitioner '{partitioner}' {told}")
        return [adapter]
    installed = []
    for adapter in by_rank(problem, lambda adapter: adapter.auto_rank):
        if adapter.available():
            installed.append(adapter)
        elif not installed:
            told = f"is not installed ({adapter.install}); trying the next partitioner"
            warnings.append(f"{adapter.name} {told}")
    builtin = PARTITIONERS["builtin"]
    return [installed[0], builtin] if installed and installed[0] is not builtin else [builtin]


def check_accepts(partitioner: str, kind: type) -> None:
    """Raise InputError if a partitioner does not accept problems of the type `kind`."""
    adapter: Adapter = PARTITIONERS[partitioner]
    if kind not in adapter.accepts:
        able = [name for name, each in PARTITIONERS.loaded().items() if kind in each.accepts]
        words = "a hypergraph" if kind is Hypergraph else "a graph"
        cure = f"use `model` {adapter.model}, which it suits, or choose from {', '.join(able)}"
        raise InputError(f"partitioner '{partitioner}' cannot partition {words}; {cure}")


def _describe(problem: Hypergraph | WeightedGraph) -> str:
    if isinstance(problem, Hypergraph):
        return "a hypergraph"
    return f"a graph for objective '{problem.objective}'"


def _trivial_owner(
    problem: Hypergraph | WeightedGraph, limits: Limits
) -> npt.NDArray[np.int32] | None:
    """Return owners if there is one part, one vertex per part, or no net or edge; else None."""
    n, num_parts = problem.num_vertices, limits.num_parts
    if num_parts == 1:
        return np.zeros(n, dtype=np.int32)
    weights = combined(problem.vertex_weights)
    heaviest_first = np.argsort(-weights, kind="stable")
    if num_parts == n:
        owner = np.arange(n, dtype=np.int32)
        if limits.unequal:
            owner[heaviest_first] = np.argsort(-limits.relative, kind="stable")
        return owner
    links = problem.pins if isinstance(problem, Hypergraph) else problem.indices
    if len(links) == 0:
        if limits.unequal:
            return block_owner(weights, num_parts, limits.capacities)
        # Deal the vertices out, heaviest first, forth and back over the parts.
        place = np.arange(n) % (2 * num_parts)
        owner = np.empty(n, dtype=np.int32)
        owner[heaviest_first] = np.minimum(place, 2 * num_parts - 1 - place)
        return owner
    return None


def _run(
    adapter: Adapter,
    problem: Hypergraph | WeightedGraph,
    seeds: Sequence[int],
    limits: Limits,
    options: dict[str, Any],
    time_limit: float,
    stop: Callable[[], bool] | None,
) -> list[object]:
    """Run the partitioner with weights that it accepts; return its unchecked answer per seed."""
    weights, num_parts = problem.vertex_weights, limits.num_parts
    epsilon: Any = np.minimum(limits.epsilon, num_parts - 1.0)  # the largest possible imbalance
    if weights.ndim > 1:
        counts = weights.any(axis=0)
        if adapter.constraints and np.count_nonzero(counts) > 1:
            weights, epsilon = weights[:, counts], epsilon[counts]
        else:
            weights, epsilon = _combined_constraint(weights, epsilon)
    options = options | {"epsilon": epsilon if weights.ndim > 1 else float(np.max(epsilon))}
    if limits.unequal and adapter.capacities:
        options["capacities"] = (shares := np.array(limits.capacities)) / shares.sum()
    if not weights.any():
        weights = np.ones(len(weights), dtype=np.int64)
    costs = "net_costs" if isinstance(problem, Hypergraph) else "edge_weights"
    given = {"vertex_weights": weights, costs: getattr(problem, costs)}
    most = adapter.max_total
    fitted: Any = {name: x if x is None else scaled(x, most) for name, x in given.items()}
    fitting = replace(problem, **fitted)

    def answer(seed: dict[str, Any]) -> Any:
        if adapter.library:
            return run_in_child(adapter, fitting, num_parts, seed | options, time_limit, stop)
        return adapter.run(fitting, num_parts, **seed, **options)

    if not adapter.several:
        return [answer({"seed": seed}) for seed in seeds]
    found = answer({"seeds": list(seeds)})
    if not isinstance(found, list | np.ndarray) or len(found) != len(seeds):
        told = "gave a wrong answer: not a partition for every seed"
        raise BackendError(f"{adapter.name} {told}; {advice(adapter.run)}")
    return list(found)


def _combined_constraint(
    weights: npt.NDArray[np.int64], epsilon: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.int64], float]:
    """Combine several constraints: return one weight per vertex, and one allowed imbalance.

    A constraint counts in inverse proportion to its allowed imbalance (`epsilon`). A partition
    within all limits is within the combined limit.
    """
    if (epsilon == epsilon[0]).all():
        return combined(weights), float(epsilon[0])
    importance = 1 / np.maximum(epsilon, LEAST_EPSILON)
    importance /= importance.sum()
    return combined(weights, importance), float(importance @ epsilon)


def checked_owner(
    who: str, raw: object, num_vertices: int, num_parts: int, advice: str = ""
) -> npt.NDArray[np.int32]:
    """Return a partitioner's answer as owners, int32[n]; raise BackendError if it is wrong.

    `who` and `advice` are the start and the end of the message.
    """
    wrong = ""
    try:
        owner = np.asarray(raw)
    except ValueError:
        owner = np.empty(0)
    if owner.dtype.kind not in "iu" or owner.shape != (num_vertices,):
        wrong = f"{owner.dtype}{list(owner.shape)} instead of {num_vertices} part numbers"
    elif int(owner.min()) < 0 or int(owner.max()) >= num_parts:
        wrong = f"part numbers {owner.min()}..{owner.max()} instead of 0..{num_parts - 1}"
    if wrong:
        raise BackendError(f"{who} gave a wrong answer: {wrong}{advice}")
    return owner.astype(np.int32, copy=False)


NOISE = 1.1
"""Users get no note if the imbalance is at most epsilon times this number."""
ROUNDED = 0.05
"""If no part is above its limit, users get a note if the imbalance exceeds epsilon by more than
this number. It can exceed epsilon, since limits are rounded to whole vertices."""


def balance_notes(owner: npt.NDArray[np.int32], limits: Limits, who: str) -> list[str]:
    """Return notes for the user on vertices that are too heavy, and on owners out of balance."""
    notes = []
    for each in limits.apart():
        about = f"{each.names[0]}: " if len(limits.names) > 1 else ""
        loads, share = each.load(owner), int(each.total[0]) / each.num_parts
        heavy = bool((each.least > each.allowed).any())
        if heavy:
            lightest, heaviest = each.weights.min(), each.weights.max()
            cause = f"the heaviest vertex weighs {heaviest}, the average part {share:.1f}"
            if each.capacities is not None:
                cause += f" and the largest {each.share.max():.1f}"
            if (each.allowed < lightest).any():
                cause = f"every vertex weighs {lightest} or more"
                cause += f", the least share is {each.share.min():.3g}"
            bound = each.least_imbalance[0]
            notes.append(f"{about}{cause}: no partition has an imbalance below {bound:.3f}")
        loads = loads.reshape(-1, 1)
        over, epsilon = loads > each.limit, each.epsilon[0]
        reached = each.imbalance(np.where(over, loads, 0) if over.any() else loads)[0]
        said = f"{about}imbalance {reached:.4g} of {who} is above epsilon {epsilon:g}"
        if over.any() and reached > NOISE * epsilon:
            notes.append(said)
        elif not over.any() and reached > epsilon + ROUNDED and not heavy:
            notes.append(f"{said}: the average part weighs {share:.1f}, in whole vertices")
    return notes
