"""Descriptions of sparse accelerators, as dataclasses and as TOML files.

The memory on the chip, which saves repeated reads, is `OutputTiles` or a processor's `Cache`.
"""

import os
from dataclasses import dataclass, fields
from importlib.resources import files
from typing import Any, ClassVar, TypeVar

from plancc.errors import InputError
from plancc.fields import kind_of
from plancc.files import StrPath, read_toml

SHIPPED = ("mixgcn-spu", "hygcn", "awb-gcn", "xeon-8462y")
"""Names of the files in ``machines/``: the configurations of Wan et al. 2025, section 4.4.1."""

CPU = "xeon-8462y"
"""Name of the accelerator to which speed-ups are relative."""

SMALLEST, LARGEST = 1e-30, 1e30
"""Range of the numbers of an accelerator; products in this range are finite."""

Made = TypeVar("Made")

_CHOICES = {"adjacency": ("csr", "csc", "pairs"), "skips": ("rows", "windows", "nothing")}


@dataclass(frozen=True)
class OutputTiles:
    """Memory of a design that computes Z = A H tile by tile, each tile of Z on chip.

    Attributes:
        node_buffer, output_buffer: Bytes on chip for rows of H, and for rows of Z; at least 4 each.
        adjacency_buffer: Bytes on chip for the nonzeros of A.
        mask_buffer: Bytes on chip for the output mask; 0 if a second pass masks all of Z.
        adjacency: How A is stored: "csr" in tiles of rows and columns with pointers of rows; "csc"
            in tiles of rows with pointers of columns; "pairs" without pointers.
        nonzero_bytes: Bytes of one nonzero without the pointers.
        skips: Units of H that are not read if a tile needs none of their rows: "rows", "windows"
            (as many rows as the node buffer holds), or "nothing".
    """

    node_buffer: float
    output_buffer: float
    adjacency_buffer: float
    mask_buffer: float
    adjacency: str
    nonzero_bytes: float
    skips: str

    MAY_BE_ZERO: ClassVar[tuple[str, ...]] = ("adjacency_buffer", "mask_buffer")

    def __post_init__(self) -> None:
        _check(self, self.MAY_BE_ZERO)
        for name in ("node_buffer", "output_buffer"):
            if getattr(self, name) < 4:
                raise InputError(
                    f"'{name}' is {getattr(self, name)!r}, less than the 4 bytes of one feature"
                )
        if self.masked and 8 * self.mask_buffer < 1:
            raise InputError(f"'mask_buffer' is {self.mask_buffer!r}, less than one bit")

    @property
    def masked(self) -> bool:
        """Whether outputs that the mask drops are neither computed nor written."""
        return self.mask_buffer > 0


@dataclass(frozen=True)
class Cache:
    """Memory of a processor: a cache that keeps the rows that were read last.

    Attributes:
        cache: Bytes of the cache.
        nonzero_bytes: Bytes of one nonzero of A, in CSR.
    """

    cache: float
    nonzero_bytes: float

    masked: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class Accelerator:
    """A machine for neighbour aggregation.

    Attributes:
        adders: Largest number of additions of 32-bit numbers in one clock cycle.
        clock: Clock rate in Hz.
        utilisation: Share of these additions, in (0, 1], that is done if memory is fast enough.
        bandwidth: Bytes per second of the memory.
        efficiency: Share of the bandwidth, in (0, 1], that is reached.
        overlaps: Whether memory and adders work at the same time.
        power: Watts, without the memory if `memory_energy` is given.
        memory_energy: Joules per bit that the memory moves; 0 if `power` includes them.
    """

    name: str
    adders: float
    clock: float
    utilisation: float
    bandwidth: float
    efficiency: float
    overlaps: bool
    power: float
    memory_energy: float
    memory: OutputTiles | Cache

    def __post_init__(self) -> None:
        _check(self, ("memory_energy",))
        for name in ("utilisation", "efficiency"):
            if getattr(self, name) > 1:
                raise InputError(f"'{name}' is {getattr(self, name)!r}; a share is at most 1")


def accelerator(name: StrPath) -> Accelerator:
    """Return a shipped accelerator by its name in `SHIPPED`, or an accelerator from a file."""
    text = os.fspath(name)
    if text in SHIPPED:
        return read_accelerator(str(files(__package__).joinpath(f"machines/{text}.toml")))
    if not os.path.exists(text):
        raise InputError(
            f"{text}: is neither a file nor a shipped accelerator; choose from {', '.join(SHIPPED)}"
        )
    return read_accelerator(text)


def read_accelerator(path: StrPath) -> Accelerator:
    """Return the accelerator of a TOML file, whose top level has the attributes of `Accelerator`.

    A table ``[tiles]`` has the attributes of `OutputTiles`, or ``[cache]`` the attributes of
    `Cache`. Raises InputError for a missing or unknown key, or a wrong value.
    """
    values, name = read_toml(path), os.fspath(path)
    tables: dict[str, type[OutputTiles | Cache]] = {"tiles": OutputTiles, "cache": Cache}
    given = [key for key in tables if key in values]
    if len(given) != 1:
        raise InputError(f"{name}: has {len(given)} of the tables [tiles] and [cache]; give 1")
    (key,) = given
    table = values.pop(key)
    if not isinstance(table, dict):
        raise InputError(f"{name}: '{key}' is {table!r}, not a table [{key}]")
    memory = _make(tables[key], table, f"{name}: [{key}]")
    return _make(Accelerator, values, name, memory=memory)


def _make(kind: type[Made], values: dict[str, Any], where: str, **others: Any) -> Made:
    """Return ``kind(**values, **others)``; an InputError about a key or a value names `where`."""
    known = [field.name for field in fields(kind) if field.name not in others]  # type: ignore[arg-type]
    for key, value in values.items():
        if key not in known:
            raise InputError(f"{where}: unknown key {key!r} = {value!r}; give {', '.join(known)}")
    missing = [key for key in known if key not in values]
    if missing:
        raise InputError(f"{where}: '{missing[0]}' is missing")
    try:
        return kind(**values, **others)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _check(value: Any, may_be_zero: tuple[str, ...] = ()) -> None:
    """Raise InputError if a field's value has a wrong type, or is not in its range.

    Numbers must be positive; only the fields `may_be_zero` may be 0.
    """
    for field in fields(value):
        given, wanted, kind = getattr(value, field.name), "", kind_of(field)
        if field.name in _CHOICES:
            if given not in _CHOICES[field.name]:
                choices = ", ".join(_CHOICES[field.name])
                raise InputError(f"'{field.name}' is {given!r}; choose from {choices}")
        elif kind == "bool":
            wanted = "" if isinstance(given, bool) else "true or false"
        elif kind == "str":
            wanted = "" if isinstance(given, str) and given else "a string"
        elif kind == "float":
            number = isinstance(given, int | float) and not isinstance(given, bool)
            zero = number and given == 0 and field.name in may_be_zero
            if not zero and not (number and SMALLEST <= given <= LARGEST):
                wanted = "a positive finite number"
        if wanted:
            raise InputError(f"'{field.name}' is {given!r}, not {wanted}")
