"""The search for owners: partitioners and passes, by effort and budget."""

from __future__ import annotations

from plancc.search.effort import search
from plancc.search.record import Record, SearchResult, Trial

__all__ = ["Record", "SearchResult", "Trial", "search"]
