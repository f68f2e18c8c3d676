"""Checks for extensions by third parties: for each kind of extension, a class to inherit from.

    class TestMine(PartitionerTests):
        name = "mine"

The checks need pytest, and find extensions by entry points: install your package first (``pip
install -e .``). The checks for transports are in ``plancc_runtime.testing``.
"""

import inspect

import pytest

from plancc.pipeline import compile
from plancc.text import docstring

for _name in ("formats", "models", "partitioners", "samplers"):
    pytest.register_assert_rewrite(f"{__name__}.{_name}")  # so that a failed check shows its values


def taken() -> set[str]:
    """Return the parameters of `plancc.compile`; no option of an extension may have such a name."""
    return {*inspect.signature(compile).parameters}


def documented(declared: type) -> bool:
    """Whether a dataclass has its own docstring, not the signature that Python puts there."""
    return bool(docstring(declared))
