"""Search for owners with several partitioners and passes, as far as the effort allows."""

from __future__ import annotations

from plancc.search.effort import search
from plancc.search.record import Record, SearchResult, Trial

__all__ = ["Record", "SearchResult", "Trial", "search"]
