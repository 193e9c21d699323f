"""Quality and speed benchmarks: `pytest benchmarks/ --benchmark-only`."""
