"""Graphs that need no download: generators, and data that ship inside libraries.

`load_dataset` finds them by name; each is a frozen dataclass whose fields are its options.
"""

from __future__ import annotations

from plancc_datasets.dataset import DATASETS, Dataset, dataset_options, load_dataset

__all__ = ["DATASETS", "Dataset", "dataset_options", "load_dataset"]
