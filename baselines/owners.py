"""Who could have a rule at all: homes that own a device of its trigger type and one of its action type."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from datasets.homes import Homes


def homes_with_both(homes: Homes) -> npt.NDArray[np.float64]:
    """[n_types ** 2]: how many homes own devices of both types of each ordered pair; one device of a type is enough."""
    place = homes.device_home, homes.device_type
    owns = csr_array((np.ones(homes.n_devices), place), shape=(homes.n_homes, len(homes.types)))
    owns.data[:] = 1.0
    return np.asarray((owns.T @ owns).todense(), dtype=np.float64).ravel()
