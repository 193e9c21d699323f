"""Data that nobody has to bring along: homes and people made up after what was published about real ones."""
