"""The evaluation harness: candidates, metrics, runs, results and comparisons, and the speed suites."""
