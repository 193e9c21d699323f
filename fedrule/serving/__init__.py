"""Recommendations over HTTP: `python -m fedrule serve MODEL`. Needs the extra serve."""
