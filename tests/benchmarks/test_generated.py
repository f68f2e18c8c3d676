"""Generated graphs of benchmarks."""

import numpy as np

from benchmarks.generated import web


def test_web():
    """Links stay in hosts, which are blocks of the numbering, but for a few; pages are copied."""
    graph = web(pages=5000, links=6, outside=0.05, seed=3)
    rows = np.repeat(np.arange(5000), np.diff(graph.indptr))
    assert graph.directed
    assert 3 < graph.num_nonzeros / 5000 < 6  # equal links are one
    into = np.bincount(graph.indices, minlength=5000)
    assert into.max() > 30 * into.mean()  # first pages of hosts
    assert np.mean(np.abs(rows - graph.indices) > 500) < 0.15
    graph = web(pages=5000, links=6, outside=1, seed=3)
    rows = np.repeat(np.arange(5000), np.diff(graph.indptr))
    assert np.mean(np.abs(rows - graph.indices) > 500) > 0.3
