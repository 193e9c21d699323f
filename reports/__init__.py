"""Figures, tables and the page; reads result files only."""
