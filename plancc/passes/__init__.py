"""Passes that improve a partition: functions, and frozen dataclasses with tuned numbers."""
