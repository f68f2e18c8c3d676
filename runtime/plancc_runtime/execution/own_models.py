"""Full-batch epochs of a network of the user's own class, on a row plan.

As the layers are unknown, every exchange sends all halo rows, and words are counted only as they
are sent.
"""

from __future__ import annotations

from plancc.errors import InputError
from plancc_runtime.data import LocalData
from plancc_runtime.execution.full_batch import FullBatch
from plancc_runtime.layouts.block import Block
from plancc_runtime.layouts.edge_graph import EdgeGraph
from plancc_runtime.layouts.local import LocalGraph
from plancc_runtime.nn.network import Network
from plancc_runtime.nn.own_class import class_of, forward_arguments
from plancc_runtime.options import RATES_KEPT
from plancc_runtime.pyg.own_network import OwnNetwork, available
from plancc_runtime.results import Figures


class OwnModels(FullBatch):
    """Epochs of a network of the user's own class.

    See `choice.execution_of` for the parameters.
    """

    def prepare(self, network: Network) -> LocalData:
        self._counts = False
        with self._transport.agreement():
            name, kind = network.options.model, class_of(network.options.model)
            taken = forward_arguments(name, kind, available(self._header, self._block, kind))
            for each in self._options.chosen(RATES_KEPT) if "edge_attr" in taken else ():
                raise InputError(
                    f"{self._options.setting(each)}: sampled edges have no features, but `model` "
                    f"{name} reads features of edges; leave the sampling out"
                )
        assert isinstance(network, OwnNetwork)
        network.recompute = self._options.recompute
        return super().prepare(network)

    def _graph_of(self, block: Block) -> LocalGraph:
        return EdgeGraph(block, self._resources, self._header)

    def figures(self, network: Network) -> Figures | None:
        return None
