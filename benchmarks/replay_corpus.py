"""Run cases of `benchmarks.replay` in one tree, and write down what comes out of each.

    python -P replay_corpus.py TREE CASES.json RESULTS.jsonl SHARED

Started by `benchmarks.replay` with the packages of TREE first on the search path. It uses what
users use, the public names of `plancc` and `plancc_runtime` and the two programs, and no other
module of them: the same script must run in trees whose modules have other names.

The outcome of a case has four sections, each a value for every key: ``plans`` (content hashes,
kinds of errors), ``figures`` (metrics, provenance, losses, words), ``predicted`` (what `simulate`
says, and predicted seconds) and ``texts`` (warnings, messages, printed tables). Seconds that were
measured are left out, predicted ones are not.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import signal
import socket
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache, partial
from inspect import signature
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

import plancc
import plancc_cli
import plancc_datasets
import plancc_runtime
from plancc_cli.main import main as plancc_main
from plancc_cli.run import main as plancc_run_main

Outcome = dict[str, dict[str, Any]]

MEASURED = (
    *("seconds_max", "seconds_mean", "evaluation_seconds", "step_seconds"),
    *("partition_seconds", "compile_seconds", "search_seconds"),
    *("pays", "pays_random", "pays_baseline"),
)
"""Keys of times, wherever they stand."""
LISTS_WITH_TIMES = ("tried", "candidates", "setup")
"""Keys below which "seconds" was measured; in other places it is predicted."""
HAS_NEW_NAMES = "scale_features" in signature(plancc.train).parameters
"""Whether the tree has options under the names of the corpus."""
EARLIER = {
    "--scale-features rows": "--normalize-features",
    "--scale-features columns": "--standardize-features",
    "--sampler-option walk_length=": "--walk-length ",
    "--sampler-option keep=": "--keep ",
}
"""Words of the corpus, and those of trees with earlier names."""
TIME_LIMIT = 300
"""Seconds that a case with a process of its own may run."""
PROGRESS = r"^plancc-run: epoch \d+: loss .*\n"
"""What a run says where it takes long."""
EVERY = 10
"""Seconds from one line of progress to the next."""


def main() -> None:
    tree, cases_file, results_file, shared = map(Path, sys.argv[1:])
    for package in (plancc, plancc_cli, plancc_datasets, plancc_runtime):
        if not Path(package.__file__ or "").resolve().is_relative_to(tree.resolve()):
            sys.exit(f"{package.__name__} is {package.__file__}, outside of {tree}")
    job = json.loads(cases_file.read_text())
    corpus = Corpus(job["plans"], job["graphs"], shared)
    start = shown = time.monotonic()
    with results_file.open("a") as results:
        for number, case in enumerate(job["cases"], 1):
            begin = time.monotonic()
            outcome = corpus.outcome(case)
            seconds = time.monotonic() - begin
            line = {"key": case["key"], "name": case["name"], "seconds": round(seconds, 3)}
            results.write(json.dumps(line | {"outcome": outcome}) + "\n")
            results.flush()
            if time.monotonic() - shown > EVERY or number == len(job["cases"]):
                shown = time.monotonic()
                place = f"{number}/{len(job['cases'])}"
                print(f"  {place}, {shown - start:.0f} s: {case['name']}", flush=True)


class Corpus:
    """Runs cases in the working folder.

    Parameters:
        plans: The cases of named plans, which others start from.
        graphs: How every named graph is made.
        shared: Folder of real graphs.
    """

    def __init__(self, plans: dict[str, Any], graphs: dict[str, Any], shared: Path) -> None:
        self.plans, self.graphs, self.shared = plans, graphs, shared
        self.graph = cache(self._graph)
        self.warm = cache(self._warm)

    def outcome(self, case: dict[str, Any]) -> Outcome:
        """What comes out of a case; an exception is an outcome too."""
        run: Callable[[dict[str, Any]], Outcome] = getattr(self, f"_{case['kind']}")
        try:
            return run(case)
        except Exception as error:
            if not isinstance(error, plancc.PlanccError):
                traceback.print_exc()
            return error_of(type(error).__name__, str(error))

    def _warm(self) -> None:
        """Import in this process what its forks need, and load the kernels of a forward pass."""
        import torch  # noqa: F401

        words = [str(self.path(next(iter(self.plans)))), "--epochs", "0"]
        in_process(plancc_run_main, ["plancc-run", *words, "--threads", "1", "--kernel", "numba"])

    def _graph(self, name: str) -> tuple[Any, Any]:
        """A graph and its vertex data, or None."""
        how = self.graphs[name]
        if "file" in how:
            data = how.get("data")
            return str(self.shared / how["file"]), data and str(self.shared / data)
        made = plancc_datasets.load_dataset(how["dataset"], **how.get("options", {}))
        if not how.get("one_way"):
            return made.graph, None if how.get("bare") else made.data
        graph = made.graph
        n = len(graph.indptr) - 1
        row, column = np.repeat(np.arange(n), np.diff(graph.indptr)), graph.indices
        kept = (7 * row + 13 * column) % 3 > 0
        values = 1.0 + (row + column)[kept] % 4
        return sp.csr_array((values, (row[kept], column[kept])), shape=(n, n)), made.data

    def _made(self, case: dict[str, Any]) -> Any:
        """The plan of a case of kind "compile"."""
        graph, data = self.graph(case["graph"])
        settings = dict(case["settings"])
        if "part_step" in case:
            n = graph.shape[0] if sp.issparse(graph) else plancc.as_graph(graph).num_vertices
            settings["part"] = np.arange(n) * case["part_step"] % case["part_count"]
        return plancc.compile(graph, data=data, **settings)

    def path(self, name: str) -> Path:
        """The file of a named plan, in the working folder."""
        path = Path(f"{name}.h5")
        if not path.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._made(self.plans[name]).save(path)
        return path

    def _files_of(self, case: dict[str, Any]) -> None:
        """Make the plans and graph files that a case reads."""
        for name in case.get("plans", ()):
            self.path(name)
        for name in case.get("inputs", ()):
            path = Path(f"{name}.mtx")
            if not path.exists():
                plancc.write_graph(self.graph(name)[0], path)

    def _compile(self, case: dict[str, Any]) -> Outcome:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            plan = self._made(case)
        return outcome_of_plan(plan, caught)

    def _refine(self, case: dict[str, Any]) -> Outcome:
        settings = dict(case["settings"])
        path = self.path(case["plan"])
        if "part_step" in case:
            given = plancc.load(path)
            settings["part"] = np.arange(given.num_vertices) * case["part_step"] % given.num_parts
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            plan = plancc.refine(path, case["objective"], **settings)
        return outcome_of_plan(plan, caught)

    def _saved(self, case: dict[str, Any]) -> Outcome:
        """A named plan in its file: as it is read, its slices and what the verifier says."""
        path = self.path(case["plan"])
        plan = plancc.load(path)
        sliced = hashlib.sha256()
        for part in range(plan.num_parts):
            for other in range(plan.num_parts):
                sliced.update(np.ascontiguousarray(plan.part(part).send_mask(other)).tobytes())
        return {
            "plans": {"content": plan.content_sha256(), "send masks": sliced.hexdigest()},
            "figures": {"verified": repr(plancc.verify_file(path))},
            "texts": {},
        }

    def _command(self, case: dict[str, Any]) -> Outcome:
        """`plancc WORDS`, several one after the other, in this process."""
        self._files_of(case)
        found = empty()
        for number, words in enumerate(map(words_of_tree, case["commands"])):
            code, out, err = in_process(plancc_main, ["plancc", *words])
            found["figures"][f"{number} code"] = code
            found["texts"][f"{number} stderr"] = err
            try:
                printed = json.loads(out)
            except ValueError:
                predicted = words[:1] == ["simulate"]
                found["texts"][f"{number} stdout"] = out if predicted else without_times(out)
                continue
            if isinstance(printed, dict) and words[0] in ("compile", "refine"):
                printed.pop("seconds")
                printed.pop("content_sha256")  # names the format too
                output = Path(words[words.index("-o") + 1])
                found["plans"][f"{number} content"] = plancc.load(output).content_sha256()
            split(printed, f"{number}", found, predicted=words[0] == "simulate")
        for name in case.get("outputs", ()):
            found["plans"][name] = hash_of_file(Path(name))
        return found

    def _run(self, case: dict[str, Any]) -> Outcome:
        """`plancc-run PLAN WORDS`, several one after the other, each in a fork of this process."""
        self._files_of(case)
        self.warm()
        found = empty()
        for number, words in enumerate(map(words_of_tree, case["commands"])):
            result, weights = Path("run.json"), Path("run.npz")
            for path in (result, weights):
                path.unlink(missing_ok=True)
            every = ["plancc-run", *words, "--json", str(result), "--save", str(weights)]
            if "--parametrization" not in words:
                every += [f"--{name}={value}" for name, value in papers().items()]
            code, err = forked(every)
            found["figures"][f"{number} code"] = code
            found["texts"][f"{number} stderr"] = re.sub(PROGRESS, "", err, flags=re.M)
            if result.exists():
                printed = json.loads(result.read_text())
                for name in ("options", "network", "remarks"):  # to which more may join
                    printed.pop(name, None)
                found["texts"][f"{number} passes off"] = list(printed["passes_off"].values())
                printed["passes_off"] = list(printed["passes_off"])
                split(printed, f"{number}", found)
            if weights.exists():
                found["figures"][f"{number} weights"] = hash_of_arrays(weights)
        for name in case.get("outputs", ()):
            found["figures"][name] = hash_of_file(Path(name))
        return found

    def _epochs(self, case: dict[str, Any]) -> Outcome:
        """Runs of `plancc.train` in this process, whose threads are the ranks."""
        found = empty()
        path = self.path(case["plans"][0])
        for number, options in enumerate(case["runs"]):
            given = {
                k: tuple(v) if isinstance(v, list) else v
                for k, v in options_of_tree(options).items()
            }
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                trained = plancc.train(
                    path, ranks=case["ranks"], timeout=TIME_LIMIT, threads=1, **given
                )
            found["texts"][f"{number} warnings"] = [str(each.message) for each in caught]
            printed = trained.result.to_dict()
            for name in ("header", "options", "network", "remarks"):  # to which more may join
                printed.pop(name, None)
            found["texts"][f"{number} passes off"] = list(printed["passes_off"].values())
            printed["passes_off"] = list(printed["passes_off"])
            split(printed, f"{number}", found)
            for name, array in trained.weights.items():
                found["figures"][f"{number} weights {name}"] = described(array)
            for name in ("predictions", "probabilities"):
                array = getattr(trained, name)
                found["figures"][f"{number} {name}"] = "none" if array is None else described(array)
        return found

    def _library(self, case: dict[str, Any]) -> Outcome:
        """Products, exchanges, layers and gradients of `plancc_runtime.open`, on ranks of gloo."""
        self._files_of(case)
        self.warm()
        path, ranks = self.path(case["plans"][0]), case["ranks"]
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        files = [Path(f"library-{rank}.json") for rank in range(ranks)]
        for file in files:
            file.unlink(missing_ok=True)

        def one(rank: int) -> None:
            if ranks > 1:
                announced = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank}
                announced |= {"LOCAL_WORLD_SIZE": ranks, "MASTER_PORT": port}
                os.environ |= {name: str(value) for name, value in announced.items()}
                os.environ["MASTER_ADDR"] = "127.0.0.1"
            figures = library_figures(path, "gloo" if ranks > 1 else "single", case["dtype"])
            files[rank].write_text(json.dumps(figures))

        children = [fork(partial(one, rank)) for rank in range(ranks)]
        codes = [ended(child) for child in children]
        found = empty()
        for rank, (code, file) in enumerate(zip(codes, files, strict=True)):
            found["figures"][f"rank {rank} code"] = code
            if file.exists():
                split(json.loads(file.read_text()), f"rank {rank}", found)
        return found


def words_of_tree(words: list[str]) -> list[str]:
    """The words of a command under the names that this tree has for its options."""
    line = " ".join(words)
    for new, old in () if HAS_NEW_NAMES else EARLIER.items():
        line = line.replace(new, old)
    return line.split()


def options_of_tree(options: dict[str, Any]) -> dict[str, Any]:
    """Options of training under the names that this tree has for them."""
    if HAS_NEW_NAMES:
        return options
    found: dict[str, Any] = {}
    for name, value in options.items():
        earlier = {
            "scale_features": ("normalize_features", True),
            "random_features": ("features", value),
        }
        old, given = earlier.get(name, (name, value))
        found[old] = given
    return found


def empty() -> Outcome:
    """The outcome of a case before anything has come out."""
    return {"plans": {}, "figures": {}, "predicted": {}, "texts": {}}


def outcome_of_plan(plan: Any, caught: list[warnings.WarningMessage]) -> Outcome:
    """Hash, metrics, provenance and warnings of a plan."""
    provenance = dict(plan.provenance)
    texts: dict[str, Any] = {"provenance.warnings": provenance.pop("warnings", None)}
    ours = [each for each in caught if issubclass(each.category, plancc.PlanccWarning)]
    texts["warnings"] = [str(each.message) for each in ours]
    for name, value in provenance.items():
        if isinstance(value, str) and value[:1] in ("[", "{"):
            provenance[name] = json.loads(value)
    found = empty() | {"plans": {"content": plan.content_sha256()}, "texts": texts}
    found["figures"]["number of warnings"] = len(ours)
    split(plan.metrics().figures(), "metrics", found)
    if plan.baseline is not None:
        split(plan.baseline.figures(), "random", found)
    split(provenance, "provenance", found)
    return found


def error_of(kind: str, message: str) -> Outcome:
    """The outcome of a case that ends with an exception."""
    return {"plans": {"error": kind}, "figures": {}, "texts": {"error": f"error: {message}"}}


def split(
    value: Any, name: str, found: Outcome, timed: bool = False, predicted: bool = False
) -> None:
    """Add every leaf of a JSON value to the section it belongs to; leave measured times out.

    `predicted`: whether the numbers are predictions, as all seconds are that were not measured.
    """
    if isinstance(value, dict):
        for key, each in value.items():
            if key not in MEASURED and not (timed and key == "seconds"):
                timed_there = timed or key in LISTS_WITH_TIMES
                split(each, f"{name}.{key}", found, timed_there, predicted or "seconds" in key)
    elif isinstance(value, list):
        found["figures"][f"{name}.length"] = len(value)
        for number, each in enumerate(value):
            split(each, f"{name}.{number}", found, timed, predicted)
    else:
        wording = name.endswith((".warnings", ".failed", ".why", ".notes"))
        section = "predicted" if predicted and isinstance(value, float | int) else "figures"
        found["texts" if wording and isinstance(value, str) else section][name] = plain(value)


def without_times(text: str) -> str:
    """What a command prints, without the seconds that it measured."""
    text = re.sub(r"(partition seconds +)[\d.]+", r"\1", text)
    paid = r"(time of the search|epochs until it pays over random|  over .*\.h5)  .*\n"
    text = re.sub(f"^{paid}", "", text, flags=re.M)
    lines, place = [], None
    for line in re.sub(r", [\d.]+ s$", "", text, flags=re.M).split("\n"):
        cells = re.split("( {2,})", line)
        if "seconds" in cells:
            place = cells.index("seconds")
        elif not line.strip():
            place = None
        elif place is not None and len(cells) > place:
            cells[place - 1 : place + 1] = ["  ", ""]
        lines.append("".join(cells).rstrip())
    return "\n".join(lines)


def plain(value: Any) -> Any:
    """A leaf as JSON has it; every bit of a float."""
    if isinstance(value, np.generic):
        value = value.item()
    return repr(value) if isinstance(value, float) else value


def hash_of_file(path: Path) -> str:
    """Hash of a file: of a plan its content hash, of an ``.npz`` its arrays, else its bytes."""
    if not path.exists():
        return "missing"
    if path.suffix == ".h5":
        return plancc.load(path).content_sha256()
    if path.suffix == ".npz":
        return hash_of_arrays(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def hash_of_arrays(path: Path) -> str:
    """Hash of the names, types, shapes and bytes of the arrays in an ``.npz``."""
    found = hashlib.sha256()
    with np.load(path) as arrays:
        for name in sorted(arrays):
            if arrays[name].dtype.kind != "U":  # what a file says of itself; more may join
                found.update(described(arrays[name], name).encode())
    return found.hexdigest()


def described(array: Any, name: str = "") -> str:
    """An array in one line, with the hash of its bytes."""
    array = np.ascontiguousarray(array)
    digest = hashlib.sha256(array.tobytes()).hexdigest()
    return f"{name} {array.dtype} {array.shape} {digest}".strip()


def in_process(program: Callable[[], Any], words: list[str]) -> tuple[Any, str, str]:
    """Exit code, stdout and stderr of a program in this process."""
    out, err = io.StringIO(), io.StringIO()
    handler = signal.getsignal(signal.SIGTERM)
    code: Any = 0
    try:
        with patch.object(sys, "argv", words), redirect_stdout(out), redirect_stderr(err):
            program()
    except SystemExit as stop:
        code = stop.code or 0
    finally:
        signal.signal(signal.SIGTERM, handler)
    return code, out.getvalue(), err.getvalue()


def fork(work: Callable[[], None], out: Path | None = None, err: Path | None = None) -> int:
    """Start a copy of this process that does `work` and ends; its number."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.alarm(TIME_LIMIT)
        for stream, path in ((1, out), (2, err)):
            if path is not None:
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644), stream)
        work()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(child: int) -> int:
    """Wait for a process of `fork`; its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def forked(words: list[str]) -> tuple[int, str]:
    """Exit code and stderr of `plancc-run WORDS` in a copy of this process."""

    def work() -> None:
        sys.argv = words
        plancc_run_main()

    err = Path("fork.err")
    code = ended(fork(work, Path("fork.out"), err))
    return code, err.read_text()


def library_figures(path: Path, transport: str, dtype: str) -> dict[str, Any]:
    """What a rank's graph computes from inputs that depend on vertices alone. Collective."""
    import torch

    torch.manual_seed(0)
    graph = plancc_runtime.open(path, transport, dtype=getattr(torch, dtype), threads=1)
    rng = np.random.default_rng(3)
    rows = graph.vertices.numpy()
    dense = rng.standard_normal((graph.num_vertices, 6))[rows]
    x = torch.tensor(dense, dtype=graph.dtype, requires_grad=True)
    weight = torch.tensor(rng.standard_normal((6, 3)), dtype=graph.dtype)
    found: dict[str, Any] = {
        "sizes": [graph.num_rows, graph.num_halo, graph.num_classes],
        "vertices": described(rows),
        "edges": described(graph.local_edge_index("plan").numpy()),
        "values": described(graph.edge_values("plan").numpy()),
    }

    def note(name: str, y: Any) -> None:
        x.grad = None
        loss = graph.mean_loss((y @ weight).pow(2).sum(1)) if len(y) == len(x) else y.pow(2).sum()
        loss.backward()
        found[name] = {"y": described(y.detach().numpy()), "loss": repr(loss.item())}
        found[name]["gradient"] = "none" if x.grad is None else described(x.grad.numpy())

    for name, make in exchanges(graph, x):
        try:
            note(name, make())
        except plancc.PlanccError as error:
            found[name] = type(error).__name__
    nn = plancc_runtime.nn
    for kind in ("GCNConv", "SAGEConv", "GINConv", "GATConv"):
        try:
            layer = getattr(nn, kind)(6, 6, **papers())
            note(kind, layer.to(graph.dtype)(graph, x))
            graph.sync_gradients(layer)
            for name, parameter in layer.named_parameters():
                found[f"{kind} {name}"] = described(parameter.grad.numpy())
        except plancc.PlanccError as error:
            found[kind] = type(error).__name__
    return found


def papers() -> dict[str, str]:
    """The option that gives layers the parameters of the papers; none where they have no other."""
    there = "parametrization" in plancc_runtime.nn.GCNConv.option_names()
    return {"parametrization": "paper"} if there else {}


def exchanges(graph: Any, x: Any) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Names and functions of what moves rows."""
    for which in ("plan", "sum", "mean", "closed-mean"):
        yield f"product {which}", partial(graph.product, x, which)
    yield "halo", partial(graph.halo, x)
    yield "columns", partial(graph.columns, x)
    for reduce in ("sum", "mean", "max"):
        yield f"copy {reduce}", partial(graph.aggregate, x, reduce=reduce)
    yield "dropout", partial(graph.dropout, x, 0.5, 1, 2)


if __name__ == "__main__":
    main()
