"""The runtime's pieces that need no second rank."""

import io
import re
import subprocess
import sys
from dataclasses import dataclass, fields

import numpy as np
import pytest
import reference
import torch

from plancc.errors import InputError
from plancc_runtime.data import load_data, random_features, random_labels
from plancc_runtime.networks import make_network
from plancc_runtime.nn import MODELS
from plancc_runtime.nn.conv import ConvOptions
from plancc_runtime.nn.gcn import GCNConv
from plancc_runtime.nn.network import ACTIVATIONS
from plancc_runtime.optim import OPTIMIZERS
from plancc_runtime.options import TrainOptions
from plancc_runtime.transport.single import SingleTransport
from plancc_runtime.weights import read_weights


def test_random_data_is_a_function_of_seed_vertex_and_column():
    vertex = np.arange(5000, dtype=np.int32)
    whole = random_features(vertex, 20, seed=7)
    some = np.random.default_rng(0).permutation(vertex)[:100]
    np.testing.assert_array_equal(random_features(some, 20, 7), whole[some])
    np.testing.assert_array_equal(random_features(vertex, 8, 7), whole[:, :8])
    assert not np.array_equal(random_features(vertex, 20, 8), whole)
    labels = random_labels(vertex, 6, 7)
    np.testing.assert_array_equal(random_labels(some, 6, 7), labels[some])


def test_random_data_looks_uniform():
    values = random_features(np.arange(20000, dtype=np.int32), 16, seed=0)
    assert values.dtype == np.float32
    assert values.min() >= -1
    assert values.max() < 1
    assert abs(values.mean()) < 5e-3
    assert abs((values**2).mean() - 1 / 3) < 5e-3
    correlation = np.corrcoef(values.T) - np.eye(16)
    assert np.abs(correlation).max() < 0.05
    counts = np.bincount(random_labels(np.arange(20000), 8, 0), minlength=8)
    assert np.abs(counts / 2500 - 1).max() < 0.1


def test_options_name_what_exists():
    choices = {each.name: each.metadata.get("choices", ()) for each in fields(TrainOptions)}
    assert set(choices["activation"]) == set(ACTIVATIONS)
    assert set(choices["optimizer"]) == set(OPTIMIZERS)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"momentum": m, "optimizer": "sgd"} for m in (-0.1, 1.0, 2.0, float("nan"))),
        *({"momentum": 0.9}, {"momentum": 0.9, "optimizer": "adamw"}),
        *({"clip_norm": c} for c in (0, -1.0, float("nan"), float("inf"))),
        *({"lr": 1e39}, {"weight_decay": 1e39}, {"hidden": 2**31}, {"classes": 10**40}),
        *({"layers": 10**40}, {"random_features": 2**63}, {"heads": 2**62, "model": "gat"}),
        *({"lr": 0}, {"lr": float("nan")}, {"layers": 0}, {"optimizer": "x"}, {"threads": 0}),
        *({"heads": 2}, {"aggregator": "max"}, {"aggregator": "sum", "model": "gin"}),
        *({"boundary_sampling": 0.5, "batch_size": 4}, {"drop_edge": 0.5, "sampler": "walk"}),
    ],
)
def test_options_are_checked(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        TrainOptions(**wrong)


STAGES = "give off, auto, or 2 to 1000 stages"
MAX = {"model": "sage", "aggregator": "max"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"split": (0.6, 0.5, 0.2)}, "`split` 0.6,0.5,0.2"),
        ({"split": (0.6, 0.4)}, "`split` 0.6,0.4"),
        ({"patience": 3, "eval_every": 0}, "eval_every"),
        ({"schedule": "plateau", "eval_every": 0}, "eval_every"),
        *(({"every": 5}, "`checkpoint`"), ({"resume": True}, "`checkpoint`")),
        ({"delay": 2}, "`delay` 2: fold sync has no delay; give `fold` delayed"),
        ({"fold": "none", "delay": 2}, "`delay` 2: fold none has no delay; give `fold` delayed"),
        ({"fold": "delayed", "delay": 0}, "`delay` 0: must be at least 1"),
        ({"fold": "late"}, "unknown fold 'late'; choose from sync, none, delayed"),
        ({"fold": "none", "norm": "batch"}, "does not suit norm batch"),
        ({"fold": "none", **MAX}, "does not suit aggregator max"),
        *(({"pipeline": value}, STAGES) for value in ("1", "-3", "many", "2.5")),
        ({"attention_dropout": 0.4}, "`attention_dropout` 0.4: model gcn has no such"),
        ({"model": "gat", "attention_dropout": 1.0}, "`attention_dropout` 1.0: must be below 1"),
        ({"recompute": True, "passes": ("constant",)}, "`recompute`: needs the pass 'order'"),
        ({"fold": "delayed", "checkpoint": "run"}, "`fold` delayed: keeps sums in flight between"),
    ],
)
def test_options_that_do_not_fit_each_other(options, words):
    with pytest.raises(InputError, match=words):
        TrainOptions(**options)


@dataclass(frozen=True)
class SlopedOptions(ConvOptions):
    heads: int = 3
    slope: float = 0.1


class SlopedConv(GCNConv):
    """A third party's layer: its options are fields, one of them a known option of plancc-run."""

    Options = SlopedOptions

    def _make(self, random):
        self.weight, self.bias = torch.nn.Parameter(torch.zeros(self.d_in, self.d_out)), None


def test_a_registered_layer_gets_the_options_that_it_declares(monkeypatch):
    monkeypatch.setitem(MODELS._targets, "sloped", f"{__name__}:SlopedConv")
    _, (part,) = reference.make_parts(np.eye(5), np.zeros(5, int), 1)
    transport = SingleTransport()
    for given, heads, slope in (
        ({}, 3, 0.1),
        ({"heads": 4, "model_options": {"slope": "0.5"}}, 4, 0.5),
        ({"model_options": {"slope": 2.0, "heads": 1}}, 1, 2.0),
    ):
        options = TrainOptions(model="sloped", random_features=5, **given)
        data = load_data(part, transport, torch.float32, options)
        network = make_network(options, data, transport, torch.float32)
        assert [conv.options for conv in network.convs] == [
            SlopedOptions(heads=heads, slope=slope)
        ] * 2
    for wrong, words in (
        ({"aggregator": "sum"}, "`aggregator` sum: model sloped has no such option"),
        ({"model_options": {"steep": 1}}, "_options` steep=1: .* it has .*, bias, heads, slope"),
    ):
        with pytest.raises(InputError, match=words):
            TrainOptions(model="sloped", **wrong)
    for value in ("steep", "null", "{}", '"4"', "true", "[" * 100_000, "9" * 5000):
        options = TrainOptions(model="sloped", model_options={"slope": value})
        data = load_data(part, transport, torch.float32, options)
        with pytest.raises(InputError, match=f"slope '{re.escape(value[:20])}.*': give a number"):
            make_network(options, data, transport, None)


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"W0": np.ones((2, 3))}, "no array W1; the model has W0, W1"),
        ({"W0": np.ones((2, 3)), "W1": np.ones((4, 3))}, "needs (3, 4)"),
        ({"W0": np.full((2, 3), np.nan), "W1": np.ones((3, 4))}, "finite"),
        ({"W0": np.full((2, 3), "x"), "W1": np.ones((3, 4))}, "finite"),
        ({"W0": np.full((2, 3), None), "W1": np.ones((3, 4))}, "cannot be read"),
    ],
)
def test_wrong_weight_files(tmp_path, arrays, words):
    np.savez(tmp_path / "w.npz", **arrays)
    with pytest.raises(InputError) as error:
        read_weights(tmp_path / "w.npz", {"W0": (2, 3), "W1": (3, 4)})
    assert words in str(error.value)


def npy() -> bytes:
    file = io.BytesIO()
    np.save(file, np.ones((2, 3)))
    return file.getvalue()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 torn", b"text", b"\x93NUMPY", npy()])
def test_files_that_are_not_npz(tmp_path, content):
    (tmp_path / "w.npz").write_bytes(content)
    with pytest.raises(InputError, match=r"w\.npz: cannot be read"):
        read_weights(tmp_path / "w.npz", {"W0": (2, 3)})


def test_nothing_heavy_is_imported_for_help():
    heavy = "{'torch', 'mpi4py', 'numba', 'h5py', 'scipy'}"
    code = f"import sys, plancc_cli.run_command; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
