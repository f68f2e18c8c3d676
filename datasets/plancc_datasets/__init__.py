"""Graphs that need no download: generated graphs, and graphs inside other libraries.

Every data set is a frozen dataclass, whose fields are its options.
"""

from __future__ import annotations

from plancc_datasets.dataset import DATASETS, Dataset, dataset_options, load_dataset

__all__ = ["DATASETS", "Dataset", "dataset_options", "load_dataset"]
