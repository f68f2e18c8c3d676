"""Mini-batches: samplers that choose the rows and nonzeros of a training step.

Compiler and runtime draw with the same code, so that the same seed gives the same batches to both.
Every batch is a function of (seed, stream, number) alone. So any rank can draw any batch, or only
the rows of a batch that the rank needs, without messages.

    Population    the input of samplers: pattern, training mask and clusters, if needed
    Sampler       a way to draw: a frozen dataclass of options, one file per sampler
    Batch         the result: its vertices, the nonzeros it keeps, and its targets
    draw          the function that draws; `plancc.testing.SamplerTests` checks batches
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
