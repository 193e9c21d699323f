"""Figures, tables and the page, made from result files; `reports.build` is the command."""
