"""THE RUNTIME. Replays plans; knows no partitioner, no graph format, no terminal.

`plancc_runtime.train.train` is the way through it: slice -> layout + transport -> layers -> loss
-> adjoint -> optimiser. Torch and MPI are imported by the modules that need them, at first use.
"""
