"""Passes over a partition: frozen dataclasses whose fields are their options."""

from __future__ import annotations

from plancc.passes.fill import FillEmptyParts

__all__ = ["FillEmptyParts"]
