"""Registries, which map names to lazily loaded objects.

Third parties add to a registry by an entry point in the group ``plancc.<registry name>``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from plancc.errors import BackendUnavailable, InputError
from plancc.text import printable, shown

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class Registry:
    """A map of names to ``"module:attribute"`` targets, which are imported at first use.

    Parameters:
        kind: Noun for an entry in an error message ("model", "partitioner").
        group: Entry-point group for third parties.
        targets: The built-in entries, in the order in which users see them.
        instance_of: Target of the class that third parties' entries must be instances of.
        subclass_of: Target of a class; third parties' entries must be concrete subclasses of it.
    """

    def __init__(
        self,
        kind: str,
        group: str,
        targets: dict[str, str],
        *,
        instance_of: str = "",
        subclass_of: str = "",
    ) -> None:
        self.kind = kind
        self._instance_of, self._subclass_of = instance_of, subclass_of
        self._targets = dict(targets)
        self._group = group
        self._plugins: dict[str, EntryPoint] | None = None
        self._broken: set[str] = set()

    def _read_plugins(self) -> dict[str, EntryPoint]:
        """Return the entries of third parties, by name, without names of built-in entries."""
        if self._plugins is None:
            from importlib.metadata import entry_points

            points = entry_points(group=self._group)
            named = {printable(p.name): p for p in points}
            self._plugins = {k: p for k, p in named.items() if k not in self._targets}
        return self._plugins

    def names(self) -> list[str]:
        """Return the names of all entries, built-in entries first."""
        return [*self._targets, *self._read_plugins()]

    def loaded(self) -> dict[str, Any]:
        """Return all entries by name, except third parties' entries that cannot be loaded."""
        found = {name: self[name] for name in self._targets}
        for name in self._read_plugins():
            if name not in self._broken:
                try:
                    found[name] = self[name]
                except BackendUnavailable:
                    self._broken.add(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __getitem__(self, name: str) -> Any:
        """Return the object registered under `name`; InputError if there is none.

        Raises BackendUnavailable if a third party's entry cannot be loaded or has a wrong type.
        """
        if name in self._targets:
            return load(self._targets[name])
        check_choice(self.kind, name, self.names())
        point = self._read_plugins()[name]
        who = self.words_of(name)
        try:
            found = point.load()
        except Exception as error:  # the third party's code runs
            raise BackendUnavailable(
                f"{who} cannot be loaded: {type(error).__name__}: {error}"
            ) from error
        wrong = self._wrong_with(found)
        if wrong:
            raise BackendUnavailable(f"{who} cannot be used: {point.value} {wrong}")
        return found

    def is_own(self, name: str) -> bool:
        """Return whether an entry is plancc's own, and not a third party's."""
        return self._targets.get(name, "").startswith("plancc")

    def words_of(self, name: str) -> str:
        """Return a phrase: kind and name of an entry, and the package if it is a third party's."""
        point = self._read_plugins().get(name)
        package = f" of package {point.dist.name}" if point is not None and point.dist else ""
        return f"{self.kind} '{name}'{package}"

    def name_of(self, entry: object) -> str:
        """Return the name under which a loaded entry is registered; "" if it is not an entry."""
        return next((name for name, each in self.loaded().items() if each is entry), "")

    def _wrong_with(self, found: object) -> str:
        """Return a phrase that says why an object cannot be an entry; "" if it can."""
        if self._instance_of and not isinstance(found, load(self._instance_of)):
            return f"is not an instance of {self._instance_of.replace(':', '.')}"
        if self._subclass_of:
            if not (isinstance(found, type) and issubclass(found, load(self._subclass_of))):
                return f"is not a subclass of {self._subclass_of.replace(':', '.')}"
            missing = sorted(getattr(found, "__abstractmethods__", ()))
            if missing:
                return f"does not define {', '.join(missing)}"
        return ""


def place_of(function: Callable[..., Any]) -> str:
    """Return file and line of a function, for messages."""
    from inspect import unwrap

    code = getattr(unwrap(function), "__code__", None)
    if code is None:
        return f"{function.__module__}.{type(function).__name__}"
    return f"{code.co_filename}, line {code.co_firstlineno}"


def load(target: str) -> Any:
    """Import the module of a target ``"module:attribute"``, and return the attribute."""
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def check_choice(kind: str, value: str, choices: Iterable[str]) -> None:
    """Raise InputError unless `value` is one of `choices`, which the message lists."""
    choices = list(choices)
    if value not in choices:
        near = nearest(shown(value), choices)
        meant = f" (did you mean {near}?)" if near else ""
        raise InputError(
            f"unknown {kind} '{shown(value)}'{meant}; choose from {', '.join(choices)}"
        )


def nearest(value: str, choices: Iterable[str]) -> str:
    """Return the choice that a mistyped name most likely means; "" if none is near."""
    from difflib import get_close_matches

    known = {choice.lower(): choice for choice in choices}
    found = get_close_matches(str(value).lower(), known, n=1, cutoff=0.7)
    return known[found[0]] if found else ""
