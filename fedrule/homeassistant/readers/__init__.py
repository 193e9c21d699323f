"""An `Installation` from a configuration folder (`folder`) or from a running server (`live`)."""
