"""Predictions of steps on mini-batches, and of epochs of several models for several rank counts."""
