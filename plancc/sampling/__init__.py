"""Mini-batches: samplers that choose the rows and nonzeros of a training step.

Compiler and runtime use the same samplers, so that they draw the same batches from the same seed. A
batch depends only on its seed, its index and its *stream*, which says what the batch is for (for
example, to find owners or to train). So any rank can draw any batch without messages, or only the
rows of a batch that the rank needs.

    Population    what a sampler draws from: the pattern of the matrix, the training mask, clusters
    Sampler       base class of samplers; a sampler is a frozen dataclass, whose fields are options
    Batch         what a sampler draws: vertices, nonzeros, and targets
    draw          draws a batch by a sampler, and checks it

`plancc.testing.SamplerTests` tests the batches of a sampler.
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
