"""The kit for GPUs: does the runtime work on this card, and how quick is it?

    python3 benchmarks/gpu.py --json build/gpu.json

It runs from a checkout with what is installed; nothing is fetched. This process has the standard
library only, and says which libraries are missing. Every section is a process of its own, since an
assertion on a GPU spoils the process; it prints a line of JSON per row as it goes, so that one that
is killed leaves what it had. Sections have shares of `SECONDS`.

On machines without a GPU, or with ``--device cpu``, the same sections run on the CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 480
SHARES = {"rates": 0.06, "correctness": 0.2, "products": 0.12, "exchange": 0.1, "epochs": 0.2}
TESTS_SHARE = 0.3
NEEDED = ("torch", "numpy", "scipy", "numba")
WANTED = ("blake3", "click", "h5py", "mpi4py", "pytest", "rich", "torch_geometric")
LAYOUTS = {"row": "rp", "edge": "libra", "grid": "cagnet-2d", "feature": "mop"}
WIDTHS = (32, 128)
SMALL = 37_700, 578_000
"""Rows and nonzeros of a graph on which a GPU waits for the starts of kernels."""
CLASSES = 8
TOLERANCE = 1e-4
"""Largest relative difference of a float32 loss from that of the float64 reference."""

Row = dict[str, Any]


# -- the parent: standard library only -------------------------------------------------------------


def main() -> None:
    options = _options()
    if options.section:
        for row in SECTIONS[options.section](options.device, options.quick):
            print(json.dumps({"section": options.section, **row}), flush=True)
        return
    begin = time.monotonic()
    if options.wheels:
        _install(options.wheels)
    missing = [name for name in (*NEEDED, *WANTED) if find_spec(name) is None]
    rows: list[Row] = [{"section": "missing", "name": name} for name in missing]
    device = options.device
    if not set(missing) & set(NEEDED):
        device = device or _device()
        for name, share in SHARES.items():
            words = ["--section", name, "--device", device, *["--quick"] * options.quick]
            command = [sys.executable, __file__, *words]
            rows += _lines(name, command, share * options.seconds, _row_of_json)
        if "pytest" not in missing and not options.no_tests:
            rows += _tests(device, TESTS_SHARE * options.seconds)
    found = {
        "device": device,
        "python": platform.python_version(),
        "seconds": round(time.monotonic() - begin, 1),
        "rows": rows,
    }
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(found, indent=1))
    _show(found)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--json", type=Path, help="write all rows here")
    parser.add_argument("--device", default="", help="cuda, cuda:NUMBER or cpu [cuda where it is]")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that all works")
    parser.add_argument("--wheels", type=Path, help="folder of wheels that are missing here")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="limit of the whole")
    parser.add_argument("--no-tests", action="store_true", help="leave the gpu-marked tests out")
    parser.add_argument("--section", choices=SHARES, help=argparse.SUPPRESS)
    return parser.parse_args()


def _install(wheels: Path) -> None:
    """Put a folder's wheels first on the paths of this Python and its children."""
    files = sorted(wheels.glob("*.whl"))
    if not files:
        sys.exit(f"--wheels {wheels}: there is no .whl in this folder")
    place = str(ROOT / "build" / "gpu")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    if subprocess.run([*pip, "--upgrade", "--target", place, *files], check=False).returncode:
        sys.exit(f"--wheels {wheels}: these wheels cannot be installed, see above")
    sys.path.insert(0, place)
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([place, *[before] * bool(before)])


def _device() -> str:
    code = "import torch; print('cuda' if torch.cuda.is_available() else 'cpu')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "cpu"


def _environment() -> dict[str, str]:
    folders = [str(ROOT / name) for name in ("", "runtime", "cli", "datasets", "lab")]
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*folders, *[before] * bool(before)])}


def _lines(
    section: str, command: list[str], seconds: float, row_of: Callable[[str], Row | None]
) -> list[Row]:
    """The rows of a child's lines; a last one says why it did not end well."""
    rows: list[Row] = []
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    ) as child:
        late = threading.Timer(seconds, child.kill)
        late.start()
        said: list[str] = []
        assert child.stdout is not None
        assert child.stderr is not None
        reader = threading.Thread(target=lambda: said.extend(child.stderr or []))
        reader.start()
        for line in child.stdout:
            row = row_of(line)
            if row is not None:
                rows.append(row)
                print(_text(row), flush=True)
        code = child.wait()
        in_time = late.is_alive()
        late.cancel()
        reader.join()
    if code and section != "tests":
        last = [line.strip() for line in said if line.strip()][-1:] or [f"exit code {code}"]
        why = last[0] if in_time else f"stopped after its share of {seconds:.0f} s"
        rows.append({"section": section, "name": "did not end", "why": why})
        print(_text(rows[-1]), flush=True)
    elif not in_time:
        rows.append({"section": section, "name": "did not end", "why": f"{seconds:.0f} s are over"})
    return rows


def _row_of_json(line: str) -> Row | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _tests(device: str, seconds: float) -> list[Row]:
    """A row per test that failed, and the counts of all; what pytest says is in build/gpu.log."""
    files = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "mark.gpu" in path.read_text()
    ]
    if device == "cpu":
        return [{"section": "tests", "name": "left out", "why": "they need a GPU"}]
    command = [sys.executable, "-m", "pytest", "-v", "-m", "gpu", *files]
    counts: dict[str, int] = {}
    said = ROOT / "build" / "gpu.log"
    said.parent.mkdir(exist_ok=True)
    said.unlink(missing_ok=True)

    def row_of(line: str) -> Row | None:
        with said.open("a") as log:
            log.write(line)
        found = re.match(r"(\S+::.+?) (PASSED|FAILED|ERROR|SKIPPED)", line)
        if found is None:
            return None
        counts[found[2].lower()] = counts.get(found[2].lower(), 0) + 1
        if found[2] in ("PASSED", "SKIPPED"):
            return None
        return {"section": "tests", "name": found[1], "why": found[2].lower()}

    rows = _lines("tests", [*command, "-p", "no:cacheprovider"], seconds, row_of)
    return [*rows, {"section": "tests", "name": "all", **counts}]


def _text(row: Row) -> str:
    rest = {name: value for name, value in row.items() if name not in ("section", "name")}
    words = (
        f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in rest.items()
    )
    return f"{row['section']:12} {row['name']:44} {', '.join(words)}"


def _show(found: dict[str, Any]) -> None:
    wrong = [row for row in found["rows"] if row.get("why") and row["name"] != "left out"]
    wrong += [row for row in found["rows"] if row.get("right") is False]
    print(f"\n{found['device'] or 'no device'}, {found['seconds']} s, {len(found['rows'])} rows")
    for row in found["rows"]:
        if row["section"] == "missing":
            print(f"missing: {row['name']}{' (needed)' if row['name'] in NEEDED else ''}")
    print(f"{len(wrong)} rows are wrong" if wrong else "nothing is wrong")


# -- the sections: processes that have the libraries -----------------------------------------------


def _rates(device: str, quick: bool) -> Iterator[Row]:
    """Copy bandwidth, and the rate of dense products."""
    import torch

    place = torch.device(device)
    name = torch.cuda.get_device_name(place) if place.type == "cuda" else platform.processor()
    yield {"name": "device", "is": name or platform.machine(), "torch": torch.__version__}
    yield {"name": "copying", "GB/s": _copy_bandwidth(place) / 1e9}
    yield {"name": "dense products, float32", "GFLOP/s": _product_rate(place) / 1e9}


def _correctness(device: str, quick: bool) -> Iterator[Row]:
    """Losses of three epochs beside those of dense float64 matrices; and again the same bits."""
    import numpy as np

    plans = {name: _plan(model, 300, 2400) for name, model in LAYOUTS.items()}
    for layout, plan in plans.items():
        for model in ("gcn", "sage", "gat") if layout == "row" else ("gcn", "sage"):
            settings = {"model": model, "device": device, "lr": 0.05}
            losses, run = _losses(plan, **settings)
            expected = _dense_losses(plan, model)
            worst = float(np.max(np.abs(np.array(losses) / expected - 1)))
            again, _ = _losses(plan, **settings)
            yield {
                "name": f"{model} on a plan of layout {layout}",
                "off by": worst,
                "right": worst <= TOLERANCE,
                "same bits again": losses == again,
                "kernel": run._execution.kernel,
            }
    losses, _ = _losses(plans["feature"], model="gcn", device=device, lr=0.05, aggregate_on="cpu")
    worst = float(np.max(np.abs(np.array(losses) / _dense_losses(plans["feature"], "gcn") - 1)))
    row = {"off by": worst, "right": worst <= TOLERANCE}
    yield {"name": "gcn on a feature plan, --aggregate-on cpu", **row}


def _products(device: str, quick: bool) -> Iterator[Row]:
    """Sparse products: torch's CSR product, our layout of it, and what a copy would take."""
    import torch

    from plancc_runtime.kernels.spmm import prepare

    place = torch.device(device)
    bandwidth = _copy_bandwidth(place)
    n, nnz = _sizes(device, quick)
    matrix = _matrix(n, nnz)
    kernel = "torch" if place.type == "cuda" else "numba"
    ours = prepare(matrix, torch.float32, place, kernel)
    csr = torch.sparse_csr_tensor(
        torch.from_numpy(matrix.indptr), torch.from_numpy(matrix.indices),
        torch.from_numpy(matrix.data), matrix.shape,
    ).to(place)  # fmt: skip
    for width in WIDTHS:
        x = torch.ones(n, width, device=place)
        out, other = torch.empty_like(x), torch.empty_like(x)
        sides = {
            "ours": lambda x=x, out=out: ours.multiply(x, out),
            "torch": lambda x=x, other=other: torch.addmm(other, csr, x, beta=0, out=other),
        }
        seconds = _in_turns(sides, place)
        least = (8 * matrix.nnz + 8 * n + 8 * n * width) / bandwidth
        every = (8 * matrix.nnz + 8 * n + 4 * (n + matrix.nnz) * width) / bandwidth
        yield {
            "name": f"{n:,} rows, {matrix.nnz:,} nonzeros, {width} wide",
            "ms": seconds["ours"] * 1e3,
            "over torch's": seconds["ours"] / seconds["torch"],
            "share of bandwidth": least / seconds["ours"],
            "a row for every nonzero": every / seconds["ours"],
            "right": bool(torch.allclose(out, other, rtol=1e-4, atol=1e-4)),
        }


def _exchange(device: str, quick: bool) -> Iterator[Row]:
    """Four ranks on one device: losses, and what an exchange takes of an epoch."""
    from plancc_runtime import train
    from plancc_runtime.transport.local import run_ranks

    n, nnz = (300, 2400) if quick else (100_000, 1_600_000)
    plan = _plan("rp", n, nnz, parts=4)

    def work(transport: Any) -> tuple[list[float], list[float]]:
        part = plan.part(transport.rank)
        run = train.prepared((plan.header, part), _train_options(device=device), transport)
        measures = [run.epoch(k) for k in range(5)]
        waits = [m.spent.seconds["pack"] + m.spent.seconds["wait"] for m in measures]
        return [m.loss for m in measures], waits

    losses, seconds = run_ranks(4, work, timeout=200)[0]
    alone, _ = _losses(_plan("rp", n, nnz), device=device)
    worst = max(abs(a / b - 1) for a, b in zip(losses, alone, strict=False))
    yield {
        "name": f"4 ranks, {n:,} rows",
        "communication, ms": statistics.median(seconds) * 1e3,
        "off by": worst,
        "right": worst <= TOLERANCE,
    }


def _epochs(device: str, quick: bool) -> Iterator[Row]:
    """Milliseconds of an epoch of every model and layout; of two layers on a small graph."""
    n, nnz = _sizes(device, quick)
    hidden = 16 if quick else 128
    large = {"layers": 3, "hidden": hidden}
    pyg = _pyg_seconds(device, n, nnz, hidden) if find_spec("torch_geometric") else {}
    for layout, name in LAYOUTS.items():
        plan = _plan(name, n, nnz)
        for model in ("gcn", "sage", "gat") if layout == "row" else ("gcn",):
            row = _epoch(plan, device, model=model, **large)
            if layout == "row" and model in pyg:
                row["over PyG's"] = row["ms"] / (1e3 * pyg[model])
            yield {"name": f"{model}, layout {layout}, {n:,} rows", **row}
        if layout == "row":
            row = _epoch(plan, device, model="sage", aggregator="max", **large)
            yield {"name": f"sage by maxima, layout {layout}, {n:,} rows", **row}
    n, nnz = SMALL
    plan = _plan(LAYOUTS["row"], n, nnz)
    for model in ("gcn", "sage", "gat"):
        row = _epoch(plan, device, model=model, layers=2, hidden=64)
        yield {"name": f"{model}, two layers, {n:,} rows", **row}


def _epoch(plan: Any, device: str, **options: Any) -> Row:
    """Milliseconds of an epoch and, of a GPU, the peak of its memory."""
    import torch

    place = torch.device(device)
    if place.type == "cuda":
        torch.cuda.reset_peak_memory_stats(place)
    _, run = _losses(plan, epochs=4, device=device, **options)  # the third is recorded
    row: Row = {"ms": 1e3 * _in_turns({"epoch": lambda: run.epoch(4)}, place)["epoch"]}
    if place.type == "cuda":
        row["peak memory, GB"] = torch.cuda.max_memory_allocated(place) / 1e9
    return row


SECTIONS: dict[str, Callable[[str, bool], Iterator[Row]]] = {
    "rates": _rates,
    "correctness": _correctness,
    "products": _products,
    "exchange": _exchange,
    "epochs": _epochs,
}


def _sizes(device: str, quick: bool) -> tuple[int, int]:
    """Rows and nonzeros of the larger graphs."""
    if quick:
        return 2_000, 20_000
    return (1_000_000, 20_000_000) if device.startswith("cuda") else (100_000, 1_600_000)


def _edges(n: int, nnz: int) -> Any:
    """Edges between random vertices, some of which have far more than others: int64[2, nnz / 2]."""
    import numpy as np

    random = np.random.default_rng(0)
    source = (n * random.random(nnz // 2) ** 3).astype(np.int64)
    return np.stack([source, random.integers(0, n, nnz // 2)])


def _matrix(n: int, nnz: int) -> Any:
    from scipy.sparse import csr_matrix

    u, v = _edges(n, nnz)
    matrix = csr_matrix((u * 0 + 1.0, (u, v)), (n, n)).astype("f4")
    matrix = (matrix + matrix.T).tocsr()
    matrix.sort_indices()
    return matrix


def _plan(model: str, n: int, nnz: int, parts: int = 1) -> Any:
    """A plan with features and labels, of all that are compiled here for the same graph."""
    import numpy as np

    import plancc
    from plancc.graph.vertexdata import VertexData

    random = np.random.default_rng(1)
    data = VertexData(
        features=random.standard_normal((n, 32)).astype(np.float32),
        labels=random.integers(0, CLASSES, n).astype(np.int32),
        train_mask=np.ones(n, bool),
    )
    return plancc.compile((n, _edges(n, nnz)), model, parts, data=data, seed=1)


def _train_options(**settings: Any) -> Any:
    from plancc_runtime.options import TrainOptions

    usual = {"optimizer": "sgd", "lr": 0.05, "eval_every": 0, "seed": 3}
    return TrainOptions(**{**usual, **settings})


def _losses(plan: Any, epochs: int = 3, **settings: Any) -> tuple[list[float], Any]:
    """Losses of the first epochs on one rank, and the run."""
    from dataclasses import replace

    from plancc.graph.vertexdata import VertexData
    from plancc.plan.grid_slices import keeps_part, share_of_rank
    from plancc.plan.rank_parts import parts_of_rank
    from plancc_runtime import train
    from plancc_runtime.transport.single import SingleTransport

    header, part = plan.header, plan.part(0)
    if header.grid is not None:
        bare = replace(part, vertex_data=VertexData()) if keeps_part(header.grid) else None
        held = parts_of_rank("plan", header, 0, 1)
        part = share_of_rank(held, plan.all_parts, bare, plan.vertex_data)
    run = train.prepared((header, part), _train_options(**settings), SingleTransport())
    return [run.epoch(k).loss for k in range(epochs)], run


def _dense_losses(plan: Any, model: str, epochs: int = 3) -> Any:
    """Losses of the same training with dense float64 matrices on the CPU, in torch alone."""
    import numpy as np
    import torch
    from torch.nn import functional

    _, run = _losses(plan, epochs=0, model=model, device="cpu", lr=0.05)
    weights = {
        name: w.detach().double().requires_grad_()
        for name, w in run._learner.network.named_parameters()
    }
    n, rows = (
        plan.header.num_vertices,
        np.repeat(
            np.arange(plan.header.num_vertices),
            np.diff(plan.row_ptr[: plan.header.num_vertices + 1]),
        ),
    )
    whole = torch.zeros(n, n, dtype=torch.float64)
    whole[torch.from_numpy(rows), torch.from_numpy(plan.column[: len(rows)].astype(np.int64))] = (
        torch.from_numpy(plan.value[: len(rows)].astype(np.float64))
    )
    edges = (whole != 0) & ~torch.eye(n, dtype=torch.bool)
    mean = edges.double() / edges.sum(1, keepdim=True).clamp(min=1)
    closed = edges | torch.eye(n, dtype=torch.bool)
    x = torch.from_numpy(plan.vertex_data.features).double()
    labels = torch.from_numpy(plan.vertex_data.labels.astype(np.int64))
    losses = []
    for _ in range(epochs):
        h = x
        for k in range(2):
            p = {
                name.split(".")[-1]: w
                for name, w in weights.items()
                if name.startswith(f"convs.{k}.")
            }
            if model == "gcn":
                h = whole @ h @ p["weight"] + p["bias"]
            elif model == "sage":
                h = mean @ h @ p["weight"] + h @ p["weight_self"] + p["bias"]
            else:
                y = h @ p["weight"]
                score = (y @ p["score_source"][0])[None, :] + (y @ p["score_target"][0])[:, None]
                score = functional.leaky_relu(score, 0.2).masked_fill(~closed, -torch.inf)
                h = torch.softmax(score, 1) @ y + p["bias"]
            h = torch.relu(h) if k == 0 else h
        loss = functional.cross_entropy(h, labels)
        losses.append(loss.item())
        gradients = torch.autograd.grad(loss, list(weights.values()))
        weights = {
            name: (w - 0.05 * g).detach().requires_grad_()
            for (name, w), g in zip(weights.items(), gradients, strict=True)
        }
    return np.array(losses)


def _in_turns(sides: dict[str, Callable[[], Any]], place: Any) -> dict[str, float]:
    """Median seconds of every side, one after the other in rounds; the first one warms up."""
    import torch

    def done() -> None:
        if place.type == "cuda":
            torch.cuda.synchronize(place)

    took: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(8):
        for name, call in sides.items():
            done()
            begin = time.perf_counter()
            call()
            done()
            took[name].append(time.perf_counter() - begin)
    return {name: statistics.median(seconds[1:]) for name, seconds in took.items()}


def _copy_bandwidth(place: Any) -> float:
    """Bytes per second, read and written, of copying an array that no cache holds."""
    import torch

    source = torch.zeros(1 << 25, device=place)
    target = torch.ones_like(source)
    seconds = _in_turns({"copy": lambda: target.copy_(source)}, place)["copy"]
    return 2 * source.nbytes / seconds


def _product_rate(place: Any) -> float:
    """Flops per second of a dense float32 product."""
    import torch

    size = 8192 if place.type == "cuda" else 2048
    x = torch.ones(size, size, device=place)
    out = torch.empty_like(x)
    return 2 * size**3 / _in_turns({"mm": lambda: torch.mm(x, x, out=out)}, place)["mm"]


def _pyg_seconds(device: str, n: int, nnz: int, hidden: int) -> dict[str, float]:
    """Seconds of an epoch of PyTorch Geometric's layers on the same graph, by model."""
    import torch
    from torch.nn import functional
    from torch_geometric.nn import GATConv, GCNConv, SAGEConv

    place = torch.device(device)
    u, v = _edges(n, nnz)
    import numpy as np

    index = torch.from_numpy(np.concatenate([np.stack([u, v]), np.stack([v, u])], 1)).to(place)
    index = torch.unique(index[:, index[0] != index[1]], dim=1)
    x = torch.randn(n, 32, device=place)
    labels = torch.randint(CLASSES, (n,), device=place)
    found = {}
    for name, kind in {"gcn": GCNConv, "sage": SAGEConv, "gat": GATConv}.items():
        dims = [32, hidden, hidden, CLASSES]
        cached = {"cached": True} if name == "gcn" else {}
        layers = torch.nn.ModuleList(kind(a, b, **cached) for a, b in pairwise(dims)).to(place)
        optimizer = torch.optim.SGD(layers.parameters(), lr=0.05)

        def epoch(layers: Any = layers, optimizer: Any = optimizer) -> None:
            h = x
            for k, layer in enumerate(layers):
                h = layer(h, index)
                h = torch.relu(h) if k < 2 else h
            optimizer.zero_grad()
            functional.cross_entropy(h, labels).backward()
            optimizer.step()

        found[name] = _in_turns({"epoch": epoch}, place)["epoch"]
    return found


if __name__ == "__main__":
    main()
