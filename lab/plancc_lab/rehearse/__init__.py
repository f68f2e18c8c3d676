"""Rehearsals: this computer executes the epochs of all ranks, and replays their messages.

The messages take the time that they would take on a given machine."""
