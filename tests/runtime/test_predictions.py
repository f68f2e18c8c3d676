"""Predictions and other rows in files: against dense matrices, in the source's order."""

import csv
import io
import json
import os
import re
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
import worlds
from cases import turns
from launcher import alone, sentences
from reference import normalised
from runs import on_ranks, with_data

import plancc
import plancc_runtime
from plancc.errors import InputError, OutputError, PlanError
from plancc_runtime import gathering, rowfiles, slices
from plancc_runtime.learner import Learner
from plancc_runtime.predict import predict
from plancc_runtime.transport.single import SingleTransport
from plancc_runtime.weights import read_description, save_weights

pytestmark = pytest.mark.usefixtures("opened_once")
N, WIDTH, HIDDEN, CLASSES = 37, 6, 5, 4
LAYOUTS = {
    "row": ("rp", [1, 3, 4]),
    "edge": ("libra", [1, 2, 4]),
    "1.5d": ("cagnet-1.5d", [4]),
    "2d": ("cagnet-2d", [4]),
    "feature": ("mop", [4]),
}
EVERY = [(name, ranks) for name, (_, sizes) in LAYOUTS.items() for ranks in sizes]


class Case:
    """Plans of a graph whose ids have gaps, and weights; what they predict, by dense matrices."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        random = np.random.default_rng(8)
        edge = np.triu(random.random((N, N)) < 0.12, 1)
        edge[np.arange(N - 1), np.arange(1, N)] = True  # an edge list has no isolated vertices
        self.edge = edge | edge.T
        self.ids = np.sort(random.choice(10**10, N, replace=False))
        self.features = random.standard_normal((N, WIDTH)).astype(np.float32)
        labels = random.integers(0, CLASSES, N).astype(np.int32)
        labels[::3] = -1  # unknown
        self.targets = random.random((N, CLASSES)) < 0.4
        self.labels = labels
        lines = [
            f"{self.ids[i]} {self.ids[j]}" for i, j in zip(*np.nonzero(self.edge), strict=True)
        ]
        random.shuffle(lines)
        (folder / "graph.txt").write_text("\n".join(lines) + "\n")
        self.val = random.random(N) < 0.3
        masks = {"train_mask": ~self.val, "val_mask": self.val}
        data = plancc.VertexData(features=self.features, labels=labels, **masks)
        graph = plancc.read_graph(folder / "graph.txt")
        self.plans = {}
        for name, (model, _) in LAYOUTS.items():
            options = {"replication": 2} if name == "1.5d" else {}
            plan = plancc.compile(graph, model, 4, data=data, value_dtype="float64", **options)
            plan.save(folder / f"{name}.h5")
            self.plans[name] = plan
        several = plancc.VertexData(features=self.features, targets=self.targets)
        with_data(self.plans["row"], several, folder / "several.h5")
        self.weights = {
            "convs.0.weight": random.standard_normal((WIDTH, HIDDEN)),
            "convs.1.weight": random.standard_normal((HIDDEN, CLASSES)),
        }
        self.description = {
            **{"format": 1, "plancc": "0", "dims": [WIDTH, HIDDEN, CLASSES], "model": "gcn"},
            **{"conv": {"bias": False}, "activation": "tanh"},
        }
        self.save("weights.npz")
        self.save("several.npz", target="classes", normalize_features=True)

    def save(self, name: str, **description: object) -> None:
        save_weights(self.folder / name, self.weights, self.description | description)

    def layers(self, normalize: bool = False) -> list[np.ndarray]:
        """Outputs of both layers, float64."""
        h, a = self.features.astype(np.float64), normalised(self.edge)
        if normalize:
            h = h / np.abs(h).sum(axis=1, keepdims=True)
        first = np.tanh(a @ h @ self.weights["convs.0.weight"])
        return [first, a @ first @ self.weights["convs.1.weight"]]

    def probabilities(self) -> np.ndarray:
        shifted = np.exp(self.layers()[1])
        return shifted / shifted.sum(axis=1, keepdims=True)

    def predict(self, layout: str, ranks: int, path: Path, **options: object) -> list[int]:
        def work(transport):
            return predict(
                *(self.folder / f"{layout}.h5", self.folder / "weights.npz", path, transport),
                **{"dtype": "float64", "threads": 1, **options},
            )[1]

        found = on_ranks(ranks, work)
        assert all(each == found[0] for each in found)
        return found[0]


@pytest.fixture(scope="module")
def case(tmp_path_factory) -> Case:
    return Case(tmp_path_factory.mktemp("predictions"))


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(gathering, "BLOCK_BYTES", 300)


ASKED = [29, 3, 11, 4]


@turns(on=EVERY, layer=[1, 2], asked=[None, None, ASKED, ASKED])
def test_all_layouts_against_dense_matrices(on, layer, asked, case, tmp_path, small_blocks):
    """All vertices, or some in the order in which they are asked for."""
    path, (layout, ranks) = tmp_path / "out.npz", on
    rows = np.arange(N) if asked is None else asked
    ids = None if asked is None else case.ids[asked].tolist()
    counts = case.predict(layout, ranks, path, embeddings=layer, ids=ids)
    expected = case.probabilities()[rows]
    with np.load(path) as found:
        names = ["class", "embedding", "id", "label", "probability", "split"]
        assert sorted(found.files) == names
        np.testing.assert_array_equal(found["label"], case.labels[rows])
        split = np.where(case.labels < 0, "", np.where(case.val, "val", "train"))
        np.testing.assert_array_equal(found["split"], split[rows])
        np.testing.assert_array_equal(found["id"], case.ids[rows])
        np.testing.assert_allclose(found["probability"], expected, rtol=0, atol=1e-12)
        np.testing.assert_array_equal(found["class"], expected.argmax(axis=1))
        np.testing.assert_allclose(found["embedding"], case.layers()[layer - 1][rows], atol=1e-12)
    assert counts == np.bincount(expected.argmax(axis=1), minlength=CLASSES).tolist()
    assert os.listdir(tmp_path) == ["out.npz"]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_words_for_some_vertices_are_those_of_their_neighbourhoods(ranks, tmp_path, monkeypatch):
    plan, width = worlds.plan("grid"), 5
    random = np.random.default_rng(3)
    n = plan.header.num_vertices
    x = random.standard_normal((n, width)).astype(np.float32)
    path = with_data(plan, plancc.VertexData(features=x), tmp_path / "plan.h5")
    shapes = [(width, width), (width, width), (width, 2)]
    weights = {f"convs.{k}.weight": random.standard_normal(s) for k, s in enumerate(shapes)}
    dims = [width, width, width, 2]
    description = {
        "format": 1,
        "plancc": "0",
        "dims": dims,
        "model": "gcn",
        "conv": {"bias": False},
    }
    save_weights(tmp_path / "w.npz", weights, description)
    sent, outputs = [], Learner.outputs

    def counted(self, view, *rest):
        before = self.transport.traffic.words_sent
        found = outputs(self, view, *rest)
        sent.append(self.transport.traffic.words_sent - before)
        return found

    monkeypatch.setattr(Learner, "outputs", counted)
    ids = random.choice(n, 10, replace=False)
    names = path, tmp_path / "w.npz", tmp_path / "out.csv"
    found = on_ranks(ranks, lambda transport: predict(*names, transport, ids=ids.tolist()))[0]

    owner, matrix = plan.owner() * ranks // 4, worlds.array("grid")
    live, words = ids, 0
    for _, d_out in reversed(shapes):
        row, column = matrix[live].nonzero()
        pairs = np.unique(np.stack([owner[live[row]], column]), axis=1)
        words += int((owner[pairs[1]] != pairs[0]).sum()) * d_out
        live = np.union1d(live, column)
    assert found.words == sum(sent) == words
    assert bool(words) == (ranks > 1)
    sent.clear()
    everything = on_ranks(ranks, lambda transport: predict(*names, transport))[0]
    assert everything.num_vertices == n
    assert found.words_of_all == sum(sent)
    assert words < sum(sent) / 2 or ranks == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "`ids` '.*asked.txt': is neither an id, .*, nor a file that can be read"),
        ("1.5", "`ids` '1.5': is neither an id, which is a whole number, nor a file"),
        ("abc", "`ids` 'abc': is neither an id"),
        ("", "`ids` '': is neither an id"),
        (b"", "asked.txt: there is no id; give at least one"),
        (b"7\n\n8 9\n", "asked.txt, line 3: '8 9': is not an id; ids are whole numbers"),
        (b"\xff\xfe7\n", "asked.txt, line 1: .*is not an id; ids are whole numbers"),
        (b"1\n2\n1", "asked.txt, line 3: '1': this id is given twice; give every id once"),
        (b"\x93NUMPY\1\0v\0", "asked.txt: is not text: `ids` expects numbers, or a text file"),
        (b"\n0", "asked.txt, line 2: id 0: no vertex of .*row.h5 has this id; its ids come from"),
        ("1,2.5", "`ids` 2.5: is not an id"),
        ("1,,2", "`ids` : is not an id"),
        ("9" * 30, "`ids` 9+: is not an id"),
    ],
)
def test_ids_that_are_refused(content, words, case, tmp_path):
    asked, out = tmp_path / "asked.txt", tmp_path / "out"
    out.mkdir()
    if isinstance(content, bytes):
        asked.write_bytes(content)
    ids = content if isinstance(content, str) else str(asked)
    with pytest.raises(InputError, match=words):
        case.predict("row", 2, out / "out.csv", ids=ids)
    assert no_file(out)


def test_command_prints_answers_for_ids_of_a_file(case, tmp_path, ranks):
    asked = tmp_path / "asked.txt"
    lines = "".join(f"{each}\n" for each in case.ids[ASKED])
    asked.write_text(lines, "utf-8-sig")  # as Notepad does
    names = case.folder / "row.h5", "--weights", case.folder / "weights.npz"
    done = ranks.run(3, "predict", *names, "--ids", asked, program="plancc")
    assert done.returncode == 0, done.stderr
    header, *rows = csv.reader(io.StringIO(done.stdout))
    assert header[:4] == ["id", "class", "label", "split"]
    assert [int(row[0]) for row in rows] == case.ids[ASKED].tolist()
    found = np.array([row[4:] for row in rows], np.float64)
    np.testing.assert_allclose(found, case.probabilities()[ASKED], atol=1e-5)
    assert re.search(r"predictions for 4 vertices; .*; \d+ words sent, \d+ for all", done.stderr)
    without = ranks.run(3, "predict", *names, program="plancc")
    assert without.returncode == 2
    assert without.stderr.count("give --ids to print predictions") == 1


@pytest.mark.parametrize("ranks", [1, 3])
def test_every_kind_of_file_has_the_same_rows(ranks, case, tmp_path, small_blocks):
    for end in ("csv", "npz"):
        case.predict("row", ranks, tmp_path / f"out.{end}", embeddings=1, dtype="float32")
    with open(tmp_path / "out.csv", newline="") as file:
        header, *rows = csv.reader(file)
    of = {"probability": CLASSES, "embedding": HIDDEN}
    known = ["id", "class", "label", "split"]
    assert header == [*known, *(f"{name}_{k}" for name in of for k in range(of[name]))]
    with np.load(tmp_path / "out.npz") as found:
        columns = [*(found[name] for name in known), *found["probability"].T, *found["embedding"].T]
    for column, *texts in zip(columns, *rows, strict=True):
        assert np.array(texts).astype(column.dtype).tolist() == column.tolist()  # with all digits


def test_vertices_of_several_classes(case, tmp_path):
    def work(transport):
        names = case.folder / "several.h5", case.folder / "several.npz", tmp_path / "out.csv"
        return predict(*names, transport, dtype="float64", threads=1)[1]

    counts = on_ranks(2, work)[0]
    outputs = case.layers(normalize=True)[1]
    with open(tmp_path / "out.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    for k in range(CLASSES):
        classes = [row[f"class_{k}"] for row in rows]
        assert classes == [str(int(z > 0)) for z in outputs[:, k]]
        probability = [float(row[f"probability_{k}"]) for row in rows]
        np.testing.assert_allclose(probability, 1 / (1 + np.exp(-outputs[:, k])), rtol=1e-12)
        assert counts[k] == (outputs[:, k] > 0).sum()


def test_a_run_writes_what_it_ends_with(case, tmp_path):
    """Early stopping goes back to the best weights, which predict; the accuracies are the run's."""
    data = plancc.VertexData(
        features=case.features,
        labels=case.labels,
        train_mask=np.arange(N) % 2 == 0,
        val_mask=np.arange(N) % 4 == 1,
        test_mask=np.arange(N) % 4 == 3,
    )
    with_data(case.plans["row"], data, tmp_path / "plan.h5")
    out, results, weights = tmp_path / "out.csv", tmp_path / "run.json", tmp_path / "weights.npz"
    done = alone(
        *(tmp_path / "plan.h5", "--epochs", 60, "--patience", 5, "--eval-every", 1),
        *("--optimizer", "sgd", "--lr", 1, "--dtype", "float64"),
        *("--predict", out, "--json", results, "--save", weights),
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(results.read_text())
    assert found["best_epoch"] < len(found["epochs"])
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    classes = np.array([int(row["class"]) for row in rows])
    assert [int(row["id"]) for row in rows] == case.ids.tolist()
    for split in ("train", "val", "test"):
        counted = getattr(data, f"{split}_mask") & (case.labels >= 0)
        accuracy = (classes == case.labels)[counted].mean()
        assert found["final"]["accuracy"][split] == pytest.approx(accuracy)
    assert found["predicted"] == np.bincount(classes, minlength=CLASSES).tolist()
    last = done.stdout.rstrip().splitlines()[-1]
    counts = ", ".join(map(str, found["predicted"]))
    assert last == f"{out}: predictions for {N} vertices; of each class {counts}"
    again = tmp_path / "again.npz"
    predict(tmp_path / "plan.h5", weights, again, SingleTransport(), dtype="float64", threads=1)
    with np.load(again) as file:
        p = np.array([[float(row[f"probability_{k}"]) for k in range(CLASSES)] for row in rows])
        np.testing.assert_allclose(file["probability"], p, atol=1e-12)


@pytest.mark.parametrize(
    "how",
    [
        ["--batch-size", 9],
        ["--boundary-sampling", 0.5],
        ["--norm", "batch", "--dropout", 0.5],
        ["--model", "gat", "--heads", 2, "--residual", "--layers", 3, "--activation", "tanh"],
    ],
    ids=lambda how: how[0],
)
def test_predictions_are_of_the_full_batch(how, case, tmp_path):
    """However a run was trained, the saved network predicts the same from one rank."""
    done = alone(
        *(case.folder / "row.h5", "--ranks", 2, "--epochs", 2, "--dtype", "float64", *how),
        *("--predict", tmp_path / "run.npz", "--save", tmp_path / "weights.npz"),
    )
    assert done.returncode == 0, done.stderr
    names = case.folder / "row.h5", tmp_path / "weights.npz", tmp_path / "again.npz"
    predict(*names, SingleTransport(), dtype="float64", threads=1)
    found, again = (np.load(tmp_path / name)["probability"] for name in ("run.npz", "again.npz"))
    np.testing.assert_allclose(found, again, atol=1e-12)
    assert found.shape == (N, CLASSES)


def no_file(folder: Path) -> bool:
    """Whether nothing, not even something hidden, was left behind."""
    return not os.listdir(folder)


@pytest.mark.parametrize(
    ("name", "layer", "words"),
    [
        ("out.xlsx", None, "ends in .csv, .npz"),
        ("out", None, "ends in .csv"),
        ("out.npz", 3, "embeddings` 3: the network has layers 1 to 2"),
        ("out.npz", 0, "embeddings` 0: must be at least 1"),
    ],
)
def test_wrong_names_and_layers(name, layer, words, case, tmp_path):
    with pytest.raises(InputError, match=words.replace(".", r"\.")):
        case.predict("row", 2, tmp_path / name, embeddings=layer)
    assert no_file(tmp_path)


def test_wrong_plans_and_weights(case, tmp_path):
    out = tmp_path / "out" / "out.npz"
    out.parent.mkdir()

    def fails(words: str, weights: str = "weights.npz", **data: np.ndarray | None) -> None:
        plan = with_data(case.plans["row"], plancc.VertexData(**data), tmp_path / "plan.h5")
        names = plan, case.folder / weights, out
        with pytest.raises(InputError, match=words):
            on_ranks(2, lambda transport: predict(*names, transport, threads=1))
        assert no_file(out.parent)

    fails(r"features of width 5, but the network needs 6", features=case.features[:, 1:])
    fails(r"no features, but the network needs 6", labels=case.labels)
    many = np.arange(N, dtype=np.int32) % 9
    fails(r"labels of 9 classes, but the network has 4", features=case.features, labels=many)
    three = case.targets[:, 1:]
    fails(r"labels of 3 classes, but the network has 4", features=case.features, targets=three)
    case.save("wide.npz", dims=[WIDTH, HIDDEN + 1, CLASSES])
    fails(r"wide\.npz: convs\.0\.weight has shape \(6, 5\)", "wide.npz", features=case.features)
    np.savez(case.folder / "old.npz", **case.weights)
    fails(r"old\.npz: does not describe the network", "old.npz", features=case.features)
    case.save("uneven.npz", dims=[WIDTH, HIDDEN, HIDDEN + 1, CLASSES])
    fails(r"predictions need hidden layers of one width", "uneven.npz", features=case.features)


class FullDisk:
    """Writes so much, and no more."""

    def __init__(self, file: object, left: int) -> None:
        self.file, self.left = file, left

    def write(self, block: dict[str, np.ndarray]) -> None:
        self.left -= 1
        if self.left < 0:
            raise OSError(28, "No space left on device")
        self.file(block)


@turns(name=["out.csv", "out.npz"], blocks=[0, 1, 3])
def test_a_full_disk_leaves_nothing(name, blocks, case, tmp_path, small_blocks, monkeypatch):
    """In the middle of a file: all ranks fail, and nothing is left of it."""
    opened = gathering.open_row_file

    @contextmanager
    def on_a_full_disk(path, *arguments):
        with opened(path, *arguments) as file:
            file._write = FullDisk(file._write, blocks).write
            yield file

    monkeypatch.setattr(gathering, "open_row_file", on_a_full_disk)
    with pytest.raises(OutputError, match="the disk is full"):
        case.predict("row", 2, tmp_path / name)
    assert no_file(tmp_path)


@pytest.mark.parametrize("ranks", [None, 2])
def test_a_run_is_kept_where_its_predictions_are_not(ranks, case, tmp_path, monkeypatch):
    """Table, JSON and weights are there before the predictions, for which a file has no room."""

    def full(file, block):
        raise OSError(28, "No space left on device")

    plan = case.folder / "row.h5"
    names = {name: tmp_path / name for name in ("run.json", "weights.npz", "out.csv")}
    chosen = [] if ranks is None else ["--ranks", ranks]
    with monkeypatch.context() as patched:
        patched.setattr(rowfiles.CsvFile, "_write", full)
        done = alone(
            *(plan, "--epochs", 3, *chosen, "--json", names["run.json"]),
            *("--save", names["weights.npz"], "--predict", names["out.csv"]),
        )
    assert done.returncode == 1
    assert ["out.csv: the disk is full" in line for line in sentences(done)] == [True]
    assert "final" in done.stdout
    found = json.loads(names["run.json"].read_text())
    assert len(found["epochs"]) == 3
    assert found["predicted"] is None
    assert not names["out.csv"].exists()
    saved = names["weights.npz"], names["out.csv"]
    header, counts, *_ = predict(plan, *saved, SingleTransport(), threads=1)
    assert sum(counts) == header.num_vertices == N


def test_weights_of_random_labels_predict_nothing(case, tmp_path):
    """Those that had learnt before do, and their files are as before."""
    bare, out = tmp_path / "bare.h5", tmp_path / "out.csv"
    with_data(case.plans["row"], plancc.VertexData(features=case.features), bare)
    saved = tmp_path / "random.npz", tmp_path / "kept.npz"
    widths = "--hidden", HIDDEN, "--classes", CLASSES, "--parametrization", "paper"
    trains = alone(bare, "--epochs", 1, "--save", saved[0], *widths)
    assert trains.stdout.endswith("random.npz: the weights\n")
    init = "--init", case.folder / "weights.npz"
    assert alone(bare, "--epochs", 0, "--save", saved[1], *init, *widths).returncode == 0
    refused, done = (
        alone("predict", bare, "--weights", path, "-o", out, program="plancc") for path in saved
    )
    assert refused.returncode == 2
    assert "random.npz: these weights were trained on random labels" in refused.stderr
    assert "(key labels or y of --data), and train again" in refused.stderr
    assert done.returncode == 0, done.stderr
    assert not read_description(saved[1])[0]["random_labels"]


def test_ids_of_another_plan_of_the_same_name(case, tmp_path, monkeypatch):
    """The file is replaced between the slice and the ids: ids of other vertices are not written."""
    plan = tmp_path / "plan.h5"
    plan.write_bytes((case.folder / "row.h5").read_bytes())
    out = tmp_path / "out"
    out.mkdir()
    checked = slices.check_slices

    def replaced(*arguments):
        checked(*arguments)
        plan.unlink()
        plan.write_bytes((case.folder / "several.h5").read_bytes())

    monkeypatch.setattr(slices, "check_slices", replaced)
    names = plan, case.folder / "weights.npz", out / "x.csv"
    with pytest.raises(PlanError, match=r"plan\.h5: another plan replaced it"):
        predict(*names, SingleTransport(), threads=1)
    assert no_file(out)


@pytest.mark.parametrize("ranks", [1, 3])
def test_the_library_gathers_and_saves_any_rows(ranks, case, tmp_path, small_blocks):
    path = case.folder / "row.h5"

    def work(transport):
        graph = plancc_runtime.open(path, transport, torch.float64, threads=1)
        rows = graph.vertices.double()[:, None] * torch.tensor([1.0, 10.0, 100.0])
        network = plancc_runtime.load_network(case.folder / "weights.npz", torch.float64)
        graph.save_rows(tmp_path / "rows.npz", {"x": rows, "seen": graph.vertices % 2 == 0})
        graph.save_rows(tmp_path / "three.npz", rows[:, :, None])
        graph.save_rows(tmp_path / "rows.csv", rows.bfloat16())
        found = [
            graph.gather(rows),
            graph.gather(graph.vertices % 2 == 0, everywhere=True),
            graph.gather(network(graph).requires_grad_()),
        ]
        with pytest.raises(InputError, match="rows"):
            graph.gather(rows[1:] if transport.rank == 0 else rows)
        if transport.size > 1:
            with pytest.raises(InputError, match="the ranks give rows of several dtypes"):
                graph.gather(rows.float() if transport.rank == 0 else rows)
            with pytest.raises(InputError, match="different names, dtypes or widths"):
                graph.gather(rows[:, :2] if transport.rank == 0 else rows)
        for name, tensor, words in [
            ("a.csv", rows[:, :, None], "a row of a CSV has one dimension"),
            ("a.npz", {"id": rows}, "'id' is the column of ids"),
        ]:
            with pytest.raises(InputError, match=words):
                graph.save_rows(tmp_path / name, tensor)
        return found

    results = on_ranks(ranks, work)
    expected = np.arange(N)[:, None] * np.array([1.0, 10, 100])
    for rank, (whole, everywhere, outputs) in enumerate(results):
        np.testing.assert_array_equal(everywhere, np.arange(N) % 2 == 0)
        if rank:
            assert whole is None
            continue
        np.testing.assert_array_equal(whole, expected)
        torch.testing.assert_close(outputs, torch.from_numpy(case.layers()[1]))
        assert not outputs.requires_grad
    with np.load(tmp_path / "rows.npz") as found:
        np.testing.assert_array_equal(found["id"], case.ids)
        np.testing.assert_array_equal(found["x"], expected)
        np.testing.assert_array_equal(found["seen"], np.arange(N) % 2 == 0)
    with np.load(tmp_path / "three.npz") as found:
        np.testing.assert_array_equal(found["row"], expected[:, :, None])
    text = (tmp_path / "rows.csv").read_text().splitlines()
    assert text[0] == "id,row_0,row_1,row_2"
    assert text[3] == f"{case.ids[2]},2.0,20.0,200.0"
    assert sorted(os.listdir(tmp_path)) == ["rows.csv", "rows.npz", "three.npz"]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int8])
def test_gathered_rows_keep_their_type(dtype, case):
    def work(transport):
        graph = plancc_runtime.open(case.folder / "row.h5", transport, threads=1)
        rows = (graph.vertices / 7).to(dtype)
        if transport.size > 1:  # their numbers travel alike
            with pytest.raises(InputError, match="the ranks give rows of several dtypes"):
                graph.gather(rows.to(torch.half if transport.rank else torch.bfloat16))
        return graph.gather(rows)

    whole = on_ranks(2, work)[0]
    assert whole.dtype == dtype
    assert torch.equal(whole, (torch.arange(N, dtype=torch.int32) / 7).to(dtype))


@pytest.mark.parametrize(
    "rows",
    [
        [1.0] * N,
        None,
        3,
        np.array(["a"] * N),
        np.array([None] * N),
        torch.eye(N).to_sparse(),
        torch.empty(N, device="meta"),
        {"x": [0] * N},
    ],
    ids=["list", "None", "number", "words", "objects", "sparse", "meta", "mapping"],
)
def test_rows_that_are_no_numbers_fail_on_all_ranks(rows, case, tmp_path):
    """On one rank alone, the others have fine ones: nobody is left waiting."""

    def work(transport):
        graph = plancc_runtime.open(case.folder / "row.h5", transport, threads=1)
        given = rows if transport.rank == 1 else graph.vertices
        for call in (graph.gather, lambda each: graph.save_rows(tmp_path / "x.csv", each)):
            with pytest.raises(InputError, match=r"rank 1: .* is not a dense tensor or array"):
                call(given)

    on_ranks(2, work)
    assert no_file(tmp_path)


@pytest.mark.parametrize(
    ("file", "names", "words"),
    [
        ("x.npz", ["../../evil"], "a name in an .npz cannot have /"),
        *(("x.npz", ["a\\b"], "a name in an .npz cannot"), ("x.npz", [""], "'' is not a name")),
        *(("x.npz", ["x" * 70_000], "is not a name"), ("x.csv", ["a\nb"], "is not a name")),
        ("x.csv", ["\udc80"], "is not a name"),
        ("x.csv", ["x", "x_1"], "two columns have the name x_1"),
    ],
)
def test_names_that_no_file_can_have(file, names, words, case, tmp_path):
    def work(transport):
        graph = plancc_runtime.open(case.folder / "row.h5", transport, threads=1)
        several = torch.zeros(graph.num_rows, 2)
        arrays = {name: several[:, 0] if "_" in name else several for name in names}
        with pytest.raises(InputError, match=words.replace(".", r"\.")):
            graph.save_rows(tmp_path / file, arrays)

    on_ranks(2, work)
    assert no_file(tmp_path)


def test_names_of_columns_are_quoted(case, tmp_path):
    names = ["score, last", 'so "called"', "m/s", "=1+1"]

    def work(transport):
        graph = plancc_runtime.open(case.folder / "row.h5", transport, threads=1)
        rows = {name: graph.vertices + k for k, name in enumerate(names)}
        graph.save_rows(tmp_path / "x.csv", rows)

    on_ranks(2, work)
    with open(tmp_path / "x.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", *names]
    assert [int(row[names[3]]) for row in rows] == list(range(3, N + 3))


def test_ids_without_gaps_count_from_zero(tmp_path):
    """As MatrixMarket's vertices do here, although they count from 1 in the file."""
    (tmp_path / "graph.mtx").write_text(
        "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 2\n"
    )
    plancc.compile(tmp_path / "graph.mtx", "rp", 2).save(tmp_path / "plan.h5")

    def work(transport):
        graph = plancc_runtime.open(tmp_path / "plan.h5", transport, threads=1)
        graph.save_rows(tmp_path / "out.csv", {"vertex": graph.vertices})

    on_ranks(2, work)
    assert (tmp_path / "out.csv").read_text().splitlines() == ["id,vertex", "0,0", "1,1", "2,2"]


def test_python_of_the_library_page(case, tmp_path, monkeypatch):
    page = Path(__file__).parents[2] / "docs" / "reference" / "library.md"
    blocks = page.read_text().split("```python\n")[1:]
    codes = [block.split("```")[0] for block in blocks]
    (code,) = (each for each in codes if "load_network" in each)
    (loop,) = (each for each in codes if "graph.batches" in each)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.h5").symlink_to(case.folder / "row.h5")
    names = {}
    exec(compile(loop, "library.md", "exec"), names)
    network = names["network"]
    assert all(parameter.grad.abs().sum() > 0 for parameter in network.parameters())
    (tmp_path / "weights.npz").symlink_to(case.folder / "weights.npz")
    graph = plancc_runtime.open(case.folder / "row.h5", "single", threads=1)
    names = {"plancc_runtime": plancc_runtime, "torch": torch, "graph": graph}
    exec(compile(code, "library.md", "exec"), names)
    np.testing.assert_allclose(names["whole"], case.probabilities(), atol=1e-6)
    assert len((tmp_path / "classes.csv").read_text().splitlines()) == N + 1
