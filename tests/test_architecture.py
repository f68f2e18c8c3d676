"""The rules of docs/reference/architecture.md, read off the sources: folders, layers, habits.

What a module may import stands in the page's list of layers, highest first. A module imports from
layers below its own and from its own folder.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {
    "plancc": ROOT / "plancc",
    "plancc_runtime": ROOT / "runtime" / "plancc_runtime",
    "plancc_cli": ROOT / "cli" / "plancc_cli",
    "plancc_datasets": ROOT / "datasets" / "plancc_datasets",
    "plancc_lab": ROOT / "lab" / "plancc_lab",
}

# Other packages that a package must not import, anywhere in its sources.
FORBIDDEN = {
    "plancc": {
        *("plancc_runtime", "plancc_cli", "plancc_datasets", "plancc_lab"),
        *("torch", "mpi4py", "click", "rich"),
    },
    "plancc_runtime": {
        *("plancc_cli", "plancc_datasets", "plancc_lab"),
        *("click", "rich", "networkx"),
    },
    "plancc_cli": {"plancc_lab"},
    "plancc_datasets": {
        *("plancc_runtime", "plancc_cli", "plancc_lab"),
        *("torch", "mpi4py", "click", "rich"),
    },
    "plancc_lab": set(),
}
MAY_AFTER_ALL = {"plancc.interop": {"torch"}}
"""What a folder may import of these at first use: only the framework writes its own files."""
RUNTIME_MAY = (
    *("plancc.plan", "plancc.sampling", "plancc.errors", "plancc.files", "plancc.registry"),
    *("plancc.clock", "plancc.jit", "plancc.kernel", "plancc.memory", "plancc.text"),
    *("plancc.threads", "plancc.version", "plancc.fields", "plancc.graph.mapped"),
    *("plancc.graph.types", "plancc.graph.columns"),
)
NUMBA = {"njit", "jit", "cfunc", "vectorize", "guvectorize"}
MOST_PARAMETERS = 8
SEVERAL_MEANINGS = {"Batch", "Graph", "Traffic"}
"""Names of classes of the compiler and of the runtime alike. This list only shrinks."""
# Names that are values of other options too: they count where the code speaks of a model.
AMBIGUOUS = {"auto", "block", "file", "gcn", "rcm"}
SPEAKS_OF_ONE = re.compile(r"(?i)\b(model|convolution)s?\b(?!\.)")


@dataclass
class Source:
    """What the tests ask of a module; its tree is not kept."""

    path: Path
    documented: bool
    imports: set[str] = field(default_factory=set)
    """Full names, also inside functions; not for types only. `from a import b` imports `a.b` where
    that is a module, else `a`."""
    half_sentences: list[str] = field(default_factory=list)
    locked: list[str] = field(default_factory=list)
    """Cached properties that reach other ranks."""
    compiles: bool = False
    """Whether it names a decorator of numba's own."""
    parameters: dict[str, int] = field(default_factory=dict)
    """Of functions that are neither kernels nor commands."""
    constants: dict[str, str] = field(default_factory=dict)
    """Strings that the module gives a name to."""
    choices: list[ast.expr] = field(default_factory=list)
    """Comparisons, and displays of several elements."""
    classes: set[str] = field(default_factory=set)
    flags: list[str] = field(default_factory=list)
    """Strings that name a flag, which are no docstrings."""


def read(path: Path, modules: set[str]) -> Source:
    tree = ast.parse(path.read_text())
    found = Source(path, ast.get_docstring(tree) is not None)
    types_only: set[int] = set()
    texts: set[int] = set()
    for node in ast.walk(tree):  # parents come before their children
        if isinstance(node, ast.If):
            test = node.test
            if "TYPE_CHECKING" in (getattr(test, "id", ""), getattr(test, "attr", "")):
                types_only |= {id(each) for line in node.body for each in ast.walk(line)}
        elif isinstance(node, ast.Import | ast.ImportFrom) and id(node) not in types_only:
            found.imports |= imported(node, modules, path)
        elif isinstance(node, ast.Call) and name_of(node.func) == "import_module":
            found.imports |= {str(a.value) for a in node.args if isinstance(a, ast.Constant)}
        elif isinstance(node, ast.Expr):
            texts.add(id(node.value))
        if isinstance(node, ast.ClassDef):
            found.classes.add(node.name)
        if isinstance(node, ast.ImportFrom) and node.module == "numba":
            found.compiles |= not NUMBA.isdisjoint(alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute) and name_of(node.value) == "numba":
            found.compiles |= node.attr in NUMBA
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = (ast.get_docstring(node, clean=False) or "").lstrip()
            if text.startswith("Of ") or "\n    ----" in text:
                found.half_sentences.append(f"{getattr(node, 'name', '')}: {text.splitlines()[0]}")
        kept = {name_of(each) for each in getattr(node, "decorator_list", ())}
        if "cached_property" in kept and re.search(
            r"\b([Cc]ollective|transport)\b", ast.unparse(node)
        ):
            found.locked.append(node.name)
        if isinstance(node, ast.FunctionDef) and not (is_kernel(node) or is_command(node)):
            a = node.args
            names = {x.arg for x in (*a.posonlyargs, *a.args, *a.kwonlyargs)} - {"self", "cls"}
            found.parameters[node.name] = max(found.parameters.get(node.name, 0), len(names))
        several = isinstance(node, ast.Tuple | ast.List | ast.Set) and len(node.elts) > 1
        if several or isinstance(node, ast.Compare):
            found.choices.append(node)
        text = node.value if isinstance(node, ast.Constant) and id(node) not in texts else None
        if isinstance(text, str) and re.search(r"(?<![\w-])--[a-z]", text):
            found.flags.append(f"line {node.lineno}: {text}")
    for line in tree.body:
        if isinstance(line, ast.Assign) and isinstance(line.value, ast.Constant):
            names = [target.id for target in line.targets if isinstance(target, ast.Name)]
            found.constants |= dict.fromkeys(names, line.value.value)
    return found


def imported(node: ast.Import | ast.ImportFrom, modules: set[str], path: Path) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    assert node.level == 0, f"{path}: relative import"
    names = {f"{node.module}.{alias.name}" for alias in node.names}
    return {name if name in modules else str(node.module) for name in names}


def name_of(node: ast.expr) -> str:
    """The last word of a name."""
    return getattr(node, "attr", getattr(node, "id", ""))


def is_kernel(function: ast.FunctionDef) -> bool:
    """Whether numba compiles a function: `njit`, or a name bound to it."""
    words = {ast.unparse(decorator).partition("(")[0] for decorator in function.decorator_list}
    return bool(words & {"njit", "_compiled"})


def is_command(function: ast.FunctionDef) -> bool:
    """Whether click calls a function, with an argument for every option of a command."""
    words = [ast.unparse(decorator) for decorator in function.decorator_list]
    return any(re.match(r"\w+\.command\b", word) for word in words)


@pytest.fixture(scope="module")
def sources() -> dict[str, Source]:
    """Every module of the packages, by the name under which it is imported."""
    paths = {}
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            words = [package, *path.relative_to(folder).with_suffix("").parts]
            paths[".".join(words[:-1] if words[-1] == "__init__" else words)] = path
    found = {module: read(path, set(paths)) for module, path in paths.items()}
    for module, source in found.items():
        source.imports.discard(module)
    return found


# -- folders and layers ----------------------------------------------------------------------------


@cache
def page() -> str:
    return (ROOT / "docs" / "reference" / "architecture.md").read_text()


def named_in_the_list() -> dict[Path, list[Path]]:
    """Folders of the page's list, and folders in them that an item names, with files to open."""
    found = {}
    for name, files, text in re.findall(r"^- `([\w/]+)/`(?: \((.*?)\))?: (.*)$", page(), re.M):
        found[ROOT / name] = [ROOT / name / file for file in re.findall(r"`([\w/]+\.py)`", files)]
        found |= {ROOT / name / inner: [] for inner in re.findall(r"`(\w+)/`", text)}
    return found


def layers() -> list[list[str]]:
    """The layers of the page, highest first, each a list of folders and modules."""
    block = re.search(r"^## The layers\n.*?```\n(.*?)```", page(), re.S | re.M)
    assert block, "docs/reference/architecture.md has no list of layers"
    found = []
    for line in block[1].splitlines():
        package, colon, rooms = line.partition(":")
        found.append(
            [f"{package}.{room.strip()}" for room in rooms.split(",")] if colon else [line]
        )
    return found


@cache
def heights() -> dict[str, int]:
    """From the lowest layer, 0, up."""
    return {room: height for height, rooms in enumerate(reversed(layers())) for room in rooms}


def room_of(module: str) -> str:
    """The entry in the list of layers: a folder or file of a package, or a package as a whole."""
    words = module.split(".")
    whole = not any(room.startswith(f"{words[0]}.") for room in heights())
    return words[0] if whole else ".".join(words[:2])


def test_the_list_of_the_documentation_has_all_folders(sources):
    named = named_in_the_list()
    assert ROOT / "plancc" / "pipeline.py" in named[ROOT / "plancc"]
    assert not [str(path) for path in named if not path.is_dir()]
    assert not [str(file) for files in named.values() for file in files if not file.is_file()]
    folders = {source.path.parent for source in sources.values()}
    assert {folder for folder in folders if folder.name != "testing"} <= named.keys()


def test_files_in_the_text_of_the_documentation_exist():
    found = set(re.findall(r"`((?:\w+/)+\w+\.py)`", page()))
    places = (ROOT, ROOT / "runtime", *PACKAGES.values())
    assert "plancc/plan/exchange.py" in found
    assert not [name for name in sorted(found) if not any((p / name).is_file() for p in places)]


def test_every_layer_exists_once(sources):
    rooms = [room for layer in layers() for room in layer]
    assert sorted(rooms) == sorted({room_of(module) for module in sources})


def test_every_module_imports_from_below(sources):
    wrong = {}
    for module, source in sources.items():
        room = room_of(module)
        others = {name for name in source.imports & sources.keys() if room_of(name) != room}
        if upward := {name for name in others if heights()[room_of(name)] >= heights()[room]}:
            wrong[module] = upward
    assert not wrong, "see the layers in docs/reference/architecture.md"


def test_packages_keep_apart(sources):
    wrong = {}
    for module, source in sources.items():
        package = module.split(".")[0]
        forbidden = FORBIDDEN[package] - MAY_AFTER_ALL.get(room_of(module), set())
        found = {name for name in source.imports if name.split(".")[0] in forbidden}
        if package == "plancc_runtime":
            theirs = {name for name in source.imports if name.startswith("plancc.")}
            found |= {name for name in theirs if not name.startswith(RUNTIME_MAY)}
        if found:
            wrong[module] = found
    assert not wrong


def test_other_frameworks_are_reached_through_registries(sources):
    island = "plancc.interop"
    inside = {module for module in sources if room_of(module) == island}
    assert len(inside) > 10
    assert not [m for m in sources.keys() - inside if not inside.isdisjoint(sources[m].imports)]


def test_the_lab_is_named_in_registries_alone(sources):
    core = {m: s.path.read_text() for m, s in sources.items() if not m.startswith("plancc_lab")}
    named = {module: text.count("plancc_lab") for module, text in core.items()}
    assert {m: n for m, n in named.items() if n} == {"plancc_cli.group": 1, "plancc.plan.plan": 1}


def test_imports_form_no_circle(sources):
    arrows = nx.DiGraph(
        [(module, name) for module in sources for name in sources[module].imports & sources.keys()]
    )
    assert ("plancc.pipeline", "plancc.fields") in arrows.edges
    circles = [sorted(c) for c in nx.strongly_connected_components(arrows) if len(c) > 1]
    assert not circles


# -- habits ----------------------------------------------------------------------------------------


def test_every_module_says_what_it_is(sources):
    silent = [m for m, source in sources.items() if not source.documented]
    assert not [module for module in silent if sources[module].path.name != "__init__.py"]


def test_docstrings_begin_as_sentences_and_underline_no_section(sources):
    assert not {m: source.half_sentences for m, source in sources.items() if source.half_sentences}


def test_no_cached_property_waits_for_other_ranks(sources):
    """Python 3.11 holds one lock for all objects of the class, and ranks may be threads."""
    assert not {m: source.locked for m, source in sources.items() if source.locked}


def test_kernels_are_kept_where_plancc_jit_says(sources):
    assert [module for module, source in sources.items() if source.compiles] == ["plancc.jit"]


def test_no_function_takes_many_parameters(sources):
    wrong = {
        (module, name): count
        for module, source in sources.items()
        for name, count in source.parameters.items()
        if count > MOST_PARAMETERS
    }
    assert not wrong, "\n".join(map(str, wrong.items()))


def test_a_class_name_has_one_meaning(sources):
    where: dict[str, set[str]] = {}
    for module, source in sources.items():
        for name in source.classes:
            where.setdefault(name, set()).add(module)
    several = {name for name, modules in where.items() if len(modules) > 1}
    assert several == SEVERAL_MEANINGS, {name: where[name] for name in several}


def test_nobody_asks_for_the_name_of_a_model_or_partitioner(sources):
    """What others need to know of one, it declares. Model auto lists whom it compares."""
    from plancc.models import MODELS
    from plancc.partitioners import PARTITIONERS
    from plancc_runtime.nn import MODELS as CONVOLUTIONS

    registered: dict[str, set[str]] = {}  # the modules that register a name
    for registry in (MODELS, PARTITIONERS, CONVOLUTIONS):
        for name, target in registry._targets.items():
            registered.setdefault(name, set()).add(target.partition(":")[0])
    named = {}  # constants of any module that hold a registered name
    for source in sources.values():
        named |= {k: value for k, value in source.constants.items() if value in registered}

    def names_in(expression: ast.expr) -> set[str]:
        """As strings, or by the name of a constant."""
        nodes = [*ast.walk(expression)]
        found = {node.value for node in nodes if isinstance(node, ast.Constant)} & {*registered}
        found |= {named[n.id] for n in nodes if isinstance(n, ast.Name) and n.id in named}
        speaks = found and SPEAKS_OF_ONE.search(ast.unparse(expression))
        return found if speaks else found - AMBIGUOUS

    assert "hp" in registered
    wrong = [
        f"{module}, line {node.lineno}: {ast.unparse(node)}"
        for module in sources.keys() - {"plancc.models.auto"}
        for node in sources[module].choices
        if any(module not in registered[name] for name in names_in(node))
    ]
    assert not wrong, "\n".join(wrong)


def is_of_a_command(module: str, source: Source) -> bool:
    """Whether a module of the lab speaks to the command line."""
    return module.startswith("plancc_lab") and any(
        name.startswith("plancc_cli") for name in source.imports
    )


def test_the_library_names_parameters_not_flags(sources):
    """Who calls from Python typed no `--flag`; the command line translates."""
    flags = {
        module: source.flags
        for module, source in sources.items()
        if not (module.startswith("plancc_cli") or is_of_a_command(module, source))
    }
    assert not {module: found for module, found in flags.items() if found}
