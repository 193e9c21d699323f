"""The commands of `python -m benchmarks`, a module per topic; `benchmarks.__main__` imports that of a command only."""
