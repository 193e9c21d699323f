"""Whether the arrays of a model have the shapes that its method and its words ask for; needs no torch.

A file may come from anybody. Each array that is used is looked at here first, so that a wrong one is an error that
names it and not a strange score.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from datasets.common.errors import DataError
from fedrule.models.card import Card


def refuse_misfits(weights: Mapping[str, npt.NDArray[Any]], shapes: Mapping[str, tuple[int, ...]], card: Card) -> None:
    """Raise unless these are the parameters, by the names that training has for them, each of its shape."""
    if strange := weights.keys() - shapes.keys():
        raise DataError(f"weights.{min(strange)} is no parameter of {card.method} with the options of its card")
    arrays = {f"weights.{name}": array for name, array in weights.items()}
    for name, shape in shapes.items():
        fitting_array(arrays, f"weights.{name}", shape, np.float32)


def fitting_array(
    arrays: Mapping[str, npt.NDArray[Any]], name: str, shape: tuple[int, ...] | None, kind: type[np.generic]
) -> npt.NDArray[Any]:
    """An array of a model, of this kind and shape; any shape for None."""
    if name not in arrays:
        raise DataError(f"the model lacks {name}")
    array = arrays[name]
    if (shape is not None and array.shape != shape) or array.dtype != kind:
        expected = f"{np.dtype(kind)} of shape {shape}" if shape is not None else str(np.dtype(kind))
        raise DataError(f"{name} is {array.dtype} of shape {array.shape}, and {expected} is expected")
    return array
