"""Tests that compare a layout with the dense matrix; the tests of a new layout inherit them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
import torch

from plancc.plan.layers import Aggregate, LayerStep, Linear, adjoint
from plancc_runtime.layouts.layer_graph import LayerGraph
from plancc_runtime.layouts.resources import Resources
from plancc_runtime.transport.base import Transport
from plancc_runtime.transport.local import run_ranks

Float64Array = npt.NDArray[np.float64]
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}
"""Largest error of a product, relative to the larger of 1 and the product's largest magnitude."""
TIMEOUT = 180.0
"""Longest wait of a rank in a test, in seconds."""
COUNTED = {
    **{"messages_sent": 0, "words_sent": 1, "messages_received": 3, "words_received": 4},
    **{"reductions": 6, "words_reduced": 7},
}
"""Counters that a graph predicts, and their positions among a transport's counters."""


@dataclass(frozen=True)
class Layout:
    """A layout of a matrix on some ranks.

    Attributes:
        make: Collective function that returns a rank's graph in this layout.
        dense (mapping of str to float64[n, n]): Dense matrix for each name in `COEFFICIENTS`.
        share: Factor by which a rank multiplies the gradient of its result: 1 / number of ranks
            that have the same entries of the result.
        options: Fields of `Resources` that are not at their defaults, by name.
        width, columns: Rows and columns of the weight matrix. On a grid, neither is less than the
            number of process columns.
    """

    num_ranks: int
    make: Callable[[Transport, Resources], LayerGraph]
    dense: Mapping[str, Float64Array]
    share: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)
    width: int = 10
    columns: int = 7
    _known: dict[Any, list[_Answer]] = field(default_factory=dict, init=False, repr=False)


class _Answer(NamedTuple):
    """The results of one rank.

    Attributes:
        rows: Vertices of the rank's rows.
        columns: Indices of the operand's columns on the rank, and of the product's columns.
        product, adjoint: The rank's rows of the product, and of the operand's gradient.
        weight: The rank's share of the weight's gradient; zeros if the product has no weight.
        counted: Traffic that the transport counted, in the forward and in the backward pass.
        told: Traffic that the layout predicted, in the same order.
    """

    rows: npt.NDArray[np.int32]
    columns: list[npt.NDArray[np.int64]]
    product: Float64Array
    adjoint: Float64Array
    weight: Float64Array
    counted: list[list[int]]
    told: list[list[int]]


class LayoutTests:
    """Tests that every layout must pass. A subclass defines the fixture `layout`.

    If the fixture's scope is "class", results that several tests need are computed once.
    """

    @pytest.fixture(scope="class")
    @classmethod
    def layout(cls) -> Layout:
        """Return the layout to test."""
        raise NotImplementedError("give a fixture `layout`")

    @pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
    def test_products_and_gradients_are_those_of_the_dense_matrix(
        self, layout: Layout, dtype: torch.dtype
    ) -> None:
        for name, dense in layout.dense.items():
            h, _, g = _operands(layout)
            for answer in _answers(layout, name, dtype=dtype):
                for found, whole in ((answer.product, dense @ h), (answer.adjoint, dense.T @ g)):
                    _close(found, whole[answer.rows][:, answer.columns[0]], whole, dtype)

    @pytest.mark.parametrize("how", ["product_linear", "linear_product"])
    def test_products_with_a_weight_are_those_of_the_dense_matrix(
        self, layout: Layout, how: str
    ) -> None:
        name, dense = next(iter(layout.dense.items()))
        h, w, g = _operands(layout, how)
        whole, back, of_weight = dense @ h @ w, dense.T @ g @ w.T, (dense @ h).T @ g
        answers = _answers(layout, name, how)
        for answer in answers:
            assert answer.counted == answer.told
            _close(answer.product, whole[answer.rows][:, answer.columns[1]], whole)
            _close(answer.adjoint, back[answer.rows][:, answer.columns[0]], back)
        _close(np.sum([answer.weight for answer in answers], axis=0), of_weight, of_weight)

    def test_the_adjoint_is_the_transpose(self, layout: Layout) -> None:
        """Check that <A h, g> = <h, A^T g>. An entry that several ranks have is counted once."""
        h, _, g = _operands(layout)
        sums, seen = np.zeros(2), np.zeros(h.shape, np.bool_)
        for answer in _answers(layout, next(iter(layout.dense))):
            at = np.ix_(answer.rows, answer.columns[0])
            new = ~seen[at]
            sums += [np.sum(pair[new]) for pair in (answer.product * g[at], answer.adjoint * h[at])]
            seen[at] = True
        assert seen.all()
        assert sums[0] == pytest.approx(sums[1], rel=1e-10)

    def test_overlap_changes_no_bit(self, layout: Layout) -> None:
        name = next(iter(layout.dense))
        both = (_answers(layout, name, overlap=overlap) for overlap in (True, False))
        for there, here in zip(*both, strict=True):
            np.testing.assert_array_equal(there.product, here.product)
            np.testing.assert_array_equal(there.adjoint, here.adjoint)

    def test_words_and_messages_are_those_that_are_counted(self, layout: Layout) -> None:
        for answer in _answers(layout, next(iter(layout.dense))):
            assert answer.counted == answer.told


def _operands(
    layout: Layout, how: str = "product"
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """Return dense rows H, a weight matrix W, and the gradient of the result of a product.

    `how` names the method of `LayerGraph` that computes the product: A H for "product", else a
    product of A, H and W.
    """
    n = len(next(iter(layout.dense.values())))
    random = np.random.default_rng(n)
    h, g = random.standard_normal((2, n, layout.width))
    weight = random.standard_normal((layout.width, layout.columns))
    return h, weight, g if how == "product" else g @ weight


def _steps(layout: Layout, name: str, how: str) -> list[LayerStep]:
    """Return the layer steps that the method `how` of `LayerGraph` carries out."""
    if how == "product":
        return [Aggregate(layout.width, name)]
    linear = Linear(layout.width, layout.columns)
    if how == "product_linear":
        return [Aggregate(layout.width, name), linear]
    return [linear, Aggregate(layout.columns, name)]


def _answers(
    layout: Layout,
    name: str,
    how: str = "product",
    dtype: torch.dtype = torch.float64,
    overlap: bool = True,
) -> list[_Answer]:
    """Return every rank's results of a second product, which reuses the exchanges of a first."""
    asked = (name, how, dtype, overlap)
    if asked in layout._known:
        return layout._known[asked]
    h, w, g = _operands(layout, how)

    def work(transport: Transport) -> _Answer:
        torch.set_num_threads(1)
        resources = Resources(transport, dtype, overlap=overlap, **layout.options)
        graph = layout.make(transport, resources)
        rows = graph.vertices.numpy()
        columns = [graph.own_columns(torch.arange(n)).numpy() for n in w.shape]
        own_g = torch.tensor(g[rows][:, columns[how != "product"]] * layout.share, dtype=dtype)
        weight = torch.tensor(w, dtype=dtype, requires_grad=True)
        for _ in range(2):
            weight.grad = None
            x = torch.tensor(h[rows][:, columns[0]], dtype=dtype, requires_grad=True)
            traffic = [transport.traffic.as_array()]
            with torch.autograd.set_multithreading_enabled(False):
                given = (name,) if how == "product" else (weight, name)
                out = getattr(graph, how)(x, *given)
                traffic.append(transport.traffic.as_array())
                out.backward(own_g)
            traffic.append(transport.traffic.as_array())
        assert x.grad is not None
        steps = _steps(layout, name, how)
        told = [_told(graph, each) for each in (steps, adjoint(steps, first=False))]
        graph.release_buffers()
        return _Answer(
            rows,
            columns,
            out.detach().double().numpy(),
            x.grad.double().numpy() / layout.share,
            (torch.zeros_like(weight) if weight.grad is None else weight.grad).double().numpy(),
            np.diff(traffic, axis=0)[:, [*COUNTED.values()]].tolist(),
            told,
        )

    return layout._known.setdefault(asked, run_ranks(layout.num_ranks, work, TIMEOUT))


def _told(graph: LayerGraph, steps: Any) -> list[int]:
    counts = [graph.counts(step) for step in steps]
    return [int(sum(getattr(each, name)[0] for each in counts)) for name in COUNTED]


def _close(
    found: Float64Array, expected: Float64Array, whole: Float64Array, dtype: Any = torch.float64
) -> None:
    most = TOLERANCE[dtype] * max(np.abs(whole).max(), 1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=most)
