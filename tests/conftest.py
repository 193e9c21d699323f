"""Property tests draw the same examples in every run, and a busy machine does not fail them."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
