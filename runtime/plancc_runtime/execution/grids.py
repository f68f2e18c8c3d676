"""Full-batch epochs on process grids: layouts "grid" and "feature".

The passes "order" and "constant" do the same as in `full_batch`. With "overlap", the next piece is
sent while a piece is multiplied. "dead-rows" is off, since whole blocks of rows are sent.
"""

from __future__ import annotations

from dataclasses import replace

from plancc.plan.layers import Aggregate
from plancc.plan.parts import Part
from plancc_runtime.data import LocalData
from plancc_runtime.execution.full_batch import DROPS_FEATURES
from plancc_runtime.execution.protocol import Execution
from plancc_runtime.layouts.feature import FeatureGraph
from plancc_runtime.layouts.grid import GridGraph
from plancc_runtime.layouts.resources import CPU, Resources
from plancc_runtime.nn.network import Network
from plancc_runtime.options import TrainOptions
from plancc_runtime.tasks.base import LearningTask


class Grids(Execution):
    """Epochs on a process grid. See `choice.execution_of` for the parameters."""

    def __init__(
        self, task: LearningTask, part: Part, data: LocalData, resources: Resources
    ) -> None:
        header, options = task.header, task.options
        super().__init__(data, options, resources, _misfits(options))
        grid = header.grid
        assert grid is not None
        if grid.layout == "feature":
            if options.aggregate_on == "cpu":
                self.kernel = replace(resources, device=CPU).kernel_name
            self._set_graph(
                FeatureGraph(part, header, resources, options.pipeline, options.aggregate_on)
            )
        else:
            self._set_graph(GridGraph(part, header, resources))

    def prepare(self, network: Network) -> LocalData:
        data, graph = self._data, self._whole.graphs[0]
        del self._data  # lets the features be freed
        self.evaluates &= not network.draws
        if "constant" in self._passes:
            data = self._fix_input(self._whole, network, data)
        if isinstance(graph, GridGraph):
            steps = [
                step for k in range(len(network.convs)) for step in network.both_ways(k).forward
            ]
            for step in steps:
                if isinstance(step, Aggregate):
                    graph.lay_out(step.coefficients)
        return data


def _misfits(options: TrainOptions) -> dict[str, str]:
    """Return, for every pass that does not fit the options or process grids, the reason why."""
    off = {"dead-rows": "a process grid moves whole blocks of rows"}
    if options.first_dropout > 0:
        off["constant"] = DROPS_FEATURES
    return off
