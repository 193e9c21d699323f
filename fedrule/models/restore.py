"""A fitted graph method as a saved model, and back: the restored model gives the same scores, bit for bit.

Beside the arrays of every model file (fedrule/models/file.py), a method with evidence saves its other counts:

    counts.patterns.<i>      homes by combination of pattern i of `fedrule.evidence.counts.PATTERNS`, except the first
    counts.together.*        data, indices, indptr: homes with both of two typed rules, sparse [n_valid, n_valid]
    counts.companions.*      cell, homes: how many homes have two relations on the same devices
    counts.rooms.*           how far homes keep rules in one room: the columns of `fedrule.evidence.counts.RoomCounts`

To continue training on homes with other types and relations, the vocabulary is extended. Known entity types and
relations keep their numbers, new ones follow. Parameters of what is known are kept; those of a new type, relation or
typed rule are drawn as for a first training. The predictor keeps its width. Counts are sums over homes, so that those
of earlier and of new homes add up without the earlier homes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np
import torch
from scipy.sparse import coo_array, csr_array

from baselines.registry import build, fewest_parameters, get, listed, missing_extra
from datasets.common.errors import DataError
from datasets.homes import Array, Homes
from datasets.valid import ValidRules
from fedrule.evidence.counts import ROOMS
from fedrule.evidence.statistics import Statistics
from fedrule.methods.graph_method import GraphMethod
from fedrule.models.card import Card, Scale, TrainingRun
from fedrule.models.counts import companion_counts, pairs_of_rules, pattern_counts, room_counts
from fedrule.models.file import SavedModel, check_weights
from fedrule.network.encoders import Parameters
from fedrule.network.options import parameters_depend_on
from fedrule.network.score import GraphModel, Scorer

# What the rows of a parameter stand for, by the beginning of its name.
ROWS = {
    "features": ("theta.self1", "theta.in1", "theta.out1", "theta.bases1", "theta.device"),
    "relations": ("theta.relation_", "phi.relation", "phi.diagonal", "rooms.weight"),
    "items": ("bias.item", "context.rule", "context.candidate"),
    "types": ("context.type", "theta.type_"),
    "halves": ("theta.state", "theta.act"),  # of relations, in the order in which these first have them
}
COLUMNS_ARE_FEATURES = "theta.layer1."  # torch-geometric's layers have them transposed


def saved_model(
    fitted: GraphModel,
    method: GraphMethod,
    counts: Statistics,
    *,
    scale: Scale | None = None,
    trainings: tuple[TrainingRun, ...] = (),
    metrics: Mapping[str, Mapping[str, float]] | None = None,
    versions: Mapping[str, str] | None = None,
) -> SavedModel:
    """The model with its card; `counts` are over its training homes."""
    card = Card(
        method=fitted.name,
        options=asdict(method),
        types=fitted.types,
        relations=fitted.relations,
        scale=scale or Scale(),
        trainings=trainings,
        metrics={protocol: dict(values) for protocol, values in (metrics or {}).items()},
        versions=dict(versions or {}),
    )
    weights = {f"weights.{name}": value.float().numpy() for name, value in fitted.parameters.items()}
    sums = counts.arrays(all_patterns=method.evidence > 0)
    arrays = {"valid.cell": counts.valid.cell, **{f"counts.{name}": array for name, array in sums.items()}}
    return SavedModel(card, weights | arrays)


def restored(saved: SavedModel) -> GraphModel:
    """The fitted model; arrays that do not fit the card are a `DataError`."""
    method = graph_method(saved.card.method, saved.card.options)
    scorer = method.scorer(saved.valid, counts_of(saved) if method.counts_homes else None)
    weights, shapes = saved.weights, _shapes(scorer)
    check_weights(weights, shapes, saved.card)
    parameters = {name: torch.from_numpy(np.array(weights[name])) for name in shapes}
    return GraphModel(method.NAME, scorer, parameters, saved.card.types, saved.card.relations)


def counts_of(saved: SavedModel) -> Statistics:
    """The counts over the training homes; all of them if the method uses evidence."""
    card, arrays, valid = saved.card, saved.arrays, saved.valid
    all_patterns = graph_method(card.method, card.options).evidence > 0
    nobody = Statistics.of_nobody(card.types, card.relations, valid, all_patterns=all_patterns)
    have: tuple[Array, ...] = (np.append(0, arrays["counts.have"]),)
    rooms, companions, together = nobody.rooms, nobody.companions, None
    if all_patterns:
        have = pattern_counts(saved, nobody.patterns)
        rooms, companions = room_counts(saved), companion_counts(saved)
        together = csr_array(pairs_of_rules(saved), shape=(len(valid), len(valid)))
    both = arrays["counts.both"].astype(np.float64)
    n_homes = int(arrays["counts.homes"][0])
    self_rules = arrays["counts.self_rules"]
    return replace(
        nobody,
        n_homes=n_homes,
        both=both,
        have=have,
        self_rules=self_rules,
        rooms=rooms,
        companions=companions,
        together=together,
    )


def graph_method(name: str, options: Mapping[str, object]) -> GraphMethod:
    """A method with these options; one whose models cannot be saved is refused."""
    if not issubclass(get(name), GraphMethod):
        ours = (name for name, at in listed().items() if at.module.startswith("fedrule.") and not missing_extra(name))
        savable = ", ".join(sorted(name for name in ours if issubclass(get(name), GraphMethod)))
        raise DataError(f"{name} is not a graph method, so it cannot be saved; these can: {savable}")
    method = build(name, **options)
    assert isinstance(method, GraphMethod)
    return method


def _shapes(scorer: Scorer) -> dict[str, tuple[int, ...]]:
    """Of all parameters; on the meta device, so that a wrong card allocates no memory."""
    try:
        with torch.device("meta"):
            return {name: tuple(value.shape) for name, value in scorer.initial(torch.Generator()).items()}
    except RuntimeError:
        raise DataError("the options of the card give parameters too large for any memory") from None


def align_vocabulary(card: Card, homes: Homes) -> Homes:
    """The homes in the vocabulary of a model, followed by the types and relations that are new to it."""
    owned, used = (np.unique(column).tolist() for column in (homes.device_type, homes.rules.relation))
    types = dict.fromkeys([*card.types, *(homes.types[number] for number in owned)])
    relations = dict.fromkeys([*card.relations, *(homes.relations[number] for number in used)])
    return homes.with_vocabulary(tuple(types), tuple(relations))


def training_options(saved: SavedModel, options: Mapping[str, object]) -> dict[str, object]:
    """The options of a model with these changed; options that its parameters depend on cannot change.

    Options that follow from others are left out, since these may change.
    """
    card = saved.card
    fixed = parameters_depend_on(get(card.method))
    for name in fixed:
        if name in options and options[name] != card.options[name]:
            raise DataError(
                f"{name} cannot change from {card.options[name]} to {options[name]} in a saved model; leave it out, or "
                "train from scratch"
            )
    width = saved.weights["phi.relation"].shape[1] if "phi.relation" in saved.weights else 0
    kept = card.options | ({"predictor_hidden": width} if width else {})  # 0 would mean: as many as relations
    given = fewest_parameters(get(card.method), card.options)
    kept = {name: value for name, value in kept.items() if name in fixed or name in given}
    return kept | {name: value for name, value in options.items() if name not in fixed}


def merged_counts(saved: SavedModel, train: Homes) -> Statistics:
    """Counts over the homes of a model and over these, which have its vocabulary; valid is what either has."""
    earlier = counts_of(saved)
    n_types, n_relations = len(train.types), len(train.relations)
    known = _moved(earlier.valid, n_types, n_relations)
    valid = ValidRules.of_cells(n_types, n_relations, np.union1d(known, ValidRules.of(train).cell))
    later = Statistics.of(train, valid, all_patterns=earlier.together is not None)
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
            parameters[name][np.arange(len(value)) if kind == "halves" else rows] = value.float()
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
    self_rules = np.zeros_like(like.self_rules)
    self_rules[item] = earlier.self_rules
    n_types_later = like.valid.n_types
    of_pair = np.arange(n_types)[:, None] * n_types_later + np.arange(n_types)
    rooms = replace(like.rooms, **{name: np.zeros_like(getattr(like.rooms, name)) for name in ROOMS})
    for name in ROOMS:
        getattr(rooms, name)[of_pair.ravel() if "types" in name else item] = getattr(earlier.rooms, name)
    together = None
    if earlier.together is not None:
        each = coo_array(earlier.together)
        size = (len(like.valid), len(like.valid))
        together = csr_array(coo_array((each.data, (item[each.row], item[each.col])), shape=size))
    return replace(
        like,
        n_homes=earlier.n_homes,
        both=both.ravel(),
        have=tuple(have),
        self_rules=self_rules,
        rooms=rooms,
        companions=earlier.companions.moved(like.valid, item),
        together=together,
    )
