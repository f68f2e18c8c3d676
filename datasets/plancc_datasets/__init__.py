"""Graphs that need no download: generated graphs, and graphs inside other libraries.

`load_dataset` makes a data set by its name. Every data set is a frozen dataclass, and the fields of
the dataclass are its options.
"""

from __future__ import annotations

from plancc_datasets.dataset import DATASETS, Dataset, dataset_options, load_dataset

__all__ = ["DATASETS", "Dataset", "dataset_options", "load_dataset"]
