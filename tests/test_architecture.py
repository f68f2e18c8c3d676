"""The rules of docs/architecture.md, read off the sources: folders, layers, imports, habits.

What a module may import stands in docs/architecture.md: its list of layers, highest first. A module
imports from layers below its own and from its own folder.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx

from plancc.models import MODELS
from plancc.partitioners import PARTITIONERS
from plancc_runtime.nn import MODELS as CONVOLUTIONS

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PACKAGES = {
    "plancc": ROOT / "plancc",
    "plancc_runtime": ROOT / "runtime" / "plancc_runtime",
    "plancc_cli": ROOT / "cli" / "plancc_cli",
    "plancc_datasets": ROOT / "datasets" / "plancc_datasets",
}


def name_of(path: Path, package: str) -> str:
    """Full name under which a source is imported."""
    words = [package, *path.relative_to(PACKAGES[package]).with_suffix("").parts]
    return ".".join(words[:-1] if words[-1] == "__init__" else words)


MODULES = {
    name_of(path, package): path
    for package, folder in PACKAGES.items()
    for path in sorted(folder.rglob("*.py"))
}
FOLDERS = sorted({path.parent for path in MODULES.values()} - set(PACKAGES.values()))

# Other packages that a package must not import, anywhere in its sources.
FORBIDDEN = {
    "plancc": {
        *("plancc_runtime", "plancc_cli", "plancc_datasets"),
        *("torch", "mpi4py", "click", "rich"),
    },
    "plancc_runtime": {"plancc_cli", "plancc_datasets", "click", "rich", "networkx"},
    "plancc_cli": set(),
    "plancc_datasets": {"plancc_runtime", "plancc_cli", "torch", "mpi4py", "click", "rich"},
}
MAY_AFTER_ALL = {"plancc.export": {"torch"}}
"""What a folder may import of these at first use: only the framework writes its own files."""
RUNTIME_MAY = (
    *("plancc.plan", "plancc.sampling", "plancc.errors", "plancc.files", "plancc.registry"),
    *("plancc.clock", "plancc.jit", "plancc.memory", "plancc.text", "plancc.threads"),
    "plancc.version",
)


@cache
def tree_of(module: str) -> ast.Module:
    return ast.parse(MODULES[module].read_text())


@cache
def imports_of(module: str) -> frozenset[str]:
    """Full names of what a module imports, also inside functions; not for types only.

    `from a import b` imports `a.b` where that is a module, else `a`.
    """
    tree = ast.parse(MODULES[module].read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            node.body = []
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else str(node.module) for name in names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found |= {str(a.value) for a in node.args if isinstance(a, ast.Constant)}
    return frozenset(found)


def ours(module: str) -> set[str]:
    """The modules of these packages that a module imports."""
    return {name for name in imports_of(module) if name in MODULES and name != module}


# -- folders and layers ----------------------------------------------------------------------------


def named_in_the_tree() -> tuple[set[Path], set[Path]]:
    """Files and folders that the tree of docs/architecture.md names."""
    tree = re.search(r"^## The house\n+```\n(.*?)```", PAGE, re.S | re.M)
    assert tree, "docs/architecture.md has no tree"
    files, folders = set(), set()
    top = here = ROOT
    for line in tree[1].splitlines():
        indent = len(line) - len(line.lstrip())
        if indent == 0:
            top = here = ROOT / line.split()[0]
            folders.add(top)
            continue
        if indent == 2:  # an entry; deeper lines continue its text
            here = top / line.split()[0] if line.split()[0].endswith("/") else top
            folders.add(here)
            line = line.strip().removeprefix(f"{here.name}/")
        files |= {here / name for name in re.findall(r"\b\w+\.py\b", line)}
        folders |= {here / name for name in re.findall(r"\b(\w+)/(?=[\s:;,]|$)", line)}
    return files, folders


def layers() -> list[list[str]]:
    """The layers of docs/architecture.md, highest first, each a list of folders and modules."""
    block = re.search(r"^## The layers\n.*?```\n(.*?)```", PAGE, re.S | re.M)
    assert block, "docs/architecture.md has no list of layers"
    found = []
    for line in block[1].splitlines():
        package, colon, rooms = line.partition(":")
        found.append(
            [f"{package}.{room.strip()}" for room in rooms.split(",")] if colon else [line]
        )
    return found


HEIGHTS = {room: height for height, rooms in enumerate(reversed(layers())) for room in rooms}


def room_of(module: str) -> str:
    """The entry in the list of layers: a folder or file of a package, or a package as a whole."""
    words = module.split(".")
    whole = not any(room.startswith(f"{words[0]}.") for room in HEIGHTS)
    return words[0] if whole else ".".join(words[:2])


def test_the_tree_of_the_documentation_is_the_tree():
    files, folders = named_in_the_tree()
    assert {ROOT / "plancc" / "pipeline.py", ROOT / "plancc" / "partitioners" / "run.py"} < files
    assert not sorted(str(path) for path in files if not path.is_file())
    assert not sorted(str(path) for path in folders if not path.is_dir())
    assert not sorted(str(path) for path in FOLDERS if path not in folders)


def test_files_in_the_text_of_the_documentation_exist():
    found = set(re.findall(r"`((?:\w+/)+\w+\.py)`", PAGE))
    places = (ROOT, ROOT / "runtime", *PACKAGES.values())
    assert "plancc/pipeline.py" in found
    assert not [name for name in sorted(found) if not any((p / name).is_file() for p in places)]


def test_every_layer_exists_once():
    rooms = [room for layer in layers() for room in layer]
    assert sorted(rooms) == sorted({room_of(module) for module in MODULES})


def test_every_module_imports_from_below():
    wrong = {}
    for module in MODULES:
        room = room_of(module)
        others = {name for name in ours(module) if room_of(name) != room}
        if upward := {name for name in others if HEIGHTS[room_of(name)] >= HEIGHTS[room]}:
            wrong[module] = upward
    assert not wrong, "see the layers in docs/architecture.md"


def test_packages_keep_apart():
    wrong = {}
    for module in MODULES:
        package = module.split(".")[0]
        forbidden = FORBIDDEN[package] - MAY_AFTER_ALL.get(room_of(module), set())
        found = {name for name in imports_of(module) if name.split(".")[0] in forbidden}
        if package == "plancc_runtime":
            theirs = {name for name in imports_of(module) if name.startswith("plancc.")}
            found |= {name for name in theirs if not name.startswith(RUNTIME_MAY)}
        if found:
            wrong[module] = found
    assert not wrong


def test_imports_form_no_circle():
    arrows = nx.DiGraph([(module, name) for module in MODULES for name in ours(module)])
    assert ("plancc.pipeline", "plancc.registry") in arrows.edges
    circles = [sorted(c) for c in nx.strongly_connected_components(arrows) if len(c) > 1]
    assert not circles


# -- habits ----------------------------------------------------------------------------------------


def functions(module: str) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree_of(module)) if isinstance(node, ast.FunctionDef))


def test_every_module_says_what_it_is():
    sources = {m: path.read_text() for m, path in MODULES.items() if path.name != "__init__.py"}
    assert not [m for m, source in sources.items() if not ast.get_docstring(ast.parse(source))]


def test_no_docstring_begins_as_half_a_sentence():
    wrong = []
    for module in MODULES:
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                text = ast.get_docstring(node) or ""
                if text.startswith("Of "):
                    wrong.append(f"{module}.{getattr(node, 'name', '')}: {text.splitlines()[0]}")
    assert not wrong, "\n".join(wrong)


def test_kernels_are_kept_where_plancc_jit_says():
    names = {"numba.njit", "numba.jit", "numba.cfunc", "numba.vectorize", "numba.guvectorize"}
    wrong = []
    for module in MODULES:
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.ImportFrom) and node.module == "numba":
                made = {f"numba.{alias.name}" for alias in node.names}
            else:
                made = {ast.unparse(node)} if isinstance(node, ast.Attribute) else set()
            if made & names and module != "plancc.jit":
                wrong.append(module)
    assert not wrong


MOST_PARAMETERS = 8
# The front door of the compiler: all that a caller may say stands in one signature.
FRONT_DOOR = ("plancc.pipeline", "compile")


def is_kernel(function: ast.FunctionDef) -> bool:
    """Whether numba compiles a function: `njit`, or a name bound to it."""
    words = {ast.unparse(decorator).partition("(")[0] for decorator in function.decorator_list}
    return bool(words & {"njit", "_compiled"})


def is_command(function: ast.FunctionDef) -> bool:
    """Whether click calls a function, with an argument for every option of a command."""
    words = [ast.unparse(decorator) for decorator in function.decorator_list]
    return any(re.match(r"\w+\.command\b", word) for word in words)


def test_no_function_takes_many_parameters():
    wrong = {}
    for module in MODULES:
        for function in functions(module):
            a = function.args
            names = [x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
            count = len([name for name in names if name not in ("self", "cls")])
            if count > MOST_PARAMETERS and not (is_kernel(function) or is_command(function)):
                wrong[module, function.name] = count
    del wrong[FRONT_DOOR]
    assert not wrong, "\n".join(map(str, wrong.items()))


# Registered names, and the modules that register them.
REGISTERED: dict[str, set[str]] = {}
for registry in (MODELS, PARTITIONERS, CONVOLUTIONS):
    for name, target in registry._targets.items():
        REGISTERED.setdefault(name, set()).add(target.partition(":")[0])
# Names that are values of other options too: they count where the code speaks of a model.
AMBIGUOUS = {"auto", "block", "file", "gcn", "rcm"}
SPEAKS_OF_ONE = re.compile(r"(?i)\b(model|convolution)s?\b(?!\.)")
# Constants of any module that hold a registered name.
NAMED = {
    target.id: node.value.value
    for module in MODULES
    for node in tree_of(module).body
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    for target in node.targets
    if isinstance(target, ast.Name) and node.value.value in REGISTERED
}


def registered_names(expression: ast.expr) -> set[str]:
    """The registered names in an expression, as strings or by the name of a constant."""
    found = set()
    for node in ast.walk(expression):
        if isinstance(node, ast.Constant) and node.value in REGISTERED:
            found.add(node.value)
        elif isinstance(node, ast.Name) and node.id in NAMED:
            found.add(NAMED[node.id])
    return found if SPEAKS_OF_ONE.search(ast.unparse(expression)) else found - AMBIGUOUS


def test_nobody_asks_for_the_name_of_a_model_or_partitioner():
    """What others need to know of one, it declares. Model auto lists whom it compares."""
    wrong = []
    for module in MODULES.keys() - {"plancc.models.auto"}:
        for node in ast.walk(tree_of(module)):
            several = isinstance(node, ast.Tuple | ast.List | ast.Set) and len(node.elts) > 1
            if several or isinstance(node, ast.Compare):
                names = registered_names(node)
                if any(module not in REGISTERED[name] for name in names):
                    wrong.append(f"{module}, line {node.lineno}: {ast.unparse(node)}")
    assert not wrong, "\n".join(wrong)


def test_the_library_names_parameters_not_flags():
    """Who calls from Python typed no `--flag`; the command line translates."""
    wrong = []
    for module in MODULES:
        if module.startswith("plancc_cli"):
            continue
        nodes = list(ast.walk(tree_of(module)))
        texts = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            text = node.value if isinstance(node, ast.Constant) and id(node) not in texts else None
            if isinstance(text, str) and re.search(r"(?<![\w-])--[a-z]", text):
                wrong.append(f"{module}, line {node.lineno}: {text}")
    assert not wrong, "\n".join(wrong)
