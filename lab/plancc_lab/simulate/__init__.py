"""Predictions of steps on mini-batches, and of epochs of several models for a range of ranks."""
