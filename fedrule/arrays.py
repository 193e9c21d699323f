"""Arrays for compiled loops, which numba compiles anew for every kind of array: writable, read-only, strided."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

Number = TypeVar("Number", bound=np.generic)


def read_only(array: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """A contiguous read-only view: one kind of array for compiled code, also where memory cannot be written to."""
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view
