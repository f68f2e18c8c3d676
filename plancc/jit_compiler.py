"""A compiler for kernels, which makes numba compile each function only once per entry point.

numba makes every function an entry point, with wrappers for Python and C, for every combination of
argument types. But most functions are called only by kernels, which hold copies of them. So:

- A function that Python calls is compiled without the wrapper for C.
- A function that only kernels call is *inner*, as are numba's implementations of NumPy. It is
  lowered to LLVM's language once for integers of any width, and optimised only with its callers.
- Inner functions that make no arrays do not count references, because their callers hold the
  arrays.
- Types of calls are cached, because type inference asks for the same types in every round.

Results are the same, bit by bit.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

from llvmlite.binding import parse_assembly
from numba.core import compiler, ir, sigutils, typing
from numba.core import types as numba_types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, register_pass
from numba.core.registry import CPUDispatcher
from numba.core.target_extension import jit_registry, target_registry
from numba.core.typed_passes import NopythonTypeInference

types: Any = numba_types  # its type annotations lack some names

# -- functions -------------------------------------------------------------------------------------


class Kernel(CPUDispatcher):
    """A compiled function, for calls from Python and from other kernels."""

    def __init__(
        self, py_func: Any, locals: Any = None, targetoptions: Any = None, **_: Any
    ) -> None:
        super().__init__(py_func, locals, targetoptions, _Compiler)
        self._compiler._customize_flags = _entry_flags
        self._inner: dict[Any, Any] = {}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel, and raise the exception of a signal's handler, such as KeyboardInterrupt.

        If a signal comes while numba converts results, the interpreter would otherwise raise
        SystemError.
        """
        try:
            return super().__call__(*args, **kwargs)
        except SystemError as error:
            raise _first_cause(error) from None

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return the template by which numba types a call in another kernel; compile the callee."""
        pysig, args = self._compiler.fold_argument_types(args, kws)
        args = tuple(map(self._passed, args))
        with global_compiler_lock:
            if args not in self._inner:
                self._compile_inner(args)
        name = self.py_func.__name__
        signatures = [made.signature for made in self._inner.values()]
        template = typing.make_concrete_template(f"call of {name}", name, signatures)
        return template, pysig, args, {}

    def get_overload(self, sig: Any) -> Any:
        """Return the key of the inner function with signature `sig`, for numba's call of it."""
        args, _ = sigutils.normalize_signature(sig)
        return self._inner[tuple(args)].entry_point

    def _passed(self, kind: Any) -> Any:
        """Return the type in which an argument is passed: int64 for all signed integers."""
        kind = types.unliteral(kind)
        is_signed = isinstance(kind, types.Integer) and kind.signed
        return types.int64 if is_signed else kind

    def _compile_inner(self, args: Any) -> None:
        made = self._typed_and_lowered(args, _BorrowingCompiler)._replace(entry_point=_Key())
        self.targetctx.insert_user_function(made.entry_point, made.fndesc, [made.library])
        self._inner[args] = made

    def _typed_and_lowered(self, args: Any, pipeline: Any) -> Any:
        flags = compiler.Flags()
        self.targetdescr.options.parse_as_flags(flags, self.targetoptions)
        return compiler.compile_extra(
            self.typingctx,
            self.targetctx,
            self.py_func,
            args,
            None,
            _inner_flags(flags),
            self.locals,
            pipeline_class=pipeline,
        )


def _first_cause(error: BaseException) -> BaseException:
    while isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    return error


class _Overload(Kernel):
    """numba's implementation of a function of NumPy or Python.

    It is compiled for exactly the types that are given.
    """

    def _passed(self, kind: Any) -> Any:
        return kind

    def _typed_and_lowered(self, args: Any, pipeline: Any) -> Any:
        return super()._typed_and_lowered(args, _Compiler)  # may make arrays that its types hide


class _Key:
    """A key that stands for one inner function; equal only to itself."""


@contextlib.contextmanager
def _lean_overloads() -> Iterator[None]:
    """Context manager: numba's own implementations of NumPy functions are compiled as *inner*.

    Only kernels call inner functions (see the module). Code outside the ``with`` block does not
    find implementations made inside, because numba looks up implementations by the flags of the
    caller.
    """
    cpu = target_registry["cpu"]
    usual = jit_registry.pop(cpu)  # a registry accepts no key twice

    def lean(**options: Any) -> Any:
        def decorate(function: Any) -> Any:
            dispatcher = usual(**options)(function)
            return _Overload(function, dispatcher.locals, dispatcher.targetoptions)

        return decorate

    jit_registry[cpu] = lean
    try:
        yield
    finally:
        del jit_registry[cpu]
        jit_registry[cpu] = usual


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Switch off garbage collection in a ``with`` block.

    A compilation makes millions of objects that stay alive, so a collection would find nothing.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


# -- flags -----------------------------------------------------------------------------------------


class _Flags(compiler.Flags):
    """Immutable flags with a cached hash; numba uses flags as dictionary keys."""

    __slots__ = ("_key",)

    def __init__(self, copy_from: Any = None) -> None:
        super().__init__(copy_from)
        self._key = repr(sorted(self.values().items()))

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Flags) and self._key == other._key


def _entry_flags(flags: Any) -> _Flags:
    """Set and return the flags of functions that Python calls."""
    flags.no_cfunc_wrapper = True
    return _Flags(flags)


def _inner_flags(flags: Any) -> _Flags:
    """Set numba's flags as for functions that only kernels call, and return them."""
    flags.no_compile = flags.no_cpython_wrapper = flags.no_cfunc_wrapper = True
    return _Flags(flags)


# -- from Python to LLVM's language ----------------------------------------------------------------


class _Compiler(compiler.CompilerBase):
    """numba's compiler for functions that do not call Python, with the changes of this module."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.state.typingctx = _Memory(self.state.typingctx)

    def define_pipelines(self) -> list[Any]:
        state = self.state
        passes = compiler.DefaultPassBuilder.define_nopython_pipeline(state)
        library = _InnerLibrary if state.flags.no_compile else _Library
        state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return [passes]

    def _compile_core(self) -> Any:
        with _no_garbage_collection(), _lean_overloads():
            return super()._compile_core()


class _BorrowingCompiler(_Compiler):
    """A compiler of functions that runs one more step, `_Borrowing`, after type inference."""

    def define_pipelines(self) -> list[Any]:
        (passes,) = super().define_pipelines()
        passes.add_pass_after(_Borrowing, NopythonTypeInference)
        passes.finalize()
        return [passes]


class _Memory:
    """A typing context of numba that remembers the types of calls of built-in functions."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._known: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def resolve_function_type(self, func: Any, args: Any, kws: Any) -> Any:
        """Return the signature of a call; remember it if `func` is a built-in function."""
        if not isinstance(func, types.Function):
            return self._context.resolve_function_type(func, args, kws)
        key = func, tuple(args), tuple(dict(kws).items())
        if key not in self._known:
            self._known[key] = self._context.resolve_function_type(func, args, kws)
        return self._known[key]


@register_pass(mutates_CFG=False, analysis_only=False)
class _Borrowing(FunctionPass):
    """A compiler pass that stops reference counting in functions that make no arrays."""

    _name = "plancc_borrowing"

    def __init__(self) -> None:
        FunctionPass.__init__(self)

    def run_pass(self, state: Any) -> bool:
        """Turn reference counting off if no operation needs it. Return False: no code changed."""
        models = state.targetctx.data_model_manager

        def may_make(at: Any, call: Any) -> bool:
            if call is None:
                return False
            if isinstance(at, ir.SetItem | ir.StaticSetItem):
                return isinstance(call.args[-1], types.Array)  # the array may be copied first
            if getattr(at, "op", None) in ("getitem", "static_getitem") and _is_basic(call.args[1]):
                return False  # the result is a number or a view
            return bool(models[call.return_type].contains_nrt_meminfo())

        makes = models[state.return_type].contains_nrt_meminfo()
        if not (makes or any(may_make(at, call) for at, call in state.calltypes.items())):
            state.targetctx = state.targetctx.subtarget(enable_nrt=False)
        return False


def _is_basic(index: Any) -> bool:
    """Return whether an index is one of NumPy's basic indices, whose result is a view."""
    places = index if isinstance(index, types.BaseTuple) else [index]
    return all(isinstance(place, types.Integer | types.SliceType) for place in places)


# -- from there to machine code --------------------------------------------------------------------


class _Library(JITCodeLibrary):
    """The code of a function that Python calls, together with the code of all inner functions."""

    def finalize(self) -> None:
        """Link all inner functions, optimise the whole, and translate it to machine code."""
        self._raise_if_finalized()
        self._link_into(self._final_module)
        self._optimize_final_module()
        self._final_module.verify()
        self._finalize_final_module()

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """Return the data for the cache: the machine code, and the names of its functions.

        numba expects the LLVM code of the functions too, but other kernels link an `_InnerLibrary`
        and do not read this code; so it is the code of empty functions.
        """
        names = [each.name for each in self._final_module.functions if not each.is_declaration]
        stubs = "\n".join(f'define void @"{name}"() {{ unreachable }}' for name in names)
        return (
            self.name,
            "object",
            (self._get_compiled_object(), parse_assembly(stubs).as_bitcode()),
        )

    def _optimize_functions(self, ll_module: Any) -> None:
        """Do nothing: the module is optimised later, when it is complete."""
        ll_module.data_layout = self._codegen._data_layout

    def _link_into(self, module: Any) -> None:
        """Add to `module` the code of all functions that this library calls, also indirectly."""
        todo, seen = self._linking_libraries[::-1], set()
        while todo:
            library = todo.pop()
            if library in seen:
                continue
            seen.add(library)
            self._reload_init.update(library._reload_init)
            if isinstance(library, _InnerLibrary):
                todo += library._linking_libraries[::-1]
                module.link_in(library.alone(), preserve=True)
            else:
                module.link_in(library._get_module_for_linking(), preserve=True)


class _InnerLibrary(_Library):
    """The code of one inner function: a function that other compiled functions call."""

    def finalize(self) -> None:
        """Finish without optimising or compiling the code."""
        self._raise_if_finalized()
        self._finalize_dynamic_globals()
        self._finalized = True

    def alone(self) -> Any:
        """Return the LLVM module of this function, without the functions that it calls."""
        return super()._get_module_for_linking()

    def _get_module_for_linking(self) -> Any:
        """Return a module that holds this function and all functions that it calls.

        Libraries of numba's own class link this module.
        """
        whole = self.alone().clone()
        self._link_into(whole)
        return whole
