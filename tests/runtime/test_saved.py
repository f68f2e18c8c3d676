"""Files of weights: which network they describe, and files that somebody made up."""

import io
import json
import math
import zipfile

import numpy as np
import pytest
import torch
import worlds
from launcher import alone
from reference import dense_convolution, normalised
from worlds import CLASSES, WIDTH, N

import plancc
import plancc_runtime
from plancc.errors import InputError
from plancc_runtime.weights import DESCRIPTION, read_weights, save_weights


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A folder with plan.h5, the pattern that it was made from, and its features."""
    folder = tmp_path_factory.mktemp("saved")
    edge = worlds.array("undirected") != 0
    np.fill_diagonal(edge, False)
    data = worlds.data()
    plancc.compile((N, np.stack(edge.nonzero())), "rp", 2, data=data).save(folder / "plan.h5")
    return folder, edge, data.features


@pytest.fixture(scope="module")
def weights(case):
    """The arrays of a file of a GCN's weights, and its description."""
    folder, *_ = case
    path = folder / "weights.npz"
    done = alone(folder / "plan.h5", "--epochs", 2, "--save", path)
    assert done.returncode == 0, done.stderr
    with np.load(path) as file:
        arrays = dict(file)
    return arrays, json.loads(str(arrays.pop(DESCRIPTION)))


def test_saved_weights_are_announced_and_have_their_own_extension(case, tmp_path):
    plan, path = case[0] / "plan.h5", tmp_path / "w.npz"
    done = alone(plan, "--epochs", 1, "--save", path)
    assert f"{path}: the weights (plancc predict {plan} --weights {path} -o" in done.stdout
    other = tmp_path / "w.pt"
    done = alone(plan, "--epochs", 1, "--save", other)
    assert done.returncode == 2
    assert f"--save {other}: the file of weights needs a name that ends in .npz" in done.stderr
    assert not other.exists()


def test_initial_weights_of_another_network_say_so_first(case, tmp_path):
    plan, path = case[0] / "plan.h5", tmp_path / "w.npz"
    alone(plan, "--epochs", 1, "--scale-features", "columns", "--save", path)
    for options, words in (
        (["--model", "sage"], "holds weights of model gcn, but this run trains sage; set --model"),
        (["--hidden", 7], "convs.0.weight has shape"),
        ([], "these weights were trained on standardised features; set --scale-features"),
    ):
        done = alone(plan, "--epochs", 1, "--init", path, *options)
        assert done.returncode == 2
        assert words in done.stderr
        assert f"{path}: " in done.stderr


def test_rows_that_do_not_fit_name_the_argument_and_the_file(case):
    graph = plancc_runtime.open(case[0] / "plan.h5", "single", threads=1)
    wrong = torch.ones(5, 2)
    needs = rf"has shape \[5, 2\], but needs \[{N}, ...\]"
    with pytest.raises(InputError, match=rf"^`rows` {needs}"):
        graph.gather(wrong)
    with pytest.raises(InputError, match=rf"^out\.csv: `rows` {needs}"):
        graph.save_rows("out.csv", wrong)
    with pytest.raises(InputError, match=rf"^out\.csv: `rows`\['score'\] {needs}"):
        graph.save_rows("out.csv", {"score": wrong})


@pytest.mark.parametrize("model", ["gcn", "sage", "gin"])
def test_a_loaded_network_computes_what_the_formulas_say(model, case):
    folder, edge, features = case
    path, results = folder / f"{model}.npz", folder / f"{model}.json"
    done = alone(
        *(folder / "plan.h5", "--model", model, "--epochs", 3, "--hidden", 5, "--dropout", 0.5),
        *("--scale-features", "rows", "--dtype", "float64"),
        *([] if model == "gin" else ["--no-bias"]),
        *("--save", path, "--json", results),
    )
    assert done.returncode == 0, done.stderr
    network = plancc_runtime.load_network(path, torch.float64)
    assert network.description.dims == (WIDTH, 5, CLASSES)
    assert network.description.normalize_features
    assert not network.training
    graph = plancc_runtime.open(folder / "plan.h5", "single", torch.float64, threads=1)
    found = network(graph).detach()
    with np.load(path) as file:
        saved = {key: torch.tensor(file[key]) for key in file.files if key != DESCRIPTION}
        assert json.loads(results.read_text())["network"] == json.loads(str(file[DESCRIPTION]))
    a = torch.tensor(normalised(edge))
    h = torch.tensor(features, dtype=torch.float64)
    h = h / h.abs().sum(dim=1, keepdim=True)
    for k in range(2):
        own = {n.removeprefix(f"convs.{k}."): w for n, w in saved.items() if f"convs.{k}" in n}
        h = dense_convolution(model, "mean", a, own, h)
        h = torch.relu(h) if k == 0 else h
    torch.testing.assert_close(found, h[graph.vertices.long()])
    sums = network.probabilities(found).sum(dim=1)
    torch.testing.assert_close(sums, torch.ones_like(sums))


def test_a_graph_without_such_features_is_refused(case, weights):
    folder, *_ = case
    network = plancc_runtime.load_network(folder / "weights.npz")
    graph = plancc_runtime.open(folder / "plan.h5", "single", threads=1)
    with pytest.raises(InputError, match=r"shape \[41, 6\], .* features of width 7"):
        network(graph, graph.features[:, 1:])
    graph.features = None
    with pytest.raises(InputError, match="no features; pass x"):
        network(graph)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"format": 2}, "format 2; this version"),
        ({"format": None}, "format None"),
        ({"dims": [7, -1, 5]}, "'dims' must be"),
        ({"dims": [7, True, 5]}, "'dims' must be"),
        ({"dims": [7, 17, 5]}, "convs.0.weight has shape"),
        ({"dims": [7, 2**30, 2**30, 5]}, "fewer weights than a network of 7 x 1073741824"),
        ({"dims": [2**31 - 1, 2**31 - 1]}, "fewer weights"),
        ({"model": "mlp"}, "mlp"),
        ({"activation": "sin"}, "sin"),
        ({"norm": ["batch"]}, "'norm' must be text"),
        ({"norm": "batch"}, "has no array norms.0"),
        ({"random_labels": 1}, "'random_labels' must be true or false"),
        ({"dropout": "much"}, "'dropout' must be a number"),
        ({"dropout": math.nan}, "'dropout' must be at least 0 and below 1"),
        ({"dropout": 1}, "'dropout' must be at least 0 and below 1"),
        ({"input_dropout": -0.1}, "'input_dropout' must be at least 0"),
        ({"conv": {"bias": math.nan}}, "'bias' of 'conv' must be a finite number"),
        ({"dims": [7, *[5] * 70_000, 5]}, "arrays, fewer than a network of 70001 layers"),
        ({"conv": [1]}, "'conv' must be an object"),
        ({"conv": {"bias": "__import__('os')"}}, "bias"),
        ({"conv": {"order": {}}}, "order|describes no network"),
        ({"conv": {"wheels": 4}}, "wheels"),
        ({"model": "gat", "conv": {"heads": 2**40}}, "fewer weights"),
        ({"wheels": 4}, "does not know the option 'wheels' of the file's network"),
    ],
)
def test_made_up_descriptions(change, words, weights, tmp_path):
    arrays, description = weights
    path = tmp_path / "made-up.npz"
    save_weights(path, arrays, description | change)
    with pytest.raises(InputError, match=words) as caught:
        plancc_runtime.load_network(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [np.array("{"), np.array("[1]"), np.array("[" * 10**5), np.array("x" * 10**6), np.zeros(3)],
    ids=["torn", "list", "deep", "long", "numbers"],
)
def test_text_that_is_no_description(text, weights, tmp_path):
    arrays, _ = weights
    np.savez(tmp_path / "w.npz", **arrays | {DESCRIPTION: text})
    with pytest.raises(InputError, match=r"w\.npz"):
        plancc_runtime.load_network(tmp_path / "w.npz")


@pytest.mark.parametrize("dtype", [">f4", ">f8", "g", "f2", "<u2", ">u8", "i1"])
def test_numbers_of_any_type_are_read(dtype, weights, tmp_path):
    arrays, description = weights
    name = "convs.0.weight"
    chosen = np.round(8 * np.abs(arrays[name]))
    save_weights(tmp_path / "w.npz", arrays | {name: chosen.astype(dtype)}, description)
    network = plancc_runtime.load_network(tmp_path / "w.npz")
    np.testing.assert_array_equal(network.network.state_dict()[name].numpy(), chosen)


def test_texts_of_a_file_are_shortened(weights, tmp_path):
    arrays, description = weights
    long = "x" * 10**5
    for change in ({"model": long}, {"norm": long}, {"conv": {"bias": "\x1b" + long}}):
        save_weights(tmp_path / "w.npz", arrays, description | change)
        with pytest.raises(InputError) as caught:
            plancc_runtime.load_network(tmp_path / "w.npz")
        assert len(str(caught.value)) < 600
        assert str(caught.value).isprintable()


def claim(dtype: str, size: int) -> bytes:
    """The head of a square array, with no number behind it."""
    header = io.BytesIO()
    facts = {"descr": dtype, "fortran_order": False, "shape": (size, size)}
    np.lib.format.write_array_header_1_0(header, facts)
    return header.getvalue()


def test_a_network_is_no_larger_than_the_file_has_numbers_for(weights, tmp_path):
    """Shapes and a description that agree with each other: 4 TB of weights in 600 bytes."""
    description = weights[1] | {"dims": [10**6, 10**6]}
    text = io.BytesIO()
    np.save(text, np.array(json.dumps(description)))
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as archive:
        archive.writestr(f"{DESCRIPTION}.npy", text.getvalue())
        archive.writestr("convs.0.weight.npy", claim("<f4", 10**6))
    with pytest.raises(InputError, match=r"convs\.0\.weight has fewer numbers than its shape"):
        plancc_runtime.load_network(tmp_path / "w.npz")
    with pytest.raises(InputError, match=r"numbers than its shape \(1000000, 1000000\)"):
        read_weights(tmp_path / "w.npz", {"convs.0.weight": (2, 3)})
