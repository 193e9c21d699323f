"""Saved models: the file, its card, restoring (and extending) and training."""
