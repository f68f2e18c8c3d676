"""Runs of `plancc.train` and `plancc-run` with a class of the user's, beside a plain loop."""

import pytest

pytest.importorskip("torch_geometric")

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from shutil import copy

import numpy as np
import own_nets
import test_hetero_networks as hetero
import torch
import worlds
from cli_helpers import plancc as command
from cli_helpers import plancc_run
from runs import file_of, on_ranks
from torch.nn import functional

import plancc
import plancc_runtime
from plancc.errors import InputError, PlanccWarning

FILE = own_nets.__file__
EPOCHS, SEED, RATE = 5, 3, 0.05
COMMON = {"epochs": EPOCHS, "lr": RATE, "dtype": "float64", "threads": 1, "seed": SEED}
LOSSES = {
    **dict.fromkeys(("classes", "types", "relations"), functional.cross_entropy),
    "several": functional.binary_cross_entropy_with_logits,
    "numbers": functional.mse_loss,
}
NETS = {"classes": own_nets.Net, "several": own_nets.Numbers, "numbers": own_nets.Numbers}
NETS |= {"types": own_nets.Typed, "relations": own_nets.Relations}
X, Y = "directed", "undirected"


@cache
def data(kind="classes"):
    """The data of the world's vertices; what is learnt are classes, several of them, or numbers."""
    targets = np.random.default_rng(5).standard_normal((worlds.N, 2)).astype(np.float32)
    of_kind = {"numbers": targets, "several": targets > 0}
    found = worlds.data()
    return found if kind not in of_kind else replace(found, labels=None, targets=of_kind[kind])


@pytest.fixture(scope="module")
def plans(tmp_path_factory):
    """From a kind of targets to a plan file with the world's weights for edges, for 3 parts."""
    folder = tmp_path_factory.mktemp("plans")
    graph = hetero.COUNTS | {k: ends.numpy() for k, ends in hetero.world(5).edges.items()}
    with pytest.warns(PlanccWarning, match="rows venue: imbalance"):
        plan = plancc.compile(graph, "hp", 3, data=typed_data(), normalize="none")
    plan.save(folder / "types.h5")
    copy(folder / "types.h5", folder / "relations.h5")
    for kind in ("classes", "several", "numbers"):
        plan, vertex_data = worlds.plan(X, "row", 3), data(kind)
        replace(plan, vertex_data=vertex_data.take(plan.global_id)).save(folder / f"{kind}.h5")
    return folder


def typed_data():
    """What the typed world carries: features of all types, and labels of papers, some unknown."""
    random = np.random.default_rng(0)
    held = {
        name: {"features": random.standard_normal((count, hetero.WIDTHS[name])).astype("f4")}
        for name, count in hetero.COUNTS.items()
    }
    labels = random.integers(-1, worlds.CLASSES, hetero.COUNTS["paper"])
    return held | {"paper": held["paper"] | {"labels": labels}}


def typed_inputs(kind):
    """As of `inputs`, of a plan with types."""
    x = {k: torch.from_numpy(each["features"]).double() for k, each in typed_data().items()}
    y, ends = torch.from_numpy(typed_data()["paper"]["labels"]), hetero.world(5).edges
    if kind == "types":
        widths, weights = hetero.WIDTHS, {k: torch.ones(e.shape[1]) for k, e in ends.items()}
        made = {"in_channels": widths, "metadata": hetero.METADATA}
        given = {"x_dict": x, "edge_index_dict": ends, "edge_weight_dict": weights}
        return made, given, y, y >= 0, lambda out: out["paper"]
    index, edge_type = hetero.union(ends)
    x = torch.cat([functional.pad(each, (0, 7 - each.shape[1])) for each in x.values()])
    papers = slice(hetero.COUNTS["author"], -hetero.COUNTS["venue"])
    given = {"x": x, "edge_index": index, "edge_type": edge_type}
    return {"in_channels": 7, "num_relations": 5}, given, y, y >= 0, lambda out: out[papers]


def inputs(kind):
    """Options of the constructor, arguments, labels, those for training, and what has outputs."""
    if kind in ("types", "relations"):
        return typed_inputs(kind)
    matrix, known = worlds.array(X), data(kind)
    target, source = np.nonzero(matrix)
    given = {"x": torch.from_numpy(known.features).double()}
    given["edge_index"] = torch.from_numpy(np.stack([source, target]))
    y = torch.from_numpy(known.labels.astype(np.int64) if kind == "classes" else known.targets)
    train = torch.from_numpy(known.train_mask) & ((y >= 0) if kind == "classes" else True)
    y = y if kind == "classes" else y.double()
    if kind == "classes":
        given["edge_weight"] = torch.from_numpy(matrix[target, source])
    return {"in_channels": worlds.WIDTH}, given, y, train, lambda out: out


def single(x):
    if isinstance(x, dict):
        return {name: single(each) for name, each in x.items()}
    return x.float() if x.is_floating_point() else x


@cache
def plain_loop(kind):
    """Losses of the epochs, and the weights after them, of torch and PyG alone."""
    made, given, y, train, of_learnt = inputs(kind)
    torch.manual_seed(SEED)
    width = y.shape[1] if y.ndim > 1 else worlds.CLASSES
    net = NETS[kind](**made, out_channels=width, hidden=7)
    with torch.no_grad():  # lazy layers get their sizes
        net.eval()(**single(given))
    net = net.train().double()
    optimizer, losses = torch.optim.Adam(net.parameters(), lr=RATE), []
    for _ in range(EPOCHS):
        loss = LOSSES[kind](of_learnt(net(**given))[train], y[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        outputs = of_learnt(net.eval()(**given))
    return losses, net.state_dict(), outputs


def trained(path, ranks, **options):
    def work(transport):
        return plancc.train(path, transport=transport, **{**COMMON, **options})

    return on_ranks(ranks, work)[0]


@pytest.mark.parametrize("ranks", [1, 3])
@pytest.mark.parametrize("kind", LOSSES)
def test_losses_and_weights_of_a_plain_loop(kind, ranks, plans):
    losses, weights, outputs = plain_loop(kind)
    found = trained(plans / f"{kind}.h5", ranks, model=NETS[kind], model_options={"hidden": 7})
    np.testing.assert_allclose(found.history["loss"], losses, rtol=1e-9)
    for name, value in weights.items():
        # the gradient of a bias before a norm is rounding, which Adam scales up
        np.testing.assert_allclose(found.weights[f"model.{name}"], value, atol=1e-8)
    if LOSSES[kind] is functional.cross_entropy:
        np.testing.assert_allclose(found.probabilities, outputs.softmax(dim=-1), atol=1e-6)
    assert found.result.figures is None
    assert (found.history["words"].sum() > 0) == (ranks > 1)


@pytest.mark.parametrize(("kind", "drops"), [("classes", {"rate": "0.5"}), ("types", {})])
def test_a_run_resumes_to_the_bit_and_other_ranks_agree(kind, drops, plans, tmp_path):
    path, model = plans / f"{kind}.h5", f"{FILE}:{NETS[kind].__name__}"
    options = {"model": model, "model_options": {"hidden": 8} | drops, "patience": 4}
    options["split"] = (0.6, 0.2, 0.2)
    whole = trained(path, 3, eval_every=1, **options)
    kept = {"checkpoint": tmp_path / "kept", "eval_every": 1, **options}
    trained(path, 3, **kept | {"epochs": 2})
    again = trained(path, 3, **kept, resume=True)
    for name, value in whole.weights.items():
        np.testing.assert_array_equal(again.weights[name], value, err_msg=name)
    alone = trained(path, 1, eval_every=1, **options)
    np.testing.assert_allclose(alone.history["loss"], whole.history["loss"], rtol=1e-9)
    with pytest.raises(InputError, match="with model-options"):
        trained(path, 3, **kept | {"model_options": {"hidden": 9}}, resume=True)


@pytest.mark.parametrize(("kind", "drops"), [("classes", {"rate": 0.5}), ("types", {})])
def test_layers_that_are_computed_again_change_nothing(kind, drops, plans):
    options = {"model": NETS[kind], "model_options": {"hidden": 8} | drops}
    kept, again = (trained(plans / f"{kind}.h5", 3, recompute=k, **options) for k in (False, True))
    assert again.history["loss"].tolist() == kept.history["loss"].tolist()
    assert again.history["words"].sum() >= kept.history["words"].sum()
    for name, value in kept.weights.items():
        np.testing.assert_array_equal(again.weights[name], value, err_msg=name)


def test_links_samples_and_features_of_edges(tmp_path):
    """What the plan has beside vertices: by any number of ranks alike."""
    target, source = np.nonzero(worlds.array(Y))
    pair = np.stack([target, source]), np.sin(np.stack([target, source], axis=1)).astype("f4")
    graph, kept = worlds.graph(Y), {"normalize": "none", "data": worlds.data()}
    plancc.compile(graph, "hp", 3, link_split=(0.2, 0.2), **kept).save(tmp_path / "links.h5")
    plancc.compile(graph, "hp", 3, edge_features=pair[1], **kept).save(tmp_path / "edges.h5")
    for name, options in {
        "links": {
            "model": own_nets.Net,
            "hidden": 6,
            "decoder": "mlp",
            "model_options": {"hidden": 5},
        },
        "edges": {"model": own_nets.Edges},
    }.items():
        one, three = (trained(tmp_path / f"{name}.h5", ranks, **options) for ranks in (1, 3))
        np.testing.assert_allclose(one.history["loss"], three.history["loss"], rtol=1e-9)
    with pytest.raises(InputError, match="sampled edges have no features"):
        trained(tmp_path / "edges.h5", 3, model=own_nets.Edges, boundary_sampling=0.5)
    sampled = [
        trained(tmp_path / "links.h5", 3, model=own_nets.Net, boundary_sampling=p).history
        for p in (None, 1.0, 0.5, 0.5)
    ]
    np.testing.assert_allclose(sampled[1]["loss"], sampled[0]["loss"], rtol=1e-9)
    assert sampled[2]["loss"].tolist() == sampled[3]["loss"].tolist() != sampled[0]["loss"].tolist()
    assert sampled[2]["words"].sum() < sampled[1]["words"].sum()


@pytest.mark.parametrize("kind", ["classes", "types", "relations"])
def test_the_command_line_saves_and_predicts(kind, plans, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    copy(FILE, "my_net.py")
    plan, model = plans / f"{kind}.h5", f"my_net.py:{NETS[kind].__name__}"
    words = [plan, "--ranks", 2, "--model", model, "--epochs", EPOCHS]
    words += ["--model-option", "hidden=7", "--save", "w.npz", "--predict", "a.npz", "--seed", SEED]
    done = plancc_run(*words, "--log", "log.jsonl", "--lr", RATE)
    assert done.code == 0, done.err
    assert f"{model} (hidden 7) {worlds.WIDTH} x {worlds.CLASSES}, adam" in done.out
    logged = [json.loads(line) for line in Path("log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in logged if "loss" in line][:EPOCHS]
    np.testing.assert_allclose(losses, plain_loop(kind)[0], rtol=1e-3)
    predict = ["predict", plan, "--weights", "w.npz"]
    assert command(*predict, "-o", "b.npz").code == 0
    np.testing.assert_array_equal(np.load("a.npz")["class"], np.load("b.npz")["class"])
    assert command(*predict, "--ids", "4,2").out.splitlines()[1].startswith("4,")
    with pytest.raises(InputError, match=f"w.npz: its network is class {model}"):
        plancc_runtime.load_network("w.npz")
    Path("my_net.py").unlink()
    done = command(*predict, "-o", "c.npz")
    assert done.code == 2
    assert f"w.npz: the class of its network, {model}, must be in the folder" in done.err
    assert "my_net.py: no such file" in done.err


@pytest.mark.parametrize(
    ("name", "kind", "code"),
    [
        ("Net", "classes", 0),
        ("Depends", "classes", 1),
        ("Typed", "types", 0),
        ("Relations", "relations", 0),
        ("Papers", "types", 1),
    ],
)
def test_check_model(name, kind, code, plans):
    words = ["--ranks", 3, "--model", f"{FILE}:{name}", "--check-model"]
    words += ["--scale-features", "columns"]
    done = plancc_run(plans / f"{kind}.h5", *words)
    assert done.code == code, done.err
    assert "  gradient of first." in done.out
    assert ("equal to 1e-9" in done.out) == (not code)
    assert (f"{name}: results on 3 ranks and 1 rank differ, first in" in done.err) == bool(code)


REFUSED = {
    "none.py:Net": "none.py: no such file",
    "folder:Net": "folder: is a folder",
    "broken.py:Net": "broken.py, line 2: is not Python",
    "zero.py:Net": "zero.py: is not Python",
    f"{FILE}:Nett": "has no class 'Nett' (did you mean Net?); it has Net, Numbers",
    f"{FILE}:function": "'function' is a function, not a class",
    f"{FILE}:Plain": "'Plain' is not a class derived from torch.nn.Module",
    "raises.py:Net": "raises.py: cannot be imported: ZeroDivisionError",
    "{}:Net --model-option hiden=3": "--model-option hiden=3|did you mean hidden?|hidden, rate",
    "{}:Needs --model-option depth=3": "its constructor needs width; give --model-option width=",
    "{}:Lazy": "'unused.lin.weight' has no size yet",
    "{}:Unmade": "Unmade: cannot be made: ValueError: there is no such width",
    "{}:Positions": "its forward needs pos, batch, which the plan lacks",
    "{}:Edges": "forward needs edge_attr (features of edges: compile|--edge-features)",
    "{}:Data": "its forward expects an object 'data'|forward(self, x, edge_index)",
    "{}:Wide": "returns shape [41, 14], but must return a tensor of shape [41, 5]",
    "{}:Fails": "its forward fails: RuntimeError",
    "{}:FailsBack": "its backward pass fails: IndexError",
    "{}:NoGradient": "outputs of the network do not depend on its weights|`torch.no_grad`",
    "{}:Sorts": "sort works along the axis of rows",
    "{}:Net --hidden 64": "--hidden 64: is only for built-in models|--model-option hidden=64",
    "{}:Net --layers 3": "--layers 3: is only for built-in models|--model-option layers=3",
    "{}:Net --dropout 0.5": "--dropout 0.5|--model-option dropout=0.5",
    "{}:Net --norm batch": "--norm batch|built-in models",
    "{}:Net --batch-size 5": "--batch-size 5: is only for built-in models|leave the option out",
    "{}:Net --kernel numba": "--kernel numba: is only for built-in models",
    "{}:Net --passes order": "--passes order: is only for built-in models",
    "{}:Net --target paper": "--target paper needs a plan with vertex types",
    f"{FILE}": "give FILE:CLASS, a class in it; it has Net, Numbers",
    "{}:Typed": "its constructor needs metadata",
    "{}:Dicts": "needs edge_index_dict (relations: compile a graph with types)",
    "{}:Kinds": "needs edge_type (relations: compile a graph with types)",
    "{}:Venues types": "returns NoneType|a row of 5 for each vertex of type 'paper'",
    "{}:Net types --boundary-sampling 0.5": "0.5 is only for plans of one vertex type",
    "{}:Net --predict a.csv --embeddings 1": "--embeddings 1: is only for built-in models",
    "{}:Net --dtype bfloat16": "--dtype bfloat16: a class of your own needs float32 or float64",
    "gcn --check-model": "--check-model: needs a class of your own; give --model FILE:CLASS",
}


WRONG = {"broken.py": "\nx = = 2", "zero.py": "\0", "raises.py": "class Net: x = 1 / 0"}


@pytest.mark.parametrize("line", REFUSED)
def test_what_is_refused(line, plans, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in WRONG.items():
        Path(name).write_text(text)
    Path("folder").mkdir()
    before = sorted(Path().glob("[!_]*"))
    plan = plans / ("types.h5" if " types" in line else "classes.h5")
    words = line.replace("{}", FILE).replace(" types", "").split()
    done = plancc_run(plan, "--model", *words)
    assert done.code == 2, done.err
    sentence, *below = done.err.strip().splitlines()
    missing = [words for words in REFUSED[line].split("|") if words not in sentence]
    assert not missing, done.err
    own = {"raises.py": 'raises.py", line 1', "Unmade": "in __init__", ":Fails": "own_nets.py"}
    shown = [words for each, words in own.items() if each in line]
    assert bool(below) == bool(shown)
    assert all(words in "\n".join(below) for words in shown)
    assert sorted(Path().glob("[!_]*")) == before


@pytest.mark.parametrize("layout", ["edge", "2d 2x2"])
def test_plans_of_other_layouts_are_refused(layout):
    with pytest.raises(InputError, match=r"is of layout .*; compile one with model hp"):
        trained(file_of(X, layout), 4, model=own_nets.Net)


def test_ranks_whose_network_differs_are_named(plans):
    with pytest.raises(InputError, match="on rank 0 differ from those of ranks 1, 2"):
        trained(plans / "classes.h5", 3, model=own_nets.Differs)
    with pytest.raises(InputError, match="of type Linear: give a class"):
        plancc.train(plans / "classes.h5", model=torch.nn.Linear(2, 2))
