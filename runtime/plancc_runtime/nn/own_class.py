"""Support for networks that the user wrote as a class: finds the class and the arguments for it.

``FILE:CLASS`` names a class in a Python file. Checking a name imports neither torch nor the file.
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
from traceback import StackSummary, TracebackException, extract_tb
from types import ModuleType
from typing import TYPE_CHECKING, Any

from plancc.errors import InputError, PlanccError
from plancc.files import PARSING, open_file
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
"""Names of constructor arguments for the width of the features, and for the width of the outputs.
"""
INPUTS = {
    "edge_index": "",
    "edge_weight": "weights: compile the plan with normalization none",
    "edge_attr": "features of edges: compile the plan with `edge_features`",
    "edge_type": "relations: compile a graph with types",
}
"""Names of arguments that `forward` may have besides the features.

The values are ends of messages that say how to compile a plan with this data. If `BY_TYPE` is
appended to a name, the argument is a dict with a tensor for each relation; the features are then a
dict with a tensor for each type.
"""
BY_TYPE = "_dict"
BUILT_IN = "layers heads attention_dropout aggregator activation norm residual parametrization "
BUILT_IN += "bias dropout input_dropout"
"""Options that describe networks of built-in models.

`hidden` is missing, since link prediction uses it with classes of the user too."""
NEED_LAYERS = "sampler batch_size fanouts sampler_options relation_fanouts "
NEED_LAYERS += "embeddings fold pipeline aggregate_on kernel passes"
"""Options that need knowledge of the network's layers, or that only built-in layers read."""
WHOLE_DATA = ("data", "batch", "graph")
"""Names of a first argument that is a whole data object, not a tensor."""
PACKAGE = os.path.dirname(os.path.dirname(__file__))
_BY_NAME = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
LOCK = RLock()
"""Lock of the state that ranks share if ranks are threads: imports, and torch's generator."""
_GIVEN: dict[str, type[nn.Module]] = {}
_FILES: dict[tuple[str, bytes], ModuleType] = {}


def check_training(options: TrainOptions) -> None:
    """Raise InputError if options do not suit the user's class, or the class's file is missing."""
    check_name(options.model)
    _refuse_built_in(options, BUILT_IN)
    for name, value in options.chosen(NEED_LAYERS.split()).items():
        if value not in ("full", ()):
            raise InputError(
                f"{options.setting(name)}: is only for built-in models, but `model` "
                f"{options.model} is a class of your own; leave the option out"
            )
    if options.dtype == "bfloat16":
        raise InputError("`dtype` bfloat16: a class of your own needs float32 or float64")
    for name, value in (options.model_options or {}).items():
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            why = "give numbers, strings, or lists of them, which files of weights can hold"
            raise InputError(f"`model_options` {name} {shown(value, 60)}: {why}") from None


def _refuse_built_in(options: TrainOptions, names: str) -> None:
    for name in options.chosen(names.split()):
        raise InputError(
            f"{options.setting(name)}: is only for built-in models; give it to a class of your own "
            f"as `model_options` {name}={getattr(options, name)}"
        )


def check_plan(header: Header, options: TrainOptions, built_in: str) -> None:
    """Raise InputError if the user's class does not exist, or cannot be trained on this plan.

    `built_in` names further options, separated by spaces, that only built-in models support.
    """
    if header.layout != "row":
        raise InputError(
            f"`model` {options.model}: a class of your own needs a plan of layout row, but this "
            f"plan is of layout {header.layout}; compile one with model hp"
        )
    _refuse_built_in(options, built_in)
    class_of(options.model)


def name_of(model: object) -> str:
    """Return the name of a class for `class_of`; raise InputError if `model` is no class."""
    if not isinstance(model, type):
        raise InputError(
            f"`model` of type {type(model).__name__}: give a class or the name of a model, and "
            "the arguments of its constructor in `model_options`"
        )
    place = model.__module__
    if "." not in place:  # the module is in no package, so its file can be imported again
        place = file_of(model) or f"{place}.py"
    name = f"{place}:{model.__qualname__}"
    _GIVEN[name] = model
    return name


def check_name(name: str) -> None:
    """Raise InputError if the file in FILE:CLASS, which is not run, does not define the class."""
    file, colon, wanted = name.rpartition(":")
    if not colon:
        file, wanted = name, ""
    if name in _GIVEN or not _is_file(file):
        return
    there, wanted = dict[str, type](), wanted.partition(".")[0]
    for node in ast.walk(_parsed(file)):  # outer nodes come first
        for attribute in {"name", "asname", "id"} & vars(node).keys():
            there.setdefault(getattr(node, attribute), type(node))
    if there.get(wanted) is ast.FunctionDef:
        raise InputError(f"{file}: '{shown(wanted)}' is a function, not a class")
    if not wanted or (wanted not in there and "*" not in there):
        classes = [each for each, kind in there.items() if kind is ast.ClassDef]
        what = f"has no class '{shown(wanted)}'" if wanted else "give FILE:CLASS, a class in it"
        raise InputError(f"{file}: {what}{_it_has(wanted, classes)}")


def _it_has(wanted: str, names: Sequence[str]) -> str:
    """Return the end of a message: the most similar name, if any, then the list of all names."""
    near = nearest(wanted, names)
    return f"{f' (did you mean {near}?)' if near else ''}; it has {', '.join(names) or 'none'}"


def _is_file(file: str) -> bool:
    """Return whether `file` names a file, not a module."""
    is_module = all(map(str.isidentifier, file.split(".")))
    return file.endswith(".py") or not is_module or os.path.exists(file)


def _parsed(file: str) -> ast.Module:
    """Return the syntax tree of a file; raise InputError if it is unreadable or not Python."""
    with open_file(file) as stream:
        source = stream.read()
    try:
        with PARSING:
            return ast.parse(source)
    except SyntaxError as error:
        where = f"{file}, line {error.lineno}" if error.lineno else file
        raise InputError(f"{where}: is not Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{file}: is not Python: {shown(error)}") from None


def class_of(name: str) -> type[nn.Module]:
    """Return the class that is named `name`; import its file again only if the file has changed."""
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
        raise InputError(f"{file}: '{shown(wanted)}' is not a class derived from torch.nn.Module")
    return found


def _imported(file: str) -> ModuleType:
    """Import a file and return its module. The file may import modules from its own folder."""
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
def users_errors(sentence: str, file: str, mixed: bool = False) -> Iterator[None]:
    """Context manager that turns an error of a user's code into an InputError with the traceback.

    If `mixed`, code of this package runs in the context too, and its errors do not change.
    """
    from plancc_runtime.transport.base import is_lack_of_memory

    try:
        yield
    except Exception as error:
        ours = mixed and extract_tb(error.__traceback__)[-1].filename.startswith(PACKAGE)
        if ours or isinstance(error, PlanccError) or is_lack_of_memory(error):
            raise
        found = InputError(f"{sentence}: {type(error).__name__}: {shown(error)}")
        found.add_note(_trace_from(error, file))
        raise found from error


def _trace_from(error: Exception, file: str) -> str:
    """Return an error's traceback from the first frame in `file` on.

    Frames in this package are left out.
    """
    trace, path = TracebackException.from_exception(error), os.path.abspath(file)
    frames = [each for each in trace.stack if not each.filename.startswith(PACKAGE)]
    files = [os.path.abspath(each.filename) for each in frames]
    trace.stack = StackSummary.from_list(frames[files.index(path) if path in files else 0 :])
    trace.__cause__ = trace.__context__ = None
    return "".join(trace.format()).rstrip()


def file_of(model: type) -> str:
    """Return the file of a class; "" for a class that is defined in a notebook."""
    try:
        return getfile(model)
    except (OSError, TypeError):
        return ""


def is_by_type(model: type[nn.Module]) -> bool:
    """Return whether a class's `forward` expects dicts: features by type, edges by relation."""
    return any(name.endswith(BY_TYPE) for name in signature(model.forward).parameters)


def constructor_options(
    name: str,
    model: type[nn.Module],
    given: Mapping[str, Any],
    widths: Sequence[Any],
    plan_values: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the arguments for a class's constructor: the user's options, and values of the plan.

    Raise InputError if the constructor lacks a given option, or needs a missing option.

    Parameters:
        given: The user's options, by name: values, or strings that are Python literals.
        widths: Width of the features (or a dict by type), and width of the outputs.
    """
    there = signature(model).parameters
    names = [k for k, each in there.items() if each.kind in _BY_NAME]
    options = {k: _value(each) for k, each in given.items()}
    for aliases, width in zip(WIDTHS, widths, strict=True):
        plan_values = {**dict.fromkeys(aliases, width), **plan_values}
    options = {k: value for k, value in plan_values.items() if k in names} | options
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
            f"`model` {name}: its constructor needs {', '.join(missing)}; give {flags}"
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
    """Return the value of a string that is a Python literal; return other values unchanged."""
    try:
        return ast.literal_eval(given) if isinstance(given, str) else given
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return given


def forward_arguments(name: str, model: type[nn.Module], there: Collection[str]) -> list[str]:
    """Return the names of the arguments to pass to `forward` after the features."""
    _, *parameters = signature(model.forward).parameters.items()  # drops self
    if not parameters or parameters[0][1].kind not in (*_BY_NAME, Parameter.POSITIONAL_ONLY):
        raise InputError(
            f"`model` {name}: its forward has no argument for features; write "
            "forward(self, x, edge_index)"
        )
    first, *others = (k for k, each in parameters)
    if first in WHOLE_DATA:
        raise InputError(
            f"`model` {name}: its forward expects an object '{first}', not tensors: write "
            "forward(self, x, edge_index)"
        )
    missing = [k for k in _required(dict(parameters[1:])) if k not in there]
    if missing:
        ways = INPUTS | {k + BY_TYPE: way or INPUTS["edge_type"] for k, way in INPUTS.items()}
        has = [f"{k} ({ways[k]})" if ways.get(k) else k for k in missing]
        raise InputError(
            f"`model` {name}: its forward needs {', '.join(has)}, which the plan lacks; give the "
            "arguments defaults, or write your own training loop"
        )
    return [k for k in others if k in there]
