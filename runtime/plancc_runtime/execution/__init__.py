"""Execution of a run's epochs, in every layout, by the interface `protocol.Execution`."""
