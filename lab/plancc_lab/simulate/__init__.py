"""Predicted steps on mini-batches, and predicted epochs of models on more and more ranks."""
