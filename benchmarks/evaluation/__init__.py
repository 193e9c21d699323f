"""Candidates, ranks and metrics: one evaluation for every method."""
