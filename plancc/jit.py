"""Where compiled kernels are kept, and which process compiles them.

They are kept in the first of these folders that can be written:

1. ``NUMBA_CACHE_DIR``, if it is set: then 2 and 3 do not count;
2. ``var/cache/plancc`` of the environment (`sys.prefix`);
3. ``plancc`` in the user's cache folder (``XDG_CACHE_HOME``, else ``~/.cache``);
4. a folder of this user among the temporary files, of which a warning tells when it is made.

Kernels are looked for in all of them: an image may have them in an environment that is read-only.
A kernel fits if these are the same: the contents of its source and of the sources of kernels that
it calls, the constants that it reads, the fields of the named tuples that its module knows; the
processor, the versions of Python and numba, and numba's `SETTINGS`. Places and times of files do
not count. numba's own cache compares less (numba#10821), and unpickles before it compares.

A kernel is code: its file counts only if it is this user's, root's, or of the owner of the
environment, and if not everybody can write to it or to its folder. What plancc makes can be written
by its maker alone. A kernel whose source is no file (a notebook, a zip) is not kept.

Where the processor's own kernel is missing, the one for its level of the architecture does: the
same bits, at nearly the same speed. `plancc warm-up --portable` compiles these, and wheels have
them in the folder `SHIPPED`.

Processes that miss the same kernel at the same time, such as the ranks of a node, do not all
compile it: one holds a lock on a file beside the kernel, and the others wait and load. Such a wait
counts as compilation (`plancc.clock`). The system releases the lock if its holder dies, and who has
waited for `PATIENCE` compiles by itself. A process holds one lock at most, so that none waits for
another in a circle. Where files cannot be locked, all compile.
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
    from numba.core import event, sigutils
    from numba.core.ccallback import CFunc
    from numba.core.compiler import CompileResult
    from numba.core.registry import cpu_target
    from numba.core.runtime import rtsys
    from numba.core.serialize import dumps
except ValueError as error:
    raise InputError(
        f"the environment variable NUMBA_NUM_THREADS is "
        f"'{shown(os.environ.get('NUMBA_NUM_THREADS', ''))}': give a number from 1 on, or none"
    ) from error

TESTED = ("0.68.",)
"""How versions of numba begin whose inner parts `plancc.jit_compiler` knows; with others kernels
compile in numba's own way, which takes longer: `plancc warm-up --first` 190 CPU seconds, not 99."""
COMPILER = Path(__file__).with_name("jit_compiler.py")
SETTINGS = {
    "OPT": 3,
    "SLP_VECTORIZE": 0,
    "LOOP_VECTORIZE": 1,
    "DEBUGINFO_DEFAULT": 0,
    "BOUNDSCHECK": None,
}
"""Settings of numba that its own cache does not look at (numba#10821), and their defaults."""
PATIENCE = 300.0
"""Seconds to wait for another process that compiles the same kernel."""
INTERVAL = 0.02
"""Seconds between two looks at its lock."""


def dispatcher(function: Any, options: dict[str, Any]) -> Any:
    """`numba.njit` with options, whose ``cache=True`` is the cache described above.

    It is our own with the versions of numba that it is tested with, else numba's.
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
        with contextlib.suppress(OSError):  # its source is no file
            made._cache = KernelCache(function, is_portable="fastmath" not in options)
    return made


def cfunc(signature: str) -> Any:
    """`numba.cfunc`, cached as described above; compiles at once."""

    def decorate(function: Any) -> Any:
        made: Any = CFunc(function, sigutils.normalize_signature(signature), locals={}, options={})
        with contextlib.suppress(OSError):  # its source is no file
            made._cache = KernelCache(function)
        made.compile()
        return made

    return decorate


# -- folders ---------------------------------------------------------------------------------------


def candidates() -> list[Path]:
    """Folders that last, best first; they need not exist."""
    if numba.config.CACHE_DIR:
        return [Path(numba.config.CACHE_DIR)]
    found = [Path(sys.prefix, "var", "cache", "plancc")]
    with contextlib.suppress(RuntimeError):  # a user without a home
        user = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        found.append(Path(user, "plancc"))
    return found


@cache
def folder() -> Path:
    """The folder that kernels are written to; it exists."""
    lasting = candidates()
    for place in lasting:
        if is_writable(place):
            return place
    place, is_new = _temporary()
    if is_new:
        tried = " and ".join(map(str, lasting))
        warnings.warn(
            f"compiled kernels are kept in {place} until the system removes it, since "
            f"{tried} cannot be written, or can be by everybody; set NUMBA_CACHE_DIR to "
            f"{'another' if numba.config.CACHE_DIR else 'a'} folder",
            PlanccWarning,
            stacklevel=2,
        )
    return place


def is_writable(place: Path) -> bool:
    """Whether this process can write to a folder, and not everybody; it is made if missing."""
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
    """Whether every user can write to a folder."""
    return bool(place.stat().st_mode & stat.S_IWOTH)


def _temporary() -> tuple[Path, bool]:
    """A folder among the temporary files that nobody else can write to, and whether it is new.

    What is in it is executed: the well-known name only counts if it is this user's.
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
"""The folder of kernels that a wheel comes with."""
LEVELS: dict[str, tuple[str, set[str]]] = {
    "x86-64-v3": ("x86_64", {"+avx2", "+bmi", "+bmi2", "+f16c", "+fma", "+lzcnt", "+movbe"}),
    "x86-64-v2": ("x86_64", {"+cx16", "+popcnt", "+sahf", "+sse3", "+sse4.1", "+sse4.2", "+ssse3"}),
    "generic": ("aarch64", set()),
}
"""Levels of an architecture, best first: what the triple of a processor begins with, and features
that it must have, all by LLVM's names (https://gitlab.com/x86-psABIs/x86-64-ABI)."""
PORTABLE = "PLANCC_PORTABLE"
"""The environment variable that is 0 where kernels of a level are not to be used."""
VERSIONS = 4
"""How many versions of a kernel's sources are kept."""
_DIGEST = sha256().digest_size


Processor = tuple[str, str, str]
"""As numba says it: LLVM's triple, name and features."""


def processor() -> Processor:
    """That of this process, unless ``NUMBA_CPU_NAME`` and ``NUMBA_CPU_FEATURES`` say another."""
    said: Processor = cpu_target.target_context.codegen().magic_tuple()
    return said


def levels(processor: Processor) -> list[str]:
    """The names of `LEVELS` that a processor has, best first."""
    triple, _, features = processor
    return [
        name
        for name, (architecture, needs) in LEVELS.items()
        if triple.startswith(architecture) and needs <= set(features.split(","))
    ]


def _trusted(path: Path) -> bytes:
    """The content of a file; PermissionError if somebody else may have written it."""
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        owners = {0, os.geteuid(), os.stat(sys.prefix).st_uid}
        others_can = found.st_mode & stat.S_IWOTH or _is_everybodys(path.parent)
        if others_can or found.st_uid not in owners:
            raise PermissionError(path)
        return file.read()


class KernelCache:
    """Compiled versions of one kernel, in all folders; one file each.

    The file begins with the SHA-256 digest of the rest and of everything that the kernel depends
    on. Nothing of the file is used if the digest is another.

    Parameters:
        function (function): The kernel as Python has it.
        is_portable: Whether one for a level of the architecture does. Not where the compiler may
            reorder sums: the result depends on the width of vectors then.
    """

    def __init__(self, function: Any, is_portable: bool = True) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}"
        self._stamp, self._is_portable = _stamp(function), is_portable

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return a kept version, which numba asks for first; None: compile one, under the lock.

        Its own cache loads what the compiler knows of NumPy first, for 0.2 s; a kernel that is
        compiled needs the run-time library alone.
        """
        rtsys.initialize(target_context)
        found = self._find(sig, target_context)
        if found is None and _lock.take(self):
            found = self._find(sig, target_context)  # the one before may have saved it
            if found is not None:
                _lock.release(self)
        return found and CompileResult._rebuild(target_context, *found)

    def _find(self, sig: Any, target_context: Any) -> Any:
        """The processor's own version of whichever folder, else that of its best level.

        Not of a lower one, which would round differently: below x86-64-v3 there is no fused
        multiplication and addition.
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
        """Save a compiled version; a disk that is full costs the next process its time only."""
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
        """The name of a version's file, and all that it depends on."""
        settings = {name: getattr(numba.config, name) for name in SETTINGS}
        python = sys.implementation.cache_tag + sys.abiflags
        told = [self.name, python, numba.__version__, settings, processor, _described(sig)]
        key = repr(told).encode()
        name = f"{self.name}-{sha256(key).hexdigest()[:16]}-{self._stamp[:16]}.kernel"
        return name, key + self._stamp.encode()


class _CompiledVersion(CompileResult):
    """A compiled version without the constants of functions that have none, whose modules numba
    would import to load it."""

    def _find_referenced_environments(self) -> list[Any]:
        return [each for each in super()._find_referenced_environments() if each.consts]


def _described(kind: Any) -> str:
    """A signature or a type, with the fields of its named tuples."""
    if isinstance(kind, tuple):
        return ", ".join(map(_described, kind))
    if isinstance(kind, numba.types.BaseTuple):
        of = getattr(kind, "instance_class", tuple)
        fields = getattr(of, "_fields", "")
        return f"{of.__module__}.{of.__qualname__}{fields}({_described(tuple(kind.types))})"
    return str(kind)


def _stamp(function: Any) -> str:
    """The sources of a kernel and of plancc's compiler, as a hash."""
    parts = {_content(str(COMPILER)), *_compiled_in(function, set())}
    return sha256("\n".join(sorted(parts)).encode()).hexdigest()


def _compiled_in(function: Any, seen: set[Any]) -> Iterator[str]:
    """All that the compiled function depends on: sources, constants, fields of named tuples."""
    seen.add(function)
    yield _content(function.__code__.co_filename)
    for name in _names(function.__code__):
        value = function.__globals__.get(name)
        called = getattr(value, "__wrapped__", value)  # a kernel's or an intrinsic's function
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
    """The names that a function reads, functions within it too."""
    within = (each for each in code.co_consts if isinstance(each, CodeType))
    return set(code.co_names).union(*map(_names, within))


def _is_constant(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex | str | np.generic)


@cache
def _content(path: str) -> str:
    """A hash of a source, which nobody else has if the file changed since this program began: what
    was imported may be what it was before."""
    changed = os.stat(path).st_mtime > BEGIN
    return sha256(Path(path).read_bytes() + (os.urandom(16) if changed else b"")).hexdigest()


class _Lock(event.Listener):
    """The lock of this process; numba lets one thread compile at a time."""

    def __init__(self) -> None:
        self._owner: KernelCache | None = None
        self._descriptor = -1

    def take(self, owner: KernelCache) -> bool:
        """Wait until this process may compile a kernel; False: it holds a lock already, or none
        can be had. What a kernel calls is compiled under the kernel's own lock."""
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
        """Let others have the lock of this kernel, if it is held."""
        if self._owner is owner:
            self._owner = None
            os.close(self._descriptor)

    def on_start(self, event: Any) -> None:
        """Nothing: the lock was taken before."""

    def on_end(self, event: Any) -> None:
        """A kernel failed to compile; others are saved a moment later, which releases the lock."""
        if event._exc_details is not None:  # numba's `is_failed` says the opposite (0.68)
            self.release(event.data["dispatcher"]._cache)


def _locked(descriptor: int) -> bool:
    """Whether the lock could be had, after a wait as long as it takes; False after `PATIENCE`."""
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
    except OSError:  # a file system that knows no locks, or whose server knows them no more
        pass
    finally:
        if waits:
            listener.on_end(None)
    return False


class _Told(event.Listener):
    """Tells `plancc.clock`."""

    def on_start(self, event: Any) -> None:
        compilation().on_start(event)

    def on_end(self, event: Any) -> None:
        compilation().on_end(event)


_lock = _Lock()
for _each in (_lock, _Told()):
    event.register("numba:compile", _each)
