"""Passes over a partition: functions, and frozen dataclasses whose fields are their numbers."""
