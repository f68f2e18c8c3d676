"""GraphSAGE (Hamilton, Ying and Leskovec, NIPS 2017), with the update of Wan et al. 2022.

    z_v = AGGREGATE {h_u : u in N(v)}                                   (Wan et al. 2022, Eq. 1)
    h'_v = W . CONCAT(z_v, h_v)                                         (Wan et al. 2022, Eq. 2)

N(v) is the set of the columns of row v, without v if normalisation added the diagonal. The update
is computed as z W_n + h W_s, without concatenation.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from plancc.plan.convolutions import SAGEOptions
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.local import LocalGraph, local_graph
from plancc_runtime.nn.aggregation import aggregate
from plancc_runtime.nn.conv import Conv, Halves, LinearAggregation, glorot, unchanged, uniform


class SAGEConv(Conv):
    """Computes z W_n + h W_s + b; z is the mean, sum or element-wise maximum of h over N(v).

    If N(v) is empty, z is 0. With the aggregator "gcn", the output is z W_n + b, and z is the mean
    over N(v) and v itself (Hamilton et al., Equation 2). As in PyTorch Geometric's SAGEConv, W_n
    and b are drawn like the weight and bias of a torch.nn.Linear, and W_s like the weight of a
    second torch.nn.Linear. With `parametrization` "paper", W_n and W_s are the two halves of one
    Glorot matrix, and the layer has a bias b only if the option `bias` is set.
    """

    Options = SAGEOptions
    rectifies = True
    takes_bfloat16: ClassVar[bool] = True
    reads_values: ClassVar[bool] = False

    def _make(self, random: np.random.Generator) -> None:
        aggregator, d_in, d_out = self.options.aggregator, self.d_in, self.d_out
        both = 1 if aggregator == "gcn" else 2
        own: Tensor
        if self._is_pyg:
            self.weight, self.bias = self._new_linear(random, d_in)
            width = self.d_target or d_in
            own = uniform(random, (width, d_out), fan_in=width)
        else:
            weight = glorot(random, both * d_in, d_out)  # W of the concatenation
            self.weight, self.bias = nn.Parameter(weight[:d_in].clone()), self._new_bias()
            own = weight[d_in:].clone()
        self.weight_self = nn.Parameter(own) if both == 2 else None
        self._linear = None
        if aggregator != "max":
            order, coefficients = self.options.order, self.options.coefficients
            self._linear = LinearAggregation(order, d_in, d_out, coefficients)

    def fixed(self, graph: LayerGraph, x: Tensor) -> Tensor:
        """Return z: for every output row, the mean, sum or maximum of its neighbours' rows.

        The result is Tensor[num_outputs, d_in].
        """
        if self._linear is not None:
            return self._linear.fixed(graph, x)
        with torch.no_grad():
            return _maximum(graph, x)

    def forward(
        self,
        graph: LayerGraph,
        x: Tensor,
        fixed: Tensor | None = None,
        rectified: bool = False,
        onto: Tensor | None = None,
    ) -> Tensor:
        own_weight = self.weight_self if self.d_target is None else None
        x, own = (x, x) if own_weight is None else graph.fork(x)
        last = rectified and own_weight is None
        if self._linear is not None:
            out = self._linear(graph, x, self.weight, fixed, self.bias, last, onto)
        else:
            z = _maximum(graph, x) if fixed is None else fixed
            out = graph.linear(z, self.weight, self.bias, last)
        if own_weight is None:
            return out
        return graph.linear(own, own_weight, None, rectified, onto=out)

    @property
    def own_map(self) -> Tensor | None:
        return self.weight_self

    def halves(self, graph: LocalGraph, fixed: bool, first: bool) -> Halves:
        linear, own_weight = self._linear, self.weight_self
        projects = not fixed and linear is not None and linear.projects_first(first)

        def before(x: Tensor) -> tuple[Tensor, ...]:
            own = () if own_weight is None else (graph.linear(x, own_weight),)
            return (graph.linear(x, self.weight) if projects else x, *own)

        def across(moved: Tensor, *own: Tensor) -> tuple[Tensor, ...]:
            if self._linear is None:
                z = _maximum(graph, moved)
            else:
                z = self._linear.product(graph, moved)
            own = tuple(graph.targets(each) for each in own)
            return (z.add_(*own),) if projects and own else (z, *own)

        def after(z: Tensor, *own: Tensor) -> Tensor:
            z = z if projects else graph.linear(z, self.weight)
            return graph.finished(torch.add(z, *own) if own else z, self.bias)

        def after_fixed(z: Tensor, *x: Tensor) -> Tensor:
            return after(z) if own_weight is None else after(z, graph.linear(x[0], own_weight))

        return Halves(unchanged, unchanged, after_fixed) if fixed else Halves(before, across, after)


def _maximum(graph: LayerGraph, x: Tensor) -> Tensor:
    return aggregate(local_graph(graph, "aggregator max"), x, reduce="max")
