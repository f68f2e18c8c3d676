"""The figures that plancc promises, measured: ``python -m benchmarks [NAME ...]``, `make bench`.

One module per subject, each with ``run(inputs) -> Report``. A figure that compares two times
measures both in one run, in turns. Nothing here is part of the installed package.
"""
