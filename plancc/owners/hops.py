"""Add node-aware exchange or relays to a plan; advise the user how to get a quicker plan."""

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
"""A plan for objective "volume" keeps node-aware exchange, which sends fewer rows between nodes,
unless the predicted epoch becomes longer by more than this factor."""


def with_hops(plan: Plan, task: Task, options: PlanOptions) -> tuple[Plan, list[str], str]:
    """Return the plan with node-aware exchange or relays, if requested or predicted to be faster.

    For exchange "auto", relays are tried only for many parts and objectives about the busiest part.
    Also return notes for the user, and the chosen relays for the provenance, or "".
    """
    routed, notes = _on_nodes(plan, task, options.exchange)
    way, _, most = options.exchange.partition(":")
    asked, predictor = way == "relays", task.options.predictor
    busiest = task.objective in OBJECTIVES and OBJECTIVES[task.objective].of_busiest
    if asked or (options.exchange == "auto" and plan.num_parts >= MANY and busiest):
        relayed, seconds, how = best_relays(plan, predictor, int(most or 3))
        if asked or seconds < predictor.epoch(tables_of(routed)).seconds:
            return relayed, [], how
    return routed, notes, ""


def _on_nodes(plan: Plan, task: Task, exchange: str) -> tuple[Plan, list[str]]:
    """Return the plan with node-aware exchange if the task has a topology, and notes for the user.

    With exchange "auto", node-aware exchange is used only if the predicted epoch does not become
    longer or, for objective "volume", becomes at most `SLOWER` times as long.
    """
    topology, predictor = task.options.nodes, task.options.predictor
    if topology is None or exchange.startswith(("flat", "relays")):
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
        f"node-aware exchange ({topology}) is not used, since it is predicted to be "
        f"{hops / flat - 1:.2%} slower ({four_digits(1e3 * hops)} ms an epoch, without "
        f"{four_digits(1e3 * flat)} ms; machine {predictor.machine.title}); "
        "`exchange` nodes uses it all the same"
    ]


def advice(plan: Plan, forecast: Forecast, request: Request, balance: Balance) -> str:
    """Return advice for the user of a plan that is slower than a random partition."""
    task, model = request.task, MODELS[request.assigner.named]
    if plan.header.route is not None:
        straight = task.options.predictor.epoch(tables_of(plan).flat()).seconds
        if straight < (forecast.seconds or 0.0):
            took = four_digits(1e3 * straight)
            return f"with direct messages (`exchange` flat) it takes {took} ms"
    chooses = model.layout == "any"  # the model chooses among models
    if model.searched and model.layout == "row" and "rows" not in balance.names:
        return f"try `balance` {DEFAULT_BALANCE}"
    if (model.searched or chooses) and (
        task.options.objective or model.default_objective
    ) != "time":
        return "try `objective` time, or fewer parts"
    return "try fewer parts" if chooses else "try `model` auto, or fewer parts"
