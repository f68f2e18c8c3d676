"""Choice of the execution for a plan and options. Checks that plan and options fit each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from plancc.errors import InputError
from plancc.files import StrPath
from plancc.plan.grid import Grid
from plancc.plan.parts import Part
from plancc.registry import check_choice
from plancc_runtime.data import LocalData
from plancc_runtime.execution.full_batch import FullBatch
from plancc_runtime.execution.protocol import Execution
from plancc_runtime.kernels.spmm import KERNELS
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.nn import MODELS, is_own
from plancc_runtime.nodes import check_exchange
from plancc_runtime.options import BATCH_OPTIONS, RATES_KEPT, TrainOptions
from plancc_runtime.slices import Slice
from plancc_runtime.tasks.base import LearningTask

if TYPE_CHECKING:
    from plancc_runtime.execution.drawn import Drawn


def agree(plan: StrPath | Slice, task: LearningTask, num_ranks: int) -> Drawn | None:
    """Check that plan and options fit each other; return how mini-batches are drawn.

    The result is None for a full batch. Not collective. `task.header` comes from
    `slices.run_header`.
    """
    header, options = task.header, task.options
    if options.kernel != "auto":
        check_choice("kernel", options.kernel, KERNELS)
    check_layout(task)
    check_exchange(header, options.exchange, num_ranks)
    if not options.mini_batches:
        return None
    from plancc_runtime.execution.drawn import chosen_batches

    return chosen_batches(plan, task)


def execution_of(
    task: LearningTask,
    part: Part,
    data: LocalData,
    resources: Resources,
    drawn: Drawn | None = None,
) -> Execution:
    """Return the execution that the options ask for. Collective.

    `check_layout` must have accepted the task; `part` has rows in the order of `layouts.order`.
    """
    options = task.options
    if is_own(options.model):
        from plancc_runtime.execution.own_models import OwnModels

        return OwnModels(task, part, data, resources)
    if not task.model(options.model).reads_edges:
        part = part.without_read_columns()
    if part.grid is not None:
        from plancc_runtime.execution.grids import Grids

        return Grids(task, part, data, resources)
    if drawn is not None:
        from plancc_runtime.execution.mini_batches import MiniBatches

        return MiniBatches(task, part, data, resources, drawn)
    if options.fold != "sync":
        from plancc_runtime.execution.clones import LateFolds

        return LateFolds(task, part, data, resources)
    return FullBatch(task, part, data, resources)


def check_layout(task: LearningTask) -> None:
    """Raise InputError if an option needs a plan of another layout. Not collective."""
    header, options = task.header, task.options
    if is_own(options.model):
        from plancc_runtime.nn.own_class import check_plan

        check_plan(header, options, " ".join({*task.between} & {"hidden"}))
        return task.check()
    task.check()
    kind = task.model(options.model)
    for name in options.chosen(RATES_KEPT) if kind.reads_edges else ():
        raise InputError(
            f"{options.setting(name)}: sampled edges have no features, but `model` "
            f"{options.model} reads features of edges; leave the sampling out"
        )
    if header.layout != "edge" and options.fold != "sync":
        raise InputError(
            f"`fold` {options.fold} needs an edge plan, but the layout of this plan is "
            f"'{header.layout}'"
        )
    if options.dtype == "bfloat16" and (
        options.aggregator == "max" or not MODELS[options.model].takes_bfloat16
    ):
        name = "aggregator" if options.aggregator == "max" else "model"
        raise InputError(
            f"`dtype` bfloat16 is not supported for {options.setting(name).replace('`', '')}, "
            "which compares or weighs single neighbours; use float32 or float64"
        )
    if options.recompute and header.layout not in ("row", "edge"):
        raise InputError(
            "`recompute` needs a row plan or an edge plan, but the layout of this plan is "
            f"'{header.layout}'"
        )
    grid = header.grid
    if grid is not None and grid.layout == "feature":
        _check_feature(grid, options)
    else:
        for name in options.chosen(("pipeline", "aggregate_on")):
            raise InputError(
                f"{options.setting(name)} needs a plan of layout 'feature' (compile with model "
                f"mop), but the layout of this plan is '{header.layout}'"
            )
    if header.layout == "row":
        return
    if options.dtype == "bfloat16":
        raise InputError(
            f"`dtype` bfloat16 needs a row plan, but the layout of this plan is '{header.layout}'"
        )
    row_only = ("sampler", *BATCH_OPTIONS, "sampler_options", *RATES_KEPT)
    wanted = [options.setting(name) for name in options.chosen(row_only)]
    if grid is not None:
        _check_grid(grid, options, wanted)
        return
    if MODELS[options.model].whole_rows:
        wanted.append(f"`model` {options.model}")
    if wanted:
        raise InputError(
            f"{wanted[0]} needs a row plan, but this is an edge plan, in which several ranks "
            "share a row"
        )


def _check_feature(grid: Grid, options: TrainOptions) -> None:
    if MODELS[options.model].whole_rows:
        raise InputError(
            f"`model` {options.model}: attention weighs whole rows, but a rank of a feature plan "
            "has only some of their columns; use a row plan"
        )
    if options.aggregator == "max":
        raise InputError("`aggregator` max does not work on a feature plan; use mean, sum or gcn")
    if options.wire != "fp32" and grid.rows == 1:
        raise InputError(
            f"`wire` {options.wire} has no effect: it rounds halo rows between groups of ranks, "
            f"but grid '{grid}' has one group; leave `wire` out"
        )
    if options.pipeline != "off" and grid.rows > 1:
        raise InputError(
            f"`pipeline` {options.pipeline} needs a plan with one group of ranks, "
            f"but grid '{grid}' has {grid.rows} groups"
        )


def _check_grid(grid: Grid, options: TrainOptions, wanted: list[str]) -> None:
    """Raise InputError for options that a process grid does not support.

    `wanted` lists the chosen options that need a row plan; this function appends further ones.
    """
    if MODELS[options.model].whole_rows:
        raise InputError(
            f"`model` {options.model}: attention needs all neighbours of a row at once, but "
            f"grid '{grid}' sends them piece by piece; use a row plan"
        )
    if grid.layout == "grid" and options.row_order not in ("auto", "none"):
        raise InputError(
            f"{options.setting('row_order')}: rows of grid '{grid}' cannot be reordered; leave "
            "the option out"
        )
    if options.aggregator == "max":
        wanted.append("`aggregator` max")
    if options.norm != "none" and grid.splits_columns:
        wanted.append(f"`norm` {options.norm}")
    if "order" not in options.passes:
        wanted.append(f"`passes` {','.join(options.passes) or 'none'}, without order")
    if grid.layout == "grid" and options.wire != "fp32":
        wanted.append(f"`wire` {options.wire}")
    if wanted:
        raise InputError(f"{wanted[0]} needs a row plan, but this is a plan of grid '{grid}'")


def check_widths(task: LearningTask, data: LocalData) -> None:
    """Raise InputError if a layer has fewer columns than the process grid. Not collective."""
    header, options = task.header, task.options
    if header.grid is not None:
        hidden = [options.hidden] * (options.layers > 1)
        for width in (data.num_features, *hidden, data.num_classes):
            header.grid.check_width(width)
