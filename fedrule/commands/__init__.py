"""The commands of `python -m fedrule`, each a module with `add_arguments` and `run`."""
