"""Extending the vocabulary of a saved model, to continue training on homes with other types and relations.

Known entity types and relations keep their numbers, new ones follow. Parameters of what is known are kept; those of a
new type, relation or typed rule are drawn as for a first training. The predictor keeps its width. Counts are sums over
homes, so that those of earlier and of new homes add up without the earlier homes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from scipy.sparse import coo_array, csr_array

from datasets.common.errors import DataError
from datasets.homes import Array, Homes
from datasets.valid import ValidRules
from fedrule.evidence.statistics import Statistics
from fedrule.model.encoders import Parameters
from fedrule.model.options import parameters_depend_on
from fedrule.model.score import Scorer
from fedrule.models.card import Card
from fedrule.models.file import SavedModel
from fedrule.models.restore import counts_of, restored

# What the rows of a parameter stand for, by the beginning of its name.
ROWS = {
    "features": ("theta.self1", "theta.in1", "theta.out1"),
    "relations": ("theta.relation_", "phi.relation"),
    "items": ("bias.item", "context.rule", "context.candidate"),
    "types": ("context.type",),
}
COLUMNS_ARE_FEATURES = "theta.layer1."  # torch-geometric's layers have them transposed


def align_vocabulary(card: Card, homes: Homes) -> Homes:
    """The homes in the vocabulary of a model, followed by the types and relations that are new to it."""
    owned, used = (np.unique(column).tolist() for column in (homes.device_type, homes.rules.relation))
    types = dict.fromkeys([*card.types, *(homes.types[number] for number in owned)])
    relations = dict.fromkeys([*card.relations, *(homes.relations[number] for number in used)])
    return homes.with_vocabulary(tuple(types), tuple(relations))


def training_options(saved: SavedModel, options: Mapping[str, object]) -> dict[str, object]:
    """The options of a model with these changed; options that its parameters depend on cannot change."""
    card = saved.card
    fixed = parameters_depend_on()
    for name in fixed:
        if name in options and options[name] != card.options[name]:
            raise DataError(
                f"{name} cannot change from {card.options[name]} to {options[name]} in a saved model; leave it out, or "
                "train from scratch"
            )
    width = saved.weights["phi.relation"].shape[1] if "phi.relation" in saved.weights else 0
    kept = card.options | ({"predictor_hidden": width} if width else {})  # 0 would mean: as many as relations
    return kept | {name: value for name, value in options.items() if name not in fixed}


def merged_counts(saved: SavedModel, train: Homes) -> Statistics:
    """Counts over the homes of a model and over these, which have its vocabulary; valid is what either has."""
    earlier = counts_of(saved)
    n_types, n_relations = len(train.types), len(train.relations)
    known = _moved(earlier.valid, n_types, n_relations)
    valid = ValidRules.of_cells(n_types, n_relations, np.union1d(known, ValidRules.of(train).cell))
    later = Statistics.of(train, valid, whole=earlier.together is not None)
    return _renumbered(earlier, later, np.searchsorted(valid.cell, known)) + later


def extended_parameters(saved: SavedModel, scorer: Scorer, generator: torch.Generator) -> Parameters:
    """The parameters of a model within those drawn for a scorer with a larger vocabulary."""
    valid = scorer.valid
    n_types, n_relations = len(saved.card.types), len(saved.card.relations)
    known = np.searchsorted(valid.cell, _moved(saved.valid, valid.n_types, valid.n_relations))
    place = {
        "types": np.arange(n_types),
        "relations": np.arange(n_relations),
        "items": np.append(known, len(valid)),  # the last one is for rules not seen in training
    }
    earlier, parameters = restored(saved).parameters, scorer.initial(generator)
    for name, value in earlier.items():
        if name.startswith(COLUMNS_ARE_FEATURES) and value.ndim == 2:
            parameters[name][:, _features(value.shape[1], n_types, valid.n_types)] = value.float()
        else:
            kind = next((kind for kind, names in ROWS.items() if name.startswith(names)), "")
            rows = _features(len(value), n_types, valid.n_types) if kind == "features" else place.get(kind, slice(None))
            parameters[name][rows] = value.float()
    return parameters


def _features(size: int, n_types: int, more_types: int) -> Array:
    """Where the inputs [one-hot type ; embedding] are among those with more types."""
    return np.append(np.arange(n_types), np.arange(size - n_types) + more_types)


def _moved(valid: ValidRules, n_types: int, n_relations: int) -> Array:
    """The cells of valid rules in a tensor of more types and relations; still sorted."""
    trigger_type, action_type, relation = valid.typed()
    return np.asarray((trigger_type * n_types + action_type) * n_relations + relation)


def _renumbered(earlier: Statistics, like: Statistics, item: Array) -> Statistics:
    """Earlier counts in the numbers of later ones; `item` is the place of each earlier typed rule among theirs."""
    both = np.zeros((like.valid.n_types, like.valid.n_types))
    n_types = earlier.valid.n_types
    both[:n_types, :n_types] = earlier.both.reshape(n_types, n_types)
    have = []
    for zeros, old, new, counted in zip(like.have, earlier.numbers, like.numbers, earlier.have, strict=True):
        moved = np.zeros_like(zeros)
        moved[new[item]] = counted[old]  # the same for all typed rules of a combination
        have.append(moved)
    itself = np.zeros_like(like.itself)
    itself[item] = earlier.itself
    together = None
    if earlier.together is not None:
        each = coo_array(earlier.together)
        size = (len(like.valid), len(like.valid))
        together = csr_array(coo_array((each.data, (item[each.row], item[each.col])), shape=size))
    return replace(like, n_homes=earlier.n_homes, both=both.ravel(), have=tuple(have), itself=itself, together=together)
