"""Stored results written to experiment trackers, MLflow and TensorBoard; neither is imported unless asked for."""
