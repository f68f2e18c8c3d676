"""Model auto beside the best of all layouts, each of which is compiled and predicted.

Besides the forms that auto knows of (`Model.forms`) these are all process grids and all
replications with random blocks, and row plans in hops. Effort fast, objective time, one thread.
Every line is printed as soon as it is known.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from itertools import product
from typing import Any

import plancc
from benchmarks.inputs import SHARED, Inputs
from benchmarks.means import geometric_mean
from benchmarks.report import Report
from plancc.graph.graph import Graph
from plancc.graph.normalize import normalize
from plancc.models import MODELS
from plancc.models.auto import CANDIDATES
from plancc.options import SearchOptions
from plancc.owners.prices import Form
from plancc.predict.passes import DEFAULT_DIMS
from plancc.predict.predictor import default_predictor
from plancc_datasets import load_dataset
from plancc_lab.contenders import Contender
from plancc_lab.simulate.sweep import sweep

GRAPHS = ("polblogs", "wiki-Vote", "AmazonPhoto", "CoauthorCS", "delaunay_n15")
PARTS, QUICK_PARTS = (16, 64), (8,)
MACHINES = ("cpu-cluster", "h100")
MEAN = 1.03


def forms(num_ranks: int) -> Iterator[Contender]:
    """All layouts on these ranks."""
    labels = {Form.of(name, num_ranks, each).label: None
              for name in CANDIDATES for each in MODELS[name].forms(num_ranks)}  # fmt: skip
    sizes = [k for k in range(1, num_ranks + 1) if num_ranks % k == 0]
    labels |= {f"cagnet-2d:grid={rows}x{num_ranks // rows}": None for rows in sizes}
    labels |= {f"cagnet-1.5d:replication={c}:sparse": None for c in sizes[1:]}
    labels |= {f"mop:groups={groups}": None for groups in sizes}
    for rows, columns in product(sizes, sizes):
        layers, rest = divmod(num_ranks, rows * columns)
        if not rest:
            labels[f"cagnet-3d:grid={rows}x{columns}x{layers}"] = None
    yield from map(Contender.parse, labels)


def best_of_all(matrix: Graph, graph: Graph, num_ranks: int, machine: str) -> tuple[float, str]:
    """Seconds of the quickest epoch, and the layout."""
    options = SearchOptions(effort="fast", machine=machine)
    predictor = default_predictor(None, options.predictor.machine)
    found: list[tuple[float, str]] = []
    for searched in (True, False):
        some = [each for each in forms(num_ranks) if _is_searched(each) == searched]
        asked = SearchOptions(effort="fast", objective="time" if searched else None)
        cells = sweep(matrix, [num_ranks], some, predictor, options=asked).cells
        found += [(cell.seconds, cell.label) for cell in cells if cell.seconds is not None]
    node = predictor.machine.node.ranks
    if 1 < node < num_ranks and num_ranks % node == 0:
        nodes: Any = {"topology": f"{num_ranks // node}x{node}", "exchange": "nodes"}
        plan = _compiled(graph, "hp", num_ranks, machine, objective="time", **nodes)
        found.append((plan.provenance["epoch_seconds"], f"hp in hops {nodes['topology']}"))
    return min(found)


def _is_searched(contender: Contender) -> bool:
    return MODELS[contender.options.get("blocks", contender.model)].searched


def _compiled(graph: Graph, model: str, num_ranks: int, machine: str, **options: Any) -> Any:
    words = {"machine": machine, "dims": DEFAULT_DIMS, "effort": "fast"}
    return plancc.compile(graph, model, num_ranks, **words, **options)


def run(inputs: Inputs) -> Report:
    warnings.simplefilter("ignore", plancc.PlanccWarning)
    report, ratios, costs = Report(["epochs are predicted; seconds are CPU time"]), [], []
    graphs = {name: SHARED / f"{name}.mtx.gz" for name in GRAPHS}
    small = inputs.quick or not all(path.exists() for path in graphs.values())
    sources: dict[str, Any] = {"rmat": load_dataset("rmat", scale=9, seed=1).graph}
    for name, source in (sources if small else graphs).items():
        graph = source if small else plancc.read_graph(source)
        matrix = normalize(graph)
        for num_ranks, machine in product(QUICK_PARTS if small else PARTS, MACHINES):
            begin = time.process_time()
            plan = _compiled(graph, "auto", num_ranks, machine)
            middle, reached = time.process_time(), plan.provenance["epoch_seconds"]
            least, label = best_of_all(matrix, graph, num_ranks, machine)
            ratios.append(reached / min(least, reached))
            costs.append((middle - begin) / (time.process_time() - middle))
            chosen = plan.provenance["chosen_model"]
            print(f"{name}, p = {num_ranks}, {machine}: auto {chosen} {1e3 * reached:.4g} ms, best "
                  f"{label} {1e3 * least:.4g} ms, {ratios[-1]:.3f}; seconds over those of all "
                  f"layouts {costs[-1]:.2f}", flush=True)  # fmt: skip
    report.add("auto's epoch / the best layout's, geometric mean", geometric_mean(ratios), MEAN)
    report.add("auto's epoch / the best layout's, worst", max(ratios))
    report.add("auto's seconds / those of all layouts", geometric_mean(costs))
    return report
