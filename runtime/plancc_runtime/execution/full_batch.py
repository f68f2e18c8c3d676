"""How full-batch epochs are executed: the passes that avoid communication, and boundary sampling.

Knows a rank's slice and options, whatever the layout; must not know losses or files.

    order       every layer moves the narrower of H and H W            (in the layers, `nn.conv`)
    constant    the first layer's exchange of the features is done once, and none goes back
    dead-rows   rows that no labelled training vertex depends on are left out (`layouts.live`)
    overlap     own rows are multiplied while messages travel          (`layouts.row`, `.edge`)

All are exact: losses and weights are those of an execution without them, but for the order of
floating-point sums. A pass that does not fit the options is off, and `Execution.off` says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import torch

from plancc.errors import InputError, PlanccError
from plancc.plan.grid import Grid
from plancc.plan.parts import Part
from plancc.plan.values import Header, Int64Array
from plancc_runtime.clock import Clock
from plancc_runtime.data import LocalData
from plancc_runtime.execution.clones import CloneEpochs
from plancc_runtime.kernels.spmm import choose_kernel
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.boundary import drawn, samples, told
from plancc_runtime.layouts.edge import with_whole_rows
from plancc_runtime.layouts.feature import check_feature
from plancc_runtime.layouts.live import isolated, live_blocks, live_halo
from plancc_runtime.layouts.local import LocalGraph, local_graph
from plancc_runtime.layouts.row import matrix_of
from plancc_runtime.nn import MODELS
from plancc_runtime.nn.conv import Conv
from plancc_runtime.nn.network import Network
from plancc_runtime.options import BATCH_OPTIONS, PASSES, RATES_KEPT, TrainOptions
from plancc_runtime.transport.base import Transport
from plancc_runtime.views import View


@dataclass(frozen=True)
class Figures:
    """Words that one training epoch moves, forward and back, over all ranks.

    Without the set-up, evaluations and reductions; a word is one number, whatever its type.

    Attributes
    ----------
    plain : int
        Without any pass, as paper 000 executes it: for a GCN volume x sum of (d_{k-1} + d_k). The
        volume of an edge plan is that of both steps. Of process grids, as paper 001 does.
    words : dict of str to int
        With the passes up to each of those that are on and change the number, in the order of
        `PASSES`.
    planned : int
        With all of them.
    """

    plain: int
    words: dict[str, int]
    planned: int


class Execution:
    """The views of the epochs, and of evaluation.

    Attributes
    ----------
    part : Part
        Without vertex data.
    header : Header
    evaluates : bool
        Whether the outputs of a training pass are those of all rows, as an evaluation has them;
        known after `prepare`.
    kernel : str
        Of local products, the measured one for "auto".
    off : dict of str to str
        Passes that were asked for and do not fit the options: why.
    """

    def __init__(
        self,
        part: Part,
        header: Header,
        data: LocalData,
        options: TrainOptions,
        transport: Transport,
        dtype: torch.dtype,
        clock: Clock,
    ) -> None:
        nothing = type(part.vertex_data)()  # `data` has what is needed of it
        self.part, self.header = replace(part, vertex_data=nothing), header
        self._data, self._options, self._transport = data, options, transport
        self._block = with_whole_rows(Block.of_part(self.part, header.self_loops), transport)
        device = data.labels.device
        self.kernel = options.kernel
        if self.kernel == "auto":
            self.kernel = quickest_kernel(self._block, dtype, options.hidden, device)
        misfits = _misfits(options, header)
        self.off = {name: why for name, why in misfits.items() if name in options.passes}
        self._passes = [name for name in options.passes if name not in self.off]
        overlap = "overlap" in options.passes

        def graph(block: Block) -> LocalGraph:
            return LocalGraph(
                *(block, transport, dtype, clock, overlap, options.wire),
                kernel=self.kernel,
                device=device,
            )

        self.graph = graph
        self._dtype, self._clock = dtype, clock
        self._clones: CloneEpochs | None = None
        self._whole = View([graph(self._block)] * options.layers)
        self._training = self._whole
        self._sent = [self._block.num_sent] * options.layers
        self.evaluates = (
            not options.mini_batches
            and not samples(options)
            and options.fold == "sync"
            and options.norm != "batch"
            and options.dropout == 0
            and options.first_dropout == 0
        )

    def prepare(self, network: Network) -> LocalData:
        """What is done once, before the first epoch. Collective.

        Returns
        -------
        LocalData
            To train with from here on: without features where nothing reads them any more.
        """
        options, data, whole = self._options, self._data, self._whole
        del self._data  # the features may go
        if samples(options):
            self._block = told(self._block, options, self._transport)
        constant = "constant" in self._passes
        if options.fold != "sync":
            self._clones = CloneEpochs(
                *(self._block, network, data, options, self._transport, self._dtype, self._clock),
                *(self.kernel, constant),
            )
        if constant:
            data = with_fixed_input(whole, network, data, options)
        if "dead-rows" in self._passes:
            self._leave_out_dead_rows(data, network.convs[0] if constant else None)
        return data

    def whole(self) -> View:
        """Every row, for evaluation; not collective."""
        return self._whole

    def view(self, epoch: int) -> View:
        """What the training pass of an epoch works on; collective for another fold than "sync"."""
        if self._clones is not None:
            return self._clones.view(epoch)
        if not samples(self._options):
            return self._training
        sample = drawn(self._block, self._options, self._transport.rank, epoch)
        whole = local_graph(self._whole.graphs[0], "sampling")
        return View([whole.sampled(sample)] * self._options.layers)

    def figures(self, network: Network) -> Figures | None:
        """Words per epoch, with and without the passes; after `prepare`. Collective.

        None where every epoch or step draws what it moves.
        """
        if self._options.mini_batches or samples(self._options):
            return None
        if self._clones is not None:
            per_layer = self._clones.words()
            if "constant" not in self._passes:
                return Figures(sum(per_layer), {}, sum(per_layer))
            planned = sum(per_layer[1:])
            return Figures(sum(per_layer), {"constant": planned}, planned)
        sent = np.array([self._block.num_sent, *self._sent], np.int64)
        self._transport.allreduce_sum(sent)
        volume, *live = sent.tolist()
        widths = [sum(conv.widths()) for conv in network.convs]
        if network.convs[0].moves_input:  # no gradient goes back to the features
            widths[0] = network.convs[0].widths()[0]
        plain = [sum(conv.plain_widths(first=k == 0)) for k, conv in enumerate(network.convs)]
        rows = [volume] * len(widths)
        words = {}
        for name in PASSES:
            if name not in self._passes or name == "overlap":
                continue
            if name == "constant":
                widths[0] = 0
            if name == "dead-rows":
                rows = live
            words[name] = sum(n * width for n, width in zip(rows, widths, strict=True))
        return Figures(
            plain=volume * sum(plain),
            words=words,
            planned=sum(n * width for n, width in zip(rows, widths, strict=True)),
        )

    @contextmanager
    def epochs(self) -> Iterator[None]:
        """A block around all epochs: what is under way at its end is received. Collective.

        So it is after an error that all ranks raise, as a buffer must outlive its round.
        """
        try:
            yield
        except PlanccError as error:
            if error is self._transport.agreed_error:
                self._finish()
            raise
        self._finish()

    def _finish(self) -> None:
        if self._clones is not None:
            self._clones.finish()

    def _leave_out_dead_rows(self, data: LocalData, fixed_by: Conv | None) -> None:
        """Let training passes work on live rows, if any rank has a dead one. Collective."""
        whole, block = self._whole, self._block
        wanted = data.splits["train"].cpu().numpy()
        blocks, rows = live_blocks(block, wanted, self._options.layers, self._transport)
        dead = np.array([any(live is not block for live in blocks)], np.int8)
        self._transport.allreduce_max(dead)
        if not dead[0]:
            return
        self.evaluates = False
        self._sent = [live.num_sent for live in blocks]
        fixed = whole.fixed
        if fixed is not None and fixed_by is not None and blocks[0] is not block:
            if fixed_by.fixed_rows == "outputs":  # then own outputs are all that it reads
                taken = rows[0] = rows[1]
                blocks[0] = isolated(block, taken) if len(taken) < block.num_inputs else block
            else:
                taken = np.concatenate([rows[0], live_halo(block, rows[1])])
            if len(taken) < len(fixed):
                fixed = fixed[torch.from_numpy(taken).to(fixed.device)]
        device = data.labels.device

        def of_rows(numbers: Int64Array) -> torch.Tensor:
            return torch.from_numpy(numbers).to(device)

        view = View(
            [whole.graphs[0] if live is block else self.graph(live) for live in blocks],
            inputs=None if len(rows[0]) == block.num_inputs else of_rows(rows[0]),
            outputs=of_rows(rows[-1]),
            fixed=fixed,
        )
        view.x = view.rows_of(data.features) if whole.x is None else whole.x
        self._training = view


def with_fixed_input(
    view: View, network: Network, data: LocalData, options: TrainOptions
) -> LocalData:
    """Let a view keep what the first layer needs of the features. Collective.

    Returns
    -------
    LocalData
        Without features where nothing reads them any more.
    """
    view.fixed = network.fixed(view.graphs[0], data.features)
    view.graphs[0].release_buffers()  # as wide as the features
    if network.convs[0].reads_input or options.residual:
        return data
    view.x = data.features.new_empty(0, data.features.shape[1])
    return replace(data, features=view.x)


def check_layout(header: Header, options: TrainOptions) -> None:
    """Whether a plan of this layout can be trained so; not collective.

    Raises
    ------
    InputError
        If an option needs a row plan and this is another one, or the reverse.
    """
    if header.layout != "edge" and options.fold != "sync":
        raise InputError(
            f"fold {options.fold}: needs an edge plan; this is a plan of layout {header.layout}, "
            "which has no fold"
        )
    check_feature(header, options)
    if header.layout == "row":
        return
    wanted = [
        f"{name.replace('_', '-')} {getattr(options, name)}"
        for name in ("sampler", *BATCH_OPTIONS, *RATES_KEPT)
        if getattr(options, name) is not None
    ]
    if header.grid is not None:
        _check_grid(header.grid, options, wanted)
        return
    if MODELS[options.model].whole_rows:
        wanted.append(f"model {options.model}")
    if wanted:
        raise InputError(
            f"{wanted[0]}: needs a plan of layout row, and this is an edge plan, whose rows are "
            "spread over ranks"
        )


def _check_grid(grid: Grid, options: TrainOptions, wanted: list[str]) -> None:
    """InputError for what a process grid does not offer; `wanted`: options for row plans only."""
    if MODELS[options.model].whole_rows:
        raise InputError(
            f"model {options.model}: attention needs all neighbours of a row at once, and grid "
            f"'{grid}' brings them piece by piece; take a plan of layout row"
        )
    if options.aggregator == "max":
        wanted.append("aggregator max")
    if options.norm != "none" and grid.splits_columns:
        wanted.append(f"norm {options.norm}")
    if "order" not in options.passes:
        wanted.append(f"passes {','.join(options.passes) or 'none'}, without order")
    if grid.layout == "grid" and options.wire != "fp32":
        wanted.append(f"wire {options.wire}")
    if wanted:
        raise InputError(
            f"{wanted[0]}: needs a plan of layout row, and this is one of grid '{grid}'"
        )


def _misfits(options: TrainOptions, header: Header) -> dict[str, str]:
    """The passes that do not fit these options, or the layout, and why."""
    reason = ""
    if options.mini_batches:
        reason = "every mini-batch has rows of its own"
    elif samples(options):
        reason = "every epoch draws what it moves"
    if reason:
        return {"constant": reason, "dead-rows": reason}
    off = {}
    if options.first_dropout > 0:
        off["constant"] = "dropout changes the features in every epoch"
    if options.norm == "batch":
        off["dead-rows"] = "norm batch takes statistics over all rows"
    if options.fold == "delayed":
        off["order"] = "partial sums of a layer's input arrive late, not of its projection"
    if header.layout != "row":
        off["dead-rows"] = "an edge plan has rows whose nonzeros other ranks hold"
    return off


def quickest_kernel(block: Block, dtype: torch.dtype, width: int, device: torch.device) -> str:
    """The local product that takes least time on the nonzeros of a block."""
    return choose_kernel(matrix_of(block), dtype, width, torch.get_num_threads(), device)
