"""Measures of the sources: how often one concept is written, and how many lines all take.

All but two are read off the syntax trees; for what is loaded and for the row path a process
imports and runs the product. Of what is to become one concept the notes list every place. A target
is where the sources should be; `tests/test_budget.py` has the numbers that only fall. Measured
elsewhere: files that a change touches (its diff), seconds (`make durations`,
`benchmarks.against_commit`).
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from benchmarks.inputs import Inputs
from benchmarks.report import Report

ROOT = Path(__file__).parents[1]
PACKAGES = (
    *("plancc", "runtime/plancc_runtime", "cli/plancc_cli"),
    "datasets/plancc_datasets",
)
LAB = "lab/plancc_lab"
"""What is beside the main job; absent until something has moved there."""
LOADED = "import plancc.pipeline, plancc_runtime.run"
ROW_PATH = """
import sys, tempfile, threading
import numpy as np
from scipy.sparse import random_array

import plancc

def row_path():
    graph = random_array((60, 60), density=0.1, rng=np.random.default_rng(0))
    data = {"features": np.ones((60, 3), np.float32), "labels": np.arange(60) % 2}
    plan = plancc.compile(graph, num_parts=2, data=data, effort="fast")
    with tempfile.TemporaryDirectory() as folder:
        plan.save(f"{folder}/p.h5")
        plancc.train(f"{folder}/p.h5", epochs=1)

row_path()  # imports what is imported at first use
called = set()
note = lambda frame, event, argument: called.add(frame.f_code.co_filename)
threading.setprofile(note)
sys.setprofile(note)
row_path()
sys.setprofile(None)
print(*called, sep="\\n")
"""
"""A row plan from compile to the last epoch; prints the files whose functions were called."""
THREADS = {
    "types": (r"types|typed|relations?|Types|Relation", r"typ|relation|union|hetero|rgcn"),
    "links": (r"links?|Links|SplitLinks|LinkLearner", r"link|decoder|negative|ends"),
    "grids": (r"grids?|Grid|GridJob", r"grid|stages"),
    "hops": (
        r"hops?|relays?|relayed|routes?|topology|Topology",
        r"hop|relay|route|node|topolog|numbering",
    ),
    "capacities": (r"capacities|capacity|Capacities", r"capacit|limits"),
    "edge features": (
        r"edge_features?|EdgeFeatures",
        r"edge_feature|listed_edges",
    ),
    "mini-batches": (r"batch(?!_norm|_first)|batches|Batch|samplers?|fanouts", r"batch|sampl|draw"),
    "disk": (
        r"disk|mapped|external",
        r"disk|mapped|external|folders|csr",
    ),
}
"""Features that are optional: the words that name one in code, and what paths of its own files
hold."""
MOVING = (
    *("runtime/plancc_runtime/layouts", "runtime/plancc_runtime/execution", "plancc/predict"),
)
"""What says how rows move: layouts, epochs, predictions."""
WALKED = ("runtime/plancc_runtime/layouts/", "plancc/predict/schedules/")
WALKS = ("forward", "product", "run", "multiplied", "counts")
TUNED = ("plancc/search/", "plancc/passes/")
LIST = re.compile(r"\b(?:send|recv)_(?:peer|ptr)\b")
NUMERIC = (ast.Constant, ast.UnaryOp, ast.BinOp, ast.operator, ast.unaryop)


@dataclass(frozen=True)
class Module:
    """A file of the sources.

    Attributes:
        name: Its path below the root.
    """

    name: str
    text: str
    tree: ast.Module

    def classes(self) -> Iterator[ast.ClassDef]:
        """All classes, nested ones too."""
        return (node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef))

    def full_names(self) -> dict[str, str]:
        """Classes that are defined here or imported by name, with the modules that define them."""
        parts = Path(self.name).with_suffix("").parts
        here = ".".join(parts[1:] if f"{parts[0]}/{parts[1]}" in PACKAGES else parts)
        found = {
            alias.asname or alias.name: f"{node.module}.{alias.name}"
            for node in ast.walk(self.tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        return found | {node.name: f"{here}.{node.name}" for node in self.classes()}

    @cached_property
    def code(self) -> list[str]:
        """Lines that are neither blank, nor a comment, nor part of a docstring."""
        lines = {
            number: line
            for number, line in enumerate(self.text.splitlines(), 1)
            if line.strip() and not line.lstrip().startswith("#")
        }
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Expr) and _is_text(node.value):
                for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                    lines.pop(number, None)
        return [*lines.values()]


def modules(root: Path, folders: Sequence[str]) -> list[Module]:
    """All files below folders of a tree, sorted."""
    paths = [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]
    texts = [(path.relative_to(root).as_posix(), path.read_text()) for path in paths]
    return [Module(name, text, ast.parse(text)) for name, text in texts]


def message_lists(product: Sequence[Module]) -> tuple[list[str], list[str]]:
    """Types that spell a message list, and types that hold one of these.

    To spell it is to have fields named after peers and after offsets ("peer", "ptr"), or to derive
    from such a type; to hold it, to have a field that is annotated with it.
    """
    spelled: set[str] = set()
    fields, bases = {}, {}
    for module in product:
        full = module.full_names()
        for node in module.classes():
            name = full.get(node.name, node.name)
            names, types = _fields(node)
            fields[name] = {full.get(each, each) for each in types}
            bases[name] = {full.get(each, each) for base in node.bases for each in _names(base)}
            if {"peer", "ptr"} <= {word for each in names for word in each.strip("_").split("_")}:
                spelled.add(name)
    while more := {name for name in bases if bases[name] & spelled} - spelled:
        spelled |= more
    held = {name for name in fields if fields[name] & spelled} - spelled
    return sorted(spelled), sorted(held)


def _fields(node: ast.ClassDef) -> tuple[set[str], set[str]]:
    """Names of annotated attributes and properties of a class, and the names in their types."""
    names, types = set(), set()
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            names.add(each.target.id)
            types |= _names(each.annotation)
        elif isinstance(each, ast.FunctionDef) and "property" in map(
            ast.unparse, each.decorator_list
        ):
            names.add(each.name)
            types |= _names(each.returns)
    return names, types


def _names(annotation: ast.expr | None) -> set[str]:
    nodes = ast.walk(annotation) if annotation else ()
    return {node.id for node in nodes if isinstance(node, ast.Name)}


def walks(product: Sequence[Module]) -> list[str]:
    """Methods that walk through a layout by hand, with the line where each begins.

    A walk is a method of a class in the layouts or the schedules that has a name of `WALKS` and
    more than one statement; autograd's, which are static, are none.
    """
    return [
        f"{module.name}:{each.lineno}: {node.name}.{each.name}"
        for module in product
        if module.name.startswith(WALKED)
        for node in module.classes()
        for each in node.body
        if isinstance(each, ast.FunctionDef)
        and each.name in WALKS
        and "staticmethod" not in map(ast.unparse, each.decorator_list)
        and sum(not (isinstance(s, ast.Expr) and _is_text(s.value)) for s in each.body) > 1
    ]


def tuned_numbers(product: Sequence[Module]) -> Counter[str]:
    """Module constants that are one number, by file: of the search and its passes, not presets."""
    found: Counter[str] = Counter()
    for module in product:
        if not module.name.startswith(TUNED) or module.name.endswith("/presets.py"):
            continue
        for node in module.tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
                values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
                several = isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple)
                if several or (len(values) == 1 and values[0] is node.value):
                    found[module.name] += sum(map(_is_number, values))
    return +found


def _is_number(value: ast.expr) -> bool:
    """Whether an expression is made of numbers alone: 7, -1; 1 << 20 is a number of bits."""
    nodes = [*ast.walk(value)]
    if any(isinstance(node, ast.LShift) for node in nodes):
        return False
    numbers = [node.value for node in nodes if isinstance(node, ast.Constant)]
    return all(isinstance(node, NUMERIC) for node in nodes) and all(
        type(each) in (int, float) for each in numbers
    )


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


def names_of_several(product: Sequence[Module]) -> dict[str, list[str]]:
    """Names of classes that several modules define at their top level, with these modules."""
    found = defaultdict(list)
    for module in product:
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(module.name)
    return {name: where for name, where in sorted(found.items()) if len(where) > 1}


def mentions_outside(product: Sequence[Module], feature: str) -> Counter[str]:
    """Code lines that name a feature of `THREADS`, by file, but for the files of its own."""
    words, own = THREADS[feature]
    named = re.compile(rf"(?<![a-zA-Z0-9])(?:{words})(?![a-zA-Z0-9])")
    return +Counter(
        {
            module.name: sum(bool(named.search(line)) for line in module.code)
            for module in product
            if not re.search(own, module.name)
        }
    )


def ran(script: str, root: Path = ROOT) -> list[str]:
    """What a script prints in a process of its own that has the product of this tree, by line."""
    folders = [root, *(root / package for package in ("runtime", "cli", "datasets", "lab"))]
    path = os.pathsep.join(map(str, folders))
    command = [sys.executable, "-P", "-W", "ignore", "-c", script]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()


@cache
def files_loaded(root: Path = ROOT) -> list[str]:
    """Files of the product that `LOADED` imports at module level."""
    names = "print(*(getattr(m, '__file__', None) for m in sys.modules.values()), sep='\\n')"
    return _of_tree(ran(f"{LOADED}\nimport sys\n{names}", root), root)


@cache
def files_of_row_path(root: Path = ROOT) -> list[str]:
    """Files of the product whose functions `ROW_PATH` calls."""
    return _of_tree(ran(ROW_PATH, root), root)


def _of_tree(files: Sequence[str], root: Path) -> list[str]:
    return sorted({str(Path(f).relative_to(root)) for f in files if f.startswith(f"{root}/")})


def budgets(root: Path = ROOT) -> dict[str, int]:
    """The measures that only fall, by name."""
    product, lab = modules(root, PACKAGES), modules(root, [LAB])
    code = {module.name: len(module.code) for module in product}
    found = {"code lines of the core": sum(code.values())}
    found["code lines of the lab"] = sum(len(module.code) for module in lab)
    for what, files in (
        (f"`{LOADED}`", files_loaded(root)),
        ("row path, compile and run", files_of_row_path(root)),
    ):
        of_product = [code[name] for name in files if name in code]
        found |= {f"{what}: files": len(of_product), f"{what}: code lines": sum(of_product)}
    for feature in THREADS:
        named = mentions_outside(product, feature)
        found[f"{feature}: other files that name it"] = len(named)
        found[f"{feature}: code lines there"] = named.total()
    return found


def run(inputs: Inputs | None = None) -> Report:
    """All measures of this tree."""
    report = measured(ROOT)
    for name, number in budgets().items():
        report.add(name, number)
    return report


def measured(root: Path) -> Report:
    """The measures that are read off the syntax trees."""
    product, report = modules(root, PACKAGES), Report()
    spelled, held = message_lists(product)
    walked, several, tuned = walks(product), names_of_several(product), tuned_numbers(product)
    mentions = Counter({module.name: len(LIST.findall(module.text)) for module in product})
    for header in sorted((root / "include").glob("*.h")):
        mentions[header.relative_to(root).as_posix()] = len(LIST.findall(header.read_text()))
    mentions = +mentions

    report.add("types that spell a message list (peer, ptr)", len(spelled), 2)
    report.add("types that hold one of these", len(held))
    report.add("send_peer, send_ptr, recv_peer, recv_ptr: mentions", mentions.total())
    report.add("... in files", len(mentions))
    report.add("walks through layouts by hand", len(walked), 10)
    report.add("tuned numbers outside presets", tuned.total(), 0)
    report.add("class names that several modules define", len(several), 5)
    code = {module.name: len(module.code) for module in product}
    report.add("code lines, four packages", sum(code.values()), 47_500)
    for package in PACKAGES:
        report.add(f"... {Path(package).name}", _below(code, f"{package}/"))
    moving = [_below(code, place) for place in MOVING]
    report.add("... of them: how rows move", sum(moving))
    for place, number in zip(MOVING, moving, strict=True):
        report.add(f"...... {place}", number)
    lines = {module.name: module.text.count("\n") for module in product}
    report.add("all lines, four packages", sum(lines.values()))
    tests = modules(root, ["tests"])
    report.add("all lines, tests", sum(module.text.count("\n") for module in tests))

    report.notes += ["message lists", *_indented(spelled), "held by", *_indented(held)]
    report.notes += ["mentions", *_indented(_counted(mentions)), "walks", *_indented(walked)]
    report.notes += ["tuned numbers", *_indented(_counted(tuned)), "class names"]
    report.notes += _indented([f"{name}: {', '.join(where)}" for name, where in several.items()])
    return report


def _below(lines: dict[str, int], place: str) -> int:
    """Sum over the files whose names begin so."""
    return sum(number for name, number in lines.items() if name.startswith(place))


def _counted(found: Counter[str]) -> list[str]:
    return [f"{number:4} {name}" for name, number in found.most_common()]


def _indented(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" for line in lines]
