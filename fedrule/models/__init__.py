"""Saved models: the file, its card, restoring, extending and training."""
