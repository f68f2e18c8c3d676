"""What makes a plan's predicted epoch shorter: hops between nodes or over relays, and advice."""

from __future__ import annotations

from plancc.cost.objectives import OBJECTIVES
from plancc.models import MODELS
from plancc.models.weights import DEFAULT_BALANCE, Balance
from plancc.options import PlanOptions
from plancc.owners.request import Request
from plancc.owners.task import Task
from plancc.plan.plan import Plan
from plancc.plan.routes import MANY, with_routes
from plancc.predict.forecast import Forecast
from plancc.predict.relays import best_relays
from plancc.predict.schedules import tables_of
from plancc.text import four_digits

SLOWER = 1.02
"""Epoch with hops over that without, up to which a search for the volume keeps them: they move
fewer rows between nodes."""


def with_hops(plan: Plan, task: Task, options: PlanOptions) -> tuple[Plan, list[str], str]:
    """The plan with hops, what the user should know of them, and how relays were chosen; "": none.

    "auto" tries relays for objectives of the busiest part, with many parts.
    """
    routed, notes = _on_nodes(plan, task, options.exchange)
    asked, predictor = options.exchange == "relays", task.options.predictor
    busiest = task.objective in OBJECTIVES and OBJECTIVES[task.objective].of_busiest
    if asked or (options.exchange == "auto" and plan.num_parts >= MANY and busiest):
        relayed, seconds, how = best_relays(plan, predictor, options.relay_hops or 3)
        if asked or seconds < predictor.epoch(tables_of(routed)).seconds:
            return relayed, [], how
    return routed, notes, ""


def _on_nodes(plan: Plan, task: Task, exchange: str) -> tuple[Plan, list[str]]:
    """The plan with hops for the nodes of a topology, and what the user should know of it.

    "auto" leaves them out where the epoch is predicted to take longer with them; for objective
    "volume", by more than `SLOWER`.
    """
    topology, predictor = task.options.nodes, task.options.predictor
    if topology is None or exchange in ("flat", "relays"):
        return plan, []
    if not 1 < topology.nodes < topology.num_ranks:
        return plan, []
    routed = with_routes(plan, topology)
    tables = tables_of(routed)
    there = tables.on_nodes(predictor.machine.node.ranks)
    if exchange == "nodes" or there.topology is None:
        return routed, []
    flat, hops = (predictor.epoch(each).seconds for each in (tables.flat(), tables))
    allowed = SLOWER if task.objective == "volume" else 1.0
    if hops <= allowed * flat:
        return routed, []
    return plan, [
        f"node-aware exchange ({topology}) is not used: it is predicted to make an epoch "
        f"{hops / flat - 1:.1%} slower ({four_digits(1e3 * hops)} ms, without it "
        f"{four_digits(1e3 * flat)} ms; machine {predictor.machine.title}); "
        "`exchange` nodes forces it"
    ]


def advice(plan: Plan, forecast: Forecast, request: Request, balance: Balance) -> str:
    """What may make an epoch faster that is slower than that of a random partition.

    Parameters:
        balance: What the parts of the plan share evenly.
    """
    task, model = request.task, MODELS[request.assigner.named]
    if plan.header.route is not None:
        straight = task.options.predictor.epoch(tables_of(plan).flat()).seconds
        if straight < (forecast.seconds or 0.0):
            took = four_digits(1e3 * straight)
            return f"without hops, by `exchange` flat, it takes {took} ms"
    chooses = model.layout == "any"  # among models
    if model.searched and model.layout == "row" and "rows" not in balance.names:
        return f"try `balance` {DEFAULT_BALANCE}"
    if (model.searched or chooses) and (
        task.options.objective or model.default_objective
    ) != "time":
        return "try `objective` time, or fewer parts"
    return "try fewer parts" if chooses else "try `model` auto, or fewer parts"
