"""Checks for third-party code: a class to inherit for each kind of extension.

    class TestMine(PartitionerTests):
        name = "mine"

Install your package first (``pip install -e .``): the checks find extensions by entry points, as
plancc does. The checks need pytest. The checks of a transport are in ``plancc_runtime.testing``.
"""

import inspect

import pytest

from plancc.pipeline import compile
from plancc.text import docstring

for _name in ("formats", "models", "partitioners", "samplers"):
    pytest.register_assert_rewrite(f"{__name__}.{_name}")  # so that a failed check shows its values


def taken() -> set[str]:
    """Return names that no option of an extension may have: the parameters of `plancc.compile`."""
    return {*inspect.signature(compile).parameters}


def documented(declared: type) -> bool:
    """Return whether a dataclass has its own docstring, and not only the signature that Python
    adds.
    """
    return bool(docstring(declared))
