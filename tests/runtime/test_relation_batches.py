"""Mini-batches of graphs with types: fan-outs by relation, beside dense matrices."""

from dataclasses import asdict
from itertools import combinations, product

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from cases import turns
from scipy.stats import chisquare
from test_relational_training import WIDTHS, data
from test_typed import COUNTS, relations

import plancc
from plancc.errors import InputError
from plancc.graph.types import Types
from plancc.plan.population import read_population
from plancc.plan.reader import PlanFile
from plancc.sampling import Population
from plancc.sampling.counter import key_of
from plancc.sampling.owned import OwnedRows
from plancc.sampling.relations import RelationSampler
from plancc_runtime.nn.network import Network, NetworkOptions
from plancc_runtime.nn.relations import RGCNConv, TypesOfNetwork
from plancc_runtime.options import PASSES, TrainOptions
from plancc_runtime.train import train
from plancc_runtime.transport.local import run_ranks

FANOUTS = {"cites": (1, 2), "by": (3, 3)}
SAMPLED = {"sampler": "neighbour", "batch_size": 20, "fanouts": (2, 1)}


def graph() -> dict:
    """Two relations of the same edges among others."""
    found = relations()
    found["paper", "quote", "paper"] = found["paper", "cites", "paper"]
    return found


@pytest.fixture(scope="module")
def plan(tmp_path_factory):
    path, held = tmp_path_factory.mktemp("batches") / "plan.h5", data()
    held["paper"]["train_mask"] = np.arange(60) % 3 > 0
    plancc.compile(graph(), "hp", 4, data=held, seed=1).save(path)
    return path


def drawn(plan, number: int) -> list[dict]:
    """The kept nonzeros of every hop by relation, factors in their places, from one owner."""
    types = Types(COUNTS, tuple(graph()))
    fanouts = [FANOUTS.get(name, SAMPLED["fanouts"]) for _, name, _ in types.relations]
    sampler = RelationSampler(SAMPLED["batch_size"], SAMPLED["fanouts"], tuple(fanouts))
    with PlanFile(plan) as file:
        population = read_population(file, sampler, with_pattern=False, target="paper")
    first = dict(zip(types.names, types.first, strict=False))
    entries = [
        np.stack([m.row + first[end], m.col + first[source], np.full(m.nnz, k)])
        for k, ((source, _, end), m) in enumerate((r, m.tocoo()) for r, m in graph().items())
    ]
    row, column, relation = np.concatenate(entries, 1)
    order = np.random.default_rng(3).permutation(len(row))  # columns stand in any order
    order = order[np.argsort(row[order], kind="stable")]
    row, column, relation = row[order], column[order], relation[order]
    n = types.num_vertices
    row_ptr = np.searchsorted(row, np.arange(n + 1))
    owned = OwnedRows(
        population,
        True,
        row_ptr,
        column.astype(np.int32),
        np.arange(n, dtype=np.int32),
        relation.astype(np.uint16),
    )
    key, hops = key_of(1, 0, number), []
    rows = seeds = sampler.seeds_of_owner(owned, key)
    assert len(seeds) == 20
    assert ((seeds - first["paper"]) % 3 > 0).all()
    for hop in range(2):
        block = sampler.block_of_owner(owned, rows, hop, key)
        of = np.repeat(rows, np.diff(block.ptr))
        found = {"rows": rows - first["paper"] if hop == 0 else rows}
        for k, ((source, _, end), matrix) in enumerate(graph().items()):
            mine = relation[block.nonzeros] == k
            at = of[mine] - first[end], column[block.nonzeros[mine]] - first[source]
            kept = np.zeros(matrix.shape)
            kept[at] = block.factors[mine]
            edges = matrix.toarray() != 0
            assert not (kept != 0)[~edges].any()
            inside = np.isin(np.arange(len(kept)) + first[end], rows)
            size, degree = (kept != 0).sum(1), edges.sum(1)
            assert (size == np.where(inside, np.minimum(degree, fanouts[k][hop]), 0)).all()
            assert np.allclose(kept[size > 0].sum(1), degree[size > 0])
            found[types.relations[k]] = kept
        hops.append(found)
        rows = np.union1d(rows, column[block.nonzeros])
    return hops


def maps(conv, name: str):
    """Map and bias of own rows of a type, and maps of neighbours by the number of the relation."""
    into = conv.types.into(name)
    if isinstance(conv, RGCNConv):
        own = conv.weight_self[: conv.types.widths[name]]
        return own, conv.bias, {k: conv.weights[k] for k in into}
    convs = {k: conv.convs[k] for k in into}
    own = sum(each.weight_self for each in convs.values())
    return own, sum(each.bias for each in convs.values()), {k: c.weight for k, c in convs.items()}


def outputs(network: Network, hops: list[dict], mean: bool) -> torch.Tensor:
    """Papers' outputs by dense products with the blocks."""
    h = {name: torch.from_numpy(each["features"]).double() for name, each in data().items()}
    for k, (conv, hop) in enumerate(zip(network.convs, hops[::-1], strict=True)):
        out = {}
        layer = {name: maps(conv, name) for name in conv.types.wanted}
        for name, (weight, bias, _) in layer.items():
            out[name] = h[name] @ weight + bias
        for number, relation in enumerate(conv.types.relations):
            source, _, end = relation
            a = torch.from_numpy(hop[relation])
            if mean:
                a = (a != 0).double()
                a = a / a.sum(1, keepdim=True).clamp(min=1)
            out[end] = out[end] + a @ h[source] @ layer[end][2][number]
        h = out if k else {name: torch.relu(each) for name, each in out.items()}
    return h["paper"]


@pytest.mark.parametrize(("model", "aggregator"), [("rgcn", "sum"), ("sage", "mean")])
def test_a_step_on_ranks_is_that_of_dense_matrices_of_the_drawn_blocks(plan, model, aggregator):
    types = TypesOfNetwork(WIDTHS, tuple(graph()), "paper")
    how = NetworkOptions(model=model, conv={"aggregator": aggregator}, types=asdict(types))
    network = Network([6, 8, 3], how, 1, torch.float64)
    labels = torch.from_numpy(data()["paper"]["labels"])
    hops = drawn(plan, 0)
    seeds = hops[0]["rows"]
    loss = torch.nn.functional.cross_entropy(
        outputs(network, hops, aggregator == "mean")[seeds], labels[seeds]
    )
    gradients = torch.autograd.grad(loss, [*network.parameters()])
    wanted = {
        name: (weight - 0.5 * gradient).detach().numpy()
        for (name, weight), gradient in zip(network.named_parameters(), gradients, strict=True)
    }
    options = TrainOptions(
        **SAMPLED,
        **{"model": model, "aggregator": aggregator, "relation_fanouts": FANOUTS},
        **{"hidden": 8, "epochs": 1, "steps": 1, "optimizer": "sgd", "lr": 0.5},
        **{"weight_decay": 0.0, "dropout": 0.0, "dtype": "float64"},
    )
    for ranks in (3, 4):
        result = run_ranks(ranks, lambda t: train(plan, options, t), 180)[0]
        assert result.steps[0].loss == pytest.approx(loss.item(), abs=1e-10)
        for name, weight in wanted.items():
            assert np.abs(result.weights[name] - weight).max() < 1e-10, name


SAMPLERS = [
    SAMPLED | {"relation_fanouts": {"paper:cites:paper": "1,2"}},
    *({"sampler": "uniform", "batch_size": 60}, {"sampler": "walk", "batch_size": 30}),
    *(
        {"sampler": "train", "batch_size": 15},
        {"sampler": "edges", "sampler_options": {"keep": 0.5}},
    ),
]


@turns(
    sampler=SAMPLERS,
    way=tuple(product(("rgcn", "sage", "gat"), (PASSES, ()))),
    between=({}, {"norm": "batch", "scale_features": "columns"}, {"residual": True}),
    cache=(None, 200),
    ranks=(3, 4),
)
def test_ranks_train_alike_on_batches_of_any_sampler(plan, sampler, way, between, cache, ranks):
    model, passes = way
    options = TrainOptions(
        **{"model": model, "hidden": 8, "epochs": 2, "lr": 0.1, "dtype": "float64"},
        **{"passes": passes, "eval_every": 1, "feature_cache": cache, **sampler, **between},
    )
    alone, found = (run_ranks(p, lambda t: train(plan, options, t), 180)[0] for p in (1, ranks))
    assert alone.epochs[-1].loss != alone.epochs[0].loss
    for mine, other in zip(found.epochs, alone.epochs, strict=True):
        assert mine.loss == pytest.approx(other.loss, abs=1e-10)
        assert mine.val_loss == pytest.approx(other.val_loss, abs=1e-10, nan_ok=True)
    assert [step.vertices for step in found.steps] == [step.vertices for step in alone.steps]


def test_every_set_of_neighbours_in_a_relation_is_as_likely():
    column = np.concatenate([np.arange(1, 6), np.arange(1, 6)]).astype(np.int32)
    relation = np.repeat([0, 1], 5).astype(np.uint16)
    row_ptr = np.array([0, 10, 10, 10, 10, 10, 10])
    owned = OwnedRows(Population(6), False, row_ptr, column, np.arange(6, dtype=np.int32), relation)
    sampler, sets = RelationSampler(1, (2,), ((2,), (3,))), {}
    for number in range(6000):
        block = sampler.block_of_owner(owned, np.array([0]), 0, key_of(1, 0, number))
        kept = tuple(block.nonzeros.tolist())
        sets[kept] = sets.get(kept, 0) + 1
        assert block.factors.tolist() == [5 / 2] * 2 + [5 / 3] * 3
    pairs_of = dict.fromkeys(combinations(range(5), 2), 0)
    both = {(*a, *(5 + np.array(b)).tolist()) for a in pairs_of for b in combinations(range(5), 3)}
    assert set(sets) == both  # relations draw independently
    assert chisquare(list(sets.values())).pvalue > 1e-4


def test_what_batches_of_types_do_not_offer_is_one_sentence(plan, tmp_path):
    plancc.compile(sp.eye_array(9), "block", 1).save(tmp_path / "square.h5")
    for path, given, words in (
        (plan, {"relation_fanouts": {"cites": (1,)}}, "`relation_fanouts` cites: 1 has 1 number,"),
        (plan, {"relation_fanouts": {"cites": "0,1"}}, "cites: 0,1: a fan-out must be"),
        (plan, {"relation_fanouts": {"cites": "a"}}, "cites: 'a': whole numbers"),
        (plan, {"relation_fanouts": {"edits": (1, 1)}}, "fanouts` edits: relation 'edits'"),
        (plan, {"draw": "everywhere"}, "only row owners draw neighbours in relations"),
        (tmp_path / "square.h5", {"relation_fanouts": {"cites": (1, 1)}}, "and a plan with types"),
    ):
        model = {} if path.name == "square.h5" else {"model": "rgcn"}
        options = TrainOptions(**SAMPLED | {"batch_size": 2} | model | given)
        with pytest.raises(InputError, match=words):
            run_ranks(1, lambda t, path=path, options=options: train(path, options, t), 60)
    with pytest.raises(InputError, match="`relation_fanouts`: only mini-batches have fan-outs"):
        TrainOptions(relation_fanouts={"cites": (1, 1)})
