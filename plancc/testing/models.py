"""Checks that a model does what the pipeline, the search and the partitioners rely on."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

from plancc.cost.objectives import OBJECTIVES
from plancc.errors import InputError, PlanccWarning
from plancc.graph.convert import as_graph
from plancc.graph.graph import Graph
from plancc.models import MODELS, make_model
from plancc.models.base import Model
from plancc.models.problem import Assignment, EdgeProblem, Hypergraph, WeightedGraph
from plancc.pipeline import compile
from plancc.plan.plan import Plan
from plancc.plan.verify import verify
from plancc.testing import documented, taken

VERTICES = 24
"""Number of vertices of the graphs on which models are tested."""


def graph_of(name: str) -> Graph:
    """Return a random graph that is "directed", "undirected" or "empty".

    The directed graph has an isolated vertex.
    """
    array = np.random.default_rng(1).random((VERTICES, VERTICES)) < 0.15
    array[5] = array[:, 5] = False
    np.fill_diagonal(array, False)
    if name == "undirected":
        array = array | array.T | np.eye(VERTICES, dtype=bool)
    return as_graph(sp.csr_array((array if name != "empty" else 0 * array).astype(float)))


class ModelTests:
    """Tests of a model. Inherit from this class, and set `name`.

    Attributes:
        name: Name of the model in `plancc.models.MODELS`.
        options: Options that the model needs for graphs of `VERTICES` vertices.
        num_parts: A number of parts that the model allows.
    """

    name: ClassVar[str]
    options: ClassVar[Mapping[str, Any]] = {}
    num_parts: ClassVar[int] = 4

    @pytest.fixture
    def model(self) -> Model:
        return make_model(self.name, self.options)

    @pytest.fixture(params=["directed", "undirected", "empty"])
    def graph(self, request: pytest.FixtureRequest) -> Graph:
        return graph_of(request.param)

    def built(self, model: Model, graph: Graph, num_parts: int) -> Any:
        """Build the model's problem or assignment, check it, and return it."""
        problem = model.build(graph, num_parts, balance="nnz", seed=3)
        if isinstance(problem, Assignment):
            assert model.problem is None
            check_numbers(problem.rows, graph.num_vertices, num_parts)
            if problem.nonzeros is not None:
                assert model.layout == "edge"
                check_numbers(problem.nonzeros, graph.num_nonzeros, num_parts)
        elif isinstance(problem, EdgeProblem):
            assert (model.layout, model.problem) == ("edge", Hypergraph)
            num_vertices = problem.hypergraph.num_vertices
            check_hypergraph(problem.hypergraph)
            check_numbers(problem.row_vertex, graph.num_vertices, num_vertices)
            check_numbers(problem.nonzero_vertex, graph.num_nonzeros, num_vertices)
            row = graph.nonzero_rows()
            vertex = problem.row_vertex[row]
            assert (problem.nonzero_vertex == vertex)[row == graph.indices].all()
        else:
            assert (model.layout, model.problem) == ("row", type(problem))
            assert problem.num_vertices == graph.num_vertices
            if isinstance(problem, Hypergraph):
                check_hypergraph(problem)
            else:
                check_weighted_graph(problem)
        return problem

    def compiled(self, graph: Graph, **options: Any) -> Plan:
        """Compile a graph, verify the plan, and return it. Warnings are ignored."""
        if not options and MODELS[self.name].searched:
            options["effort"] = "fast"
        options |= {"normalize": "none", "self_loops": False, "seed": 3} | dict(self.options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PlanccWarning)
            plan = compile(graph, self.name, self.num_parts, **options)
        verify(plan, graph)
        return plan

    def test_declaration(self, model: Model) -> None:
        """All options are documented, and all objectives that the model names exist."""
        assert type(model) is MODELS[self.name]
        assert documented(type(model))
        hash(model)
        for each in model.option_fields().values():
            assert each.metadata.get("help"), f"option {each.name} says nothing of itself"
        with pytest.raises(InputError, match="no option `not_an_option`"):
            make_model(self.name, {"not_an_option": 1})
        objectives = {*OBJECTIVES, *model.own_objectives}
        assert set(model.minimised) <= objectives
        assert not model.searched or model.of_batches or model.default_objective in objectives

    def test_option_names(self, model: Model) -> None:
        """No option has the name of a parameter of `plancc.compile`."""
        assert not model.option_fields().keys() & taken()

    def test_what_it_builds(self, model: Model, graph: Graph) -> None:
        """The model builds a consistent problem, and the same problem again for the same seed."""
        if model.layout not in ("row", "edge"):
            pytest.skip("other models assign its rows")
        first, again = (self.built(model, graph, self.num_parts) for _ in range(2))
        assert pickle.dumps(first) == pickle.dumps(again)
        for objective in model.own_objectives:
            self.built(model.with_objective(objective), graph, self.num_parts)
        for num_parts in (1, VERTICES):
            with suppress(InputError):  # a part vector fits only one number of parts
                self.built(model, graph, num_parts)
        for num_parts in (0, VERTICES + 1):
            with pytest.raises(InputError):  # also if the model does not check it
                compile(graph, self.name, num_parts, **self.options)

    def test_plans(self, graph: Graph) -> None:
        """The model turns a graph into a plan that `verify` accepts."""
        plan, layout = self.compiled(graph), MODELS[self.name].layout
        assert plan.provenance["model"] == self.name
        assert layout in (plan.header.layout, "any")

    def test_same_seed_same_plan(self) -> None:
        first, again = (self.compiled(graph_of("directed")) for _ in range(2))
        assert first.content_sha256() == again.content_sha256()

    def test_a_partitioner_takes_its_problem(self, model: Model) -> None:
        if model.problem is None:
            pytest.skip("it needs no partitioner")
        self.compiled(graph_of("directed"), partitioner="builtin")


def check_numbers(numbers: Any, length: int, end: int) -> None:
    """Check that `numbers` is int32[length] and that its entries are in 0..end - 1."""
    assert (numbers.dtype, numbers.shape) == (np.int32, (length,))
    assert length == 0 or 0 <= numbers.min() <= numbers.max() < end


def check_pointers(pointers: Any, length: int) -> None:
    """Check that `pointers` is int64, and that it ascends from 0 to `length`."""
    assert pointers.dtype == np.int64
    assert (pointers[0], pointers[-1]) == (0, length)
    assert (pointers[1:] >= pointers[:-1]).all()


def check_hypergraph(problem: Hypergraph) -> None:
    """Check that nets, costs and sources are what the docstring of `Hypergraph` says."""
    check_pointers(problem.net_ptr, len(problem.pins))
    check_numbers(problem.pins, len(problem.pins), problem.num_vertices)
    net = np.repeat(np.arange(problem.num_nets), np.diff(problem.net_ptr))
    held = set(zip(net.tolist(), problem.pins.tolist(), strict=True))
    assert len(held) == len(problem.pins), "a net has a pin twice"
    assert problem.vertex_weights.min() >= 0
    assert problem.net_costs is None or problem.net_costs.min(initial=1) >= 1
    assert problem.net_costs is None or len(problem.net_costs) == problem.num_nets
    assert problem.net_sources is None or held >= set(enumerate(problem.net_sources.tolist()))


def check_weighted_graph(problem: WeightedGraph) -> None:
    """Check that every edge is stored in both directions, and that no edge is a loop."""
    n = problem.num_vertices
    check_pointers(problem.indptr, len(problem.indices))
    check_numbers(problem.indices, len(problem.indices), n)
    costs = np.ones_like(problem.indices) if problem.edge_weights is None else problem.edge_weights
    assert costs.min(initial=1) >= 1
    assert problem.vertex_weights.min() >= 0
    dense = sp.csr_array((costs, problem.indices, problem.indptr), (n, n)).toarray()
    assert np.array_equal(dense, dense.T)
    assert not dense.diagonal().any()
