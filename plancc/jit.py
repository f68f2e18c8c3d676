"""The cache of compiled kernels, and the choice of the process that compiles a kernel.

Kernels are kept in the first of these folders that can be written. They are looked up in all
folders, because a container image may have kernels in a read-only environment:

1. ``NUMBA_CACHE_DIR``, if it is set; folders 2 and 3 are then ignored;
2. ``var/cache/plancc`` of the environment (`sys.prefix`);
3. ``plancc`` in the user's cache folder (``XDG_CACHE_HOME``, else ``~/.cache``);
4. a folder of this user among the temporary files; a warning says when it is made.

A kept kernel is used only if its sources, constants, named tuples, processor, versions of Python
and numba, and `SETTINGS` are unchanged. numba's own cache compares fewer things (numba#10821), and
unpickles a file before it compares.

A kernel is code, so other users must not be able to plant one. A file must belong to this user, to
root or to the owner of the environment. Neither file nor folder may be writable for everybody.

Without a kernel for exactly this processor, a kernel for the processor's level (such as x86-64-v3)
is used, with the same bits. `plancc warm-up --portable` compiles such kernels, and wheels have them
in the folder `SHIPPED`.

If several processes miss the same kernel, only one compiles it, and holds a lock on a file beside
the kernel. The others wait, at most `PATIENCE`; the wait counts as compilation (`plancc.clock`). A
process holds at most one lock, so that processes cannot wait for each other in a circle.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import glob
import os
import pickle
import shutil
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from plancc.clock import BEGIN, compilation
from plancc.errors import InputError, PlanccWarning
from plancc.files import remove_leftovers, temporary_name
from plancc.processes import temporary, unfinished
from plancc.text import shown

try:
    import numba
    from numba.core import errors, event, sigutils
    from numba.core.ccallback import CFunc
    from numba.core.compiler import CompileResult
    from numba.core.registry import cpu_target
    from numba.core.runtime import rtsys
    from numba.core.serialize import dumps
except ValueError as error:
    raise InputError(
        f"the environment variable NUMBA_NUM_THREADS is "
        f"'{shown(os.environ.get('NUMBA_NUM_THREADS', ''))}'; give 1 or more, or unset it"
    ) from error

# numba marks parts of its messages by colorama, which then writes an escape sequence to stdout when
# the process ends, even behind JSON in a file. Linux needs no colorama for this. mypy does not know
# the class, which numba defines only if colorama is installed.
errors.ColorShell = contextlib.nullcontext  # type: ignore[attr-defined]
TESTED = ("0.68.",)
"""Beginnings of the versions of numba whose internals `plancc.jit_compiler` knows. With other
versions, numba's own compiler is used, which takes longer: `plancc warm-up --first` then takes 190
CPU seconds instead of 99."""
COMPILER = Path(__file__).with_name("jit_compiler.py")
SETTINGS = {
    "OPT": 3,
    "SLP_VECTORIZE": 0,
    "LOOP_VECTORIZE": 1,
    "DEBUGINFO_DEFAULT": 0,
    "BOUNDSCHECK": None,
}
"""Settings of numba that its own cache does not compare (numba#10821), with their defaults."""
PATIENCE = 300.0
"""Largest number of seconds to wait for another process that compiles the same kernel."""
INTERVAL = 0.02
"""Number of seconds between two attempts to take the lock of a kernel."""


def dispatcher(function: Any, options: dict[str, Any]) -> Any:
    """Return a dispatcher as `numba.njit` does; ``cache=True`` means this module's cache.

    If the version of numba is not in `TESTED`, the dispatcher is numba's own.
    """
    if numba.config.DISABLE_JIT:
        return function
    options = dict(options)
    cached = options.pop("cache", False)
    if numba.__version__.startswith(TESTED):
        from plancc.jit_compiler import Kernel

        made = Kernel(function, targetoptions={"nopython": True, "boundscheck": None, **options})
    else:
        made = numba.njit(**options)(function)
    if cached:
        with contextlib.suppress(OSError):  # the source of the kernel is no file
            made._cache = KernelCache(function, is_portable="fastmath" not in options)
    return made


def cfunc(signature: str) -> Any:
    """Return a decorator like `numba.cfunc`, with this module's cache; it compiles at once."""

    def decorate(function: Any) -> Any:
        made: Any = CFunc(function, sigutils.normalize_signature(signature), locals={}, options={})
        with contextlib.suppress(OSError):  # the source of the kernel is no file
            made._cache = KernelCache(function)
        made.compile()
        return made

    return decorate


# -- folders ---------------------------------------------------------------------------------------


def candidates() -> list[Path]:
    """Return the permanent folders for kernels, the best first; a folder may be missing."""
    if numba.config.CACHE_DIR:
        return [Path(numba.config.CACHE_DIR)]
    found = [Path(sys.prefix, "var", "cache", "plancc")]
    with contextlib.suppress(RuntimeError):  # the user has no home
        user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        found.append(Path(user, "plancc"))
    return found


@cache
def folder() -> Path:
    """Return the first writable folder of `candidates` for kernels, else a temporary folder."""
    lasting = candidates()
    for place in lasting:
        if is_writable(place):
            return place
    place, is_new = _temporary()
    if is_new:
        tried = " and ".join(map(str, lasting))
        warnings.warn(
            f"compiled kernels are kept in {place} until the system removes this folder, because "
            f"{tried} cannot be written, or can be written by all users; set NUMBA_CACHE_DIR to "
            f"{'another' if numba.config.CACHE_DIR else 'a'} folder",
            PlanccWarning,
            stacklevel=2,
        )
    return place


def is_writable(place: Path) -> bool:
    """Return whether this process can write to a folder, but not every user can.

    A missing folder is made.
    """
    try:
        for each in reversed([place, *place.parents]):
            if not each.exists():
                each.mkdir(0o755, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return not _is_everybodys(place)
    except OSError:
        return False


@cache
def _is_everybodys(place: Path) -> bool:
    """Return whether every user can write to a folder."""
    return bool(place.stat().st_mode & stat.S_IWOTH)


def _temporary() -> tuple[Path, bool]:
    """Return a temporary folder to which nobody else can write, and whether it is new.

    The code in the folder is executed. So a folder of an earlier process is used only if it is this
    user's, and closed to others.
    """
    user = os.getuid()
    place = Path(tempfile.gettempdir(), f"plancc-kernels-{user}")
    with contextlib.suppress(OSError):
        try:
            place.mkdir(mode=0o700)
            return place, True
        except FileExistsError:
            found = place.lstat()
            own = stat.S_ISDIR(found.st_mode) and found.st_uid == user
            if own and not found.st_mode & 0o077 and is_writable(place):
                return place, False
    place = Path(tempfile.mkdtemp(prefix="plancc-kernels-"))
    temporary.add(str(place))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place, True


# -- kept kernels ----------------------------------------------------------------------------------

SHIPPED = Path(__file__).with_name("portable")
"""The folder of kernels in a wheel."""
LEVELS: dict[str, tuple[str, set[str]]] = {
    "x86-64-v3": ("x86_64", {"+avx2", "+bmi", "+bmi2", "+f16c", "+fma", "+lzcnt", "+movbe"}),
    "x86-64-v2": ("x86_64", {"+cx16", "+popcnt", "+sahf", "+sse3", "+sse4.1", "+sse4.2", "+ssse3"}),
    "generic": ("aarch64", set()),
}
"""Levels of an architecture, the best first (https://gitlab.com/x86-psABIs/x86-64-ABI).

For every level: how the LLVM triple of its processors begins, and the features, under LLVM's names,
that its processors must have."""
PORTABLE = "PLANCC_PORTABLE"
"""Environment variable. If it is 0, kernels for a level of the architecture are not used."""
VERSIONS = 4
"""Number of compiled files that are kept for a kernel, one for each version of its sources."""
_DIGEST = sha256().digest_size


Processor = tuple[str, str, str]
"""A processor in numba's form: LLVM's triple, name and features."""


def processor() -> Processor:
    """Return this process's processor.

    If ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` are set, return the processor that they name.
    """
    said: Processor = cpu_target.target_context.codegen().magic_tuple()
    return said


def levels(processor: Processor) -> list[str]:
    """Return the levels of instructions (such as "x86-64-v3") that a processor has, best first."""
    triple, _, features = processor
    return [
        name
        for name, (architecture, needs) in LEVELS.items()
        if triple.startswith(architecture) and needs <= set(features.split(","))
    ]


def _trusted(path: Path) -> bytes:
    """Return the content of a file; raise PermissionError if another user may have written it."""
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        owners = {0, os.geteuid(), os.stat(sys.prefix).st_uid}
        others_can = found.st_mode & stat.S_IWOTH or _is_everybodys(path.parent)
        if others_can or found.st_uid not in owners:
            raise PermissionError(path)
        return file.read()


class KernelCache:
    """Compiled versions of one kernel, in all folders for kernels; each version is one file.

    A file begins with a SHA-256 digest of the rest of the file and of all that the kernel depends
    on.

    Parameters:
        is_portable: Whether kernels for all processors of a level in `LEVELS` are allowed. False if
            the compiler may reorder sums, because results then depend on the width of vectors.
    """

    def __init__(self, function: Any, is_portable: bool = True) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}"
        self._stamp, self._is_portable = _stamp(function), is_portable

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a compiled version from the cache; None if this process must compile the kernel.

        After None, this process usually holds the kernel's lock. numba's own cache would first load
        the compiler's data on NumPy (0.2 s), without need.
        """
        rtsys.initialize(target_context)
        found = self._find(sig, target_context)
        if found is None and _lock.take(self):
            found = self._find(sig, target_context)  # the last holder of the lock may have saved it
            if found is not None:
                _lock.release(self)
        return found and CompileResult._rebuild(target_context, *found)

    def _find(self, sig: Any, target_context: Any) -> Any:
        """Return the saved kernel for this processor, else for its highest level of instructions.

        Return None if neither is saved. Lower levels would round differently: below x86-64-v3 there
        is no fused multiply-add.
        """
        own = target_context.codegen().magic_tuple()
        takes_level = self._is_portable and os.environ.get(PORTABLE) != "0"
        best = [(own[0], name, "") for name in levels(own)[: int(takes_level)]]
        for processor in [own, *best]:
            name, key = self._named(sig, processor)
            for place in dict.fromkeys([folder(), *candidates(), SHIPPED]):
                with contextlib.suppress(OSError):
                    content = _trusted(Path(place, name))
                    if content[:_DIGEST] == sha256(key + content[_DIGEST:]).digest():
                        return pickle.loads(content[_DIGEST:])
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save a compiled version; if the disk is full, the next process compiles again."""
        try:
            if not (data.lifted or data.library.has_dynamic_globals):
                with contextlib.suppress(OSError):
                    self._save(*self._named(sig, data.codegen.magic_tuple()), data)
        finally:
            _lock.release(self)

    def _save(self, name: str, key: bytes, data: Any) -> None:
        payload = dumps(_CompiledVersion(*data)._replace(type_annotation="")._reduce())
        place = Path(folder(), name)
        remove_leftovers(place)
        partial = temporary_name(str(place))
        with unfinished(partial):
            try:
                handle = os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
                with open(handle, "wb") as file:
                    file.write(sha256(key + payload).digest() + payload)
                os.replace(partial, place)
            finally:
                Path(partial).unlink(missing_ok=True)
        versions = place.parent.glob(glob.escape(name.rpartition("-")[0]) + "-*")
        for old in sorted(versions, key=lambda each: -each.stat().st_mtime)[VERSIONS:]:
            old.unlink(missing_ok=True)

    def _named(self, sig: Any, processor: Processor) -> tuple[str, bytes]:
        """Return a compiled version's file name, and all that the version depends on, as bytes."""
        settings = {name: getattr(numba.config, name) for name in SETTINGS}
        python = sys.implementation.cache_tag + sys.abiflags
        told = [self.name, python, numba.__version__, settings, processor, _described(sig)]
        key = repr(told).encode()
        name = f"{self.name}-{sha256(key).hexdigest()[:16]}-{self._stamp[:16]}.kernel"
        return name, key + self._stamp.encode()


class _CompiledVersion(CompileResult):
    """A compiled version of a kernel, which refers to few of the functions that it calls.

    When numba loads the version, it imports the module of every function to which it refers. Only
    functions that use Python constants need this import.
    """

    def _find_referenced_environments(self) -> list[Any]:
        return [each for each in super()._find_referenced_environments() if each.consts]


def _described(kind: Any) -> str:
    """Return a signature or a type as a string, including the fields of named tuples."""
    if isinstance(kind, tuple):
        return ", ".join(map(_described, kind))
    if isinstance(kind, numba.types.BaseTuple):
        of = getattr(kind, "instance_class", tuple)
        fields = getattr(of, "_fields", "")
        return f"{of.__module__}.{of.__qualname__}{fields}({_described(tuple(kind.types))})"
    return str(kind)


def _stamp(function: Any) -> str:
    """Return a hash of all that a kernel is compiled from, and of plancc's compiler."""
    parts = {_content(str(COMPILER)), *_compiled_in(function, set())}
    return sha256("\n".join(sorted(parts)).encode()).hexdigest()


def _compiled_in(function: Any, seen: set[Any]) -> Iterator[str]:
    """Yield strings that change if the compiled code of a function may change.

    They are hashes of the source files of the function and its callees, the constants and external
    functions that these use, and the fields of the named tuples in their modules.
    """
    seen.add(function)
    yield _content(function.__code__.co_filename)
    for name in _names(function.__code__):
        value = function.__globals__.get(name)
        called = getattr(value, "__wrapped__", value)  # the function of a kernel or an intrinsic
        if isinstance(called, FunctionType):
            if called not in seen and not called.__module__.startswith("numba."):
                yield from _compiled_in(called, seen)
        elif _is_constant(value) or (
            isinstance(value, tuple) and all(_is_constant(each) for each in value)
        ):
            yield f"{name} = {value!r}"
        elif isinstance(value, numba.types.ExternalFunction):
            yield f"{name} = {value.symbol}{value.sig}"
    for value in function.__globals__.values():
        if isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields"):
            yield f"{value.__qualname__}{value._fields!r}"


def _names(code: CodeType) -> set[str]:
    """Return the names that a function and its inner functions read."""
    within = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(_names, within))


def _is_constant(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex | str | np.generic)


@cache
def _content(path: str) -> str:
    """Return a hash of a source file; a random hash if the file changed since this program began.

    The program may have imported the earlier source.
    """
    changed = os.stat(path).st_mtime > BEGIN
    return sha256(Path(path).read_bytes() + (os.urandom(16) if changed else b"")).hexdigest()


class _Lock(event.Listener):
    """The lock that this process holds while it compiles a kernel, so that no other process does.

    One lock is enough, because numba lets only one thread compile at a time.
    """

    def __init__(self) -> None:
        self._owner: KernelCache | None = None
        self._descriptor = -1

    def take(self, owner: KernelCache) -> bool:
        """Wait until this process may compile a kernel; return True if the process got the lock.

        Return False if the process holds a lock already, or cannot get a lock. Functions that a
        kernel calls are compiled under the kernel's lock.
        """
        if self._owner is not None:
            return False
        try:
            path = folder() / f"{owner.name}.lock"
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        held = False
        try:
            held = _locked(descriptor)
        finally:
            if not held:
                os.close(descriptor)
        if held:
            self._owner, self._descriptor = owner, descriptor
        return held

    def release(self, owner: KernelCache) -> None:
        """Release the lock, if this process took it for the kernel of the cache `owner`."""
        if self._owner is owner:
            self._owner = None
            os.close(self._descriptor)

    def on_start(self, event: Any) -> None:
        """Do nothing: `load_overload` has taken the lock already."""

    def on_end(self, event: Any) -> None:
        """Release the lock if a kernel failed to compile; otherwise `save_overload` releases it."""
        if event._exc_details is not None:  # numba's `is_failed` says the opposite (0.68)
            self.release(event.data["dispatcher"]._cache)


def _locked(descriptor: int) -> bool:
    """Lock an open file within `PATIENCE` seconds; return whether this process has the lock."""
    listener, end, waits = compilation(), time.monotonic() + PATIENCE, False
    try:
        while time.monotonic() < end:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except BlockingIOError:
                if not waits:
                    waits = True
                    listener.on_start(None)
                time.sleep(INTERVAL)
    except OSError:  # the file system has no locks, or its server has none any more
        pass
    finally:
        if waits:
            listener.on_end(None)
    return False


class _Told(event.Listener):
    """A listener that passes numba's events on to `plancc.clock`."""

    def on_start(self, event: Any) -> None:
        compilation().on_start(event)

    def on_end(self, event: Any) -> None:
        compilation().on_end(event)


_lock = _Lock()
for _each in (_lock, _Told()):
    event.register("numba:compile", _each)
