"""Mini-batches: samplers that choose the rows and nonzeros of a training step.

A batch depends only on its seed, index and *stream* (what the batch is for, such as training). So
any rank that has the whole graph can draw any batch without messages.
"""

from __future__ import annotations

from plancc.sampling.batch import Batch, BatchLayer, Inclusion, Population
from plancc.sampling.sampler import (
    FITTED,
    HELD_OUT,
    SAMPLERS,
    SHOWN,
    Sampler,
    SizedSampler,
    chosen_sampler,
    draw,
    make_sampler,
    parse_sampler,
    read_option,
    sampler_options,
)

__all__ = [
    "FITTED",
    "HELD_OUT",
    "SAMPLERS",
    "SHOWN",
    "Batch",
    "BatchLayer",
    "Inclusion",
    "Population",
    "Sampler",
    "SizedSampler",
    "chosen_sampler",
    "draw",
    "make_sampler",
    "parse_sampler",
    "read_option",
    "sampler_options",
]
