"""`plancc_runtime.open` and what a user's own script does with it."""

import json
import re
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
import worlds
from cases import long
from launcher import alone, run
from rank_tasks import script
from reference import make_parts

import plancc
import plancc_runtime
from plancc.errors import InputError, PlanError
from plancc_runtime.nn import GATConv, GCNConv, SAGEConv
from plancc_runtime.transport.local import run_ranks

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
N, P = 23, 3


def matrix() -> np.ndarray:
    """Directed; vertex 4 isolated but for the diagonal, which normalising added."""
    random = np.random.default_rng(3)
    a = (random.random((N, N)) < 0.2) * random.uniform(0.2, 1, (N, N))
    a[4, :] = a[:, 4] = 0
    np.fill_diagonal(a, 0.5)
    return a


def on_graphs(work, dtype=torch.float64, **data):
    """`work(graph)` on every rank of a graph of three parts."""
    owner = np.random.default_rng(1).integers(0, P, N)
    header, parts = make_parts(matrix(), owner, P, plancc.VertexData(**data))

    def on_rank(transport):
        torch.set_num_threads(1)
        part = parts[transport.rank]
        return work(plancc_runtime.open((header, part), transport, dtype, threads=1))

    return run_ranks(P, on_rank, 180)


@pytest.fixture(scope="module")
def plan_file(tmp_path_factory) -> Path:
    random = np.random.default_rng(7)
    groups = random.integers(0, 3, 120)
    a = random.random((120, 120)) < np.where(groups[:, None] == groups, 0.12, 0.01)
    data = worlds.data(120, 8)
    data = replace(
        data,
        labels=groups.astype(np.int32),
        features=data.features + np.eye(3, 8, dtype=np.float32)[groups],
    )
    source, target = np.nonzero(a | a.T)
    plan = plancc.compile((120, np.stack([source, target])), "rp", 4, data=data)
    path = tmp_path_factory.mktemp("library") / "plan.h5"
    plan.save(path)
    return path


def test_a_run_without_options_learns(plan_file, tmp_path):
    done = alone(plan_file, "--json", tmp_path / "run.json")
    assert done.returncode == 0, done.stderr
    assert "adam, lr 0.01" in done.stdout
    assert json.loads((tmp_path / "run.json").read_text())["final"]["accuracy"]["test"] > 0.9
    words = ("--optimizer", "sgd", "--momentum", 0.9, "--clip-norm", 1)
    done = alone(plan_file, "--epochs", 2, "--eval-every", 0, *words)
    assert "sgd, lr 0.01, momentum 0.9, clip norm 1" in done.stdout


def test_vertex_data_of_a_rank():
    data = worlds.data(N, 5, 4)
    for graph in on_graphs(lambda graph: graph, torch.float32, **vars(data)):
        vertices = graph.vertices.numpy()
        assert (graph.num_rows, graph.num_vertices) == (len(vertices), N)
        assert (graph.num_ranks, graph.num_classes) == (P, 4)
        for name in ("features", "labels", "train_mask", "val_mask", "test_mask"):
            np.testing.assert_array_equal(getattr(graph, name), getattr(data, name)[vertices])
        assert (graph.features.dtype, graph.labels.dtype) == (torch.float32, torch.int64)
    targets = np.arange(N * 3).reshape(N, 3) % 2 == 0
    for graph in on_graphs(lambda graph: graph, targets=targets):
        np.testing.assert_array_equal(graph.labels, targets[graph.vertices])
        assert (graph.num_classes, graph.features, graph.train_mask) == (3, None, None)


def test_product_and_halo():
    a, x = torch.tensor(matrix()), torch.randn(N, 6, dtype=torch.float64)

    def work(graph):
        rows = graph.vertices.long()
        mine = x.T.contiguous().T[rows]
        mine = torch.empty(6, len(rows), dtype=x.dtype).T.copy_(mine)  # not contiguous
        torch.testing.assert_close(graph.product(mine), (a @ x)[rows])
        wide = mine.reshape(len(rows), 2, 3).requires_grad_()
        halo = graph.halo(wide)
        assert halo.shape == (graph.num_halo, 2, 3)
        ids = graph.halo(rows.double())
        assert ids.shape == (graph.num_halo,)
        torch.testing.assert_close(halo.detach().flatten(1), x[ids.long()])
        halo.sum().backward()
        return rows, ids.long(), wide.grad[:, 0, 0]

    answers = on_graphs(work)
    needed = torch.zeros(N, dtype=torch.float64)
    for _, ids, _ in answers:
        needed[ids] += 1  # as often as other ranks need it
    for rows, _, gradient in answers:
        assert torch.equal(gradient, needed[rows])


class Asked:
    """A data set that counts the numbers that it is asked for."""

    def __init__(self, dataset):
        self.dataset, self.shape, self.read = dataset, dataset.shape, []

    def __getitem__(self, key):
        found = self.dataset[key]  # h5py refuses rows that do not ascend
        self.read.append(found.size)
        return found


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i8", "?"])
@pytest.mark.parametrize(("axis", "shape"), [(0, (N,)), (1, (4, N, 2)), (-2, (4, N, 2))])
def test_take_reads_own_rows_alone(axis, shape, dtype, tmp_path):
    whole = (np.arange(np.prod(shape)).reshape(shape) % 7).astype(dtype)
    np.save(tmp_path / "x.npy", whole)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        asked = Asked(file.create_dataset("x", data=whole))

        def work(graph):
            kind = torch.float64 if "f" in dtype else {"<i8": torch.int64, "?": torch.bool}[dtype]
            for array in (asked, mapped, whole):
                found = graph.take(array, axis)
                assert found.dtype == kind
                np.testing.assert_array_equal(found, whole.take(graph.vertices, axis))
            with pytest.raises(InputError, match=rf"\[4, 9\], but needs {N} entries, .* axis 1"):
                graph.take(np.ones((4, 9)), 1)
            with pytest.raises(InputError, match="give real numbers"):
                graph.take(np.full(N, "a"))

        on_graphs(work)
        assert sum(asked.read) == whole.size


def test_reductions_over_ranks():
    losses = torch.linspace(1, 2, N, dtype=torch.float64) ** 2
    chosen = torch.arange(N) % 4 == 1

    def work(graph):
        rows = graph.vertices.long()
        w = torch.nn.Parameter(torch.tensor(3.0, dtype=torch.float64))
        unused = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
        if graph.rank == 1:
            unused.grad = torch.ones(2, dtype=torch.float64)
        mine = rows[chosen[rows]]
        loss = graph.mean_loss(w * losses[mine])
        loss.backward()
        graph.sync_gradients([w, unused])
        torch.testing.assert_close(loss.detach(), 3 * losses[chosen].mean())
        torch.testing.assert_close(w.grad, losses[chosen].mean())
        assert unused.grad.tolist() == [1, 1]
        assert graph.mean_loss(losses[:0]).item() == 0
        assert graph.all_reduce(torch.tensor([graph.rank, 1])).tolist() == [3, P]
        module = torch.nn.BatchNorm1d(2)
        with torch.no_grad():
            for tensor in (module.weight, module.running_mean):
                tensor.fill_(5.0 + graph.rank)
        module.num_batches_tracked += graph.rank
        graph.sync_parameters(module)
        assert module.weight.tolist() == module.running_mean.tolist() == [5, 5]
        assert module.num_batches_tracked.item() == 0

    on_graphs(work)


def test_errors_are_one_sentence(tmp_path, plan_file):
    graph = plancc_runtime.open(plan_file, threads=1)
    n = graph.num_rows
    needs = rf", but rank 0 needs \[{n}, "
    for call, words in (
        (lambda: graph.product(torch.ones(n - 1, 2)), rf"x has shape \[{n - 1}, 2\]{needs}"),
        (lambda: graph.product(torch.ones(n)), rf"x has shape \[{n}\]{needs}any number\]"),
        (lambda: graph.halo(torch.ones(n + 1)), rf"x has shape \[{n + 1}\]{needs}"),
        (lambda: graph.product(torch.ones(n, 2).double()), "float64 on cpu, but the graph is"),
        (lambda: GCNConv(2, 3)(graph, torch.ones(1, 2)), "x has shape"),
        (lambda: GATConv(2, 3)(graph, torch.ones(1, 2)), "x of shape"),
        (lambda: graph.aggregate(torch.ones(n, 2), "min"), "unknown reduction 'min'"),
        (lambda: graph.aggregate(torch.ones(n, 2), weight="mine"), "unknown weight 'mine'"),
        (lambda: graph.aggregate(torch.ones(n, 2), nonzeros="all"), "unknown nonzeros 'all'"),
        (lambda: graph.local_edge_index("all"), "unknown nonzeros 'all'"),
        (lambda: graph.dropout(torch.ones(n, 2), 1.0, 0), "rate 1.0: must be"),
        (
            lambda: plancc_runtime.open(plan_file, dtype=torch.float16),
            "dtype torch.float16: choose",
        ),
        (lambda: plancc_runtime.open(plan_file, device="cuda:99"), "`device` cuda:99: torch finds"),
        (lambda: plancc_runtime.open(tmp_path / "no.h5"), "no.h5"),
    ):
        with pytest.raises(InputError, match=words):
            call()


def test_open_fails_on_all_ranks_together(plan_file, tmp_path):
    other = tmp_path / "torn.h5"
    other.write_bytes(plan_file.read_bytes()[:2000])

    def work(transport):
        with pytest.raises((PlanError, InputError), match="rank 1"):
            plancc_runtime.open(other if transport.rank == 1 else plan_file, transport, threads=1)
        return True

    assert run_ranks(2, work, 180) == [True, True]


def losses_of(output: str) -> list[float]:
    return [float(loss) for loss in re.findall(r"epoch \d+: loss ([\d.]+)", output)]


def on_one_rank(example: str, *words: str | Path) -> list[float]:
    """Losses of an example in this process."""
    threads = torch.get_num_threads()
    losses = losses_of(script(None, EXAMPLES / example, *words))
    torch.set_num_threads(threads)
    assert len(losses) == 30
    assert losses[-1] < 0.5 * losses[0]
    return losses


@pytest.mark.mpi
@pytest.mark.parametrize("launcher", ["mpirun", pytest.param("torchrun", marks=long)])
def test_own_model_is_the_same_on_two_ranks(launcher, plan_file, ranks):
    example = EXAMPLES / "own_model.py"
    if launcher == "mpirun":
        said = "".join(ranks.call(2, script, example, plan_file))
    else:
        two = run(2, example, plan_file, launcher="torchrun")
        assert two.returncode == 0, two.stderr
        said = two.stdout
    np.testing.assert_allclose(losses_of(said), on_one_rank("own_model.py", plan_file), rtol=1e-3)
    assert "rank 1 of 2" in said
    assert "test accuracy" in said


@pytest.mark.mpi
def test_grid_and_mesh_learn_the_same_on_two_ranks(tmp_path, ranks):
    pytest.importorskip("torch_geometric")
    example, plan = EXAMPLES / "grid_mesh.py", tmp_path / "plan.h5"
    script(None, example, "plan", plan, "2")
    losses = losses_of("".join(ranks.call(2, script, example, "train", plan)))
    np.testing.assert_allclose(losses, on_one_rank("grid_mesh.py", "train", plan), rtol=1e-2)


@long  # own_model.py shows the same on two ranks
@pytest.mark.mpi
def test_pyg_model_is_the_same_on_two_ranks(plan_file, ranks):
    pytest.importorskip("torch_geometric")
    two = "".join(ranks.call(2, script, EXAMPLES / "pyg_model.py", plan_file))
    expected = on_one_rank("pyg_model.py", plan_file)
    np.testing.assert_allclose(losses_of(two), expected, rtol=1e-3)
    assert "equal to one rank: True" in two


@pytest.mark.gpu
@pytest.mark.usefixtures("cuda")
def test_layers_on_a_device(plan_file):
    results = []
    for device in ("cpu", "cuda"):
        graph = plancc_runtime.open(plan_file, device=device, threads=1)
        conv = SAGEConv(8, 4, random=1).to(graph.device)
        norm = plancc_runtime.nn.BatchNorm(4).to(graph.device)
        x = graph.features.clone().requires_grad_()
        out = norm(conv(graph, x), graph)
        (out * torch.linspace(-1, 1, out.numel()).view_as(out).to(graph.device)).sum().backward()
        graph.sync_gradients(conv)
        results.append(
            [t.cpu() for t in (out.detach(), x.grad, *(p.grad for p in conv.parameters()))]
        )
    for on_cpu, on_device in zip(*results, strict=True):
        torch.testing.assert_close(on_device, on_cpu, rtol=1e-4, atol=1e-4)


def test_parameters_of_one_rank_alone_are_refused():
    def work(graph):
        own = torch.nn.Parameter(torch.ones(3 + graph.rank))
        own.grad = torch.ones_like(own)
        graph.sync_gradients([own])

    with pytest.raises(InputError, match="differ in shape between ranks"):
        on_graphs(work)


@pytest.mark.parametrize("kind", ["mask", "rows", "halo", "gradients", "wide"])
def test_what_each_rank_has_of_its_own_is_refused_by_name(kind):
    """Also where all ranks have as many rows: what begins alike, as a layer does, passes."""
    ring = np.roll(np.eye(8), 1, axis=1)
    header, parts = make_parts(ring + ring.T, np.arange(8) // 4, 2, plancc.VertexData())

    def work(transport):
        graph = plancc_runtime.open((header, parts[transport.rank]), transport)
        net, rank = torch.nn.Module(), graph.rank
        if kind == "mask":
            net.register_buffer("seen", graph.vertices == 0, persistent=False)
        elif kind == "wide":
            net.layer = torch.nn.Linear(4, 4)
            torch.nn.init.ones_(net.layer.weight)
            torch.nn.init.ones_(net.layer.bias)
        else:
            count = graph.num_halo if kind == "halo" else graph.num_rows
            net.own = torch.nn.Parameter(torch.full((count, 2), float(rank)))
        if kind == "gradients":
            graph.sync_gradients(net)
        else:
            graph.sync_parameters(net)

    if kind == "wide":
        run_ranks(2, work, 180)
        return
    name = "seen" if kind == "mask" else "own"
    with pytest.raises(InputError, match=rf"'{name}' differs between ranks, and its length \d is"):
        run_ranks(2, work, 180)
