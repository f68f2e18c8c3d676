"""How kernels are compiled: what is called is compiled once, and calculates what Python does."""

import signal
import sys
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core import event, serialize

from plancc import jit
from plancc.jit_compiler import Kernel
from plancc.kernel import njit


class Rows(NamedTuple):
    ptr: Any
    value: Any


@njit(nogil=True)
def total(rows: Any, i: int, sign: int) -> Any:
    found = np.int64(0)
    for k in range(rows.ptr[i], rows.ptr[i + 1]):
        found += rows.value[k]
    return sign * found


@njit(nogil=True)
def scaled(rows: Any, i: int, by: int) -> Any:
    part = rows.value[rows.ptr[i] : rows.ptr[i + 1]]
    part[:] = by * part  # which makes an array
    return part.sum()


@njit(nogil=True)
def checked(i: int) -> int:
    if i < 0:
        raise ValueError("below 0")
    return i


@njit(nogil=True)
def entry(rows: Any, of: Any) -> Any:
    """Calls `total` with integers of three types, and a literal one."""
    found = np.empty(4, dtype=np.int64)
    found[0] = total(rows, of[0], -1)
    found[1] = total(rows, np.int64(of[1]), np.int32(2))
    found[2] = total(rows, 0, checked(of[1]))
    found[3] = scaled(rows, 1, 3) + scaled(rows, of[0], 1)
    return found


@pytest.fixture
def rows() -> Rows:
    return Rows(np.array([0, 2, 5]), np.array([3, 4, 5, 6, 7], dtype=np.int32))


def test_results_are_those_of_python(rows: Rows) -> None:
    ours = entry(rows, np.array([1, 0], dtype=np.int32))
    np.testing.assert_array_equal(ours, [-18, 14, 0, 3 * 18 + 54])
    np.testing.assert_array_equal(rows.value, [3, 4, 15, 18, 21])


def test_an_error_of_what_is_called_is_raised(rows: Rows) -> None:
    with pytest.raises(ValueError, match="below 0"):
        entry(rows, np.array([1, -1], dtype=np.int32))


def test_what_is_called_is_compiled_once_and_not_as_an_entry_point(rows: Rows) -> None:
    begun = []

    class Count(event.Listener):
        def on_start(self, event: Any) -> None:
            begun.append(event.data["dispatcher"].py_func.__name__)

        def on_end(self, event: Any) -> None:
            pass

    @njit(nogil=True)
    def twice(rows: Any, i: int) -> Any:
        return total(rows, i, 2) + total(rows, np.int16(i), np.int64(1))

    with event.install_listener("numba:compile", Count()):
        assert twice(rows, 1) == 54
    assert [name for name in begun if name != "twice"] == []
    assert total.load().signatures == []  # no machine code of its own
    assert len(total.load()._inner) == 1
    assert total(rows, 1, 1) == 18  # until Python calls it
    assert len(total.load().signatures) == 1


def test_arrays_outlive_the_kernels_that_count_no_references(rows: Rows) -> None:
    value = rows.value
    before = value.base, value.flags.owndata
    for _ in range(1000):
        entry(rows, np.array([1, 0], dtype=np.int32))
    assert (value.base, value.flags.owndata) == before
    assert sys.getrefcount(value) < 10


def test_other_versions_of_numba_compile_in_their_own_way(monkeypatch, rows: Rows) -> None:
    assert isinstance(total.load(), Kernel)
    monkeypatch.setattr(jit.numba, "__version__", "0.99.0")
    plain = njit(total.__wrapped__)
    assert not isinstance(plain.load(), Kernel)
    assert plain(rows, 1, 1) == total(rows, 1, 1) == 18


@njit(nogil=True)
def several(n: int) -> Any:
    return np.zeros(n), np.ones(n), np.ones(n)


def test_ctrl_c_while_numba_makes_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    class Memo(dict[Any, Any]):
        def __getitem__(self, key: Any) -> Any:
            if not called:
                called.append(key)
                signal.raise_signal(signal.SIGINT)
            return super().__getitem__(key)

    called: list[Any] = []
    several(2)
    monkeypatch.setattr(serialize, "_unpickled_memo", Memo(serialize._unpickled_memo))
    with pytest.raises(KeyboardInterrupt):
        several(2)
