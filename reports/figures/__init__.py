"""Figures: each a function from the inputs to a drawing."""
