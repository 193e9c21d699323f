"""Suites, experiments and the runs that they ask for."""
