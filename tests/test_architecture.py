"""The import rules of docs/architecture.md, read off the sources."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "plancc": ROOT / "plancc",
    "plancc_runtime": ROOT / "runtime" / "plancc_runtime",
    "plancc_cli": ROOT / "cli" / "plancc_cli",
    "plancc_datasets": ROOT / "datasets" / "plancc_datasets",
}
MODULES = [
    pytest.param(name, path, id=str(path.relative_to(ROOT)))
    for name, folder in PACKAGES.items()
    for path in sorted(folder.rglob("*.py"))
]
# What a package must not import, anywhere in its sources.
FORBIDDEN = {
    "plancc": {
        *("plancc_runtime", "plancc_cli", "plancc_datasets"),
        *("torch", "mpi4py", "click", "rich"),
    },
    "plancc_runtime": {"plancc_cli", "plancc_datasets", "click", "rich", "networkx"},
    "plancc_cli": set(),
    "plancc_datasets": {"plancc_runtime", "plancc_cli", "torch", "mpi4py", "click", "rich"},
}
RUNTIME_MAY = (
    *("plancc.plan", "plancc.sampling", "plancc.errors", "plancc.files", "plancc.registry"),
    "plancc.version",
)
# Modules that put the layers together.
WHOLE = ("owners", "pipeline", "refinement", "sweep", "report")
# Inside the compiler: what each layer must not know.
LAYERS = {
    "graph": {"models", "partitioners", "passes", "search", "plan", "cost", "predict", *WHOLE},
    "sampling": {
        *("graph", "models", "partitioners", "passes", "search", "plan", "cost", "predict"),
        *WHOLE,
    },
    "models": {"partitioners", "passes", "search", "plan", "cost", "predict", *WHOLE},
    "passes": {"partitioners", "search", "predict", *WHOLE},
    "partitioners": {"search", "plan", "cost", "predict", *WHOLE},
    "search": {"plan", "predict", *WHOLE},
    "plan": {"partitioners", "passes", "search", "cost", "predict", *WHOLE},
    "cost": {"partitioners", "passes", "search", "predict", *WHOLE},
    "predict": {"partitioners", "passes", "search", *WHOLE},
    "report": {"partitioners", "passes", "search", "owners", "pipeline", "refinement", "sweep"},
    "owners": {"pipeline", "refinement", "sweep", "report"},
}


def imports_of(path: Path) -> set[str]:
    """Full names of all modules imported by a source, also inside functions; not for types only."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found |= {a.value for a in node.args if isinstance(a, ast.Constant)}
    return found


def test_the_sources_are_found():
    names = {path.relative_to(ROOT).as_posix() for _, path in (m.values for m in MODULES)}
    assert {"plancc/pipeline.py", "runtime/plancc_runtime/train.py"} < names
    assert "plancc.registry" in imports_of(ROOT / "plancc" / "pipeline.py")


@pytest.mark.parametrize(("package", "path"), MODULES)
def test_imports_point_downward(package, path):
    found = imports_of(path)
    wrong = {name for name in found if name.split(".")[0] in FORBIDDEN[package]}
    assert not wrong
    if package == "plancc_runtime":
        ours = {name for name in found if name.split(".")[0] == "plancc" and name != "plancc"}
        assert all(name.startswith(RUNTIME_MAY) for name in ours), ours
    layer = path.relative_to(PACKAGES[package]).parts[0]
    if package == "plancc" and layer in LAYERS:
        ours = {name for name in found if name.startswith("plancc.")}
        assert not {name.split(".")[1] for name in ours} & LAYERS[layer]


@pytest.mark.parametrize(("package", "path"), MODULES)
def test_every_module_says_what_it_is(package, path):
    source = path.read_text()
    if path.name == "__init__.py" and not source.strip():
        return
    assert ast.get_docstring(ast.parse(source)), f"{path} has no docstring"
