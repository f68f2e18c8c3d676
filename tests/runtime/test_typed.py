"""Products by relation of plans with types, beside dense matrices."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from cases import turns

import plancc
import plancc_runtime
from plancc.errors import InputError, PlanError
from plancc.graph.types import Types
from plancc.plan.layers import Aggregate
from plancc.plan.relations import relation_traffic
from plancc_runtime.testing.layouts import COUNTED
from plancc_runtime.transport.local import run_ranks

COUNTS = {"author": 40, "paper": 60, "venue": 9}
WRITES, CITES, IN = (
    ("author", "writes", "paper"),
    ("paper", "cites", "paper"),
    ("paper", "in", "venue"),
)
BY = ("paper", "by", "author")
LIKES = ("paper", "likes", "paper")
PARTS, WIDTH = 4, 3


def relations(parallel: bool = False) -> dict:
    """Not symmetric; venue 8 has no paper, author 0 writes nothing.

    With parallel relations papers like papers too, often those that they cite.
    """
    writes = sp.random(60, 40, 0.06, "csr", rng=1)
    writes = (writes @ sp.diags_array(np.r_[0.0, np.ones(39)])).tocsr()
    venues = sp.csr_array((np.ones(60), (np.arange(60) % 8, np.arange(60))), shape=(9, 60))
    cites = sp.random(60, 60, 0.05, "csr", rng=2)
    likes = sp.random(60, 60, 0.03, "csr", rng=4) + cites / 2
    found = {WRITES: writes, CITES: cites, IN: venues, BY: sp.csr_array(writes.T)}
    return found | ({LIKES: likes} if parallel else {})


@cache
def plan_of(model: str, normalize: str = "none", parallel: bool = False) -> plancc.Plan:
    how = {"normalize": normalize, "value_dtype": "float64", "seed": 1}
    return plancc.compile(relations(parallel), model, PARTS, **how)


def dense(normalize: str = "none", parallel: bool = False) -> dict:
    made = {relation: matrix.toarray() for relation, matrix in relations(parallel).items()}
    for matrix in made.values() if normalize == "row" else ():
        total = matrix.sum(axis=1, keepdims=True)
        matrix /= np.where(total == 0, 1, total)
    return made


def traffic(transport) -> list[int]:
    return transport.traffic.as_array()[[*COUNTED.values()]].tolist()


def work(graph: plancc_runtime.TypedGraph, x: dict[str, torch.Tensor]) -> dict:
    """Products both ways and their gradients with own rows, and words, by relation."""
    found, transport = {}, graph.union.transport
    rows = {name: graph.vertices(name) for name in COUNTS}
    for relation in graph.types.relations:
        for transposed, (name, other) in ((False, relation[::2]), (True, relation[::-2])):
            own = x[name][rows[name]].requires_grad_()
            local, before = graph.relation(relation), traffic(transport)
            y = graph.product(relation, own, transposed=transposed)
            moved = np.subtract(traffic(transport), before).tolist()
            with torch.autograd.set_multithreading_enabled(False):
                y.backward(x[other][rows[other]] ** 2)
            counts = local.counts(Aggregate(WIDTH, back=transposed))
            assert moved == [int(getattr(counts, each)[0]) for each in COUNTED]
            found[relation, transposed] = (rows[other], y.detach()), (rows[name], own.grad), moved
    return found


@turns(
    model=("hp", "medium-grain", "block"),
    normalize=("none", "row"),
    ranks=(3, 4),
    parallel=(False, True),
)
def test_products_and_gradients_are_those_of_dense_matrices(
    tmp_path, model, normalize, ranks, parallel
):
    plan = plan_of(model, normalize, parallel)
    plan.save(tmp_path / "plan.h5")
    random = np.random.default_rng(0)
    x = {name: torch.from_numpy(random.random((n, WIDTH))) for name, n in COUNTS.items()}

    def on_rank(transport):
        torch.set_num_threads(1)
        how = {"transport": transport, "dtype": torch.float64, "threads": 1}
        return work(plancc_runtime.open_typed(tmp_path / "plan.h5", **how), x)

    answers, expected = run_ranks(ranks, on_rank, 180), dense(normalize, parallel)
    volumes = {each.relation: each.volume for each in relation_traffic(plan)}
    for relation, transposed in answers[0]:
        a, (name, other) = torch.from_numpy(expected[relation]), relation[::2]
        if transposed:
            a, name, other = a.T, other, name
        products, gradients, moved = zip(*(of[relation, transposed] for of in answers), strict=True)
        for pieces, rows in ((products, a @ x[name]), (gradients, a.T @ x[other] ** 2)):
            found = torch.full_like(rows, torch.nan)
            for own, each in pieces:
                found[own] = each
            torch.testing.assert_close(found, rows, rtol=0, atol=1e-10)
        if ranks == PARTS:
            assert sum(each[1] for each in moved) == volumes[relation] * WIDTH


def test_every_type_has_data_of_its_own(tmp_path):
    random = np.random.default_rng(0)
    x = {
        name: random.random((COUNTS[name], width)) for name, width in (("author", 2), ("paper", 5))
    }
    labels, train_rows = np.arange(60) % 7, np.arange(60) % 2 == 0
    data = {name: {"x": each} for name, each in x.items()} | {"venue": {"y": x["author"][:9]}}
    data["paper"] |= {"y": labels, "train_mask": train_rows}
    plancc.compile(relations(), "hp", PARTS, data=data).save(tmp_path / "plan.h5")

    def on_rank(transport):
        graph = plancc_runtime.open_typed(tmp_path / "plan.h5", transport=transport, threads=1)
        assert graph.features("venue") is None
        assert graph.targets("author") is None
        assert graph.masks("author") == {}
        at = {name: graph.vertices(name) for name in COUNTS}
        for name, each in x.items():
            assert torch.equal(graph.features(name), torch.from_numpy(each).float()[at[name]])
        assert torch.equal(graph.targets("paper"), torch.from_numpy(labels)[at["paper"]])
        expected = torch.from_numpy(x["author"]).float()[at["venue"]]
        assert torch.equal(graph.targets("venue"), expected)
        masks = graph.masks("paper")
        assert [*masks] == ["train"]
        assert torch.equal(masks["train"], torch.from_numpy(train_rows)[at["paper"]])
        with pytest.raises(InputError, match="type 'editor' is unknown"):
            graph.features("editor")
        return len(at["paper"])

    assert sum(run_ranks(3, on_rank, 180)) == 60


def test_wrong_use_is_one_sentence(tmp_path):
    plan = plan_of("block")
    plan.save(tmp_path / "plan.h5")
    graph = plancc_runtime.open_typed(tmp_path / "plan.h5", dtype=torch.float64)
    for name, x, words in (
        ("reads", torch.ones(1, 1), "relation 'reads' is unknown; there are"),
        ("writes", torch.ones(7, 1), r"needs \[40, any number\] of type 'author'"),
        (WRITES, torch.ones(40, 1, dtype=torch.float32), "x is torch.float32 on cpu, but"),
        (WRITES, np.ones((40, 1)), r"x is of type ndarray; give torch.as_tensor\(x\)"),
    ):
        with pytest.raises(InputError, match=words):
            graph.product(name, x)
    with pytest.raises(InputError, match="type 'editor' is unknown"):
        graph.vertices("editor")
    types = plan.header.types
    fewer = replace(plan.header, types=Types(types.counts, types.relations[1:]))
    replace(plan, header=fewer).save(tmp_path / "fewer.h5")
    with pytest.raises(PlanError, match="a nonzero without a relation"):
        plancc_runtime.open_typed(tmp_path / "fewer.h5")
    plancc.compile(sp.eye_array(3), "block", 1).save(tmp_path / "square.h5")
    with pytest.raises(InputError, match="the plan has no types"):
        plancc_runtime.open_typed(tmp_path / "square.h5")


def test_least_squares_of_the_documentation_are_those_of_scipy(tmp_path):
    page = (Path(__file__).parents[2] / "docs/use/types.md").read_text()
    code = page.split("## Least squares")[1].split("```python")[1].split("```")[0]
    found: dict = {}
    exec(code.split("matrix = ")[0], found)  # the function alone
    a, random = sp.random(60, 20, 0.3, "csr", rng=0), np.random.default_rng(2)
    b = torch.from_numpy(random.standard_normal((60, 1)))
    plancc.compile(a, "hp", 4, normalize="none", value_dtype="float64").save(tmp_path / "a.h5")

    def on_rank(transport):
        how = {"transport": transport, "dtype": torch.float64, "threads": 1}
        graph = plancc_runtime.open_typed(tmp_path / "a.h5", **how)
        return graph.vertices("columns"), found["cgls"](graph, b[graph.vertices("rows")], 40)

    expected = sp.linalg.lsqr(a, b.numpy()[:, 0], atol=1e-14, btol=1e-14)[0]
    for ranks in (1, 4):
        for columns, x in run_ranks(ranks, on_rank, 180):
            np.testing.assert_allclose(x[:, 0], expected[columns.numpy()], rtol=0, atol=1e-9)
