"""What a fitted graph method is shown: homes in its own vocabulary, and only those that are asked about."""

from __future__ import annotations

import numpy as np

from datasets.common.errors import DataError
from datasets.homes import Array, Homes
from datasets.view import Relation


def refuse_other_vocabulary(name: str, homes: Homes, types: tuple[str, ...], relations: tuple[Relation, ...]) -> None:
    """An error where the numbers of types and relations stand for other words than in the training of method `name`."""
    if homes.types == types and homes.relations == relations:
        return
    strange = [str(word) for word in (*homes.types, *homes.relations) if word not in {*types, *relations}]
    beyond = (
        f" It has never seen {', '.join(strange[:3])}: leave out the devices and rules that have them, or fit again on "
        "homes that do (datasets.align brings homes into one vocabulary)."
    )
    raise DataError(
        f"{homes.name}: entity types and relations are numbered otherwise than in the training of {name}; "
        f"give homes.with_vocabulary(model.types, model.relations).{beyond if strange else ''}"
    )


def refuse_pairs_across_homes(homes: Homes, trigger: Array, action: Array) -> None:
    """An error for the first pair whose devices are of two homes."""
    across = np.flatnonzero(homes.device_home[trigger] != homes.device_home[action])
    if len(across):
        first = across[0]
        raise DataError(
            f"{homes.name}: pair {first} is of devices {trigger[first]} and {action[first]}, which are of the homes "
            f"{homes.device_home[trigger[first]]} and {homes.device_home[action[first]]}; a rule stays within a home"
        )


def narrow(homes: Homes, trigger: Array, action: Array) -> tuple[Homes, Array, Array]:
    """Only the homes of these pairs, which are in the order of homes, and the pairs' devices among theirs."""
    which, row = np.unique(homes.device_home[trigger], return_inverse=True)
    shown = homes if len(which) == homes.n_homes else homes.subset(which)
    shift = (shown.device_start[:-1] - homes.device_start[which])[row]
    return shown, trigger + shift, action + shift
