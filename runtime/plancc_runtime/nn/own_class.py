"""A class of the user's as the network: found by ``FILE:CLASS``, and what it is given.

A name with a colon stands for the class CLASS of the Python file FILE. Names are checked without
importing torch or the file.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import Parameter, getfile, signature
from threading import RLock
from traceback import StackSummary, TracebackException
from types import ModuleType
from typing import TYPE_CHECKING, Any

from plancc.errors import InputError, PlanccError
from plancc.files import open_file
from plancc.registry import nearest
from plancc.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import nn

    from plancc.plan.values import Header
    from plancc_runtime.options import TrainOptions

WIDTHS = (
    ("in_channels", "in_features", "num_features", "d_in"),
    ("out_channels", "out_features", "num_classes", "d_out"),
)
"""Names under which constructors take the widths of features and of outputs."""
OF_GRAPH = {
    "edge_index": "",
    "edge_weight": "weights: compile the plan with normalization none",
    "edge_attr": "features of edges: compile the plan with `edge_features`",
    "edge_type": "relations: compile a graph with types",
}
"""What `forward` may take beside the features, by name, and how a plan comes to it.

With the end `BY_TYPE` it has a tensor for each relation, and the features are by type.
"""
BY_TYPE = "_dict"
OF_BUILT_IN = "layers heads attention_dropout aggregator activation norm residual parametrization "
OF_BUILT_IN += "bias dropout input_dropout"
"""Options that describe networks of built-in models; `hidden` too, which links have as well."""
OF_LAYERS = "sampler batch_size fanouts sampler_options relation_fanouts "
OF_LAYERS += "embeddings fold pipeline aggregate_on kernel passes"
"""Options that need to know the layers of a network, or that its own layers alone heed."""
WHOLE_DATA = ("data", "batch", "graph")
"""Names of an only argument that is no tensor."""
PACKAGE = os.path.dirname(os.path.dirname(__file__))
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
LOCK = RLock()
"""Guards what ranks that are threads share: imports, and torch's generator."""
_GIVEN: dict[str, type[nn.Module]] = {}
_FILES: dict[tuple[str, bytes], ModuleType] = {}


def check_training(options: TrainOptions) -> None:
    """InputError for options of training that a user's class lacks, or no such file."""
    check_name(options.model)
    _refuse_built_in(options, OF_BUILT_IN)
    for name, value in options.chosen(OF_LAYERS.split()).items():
        if value not in ("full", ()):
            raise InputError(
                f"{options.setting(name)}: goes with built-in models, and `model` {options.model} "
                "is a class of your own; leave it out"
            )
    if options.dtype == "bfloat16":
        raise InputError("`dtype` bfloat16: a class of your own takes float32 or float64")
    for name, value in (options.model_options or {}).items():
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            why = "give numbers, texts, or lists of them, which files of weights can hold"
            raise InputError(f"`model_options` {name} {shown(value, 60)}: {why}") from None


def _refuse_built_in(options: TrainOptions, names: str) -> None:
    for name in options.chosen(names.split()):
        raise InputError(
            f"{options.setting(name)}: is for built-in models; give it to a class of your own by "
            f"`model_options` {name}={getattr(options, name)}"
        )


def check_plan(header: Header, options: TrainOptions, built_in: str) -> None:
    """InputError for a plan that a class of the user's does not train on, or if there is none.

    Parameters:
        built_in: More options that, on this plan, describe networks of built-in models.
    """
    if header.layout != "row":
        raise InputError(
            f"`model` {options.model}: a class of your own needs a plan of layout row, as the "
            f"compiler's model hp makes it, and this one is of layout {header.layout}"
        )
    _refuse_built_in(options, built_in)
    class_of(options.model)


def name_of(model: object) -> str:
    """The name of a class, by which `class_of` finds it in this process, and most often in others.

    Raises:
        InputError: If it is no class.
    """
    if not isinstance(model, type):
        raise InputError(
            f"`model` of type {type(model).__name__}: give a class or the name of a model, and "
            "what its constructor takes by `model_options`"
        )
    place = model.__module__
    if "." not in place:  # no package's: importing the file again will do
        place = file_of(model) or f"{place}.py"
    name = f"{place}:{model.__qualname__}"
    _GIVEN[name] = model
    return name


def check_name(name: str) -> None:
    """InputError unless a name stands for a class in a file, as far as the file's text tells."""
    file, colon, wanted = name.rpartition(":")
    if not colon:
        file, wanted = name, ""
    if name in _GIVEN or not _is_file(file):
        return
    there, wanted = dict[str, type](), wanted.partition(".")[0]
    for node in ast.walk(_parsed(file)):  # from the outside in
        for attribute in {"name", "asname", "id"} & vars(node).keys():
            there.setdefault(getattr(node, attribute), type(node))
    if there.get(wanted) is ast.FunctionDef:
        raise InputError(f"{file}: '{shown(wanted)}' is a function, and no class")
    if not wanted or (wanted not in there and "*" not in there):
        classes = [each for each, kind in there.items() if kind is ast.ClassDef]
        what = f"has no class '{shown(wanted)}'" if wanted else "give FILE:CLASS, a class of it"
        raise InputError(f"{file}: {what}{_it_has(wanted, classes)}")


def _it_has(wanted: str, names: Sequence[str]) -> str:
    """The name that may have been meant, and all names, as the end of a message."""
    near = nearest(wanted, names)
    return f"{f' (did you mean {near}?)' if near else ''}; it has {', '.join(names) or 'none'}"


def _is_file(file: str) -> bool:
    """Whether this is the name of a file, and not of a module."""
    is_module = all(map(str.isidentifier, file.split(".")))
    return file.endswith(".py") or not is_module or os.path.exists(file)


def _parsed(file: str) -> ast.Module:
    """The file's syntax tree; InputError if it cannot be read or is no Python."""
    with open_file(file) as stream:
        source = stream.read()
    try:
        return ast.parse(source)
    except SyntaxError as error:
        where = f"{file}, line {error.lineno}" if error.lineno else file
        raise InputError(f"{where}: no Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{file}: no Python: {shown(error)}") from None


def class_of(name: str) -> type[nn.Module]:
    """The class that a name stands for; its file is imported once, as it is now.

    Raises:
        InputError: As `check_name`, or if the import fails, or it is no `torch.nn.Module`.
    """
    from torch import nn

    with LOCK:
        if name in _GIVEN:
            return _GIVEN[name]
        check_name(name)
        file, _, wanted = name.rpartition(":")
        with users_errors(f"{file}: cannot be imported", file):
            found: Any = _imported(file) if _is_file(file) else import_module(file)
        for each in wanted.split("."):
            found = getattr(found, each, None)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        raise InputError(f"{file}: '{shown(wanted)}' is no class derived from torch.nn.Module")
    return found


def _imported(file: str) -> ModuleType:
    """The module of a file; modules beside it can be imported, as by a script."""
    path = os.path.abspath(file)
    with open(path, "rb") as stream:
        key = path, stream.read()
    if key not in _FILES:
        folder, base = os.path.split(path)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        spec = spec_from_file_location(f"plancc_model_{base.partition('.')[0]}_{len(_FILES)}", path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{base} does not end in .py")
        module = sys.modules[spec.name] = module_from_spec(spec)
        spec.loader.exec_module(module)
        _FILES[key] = module
    return _FILES[key]


@contextmanager
def users_errors(sentence: str, file: str) -> Iterator[None]:
    """A block of a user's code: InputError for its errors, with its own traceback as a note."""
    from plancc_runtime.transport.base import is_lack_of_memory

    try:
        yield
    except Exception as error:
        if isinstance(error, PlanccError) or is_lack_of_memory(error):
            raise
        found = InputError(f"{sentence}: {type(error).__name__}: {shown(error)}")
        found.add_note(_trace_from(error, file))
        raise found from error


def _trace_from(error: Exception, file: str) -> str:
    """The traceback from the first line in a file on, without the lines of this package."""
    trace, path = TracebackException.from_exception(error), os.path.abspath(file)
    frames = [each for each in trace.stack if not each.filename.startswith(PACKAGE)]
    files = [os.path.abspath(each.filename) for each in frames]
    trace.stack = StackSummary.from_list(frames[files.index(path) if path in files else 0 :])
    trace.__cause__ = trace.__context__ = None
    return "".join(trace.format()).rstrip()


def file_of(model: type) -> str:
    """The file of a class; "" for one of a notebook."""
    try:
        return getfile(model)
    except (OSError, TypeError):
        return ""


def is_by_type(model: type[nn.Module]) -> bool:
    """Whether `forward` takes features and edges of a plan with types in dicts."""
    return any(name.endswith(BY_TYPE) for name in signature(model.forward).parameters)


def constructor_options(
    name: str,
    model: type[nn.Module],
    given: Mapping[str, Any],
    widths: Sequence[Any],
    of_graph: Mapping[str, Any],
) -> dict[str, Any]:
    """What a class is made with: options that are given, and what it takes of the plan.

    Parameters:
        given: Values, or their texts: Python literals, else text.
        widths: Of the features, or these by type, and of the outputs.
        of_graph: What else the plan gives, by name.

    Raises:
        InputError: For an option that the class lacks, or for missing required ones.
    """
    there = signature(model).parameters
    names = [k for k, each in there.items() if each.kind in _BY_NAME]
    options = {k: _value(each) for k, each in given.items()}
    for of_width, width in zip(WIDTHS, widths, strict=True):
        of_graph = {**dict.fromkeys(of_width, width), **of_graph}
    options = {k: value for k, value in of_graph.items() if k in names} | options
    takes_any = any(each.kind is Parameter.VAR_KEYWORD for each in there.values())
    for unknown in [k for k in options if k not in names and not takes_any]:
        raise InputError(
            f"`model_options` {unknown}={given[unknown]}: {name} has no such option"
            f"{_it_has(unknown, names)}"
        )
    missing = [k for k, each in _required(there).items() if k not in options]
    if missing:
        flags = ", ".join(f"`model_options` {k}=..." for k in missing)
        raise InputError(
            f"`model` {name}: its constructor needs {', '.join(missing)}: give {flags}"
        )
    return options


def _required(parameters: Mapping[str, Parameter]) -> dict[str, Parameter]:
    stars = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
    return {
        k: each
        for k, each in parameters.items()
        if each.default is Parameter.empty and each.kind not in stars
    }


def _value(given: Any) -> Any:
    """A Python literal, or text."""
    try:
        return ast.literal_eval(given) if isinstance(given, str) else given
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return given


def forward_arguments(name: str, model: type[nn.Module], there: Collection[str]) -> list[str]:
    """The names of what `forward` is given beside the features, which are its first argument.

    Parameters:
        there: Names in `OF_GRAPH` that the plan has.

    Raises:
        InputError: If it needs others, or whole data in place of tensors.
    """
    _, *parameters = signature(model.forward).parameters.items()  # without self
    if not parameters or parameters[0][1].kind not in (*_BY_NAME, Parameter.POSITIONAL_ONLY):
        raise InputError(
            f"`model` {name}: its forward takes no features: write forward(self, x, edge_index)"
        )
    first, *others = (k for k, each in parameters)
    if first in WHOLE_DATA:
        raise InputError(
            f"`model` {name}: its forward takes '{first}' whole, and plans give tensors: write "
            "forward(self, x, edge_index)"
        )
    missing = [k for k in _required(dict(parameters[1:])) if k not in there]
    if missing:
        ways = OF_GRAPH | {k + BY_TYPE: way or OF_GRAPH["edge_type"] for k, way in OF_GRAPH.items()}
        has = [f"{k} ({ways[k]})" if ways.get(k) else k for k in missing]
        raise InputError(
            f"`model` {name}: its forward needs {', '.join(has)}, which the plan lacks; give the "
            "arguments defaults, or train in the library"
        )
    return [k for k in others if k in there]
