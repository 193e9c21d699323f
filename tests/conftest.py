"""Property tests draw the same examples in every run, and a busy machine does not fail them; homes for many tests."""

from __future__ import annotations

import pytest
from hypothesis import settings

from datasets import Homes
from tests.two_homes import two_homes

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


@pytest.fixture
def two() -> Homes:
    """Ann's and Bob's homes."""
    return two_homes()
