"""The command line: commands (with click), printed output, progress and exit codes.

The algorithms are in `plancc` and `plancc_runtime`.
"""
