"""Mini-batches for a user's own training loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from plancc.errors import InputError
from plancc.files import StrPath
from plancc.plan.parts import Part
from plancc.plan.population import num_training, read_population
from plancc.plan.reader import PlanFile
from plancc.plan.values import Header
from plancc.registry import check_choice
from plancc.sampling import chosen_sampler
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.draws import check_draw, draws_of, owners_draw
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.options import DRAWS
from plancc_runtime.slices import sampler_of
from plancc_runtime.transport.row_numbers import finished


@dataclass(frozen=True, eq=False)
class Batch:
    """This rank's share of a mini-batch.

    Attributes:
        number: Index of the batch in the run, from 0.
        graphs: One graph for every layer, beginning with the first layer.
        rows (int64[m]): Local rows of the batch: indices into features, labels and masks.
        targets (bool[m]): Whether the loss counts each row. It counts all rows, or only the rows of
            drawn seed vertices.
    """

    number: int
    graphs: list[LocalGraph]
    rows: Tensor
    targets: Tensor


def drawn_batches(
    plan: StrPath,
    of_rank: tuple[Header, Part],
    resources: Resources,
    sampler: str | None,
    options: dict[str, Any],
    *,
    layers: int,
    seed: int,
    epochs: int,
) -> Iterator[Batch]:
    """Yield the mini-batches of all epochs. The call and each step of the iteration are collective.

    `of_rank`: the plan's header, and this rank's part. For the other parameters see
    `Graph.batches`.
    """
    (header, part), transport = of_rank, resources.transport
    given = {"sampler": sampler, "layers": layers, "seed": seed, "epochs": epochs, **options}
    transport.check_alike(given)
    with transport.agreement():
        if header.layout != "row":
            raise InputError(f"mini-batches need a row plan; this plan has layout {header.layout}")
        with PlanFile(plan) as file:
            recorded, training = sampler_of(file), num_training(file)
        n, choice = header.num_vertices, options.pop("draw", "auto")
        chosen = chosen_sampler(recorded, n, training, sampler, **options)
        chosen.check_layers(layers)
        check_choice("draw", choice, DRAWS)
        check_draw(choice, chosen)
    by_owners, _ = owners_draw(choice, chosen, part, header, transport)
    with transport.agreement():
        with PlanFile(plan) as file:
            population = read_population(file, chosen, with_pattern=not by_owners)
        chosen, _ = chosen.fitted(population)
        if not by_owners:
            chosen.check(population)
    block = Block.of_part(part, header.self_loops)
    draws = draws_of(block, chosen, population, seed, transport, by_owners, resources.clock)
    steps = epochs * chosen.batches_per_epoch(population)
    del population  # the draws keep what they need of it
    for number in range(steps):
        local = finished(draws.share(number))
        graphs = [LocalGraph(each, resources) for each in local.blocks]
        yield Batch(
            number,
            graphs if len(graphs) > 1 else graphs * layers,
            torch.from_numpy(local.rows).to(resources.device),
            torch.from_numpy(local.targets).to(resources.device),
        )
