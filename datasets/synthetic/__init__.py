"""Data sets that need no files: synthetic homes and people that follow what was published about real ones."""
