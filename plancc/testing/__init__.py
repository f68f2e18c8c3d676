"""Checks that a third party's code inherits: one class each for what can be registered.

    class TestMine(PartitionerTests):
        name = "mine"

Install the package first (``pip install -e .``): everything is found by its entry point, as plancc
finds it. Needs pytest. The checks of a transport are in ``plancc_runtime.testing``.
"""

import inspect

import pytest

from plancc.pipeline import compile
from plancc.text import docstring

for _name in ("formats", "models", "partitioners", "samplers"):
    pytest.register_assert_rewrite(f"{__name__}.{_name}")  # a failed check shows its values


def taken() -> set[str]:
    """Names that no option of a model or a sampler has: the parameters of `plancc.compile`."""
    return {*inspect.signature(compile).parameters}


def documented(declared: type) -> bool:
    """Whether a dataclass has a written docstring, not the signature that Python makes."""
    return bool(docstring(declared))
