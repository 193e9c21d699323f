"""Figures: each a function from the material to a drawing."""
