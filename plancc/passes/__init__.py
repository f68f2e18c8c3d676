"""Passes: functions and frozen dataclasses that improve a given partition."""
