"""Where compiled kernels are kept, and that one of several processes compiles them."""

import dis
import importlib
import math
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import CodeType, FunctionType, ModuleType, NoneType
from typing import Any

import numpy as np
import pytest
from numba import types
from numba.core import event
from numba.core.errors import TypingError

from plancc import jit
from plancc.errors import PlanccWarning
from plancc.kernel import LazyKernel
from plancc_runtime.kernels import attention, numba_spmm

ROOT = Path(__file__).parents[1]

MODULE = """
from plancc.kernel import njit

@njit(cache=True)
def twice(x):
    return TIMES * x

TIMES = 2
"""
# Counts what numba compiles, by numba's own events.
PROGRAM = """
import os, sys
from numba.core import event
from plancc import jit
jit.candidates = lambda: [jit.Path(word) for word in sys.argv[1:]]
compiled = []
class Count(event.Listener):
    def on_start(self, event): compiled.append(event)
    def on_end(self, event): pass
event.register("numba:compile", Count())
sys.path.insert(0, ".")
import kernels
print("ready", flush=True)
sys.stdin.read()
print(kernels.twice(21), len(compiled))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with kernels, in which programs start."""
    (tmp_path / "kernels.py").write_text(MODULE)
    return tmp_path


def test_one_of_several_processes_compiles(place: Path) -> None:
    """Both call the kernel as soon as both are ready."""
    words = [sys.executable, "-c", PROGRAM, str(place / "kept")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(words, cwd=place, **pipes) for _ in range(2)]
    assert [process.stdout.readline() for process in both] == ["ready\n"] * 2
    for process in both:
        process.stdin.close()
    assert sorted(process.stdout.read() for process in both) == ["42 0\n", "42 1\n"]
    assert [process.wait(240) for process in both] == [0, 0]


class Count(event.Listener):
    """How many kernels numba compiles."""

    seen = 0

    def on_start(self, event: Any) -> None:
        self.seen += 1

    def on_end(self, event: Any) -> None: ...


@pytest.fixture
def called(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[int]]]:
    """Calls the kernel as a new process does, which reads the sources anew: what it gives, and
    how many kernels are compiled for that."""
    monkeypatch.syspath_prepend(place)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    folder, content = jit.folder.__wrapped__, jit._content.__wrapped__

    def called(*folders: Path, begin: float = math.inf) -> list[int]:
        monkeypatch.setattr(jit, "candidates", lambda: [*folders])
        monkeypatch.setattr(jit, "folder", cache(folder))
        monkeypatch.setattr(jit, "_content", cache(content))
        monkeypatch.setattr(jit, "BEGIN", begin)
        for name in ("kernels", "others"):
            sys.modules.pop(name, None)
        with event.install_listener("numba:compile", Count()) as count:
            return [importlib.import_module("kernels").twice(21), count.seen]

    yield called
    for name in ("kernels", "others"):
        sys.modules.pop(name, None)


def test_kernels_are_kept_by_content_and_found_where_nothing_can_be_written(place, called) -> None:
    kept, other = place / "kept", place / "other"
    assert called(kept) == [42, 1]
    os.utime(place / "kernels.py", (1e9, 1e9))  # as an image or a copy has it
    (place / "file").touch()
    assert called(place / "file" / "never", other, kept) == [42, 0]
    (place / "kernels.py").write_text(MODULE.replace("2", "3 - 1"))
    assert called(kept) == [42, 1]


def test_a_source_that_changes_while_the_program_runs_is_not_taken_for_what_runs(place, called):
    kept = place / "kept"
    assert called(kept, begin=0) == [42, 1]
    assert called(kept) == [42, 1]


def test_a_named_tuple_that_is_renamed(place, called) -> None:
    """Kernels kept for it are compiled again, not an error."""
    source = """
from typing import NamedTuple
from plancc.kernel import njit

class Pair(NamedTuple):
    first: int

@njit(cache=True)
def of_pair(pair):
    return 2 * pair.first

def twice(x):
    return of_pair(Pair(x))
"""
    kept = place / "kept"
    (place / "kernels.py").write_text(source)
    assert called(kept) == [42, 1]
    (place / "kernels.py").write_text(source.replace("Pair", "Couple"))
    assert called(kept) == [42, 1]
    assert called(kept) == [42, 0]


# -- kernels of a level of the architecture --------------------------------------------------------


def compiled_for_level(place: Path, call: str) -> Path:
    """The folder, with what the call compiles for this processor's level."""
    level = jit.levels(jit.processor())[0]
    told = {"NUMBA_CPU_NAME": level, "NUMBA_CPU_FEATURES": "", "NUMBA_CACHE_DIR": str(place)}
    words = [sys.executable, "-c", f"import kernels; kernels.{call}"]
    subprocess.run(words, cwd=place, env=os.environ | told, check=True, timeout=240)
    return place


@pytest.fixture(scope="module")
def of_level(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of another environment with the kernel."""
    place = tmp_path_factory.mktemp("elsewhere")
    (place / "kernels.py").write_text(MODULE)
    return compiled_for_level(place, "twice(21)")


@pytest.fixture
def kept(of_level: Path, place: Path) -> Path:
    """The same folder, moved."""
    return shutil.copytree(of_level, place / "kept")


def test_a_kernel_of_the_level_is_taken_where_the_processor_has_none(kept, place, called) -> None:
    before = set(kept.iterdir())
    assert called(place / "own", kept) == [42, 0]
    assert called(kept) == [42, 0]
    assert set(kept.iterdir()) == before


def test_a_kernel_that_plancc_comes_with(kept, place, called, monkeypatch) -> None:
    monkeypatch.setattr(jit, "SHIPPED", kept)
    assert called(place / "own") == [42, 0]
    monkeypatch.setenv(jit.PORTABLE, "0")
    assert called(place / "own") == [42, 1]
    monkeypatch.delenv(jit.PORTABLE)
    (kernel,) = kept.glob("*.kernel")
    kernel.write_bytes(b"")
    assert called(place / "own") == [42, 0]  # the processor's own comes first


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sys.implementation.cache_tag", "cpython-399"),
        ("numba.__version__", "0.68.99"),
        ("numba.config.OPT", 0),
    ],
)
def test_what_a_kernel_of_the_level_is_not_for(name, value, kept, called, monkeypatch) -> None:
    monkeypatch.setattr(name, value)
    assert called(kept) == [42, 1]
    assert called(kept) == [42, 0]


def test_processors_below_the_level_and_above_it(kept: Path, place: Path) -> None:
    """They are told by numba's variables; the one above has the level's kernel only."""
    words = [sys.executable, "-c", PROGRAM, str(kept)]
    for name, features, compiled in [("nehalem", "+sse4.2", 1), ("znver9", None, 0)]:
        told = {"NUMBA_CPU_NAME": name} | ({"NUMBA_CPU_FEATURES": features} if features else {})
        pipes = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        done = subprocess.run(words, cwd=place, env=os.environ | told, timeout=240, **pipes)
        assert done.stdout == f"ready\n42 {compiled}\n", done.stderr


def test_a_kernel_of_the_level_of_other_sources(kept, place, called) -> None:
    (place / "kernels.py").write_text(MODULE.replace("2", "1 + 1"))
    assert called(kept) == [42, 1]


def test_where_sums_may_be_reordered_none_of_the_level_is_taken(place, called) -> None:
    """The width of vectors would show in the result."""
    source = MODULE.replace("cache=True", 'cache=True, fastmath={"reassoc"}')
    (place / "kernels.py").write_text(source)
    compiled_for_level(place, "twice(21)")
    assert called(place) == [42, 1]


@pytest.mark.parametrize("harm", ["cut", "flipped", "poisoned", "of another name"])
def test_a_kernel_whose_digest_is_wrong_is_never_executed(harm, kept, called, monkeypatch) -> None:
    """Not even unpickled."""
    (kernel,) = kept.glob("*.kernel")
    content = kernel.read_bytes()
    poison = b"cos\nsystem\n(S'touch executed'\ntR."
    if harm == "cut":
        kernel.write_bytes(content[:-1])
    elif harm == "flipped":
        kernel.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    elif harm == "poisoned":
        kernel.write_bytes(content[:32] + poison)
    else:
        kernel.write_bytes(sha256(b"another kernel" + poison).digest() + poison)
    monkeypatch.chdir(kept)
    assert called(kept) == [42, 1]
    assert not (kept / "executed").exists()
    assert called(kept) == [42, 0]


def test_levels_of_processors() -> None:
    v2 = "+cx16,+popcnt,+sahf,+sse3,+sse4.1,+sse4.2,+ssse3"
    v3 = f"+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,-avx512f,{v2}"
    linux = "x86_64-unknown-linux-gnu"
    for triple, features, found in [
        (linux, v3, ["x86-64-v3", "x86-64-v2"]),
        (linux, v3.replace("+fma", "-fma"), ["x86-64-v2"]),
        (linux, v2.replace("+ssse3", ""), []),
        (linux, "", []),
        ("aarch64-unknown-linux-gnu", "+neon,+sve", ["generic"]),
        ("riscv64-unknown-linux-gnu", v3, []),
    ]:
        assert jit.levels((triple, "some name", features)) == found


# -- settings, sources, folders --------------------------------------------------------------------


def test_settings_of_numba_have_kernels_of_their_own(place, called, monkeypatch) -> None:
    """Both are kept, under every setting that numba's own cache does not look at."""
    kept, others = place / "kept", {"OPT": 0, "DEBUGINFO_DEFAULT": 1, "BOUNDSCHECK": 1}
    others |= {"SLP_VECTORIZE": 1, "LOOP_VECTORIZE": 0}
    assert called(kept) == [42, 1]
    assert others.keys() == jit.SETTINGS.keys()
    for name, value in others.items():
        with monkeypatch.context() as told:
            told.setattr(f"numba.config.{name}", value)
            assert called(kept) == [42, 1], name
            assert called(kept) == [42, 0], name
        assert called(kept) == [42, 0]


def test_a_kernel_whose_callee_has_changed_is_compiled_again(place, called) -> None:
    kept, callee = place / "kept", place / "others.py"
    source = """
from typing import NamedTuple
from plancc.kernel import njit

class Pair(NamedTuple):
    first: int
    second: int

@njit(cache=True)
def half(x):
    return 3 * x

TIMES = 14
"""
    callee.write_text(source)
    (place / "kernels.py").write_text("""
from others import TIMES, Pair, half
from plancc.kernel import njit

@njit(cache=True)
def of_pair(pair):
    return pair.first + half(pair.second) + TIMES

def twice(x):
    return of_pair(Pair(x + 1, 2))
""")
    assert called(kept)[0] == 22 + 6 + 14
    assert called(kept) == [42, 0]
    for old, new, wanted in [
        ("3 * x", "4 * x", 22 + 8 + 14),
        ("TIMES = 14", "TIMES = 10 + 5", 22 + 8 + 15),
        ("first: int\n    second: int", "second: int\n    first: int", 2 + 88 + 15),
    ]:
        source = source.replace(old, new)
        callee.write_text(source)
        value, compiled = called(kept)
        assert value == wanted
        assert compiled


def globals_of(code: CodeType) -> Iterator[str]:
    """The global names that a function and those within it load."""
    for each in dis.get_instructions(code):
        if each.opname == "LOAD_GLOBAL":
            yield each.argval
        elif isinstance(each.argval, CodeType):
            yield from globals_of(each.argval)


def unseen(function: FunctionType, seen: set[FunctionType]) -> Iterator[str]:
    """What a compiled function depends on, and its stamp does not: closures, values that are
    neither functions (C's too), types nor constants, what it takes from modules of the product."""
    seen.add(function)
    where = f"{function.__module__}.{function.__qualname__}"
    if function.__closure__:
        yield f"{where}: {function.__code__.co_freevars}"
    for name in globals_of(function.__code__):
        value = function.__globals__.get(name)
        called = getattr(value, "__wrapped__", value)
        if isinstance(called, FunctionType):
            if called not in seen and not called.__module__.startswith("numba."):
                yield from unseen(called, seen)
        elif isinstance(value, ModuleType):
            if value.__name__.split(".")[0] not in {"numpy", "math", "numba", "llvmlite"}:
                yield f"{where}: {name}"
        elif type(value).__module__.startswith("llvmlite."):  # types of intrinsics
            pass
        elif not isinstance(value, type | NoneType | types.ExternalFunction) and not all(
            map(jit._is_constant, value if isinstance(value, tuple) else [value])
        ):
            yield f"{where}: {name}"


def test_the_product_has_no_kernel_that_depends_on_what_its_stamp_does_not_see() -> None:
    kernels = {numba_spmm._product32, numba_spmm._product64, attention._call32, attention._call64}
    for folder in (ROOT, ROOT / "runtime"):
        for path in folder.glob("plancc*/**/*.py"):
            if "njit" in path.read_text() and path.parent != ROOT / "plancc":
                name = ".".join(path.relative_to(folder).with_suffix("").parts)
                found = vars(importlib.import_module(name)).values()
                kernels |= {each.__wrapped__ for each in found if isinstance(each, LazyKernel)}
    seen: set[FunctionType] = set()
    assert [each for kernel in kernels for each in unseen(kernel, seen)] == []
    assert len(kernels) > 100


@pytest.mark.parametrize("body", ["TABLE[0]", "jit.VERSIONS", "within", "TIMES + np.int64(1)"])
def test_what_the_stamp_does_not_see(body: str) -> None:
    values = {"TABLE": np.zeros(1), "jit": jit, "np": np, "TIMES": 2, "made": []}
    exec(f"def outer(within):\n    def f(): return {body}\n    made.append(f)\nouter(1)", values)
    assert bool(list(unseen(values["made"][0], set()))) == ("TIMES" not in body)


def test_a_kept_kernel_is_loaded_without_the_compiler(place: Path) -> None:
    """It gives and raises what it did when it was compiled."""
    (place / "kernels.py").write_text("""
import sys
import numpy as np
from plancc.kernel import njit

@njit(cache=True)
def checked(x):
    if x < 0:
        raise ValueError("below 0")
    return x

@njit(cache=True)
def median(numbers):
    found = np.sort(numbers)
    if found[0] == 0:
        raise ValueError("zero", len(found))
    return checked(found[len(found) // 2]), np.unique(numbers)

print(median(np.array([3, 1, 2, 2, 1])))
for wrong in (-3, 0):
    try:
        median(np.array([wrong]))
    except ValueError as error:
        print(error.args)
print("numba.np.arraymath" in sys.modules)
""")
    words, environment = [sys.executable, "kernels.py"], {"NUMBA_CACHE_DIR": str(place / "kept")}
    said = [
        subprocess.run(
            words, cwd=place, env=os.environ | environment, capture_output=True, text=True
        ).stdout.splitlines()
        for _ in range(2)
    ]
    answers = ["(2, array([1, 2, 3]))", "('below 0',)", "('zero', 1)"]
    assert said == [[*answers, "True"], [*answers, "False"]]


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Neither environment nor home can be written, not even by root; the temporary folder can."""
    (tmp_path / "file").touch()
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "file" / "environment"))
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def folder_and_warnings() -> tuple[Path, list[str]]:
    """The folder as a new process chooses it, and what is said of that."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = jit.folder.__wrapped__()
    assert all(each.category is PlanccWarning for each in caught)
    return found, [str(each.message) for each in caught]


def test_a_home_that_cannot_be_written_is_said_once(nowhere: Path) -> None:
    found, [sentence] = folder_and_warnings()
    assert found.parent == nowhere
    assert found.stat().st_mode & 0o777 == 0o700
    for name in (str(found), "environment/var/cache/plancc", "/dev/null/.cache", "NUMBA_CACHE_DIR"):
        assert name in sentence
    assert folder_and_warnings() == (found, [])


def test_kernels_are_not_taken_from_a_folder_that_others_can_write(nowhere: Path) -> None:
    found, _ = folder_and_warnings()
    found.chmod(0o777)
    another, _ = folder_and_warnings()
    assert another != found
    assert another.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("what", ["file", "folder", "owner"])
def test_kernels_that_others_may_have_written_are_not_used(what, place, called, monkeypatch):
    """The next process compiles; what it makes is its own, whatever the umask says."""
    kept = place / "deep" / "kept"
    before = os.umask(0)
    try:
        assert called(kept) == [42, 1]
    finally:
        os.umask(before)
    (kernel,) = kept.glob("*.kernel")
    modes = [path.stat().st_mode & 0o777 for path in (kept.parent, kept, kernel)]
    assert modes == [0o755, 0o755, 0o644]
    assert called(kept) == [42, 0]
    if what == "owner":
        if os.geteuid():
            pytest.skip("only root can give a file away")
        os.chown(kernel, 4343, -1)
    else:
        (kernel if what == "file" else kept).chmod(0o777)
        jit._is_everybodys.cache_clear()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PlanccWarning)
        assert called(kept) == [42, 1]
        assert called(kept) == [42, 0]


def test_what_a_killed_writer_leaves_is_removed_by_the_next(place, called) -> None:
    kept = place / "kept"
    kill = "import os; os.replace = lambda *_: os.kill(os.getpid(), 9)"
    words = [sys.executable, "-c", kill + PROGRAM, str(kept)]
    done = subprocess.run(words, cwd=place, input="", text=True, timeout=240)
    assert done.returncode == -9
    (left,) = kept.glob("*.tmp.kernel")
    assert left.name.startswith(".kernels.twice-")
    assert called(kept) == [42, 1]
    assert not any(kept.glob(".*"))


def test_a_kernel_whose_source_is_no_file_is_compiled_and_not_kept(place: Path) -> None:
    """As a script from standard input has it."""
    call = "import math\nfrom plancc import jit\ndef half(x): return x / 2\n"
    call += "print(twice(21), jit.cfunc('float64(float64)')(half).ctypes(3))"
    done = subprocess.run(
        [sys.executable, "-"],
        input=MODULE + "\n" + call,
        env=os.environ | {"NUMBA_CACHE_DIR": str(place / "kept")},
        **{"capture_output": True, "text": True, "timeout": 240},
    )
    assert (done.stdout, done.stderr) == ("42 1.5\n", "")
    assert not any(place.glob("kept/*.kernel"))


def test_the_order_of_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", "")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    environment = tmp_path / "environment/var/cache/plancc"
    assert jit.candidates() == [environment, tmp_path / "user/plancc"]
    assert folder_and_warnings() == (environment, [])
    (tmp_path / "file").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "file"))
    assert folder_and_warnings() == (tmp_path / "user/plancc", [])
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", str(tmp_path / "mine"))
    assert folder_and_warnings() == (tmp_path / "mine", [])
    monkeypatch.setattr(jit.numba.config, "CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    _, [sentence] = folder_and_warnings()
    assert "/file cannot be written, or can be written by all users; set" in sentence


def test_a_kernel_that_does_not_compile_gives_its_lock_back(place, called, monkeypatch) -> None:
    (place / "kernels.py").write_text(MODULE.replace("TIMES * x", "TIMES.nothing"))
    taken, take = [], jit._lock.take
    monkeypatch.setattr(jit._lock, "take", lambda owner: taken.append(take(owner)) or taken[-1])
    with pytest.raises(TypingError):
        called(place / "kept")
    assert taken == [True]
    assert jit._lock._owner is None


def test_no_threads() -> None:
    words = [sys.executable, "-c", "import plancc.jit"]
    environment = os.environ | {"NUMBA_NUM_THREADS": "0"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert "InputError: the environment variable NUMBA_NUM_THREADS is '0'; give" in done.stderr


def test_messages_of_numba_leave_no_escape_sequence_on_stdout():
    """Compiling makes messages, even if no error is shown."""
    pytest.importorskip("colorama")
    code = "from numba.core import errors; assert 'x' in errors.termcolor().errmsg('x')"
    words = [sys.executable, "-c", f"import plancc.jit; {code}"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
