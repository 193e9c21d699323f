"""Numbers that a generator is asked for, such as homes or a seed: whole, in range, or an error that says so."""

from __future__ import annotations

import numpy as np

from datasets.common.errors import DataError

LARGEST_SEED = 2**63 - 1


def whole(of: str, what: str, value: object, *, least: int, most: int) -> int:
    """The value as an int if it is a whole number from `least` to `most`; `of` is the data set that is asked."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= most:
        raise DataError(f"{of}: {what}={value!r} is not a whole number from {least:,} to {most:,}")
    return int(value)
