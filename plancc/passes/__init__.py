"""Passes over a partition: frozen dataclasses whose fields are their options."""

from __future__ import annotations

from plancc.passes.fill import FillEmptyParts
from plancc.passes.rebalance import Rebalance

__all__ = ["FillEmptyParts", "Rebalance"]
