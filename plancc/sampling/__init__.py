"""Mini-batches: which rows and nonzeros take part in a training step.

The compiler and the runtime draw from the same code, so that the same seed gives the same batches
on both sides. Every batch is a function of (seed, stream, number) alone: any rank can make any
batch, as far as it needs it, without a word to another.

    Population    what is drawn from: the pattern, training mask and clusters, as far as needed
    Sampler       how: a frozen dataclass of options, one file per sampler
    Batch         one draw: whom it touches, which nonzeros it keeps, whose output it asks for
    draw          how everyone draws; `plancc.testing.SamplerTests` checks what a batch answers
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
